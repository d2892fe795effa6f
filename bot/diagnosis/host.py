"""What the files about a host prove together: the incident's container, the kernel's kill of it, the events around its end, and sums over them.

`derive` is pure and calm: a fact that cannot be derived is left out, so that signatures see it as unknown.
"""

from bot.diagnosis import host_container, host_events, host_kernel
from bot.diagnosis.host_records import flag, number, records, text
from bot.facts import Facts
from bot.model import Fact, Phase, Place, Value
from bot.units import GIB


def derive(facts: Facts) -> Facts:
    """All cross-file facts of the host side."""
    facts = host_container.derive(facts)
    facts = host_kernel.derive(facts)
    facts = host_events.derive(facts)
    for step in (_tells_why, _ending, _passed_after, _disruption, _cgroup, _unit, _runtime, _told, _shm, _node, _pressed, _holder, _ray_monitor, _ray, _gpus):
        facts = facts.with_facts(step(facts))
    return facts


KILLED = 137  # the code of SIGKILL
NODE_FULL = 0.03  # of the machine's memory that can be had at most, where it counts as used up
COMM = 15  # letters of a program's name that the kernel keeps

# kinds of roots that only say that something ended or hangs, as it does when somebody ends it from outside
_MERE_ENDS = frozenset(
    {"exception", "process_died", "child_sigkill", "killed", "ray_gcs_lost", "ray_waits", "ray_too_few_gpus", "nccl_timeout", "nccl_peer_lost", "nccl_unclear", "nccl_port_error", "gunicorn_sigkill", "worker_timeout", "worker_failed", "abort", "bus_error"}
)


_OF_PEERS = ("nccl", "gloo", "rendezvous", "ray", "custom_all_reduce")  # what the others of a killed process print


def _tells_why(facts: Facts) -> list[Fact]:
    """Whether the server's log names a cause of its own, which a kill from outside then only follows."""
    kind = text(facts, "failure.kind")
    found = [_fact(facts, "failure.tells_why", kind not in _MERE_ENDS, "failure.kind")] if kind else []
    if text(facts, "kernel.match"):
        error = bool(kind) and kind not in _MERE_ENDS and not kind.startswith(_OF_PEERS)
        found.append(_fact(facts, "kernel.beside_error", error and text(facts, "kernel.match") == "name", "failure.kind", "kernel.match"))
    return found


def _passed_after(facts: Facts) -> list[Fact]:
    """Whether the next start of the same container, whose arguments nobody can change in a pod, came past the step that the last one failed at: a probe
    found it ready. Without a probe a container counts as ready as soon as it runs."""
    probed = "container.readiness_probe" in facts or "container.startup_probe" in facts
    again = flag(facts, "container.running") is True and flag(facts, "container.ready") is True and flag(facts, "container.started_again") is True
    starting = text(facts, "failure.phase") not in ("", Phase.SERVING.value, Phase.SHUTDOWN.value)
    if not (probed and again and starting and "previous" in text(facts, "log.source")):
        return []
    return [_fact(facts, "failure.passed_after", True, "container.ready", "container.running")]


def _fact(facts: Facts, name: str, value: Value, *near: str) -> Fact:
    return Fact(name, value, _place(facts, *near))


def _place(facts: Facts, *names: str) -> Place | None:
    for name in names:
        fact = facts.fact(name)
        if fact is not None and fact.place is not None:
            return fact.place
    return None


def _ending(facts: Facts) -> list[Fact]:
    """Invented and lost exit codes: 137 that the kubelet made up, 255 of a runtime that lost the task."""
    code, reason = number(facts, "container.exit_code"), text(facts, "container.reason")
    if code is None:
        return []
    lost = reason in ("ContainerStatusUnknown", "Unknown") or (code == 255 and not reason)
    signal = int(code) - 128 if 128 < code < 165 else 0
    found = [_fact(facts, "termination.invented", lost, "container.reason", "container.exit_code")]
    if signal and not lost:
        found.append(_fact(facts, "termination.signal", signal, "container.exit_code"))
    return found


def _disruption(facts: Facts) -> list[Fact]:
    """Who ended the pod on purpose: shutdown | lost | drain | preemption | taint | gc | delete; nothing when nobody did. A container that the runtime saw
    killed for memory had its end before a machine that went, or a pod that was displaced, could bring it one."""
    by, near = _who_ended(facts)
    killed = text(facts, "container.reason") == "OOMKilled" and number(facts, "container.exit_code") == KILLED
    return [_fact(facts, "termination.by", by, near)] if by and not (killed and by in ("shutdown", "lost", "preemption", "gc", "taint")) else []


