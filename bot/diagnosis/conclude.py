"""From ranked findings to one Diagnosis: what it is, how sure, on which lines, what is left open, what to do.

Certainty is derived here and nowhere raised. No finding means `unknown`, with the readings that would decide.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from bot.diagnosis import fact_words, host_sizing, recommend, sizing, sizing_server, words
from bot.diagnosis.against import against
from bot.diagnosis.causes import family_of
from bot.diagnosis.ledger_engine import EngineFacts
from bot.diagnosis.recommend import Meaning
from bot.diagnosis.signatures import Finding, Signature
from bot.facts import VOCABULARY, Facts
from bot.logs.incidents import Incident
from bot.model import Certainty, Diagnosis, Fact, Gap, Ledger, Phase, Quote, Recommendation, RunnerUp, Text
from bot.servers import ASSUMED, Server

_MOST_QUOTES = 4
_VERDICTS = frozenset(
    {
        "kernel.victim", "kernel.xid_code", "events.probe_kill", "events.system_oom", "events.evicted", "events.rejected", "pod.evicted", "pod.rejected",
        "pod.disruption", "termination.by", "events.grace_exceeded", "events.stopping", "docker.oom_killed", "cgroup.event_oom_kill",
    }
)  # fmt: skip
_CIRCUMSTANCES = frozenset(
    {
        "container.lifetime_s", "container.ended", "container.running", "container.state", "container.restarts", "container.name", "container.ready", "container.quiet_s",
        "container.memory_request_bytes", "container.gpus", "gpus.names", "engine.ranks", "log.ready", "log.server",
    }
)  # fmt: skip
_SILENT = "what was given of it does not say"
_CARDS_READ = "nvidia-smi.txt"
_TOOLS = {"HIP": "rocm-smi", "XPU": "xpu-smi", "NPU": "npu-smi"}  # what reads cards of other makers, of which no file is read here
_OF_LOG = ("failure.", "alloc.", "budget.", "engine.", "stack.", "requests.", "limits.")  # a verdict on these rests on the log's root


@dataclass(frozen=True, slots=True)
class Context:
    """What a conclusion needs besides facts. `absent`: files that the bundle does not have; `says`: what each log message means."""

    incident: Incident | None
    ledger: Ledger | None
    engine: EngineFacts
    gaps: tuple[Gap, ...]
    absent: tuple[Gap, ...]
    meanings: Mapping[str, Meaning]
    says: Mapping[str, Text]
    whole: frozenset[str] = frozenset()  # files that were read from end to end
    server: Server | None = None  # the program that serves, where it is not the one that sizes are computed for


def diagnosis(found: Sequence[Finding], facts: Facts, context: Context) -> Diagnosis:
    """The Diagnosis of ranked findings (best first)."""
    if not found or found[0].cause == "unknown":
        return _unknown(found, facts, context)
    best, rivals = found[0], [finding for finding in found[1:] if finding.cause != "unknown"]
    certainty = best.certainty
    if any(rival.certainty is Certainty.CERTAIN for rival in rivals) and certainty is Certainty.CERTAIN:
        certainty = Certainty.LIKELY
    if certainty is Certainty.CERTAIN and _doubted(best, rivals, facts):
        certainty = Certainty.LIKELY
    if facts.get("log.goes_on") is True and any(name.startswith(_OF_LOG) for name in best.signature.when):
        certainty = Certainty.POSSIBLE
    remedies = recommend.chosen([best, *rivals], facts)
    advice, useless = recommend.advise(replace(best, certainty=certainty), remedies, facts, context.meanings, lambda name, direction: _size(name, direction, facts, context))
    objections = against(best, rivals, facts, lambda fact: _says(fact, facts, context))
    return Diagnosis(
        cause=best.cause,
        family=family_of(best.cause),
        certainty=certainty,
        summary=words.fill(best.signature.says, facts),
        evidence=_evidence(best.signature, facts, context, {(quote.source, quote.line) for quote in objections}),
        against=objections,
        runners_up=tuple(RunnerUp(rival.cause, rival.certainty) for rival in rivals[:4]),
        gaps=_gaps(best, facts, context) + _which_server(advice, facts, context),
        ledger=context.ledger,
        recommendations=advice,
        will_not_help=useless,
        **_where(facts, context),  # type: ignore[arg-type]
    )


def _doubted(best: Finding, rivals: Sequence[Finding], facts: Facts) -> bool:
    """Whether what the log proves is not the whole story: the container's own end speaks for memory of another kind, or its next start came past the same step."""
    if not any(name.startswith(_OF_LOG) for name in best.signature.when):
        return False
    family = family_of(best.cause)
    ended = any(rival.certainty is not Certainty.POSSIBLE and family_of(rival.cause) == "host_memory" != family and "container.reason" in rival.signature.when for rival in rivals)
    return ended or (family == "device_memory" and facts.get("failure.passed_after") is True)


