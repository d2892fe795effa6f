"""Which of the kernel's kills belongs to the incident, and whose limit it was.

Matched by container id, then by pod uid, in the control group paths; without a pod, the newest kill of a server's process, else the newest.
Facts out: `kernel.kill_matches_container`, `kernel.limit` (container | node | other) and the numbers of that kill. A kill of another
container is counted and is no proof for this one.
"""

import re

from bot.diagnosis.host_container import choose
from bot.diagnosis.host_records import Record, flag, number, records, text
from bot.facts import Facts
from bot.model import Fact, Value

SERVER_PROCESS = re.compile(
    r"vllm|^python3?(?:\.\d+)?$|^ray::|^pt_main_thread|sglang|^EngineCore|^Worker|tritonserver|text-generation|^torchrun|^mpirun|^deepspeed|^api_server",
    re.IGNORECASE,
)
_CHILD = re.compile(r"^(?:VLLM::(?:EngineCor|Worker|DPCoord)|EngineCore|Worker_|ray::|sglang::)")  # titles that only started processes carry
_OF_CONTAINER = ("container", "pod", "docker", "other", "unknown")  # limits below which a first process stands for all; systemd ends the rest of a unit
_OWN = ("container", "pod", "docker", "unit", "user", "other", "unknown")  # a limit of the workload itself
_NODE = ("node", "kubepods", "qos", "user-space", "root")
_ANCESTOR = ("kubepods", "qos")
DAY = 86400
_KILLED = ("killed", "child_sigkill", "process_died")  # kinds of a log's root that a kill from outside leads to
NEAR, FAR = 15, 120  # seconds between a kill and an end that are the same thing, and that are not


def derive(facts: Facts) -> Facts:
    """Adds the kill that matters to `kernel.*`."""
    kills = records(facts, "kernel.kill")
    if flag(facts, "kernel.looked") is None:
        return facts
    chosen, match = _match(facts, kills)
    own = chosen is not None and match in ("container", "pod", "name", "time", "size")
    found = [Fact("kernel.kill_matches_container", own, chosen.place("victim_line", "scope") if chosen else None)]
    if chosen is not None:
        found += _facts(chosen, match, facts)
    found.append(Fact("kernel.other_kills", len(kills) - (1 if own else 0), kills[-1].place("scope") if kills else None))
    found += _xid(facts) + _pids(facts)
    return facts.with_facts(found)


def _match(facts: Facts, kills: list[Record]) -> tuple[Record | None, str]:
    """The kill that matters and how it was matched: container | pod | name (no pod to compare with) | node (the machine ran out, somebody else was taken) | none."""
    if not kills:
        return None, "none"
    containers = records(facts, "pod.container")
    uids = {text(facts, "pod.uid"), text(facts, "pod.config_hash")} - {""} or _told_uids(facts)
    if not containers and not uids:
        ours = [kill for kill in kills if SERVER_PROCESS.search(_victim(kill))]
        newest = _told_in_full(ours or kills)
        serves = flag(facts, "log.looked") is True and text(facts, "log.server") in ("vllm", "sglang") and text(facts, "failure.kind") not in _KILLED
        stranger = not ours and serves and newest.text("level") not in _NODE
        return newest, "stranger" if stranger else "earlier" if _before_the_unit_ended(newest, facts) else "name"
    chosen = choose(facts, containers) if containers else Record(0)
    ids = {chosen.text("id"), chosen.text("ended_id")} - {""}
    others = {container.text(name) for container in containers for name in ("id", "ended_id") if container is not chosen} - {""}
    for kill in reversed(kills):
        if kill.text("container_id") in ids:
            return kill, "container"
    for kill in reversed(kills):
        if uids & {kill.text("pod_uid")} and kill.text("container_id") not in others:
            return kill, "earlier" if _ended_otherwise(chosen, kill, facts) else "pod"
    for kill in reversed(kills):
        if uids & {kill.text("pod_uid"), kill.text("limit_pod_uid")} or kill.text("container_id") in others:
            return kill, "sibling"
    return _elsewhere(kills, chosen, facts)


def _told_in_full(kills: list[Record]) -> Record:
    """The newest kill; where several went in one sweep, the one of them that has a report: the kernel writes it for the first and leaves it out for the
    next ones, which then show neither group nor limit."""
    newest = kills[-1]
    for kill in reversed(kills):
        if _line(kills[-1]) - _line(kill) > NEAR or _victim(kill) != _victim(newest):
            break
        if "cgroup" in kill or "limit" in kill:
            return kill
    return newest


def _line(kill: Record) -> int:
    place = kill.place("victim_line", "scope")
    return place.line if place and place.line else 0


def _told_uids(facts: Facts) -> set[str]:
    """The pod of the events, where the pod itself was not read."""
    return {event.text("uid") for event in records(facts, "events") if event.text("object") == "Pod"} - {""}


