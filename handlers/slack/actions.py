"""Buttons. What comes back is an opaque id; what it stands for is looked up by the use-cases. A rejection asks for its reason first, and an approval of high risk for a name."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from slack_bolt import App

from bot.errors import OombotError
from bot.model import Actor, Conversation
from handlers.slack import plan_blocks
from handlers.slack.kit import Block
from handlers.slack.listening import Asking, Listening
from handlers.slack.page import ACTION, ASKS_BACK, BY_NAME, Page

Body = Mapping[str, Any]
REJECT, REASON = "oom.reject", "reason"
APPROVE, NAME = "oom.approve", "name"
LONGEST_REASON = 500


def register(app: App, listening: Listening) -> None:
    def on_press(ack: Callable[..., None], body: Body) -> None:
        who, action = asking(body), body["actions"][0]
        verb = str(action["action_id"]).removeprefix(f"{ACTION}.").partition(".")[0]
        try:
            if verb in ASKS_BACK:
                ack()  # at once: opening a modal is a call that may take its time
                asks = ask_name if verb == BY_NAME else ask_reason
                listening.chat.open_view(str(body["trigger_id"]), asks(listening, who, str(action["value"])))
            else:
                listening.press(who, str(action["value"]))
                ack()  # only now: a click that was not kept must not look taken
        except OombotError as error:
            ack()
            listening.tell(who, listening.why(who.actor, error))

    def on_reason(ack: Callable[..., None], body: Body) -> None:
        view = body["view"]
        reason = str(view["state"]["values"][REASON][REASON].get("value") or "").strip()
        who = from_view(body)
        if not reason:
            ack(response_action="errors", errors={REASON: listening.label(who.actor, "give_reason")})
            return
        try:
            listening.press(who, view["private_metadata"].split(" ")[0], reason[:LONGEST_REASON])
        except OombotError as error:
            ack(response_action="errors", errors={REASON: listening.why(who.actor, error)})
        else:
            ack()

    def on_name(ack: Callable[..., None], body: Body) -> None:
        view, who = body["view"], from_view(body)
        typed = str(view["state"]["values"][NAME][NAME].get("value") or "")
        try:
            listening.press(who, view["private_metadata"].split(" ")[0], typed=typed)
        except OombotError as error:
            ack(response_action="errors", errors={NAME: listening.why(who.actor, error)})
        else:
            ack()

    app.action(re.compile(rf"^{re.escape(ACTION)}\."))(on_press)
    app.view(REJECT)(on_reason)
    app.view(APPROVE)(on_name)


def asking(body: Body) -> Asking:
    """Who pressed, where. The thread is the message's own when it stands in none."""
    message = body.get("message") or {}
    thread = message.get("thread_ts") or message.get("ts") or body["container"].get("message_ts")
    return Asking(f"slack:{body['trigger_id']}", actor_of(body), Conversation(str(body["channel"]["id"]), str(thread)))


def from_view(body: Body) -> Asking:
    """A submission says nothing of the channel; the modal carries it with the opaque id: `<button> <channel> <thread>`."""
    _, channel, thread = [*str(body["view"]["private_metadata"]).split(" "), "", ""][:3]
    return Asking(f"slack:{body['view']['id']}", actor_of(body), Conversation(channel, thread or None))


def actor_of(body: Body) -> Actor:
    user = body["user"]
    return Actor(str(user["id"]), "slack", str(user.get("username") or user.get("name") or ""), str(user.get("team_id") or ""))


def ask_reason(listening: Listening, who: Asking, button_id: str) -> Block:
    """The modal that asks why."""
    label = {name: listening.label(who.actor, f"reject_{name}") for name in ("title", "reason", "submit")}
    element = {"type": "plain_text_input", "action_id": REASON, "multiline": True, "max_length": LONGEST_REASON}
    asked = {"type": "input", "block_id": REASON, "label": plain(label["reason"]), "hint": plain(listening.say(who.actor, "reject_modal_hint")), "element": element}
    return _modal(REJECT, button_id, who, {**label, "close": listening.label(who.actor, "button_cancel")}, [asked])


def ask_name(listening: Listening, who: Asking, button_id: str) -> Block:
    """The modal in which an approver sees the plan once more and types the name of what is changed. Its own id stands for this plan and this person. Raises Refused."""
    case, opened = listening.desk.form(button_id, who.actor)
    page = Page(case, listening.chat.language_of(who.actor.id))
    label = {"title": page.label("approve_title"), "submit": page.label("button_approve"), "close": page.label("button_cancel")}
    name = case.operation.must_type if case.operation else ""
    asked = {"type": "input", "block_id": NAME, "label": plain(page.say("approve_name", name=name)), "element": {"type": "plain_text_input", "action_id": NAME, "max_length": 253}}
    return _modal(APPROVE, opened.id, who, label, [*plan_blocks.summary(page, opened.remediation_id), asked])


def _modal(kind: str, button_id: str, who: Asking, label: Mapping[str, str], blocks: list[Block]) -> Block:
    """A modal that sends a button: its id, and where it was pressed."""
    return {
        "type": "modal", "callback_id": kind, "private_metadata": f"{button_id} {who.conversation.channel} {who.conversation.thread or ''}",
        "title": plain(label["title"]), "submit": plain(label["submit"]), "close": plain(label["close"]), "blocks": blocks,
    }  # fmt: skip


def plain(text: str) -> Block:
    return {"type": "plain_text", "text": text}
