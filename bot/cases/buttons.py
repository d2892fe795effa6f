"""Which buttons a Case shows in which state. Each is minted anew: an id is unguessable, and one that was taken off is known but void."""

from dataclasses import replace

from bot.cases.desk import new_id
from bot.model import Button, Case, Operation, State

NOTHING_TO_DO = "none"  # the remedy "nothing to change"


def with_buttons(case: Case) -> Case:
    """The Case with fresh buttons for its state."""
    return replace(case, buttons=tuple(replace(button, id=new_id("b-")) for button in _wanted(case)))


def started(case: Case) -> Operation | None:
    """The newest operation that wrote something (or may have)."""
    everything = [*case.operations, *([case.operation] if case.operation else [])]
    return next((one for one in reversed(everything) if one.started_at is not None), None)


def undoable(case: Case) -> Operation | None:
    """The operation that Undo would take back: the newest that wrote, when it was no undo itself and left something to put back."""
    operation = started(case)
    return operation if operation and operation.remediation.direction == "apply" and operation.remediation.before else None


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
    operation = undoable(case)
    return [_button("undo", operation.remediation.id)] if operation else []


def _plan(case: Case) -> str:
    operation = started(case)
    return operation.remediation.id if operation else ""


def _button(verb: str, remediation_id: str = "") -> Button:
    return Button("", verb, 0, remediation_id)
