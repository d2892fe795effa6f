"""What the evidence shows against an answer, quoted: marks that people read as another cause, conditions that would have made it certain and do not
hold, and what speaks for a cause that is still open. Decides nothing: certainty and rank stand already.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bot.diagnosis.causes import family_of
from bot.diagnosis.signatures import Finding, Signature
from bot.facts import Facts
from bot.model import Fact, Quote, Text
from bot.predicates import Condition, all_hold, check

MOST = 3
Say = Callable[[Fact], Text]


@dataclass(frozen=True, slots=True)
class _Mark:
    """A fact that many would take for the cause. `of`: families (or causes) that it speaks for, so that it is no objection to them."""

    fact: str
    condition: Condition
    of: frozenset[str]
    says: Text


_MEMORY_KILLS = frozenset({"host_memory", "memory_leak"})
_MARKS = (
    _Mark(
        "container.reason",
        {"equals": "OOMKilled"},
        _MEMORY_KILLS,
        Text("The runtime says OOMKilled, which as a rule means host memory.", "运行时写的是 OOMKilled，通常意味着主机内存耗尽。"),
    ),
    _Mark(
        "docker.oom_killed",
        {"equals": True},
        _MEMORY_KILLS,
        Text("Docker says that it was killed for memory.", "Docker 报告它因内存被终止。"),
    ),
    _Mark(
        "docker.oom_killed",
        {"equals": False},
        frozenset({"not_memory", "device_memory", "unknown", "communication"}),
        Text("Docker says that it was not killed for memory.", "Docker 报告它不是因内存被终止。"),
    ),
    _Mark(
        "node.pressed",
        {"equals": True},
        frozenset({"not_memory", "device_memory", "unknown", "communication", "node_out_of_memory", "evicted_for_memory"}),
        Text("The node itself was short of memory; the kernel may have killed for that, and more for one container leaves less for all.", "节点本身内存不足；内核可能因此杀死进程，给一个容器更多内存会让其他容器更少。"),
    ),
    _Mark(
        "events.probe_kill",
        {"present": True},
        frozenset({"not_memory", "unknown"}),
        Text("The kubelet says that it ended the container for its probe.", "kubelet 说它因探针终止了容器。"),
    ),
    _Mark(
        "kernel.kill_matches_container",
        {"equals": True},
        _MEMORY_KILLS,
        Text("The kernel log shows a kill for memory in this container.", "内核日志显示该容器内有进程因内存被终止。"),
    ),
    _Mark(
        "cgroup.use_share",
        {"at_most": 0.6},
        frozenset({"not_memory", "device_memory", "unknown", "communication", "node_out_of_memory"}),
        Text("The container was far below its memory limit when it was measured.", "测量时容器远低于其内存限制。"),
    ),
    _Mark(
        "cgroup.kept_share",
        {"at_least": 0.9},
        _MEMORY_KILLS,
        Text("The container's memory, without file cache, was close to its limit when it was measured.", "测量时容器的内存（不含文件缓存）已接近其限制。"),
    ),
    _Mark(
        "log.goes_on",
        {"equals": True},
        frozenset({"host_memory", "not_memory", "unknown"}),
        Text(
            "The server still answered requests long after that line: it survived it, or a client's text repeats such a line.",
            "在那一行之后很久服务仍在响应请求：它挺过来了，或者那只是客户端文本中的内容。",
        ),
    ),
    _Mark(
        "failure.passed_after",
        {"equals": True},
        frozenset({"host_memory", "not_memory", "unknown", "communication", "other_process_on_gpu"}),
        Text(
            "The container's next start, with the same arguments, came past this step and is ready: at the failed start something else held memory, or it took more than it always does.",
            "同一容器以同样参数的下一次启动通过了这一步并已就绪：失败的那次有别的东西占用了内存，或它占用得比平时多。",
        ),
    ),
    _Mark(
        "alloc.others_matter",
        {"equals": True},
        frozenset({"other_process_on_gpu", "host_memory", "not_memory", "reserved_memory"}),
        Text("Other processes hold memory of the card; without them the request would fit.", "其他进程占用了显存；没有它们，这次申请放得下。"),
    ),
)


def against(best: Finding, rivals: Sequence[Finding], facts: Facts, say: Say) -> tuple[Quote, ...]:
    """At most three quotes, the strongest objection first. What the answer itself rests on is none."""
    own = _rests_on(best.signature, facts)
    found: dict[tuple[str, int | None], Quote] = {}
    for fact, says in [*_marks(best, facts), *_not_held(best.signature, facts, say), *_for_rivals(rivals, facts, say)]:
        place = fact.place
        if place is not None and (place.source, place.line) not in own and place.quote:
            found.setdefault((place.source, place.line), Quote(place.source, place.line, place.quote, says))
    return tuple(found.values())[:MOST]


def _rests_on(signature: Signature, facts: Facts) -> set[tuple[str, int | None]]:
    """Places of the facts without which the signature would not have fired, and of those that made it certain."""
    sure = signature.certain_if if all_hold(facts, signature.certain_if) else {}
    placed = (facts.fact(name) for name in [*signature.when, *sure])
    return {(fact.place.source, fact.place.line) for fact in placed if fact is not None and fact.place is not None}


def _marks(best: Finding, facts: Facts) -> Iterable[tuple[Fact, Text]]:
    for mark in _MARKS:
        fact = facts.fact(mark.fact)
        if fact is not None and not {family_of(best.cause), best.cause} & mark.of and check(facts, mark.fact, mark.condition):
            yield fact, mark.says


def _not_held(signature: Signature, facts: Facts, say: Say) -> Iterable[tuple[Fact, Text]]:
    """What would have made it certain, was looked at and is not so."""
    conditions: Mapping[str, Condition] = signature.certain_if
    for name, condition in conditions.items():
        fact = facts.fact(name)
        if fact is not None and check(facts, name, condition) is False:
            yield fact, say(fact)


def _for_rivals(rivals: Sequence[Finding], facts: Facts, say: Say) -> Iterable[tuple[Fact, Text]]:
    """One quote for each cause that is still open: the first fact that speaks for it."""
    for rival in rivals[:MOST]:
        names = [*rival.signature.quotes, *rival.signature.when]
        fact = next((fact for fact in map(facts.fact, names) if fact is not None and fact.place is not None and fact.place.quote), None)
        if fact is not None:
            said = say(fact)
            yield fact, Text(f"Speaks for {rival.cause.replace('_', ' ')}: {said.en}", f"支持另一种可能（{rival.cause}）：{said.zh or said.en}")
