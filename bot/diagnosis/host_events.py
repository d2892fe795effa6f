"""Which Kubernetes events belong to the incident: probe kills, stops, evictions, drains, scheduling, the loss of the node.

Facts out: `events.<name>` and `termination.<name>` (the order of stop, grace period and end). Readiness alone kills nobody. An event of
another container is left out; one of the node counts for every pod on it.
"""

import re

from bot.diagnosis.host_kernel import SERVER_PROCESS
from bot.diagnosis.host_records import Record, number, records, text
from bot.facts import Facts
from bot.model import Fact, Place, Value

_MEMORY_VOLUME = re.compile(r"shm|shared-?mem|tmpfs|ramdisk|ram-?disk", re.IGNORECASE)
_NODE_COMES_S = 900  # seconds that the cluster autoscaler waits for a node before it gives it up (max-node-provision-time)
NEAR = 3  # seconds that clocks of kubelet and runtime differ by
BEFORE, AFTER = 120, 60  # seconds before and after an end in which a kill that the node reports can be the one of that end
LONG_AFTER = 600  # seconds after an end in which a reboot of its node can still be what ended it
_REBOOTS = ("node-rebooted", "node-shutdown")
_LASTING = ("gpu-fault", "kernel-fault")
_FILLS = (0.85, 1.02)  # of a limit: what the killed processes held when it was hit
_NODE_KILLS = ("system-oom", "kernel-kill")
_NODE_RECORDS = ("NodeClaim", "Machine", "NodePool")  # what makes nodes keeps records of its own
_NODE_KINDS = (
    "system-oom",
    "kernel-kill",
    "node-not-ready",
    "node-pressure",
    "disk-pressure",
    "node-rebooted",
    "node-shutdown",
    "interrupted",
    "node-lost",
    "drain",
    "gpu-fault",
    "kernel-fault",
)


def derive(facts: Facts) -> Facts:
    """Adds `events.*` of the incident and `termination.*`."""
    events = _standing([event for event in records(facts, "events") if _ours(event, facts)])
    found: list[Fact] = []
    for kind in _NODE_KINDS:
        event = next((event for event in events if event.text("kind") == kind and _bears_on_this_end(kind, event, facts)), None)
        if event is not None:
            found.append(Fact(f"events.{kind.replace('-', '_')}", event.text("scope") or True, event.place("kind")))
    found += _kills_beside(events, facts)
    found += _probes(events, facts)
    found += _named(events)
    found += _medium(events, facts)
    found += _scheduler(events, facts)
    found += _termination(events, facts)
    return facts.with_facts(found, ("termination.",) if found and "pod." in facts.looked else ())


def _bears_on_this_end(kind: str, event: Record, facts: Facts) -> bool:
    """Whether what befell the node can have to do with the incident: not before the start that ended, and a reboot not long after it either. A broken card or
    kernel stays broken."""
    if kind in _NODE_KILLS:
        return _of_this_end(event, facts)
    finished, first = number(facts, "container.finished_at"), event.number("first_at") or event.number("last_at")
    after = kind in _REBOOTS and finished is not None and first is not None and first > finished + LONG_AFTER
    return kind in _LASTING or not (after or _before_its_start(event, facts))


def _standing(events: list[Record]) -> list[Record]:
    """Without evictions that were taken back, and refusals of the scheduler before it found a node."""
    over = {"taint-eviction": "taint-cancelled", "unschedulable": "scheduled", "no-scale-up": "scheduled", "scale-up": "scheduled"}
    ended: dict[tuple[str, str], float] = {}
    for event in events:
        if event.text("kind") in over.values():
            key = event.text("kind"), event.text("uid") or event.text("name")
            ended[key] = max(ended.get(key, -1), event.number("last_at") or 0)

    def stands(event: Record) -> bool:
        end = over.get(event.text("kind"), "")
        return (event.number("last_at") or 0) > ended.get((end, event.text("uid") or event.text("name")), -1)

    return [event for event in events if event.text("kind") not in over or stands(event)]


def _of_this_end(event: Record, facts: Facts) -> bool:
    """Whether a kill that the node reports can be the one that ended this container. A node reports the kills of all its pods: one far from the end speaks
    of somebody else, but for a program like this server's that was taken while the container ran. A quiet pod has lost nobody."""
    finished, last = number(facts, "container.finished_at"), event.number("last_at")
    if finished is None:
        finished = max((at for other in records(facts, "events") if other.text("kind") in ("stopping", "probe-kill") and (at := other.number("last_at")) is not None), default=None)
    if finished is None:
        return facts.get("pod.ready") is not True
    if last is None:
        return True
    if (event.number("first_at") or last) - AFTER <= finished <= last + BEFORE:
        return True
    started = number(facts, "container.started_at")
    return bool(SERVER_PROCESS.search(event.text("victim"))) and started is not None and started <= last <= finished


