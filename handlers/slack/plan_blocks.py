"""What is to be done and what became of it, as blocks: the preview, the rollout, the outcome, what is handed out, what differs. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from bot.cases.buttons import started
from bot.lifecycle import BOT
from bot.model import Case, Difference, Operation, Outcome, Remediation, Rollout, State, Step, StepKind, Verdict
from bot.units import duration
from handlers.messages import Trusted
from handlers.slack import kit, wording
from handlers.slack.kit import Block
from handlers.slack.page import Page

_DIFFERENCES, _DIFF = 8, 2800
_HEAD = 24  # digits of the trail's head: 96 bits, in one line of a phone
_WHOLE = 9000  # below kit.MOST_CHARACTERS, so that nothing of a plan is left out behind an Approve button
_UNDER_WAY = frozenset({State.APPROVED, State.EXECUTING, State.WATCHING, State.VERIFYING})


def operation_with(case: Case, *, plan: str = "", operation: str = "") -> Operation | None:
    """The Case's operation with this plan's id or this operation's id, whether it is the current one or an ended one."""
    everything = [*([case.operation] if case.operation else []), *reversed(case.operations)]
    return next((each for each in everything if each.remediation.id == plan or each.id == operation), None)


# ---------------------------------------------------------------- the preview


def plan(page: Page, plan_id: str) -> list[Block]:
    """The preview: exactly what would be written, what it costs, how to undo it, who may approve until when."""
    operation = operation_with(page.case, plan=plan_id)
    if operation is None:
        return [kit.section(page.say("plan_gone", what=""))]
    remediation = operation.remediation
    title = page.say("plan_title" if remediation.direction == "apply" else "plan_title_undo", object=remediation.object, what=page.change_of(remediation.remedy))
    blocks = [kit.section(title), *kit.rich([kit.preformatted(remediation.diff, _DIFF)] if remediation.diff else [])]
    steps, notes = _steps(page, remediation), "\n".join(page.text(note) for note in remediation.notes)
    blocks += [kit.section(each) for each in (steps, notes) if each]
    blocks.append(_digest(page, remediation))
    parts = (len(title), len(remediation.diff) + 100, len(steps), len(notes))
    whole = max(parts) <= _DIFF and sum(parts) <= _WHOLE
    return [*blocks, *_decision(page, operation, whole=whole)]


def summary(page: Page, plan_id: str) -> list[Block]:
    """What a form repeats of a plan: what is changed, in what, and which plan it is."""
    operation = operation_with(page.case, plan=plan_id)
    if operation is None:
        return [kit.section(page.say("plan_gone", what=""))]
    plan = operation.remediation
    words = page.say("confirm_approve", object=plan.object, what=page.change_of(plan.remedy))
    return [kit.section(words), *kit.rich([kit.preformatted(plan.diff, _DIFF)] if plan.diff else []), _digest(page, plan)]


def _digest(page: Page, plan: Remediation) -> Block:
    return kit.context(page.say("plan_digest", digest=plan.digest[:12], risk=page.label(f"risk_{plan.risk}")))


def _steps(page: Page, remediation: Remediation) -> str:
    """Every write, when there is more than the one that the diff shows."""
    if len(remediation.steps) < 2:
        return ""
    lines = [f"{number}. {page.text(step.says)}{_object_of(page, step)}" for number, step in enumerate(remediation.steps, 1)]
    return f"*{page.label('steps')}*\n" + "\n".join(lines)


def _object_of(page: Page, step: Step) -> str:
    """What is written to, where the step's own words do not name it."""
    if step.object.name in step.says.say(page.language):
        return ""
    return f" ({page.label(f'step_{StepKind(step.kind).value}')}: {kit.escape(str(step.object))})"


def _decision(page: Page, operation: Operation, *, whole: bool) -> list[Block]:
    """`whole`: all of the plan stands above. What nobody can read nobody may approve."""
    if operation.ended is not None:
        return [kit.section(page.say("plan_ended", why=page.reason(operation.ended)))]
    waits = page.case.state is State.AWAITING_APPROVAL and operation is page.case.operation
    if operation.approvals and not waits:
        return [kit.section(_approved(page, operation))]
    if not waits:
        return [kit.context(page.label(f"state_{page.case.state.value}"))]
    if not whole:
        return [kit.section(page.say("plan_too_long")), *kit.actions(page.buttons(("reject",), operation.remediation.id))]
    who = Trusted(", ".join(kit.mention(each) for each in page.approvers))
    words = page.say("plan_needs", who=who, needed=operation.needed, not_who=_not_these(page, operation), until=kit.moment(operation.expires_at), name=operation.must_type)
    return [*_so_far(page, operation), kit.section(words), *kit.actions(page.buttons(("approve", "reject"), operation.remediation.id))]


