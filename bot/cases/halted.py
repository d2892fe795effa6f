"""What people choose where a change has halted: wait (or let the rest of it be sent), or leave it as it is. Undo is asked for like any plan."""

from dataclasses import replace

from bot.cases.approval import check_go_on
from bot.cases.buttons import goes_on, with_buttons
from bot.cases.desk import Desk
from bot.cases.pressed import decide_on
from bot.errors import Refused
from bot.lifecycle import move
from bot.model import Button, Case, Press, State, Words


def wait(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    """Watches on for as long again; where it stopped between two steps, an approver has the rest sent. Raises Refused."""
    desk.policy.check_place(pressed.conversation)
    if goes_on(case.operation):
        _go_on(desk, case, button, pressed)
        return
    now = desk.clock.now()
    desk.note_once("waits", case, who=pressed.actor.id)

    def decide(newest: Case) -> Case:
        if newest.operation is None:
            raise Refused("not_now", {"state": newest.state.value, "wanted": "wait"})
        watching = move(newest, State.WATCHING, pressed.actor.id, "wait", now)
        return replace(watching, operation=replace(newest.operation, watch_until=now + desk.timings.watch_timeout, rollout=None), buttons=(), trouble=None)

    decide_on(desk, case, button, pressed, decide)
    desk.put("watch", case.id)


def _go_on(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    """The rest of what was approved is sent when an approver says so: the approval itself may be hours old."""
    operation = case.operation
    if operation is None or not desk.is_approver(pressed.actor.id, operation.remediation):
        plan = operation.remediation if operation else None
        raise Refused("not_approver", {"who": ", ".join(desk.policy.named_approvers(plan.target, plan.action)) if plan else ""})
    check_go_on(desk, operation)
    changed = desk.engine.standing(operation, desk.reader(operation.remediation.target))
    if changed:  # the rest was made for what the first steps left there
        why = Words("reverted", {"by": changed[0].who, "path": changed[0].path})
        desk.note("reverted", case, operation=operation.id, differences=[[one.path, one.before, one.now, one.who] for one in changed])
        decide_on(desk, case, button, pressed, lambda now: with_buttons(replace(now, trouble=why, differences=changed, handout=None, notes=now.notes + 1)))
        return
    desk.note_once("goes_on", case, who=pressed.actor.id, operation=operation.id, step=operation.next_step)

    def decide(newest: Case) -> Case:
        if not goes_on(newest.operation):
            raise Refused("not_now", {"state": newest.state.value, "wanted": "wait"})
        return replace(move(newest, State.EXECUTING, pressed.actor.id, "go_on", desk.clock.now()), buttons=(), trouble=None)

    if decide_on(desk, case, button, pressed, decide).state is State.EXECUTING:
        desk.put("execute", case.id)


def leave(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    """Nothing more is done; Undo stays."""
    desk.policy.check_place(pressed.conversation)
    desk.note_once("left", case, who=pressed.actor.id)
    decide_on(desk, case, button, pressed, lambda now: with_buttons(move(now, State.LEFT, pressed.actor.id, "leave", desk.clock.now())))