def _who_ended(facts: Facts) -> tuple[str, str]:
    """The word for it, and the fact that tells."""
    reason = text(facts, "pod.disruption")
    by = {
        "EvictionByEvictionAPI": "drain",
        "PreemptionByScheduler": "preemption",
        "PreemptionByKubeScheduler": "preemption",
        "DeletionByTaintManager": "taint",
        "DeletionByPodGC": "gc",
    }.get(reason, "")
    near = "pod.disruption"
    if flag(facts, "pod.node_shutdown") or text(facts, "pod.reason") in ("NodeShutdown", "Shutdown"):
        by, near = "shutdown", "pod.node_shutdown"
    elif text(facts, "pod.reason") == "NodeLost":
        by, near = "lost", "pod.reason"
    elif by in ("", "drain", "taint") and flag(facts, "events.interrupted"):
        by, near = "shutdown", "events.interrupted"  # the drain is what follows from it
    elif not by and text(facts, "pod.reason") == "Preempting":
        by, near = "preemption", "pod.reason"
    elif not by and flag(facts, "events.preempted"):
        by, near = "preemption", "events.preempted"
    elif not by and text(facts, "events.moved"):
        by, near = "drain", "events.moved"
    elif not by and flag(facts, "events.taint_eviction"):
        by, near = "taint", "events.taint_eviction"
    elif not by and (flag(facts, "events.node_shutdown") or flag(facts, "events.node_rebooted")):
        by, near = "shutdown", "events.node_shutdown"
    elif not by and number(facts, "pod.deleted_at") is not None:
        by, near = "delete", "pod.deleted_at"
    elif not by and flag(facts, "events.stopping") and not text(facts, "pod.evicted") and not text(facts, "events.evicted"):
        by, near = "delete", "events.stopping"
    return by, near


def _cgroup(facts: Facts) -> list[Fact]:
    """What fills a control group, and how much of its time it was throttled."""
    found = []
    current, limit = number(facts, "cgroup.current_bytes"), number(facts, "cgroup.limit_bytes")
    file, shared = number(facts, "cgroup.file_bytes"), number(facts, "cgroup.shmem_bytes") or 0
    if file is None:
        file = number(facts, "cgroup.cache_bytes")
    whole = current or limit
    if file is not None and whole:
        found.append(_fact(facts, "cgroup.cache_share", round(max(0.0, file - shared) / whole, 3), "cgroup.file_bytes", "cgroup.cache_bytes"))
    bound = limit or number(facts, "container.memory_limit_bytes") or current
    if shared and bound:
        found.append(_fact(facts, "cgroup.shared_share", round(shared / bound, 3), "cgroup.shmem_bytes"))
    if current is not None and limit and file is not None:
        found.append(_fact(facts, "cgroup.kept_share", round((current - max(0.0, file - shared)) / limit, 3), "cgroup.current_bytes"))
    if current is not None and limit:
        found.append(_fact(facts, "cgroup.use_share", round(current / limit, 3), "cgroup.current_bytes"))
    throttled, periods = number(facts, "cgroup.cpu_nr_throttled"), number(facts, "cgroup.cpu_nr_periods")
    if throttled is not None and periods:
        found.append(_fact(facts, "cgroup.throttled_share", round(throttled / periods, 3), "cgroup.cpu_nr_throttled"))
    kills, limits = number(facts, "cgroup.event_oom_kill"), number(facts, "cgroup.event_oom")
    if kills is not None and limits is not None:
        found.append(_fact(facts, "cgroup.killed_by_node", kills > 0 and limits == 0, "cgroup.event_oom_kill"))
    reached = _limit_reached(facts)
    if reached is not None:
        found.append(_fact(facts, "cgroup.limit_reached", reached, "cgroup.peak_bytes", "cgroup.failcnt", "cgroup.event_max"))
    if kills is not None and (limits is not None or reached is not None):
        at_limit = limits > 0 if limits is not None else reached
        found.append(_fact(facts, "cgroup.killed_at_limit", kills > 0 and at_limit is True, "cgroup.event_oom_kill"))
    return found


def _limit_reached(facts: Facts) -> bool | None:
    """Whether the group was ever as full as it may be; dropping cached files then made room, or something was killed. None where no counter tells."""
    peak, limit = number(facts, "cgroup.peak_bytes"), number(facts, "cgroup.limit_bytes")
    counts = [count for name in ("cgroup.failcnt", "cgroup.event_max") if (count := number(facts, name)) is not None]
    if peak is not None and limit:
        return peak >= limit * 0.999 or any(counts)
    return any(counts) if counts else None


