"""A button was pressed: the job "press". Who, where, whether the button still counts; then the verb. A refusal is told to whoever pressed, and to nobody else.

A button is an id; what it means is read from the Case. Its effect and the key of the press are kept in one compare-and-set, so that a press
that is handled twice (a retry, a killed process) has its effect once, and of two people who press at once one wins and the other is told.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from bot.cases.approval import ChangedMeanwhile, check_click, differences_of
from bot.cases.buttons import goes_on, with_buttons
from bot.cases.changed import voids
from bot.cases.desk import Desk, new_id
from bot.cases.ending import back
from bot.cases.offering import shown
from bot.errors import Conflict, Permanent, Refused
from bot.lifecycle import BOT, RESTING, move
from bot.model import Actor, Approval, Asked, Button, Case, Conversation, Job, Operation, Press, State, Words

FORM = "f-"  # how the id of a form begins
HANDLED = 50  # keys of presses that a Case remembers


def job_of(press: Press, case_id: str) -> Job:
    """The press as a job: small strings only."""
    actor, place = press.actor, press.conversation
    parameters = {
        "key": press.key,
        "button": press.button_id,
        "actor": json.dumps([actor.id, actor.origin, actor.name, actor.team]),
        "place": json.dumps([place.channel, place.thread]),
        "at": press.received_at.isoformat(),
        "reason": press.reason[:500],
        "typed": press.typed[:500],
    }
    return Job("press", case_id, parameters, key=f"press:{press.key}")


def press_of(parameters: Mapping[str, str]) -> Press:
    actor, place = Actor(*json.loads(parameters["actor"])), Conversation(*json.loads(parameters["place"]))
    return Press(parameters["key"], parameters["button"], actor, place, datetime.fromisoformat(parameters["at"]), parameters.get("reason", ""), parameters.get("typed", ""))


def press(desk: Desk, job: Job) -> None:
    pressed = press_of(job.parameters)
    case = desk.store.find_button(pressed.button_id)
    if case is None:
        desk.tell(pressed.actor, pressed.conversation, Words("no_button", {"what": "<pod>"}))
        return
    if pressed.key in case.handled:
        return
    verb = next((one.verb for one in case.buttons if one.id == pressed.button_id), "")
    try:
        desk.policy.check_person(desk.person(pressed.actor.id))
        _check_place(case, pressed)
        button = _still_there(case, pressed.button_id)
        _VERBS[button.verb](desk, case, button, pressed)
    except Refused as refused:
        desk.note("refused", case, who=pressed.actor.id, verb=verb, button=pressed.button_id, key=refused.key, parameters=refused.parameters)
        desk.tell(pressed.actor, pressed.conversation, Words(refused.key, refused.parameters))


def _check_place(case: Case, pressed: Press) -> None:
    """A button counts in the conversation it was posted to."""
    home = case.request.conversation
    if home is not None and home.channel != pressed.conversation.channel:
        raise Refused("wrong_channel", {"channel": pressed.conversation.channel})


def _still_there(case: Case, button_id: str) -> Button:
    """The button, when it still counts; else what became of it: why the plan ended, or who was first and with what."""
    button = next((one for one in case.buttons if one.id == button_id), None)
    if button is not None:
        return button
    everything = [*case.operations, *((case.operation,) if case.operation else ())]
    newest = max(everything, key=lambda one: one.requested_at, default=None)
    if case.state is State.AWAITING_APPROVAL and button_id.startswith(FORM):
        raise Refused("form_void")
    if newest is not None and newest.ended is not None and case.state in RESTING:
        raise Refused(newest.ended.key, newest.ended.parameters)
    first = next((step for step in reversed(case.history) if step.who != BOT), None)
    if first is None:
        raise Refused("not_now", {"state": case.state.value, "wanted": ""})
    raise Refused("already_decided", {"who": first.who, "what": first.why, "at": first.at.isoformat(timespec="seconds"), "state": case.state.value})


def _decide(desk: Desk, case: Case, button: Button, pressed: Press, decide: Callable[[Case], Case]) -> Case:
    """`decide` on the newest Case, if the button still counts there."""

    def guarded(now: Case) -> Case:
        if pressed.key in now.handled:  # by another worker: this press has had its effect
            return now
        _still_there(now, button.id)
        return replace(decide(now), handled=(*now.handled[-HANDLED:], pressed.key))

    kept = desk.change(case.id, guarded)
    desk.announce(kept)
    return kept


# ---------------------------------------------------------------- the verbs


def _retry(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    desk.policy.check_asking(pressed.actor, case.request.conversation)
    _check_reading(desk, case, pressed)
    desk.note("asked_again", case, who=pressed.actor.id)

    def decide(now: Case) -> Case:
        again = move(now, State.CHECKING, pressed.actor.id, "retry", desk.clock.now())
        return replace(again, asked_again=(*now.asked_again, pressed.actor.id), buttons=(), progress=(), trouble=None, handout=None, differences=())

    _decide(desk, case, button, pressed, decide)
    desk.put("check", case.id)


def _check_reading(desk: Desk, case: Case, pressed: Press) -> None:
    cluster, namespace = (case.target.cluster, case.target.namespace) if case.target else (case.request.query.cluster, case.request.query.namespace)
    desk.policy.check_reading(pressed.actor, pressed.conversation, cluster, namespace)


def _ask_for_plan(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    """Apply, Undo, Preview again: whoever presses becomes the one who wants it."""
    desk.policy.check_place(pressed.conversation)
    _check_reading(desk, case, pressed)
    verb, index = (case.asked.verb, case.asked.index) if button.verb == "preview_again" and case.asked else (button.verb, button.index)
    desk.note("wanted", case, who=pressed.actor.id, verb=verb, index=index)

    def decide(now: Case) -> Case:
        asked = Asked(pressed.actor, pressed.conversation, verb, index)
        planning = move(now, State.PLANNING, pressed.actor.id, verb, desk.clock.now())
        return replace(planning, asked=asked, buttons=(), trouble=None, handout=None, differences=())

    _decide(desk, case, button, pressed, decide)
    desk.put("plan", case.id)


def _show(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    """Show how: what to paste stands in the thread at once."""
    desk.policy.check_asking(pressed.actor, case.request.conversation)
    _check_reading(desk, case, pressed)
    handout, why = shown(desk, case, button.index)
    desk.note("handed_out", case, who=pressed.actor.id, remedy=handout.remedy)
    _decide(desk, case, button, pressed, lambda now: replace(now, handout=handout, trouble=why, differences=(), notes=now.notes + 1))


def _approve(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    desk.policy.check_place(pressed.conversation)
    operation = _current(case, button)
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
    desk.note(
        "approved", case, who=pressed.actor.id, operation=operation.id, plan=operation.remediation.id, digest=operation.remediation.digest, typed=pressed.typed
    )

    def decide(newest: Case) -> Case:
        current = _current(newest, button)
        desk.policy.check_time(current, desk.clock.now())
        if any(one.actor.id == pressed.actor.id for one in current.approvals):
            raise Refused("already_approved", {"who": pressed.actor.id})
        signed = replace(current, approvals=(*current.approvals, approval))
        if len(signed.approvals) < signed.needed:
            return replace(newest, operation=signed, buttons=_without(newest, button))  # one more has to press the same button
        return replace(move(newest, State.APPROVED, pressed.actor.id, "approve", now), operation=signed, buttons=())

    kept = _decide(desk, case, button, pressed, decide)
    if kept.state is State.APPROVED:
        desk.put("execute", case.id)


def form(desk: Desk, button_id: str, actor: Actor) -> tuple[Case, Button]:
    """The form in which this person approves by typing a name: known by an id of its own, theirs alone, good once, for this plan alone. Raises Refused, StoreError."""
    found = desk.store.find_button(button_id)
    if found is None:
        raise Refused("no_button", {"what": "<pod>"})
    opened = Button(new_id(FORM), "confirm", person=actor.id)

    def decide(now: Case) -> Case:
        button = _still_there(now, button_id)
        _current(now, button)
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


def _confirm(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    _check_owner(button, pressed)
    _approve(desk, case, button, pressed)


def _check_owner(button: Button, pressed: Press) -> None:
    if button.person != pressed.actor.id:
        raise Refused("form_void")


def _without(case: Case, button: Button) -> tuple[Button, ...]:
    """The buttons without a form that was sent: it is good once."""
    return tuple(one for one in case.buttons if one.id != button.id or one.verb != "confirm")


def _void(desk: Desk, case: Case, button: Button, pressed: Press, why: Words, wrong: Exception) -> None:
    """The plan does not fit the world any more: it is taken back, with the difference in the thread."""
    desk.note("void", case, who=pressed.actor.id, key=why.key, reason=str(wrong), differences=[[one.path, one.before, one.now, one.who] for one in differences_of(wrong)])
    if _decide(desk, case, button, pressed, lambda now: back(desk, now, why, differences=differences_of(wrong))).trouble == why:
        desk.tell(pressed.actor, pressed.conversation, why)


def _reject(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    """An approver says no; whoever asked for the plan may take it back."""
    operation = _current(case, button)
    if pressed.actor.id != operation.requested_by.id and not desk.is_approver(pressed.actor.id, operation.remediation):
        raise Refused("not_approver", {"who": ", ".join(desk.policy.named_approvers(operation.remediation.target, operation.remediation.action))})
    desk.note("rejected", case, who=pressed.actor.id, operation=operation.id, reason=pressed.reason)
    why = Words("rejected", {"who": pressed.actor.id, "reason": pressed.reason})
    _decide(desk, case, button, pressed, lambda now: back(desk, now, why, who=pressed.actor.id))


def _wait(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    desk.policy.check_place(pressed.conversation)
    if goes_on(case.operation):
        _go_on(desk, case, button, pressed)
        return
    now = desk.clock.now()
    desk.note("waits", case, who=pressed.actor.id)

    def decide(newest: Case) -> Case:
        if newest.operation is None:
            raise Refused("not_now", {"state": newest.state.value, "wanted": "wait"})
        watching = move(newest, State.WATCHING, pressed.actor.id, "wait", now)
        return replace(watching, operation=replace(newest.operation, watch_until=now + desk.timings.watch_timeout, rollout=None), buttons=(), trouble=None)

    _decide(desk, case, button, pressed, decide)
    desk.put("watch", case.id)


def _go_on(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    """The rest of what was approved is sent when an approver says so: the approval itself may be hours old."""
    operation = case.operation
    if operation is None or not desk.is_approver(pressed.actor.id, operation.remediation):
        plan = operation.remediation if operation else None
        raise Refused("not_approver", {"who": ", ".join(desk.policy.named_approvers(plan.target, plan.action)) if plan else ""})
    desk.policy.check_frozen(desk.frozen())
    desk.check_when(operation.remediation)
    changed = desk.engine.standing(operation, desk.reader(operation.remediation.target))
    if changed:  # the rest was made for what the first steps left there
        why = Words("reverted", {"by": changed[0].who, "path": changed[0].path})
        desk.note("reverted", case, operation=operation.id, differences=[[one.path, one.before, one.now, one.who] for one in changed])
        _decide(desk, case, button, pressed, lambda now: with_buttons(replace(now, trouble=why, differences=changed, handout=None, notes=now.notes + 1)))
        return
    desk.note("goes_on", case, who=pressed.actor.id, operation=operation.id, step=operation.next_step)

    def decide(newest: Case) -> Case:
        if not goes_on(newest.operation):
            raise Refused("not_now", {"state": newest.state.value, "wanted": "wait"})
        return replace(move(newest, State.EXECUTING, pressed.actor.id, "go_on", desk.clock.now()), buttons=(), trouble=None)

    if _decide(desk, case, button, pressed, decide).state is State.EXECUTING:
        desk.put("execute", case.id)


def _leave(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    desk.policy.check_place(pressed.conversation)
    desk.note("left", case, who=pressed.actor.id)
    _decide(desk, case, button, pressed, lambda now: with_buttons(move(now, State.LEFT, pressed.actor.id, "leave", desk.clock.now())))


def _current(case: Case, button: Button) -> Operation:
    """The plan that this button belongs to, if it is the one that waits."""
    operation = case.operation
    if case.state is not State.AWAITING_APPROVAL or operation is None or operation.remediation.id != button.remediation_id:
        raise Refused("not_now", {"state": case.state.value, "wanted": button.verb})
    return operation


_VERBS: Mapping[str, Callable[[Desk, Case, Button, Press], None]] = {
    "retry": _retry,
    "apply": _ask_for_plan,
    "show": _show,
    "undo": _ask_for_plan,
    "preview_again": _ask_for_plan,
    "approve": _approve,
    "confirm": _confirm,
    "reject": _reject,
    "wait": _wait,
    "leave": _leave,
}