def _moment(record: Record, facts: Facts) -> float | None:
    """When the kernel wrote it, in seconds since 1970; None where its clock cannot be told."""
    moment, boot, since = record.number("at_s"), number(facts, "bundle.booted_at"), record.number("boot_s")
    return boot + since if moment is None and boot is not None and since is not None else moment


def _apart(container: Record, kill: Record, facts: Facts) -> float | None:
    """Seconds between the kill and the container's last end; None when one of the two times is not known."""
    finished, moment = container.number("finished_at"), _moment(kill, facts)
    return None if moment is None or finished is None else abs(finished - moment)


def _long_before(kill: Record, container: Record, facts: Facts) -> bool:
    """Whether the kill is known to be of another time than the container's last end, or than its life where it has not ended."""
    apart, moment, since = _apart(container, kill, facts), _moment(kill, facts), container.number("running_since")
    if apart is not None:
        return apart > FAR and not (since is not None and moment is not None and moment >= since)
    return moment is not None and since is not None and since - moment > FAR


def _ended_otherwise(container: Record, kill: Record, facts: Facts) -> bool:
    """Whether the container's last end is known to be another one than this kill: an older start of it was killed then, and the last one ended by itself."""
    if not kill.text("container_id") or "ended_id" not in container:
        return False
    apart = _apart(container, kill, facts)
    if apart is not None and apart > FAR:
        return True
    return container.number("exit_code") not in (None, 137) and container.text("reason") != "OOMKilled"


def _elsewhere(kills: list[Record], container: Record, facts: Facts) -> tuple[Record | None, str]:
    """A kill of the whole machine says something of every pod on it; a kill inside another container does not. One without any path is ours when it was
    at the time of our end by SIGKILL."""
    blind = [kill for kill in kills if not kill.text("cgroup") and not kill.text("container_id")]
    if container.number("exit_code") == 137:
        timely = [kill for kill in blind if (apart := _apart(container, kill, facts)) is not None and apart <= NEAR]
        if timely:
            return timely[-1], "time"
    sized = [kill for kill in blind if _fills(kill, container, facts)]
    if sized:
        return sized[-1], "size"
    whole = [kill for kill in kills if kill.text("level") in _NODE and not _long_before(kill, container, facts)]
    if whole:
        return whole[-1], "node"
    return (blind[-1], "unplaced") if blind else (None, "none")


def _before_the_unit_ended(kill: Record, facts: Facts) -> bool:
    """Whether the unit of which systemd tells ended at another time than this kill, by the same machine's clock."""
    ended, moment = number(facts, "unit.ended_local_s"), kill.number("local_s")
    return ended is not None and moment is not None and abs(ended - moment) > FAR


def _fills(kill: Record, container: Record, facts: Facts) -> bool:
    """Whether a kill for a limit, of which no path is known, took a process that filled just this container's limit, while it ran."""
    limit, held = container.number("memory_limit"), kill.number("anon")
    if kill.text("scope") != "memcg" or not limit or not held or not 0.9 * limit <= held <= limit:
        return False
    moment, ended, started = _moment(kill, facts), container.number("finished_at"), container.number("running_since")
    return moment is None or (started is not None and moment >= started) or (ended is not None and moment <= ended + FAR)


def _facts(kill: Record, match: str, facts: Facts) -> list[Fact]:
    found: list[Fact] = []

    def add(name: str, value: Value | None, *near: str) -> None:
        if value not in (None, ""):
            found.append(Fact(f"kernel.{name}", value, kill.place(*near) or kill.place("scope")))

    level = kill.text("level")
    add("match", match, "scope")
    add("level", level, "level")
    add("limit", "node" if level in _NODE else "container" if level in _OWN else "other", "level")
    add("ancestor", level in _ANCESTOR, "level")
    add("by", kill.text("by"), "by")
    add("victim", _victim(kill), "victim_line")
    add("victim_is_server", bool(SERVER_PROCESS.search(_victim(kill))), "victim_line")
    add("why", kill.text("why"), "why")
    add("invoker", kill.text("invoker"), "invoker")
    found.append(Fact("kernel.group_kill", kill.flag("group") or False, kill.place("group")))  # no line says that nothing else was killed
    add("order", _whole(kill.number("order")), "order")
    found += _limit(kill, match, facts)
    add("usage_bytes", _whole(kill.number("usage")), "usage")
    add("child_killed", _child(kill, match, facts), "victim_line")
    add("largest", kill.text("largest"), "largest")
    add("pod_limit_by_server", level == "pod" and _server_holds_most(kill), "largest")
    found += _shares(kill)
    return found


def _limit(kill: Record, match: str, facts: Facts) -> list[Fact]:
    """The limit that was hit: the kernel's number, else the container's own where it is known to be that one."""
    if "limit" in kill:
        return [Fact("kernel.limit_bytes", int(kill.number("limit") or 0), kill.place("limit"))]
    if match != "container" or kill.text("level") != "container":
        return []
    container = choose(facts, records(facts, "pod.container"))
    limit = container.number("memory_limit")
    return [Fact("kernel.limit_bytes", int(limit), container.place("memory_limit"))] if limit else []