def _unit(facts: Facts) -> list[Fact]:
    """systemd's word of a unit's end, from its journal or its status."""
    told = facts.fact("kernel.unit_oom_kill")
    return [Fact("node.unit_oom_kill", True, told.place)] if told is not None else []


def _runtime(facts: Facts) -> list[Fact]:
    """What a runtime's word of a memory kill means for the incident's container: killed | lived on | unseen; nothing where it is another container's."""
    ids = facts.get("docker.oom_ids")
    if not isinstance(ids, tuple):
        return []
    containers, code = records(facts, "pod.container"), number(facts, "docker.exit_code")
    if containers:
        chosen = host_container.choose(facts, containers)
        if any(_same_id(one, chosen.text("ended_id")) for one in ids):
            state = "killed" if chosen.number("exit_code") == KILLED else "lived on"
        elif any(_same_id(one, chosen.text("id")) for one in ids):
            state = "killed" if chosen.text("state") != "running" and chosen.number("exit_code") == KILLED else "lived on"
        else:
            return []
    else:
        state = "unseen" if code is None else "killed" if code == KILLED else "lived on"
    return [_fact(facts, "docker.oom_event", state, "docker.oom_ids")]


def _told(facts: Facts) -> list[Fact]:
    """Whether docker or systemd tell of a bad end, so that nothing that still looks well is the whole story. A pod is no unit: there only its container's runtime counts."""
    units = () if records(facts, "pod.container") else ("node.unit_oom_kill", "unit.killed", "unit.ended", "unit.stop_timed_out")
    told = [name for name in ("docker.oom_killed", "docker.unhealthy", *units) if facts.get(name) is True or text(facts, name)]
    told += ["docker.oom_event"] if text(facts, "docker.oom_event") else []
    told += ["docker.exit_code"] if number(facts, "docker.exit_code") else []
    return [_fact(facts, "termination.told", bool(told), *told)] if any(True for _ in facts) else []


def _same_id(one: str, other: str) -> bool:
    """Whether two container ids are the same, one of them perhaps shortened as people do."""
    return len(one) >= 12 and len(other) >= 12 and (one.startswith(other) or other.startswith(one))


def _shm(facts: Facts) -> list[Fact]:
    """Whether /dev/shm is full, and by what an earlier process left: a memory volume outlives the container, a default one does not."""
    percent, size = number(facts, "shm.use_percent"), number(facts, "shm.size_bytes") or number(facts, "container.shm_limit_bytes")
    if size is None:
        size = number(facts, "ray.store_on_disk.available_bytes")  # Ray's own look at the start, when it found too little
    found = []
    if percent is not None:
        found.append(_fact(facts, "shm.full", percent >= 97, "shm.use_percent"))
    roomy = text(facts, "container.shm_volume") == "memory" and (size or GIB) >= GIB
    restarted = (number(facts, "container.restarts") or 0) > 0
    if text(facts, "container.shm_volume") or size:
        small = (size is not None and size < GIB) or (size is None and text(facts, "container.shm_volume") == "default")
        found.append(_fact(facts, "shm.small", small, "shm.size_bytes", "container.shm_limit_bytes", "ray.store_on_disk.available_bytes", "container.shm_volume"))
        left = roomy and restarted and (percent >= 90 if percent is not None else _fits(facts, size))
        found.append(_fact(facts, "shm.left_over", left, "shm.use_percent", "container.shm_volume"))
    lost, used = number(facts, "node.ownerless_shm_bytes"), (size or 0) * (percent or 0) / 100
    if lost is not None and used and text(facts, "container.shm_volume") == "node":
        found.append(_fact(facts, "shm.ownerless_share", round(min(1.0, lost / used), 3), "node.ownerless_shm_bytes"))
    return found


def _fits(facts: Facts, size: float | None) -> bool:
    """Whether one region that could not be filled would fit into the empty volume and takes most of it: then something else lies there already."""
    region = number(facts, "vllm.offload_region.region_bytes")
    return bool(region and size and size / 2 <= region <= size)


def _pressed(facts: Facts) -> list[Fact]:
    """Whether the node was short of memory, by an event of that time or by its own condition now."""
    for name in ("events.node_pressure", "node.memory_pressure"):
        if flag(facts, name) is True:
            return [_fact(facts, "node.pressed", True, name)]
    known = flag(facts, "node.memory_pressure")
    return [_fact(facts, "node.pressed", False, "node.memory_pressure")] if known is False else []


