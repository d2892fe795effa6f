"""Which container of the pod is the incident, and what became of it.

Facts out: `container.<name>` of that one. A pod tells of many containers; the one that matters is the one that was killed for memory, else the
one that ended worst, and a server before its helpers. An older end of another container does not hide a newer one.
"""

import re

from bot.diagnosis.host_records import Record, number, records, text
from bot.facts import Facts
from bot.model import Fact, Value
from bot.units import GIB

# A router, a proxy or Ray's head keeps tables, not models: what fills this much of host memory grows and will fill any limit.
OLD = 3 * 86400  # seconds of quiet running after which an end before them is history
LIGHT_NEEDS = 8 * GIB
OF_KILLED, OF_RECOVERED = 95, 50  # weights: of a server that was killed for memory; of one that is ready again while another container is not
_LIGHT_PROCESS = re.compile(r"^(?:gcs_server|raylet|dashboard|envoy|nginx|haproxy|.*-router|.*_router|litellm|redis-server|node)$")
# The words of runc (of both ages), crun, docker and CRI-O; the last two refuse a limit below its minimum before anything runs.
_NO_ROOM_TO_START = re.compile(
    r"container init was OOM-killed|possibly OOM-killed|memory limit too low\?|memory limit could be too low|set memory limit \d+ too low|Minimum memory limit allowed is \d"
    r"|unable to set memory limit to \d+|to (?:\S+/)?memory\.(?:memsw\.)?limit_in_bytes: .{0,400}device or resource busy",
    re.IGNORECASE | re.DOTALL,
)
_WAITS_IN_ORDER = ("", "PodInitializing", "ContainerCreating")  # what a container says that waits for others; any other word is trouble of its own
_HELPER_KILLED = re.compile(r"(?:hook|nvidia-container-cli|ldconfig).{0,300}(?:exit status 137|signal 9\b|signal: killed)", re.DOTALL)
_INIT_GONE = re.compile(r"(?:read|write) init-p: (?:connection reset by peer|broken pipe)|final child's pid from pipe caused[:\s\\\"]{1,6}EOF")
INIT_NEEDS = GIB // 16  # runc's first process holds a copy of runc (CVE-2019-5736) and more; before 1.0 it says only that the pipe to it broke
HELPER_NEEDS = GIB // 2  # a helper of the runtime counts to the container's limit, and needs far less than this
_GROUPS = ("container.",)
_SAME_NAME = (
    "name", "exit_code", "signal", "reason", "message", "memory_limit", "memory_request", "cpu_limit", "cpu_request", "gpus", "restarts", "lifetime_s", "state", "ready",
    "waiting_reason", "waiting_message", "shm_volume", "shm_limit", "shell", "waits_only", "looks", "end", "kind", "finished_at", "started_at", "image", "started", "gpu_resource", "prestop_s",
)  # fmt: skip
_SIZES = {"memory_limit": "memory_limit_bytes", "memory_request": "memory_request_bytes", "shm_limit": "shm_limit_bytes"}
_PROBES = tuple(f"{probe}_{what}" for probe in ("startup", "liveness", "readiness") for what in ("probe", "timeout_s", "budget_s", "failures", "period_s", "port"))


