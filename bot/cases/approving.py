"""Approve and Reject, and the form in which somebody approves by typing a name. What does not fit the world any more is taken back, with what differs."""

from dataclasses import replace

from bot.cases.approval import ChangedMeanwhile, check_click, differences_of
from bot.cases.changed import voids
from bot.cases.desk import Desk, new_id
from bot.cases.ending import back
from bot.cases.pressed import FORM, decide_on, still_there, waiting
from bot.errors import Conflict, Permanent, Refused
from bot.lifecycle import move
from bot.model import Actor, Approval, Button, Case, Press, State, Words


def approve(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    """One approval more, after all checks; with as many as it takes, the plan is carried out. Raises Refused, Temporary."""
    desk.policy.check_place(pressed.conversation)
    operation = waiting(case, button)
    try:
        check_click(desk, case, operation, pressed.actor.id, pressed.typed if button.verb == "confirm" else "")
    except ChangedMeanwhile as changed:
        _void(desk, case, button, pressed, voids(changed.differences), changed)
        return
    except Permanent as wrong:
        found = differences_of(wrong)
        key = "plan_gone" if isinstance(wrong, Conflict) else "dry_run_refused"
        _void(desk, case, button, pressed, voids(found) if found else Words(key, {"what": str(wrong), "reason": str(wrong)}), wrong)
        return
    now = desk.clock.now()
    approval = Approval(operation.remediation.id, operation.remediation.digest, pressed.actor, now, pressed.typed)
    desk.note_once(
        "approved", case, who=pressed.actor.id, operation=operation.id, plan=operation.remediation.id, digest=operation.remediation.digest, typed=pressed.typed
    )

    def decide(newest: Case) -> Case:
        current = waiting(newest, button)
        desk.policy.check_time(current, desk.clock.now())
        if any(one.actor.id == pressed.actor.id for one in current.approvals):
            raise Refused("already_approved", {"who": pressed.actor.id})
        signed = replace(current, approvals=(*current.approvals, approval))
        if len(signed.approvals) < signed.needed:
            return replace(newest, operation=signed, buttons=_without(newest, button))  # one more has to press the same button
        return replace(move(newest, State.APPROVED, pressed.actor.id, "approve", now), operation=signed, buttons=())

    kept = decide_on(desk, case, button, pressed, decide)
    if kept.state is State.APPROVED:
        desk.put("execute", case.id)


def form(desk: Desk, button_id: str, actor: Actor) -> tuple[Case, Button]:
    """The form in which this person approves by typing a name: known by an id of its own, theirs alone, good once, for this plan alone. Raises Refused, StoreError."""
    found = desk.store.find_button(button_id)
    if found is None:
        raise Refused("no_button", {"what": "<pod>"})
    opened = Button(new_id(FORM), "confirm", person=actor.id)

    def decide(now: Case) -> Case:
        button = still_there(now, button_id)
        waiting(now, button)
        mine = replace(opened, remediation_id=button.remediation_id)
        return replace(now, buttons=(*(one for one in now.buttons if (one.verb, one.person) != ("confirm", actor.id)), mine))

    kept = desk.change(found.id, decide)
    return kept, next(one for one in kept.buttons if one.id == opened.id)


def check_form(desk: Desk, case: Case | None, pressed: Press) -> None:
    """What can be told while the form is still open. Raises Refused."""
    button = next((one for one in case.buttons if one.id == pressed.button_id), None) if case else None
    if case is not None and button is not None and button.verb == "confirm" and case.operation is not None:
        _check_owner(button, pressed)
        desk.policy.check_typed(case.operation, pressed.typed)


def confirm(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    """The same by a form in which a name was typed: theirs alone. Raises Refused, Temporary."""
    _check_owner(button, pressed)
    approve(desk, case, button, pressed)


def _check_owner(button: Button, pressed: Press) -> None:
    if button.person != pressed.actor.id:
        raise Refused("form_void")


def _without(case: Case, button: Button) -> tuple[Button, ...]:
    """The buttons without a form that was sent: it is good once."""
    return tuple(one for one in case.buttons if one.id != button.id or one.verb != "confirm")


def _void(desk: Desk, case: Case, button: Button, pressed: Press, why: Words, wrong: Exception) -> None:
    """The plan does not fit the world any more: it is taken back, with the difference in the thread."""
    desk.note_once("void", case, who=pressed.actor.id, key=why.key, reason=str(wrong), differences=[[one.path, one.before, one.now, one.who] for one in differences_of(wrong)])
    if decide_on(desk, case, button, pressed, lambda now: back(desk, now, why, differences=differences_of(wrong))).trouble == why:
        desk.tell(pressed.actor, pressed.conversation, why)


def reject(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    """An approver says no; whoever asked for the plan may take it back."""
    operation = waiting(case, button)
    if pressed.actor.id != operation.requested_by.id and not desk.is_approver(pressed.actor.id, operation.remediation):
        raise Refused("not_approver", {"who": ", ".join(desk.policy.named_approvers(operation.remediation.target, operation.remediation.action))})
    desk.note_once("rejected", case, who=pressed.actor.id, operation=operation.id, reason=pressed.reason)
    why = Words("rejected", {"who": pressed.actor.id, "reason": pressed.reason})
    decide_on(desk, case, button, pressed, lambda now: back(desk, now, why, who=pressed.actor.id))
