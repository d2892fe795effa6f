"""Apply or Undo was pressed: a plan, allowed by policy and tried as a dry run with the writing credentials, or a patch to paste. The job "plan"; it writes nothing."""

from collections.abc import Callable
from dataclasses import replace

from bot.cases.approval import differences_of
from bot.cases.buttons import halves, undoable, with_buttons
from bot.cases.changed import voids
from bot.cases.desk import Desk, new_id
from bot.cases.ending import back, with_operation
from bot.cases.offering import by_hand
from bot.errors import BadInput, Permanent, Refused
from bot.lifecycle import BOT, move
from bot.model import Asked, Case, Handout, Operation, Remediation, State, Words


def plan(desk: Desk, case_id: str) -> None:
    case = desk.get(case_id)
    if case.state is not State.PLANNING or case.asked is None:
        return
    asked = case.asked
    try:
        made = _made(desk, case, asked)
    except Refused as refused:
        _comes_to_nothing(desk, case, Words(refused.key, refused.parameters))
        return
    except (BadInput, Permanent) as wrong:
        changed = differences_of(wrong)
        why = voids(changed, undo=asked.verb == "undo") if changed else Words("plan_refused", {"reason": str(wrong)})
        _settle(desk, case, lambda now: back(desk, now, why, differences=changed), "plan_refused", reason=str(wrong))
        return
    if isinstance(made, Handout):
        _settle(desk, case, lambda now: back(desk, now, Words("handed_out", {"remedy": made.remedy}), handout=made), "handed_out", remedy=made.remedy)
        return
    try:
        desk.policy.check_change(made, desk.frozen())
        desk.check_when(made)
        desk.check_enough_left(case, made, asked.actor)
        desk.engine.dry_run(made, desk.writer(made.target))
    except Refused as refused:
        handout = by_hand(made) if made.direction == "apply" and made.diff else None
        _comes_to_nothing(desk, case, Words(refused.key, refused.parameters), handout)
        return
    except Permanent as wrong:
        changed = differences_of(wrong)
        why = voids(changed) if changed else Words("dry_run_refused", {"reason": str(wrong)})
        _settle(desk, case, lambda now: back(desk, now, why, differences=changed), "dry_run_refused", reason=str(wrong))
        return
    _offer(desk, case, asked, made)


def _made(desk: Desk, case: Case, asked: Asked) -> Remediation | Handout:
    if case.target is None or case.diagnosis is None:
        raise Refused("not_now", {"state": case.state.value, "wanted": asked.verb})
    reader = desk.reader(case.target)
    if asked.verb == "undo":
        done = undoable(case)
        if done is None:
            raise Refused("nothing_to_undo")
        sent = desk.engine.carried_out(done, reader, halves(case))
        if not sent.remediation.steps:
            raise Refused("nothing_to_undo")
        return desk.engine.plan_undo(sent, reader, new_id=lambda: f"r-{asked.id or new_id()}")
    wanted = case.diagnosis.recommendations[asked.index]
    in_place = desk.policy.gitops_in_place
    return desk.engine.plan(wanted, case.target, reader, now=desk.clock.now(), new_id=lambda: f"r-{asked.id or new_id()}", diagnosis=case.diagnosis, in_place=in_place)


def _offer(desk: Desk, case: Case, asked: Asked, made: Remediation) -> None:
    now = desk.clock.now()
    operation = Operation(f"o-{asked.id or new_id()}", made, asked.actor, now, now + desk.timings.approval_ttl, needed=desk.policy.needed(made), must_type=desk.policy.must_type(made))
    desk.note_once(
        "planned",
        case,
        loose=("until",),
        who=asked.actor.id,
        operation=operation.id,
        plan=made.id,
        digest=made.digest,
        action=made.action,
        direction=made.direction,
        remedy=made.remedy,
        object=str(made.object),
        risk=made.risk,
        diff=made.diff,
        notes=[note.en for note in made.notes],
        until=operation.expires_at.isoformat(),
        steps=[{"kind": step.kind.value, "object": str(step.object), "patch": list(step.patch)} for step in made.steps],
    )

    def decide(case: Case) -> Case:
        if case.state is not State.PLANNING:
            return case
        return with_buttons(replace(move(with_operation(case, operation), State.AWAITING_APPROVAL, BOT, made.id, now), trouble=None, handout=None, differences=()))

    kept = desk.change(case.id, decide)
    desk.put("expire", case.id, at=operation.expires_at)
    desk.announce(kept)


def _comes_to_nothing(desk: Desk, case: Case, why: Words, handout: Handout | None = None) -> None:
    """Refused: the thread says so, and who pressed is told."""
    kept = _settle(desk, case, lambda now: back(desk, now, why, handout=handout), "refused", verb="plan", key=why.key)
    if case.asked is not None and kept.state is not State.PLANNING:
        desk.tell(case.asked.actor, case.asked.conversation, why)


def _settle(desk: Desk, case: Case, decide: Callable[[Case], Case], what: str, **fields: str) -> Case:
    desk.note_once(what, case, who=case.asked.actor.id if case.asked else "", **fields)
    kept = desk.change(case.id, lambda now: decide(now) if now.state is State.PLANNING else now)
    desk.announce(kept)
    return kept
