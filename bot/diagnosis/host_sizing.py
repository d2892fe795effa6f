"""From what to what, for remedies on a host: limits, requests, shared memory, probes, grace periods.

A limit that was hit does not show how much would have been taken, so that those steps are steps, and say so. Nothing is ever larger than
the node. Engine options are sized elsewhere (`sizing`).
"""

import math
import re
from collections.abc import Callable

from bot.diagnosis.host import NODE_FULL
from bot.diagnosis.host_records import number, text
from bot.diagnosis.sizing_words import Impossible, Sized
from bot.facts import Facts
from bot.model import Text
from bot.units import GIB, MIB, as_quantity, quantity, show

STEP = 1.5  # of a limit that was hit
ABOVE_REQUEST = 1.3  # a first limit, over what was asked for
ANSWER = 5  # seconds that a probe gives a server under load for one answer
LOAD_SLACK, AFTER_LOAD = 1.5, 180  # a load is not even, and the start goes on behind it (profiling, graphs); seconds
DEFAULT_GRACE = 30  # seconds that Kubernetes gives a pod that asks for none
_LARGE_SHM = 32 * GIB  # more than ranks on one machine exchange
LEAST_SHM = 2 * GIB  # what a server of several processes is given at least

_STEP_WHY = Text(
    "How much it would take at most is not shown: this is one step; read memory.peak afterwards.",
    "无法得知最多需要多少：这只是一步；之后请查看 memory.peak。",
)


def size_for(remedy: str, direction: str, facts: Facts) -> Sized | Impossible | None:
    """The numbers of one remedy; None where there are none to give."""
    sizer = _SIZERS.get((remedy, direction))
    return None if sizer is None else sizer(remedy, direction, facts)


def rounded(size: float) -> int:
    """Upwards to what people write: 128 MiB below 2 GiB, whole GiB up to 32, 4 GiB above."""
    grain = 128 * MIB if size < 2 * GIB else GIB if size <= 32 * GIB else 4 * GIB
    return math.ceil(size / grain) * grain


def _quantity(size: int) -> str:
    """As people write it: "2G" where the size is a round decimal one, else binary."""
    for suffix, factor in (("G", 10**9), ("M", 10**6)):
        if size and size % factor == 0 and size % GIB:
            return f"{size // factor}{suffix}"
    return as_quantity(size)


def _node(facts: Facts) -> float | None:
    return number(facts, "node.memory_allocatable_bytes") or number(facts, "node.memory_total_bytes")


def _beyond(remedy: str, direction: str, size: int, facts: Facts) -> Impossible | None:
    node = _node(facts)
    if node is None or size <= node:
        return None
    return Impossible(remedy, direction, Text(f"The node has {show(node)} in all.", f"该节点总共只有 {show(node)}。"))


def _nothing_left(remedy: str, direction: str, more: float, facts: Facts) -> Impossible | None:
    """A machine whose memory is used up has no room for a larger limit, whatever its size."""
    left, share = number(facts, "node.memory_available_bytes"), number(facts, "node.available_share")
    if left is None or share is None or share > NODE_FULL or left >= more:
        return None
    return Impossible(remedy, direction, Text(f"The machine has only {show(left)} left.", f"机器只剩 {show(left)}。"))


def _limit(remedy: str, direction: str, facts: Facts) -> Sized | Impossible | None:
    """One step above the limit that was hit."""
    limit = number(facts, "container.memory_limit_bytes") or _limit_by_kernel(facts)
    if not limit:
        return None
    to = rounded(limit * STEP)
    effect = Text(f"The same work has {show(to - limit)} more before the kernel ends it.", f"在被内核终止之前，同样的工作多出 {show(to - limit)}。")
    beyond = _beyond(remedy, direction, to, facts) or _nothing_left(remedy, direction, to - limit, facts)
    return beyond or Sized(remedy, direction, effect, _quantity(int(limit)), _quantity(to), why=_STEP_WHY)


def _limit_by_kernel(facts: Facts) -> float | None:
    """The limit that the kernel printed with its kill, where no pod was read and it is one container's own: a pod's is the sum of several."""
    own = text(facts, "kernel.level") in ("container", "docker") and facts.get("kernel.kill_matches_container") is True
    return number(facts, "kernel.limit_bytes") if own and "container.name" not in facts else None