def _size(name: str, direction: str, facts: Facts, context: Context) -> sizing.Sized | sizing.Impossible | None:
    if context.server is not None:
        return sizing_server.size_for(name, direction, context.server, context.engine, facts) or host_sizing.size_for(name, direction, facts)
    return sizing.size_for(name, direction, context.ledger, context.engine) or host_sizing.size_for(name, direction, facts)


def _where(facts: Facts, context: Context) -> dict[str, object]:
    incident = context.incident
    version = facts.get("engine.version")
    return {
        "phase": incident.phase if incident else None,
        "reached": incident.reached if incident else None,
        "engine_version": version if isinstance(version, str) else "",
        "host_peak_bytes": host_sizing.peak(facts),
    }


def _unknown(found: Sequence[Finding], facts: Facts, context: Context) -> Diagnosis:
    best = found[0] if found else None
    summary = words.fill(best.signature.says, facts) if best else _nothing(facts)
    remedies = recommend.chosen([best], facts) if best else []
    advice, useless = recommend.advise(best, remedies, facts, context.meanings, lambda _name, _direction: None) if best else ((), ())
    gaps = tuple(replace(gap, matters=True) for gap in (_gaps(best, facts, context) if best else (*context.gaps, *context.absent)))
    return Diagnosis(
        cause="unknown",
        family="unknown",
        certainty=best.certainty if best else Certainty.POSSIBLE,
        summary=summary,
        evidence=_evidence(best.signature, facts, context) if best else _last_lines(facts, context),
        runners_up=tuple(RunnerUp(rival.cause, rival.certainty) for rival in found[1:5]),
        gaps=gaps,
        ledger=context.ledger,
        recommendations=advice,
        will_not_help=useless,
        **_where(facts, context),  # type: ignore[arg-type]
    )


def _nothing(facts: Facts) -> Text:
    phase = facts.get("log.stopped_in")
    if isinstance(phase, str):
        return Text(
            f"The log stops in the phase {Phase(phase).value} without an error; the evidence does not say why.",
            f"日志在 {Phase(phase).value} 阶段中断且没有错误；证据不足以说明原因。",
        )
    return Text("The evidence does not say what happened.", "证据不足以说明发生了什么。")


def _evidence(signature: Signature, facts: Facts, context: Context, elsewhere: Set[tuple[str, int | None]] = frozenset()) -> tuple[Quote, ...]:
    """Quotes of the facts that the signature rests on, the root first; each place once, and none that is quoted `elsewhere`."""
    rooted = any(name.startswith(_OF_LOG) for name in signature.when)
    names = [*(["failure.kind"] if rooted else []), *sorted([*signature.quotes, *signature.when, *signature.certain_if], key=_weight)]
    quotes: dict[tuple[str, int | None], Quote] = {}
    for name in names:
        fact = facts.fact(name)
        if fact is None or fact.place is None or (fact.place.source, fact.place.line) in quotes or (fact.place.source, fact.place.line) in elsewhere:
            continue
        says = signature.quotes.get(name)
        quotes[fact.place.source, fact.place.line] = Quote(
            fact.place.source, fact.place.line, fact.place.quote, words.fill(says, facts) if says else _says(fact, facts, context)
        )
    return tuple(quotes.values())[:_MOST_QUOTES]


def _weight(name: str) -> int:
    """Verdicts of somebody who did it or saw it come first, circumstances last; else the order of the signature."""
    return 0 if name in _VERDICTS else 2 if name in _CIRCUMSTANCES or name.startswith("args.") else 1


