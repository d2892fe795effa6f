"""Which buttons a Case shows in which state. Each is minted anew: an id is unguessable, and one that was taken off is known but void."""

from dataclasses import replace

from bot.cases.desk import new_id
from bot.lifecycle import END
from bot.model import Button, Case, ObjectRef, Operation, State, StepKind

NOTHING_TO_DO = "none"  # the remedy "nothing to change"


def with_buttons(case: Case) -> Case:
    """The Case with fresh buttons for its state."""
    return replace(case, buttons=tuple(replace(button, id=new_id("b-")) for button in _wanted(case)))


def started(case: Case) -> Operation | None:
    """The newest operation that wrote something (or may have)."""
    return next(reversed(_begun(case)), None)


def undoable(case: Case) -> Operation | None:
    """The operation that Undo would take back: the newest change, when it left something to put back and no undo has sent all of that."""
    change = taken_back(case)
    if change is None or not change.remediation.before or any(one.next_step >= len(one.remediation.steps) for one in halves(case)):
        return None
    return change


def goes_on(operation: Operation | None) -> bool:
    """Whether it stopped between two steps, so that "wait" means to send the rest: waiting alone would change nothing."""
    if operation is None or operation.next_step >= len(operation.remediation.steps):
        return False
    return not operation.remediation.steps[operation.next_step].after_rollout


def taken_back(case: Case) -> Operation | None:
    """The newest change that wrote something: what an undo, begun or not, is of."""
    return next((one for one in reversed(_begun(case)) if one.remediation.direction == "apply"), None)


def halves(case: Case) -> tuple[Operation, ...]:
    """The undos of that change which began, in their order. Where there is one and Undo is still offered, it stopped half-way."""
    begun, change = _begun(case), taken_back(case)
    return tuple(begun[begun.index(change) + 1 :]) if change else ()


def _begun(case: Case) -> list[Operation]:
    everything = [*case.operations, *([case.operation] if case.operation else [])]
    return [one for one in everything if one.started_at is not None]


def made(case: Case) -> tuple[ObjectRef, ...]:
    """What the bot made and Undo would delete: it goes on working by itself until then."""
    operation = undoable(case)
    steps = operation.remediation.steps[: operation.next_step] if operation and case.state not in END else ()
    return tuple(step.object for step in steps if step.kind is StepKind.CREATE)


def _wanted(case: Case) -> list[Button]:
    again = [_button("preview_again")] if case.differences and case.asked and case.asked.verb != "undo" else []  # Undo itself stands there
    match case.state:
        case State.CHECK_FAILED:
            return [_button("retry")]
        case State.DIAGNOSED:
            return [*_apply(case), _button("retry"), *again]
        case State.AWAITING_APPROVAL:
            plan = case.operation.remediation.id if case.operation else ""
            return [_button("approve", plan), _button("reject", plan)]
        case State.STUCK:
            return [_button("wait", _plan(case)), *_undo(case), _button("leave", _plan(case)), *again]
        case State.VERIFIED | State.LEFT:
            return [*_undo(case), *again]
        case State.VERIFICATION_FAILED | State.NOT_VERIFIABLE:
            return [*_undo(case), _button("leave", _plan(case)), *again]
    return []


def _apply(case: Case) -> list[Button]:
    found = case.diagnosis.recommendations if case.diagnosis else ()
    return [Button("", "show" if index in case.by_hand else "apply", index) for index, one in enumerate(found) if one.remedy != NOTHING_TO_DO]


def _undo(case: Case) -> list[Button]:
    return [_button("undo", _plan(case))] if undoable(case) else []


def _plan(case: Case) -> str:
    operation = started(case)
    return operation.remediation.id if operation else ""


def _button(verb: str, remediation_id: str = "") -> Button:
    return Button("", verb, 0, remediation_id)
