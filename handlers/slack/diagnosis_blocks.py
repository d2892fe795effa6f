"""What was found, as blocks: the summary at the top, the evidence with the ledger, the recommendations. Pure.

Quoted lines stand in preformatted rich text, which Slack does not parse; everything else from outside is escaped.
"""

from bot import gap_words, knobs
from bot.model import Case, Diagnosis, Gap, Ledger, Predicted, Quote, Recommendation, State
from bot.units import in_gib
from handlers.messages import Trusted
from handlers.remedy_names import useless
from handlers.slack import kit
from handlers.slack.kit import Block
from handlers.slack.page import Page, grouped

NOTHING = "none"  # the remedy "nothing to change"
_OFFERS = ("apply", "show")  # what a button under a recommendation does
_QUOTES, _AGAINST, _GAPS, _RECOMMENDATIONS, _WILL_NOT_HELP = 4, 3, 4, 6, 6
_SUMS = frozenset({"device_memory", "communication"})  # families whose answer the memory ledger of the card explains
_LEDGER = (
    "requested_bytes", "weights_bytes", "activation_peak_bytes", "non_torch_bytes", "cudagraph_estimate_bytes", "cudagraph_bytes",
    "residual_bytes", "available_kv_bytes", "needed_kv_bytes",
)  # fmt: skip


def top(page: Page) -> list[Block]:
    """The message that a phone shows: progress while it works, then mechanism, fix, state."""
    case = page.case
    if case.diagnosis is None or case.state in (State.RECEIVED, State.CHECKING):
        return _working(page)
    blocks = [kit.section(_headline(page, case.diagnosis))]
    first = case.diagnosis.recommendations[0] if case.diagnosis.recommendations else None
    if case.diagnosis.cause == "unknown":
        blocks += gaps(page, deciding(case.diagnosis), "decides")
    blocks.append(kit.section(_fix(page, first)))
    blocks += kit.actions([*_apply_buttons(page, most=1), *page.buttons(("retry",))])
    return [*blocks, *_alert(page), kit.context(state_line(page))]


def _working(page: Page) -> list[Block]:
    case = page.case
    if case.state in (State.CHECK_FAILED, State.CLOSED) and case.trouble:
        blocks = [kit.section(page.say("top_failed", what=page.what())), kit.section(page.words(case.trouble))]
        return [*blocks, *_alert(page), *kit.actions(page.buttons(("retry",))), kit.context(state_line(page))]
    blocks = [kit.section(page.say("top_looking", what=page.what())), *_alert(page)]
    if case.progress:
        rows = [f"{page.label(f'progress_{line.state}')}: {page.progress(line.name)}{f' ({kit.escape(line.detail)})' if line.detail else ''}" for line in case.progress]
        blocks.append(kit.context("\n".join(rows)))
    return [*blocks, kit.context(state_line(page))]


def _alert(page: Page) -> list[Block]:
    alert = page.case.request.alert
    return [kit.context(page.say("alert_line", title=alert.title, source=kit.link(alert.url, page.label(alert.source))))] if alert else []


def state_line(page: Page) -> str:
    """Where the Case stands, in one line."""
    case = page.case
    until = kit.moment(case.operation.expires_at) if case.operation else ""
    but = case.state is State.VERIFICATION_FAILED and case.operation is not None and case.operation.aftermath is not None
    return page.say("state", state=page.label("state_verified_but" if but else f"state_{case.state.value}"), until=until if case.state is State.AWAITING_APPROVAL else "")


def _headline(page: Page, diagnosis: Diagnosis) -> str:
    certainty = page.label("certainty_unknown" if diagnosis.cause == "unknown" else f"certainty_{diagnosis.certainty.value}")
    engine = f"vLLM {diagnosis.engine_version}" if diagnosis.engine_version else ""
    return page.say("top_summary", what=page.what(), engine=engine, summary=diagnosis.summary.say(page.language), certainty=certainty)


