"""Everything that can be read of one target, side by side, within a budget: a Bundle in memory, redacted and capped.

Each probe runs in its own thread and lays what it found on one desk. One that fails, or is not back in time, leaves a Gap and costs
nobody else anything. What the evidence means is decided elsewhere; nothing here writes to the outside.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from bot.errors import Forbidden, NotFound, WorldError
from bot.evidence import endpoint, gpu, node
from bot.evidence.commands import memory, ray
from bot.evidence.commands.command import known_parameters
from bot.evidence.pod import Container, containers, owners
from bot.evidence.probe import Deadline, Desk, as_json, reason_of, without_managed_fields
from bot.evidence.server import args_text, container_of
from bot.model import Bundle, BundleFile, ProgressLine, Target
from bot.ports import Clock, ClusterReader, Json, Progress, Shells

MAX_CONTAINERS = 20
SERVER_LOG, OTHER_LOG, LAST_LINE = 4 << 20, 512 << 10, 64 << 10  # bytes of one log
MAX_EVENTS = 500


@dataclass(frozen=True, slots=True)
class _Probe:
    """One piece of work. `files` get a Gap when it does not come back; `line` is the progress line that it moves; `work` gives its detail."""

    line: str
    files: tuple[str, ...]
    work: Callable[[], str]


def collect(target: Target, reader: ClusterReader, shells: Shells | None, progress: Progress, *, clock: Clock, budget_s: float = 25) -> Bundle:
    """Reads `target` and gives its Bundle (`path` is "live"). Raises nothing: what could not be read is in `gaps`."""
    desk, deadline = Desk(), Deadline(time.monotonic() + budget_s)
    world = _World(target, reader, shells, desk, deadline)
    started = clock.now()
    _run(_first(world), desk, deadline, progress)
    _run(_second(world), desk, deadline, progress)
    world.close()
    uptime = desk.notes.pop("node_uptime_s", None)
    files = desk.bundle_files()
    about = {
        "schema": 1,
        "target": _described(target),
        "server_container": target.container,
        "collected_at": started.isoformat(),
        "node_boot_time": (started - timedelta(seconds=uptime)).isoformat() if isinstance(uptime, float) else None,
        "cut": sorted(desk.cut),
        "absent": desk.absent,
        "gaps": [{"source": gap.source, "reason": gap.reason, "would_tell": gap.would_tell} for gap in desk.gaps],
        **desk.notes,
    }
    last = Desk()
    last.put("bundle.json", as_json(about))
    everything: dict[str, BundleFile] = {**files, **last.bundle_files()}
    return Bundle("live", everything, tuple(desk.gaps))


def _described(target: Target) -> Json:
    workload = target.workload
    return {
        "cluster": target.cluster,
        "namespace": target.namespace,
        "pod": target.pod,
        "pod_uid": target.pod_uid,
        "container": target.container,
        "node": target.node,
        "gpus": target.gpus,
        "workload": {"api_version": workload.api_version, "kind": workload.kind, "name": workload.name, "uid": workload.uid} if workload else None,
    }


# ---------------------------------------------------------------- the probes


class _World:
    """What the probes of one check share: the target, the ports, and what the first of them learned."""

    def __init__(self, target: Target, reader: ClusterReader, shells: Shells | None, desk: Desk, deadline: Deadline) -> None:
        self.target, self.reader, self.desk, self.deadline = target, reader, desk, deadline
        self.pod: Json = {}
        self.node: Json = {}
        self._shells = shells
        self._shell: node.NodeShell | None = None

    def running(self) -> Container | None:
        """The server's container, when it runs."""
        return next((each for each in containers(self.pod) if each.name == self.target.container and each.state == "running"), None)

    def shell(self) -> node.NodeShell:
        if self._shell is None:
            running = self.running()
            identity = running.id.rpartition("://")[2] if running else ""
            parameters = known_parameters({"pod_uid_glob": self.target.pod_uid.replace("-", "?"), "container_id": identity})
            self._shell = node.NodeShell(self._shells, self.target.node, node.addresses(self.node), parameters, self.deadline)
        return self._shell

    def close(self) -> None:
        if self._shell is not None:
            self._shell.close()


def _first(world: _World) -> list[_Probe]:
    """Pod and node: what all others need to know. Of an endpoint all there is."""
    if endpoint.is_endpoint(world.target):
        return [_Probe(*one) for one in endpoint.probes(world.target, world.reader, world.desk)]
    probes = [_Probe("node", ("node.json",), lambda: _read_node(world))] if world.target.node else []
    if world.target.pod:
        probes.insert(0, _Probe("pod", ("pod.json", "args.txt"), lambda: _read_pod(world)))
    return probes


