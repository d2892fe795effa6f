"""A button was pressed: the job "press". Who, where, whether the button still counts; then the verb. A refusal is told to whoever pressed, and to nobody else.

A button is an id; what it means is read from the Case.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from bot.cases.approving import approve, confirm, reject
from bot.cases.desk import Desk, new_id
from bot.cases.halted import leave, wait
from bot.cases.offering import shown
from bot.cases.pressed import decide_on, press_of, still_there
from bot.errors import Refused
from bot.lifecycle import move
from bot.model import Asked, Button, Case, Job, Press, State, Words


def press(desk: Desk, job: Job) -> None:
    """The effect of a press, or a refusal that only they are told. Raises Temporary."""
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
        button = still_there(case, pressed.button_id)
        _VERBS[button.verb](desk, case, button, pressed)
    except Refused as refused:
        desk.note("refused", case, who=pressed.actor.id, verb=verb, button=pressed.button_id, key=refused.key, parameters=refused.parameters)
        desk.tell(pressed.actor, pressed.conversation, Words(refused.key, refused.parameters))


def _check_place(case: Case, pressed: Press) -> None:
    """A button counts in the conversation it was posted to."""
    home = case.request.conversation
    if home is not None and home.channel != pressed.conversation.channel:
        raise Refused("wrong_channel", {"channel": pressed.conversation.channel})


def _retry(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    desk.policy.check_asking(pressed.actor, case.request.conversation)
    _check_reading(desk, case, pressed)
    desk.note_once("asked_again", case, who=pressed.actor.id)

    def decide(now: Case) -> Case:
        again = move(now, State.CHECKING, pressed.actor.id, "retry", desk.clock.now())
        return replace(again, asked_again=(*now.asked_again, pressed.actor.id), buttons=(), progress=(), trouble=None, handout=None, differences=())

    decide_on(desk, case, button, pressed, decide)
    desk.put("check", case.id)


def _check_reading(desk: Desk, case: Case, pressed: Press) -> None:
    cluster, namespace = (case.target.cluster, case.target.namespace) if case.target else (case.request.query.cluster, case.request.query.namespace)
    desk.policy.check_reading(pressed.actor, pressed.conversation, cluster, namespace)


def _ask_for_plan(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    """Apply, Undo, Preview again: whoever presses becomes the one who wants it."""
    desk.policy.check_place(pressed.conversation)
    _check_reading(desk, case, pressed)
    verb, index = (case.asked.verb, case.asked.index) if button.verb == "preview_again" and case.asked else (button.verb, button.index)
    desk.note_once("wanted", case, who=pressed.actor.id, verb=verb, index=index)

    asked = Asked(pressed.actor, pressed.conversation, verb, index, new_id())

    def decide(now: Case) -> Case:
        planning = move(now, State.PLANNING, pressed.actor.id, verb, desk.clock.now())
        return replace(planning, asked=asked, buttons=(), trouble=None, handout=None, differences=())

    decide_on(desk, case, button, pressed, decide)
    desk.put("plan", case.id)


def _show(desk: Desk, case: Case, button: Button, pressed: Press) -> None:
    """Show how: what to paste stands in the thread at once."""
    desk.policy.check_asking(pressed.actor, case.request.conversation)
    _check_reading(desk, case, pressed)
    handout, why = shown(desk, case, button.index)
    desk.note("handed_out", case, who=pressed.actor.id, remedy=handout.remedy)
    decide_on(desk, case, button, pressed, lambda now: replace(now, handout=handout, trouble=why, differences=(), notes=now.notes + 1))


_VERBS: Mapping[str, Callable[[Desk, Case, Button, Press], None]] = {
    "retry": _retry,
    "apply": _ask_for_plan,
    "show": _show,
    "undo": _ask_for_plan,
    "preview_again": _ask_for_plan,
    "approve": approve,
    "confirm": confirm,
    "reject": reject,
    "wait": wait,
    "leave": leave,
}
