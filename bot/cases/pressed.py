"""A press on a button: as a job and back, whether its button still counts, and the one way in which it has its effect.

The effect and the key of the press are kept in one compare-and-set, so that a press that is handled twice (a retry, a killed process) has its effect once,
and of two people who press at once one wins and the other is told.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from bot.cases.desk import Desk
from bot.errors import Refused
from bot.lifecycle import BOT, RESTING
from bot.model import Actor, Button, Case, Conversation, Job, Operation, Press, State

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
    """The press of a job."""
    actor, place = Actor(*json.loads(parameters["actor"])), Conversation(*json.loads(parameters["place"]))
    return Press(parameters["key"], parameters["button"], actor, place, datetime.fromisoformat(parameters["at"]), parameters.get("reason", ""), parameters.get("typed", ""))


def still_there(case: Case, button_id: str) -> Button:
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


def decide_on(desk: Desk, case: Case, button: Button, pressed: Press, decide: Callable[[Case], Case]) -> Case:
    """`decide` on the newest Case, if the button still counts there."""

    def guarded(now: Case) -> Case:
        if pressed.key in now.handled:  # by another worker: this press has had its effect
            return now
        still_there(now, button.id)
        return replace(decide(now), handled=(*now.handled[-HANDLED:], pressed.key))

    kept = desk.change(case.id, guarded)
    desk.announce(kept)
    return kept


def waiting(case: Case, button: Button) -> Operation:
    """The plan that this button belongs to, if it is the one that waits."""
    operation = case.operation
    if case.state is not State.AWAITING_APPROVAL or operation is None or operation.remediation.id != button.remediation_id:
        raise Refused("not_now", {"state": case.state.value, "wanted": button.verb})
    return operation
