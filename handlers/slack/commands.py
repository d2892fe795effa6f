"""The slash command. Slack shows the acknowledgement's text to the person alone, unless it is for all, and does not deliver a command twice."""

from collections.abc import Callable, Mapping

from slack_bolt import App

from bot.model import Actor, Conversation
from handlers.slack.listening import Asking, Listening

Body = Mapping[str, str]


def register(app: App, listening: Listening) -> None:
    def on_command(ack: Callable[..., None], body: Body) -> None:
        answered = listening.answer(asking(body), body.get("text", ""))
        ack(text=answered.text, response_type="in_channel" if answered.to_all else "ephemeral")

    app.command(listening.command)(on_command)


def asking(body: Body) -> Asking:
    """Slash commands cannot be given in threads, so there is none."""
    actor = Actor(body["user_id"], "slack", body.get("user_name", ""), body.get("team_id", ""))
    return Asking(f"slack:{body['trigger_id']}", actor, Conversation(body["channel_id"]))
