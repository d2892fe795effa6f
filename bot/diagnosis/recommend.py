"""From a finding to recommendations: the remedies of its signature that apply here, without those that would hurt, with numbers where they can be computed.

Order is the signature's (cheapest and best proved first), but advice that would hurt under a rival that is still open never stands first.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from bot.diagnosis import words
from bot.diagnosis.causes import family_of
from bot.diagnosis.signatures import Finding, Remedy, Variant
from bot.diagnosis.sizing_words import Impossible, Sized
from bot.facts import Facts
from bot.model import Certainty, Recommendation, Text, WillNotHelp

# What treats the wrong kind of memory, by the family of the cause.
WRONG_KIND: dict[str, frozenset[str]] = {
    "device_memory": frozenset({"memory_limit:raise", "memory_limit:set", "memory_request:raise", "shm_size:raise"}),
    "host_memory": frozenset(
        {"gpu_memory_utilization:lower", "gpu_memory_utilization:raise", "max_model_len:lower", "kv_cache_dtype:fp8", "expandable_segments:enable", "bigger_gpu"}
    ),
    "not_memory": frozenset(
        {
            "memory_limit:raise", "memory_limit:set", "gpu_memory_utilization:lower", "gpu_memory_utilization:raise", "max_model_len:lower", "max_num_seqs:lower",
            "kv_cache_dtype:fp8", "expandable_segments:enable", "bigger_gpu", "bigger_node",
        }
    ),
}  # fmt: skip
_WRONG_WHY: dict[str, Text] = {
    "device_memory": Text("It changes host memory; what ran out is the memory of the card.", "它改变的是主机内存，而耗尽的是显存。"),
    "host_memory": Text("It changes the memory of the card; what ran out is host memory.", "它改变的是显存，而耗尽的是主机内存。"),
    "not_memory": Text("No memory ran out here.", "这里没有任何内存耗尽。"),
}
_NOT_SHOWN = Text("Nothing shows that memory ran out here.", "没有迹象表明这里有内存耗尽。")  # what a finding that is not certain may say
_IDLE = "{alloc.unallocated_bytes}"  # words against an option that name it call it too little
Sizer = Callable[[str, str], Sized | Impossible | None]
MOST = 4
_CRUMBS = 0.02  # of the card: less than this is scattered over every allocator and never in one piece


def split(remedy: str) -> tuple[str, str]:
    name, _, direction = remedy.partition(":")
    return name, direction


def _hurts(finding: Finding) -> set[str]:
    named = {item.id for item in finding.signature.will_not_help}
    given = {remedy.id for remedy in finding.signature.remedies}
    return (named | WRONG_KIND.get(family_of(finding.cause), frozenset())) - given


def chosen(findings: Sequence[Finding], facts: Facts) -> list[Remedy]:
    """The remedies that apply, best first."""
    best, rivals = findings[0], findings[1:]
    hurting = _hurts(best)
    found: dict[str, Remedy] = {}
    for remedy in best.signature.remedies:
        if remedy.id not in hurting and remedy.id not in found and remedy.applies(facts):
            found[remedy.id] = remedy
    remedies = list(found.values())
    risky = set().union(*(_hurts(rival) for rival in rivals)) if rivals else set()
    safe = [remedy for remedy in remedies if remedy.id not in risky]
    return (safe + [remedy for remedy in remedies if remedy.id in risky]) if safe else remedies


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a remedy of the vocabulary means to a person: what to do, what it leads to, its risk, and the option of the server that failed. `lacks`: why that
    server has nothing of the kind; `where`: what it means instead where some facts hold, the first that applies; `adds` and `late`: as of such a variant."""

    says: Text
    effect: Text
    risk: str
    option: str = ""
    lacks: Text | None = None
    where: tuple[Variant, ...] = ()
    adds: Text | None = None
    late: bool = False

    def here(self, facts: Facts) -> "Meaning":
        """What it means with these facts."""
        found = next((variant for variant in self.where if variant.applies(facts)), None)
        if found is None:
            return self
        return replace(self, says=found.says or self.says, adds=found.adds, late=found.late, lacks=self.lacks or (found.lacks and words.fill(found.lacks, facts)))