def _second(world: _World) -> list[_Probe]:
    if endpoint.is_endpoint(world.target):
        return []
    probes = [_Probe("events", ("events.json",), lambda: _read_events(world))]
    if world.target.pod:
        if world.pod:
            probes.append(_Probe("owners", ("workload.json",), lambda: _read_owners(world)))
        probes += _log_probes(world)
        probes += _exec_probes(world)
    if not world.target.node:
        world.desk.none("node.json", "the pod is on no node")
        return probes
    shell = world.shell()
    return [
        *probes,
        _Probe("kernel log", ("kernel.log",), lambda: node.kernel_log(shell, world.desk)),
        _Probe("GPUs", ("nvidia-smi.txt",), lambda: _read_gpus(world, shell)),
        _Probe("node memory", ("node_readings.txt",), lambda: node.readings(shell, world.desk)),
    ]


def _read_pod(world: _World) -> str:
    target, desk = world.target, world.desk
    pod = world.reader.get("v1", "Pod", target.namespace, target.pod)
    if target.pod_uid and pod["metadata"].get("uid") != target.pod_uid:
        desk.gap("pod.json", "the pod was replaced by another of the same name meanwhile")
        return "replaced"
    world.pod = pod
    desk.put_json("pod.json", without_managed_fields(pod))
    words = args_text(container_of(pod, target.container))
    if words:
        desk.put("args.txt", words.encode("utf-8", "replace"))
    else:
        desk.none("args.txt", "the container has neither command nor arguments of its own; its image decides")
    return str((pod.get("status") or {}).get("phase") or "")


def _read_node(world: _World) -> str:
    world.node = world.reader.get("v1", "Node", "", world.target.node)
    world.desk.put_json("node.json", without_managed_fields(world.node))
    return world.target.node


def _read_owners(world: _World) -> str:
    chain = owners(world.pod, world.reader)
    if chain.objects:
        world.desk.put_json("workload.json", {"apiVersion": "v1", "kind": "List", "items": [without_managed_fields(item) for item in chain.objects]})
    elif not chain.root:
        world.desk.none("workload.json", "nobody owns the pod")
    if chain.stopped:
        world.desk.gap("workload.json", chain.stopped)
    return str(chain.root or "")


def _read_events(world: _World) -> str:
    """Of the pod, the object that a person edits, and the node (the node's stand in the namespace `default`)."""
    target = world.target
    wanted = [("Pod", target.pod, target.namespace), ("Node", target.node, "default")]
    if target.workload and target.workload.kind != "Pod":
        wanted.insert(1, (target.workload.kind, target.workload.name, target.namespace))
    found: list[Json] = []
    for kind, name, namespace in wanted:
        if name:
            found += _events_of(world, kind, name, namespace)
    found = sorted(found, key=_when)[-MAX_EVENTS:]
    world.desk.put_json("events.json", {"apiVersion": "v1", "kind": "List", "items": [without_managed_fields(item) for item in found]})
    return f"{len(found)}"


def _events_of(world: _World, kind: str, name: str, namespace: str) -> Sequence[Json]:
    selector = f"involvedObject.kind={kind},involvedObject.name={name}"
    try:
        items = world.reader.list("v1", "Event", namespace, field_selector=selector, limit=MAX_EVENTS)
    except Forbidden as wrong:
        if kind == "Pod":
            raise
        world.desk.gap("events.json", f"events of {kind} {name}: {reason_of(wrong)}")
        return ()
    uid = world.target.pod_uid
    return [item for item in items if kind != "Pod" or not uid or item.get("involvedObject", {}).get("uid", uid) == uid]


def _when(event: Json) -> str:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"), event.get("firstTimestamp"))
    return str(next((each for each in times if each), ""))


def _log_probes(world: _World) -> Iterable[_Probe]:
    for container in list(containers(world.pod))[:MAX_CONTAINERS] or [Container(world.target.container, "main", id="unknown", last_id="unknown too")]:
        if container.name:
            files = _log_names(world, container)
            yield _Probe("logs", files[:1], lambda container=container, files=files: _read_logs(world, container, *files))  # type: ignore[misc]


def _log_names(world: _World, container: Container) -> tuple[str, str]:
    if container.name == world.target.container:
        return "container.log", "previous.log"
    return f"logs/{container.name}.log", f"logs/{container.name}.previous.log"