def _kills_beside(events: list[Record], facts: Facts) -> list[Fact]:
    """Kills at a limit of some pod of the node, while this container runs on: what they held together, and whether that is this container's own limit."""
    limit, runs_on = number(facts, "container.memory_limit_bytes"), text(facts, "container.state") == "running" and facts.get("container.restarts") == 0
    kills = [event for event in events if event.text("kind") == "kernel-kill" and event.text("scope") == "memcg" and event.number("victim_bytes")]
    newest = max(kills, key=lambda event: event.number("last_at") or 0, default=None)
    if newest is None or not runs_on:
        return []
    together = [event for event in kills if abs((event.number("last_at") or 0) - (newest.number("last_at") or 0)) <= NEAR]
    held = int(sum(event.number("victim_bytes") or 0 for event in together))
    largest = max(together, key=lambda event: event.number("victim_bytes") or 0)
    found = [Fact("events.kills_beside_bytes", held, largest.place("victim_bytes"))]
    if limit:
        found.append(Fact("events.kills_fill_limit", _FILLS[0] <= held / limit <= _FILLS[1], largest.place("victim_bytes")))
    return found


def _ours(event: Record, facts: Facts) -> bool:
    """Whether an event is of this pod and container, of its node, or of its owners."""
    if event.text("object") == "Node":
        node = text(facts, "pod.node")
        return not node or event.text("name") in (node, "")
    if event.text("object") in _NODE_RECORDS:
        return False  # it carries another name, and the same is told of the node
    if event.text("object") != "Pod":
        return True
    uid, pod = text(facts, "pod.uid"), text(facts, "pod.name")
    if uid and event.text("uid"):
        return uid == event.text("uid")
    return not pod or event.text("name") in (pod, "")


def _of_container(event: Record, facts: Facts) -> bool:
    name = text(facts, "container.name")
    return not name or event.text("container") in (name, "")


def _before_its_start(event: Record, facts: Facts) -> bool:
    """Whether the event was last seen before the start whose end is the incident, so that it speaks of an earlier one."""
    started, last = number(facts, "container.started_at"), event.number("last_at")
    return started is not None and last is not None and last < started - NEAR


def _probes(events: list[Record], facts: Facts) -> list[Fact]:
    found: list[Fact] = []
    events = [event for event in events if not _before_its_start(event, facts)]
    kill = next((event for event in events if event.text("kind") == "probe-kill" and _of_container(event, facts)), None)
    if kill is not None:
        found.append(Fact("events.probe_kill", kill.text("probe"), kill.place("kind")))
        found.append(Fact("events.probe_kills", int(kill.number("count") or 1), kill.place("count", "kind")))
    failed = [event for event in events if event.text("kind") == "probe-failed" and _of_container(event, facts)]
    wanted = kill.text("probe") if kill else ""
    for probe in [wanted] if wanted else ["startup", "liveness", "readiness"]:
        event = next((event for event in failed if event.text("probe") == probe), None)
        if event is not None:
            found.append(Fact("events.probe_failed", probe, event.place("kind")))
            found.append(Fact("events.probe_failures", int(event.number("count") or 1), event.place("count", "kind")))
            found.append(Fact("events.probe_answer", event.text("answer"), event.place("kind")))
            break
    return found


def _medium(events: list[Record], facts: Facts) -> list[Fact]:
    """Whether the volume that was too full is memory or disk: by the pod, else (memory only) by the names that people give such volumes."""
    event = next((event for event in events if event.text("kind") == "evicted" and event.text("volume")), None)
    if event is None:
        return []
    volume, known = event.text("volume"), facts.get("pod.memory_volumes")
    if isinstance(known, tuple):
        medium = "memory" if volume in known else "disk"
    elif facts.get("pod.looked") is True:
        medium = "disk"
    else:
        medium = "memory" if _MEMORY_VOLUME.search(volume) else ""
    limit = event.number("limit")
    told = [Fact("events.evicted_limit_bytes", int(limit), event.place("limit", "volume"))] if limit else []
    return [*told, Fact("events.evicted_medium", medium, event.place("volume"))] if medium else told


def _scheduler(events: list[Record], facts: Facts) -> list[Fact]:
    """The scheduler's words, where the pod's own condition came without any."""
    event = next((event for event in events if event.text("kind") == "unschedulable" and event.text("message")), None)
    silent = facts.get("pod.unschedulable") == "PodScheduled is False"
    return [Fact("pod.unschedulable", event.text("message"), event.place("message"))] if event and silent else []