def _victim(kill: Record) -> str:
    """The killed process; of a whole group that was ended, the last part of the group's path."""
    return kill.text("task") or (kill.text("cgroup").rstrip("/").rpartition("/")[2] if kill.text("by") != "kernel" else "")


def _server_holds_most(kill: Record) -> bool:
    """Whether the kernel took a small process although a server's process beside it holds the larger part."""
    largest, size, whole = kill.text("largest"), kill.number("largest_rss"), kill.number("tasks_rss")
    if not largest or not size or not whole:
        return False
    return bool(SERVER_PROCESS.search(largest)) and size >= whole / 4 and _resident(kill) < size / 8


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _resident(kill: Record) -> float:
    return (kill.number("anon") or 0) + (kill.number("shmem") or 0)


def _shares(kill: Record) -> list[Fact]:
    """What the memory was: of the victim, in files that could be dropped, in shared memory that could not."""
    found = []
    limit = kill.number("limit") or kill.number("usage")
    anon = _resident(kill)
    if anon:
        found.append(Fact("kernel.victim_bytes", int(anon), kill.place("anon")))
    if limit and anon:
        found.append(Fact("kernel.victim_share", round(anon / limit, 3), kill.place("anon")))
    if limit and "stat_file" in kill:
        shared = kill.number("stat_shmem") or 0
        found.append(Fact("kernel.shared_share", round(shared / limit, 3), kill.place("stat_shmem", "stat_file")))
        found.append(Fact("kernel.cache_share", round(max(0.0, (kill.number("stat_file") or 0) - shared) / limit, 3), kill.place("stat_file")))
    return found


def _child(kill: Record, match: str, facts: Facts) -> bool | None:
    """Whether a child was killed while the container's first process lived on: the same container still runs, or ended by itself with another code."""
    if kill.flag("group"):
        return False
    containers = records(facts, "pod.container")
    if match == "name" or (match == "pod" and not containers):
        return _child_by_record(kill, facts)
    if match == "size" and containers:
        container = choose(facts, containers)
        return True if container.text("state") == "running" and not container.number("restarts") else None
    if match not in ("container", "pod") or not containers:
        return None
    container = choose(facts, containers)
    if container.text("state") == "running" and container.text("id") == kill.text("container_id") and kill.text("container_id"):
        return True
    code = container.number("exit_code")
    if code is not None and kill.text("container_id") in (container.text("ended_id"), ""):
        return code != 137
    return None


def _child_by_record(kill: Record, facts: Facts) -> bool | None:
    """The same from the kernel's record alone: one process was taken, and it was not the first of its container. None where others went with it, or
    where the record does not show who was there."""
    if kill.text("level") not in _OF_CONTAINER or _near_another(kill, facts):
        return None
    pid, first = kill.number("pid"), kill.number("first_pid")
    if pid is not None and first is not None:
        return pid != first
    return True if _CHILD.match(kill.text("task")) else None


def _near_another(kill: Record, facts: Facts) -> bool:
    """Whether another process of the same group, or of one that is not shown, was killed in the lines beside it: a group kill whose headline was
    filtered away, or one after another."""
    line = _line(kill)
    beside = [other for other in records(facts, "kernel.kill") if other.index != kill.index and other.text("cgroup") in ("", kill.text("cgroup"))]
    return any(_line(other) and abs(_line(other) - line) <= NEAR for other in beside)


def _of_this_run(xid: Record, container: Record, facts: Facts) -> bool:
    """Whether a fault was not before this run. A broken card stays broken for a while; what another program did to it is over when that program is."""
    started, moment = container.number("started_at"), _moment(xid, facts)
    if started is None or moment is None:
        return True
    return moment >= started - (DAY if xid.text("meaning") in ("hardware", "capacity") else FAR)


def _pids(facts: Facts) -> list[Fact]:
    """Whether the limit of processes that a fork met is the incident's own; without a pod to compare with, it is taken for it."""
    refused = facts.fact("kernel.pids_refused")
    if refused is None:
        return []
    containers = records(facts, "pod.container")
    chosen = choose(facts, containers) if containers else Record(0)
    uid = text(facts, "pod.uid")
    ours = {chosen.text("id"), chosen.text("ended_id"), uid, uid.replace("-", "_")} - {""}
    path = str(refused.value)
    return [Fact("kernel.pids_refused_here", not ours or any(name in path for name in ours), refused.place)]


def _xid(facts: Facts) -> list[Fact]:
    """The worst GPU fault that the driver wrote and that can concern this run."""
    containers = records(facts, "pod.container")
    chosen = choose(facts, containers) if containers else Record(0)
    worst = next((xid for xid in records(facts, "kernel.xid") if _of_this_run(xid, chosen, facts)), None)
    if worst is None:
        return []
    code = worst.number("code")
    return [Fact("kernel.xid_code", int(code or 0), worst.place("code")), Fact("kernel.xid_kind", worst.text("meaning"), worst.place("code"))]