def _fix(page: Page, first: Recommendation | None) -> str:
    if first is None:
        return page.say("top_no_fix")
    if first.remedy == NOTHING:  # it may say why, and what to do another time
        nothing, why = page.say("top_nothing"), first.why.say(page.language)
        return nothing if why in nothing else f"{nothing} {kit.escape(why)}"
    return page.say("top_fix", change=Trusted(change(page, first)), effect=first.effect.say(page.language))


def change(page: Page, recommendation: Recommendation) -> str:
    """`--max-model-len 131072 -> 57344`, or the remedy in words with its sizes or, where no number is known, with the option of the server that failed."""
    typed, step = knobs.typed(recommendation), knobs.change(recommendation)
    if typed:
        return f"`{kit.escape(typed)}`"
    name = kit.escape(page.remedy(recommendation.remedy, recommendation.direction))
    if step:
        return f"{name}: `{kit.escape(step)}`"
    return f"{name} (`{kit.escape(recommendation.option)}`)" if recommendation.option else name


def _apply_buttons(page: Page, most: int) -> list[Block]:
    return [page.button(button) for button in page.case.buttons if button.verb in _OFFERS][:most]


# ---------------------------------------------------------------- the evidence


def evidence(page: Page) -> list[Block]:
    """The proof: quoted lines with their places, the ledger, what speaks against it, what could not be read."""
    diagnosis = page.case.diagnosis
    if diagnosis is None:
        return [kit.section(page.say("evidence_none"))]
    blocks = [kit.section(f"*{page.label('evidence')}*")]
    blocks += _ledger(page, diagnosis.ledger) if diagnosis.family in _SUMS else []
    blocks += _quotes(page, diagnosis.evidence[:_QUOTES])
    if diagnosis.against:
        blocks += [kit.section(f"*{page.label('against')}*"), *_quotes(page, diagnosis.against[:_AGAINST])]
    if len(diagnosis.evidence) > _QUOTES:
        blocks.append(kit.context(page.say("more_evidence", count=len(diagnosis.evidence) - _QUOTES)))
    if diagnosis.cause != "unknown":
        blocks += gaps(page, deciding(diagnosis), "surer")
    return [*blocks, *gaps(page, tuple(gap for gap in diagnosis.gaps if not gap.matters and gap_words.given(gap)), "not_read")]


def _quotes(page: Page, quotes: tuple[Quote, ...]) -> list[Block]:
    elements = []
    for quote in quotes:
        place = f"{quote.source}:{quote.line}" if quote.line else quote.source
        elements += [kit.line(f"{quote.says.say(page.language)} ({place})"), kit.preformatted(quote.quote, 600)]
    return kit.rich(elements)


def _ledger(page: Page, ledger: Ledger | None) -> list[Block]:
    """The memory ledger in GiB; rows that were neither printed nor derivable are left out."""
    if ledger is None:
        return []
    rows = [(name, getattr(ledger, name)) for name in _LEDGER]
    there = [(name, size) for name, size in rows if size is not None]
    if not there:
        return []
    head = page.label("ledger_of") if ledger.total_bytes is None else f"{page.label('ledger_of_total')} {in_gib(ledger.total_bytes):.2f} GiB"
    if ledger.ranks_seen > 1 and ledger.rank is not None:
        head += f", {page.label('ledger_rank')} {ledger.rank}"
    body = [(page.label(f"ledger_{name}"), f"{in_gib(size):.2f}" + _about(page, ledger, name)) for name, size in there]
    return kit.table([(head, "GiB"), *body])


def _about(page: Page, ledger: Ledger, name: str) -> str:
    if name == "requested_bytes" and ledger.utilization is not None:
        return f" ({page.label('utilization')} {ledger.utilization:g})"
    if name == "available_kv_bytes" and ledger.kv_tokens is not None:
        return f" = {grouped(ledger.kv_tokens)} {page.label('tokens')}"
    if name == "needed_kv_bytes" and ledger.max_model_len is not None:
        return f" ({grouped(ledger.max_model_len)} {page.label('tokens')})"
    return f" ({page.label('derived')})" if name in ledger.derived else ""