def _first_limit(remedy: str, direction: str, facts: Facts) -> Sized | Impossible | None:
    """A first limit: a third above what was asked for, and never below what it was seen to hold, which it would be ended for at each start."""
    request, seen = number(facts, "container.memory_request_bytes"), peak(facts) or 0
    to = rounded(max((request or 0) * ABOVE_REQUEST, seen))
    if not to:
        return None
    effect = Text("The container is ended before it takes the node along.", "容器会在拖垮节点之前被终止。")
    why = Text("A third above its request; raise the request first if it needs more.", "比请求值高约三分之一；如需更多，请先提高请求值。")
    if seen > (request or 0) * ABOVE_REQUEST:
        why = Text(
            f"It held {show(seen)}: a smaller limit would end it each time. Ask for as much (the request), so that it is placed where there is room.",
            f"它曾占用 {show(seen)}：更小的限制每次都会终止它。请把请求值设为同样大小，使其被调度到有足够内存的节点。",
        )
    return _beyond(remedy, direction, to, facts) or Sized(remedy, direction, effect, None, _quantity(to), why=why)


def _used(facts: Facts) -> float | None:
    """What the container used: by the message of an eviction for memory, else by its control group."""
    told = text(facts, "pod.evicted_use") if text(facts, "pod.evicted") in ("", "memory") else ""
    if re.fullmatch(r"\d{1,18}\w{0,2}", told):
        try:
            return float(quantity(told))
        except ValueError:
            return None
    return number(facts, "cgroup.current_bytes")


def _held(facts: Facts) -> float | None:
    """What the kernel saw when it ended something of the container: its group's use, or at least what the killed process held."""
    if facts.get("kernel.kill_matches_container") is not True:
        return None
    return number(facts, "kernel.usage_bytes") or number(facts, "kernel.victim_bytes")


def peak(facts: Facts) -> int | None:
    """The most host memory that the container was seen to use: its control group's own mark, what was in use when the kernel ended something of it, or what
    it used when it was evicted; None where nobody looked."""
    own = facts.get("kernel.ancestor") is not True
    known = [size for size in (number(facts, "cgroup.peak_bytes"), _held(facts) if own else number(facts, "kernel.victim_bytes"), _used(facts)) if size]
    return int(max(known)) if known else None


def _request(remedy: str, direction: str, facts: Facts) -> Sized | Impossible | None:
    """The request becomes what is used, else the limit; more than the limit no cluster accepts."""
    request, limit, used = number(facts, "container.memory_request_bytes"), number(facts, "container.memory_limit_bytes"), _used(facts)
    wanted = used * 1.2 if used else limit or peak(facts)
    if limit and request == limit:
        return Impossible(remedy, direction, Text("It asks for its whole limit already.", "其请求值已等于上限。"))
    if limit and wanted and rounded(wanted) > limit:
        wanted = limit
    if not wanted or wanted <= (request or 0):
        return None
    to = int(limit) if limit and wanted == limit else rounded(wanted)
    effect = Text(
        "The scheduler keeps that much of the node for it, and the kubelet evicts others first.",
        "调度器会为其预留相应内存，kubelet 会优先驱逐其他 Pod。",
    )
    return _beyond(remedy, direction, to, facts) or Sized(remedy, direction, effect, _quantity(int(request)) if request else "0", _quantity(to))


def _shm(remedy: str, direction: str, facts: Facts) -> Sized | None:
    """At least twice what there is, and what was asked for; no size where a region of unknown size was asked for."""
    size = number(facts, "shm.size_bytes") or number(facts, "container.shm_limit_bytes") or number(facts, "pod.evicted_limit_bytes")
    size = size or number(facts, "events.evicted_limit_bytes")
    if size is None:
        size = number(facts, "ray.store_on_disk.available_bytes") or (64 * MIB if text(facts, "container.shm_volume") == "default" else None)
    region = number(facts, "vllm.offload_region.region_bytes")
    if text(facts, "failure.kind") == "bad_address" and not region:
        return None
    stores = (number(facts, "ray.store_exceeds_shm.store_bytes"), number(facts, "ray.store_request_too_large.wanted_bytes"))
    refused = number(facts, "vllm.shm_refused.required_bytes") or 0
    region = max(region or 0, refused if refused >= LEAST_SHM else 0)  # what is smaller is one of several queues
    wanted = max((store for store in (*stores, region + LEAST_SHM if region else None) if store), default=0)
    to = rounded(max(LEAST_SHM, 2 * (size or 0) if not wanted else 0, wanted))
    effect = Text(
        "The server's processes have room for the buffers that they share. It is an emptyDir with medium: Memory that is mounted there (docker: --shm-size); what lies in it counts against the memory limit.",
        "服务的各进程有足够空间共享缓冲区。做法是在此挂载 medium: Memory 的 emptyDir（docker：--shm-size）；其中的内容计入内存限制。",
    )
    large = Text(
        "So large a /dev/shm fills up with what ended runs left there, or with an offloaded cache: look first what lies in it (ls -lS /dev/shm).",
        "这么大的 /dev/shm 往往是被已结束的运行遗留的文件或卸载的缓存占满的：请先查看其中的内容（ls -lS /dev/shm）。",
    )
    return Sized(remedy, direction, effect, _quantity(int(size)) if size else None, _quantity(to), None, large if size and size >= _LARGE_SHM and not wanted else None)