def _named(events: list[Record]) -> list[Fact]:
    """Events that carry a word of their own."""
    found = []
    for kind, name, value in (
        ("evicted", "events.evicted", "resource"),
        ("unschedulable", "events.unschedulable", "lacks"),
        ("preempted", "events.preempted", ""),
        ("taint-eviction", "events.taint_eviction", ""),
        ("rejected", "events.rejected", "message"),
        ("resize-refused", "events.resize_refused", "message"),
        ("grace-exceeded", "events.grace_exceeded", ""),
        ("back-off", "events.back_off", ""),
        ("deleted", "events.owner_deleted", ""),
        ("moved", "events.moved", "message"),
        ("sandbox", "events.sandbox", "message"),
        ("cgroup-refused", "events.cgroup_refused", "message"),
        ("group-restart", "events.group_restart", ""),
        ("start-failed", "events.start_failed", "message"),
        ("image", "events.image", "message"),
        ("mount", "events.mount", "message"),
        ("hook-failed", "events.hook_failed", "message"),
        ("probe-errored", "events.probe_errored", "message"),
        ("create-failed", "events.create_failed", "message"),
        ("deadline", "events.job_deadline", ""),
    ):
        event = next((event for event in events if event.text("kind") == kind), None)
        if event is not None:
            told: Value = event.text(value) or True if value else True
            found.append(Fact(name, told, event.place("kind")))
    if all(fact.name != "events.unschedulable" for fact in found):  # the autoscaler's refusal outlives the scheduler's own event
        event = next((event for event in events if event.text("kind") == "no-scale-up"), None)
        if event is not None:
            found.append(Fact("events.unschedulable", event.text("lacks") or "other", event.place("message", "kind")))
    return found + _scaling(events)


def _scaling(events: list[Record]) -> list[Fact]:
    """A node that an autoscaler has asked for, and that may still come: not taken back since, and not long before the newest refusal."""
    asked = next((event for event in events if event.text("kind") in ("scale-up", "no-scale-up")), None)
    if asked is None or asked.text("kind") != "scale-up":
        return []
    refused = max((event.number("last_at") or 0 for event in events if event.text("kind") == "unschedulable"), default=0)
    return [Fact("events.scaling_up", True, asked.place("kind"))] if refused - (asked.number("last_at") or 0) <= _NODE_COMES_S else []


def _termination(events: list[Record], facts: Facts) -> list[Fact]:
    """When the container was told to stop, and how long it took."""
    found: list[Fact] = []
    finished, grace = number(facts, "container.finished_at"), number(facts, "pod.grace_s")
    slept = number(facts, "container.prestop_s")
    given, said = number(facts, "pod.delete_grace_s"), "pod.delete_grace_s"  # whoever deletes a pod may give it another time than the pod asks for
    if given is None:
        given, said = grace, "pod.grace_s"
    if given is not None:
        found.append(Fact("termination.grace_s", int(given), _place(facts, said)))
        found.append(Fact("termination.hurried", grace is not None and given < grace, _place(facts, said)))
        if slept is not None:
            found.append(Fact("termination.prestop_takes_grace", slept >= given - NEAR, _place(facts, "container.prestop_s")))
    if text(facts, "container.role"):
        helper = facts.get("container.waits_only") is True or (text(facts, "container.role") == "sidecar" and text(facts, "container.looks") == "plain")
        found.append(Fact("termination.of_helper", helper, _place(facts, "container.name")))
    stop = next((event for event in events if event.text("kind") == "stopping" and _of_container(event, facts)), None)
    probe = next((event for event in events if event.text("kind") == "probe-kill" and _of_container(event, facts)), None)
    if stop is not None:
        found.append(Fact("events.stopping", True, stop.place("kind")))
    if finished is None:
        return found
    for name, event in (("after_stop_s", stop), ("after_probe_kill_s", probe)):
        at = event.number("last_at") if event else None
        if event is None or at is None:
            continue
        seconds = int(finished - at)
        found.append(Fact(f"termination.{name}", seconds, event.place("last_at", "kind")))
        if event is probe:
            found.append(Fact("termination.fits_probe_kill", -NEAR <= seconds <= (grace or 30) + 10, event.place("kind")))
        allowed = given if event is stop else grace
        if allowed is not None:
            found.append(Fact(f"termination.{'' if event is stop else 'probe_'}at_grace_end", _at_end(seconds, allowed, slept), event.place("kind")))
    found += _budget(facts, grace)
    deleted = number(facts, "pod.deleted_at")
    if deleted is not None and stop is None and given is not None:
        # deletionTimestamp is when the grace period ends
        found.append(Fact("termination.at_grace_end", _at_end(finished - deleted + given, given, slept), _place(facts, "pod.deleted_at")))
    return found


def _at_end(seconds: float, allowed: float, slept: float | None) -> bool:
    """Whether `seconds` after the request to stop are the end of the time allowed. Where a hook has used all of it up, some kubelets
    give the program the whole time once more."""
    twice = slept is not None and slept >= allowed - NEAR and abs(seconds - 2 * allowed) <= NEAR + 1
    return abs(seconds - allowed) <= NEAR + 1 or twice


def _budget(facts: Facts, grace: float | None) -> list[Fact]:
    """Whether it lived exactly as long as its start-up probe allows (and was given time to stop)."""
    lived, budget, period = number(facts, "container.lifetime_s"), number(facts, "container.startup_budget_s"), number(facts, "container.startup_period_s")
    if lived is None or not budget:
        return []
    return [Fact("termination.at_startup_budget", budget - NEAR <= lived <= budget + (period or 10) + (grace or 30) + NEAR, _place(facts, "container.lifetime_s"))]


def _place(facts: Facts, name: str) -> Place | None:
    fact = facts.fact(name)
    return fact.place if fact else None
