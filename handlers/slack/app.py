"""The Slack app: one sync Bolt App. Its listeners validate, persist, enqueue and acknowledge; nothing else happens in them.

Bolt's default pool has five threads, and the sixth person in three seconds would get an error: ours has 32.
"""

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from slack_bolt import App
from slack_sdk import WebClient

from bot.errors import BadInput
from bot.ports import Clock
from handlers.desk import Desk
from handlers.slack import actions, commands, events, shortcuts
from handlers.slack.chat import SlackChat
from handlers.slack.errors import calling
from handlers.slack.listening import Listening

THREADS = 32


@dataclass(frozen=True, slots=True)
class Connection:
    """How Slack reaches us: with a signing secret over HTTP, or with `socket_mode` (then the signing secret is not used)."""

    signing_secret: str = ""
    socket_mode: bool = False
    command: str = "/oom"


def build(connection: Connection, client: WebClient, desk: Desk, chat: SlackChat, clock: Clock) -> App:
    """Raises BadInput without a signing secret in HTTP mode: everybody could then sign."""
    if not connection.socket_mode and not connection.signing_secret:
        raise BadInput("slack.signing_secret is empty; it is needed for slack.mode http")
    app = App(
        name="oombot", client=client, signing_secret=connection.signing_secret, token_verification_enabled=False,
        listener_executor=ThreadPoolExecutor(THREADS, thread_name_prefix="slack"),
    )  # fmt: skip
    # On a mismatch these write the signature and the whole body at INFO.
    logging.getLogger("slack_bolt.RequestVerification").setLevel(logging.WARNING)
    listening = Listening(desk, chat, clock, connection.command)
    commands.register(app, listening)
    events.register(app, listening)
    actions.register(app, listening)
    shortcuts.register(app, listening)
    return app


def home_of(client: WebClient) -> str:
    """The id of the organisation (E...) or workspace (T...) that the token belongs to. Raises Temporary, Permanent."""
    answer = calling("auth.test", client.auth_test)
    return str(answer.get("enterprise_id") or answer.get("team_id") or "")
