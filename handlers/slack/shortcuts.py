"""The message shortcut "Diagnose this alert": works in threads too, where slash commands do not. It asks for the target, with a guess from the message filled in."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from slack_bolt import App

from bot.errors import OombotError
from bot.model import Conversation
from handlers import command_line
from handlers.slack.actions import asking, from_view, plain
from handlers.slack.kit import Block
from handlers.slack.listening import Asking, Listening

Body = Mapping[str, Any]
SHORTCUT, CHECK, TARGET = "diagnose_message", "oom.check", "target"

_POD = re.compile(r"\bpod(?:_name)?\s*[=:]\s*[\"'`*]*([a-z0-9][a-z0-9.-]{1,252})")
_NAMESPACE = re.compile(r"\bnamespace\s*[=:]\s*[\"'`*]*([a-z0-9][a-z0-9-]{0,62})")


def register(app: App, listening: Listening) -> None:
    def on_shortcut(ack: Callable[..., None], body: Body) -> None:
        who = asking({**body, "container": {}})
        ack()
        try:
            listening.chat.open_view(str(body["trigger_id"]), ask_target(listening, who, guess(body.get("message") or {})))
        except OombotError as error:
            listening.tell(who, listening.why(who.actor, error))

    def on_target(ack: Callable[..., None], body: Body) -> None:
        who = from_view(body)
        text = str(body["view"]["state"]["values"][TARGET][TARGET].get("value") or "")
        try:
            query = command_line.parse(f"check {text}").query
            if query is not None:
                listening.check(who, query)
        except OombotError as error:
            ack(response_action="errors", errors={TARGET: listening.why(who.actor, error)})
        else:
            ack()

    app.shortcut(SHORTCUT)(on_shortcut)
    app.view(CHECK)(on_target)


def guess(message: Mapping[str, Any]) -> str:
    """`namespace/pod` from a message that names them as labels do; "" when it does not."""
    attachments = " ".join(f"{each.get('text', '')} {each.get('fallback', '')}" for each in message.get("attachments") or [] if isinstance(each, Mapping))
    text = command_line.normalised(f"{message.get('text', '')} {attachments}"[:20_000]).lower()
    pod, namespace = _POD.search(text), _NAMESPACE.search(text)
    return f"{namespace[1]}/{pod[1]}" if pod and namespace else pod[1] if pod else ""


def ask_target(listening: Listening, who: Asking, guessed: str) -> Block:
    """The modal that asks what to look at; the answer goes to the message's thread."""
    where: Conversation = who.conversation
    label = {name: listening.label(who.actor, f"check_{name}") for name in ("title", "target", "submit", "hint")}
    element: Block = {"type": "plain_text_input", "action_id": TARGET, "max_length": 500}
    if guessed:
        element["initial_value"] = guessed
    return {
        "type": "modal", "callback_id": CHECK, "private_metadata": f"- {where.channel} {where.thread or ''}",
        "title": plain(label["title"]), "submit": plain(label["submit"]), "close": plain(listening.label(who.actor, "button_cancel")),
        "blocks": [{"type": "input", "block_id": TARGET, "label": plain(label["target"]), "hint": plain(label["hint"]), "element": element}],
    }  # fmt: skip