def deciding(diagnosis: Diagnosis) -> tuple[Gap, ...]:
    """Readings that could change the answer; what the signature does not name, only where it names none."""
    could = tuple(gap for gap in diagnosis.gaps if gap.matters)
    return tuple(gap for gap in could if gap.reason != "absent") or could


def gaps(page: Page, missing: tuple[Gap, ...], title: str) -> list[Block]:
    """What could not be read, what it would tell, and why it is missing. One line a gap."""
    if not missing:
        return []
    lines = []
    for gap in missing[:_GAPS]:
        matters = page.label("gap_does_not_matter") if gap.matters is False else ""
        lines.append(page.say("gap", source=gap.source, reason=gap_words.reason(gap, page.language), would_tell=gap_words.tells(gap, page.language), matters=matters))
    return [kit.section(f"*{page.label(title)}*\n" + "\n".join(lines))]


# ---------------------------------------------------------------- the recommendations


def recommendation(page: Page) -> list[Block]:
    """What to change, from what to what, and why; what will not help; what else it could be."""
    diagnosis = page.case.diagnosis
    if diagnosis is None:
        return [kit.section(page.say("top_no_fix"))]
    wanted = [(index, each) for index, each in enumerate(diagnosis.recommendations) if each.remedy != NOTHING]
    blocks = [kit.section(f"*{page.label('recommendations')}*" if wanted else _fix(page, next(iter(diagnosis.recommendations), None)))]
    for index, each in wanted[:_RECOMMENDATIONS]:
        blocks.append(kit.section(_recommended(page, index, each), _button_of(page.case, page, index)))
    if diagnosis.will_not_help:
        lines = [page.say("will_not_help_line", remedy=names, why=why) for names, why in useless(diagnosis.will_not_help, page.language)[:_WILL_NOT_HELP]]
        blocks.append(kit.section(f"*{page.label('will_not_help')}*\n" + "\n".join(lines)))
    if diagnosis.runners_up:
        others = ", ".join(f"{kit.escape(page.cause(each.cause))} ({page.label(f'certainty_{each.certainty.value}')})" for each in diagnosis.runners_up[:4])
        blocks.append(kit.context(f"{page.label('runners_up')}: {others}"))
    return blocks


def _recommended(page: Page, index: int, each: Recommendation) -> str:
    effect, numbers = each.effect.say(page.language), predicted(page, each.predicted)
    cache, tokens = (each.predicted.available_kv_bytes, each.predicted.kv_tokens) if each.predicted else (None, None)
    told = cache is not None and (tokens is None or f"{in_gib(cache):.2f} GiB" in effect)  # the effect says these numbers already, or more than they do
    why, title = each.why.say(page.language), Trusted(change(page, each))
    if each.general:  # what the remedy does in general: the title where no numbers make one, and nothing to add to one with numbers
        title, why = (title if each.to_value is not None else Trusted(kit.escape(why))), ""
    return page.say(
        "recommendation_item", number=index + 1, change=title, why=why, effect=effect,
        predicted="" if told else numbers, risk=page.label(f"risk_{each.risk}"),
    )  # fmt: skip


def predicted(page: Page, numbers: Predicted | None) -> str:
    """What a size change leads to, in one piece; empty when nothing is known."""
    if numbers is None:
        return ""
    parts = []
    if numbers.available_kv_bytes is not None:
        parts.append(f"{page.label('cache')} {in_gib(numbers.available_kv_bytes):.2f} GiB")
    if numbers.kv_tokens is not None:
        parts.append(f"{grouped(numbers.kv_tokens)} {page.label('tokens')}")
    if numbers.max_concurrency is not None:
        parts.append(f"{page.label('at_once')} {numbers.max_concurrency:.2f}")
    if numbers.free_bytes is not None:
        parts.append(f"{page.label('left_free')} {in_gib(numbers.free_bytes):.2f} GiB")
    return page.label("comma").join(parts)


def _button_of(case: Case, page: Page, index: int) -> Block | None:
    found = next((button for button in case.buttons if button.verb in _OFFERS and button.index == index), None)
    return page.button(found) if found else None
