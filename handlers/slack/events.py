"""`@oombot check pod-x` in a channel or thread. Slack may deliver an event several times: its event_id is the request's key."""

import re
from collections.abc import Mapping
from typing import Any

from slack_bolt import App

from bot.model import Actor, Conversation
from handlers.slack.listening import Asking, Listening

Body = Mapping[str, Any]
REMEMBERED = 1000

_MENTION = re.compile(r"<@[UW][A-Z0-9]+(?:\|[^>]*)?>")


def register(app: App, listening: Listening) -> None:
    seen: dict[str, None] = {}

    def on_mention(body: Body) -> None:
        event = body["event"]
        if event.get("bot_id") or event.get("subtype") or not event.get("user"):
            return  # an answer to a bot that mentions us could go on for ever
        key = str(body["event_id"])
        if key in seen:  # a check is safe to receive twice; the other answers would be read twice
            return
        seen[key] = None
        if len(seen) > REMEMBERED:
            del seen[next(iter(seen))]
        who = asking(body)
        answered = listening.answer(who, said(str(event.get("text", ""))))
        (listening.tell_all if answered.to_all else listening.tell)(who, answered.text)

    app.event("app_mention")(on_mention)


def said(text: str) -> str:
    """The text without the mention of us that it begins with (or contains)."""
    return _MENTION.sub(" ", text, count=1)


def asking(body: Body) -> Asking:
    """The answer goes to the thread, or begins one under the mention."""
    event = body["event"]
    actor = Actor(str(event["user"]), "slack", "", str(event.get("user_team") or event.get("team") or body.get("team_id", "")))
    return Asking(f"slack:{body['event_id']}", actor, Conversation(str(event["channel"]), str(event.get("thread_ts") or event["ts"])))