def _read_logs(world: _World, container: Container, now: str, before: str) -> str:
    """Current and previous log. A kubelet serves the same ended container as both while it waits for its restart: then it is read once, unless it was started
    again between our look at the pod and our reading."""
    target, desk = world.target, world.desk
    limit = SERVER_LOG if container.name == target.container else OTHER_LOG
    current = b""
    if container.has_log:
        try:
            piece = world.reader.log(target.namespace, target.pod, container.name, limit_bytes=limit)
            current = piece.data
            desk.put(now, piece.data, cut=piece.cut_start or piece.cut_end)
        except WorldError as wrong:
            desk.gap(now, reason_of(wrong), f"what the container {container.name} printed")
    else:
        desk.none(now, "the container has not started")
    if not container.has_previous and not (container.last_id and _began_anew(world, container, current)):
        desk.none(before, "the container that ended is the one in the current log" if container.last_id else "no earlier container ended")
        return container.name
    try:
        piece = world.reader.log(target.namespace, target.pod, container.name, previous=True, limit_bytes=limit)
    except NotFound as wrong:
        desk.none(before, str(wrong))
    except WorldError as wrong:
        desk.gap(before, reason_of(wrong), f"what the container {container.name} printed before it was restarted")
    else:
        if piece.data == current and current:
            desk.none(before, "the same as the current log")
        else:
            desk.put(before, piece.data, cut=piece.cut_start or piece.cut_end)
    return container.name


def _began_anew(world: _World, container: Container, current: bytes) -> bool:
    """Whether the log of the container that ended is no longer the current one: its last line tells, so that it need not be read twice."""
    try:
        piece = world.reader.log(world.target.namespace, world.target.pod, container.name, previous=True, tail_lines=1, limit_bytes=LAST_LINE)
    except WorldError:
        return False
    return bool(piece.data) and not current.rstrip().endswith(piece.data.rstrip())


def _exec_probes(world: _World) -> list[_Probe]:
    """Only a container that runs can be asked; of one that does not, nothing is missing that anybody could have."""
    target = world.target
    if not world.running():
        world.desk.none("exec", "the container does not run")
        return []
    shell = node.PodShell(world.reader, target, world.deadline)
    wanted = list(memory.IN_POD)
    container = container_of(world.pod, target.container)
    if "ray" in f"{container.get('image')} {container.get('command')} {container.get('args')}".lower():
        wanted.append(ray.STATUS)
    return [_Probe("container", ("exec",), lambda: shell.collect(wanted, world.desk))]


def _read_gpus(world: _World, shell: node.NodeShell) -> str:
    """On the node; from inside the container where the node is out of reach."""
    said = gpu.on_node(shell, world.desk)
    if shell.closed_to_us and world.target.gpus and world.running():
        return gpu.in_pod(node.PodShell(world.reader, world.target, world.deadline), world.desk)
    return said


# ---------------------------------------------------------------- side by side


def _run(probes: Sequence[_Probe], desk: Desk, deadline: Deadline, progress: Progress) -> None:
    """Starts all, waits until all are back or the time is over. Threads that are not back are left alone: they end by their own time-outs."""
    board = _Board(probes, progress)
    threads = []
    for probe in probes:
        thread = threading.Thread(target=_guarded, args=(probe, desk, board), name=f"probe {probe.line}", daemon=True)
        threads.append((probe, thread))
        thread.start()
    for probe, thread in threads:
        thread.join(max(0.0, deadline.at - time.monotonic()))
        if thread.is_alive():
            board.failed(probe, "not back in time")
            for file in probe.files:
                desk.gap(file, "not read in time")


def _guarded(probe: _Probe, desk: Desk, board: "_Board") -> None:
    """One collector. The only broad except of the reading side: a defect in one probe must not cost the others' evidence."""
    try:
        detail = probe.work()
    except WorldError as wrong:
        board.failed(probe, str(wrong))
        for file in probe.files:
            desk.gap(file, reason_of(wrong))
    except Exception as wrong:  # noqa: BLE001 - the one broad except around one collector: it becomes a Gap
        board.failed(probe, type(wrong).__name__)
        for file in probe.files:
            desk.gap(file, f"the collector failed: {type(wrong).__name__}: {str(wrong)[:200]}")
    else:
        board.done(probe, detail)


class _Board:
    """Progress lines: several probes of one line are counted."""

    def __init__(self, probes: Sequence[_Probe], progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._all = {line: sum(probe.line == line for probe in probes) for line in dict.fromkeys(probe.line for probe in probes)}
        self._done = dict.fromkeys(self._all, 0)
        self._wrong: dict[str, str] = {}
        for line in self._all:
            progress.report(ProgressLine(line, "running"))

    def done(self, probe: _Probe, detail: str) -> None:
        with self._lock:
            self._done[probe.line] += 1
            self._report(probe.line, detail)

    def failed(self, probe: _Probe, why: str) -> None:
        with self._lock:
            self._done[probe.line] += 1
            self._wrong[probe.line] = why
            self._report(probe.line, why)

    def _report(self, line: str, detail: str) -> None:
        done, wanted = self._done[line], self._all[line]
        state = "running" if done < wanted else "failed" if line in self._wrong else "done"
        said = self._wrong.get(line) or (f"{done} of {wanted}" if wanted > 1 else detail)
        self._progress.report(ProgressLine(line, state, said[:200]))
