"""A plan that comes to nothing, and time: back to where the button was pressed, expiry of an approval, closing of what nobody decides."""

from collections.abc import Sequence
from dataclasses import replace

from bot.cases.buttons import made, started, undoable, with_buttons
from bot.cases.desk import Desk
from bot.errors import Permanent, Temporary
from bot.lifecycle import BOT, may, move, resting_state
from bot.model import Case, Difference, Handout, Operation, State, Words

NOBODY = "nobody decided"
CLOSABLE = (State.CHECK_FAILED, State.DIAGNOSED, State.VERIFIED, State.VERIFICATION_FAILED, State.NOT_VERIFIABLE, State.LEFT)


def back(
    desk: Desk, case: Case, why: Words, *, who: str = BOT, differences: Sequence[Difference] = (), handout: Handout | None = None, key: str = ""
) -> Case:
    """The Case in the state in which the button was pressed; nothing was done. The plan, if there was one, is kept as ended with its reason."""
    ended = (replace(case.operation, ended=why, sending=None),) if case.operation and case.operation.started_at is None else ()
    kept = case.operations if ended else (*case.operations, *((case.operation,) if case.operation else ()))
    moved = move(replace(case, operation=None, operations=(*kept, *ended)), resting_state(case), who, why.key, desk.clock.now())
    current = started(moved)
    rest = tuple(one for one in moved.operations if one is not current)
    return with_buttons(
        replace(
            moved,
            operation=current,
            operations=rest,
            trouble=why,
            differences=tuple(differences),
            handout=handout,
            notes=moved.notes + 1,
            handled=(*case.handled[-50:], key) if key else case.handled,
        )
    )


def with_operation(case: Case, operation: Operation) -> Case:
    """The Case with a new current operation; the one before goes to the ended ones."""
    return replace(case, operation=operation, operations=(*case.operations, *((case.operation,) if case.operation else ())))


def expire(desk: Desk, case_id: str) -> None:
    """The job "expire": an approval that nobody gave in time."""
    now = desk.clock.now()

    def decide(case: Case) -> Case:
        operation = case.operation
        if case.state is not State.AWAITING_APPROVAL or operation is None or now < operation.expires_at:
            return case
        return back(desk, case, Words("expired", {"at": operation.expires_at.isoformat()}))

    case = desk.change(case_id, decide)
    if case.state is State.AWAITING_APPROVAL and case.operation is not None:
        desk.put("expire", case_id, at=case.operation.expires_at)
    elif _last(case) == "expired":  # by this process, or by one that was killed before it had that told
        desk.note_once("expired", case, operation=case.operations[-1].id if case.operations else "")
        desk.announce(case)


def _last(case: Case) -> str:
    """Why the Case came into its state."""
    return case.history[-1].why if case.history else ""


def close(desk: Desk, case_id: str) -> None:
    """The job "close": a Case at rest that nobody touched for as long as Undo is offered. A stuck one is left as it is first. One that made something which
    goes on by itself (a scheduled restart) stays open as long as that stands, so that its Undo does."""
    now, window = desk.clock.now(), desk.timings.undo_window

    def decide(case: Case) -> Case:
        to = State.LEFT if case.state is State.STUCK else State.CLOSED
        if case.state not in (*CLOSABLE, State.STUCK) or now < case.updated_at + window or not may(case.state, to):
            return case
        return with_buttons(move(case, to, BOT, NOBODY, now))

    before = desk.get(case_id)
    if before.state is not State.CLOSED and _stands(desk, before):
        desk.put("close", case_id, at=now + window)
        return
    case = desk.change(case_id, decide)
    if case.state in (*CLOSABLE, State.STUCK):
        desk.put("close", case_id, at=case.updated_at + window)
    if _last(case) == NOBODY:  # by this process, or by one that was killed before it had that told
        desk.note_once("closed" if case.state is State.CLOSED else "left", case, who=BOT)
        desk.announce(case)


def _stands(desk: Desk, case: Case) -> bool:
    """Whether something that the bot made is still there; a cluster that does not answer says nothing against it."""
    operation = undoable(case)
    if operation is None or not made(case):
        return False
    try:
        return not desk.engine.standing(operation, desk.reader(operation.remediation.target))
    except Temporary:
        return True
    except Permanent:
        return False