def _span(seconds: float) -> Text:
    """Whole seconds, or minutes of a long time: "45 s", "20 min"."""
    whole = int(seconds)
    return Text(f"{whole / 60:.3g} min", f" {whole / 60:.3g} 分钟") if whole >= 120 else Text(f"{whole} s", f" {whole} 秒")


def _probe(remedy: str, direction: str, facts: Facts) -> Sized | None:
    """More failures (the number that is changed), and more time for one answer where answers were late."""
    budget = "startup" if facts.get("termination.at_startup_budget") is True else ""
    probe = text(facts, "events.probe_kill") or text(facts, "events.probe_failed") or budget
    failures, period = number(facts, f"container.{probe}_failures"), number(facts, f"container.{probe}_period_s") or 10
    timeout = number(facts, f"container.{probe}_timeout_s")
    if not failures:
        return None
    left = _loading_left(facts)
    to = max(math.ceil(failures * (2 if probe == "startup" else 3)), math.ceil(failures + (left * LOAD_SLACK + AFTER_LOAD) / period) if left else 0)
    effect = Text(
        f"The kubelet waits {_span(to * period).en} instead of {_span(failures * period).en}.",
        f"kubelet 会等待{_span(to * period).zh}，而不是{_span(failures * period).zh}。",
    )
    late = text(facts, "events.probe_answer") == "timeout" and timeout is not None
    given = ANSWER if not timeout or timeout < ANSWER else int(timeout * 2)
    why = (
        Text(
            f"Answers came late: set timeoutSeconds {int(timeout or 1)} to {given} as well.",
            f"应答偏慢：同时把 timeoutSeconds 从 {int(timeout or 1)} 调到 {given}。",
        )
        if late
        else None
    )
    if left:
        why = Text(
            f"By the log's own estimate loading had {_span(left).en} more to go; a start-up probe with that budget keeps the liveness probe as it is.",
            f"按日志自己的估计，加载还需{_span(left).zh}；用一个预算足够的启动探针，可以不改动存活探针。",
        )
    return Sized(remedy, direction, effect, int(failures), to, why=why)


def _loading_left(facts: Facts) -> float:
    """Seconds that loading the weights had to go, by the progress bar of the run that the probe ended; 0 where it does not say so."""
    clock = re.fullmatch(r"(?:(\d{1,3}):)?(\d{1,3}):(\d\d)", text(facts, "vllm.loading_shards.left"))
    if not clock or text(facts, "failure.after_phase") not in ("", "weights"):
        return 0
    return int(clock[1] or 0) * 3600 + int(clock[2]) * 60 + int(clock[3])


def _grace(remedy: str, direction: str, facts: Facts) -> Sized | None:
    grace = number(facts, "termination.grace_s")
    if grace is None:
        return None
    effect = Text("Requests in flight have that long to finish when the pod is stopped.", "停止 Pod 时，进行中的请求有这么长时间完成。")
    slept = number(facts, "container.prestop_s") or 0  # the hook counts into the grace period
    return Sized(remedy, direction, effect, int(grace), max(int(grace * 2), int(slept) + DEFAULT_GRACE))


_SIZERS: dict[tuple[str, str], Callable[[str, str, Facts], Sized | Impossible | None]] = {
    ("memory_limit", "raise"): _limit,
    ("init_container_memory", "raise"): _limit,
    ("sidecar_memory", "raise"): _limit,
    ("memory_limit", "set"): _first_limit,
    ("memory_request", "raise"): _request,
    ("shm_size", "raise"): _shm,
    ("probe", "relax"): _probe,
    ("grace_period", "raise"): _grace,
}