def derive(facts: Facts) -> Facts:
    """Adds `container.*` when a pod was read."""
    containers = records(facts, "pod.container")
    if not containers:
        return facts.with_facts(_replaced(facts))
    chosen = choose(facts, containers)
    found = [
        Fact(f"container.{_SIZES.get(name, name)}", chosen.facts[name].value, chosen.facts[name].place) for name in (*_SAME_NAME, *_PROBES) if name in chosen
    ]
    place = chosen.place("name")

    def add(name: str, value: Value | None, *near: str) -> None:
        if value is not None:
            found.append(Fact(f"container.{name}", value, chosen.place(*near) or place))

    add("role", role(chosen, containers, text(facts, "bundle.server_container")), "name")
    add("running", chosen.text("state") == "running", "state")
    add("never_started", _never_started(chosen), "waiting_reason", "state")
    add("ended", "exit_code" in chosen, "exit_code")
    add("started_again", chosen.text("end") == "last", "end")
    add("crash_looping", chosen.text("waiting_reason") == "CrashLoopBackOff" or (chosen.number("restarts") or 0) >= 3, "waiting_reason", "restarts")
    said = _no_room_to_start(chosen)
    add("start_oom", said is not None or None, said or "name")
    add("others", len(containers) - 1, "name")
    add("after_work_s", _after_work(chosen, containers), "finished_at", "exit_code")
    since, now = chosen.number("running_since"), _now(facts)
    if since is not None and now is not None and "exit_code" in chosen:
        quiet = int(max(0, now - since))
        add("quiet_days", quiet // 86400, "running_since")
        add("end_is_old", quiet >= OLD and chosen.flag("ready") is True, "running_since")
    limit, request = chosen.number("memory_limit"), chosen.number("memory_request")
    if limit:
        add("limit_over_request", round(limit / request, 2) if request else None, "memory_limit")
        add("large_for_its_kind", _light(chosen, facts) and limit >= LIGHT_NEEDS, "memory_limit")
    return facts.with_facts(found, _GROUPS if "pod." in facts.looked else ())


def _after_work(chosen: Record, containers: list[Record]) -> int | None:
    """Seconds from the end of the pod's work to the end of this helper; None unless all others of the pod had ended before it, with code 0."""
    others = [other for other in containers if other is not chosen and other.text("kind") == "main"]
    ends = [other.number("finished_at") for other in others if other.text("state") == "terminated" and other.number("exit_code") == 0]
    finished, last = chosen.number("finished_at"), max((end for end in ends if end is not None), default=None)
    if not others or len(ends) < len(others) or finished is None or last is None or finished < last:
        return None
    return int(finished - last)


def _no_room_to_start(chosen: Record) -> str | None:
    """Where it is said that the limit was too small even for what the runtime does before the program begins; None where nothing says so."""
    limit = chosen.number("memory_limit")
    small = limit is not None and 0 < limit <= HELPER_NEEDS
    tiny = small and limit is not None and limit <= INIT_NEEDS
    for name in ("waiting_message", "message"):
        words = chosen.text(name)[:4000]
        if _NO_ROOM_TO_START.search(words) or (small and _HELPER_KILLED.search(words)) or (tiny and _INIT_GONE.search(words)):
            return name
    return None


def _now(facts: Facts) -> float | None:
    """When the evidence was collected, as well as that can be told: the newest event is not older than an hour."""
    return number(facts, "bundle.collected_at") or number(facts, "events.newest_at")


def _replaced(facts: Facts) -> list[Fact]:
    """How a container ended that no pod was read of: an event keeps it (KubeRay quotes it when it replaces a pod), or docker does."""
    event = next((event for event in records(facts, "events") if "exit_code" in event), None)
    if event is None:
        ended, limit = facts.fact("docker.exit_code"), facts.fact("args.container_memory_bytes")
        if number(facts, "docker.memory_limit_bytes"):
            limit = facts.fact("docker.memory_limit_bytes")
        return [
            *([Fact("container.exit_code", ended.value, ended.place), Fact("container.ended", True, ended.place)] if ended else []),
            *([Fact("container.memory_limit_bytes", limit.value, limit.place)] if limit else []),
        ]
    code, reason, place = int(event.number("exit_code") or 0), event.text("end_reason"), event.place("exit_code")
    found = [Fact("events.replaced_end", f"{code} {reason}".strip(), place), Fact("container.exit_code", code, place), Fact("container.ended", True, place)]
    return found + ([Fact("container.reason", reason, place)] if reason else [])


def _light(chosen: Record, facts: Facts) -> bool:
    """Whether the program keeps tables, not models."""
    if chosen.text("looks") in ("server", "gpu") or (chosen.number("gpus") or 0) > 0:
        return False
    return chosen.text("looks") in ("light", "sidecar") or bool(_LIGHT_PROCESS.match(text(facts, "process.largest")))


def _never_started(container: Record) -> bool:
    return container.text("state") == "waiting" and "exit_code" not in container


def server(containers: list[Record], named: str = "") -> Record | None:
    """The container that serves: the one that whoever collected named, else by its program, its GPU, else the first main one that is no helper."""
    for container in containers:
        if named and container.text("name") == named:
            return container
    main = [container for container in containers if container.text("kind") == "main"]
    for looks in ("server", "gpu", "light", "plain", "driver"):
        for container in main:
            if container.text("looks") == looks:
                return container
    return main[0] if main else None


def role(container: Record, containers: list[Record], named: str = "") -> str:
    """server | sidecar | init."""
    kind = container.text("kind")
    if kind == "init":
        return "init"
    if kind in ("sidecar", "ephemeral"):
        return "sidecar"
    if (container.number("gpus") or 0) > 0 or container.text("looks") == "server":
        return "server"  # one of several: prefill and decode, two models in a pod
    return "server" if container is server(containers, named) else "sidecar"


def choose(facts: Facts, containers: list[Record]) -> Record:
    """The container that is the incident."""
    killed = _killed_ids(facts)
    main = server(containers, text(facts, "bundle.server_container"))
    evicted = text(facts, "pod.evicted_container")
    broken = any(container.flag("ready") is False for container in containers if container.text("kind") != "init")

    def weight(container: Record) -> int:
        found = _weight(container, container is main, killed)
        return min(found, OF_RECOVERED) if broken and container.flag("ready") is True and found < OF_KILLED else found

    return max(containers, key=lambda container: (container.text("name") == evicted, weight(container), container is main, -container.index))


def _killed_ids(facts: Facts) -> set[str]:
    """Containers in which the kernel killed for a limit of their own or their pod's."""
    return {
        kill.text("container_id")
        for kill in records(facts, "kernel.kill")
        if kill.text("level") in ("container", "pod", "kubepods", "qos") and kill.text("container_id")
    }


def _weight(container: Record, serves: bool, killed: set[str]) -> int:
    """How much an end matters. A helper that was killed for memory matters less than a server that died, and more than one that went on."""
    code, reason = container.number("exit_code"), container.text("reason")
    matters = serves or container.text("kind") == "init"
    if killed & {container.text("id"), container.text("ended_id")} - {""}:
        return 100 if matters else 63
    if reason == "OOMKilled":
        return OF_KILLED if matters else 62
    weight = 0
    if code == 137:
        weight = 80
    elif code in (132, 134, 135, 136, 139):
        weight = 75
    elif code is not None and code not in (0, 143):
        weight = 65
    elif code == 143:
        weight = 40
    elif code == 0 and container.text("kind") != "init":
        weight = 10
    if weight and not serves and container.text("kind") != "init":
        weight -= 5
    if container.text("kind") == "init" and container.text("state") == "terminated" and code == 0:
        return 0
    return weight + (5 if container.text("waiting_reason") not in _WAITS_IN_ORDER else 0)