def _node(facts: Facts) -> list[Fact]:
    total, available = number(facts, "node.memory_total_bytes"), number(facts, "node.memory_available_bytes")
    if available is None:
        available = number(facts, "node.memory_free_bytes")
    found = []
    if total and available is not None:
        found.append(_fact(facts, "node.available_share", round(available / total, 3), "node.memory_available_bytes", "node.memory_total_bytes"))
    wanted, cached = number(facts, "failure.host_wanted_bytes"), number(facts, "node.memory_cache_bytes")
    if wanted is not None and available is not None and cached is not None:
        found.append(_fact(facts, "node.covers_refused", wanted <= available and cached >= available / 2, "node.memory_available_bytes"))
    lost = number(facts, "node.ownerless_shm_bytes")
    if total and lost is not None:
        found.append(_fact(facts, "node.ownerless_shm_share", round(lost / total, 3), "node.ownerless_shm_bytes"))
    limit = number(facts, "container.memory_limit_bytes")
    if total and limit:
        found.append(_fact(facts, "container.limit_above_node", limit > total, "node.memory_total_bytes"))
    return found


def _holder(facts: Facts) -> list[Fact]:
    """Whether another process holds most of a machine that is full, beside a kill that could be matched by a program's name only."""
    if not text(facts, "kernel.match"):
        return []
    total, held, share = number(facts, "node.memory_total_bytes"), number(facts, "process.largest_bytes"), number(facts, "node.available_share")
    alone = text(facts, "kernel.match") == "name" and text(facts, "kernel.limit") == "container"
    full = share is not None and share <= NODE_FULL
    holder = text(facts, "process.largest").partition(" ")[0].rpartition("/")[2][:COMM]
    other = bool(alone and full and total and held and held >= total / 2 and holder != text(facts, "kernel.victim")[:COMM])
    return [_fact(facts, "kernel.beside_full_node", other, "process.largest", "kernel.match")]


def _ray_monitor(facts: Facts) -> list[Fact]:
    """Whether the total that Ray's monitor counted is the container's limit, or the whole host's memory."""
    total, limit = number(facts, "ray.monitor_kill.total_bytes"), number(facts, "container.memory_limit_bytes")
    return [_fact(facts, "ray_monitor.counts_container", abs(total - limit) < limit / 8, "ray.monitor_kill.total_bytes")] if total and limit else []


def _ray(facts: Facts) -> list[Fact]:
    """Whether the Ray cluster can ever give what is asked for."""
    wanted, total, used = number(facts, "ray_status.gpu_demand"), number(facts, "ray_status.gpu_total"), number(facts, "ray_status.gpu_used")
    lacks, near = _ray_lacks(facts)
    found = [_fact(facts, "ray_status.lacks", lacks, near)] if lacks else []
    cpus, all_cpus, nodes = (number(facts, f"ray_status.{name}") for name in ("cpu_demand", "cpu_total", "nodes"))
    if not lacks and not wanted and cpus and all_cpus and nodes and nodes > 1:
        found.append(_fact(facts, "ray_status.no_node_has", all_cpus >= cpus > all_cpus / nodes, "ray_status.cpu_demand"))
    if wanted is None or not wanted:
        return found
    have = total or 0.0
    if total is None and "ray_status.cpu_total" in facts:  # a kind of resource that the cluster has none of is not listed
        found.append(_fact(facts, "ray_status.gpu_total", 0.0, "ray_status.cpu_total"))
    found += [_fact(facts, "ray_status.gpus_missing", wanted > have, "ray_status.gpu_demand")]
    if used is not None:
        found.append(_fact(facts, "ray_status.gpus_in_use", used > 0, "ray_status.gpu_used"))
        found.append(_fact(facts, "ray_status.gpus_taken", have - used < wanted <= have, "ray_status.gpu_used"))
    return found


def _ray_lacks(facts: Facts) -> tuple[str, str]:
    """What besides GPUs the cluster cannot give to what waits, and the fact that shows it: a resource of somebody's naming (a node, a kind of card), CPUs, memory."""
    named = text(facts, "ray_status.named_demand")
    if named and not (number(facts, f"ray_status.resource.{named}") or 0) > 0:
        return named, "ray_status.named_demand"
    for name, shown in (("cpu", "CPU"), ("memory", "memory")):
        wanted, total, used = (number(facts, f"ray_status.{name}_{what}") for what in ("demand", "total", "used"))
        if wanted and total is not None and wanted > total - (used or 0.0):
            return shown, f"ray_status.{name}_demand"
    return "", ""


def _gpus(facts: Facts) -> list[Fact]:
    """A GPU that is shared by a scheduler's fraction (HAMi and the like)."""
    resource = text(facts, "container.gpu_resource")
    return [_fact(facts, "gpus.shared", "gpumem" in resource or "shared" in resource or "gpucores" in resource, "container.gpu_resource")] if resource else []