def advise(
    finding: Finding, remedies: Sequence[Remedy], facts: Facts, meanings: Mapping[str, Meaning], sizer: Sizer
) -> tuple[tuple[Recommendation, ...], tuple[WillNotHelp, ...]]:
    """Recommendations with their numbers, and what will not help: a knob that sizing shows to be of no use here moves from the first to the second."""
    made: list[Recommendation] = []
    late: list[Recommendation] = []
    useless = {item.remedy + ":" + item.direction: item for item in _will_not_help(finding, facts)}
    for remedy in remedies:
        name, direction = split(remedy.id)
        meaning = (meanings.get(remedy.id) or Meaning(Text(remedy.id), Text(""), "medium")).here(facts)
        if meaning.lacks is not None:
            useless[f"{name}:{direction}"] = WillNotHelp(name, direction, meaning.lacks)
            continue
        sized = sizer(name, direction)
        if isinstance(sized, Impossible):
            useless[f"{name}:{direction}"] = WillNotHelp(name, direction, sized.why)
            continue
        special = remedy.why if remedy.why is not None and words.complete(remedy.why, facts) else None
        general = special is None
        why = words.fill(special or meaning.says, facts)
        kept = late if meaning.late else made
        if sized is None:
            why, general = _with(why, general, meaning, facts)
            kept.append(Recommendation(name, direction, why, words.fill(meaning.effect, facts), meaning.risk, general=general, option=meaning.option))
            continue
        if sized.why is not None:
            why = sized.why if general and sized.to_value is not None else _join(why, sized.why)
            general = general and sized.to_value is None
        why, general = _with(why, general, meaning, facts)
        effect = sized.effect if sized.effect.en else words.fill(meaning.effect, facts)
        kept.append(Recommendation(name, direction, why, effect, meaning.risk, sized.from_value, sized.to_value, sized.predicted, general, meaning.option))
    return tuple([*made[: MOST - min(1, len(late))], *late][:MOST]), tuple(useless.values())


def _with(why: Text, general: bool, meaning: Meaning, facts: Facts) -> tuple[Text, bool]:
    return (_join(why, words.fill(meaning.adds, facts)), False) if meaning.adds is not None else (why, general)


def _join(one: Text, other: Text) -> Text:
    return Text(f"{one.en} {other.en}", f"{one.zh or one.en}{other.zh or other.en}")


def _will_not_help(finding: Finding, facts: Facts) -> tuple[WillNotHelp, ...]:
    """What people would try here, with the reason why it does not help."""
    found: dict[str, WillNotHelp] = {}
    idle_covers = _idle_covers(facts)
    for item in finding.signature.will_not_help:
        name, direction = split(item.id)
        why = item.why or _wrong_kind(item.id, finding, facts)
        if why is not None and item.applies(facts) and words.complete(why, facts) and not (idle_covers and _IDLE in why.en):
            found[item.id] = WillNotHelp(name, direction, words.fill(why, facts))
    return tuple(found.values())


def _idle_covers(facts: Facts) -> bool:
    """Whether what PyTorch held unused would have been enough, alone or, where it is no crumbs, together with what was free on the card."""
    wanted, free, idle, total = (facts.get(f"alloc.{name}_bytes") for name in ("requested", "free", "unallocated", "total"))
    if isinstance(wanted, int) and isinstance(free, int) and isinstance(idle, int) and isinstance(total, int) and idle >= _CRUMBS * total:
        return free < wanted <= free + idle or facts.get("alloc.slack_covers_request") is True
    return facts.get("alloc.slack_covers_request") is True


def _wrong_kind(remedy: str, finding: Finding, facts: Facts) -> Text | None:
    """Why it treats the wrong kind of memory. Where the card's memory is the host's there are no two kinds."""
    family = family_of(finding.cause)
    if family == "not_memory" and finding.certainty is not Certainty.CERTAIN:
        return _NOT_SHOWN if remedy in WRONG_KIND[family] else None
    one_memory = family == "host_memory" and facts.get("device.unified_memory") is True
    return _WRONG_WHY[family] if remedy in WRONG_KIND.get(family, ()) and not one_memory else None