def _says(fact: Fact, facts: Facts, context: Context) -> Text:
    """What a quoted line shows: by the message that stands in it, else by the fact that was read from it."""
    for name in (fact.name.replace("stack.", "frame.", 1), fact.name, fact.name.rpartition(".")[0]):
        if name in context.says:
            return context.says[name]
    printed = None if fact.name.startswith("log.") else _printed_at(fact, facts, context)
    said = printed or fact_words.of(fact)
    if said is not None:
        return said
    meaning = VOCABULARY.get(fact.name)
    shown = words.show(fact.name, fact.value)
    return Text(f"{meaning[1].partition(':')[0]}: {shown}") if meaning else Text(f"{fact.name}: {shown}")


def _printed_at(fact: Fact, facts: Facts, context: Context) -> Text | None:
    """The meaning of the log message in the line that a fact was read from; of several there, the root's, else the last one's."""
    incident = context.incident
    if incident is None or fact.place is None:
        return None
    there = [event for event in (*incident.earlier, *incident.events, *incident.frames) if (event.source, event.line) == (fact.place.source, fact.place.line)]
    root = facts.get("failure.message")
    chosen = next((event for event in there if event.id == root), there[-1] if there else None)
    return chosen.message.says if chosen else None


def _last_lines(facts: Facts, context: Context) -> tuple[Quote, ...]:
    fact = facts.fact("log.ended")
    if fact is None or fact.place is None or not fact.place.quote:
        return ()
    return (Quote(fact.place.source, fact.place.line, fact.place.quote, Text("The last line of the log.", "日志的最后一行。")),)


def _gaps(finding: Finding, facts: Facts, context: Context) -> tuple[Gap, ...]:
    """What could not be read, first what would have decided. A file that was read whole has told what it can."""
    broken = {gap.source: gap.reason for gap in context.gaps}
    gaps = [
        Gap(decider.source, broken.get(decider.source, "not available"), decider.would_tell.en, finding.certainty is not Certainty.CERTAIN, decider.would_tell.zh)
        for decider in finding.signature.deciders
        if decider.source not in context.whole
    ]
    if finding.cause == "unknown" and not gaps:  # the files that would decide are there, and what was given of them does not say
        gaps = [Gap(decider.source, _SILENT, decider.would_tell.en, True, decider.would_tell.zh) for decider in finding.signature.deciders]
    named = {gap.source for gap in gaps}
    sure = finding.certainty is Certainty.CERTAIN
    gaps += [replace(gap, matters=False if sure else gap.matters) for gap in context.gaps if gap.source not in named]
    if finding.unknown:
        gaps += [replace(gap, matters=True) for gap in context.absent if gap.source not in named and _covers(gap.source, finding.unknown)]
    tool = _TOOLS.get(str(facts.get("alloc.platform")), _CARDS_READ)
    return tuple(replace(gap, source=tool) if gap.source == _CARDS_READ else gap for gap in gaps)


def _which_server(advice: Sequence[Recommendation], facts: Facts, context: Context) -> tuple[Gap, ...]:
    """Advice in the options of a server that nobody saw says so."""
    assumed = facts.get(ASSUMED)
    if not isinstance(assumed, str) or not any(each.option for each in advice) or {"args.txt", "pod.json"} & context.whole:
        return ()
    told = Text(f"which program serves: the options named here are those of {assumed}", f"运行的是哪个服务程序：这里给出的是 {assumed} 的选项")
    return (Gap("args.txt", "not available", told.en, True, told.zh),)


_COVERS = {
    "pod.json": ("pod.", "container.", "termination."),
    "events.json": ("events.", "termination."),
    "kernel.log": ("kernel.", "xid."),
    "nvidia-smi.txt": ("gpus.", "gpu.", "device."),
    "node_readings.txt": ("node.", "cgroup.", "shm."),
    "container.log": ("log.", "failure.", "vllm.", "torch.", "engine."),
}


def _covers(source: str, names: Sequence[str]) -> bool:
    return any(name.startswith(_COVERS.get(source, ())) for name in names)