def _so_far(page: Page, operation: Operation) -> list[Block]:
    """Who has approved, and how many are missing; nothing before the first."""
    if not operation.approvals:
        return []
    have = len(operation.approvals)
    return [kit.section(page.say("plan_so_far", who=_approvers(operation), have=have, needed=operation.needed, missing=operation.needed - have))]


def _approvers(operation: Operation) -> Trusted:
    return Trusted(", ".join(kit.mention(each.actor.id) for each in operation.approvals))


def _not_these(page: Page, operation: Operation) -> Trusted:
    """Who is too much involved to approve: who asked, who pressed Apply."""
    if not page.second_person:
        return Trusted("")
    asker = page.case.request.actor
    people = [operation.requested_by.id]
    if asker.origin == "slack" and operation.remediation.direction == "apply":
        people += [asker.id, *page.case.asked_again]
    return Trusted(", ".join(kit.mention(each) for each in dict.fromkeys(people)))


def _approved(page: Page, operation: Operation) -> str:
    approval = operation.approvals[-1]
    began = kit.moment(operation.started_at) if operation.started_at else ""
    return page.say("plan_approved", who=_approvers(operation), at=kit.moment(approval.at), started=began)


# ---------------------------------------------------------------- the outcome


def outcome(page: Page, operation_id: str) -> list[Block]:
    """From the first write to the end: rollout, stuck, verified or not, undone."""
    operation = operation_with(page.case, operation=operation_id)
    if operation is None:
        return [kit.section(page.say("plan_gone", what=""))]
    title = page.say("outcome_title" if operation.remediation.direction == "apply" else "outcome_title_undo", object=operation.remediation.object, what=page.change_of(operation.remediation.remedy))
    blocks = [kit.section(title)]
    if operation.approvals:
        blocks.append(kit.context(_approved(page, operation)))
    if operation.outcome is not None:
        blocks += _ended(page, operation, operation.outcome)
    else:
        blocks.append(kit.section(_so_far_done(page, operation, now=operation is page.case.operation)))
    if operation is page.case.operation:
        blocks += _left(page)
        blocks += kit.actions(page.buttons(("wait", "undo", "leave"), operation.remediation.id))
    return blocks


def _so_far_done(page: Page, operation: Operation, *, now: bool) -> str:
    """Without an outcome: refused at its first step, under way, stuck, or written and then left to itself or taken back."""
    if operation.ended is not None:
        return page.say("plan_ended", why=page.reason(operation.ended))
    if now and page.case.state is State.STUCK:
        return _stuck(page, operation)
    if now and page.case.state in _UNDER_WAY:
        return _running(page, operation)
    rollout = operation.rollout or Rollout(0, 0, 0, False)
    return page.say("outcome_halted", done=operation.next_step, steps=len(operation.remediation.steps), ready=rollout.ready, wanted=rollout.wanted)


def _left(page: Page) -> list[Block]:
    """Who chose to leave it as it is; nothing while nobody did."""
    last = next((move for move in reversed(page.case.history) if move.to_state is not State.CLOSED), None)
    if last is None or last.to_state is not State.LEFT:
        return []
    who = Trusted("") if last.who == BOT else kit.mention(last.who)
    return [kit.context(page.say("outcome_left", who=who, at=kit.day_and_time(last.at)))]


def _running(page: Page, operation: Operation) -> str:
    rollout, steps = operation.rollout, len(operation.remediation.steps)
    if rollout is None:
        return page.say("outcome_writing", done=operation.next_step, steps=steps)
    ready = {"ready": rollout.ready, "wanted": rollout.wanted, "elapsed": _elapsed(page.case, operation)}
    return page.say("outcome_verifying" if page.case.state is State.VERIFYING else "outcome_rolling", **ready)


