"""Buttons. What comes back is an opaque id; what it stands for is looked up by the use-cases. A rejection asks for its reason first."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from slack_bolt import App

from bot.errors import OombotError
from bot.model import Actor, Conversation
from handlers.slack.kit import Block
from handlers.slack.listening import Asking, Listening
from handlers.slack.page import ACTION, ASKS_BACK

Body = Mapping[str, Any]
REJECT, REASON = "oom.reject", "reason"
LONGEST_REASON = 500


def register(app: App, listening: Listening) -> None:
    def on_press(ack: Callable[..., None], body: Body) -> None:
        who, action = asking(body), body["actions"][0]
        verb = str(action["action_id"]).removeprefix(f"{ACTION}.").partition(".")[0]
        try:
            if verb in ASKS_BACK:
                ack()  # at once: opening a modal is a call that may take its time
                listening.chat.open_view(str(body["trigger_id"]), ask_reason(listening, who, str(action["value"])))
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

    app.action(re.compile(rf"^{re.escape(ACTION)}\."))(on_press)
    app.view(REJECT)(on_reason)


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
    return {
        "type": "modal", "callback_id": REJECT, "private_metadata": f"{button_id} {who.conversation.channel} {who.conversation.thread or ''}",
        "title": plain(label["title"]), "submit": plain(label["submit"]), "close": plain(listening.label(who.actor, "button_cancel")),
        "blocks": [{"type": "input", "block_id": REASON, "label": plain(label["reason"]), "hint": plain(listening.say(who.actor, "reject_modal_hint")), "element": element}],
    }  # fmt: skip


def plain(text: str) -> Block:
    return {"type": "plain_text", "text": text}