def _elapsed(case: Case, operation: Operation) -> str:
    return duration((case.updated_at - operation.started_at).total_seconds()) if operation.started_at else ""


def _stuck(page: Page, operation: Operation) -> str:
    rollout = operation.rollout or Rollout(0, 0, 0, False)
    trouble = page.case.trouble
    why = page.words(trouble) if trouble else Trusted(kit.escape(page.label(f"stuck_{rollout.stuck or 'took_too_long'}")))
    return page.say("outcome_stuck", why=why, detail=rollout.detail, ready=rollout.ready, wanted=rollout.wanted)


def _ended(page: Page, operation: Operation, result: Outcome) -> list[Block]:
    verdict = page.label(f"verdict_{Verdict(result.verdict).value}")
    blocks = [kit.section(page.say("outcome_end", verdict=verdict, at=kit.moment(result.at), says=result.says.say(page.language)))]
    if result.diagnosis is not None and result.verdict is Verdict.FAILED:
        blocks.append(kit.section(page.say("outcome_new_diagnosis", summary=result.diagnosis.summary.say(page.language))))
    blocks += _aftermath(page, operation)
    if operation.audit_head:
        number, _, mac = operation.audit_head.partition(":")
        blocks.append(kit.context(page.say("audit_head", head=f"{number}:{mac[:_HEAD]}")))
    return blocks


def _aftermath(page: Page, operation: Operation) -> list[Block]:
    """How long it is watched, that nothing happened, or what did."""
    after, until = operation.aftermath, operation.aftercare_until
    if after is None:
        return [kit.context(page.say("outcome_watching", until=kit.moment(until)))] if until else []
    if after.verdict is not Verdict.FAILED:
        return [kit.context(page.say("outcome_watched", until=kit.moment(after.at), says=after.says.say(page.language)))]
    blocks = [kit.section(page.say("outcome_but", at=kit.moment(after.at), says=after.says.say(page.language)))]
    if after.diagnosis is not None:
        blocks.append(kit.section(page.say("outcome_new_diagnosis", summary=after.diagnosis.summary.say(page.language))))
    return blocks


# ---------------------------------------------------------------- notes


def note(page: Page) -> list[Block]:
    """What a person has to know in between: a plan that was refused, a patch to paste, what somebody else changed."""
    case, blocks = page.case, []
    if case.trouble is not None:
        blocks.append(kit.section(page.words(case.trouble)))
    if case.differences:
        blocks += _differences(page, case.differences)
    if case.handout is not None:
        words = page.say("handout", what=page.change_of(case.handout.remedy), reason=case.handout.reason.say(page.language))
        blocks += [kit.section(words), *kit.rich([kit.preformatted(case.handout.paste, 2800)])]
    return [*(blocks or [kit.section(state_of(page))]), *kit.actions(page.buttons(("preview_again",)))]


def state_of(page: Page) -> str:
    return page.say("state", state=page.label(f"state_{page.case.state.value}"), until="")


def _differences(page: Page, differences: tuple[Difference, ...]) -> list[Block]:
    blocks, was = [kit.section(page.say("differences"))], _before_the_bot(page.case)
    for each in differences[:_DIFFERENCES]:
        who = page.say("difference", path=wording.path_of(each.path, page.language), by=each.who)
        lines = [*_lines("-", each.before), *_lines("+", each.now)]
        if each.path in was:  # three-way: what there was, what the bot made of it, what somebody made of that
            lines = [f"{page.label(name)}: {_value(value)}" for name, value in (("was", was[each.path]), ("set_to", each.before), ("is_now", each.now))]
        blocks += [kit.section(who), *kit.rich([kit.preformatted("\n".join(lines), 1200)])]
    return blocks


def _before_the_bot(case: Case) -> Mapping[str, Any]:
    """What stood at each path before the bot wrote there, where the differences are to what it wrote."""
    wrote = started(case)
    after_a_write = case.trouble is None or case.trouble.key in ("changed_since", "reverted")
    return wrote.remediation.before if wrote is not None and after_a_write else {}


def _lines(sign: str, value: Any) -> list[str]:
    """A value as lines of a difference; what is not there has none."""
    text = value if isinstance(value, str) else _value(value)
    return [f"{sign} {line}" for line in text.splitlines()] if value is not None else []


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return text.replace("\n", " ")
