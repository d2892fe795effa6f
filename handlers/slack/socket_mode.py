"""Slack over Socket Mode: we connect, so no public address is needed. The same Bolt App as over HTTP.

A socket may be dead while it looks open; `trouble` goes by the last ping that was answered, and belongs in the readiness probe.
"""

import time
from collections.abc import Sequence

from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

from bot.errors import Forbidden, Unreachable

PING_S = 10.0


class SlackSocket:
    """`start` connects and returns; slack_sdk connects again by itself when Slack asks for it."""

    def __init__(self, app: App, app_token: str, base_url: str = "https://slack.com/api/", *, concurrency: int = 10) -> None:
        web_client = WebClient(app_token, base_url=base_url, timeout=10)
        self._handler = SocketModeHandler(app, app_token, web_client=web_client, ping_interval=PING_S, concurrency=concurrency)

    def start(self) -> None:
        """Raises Forbidden for a token that Slack refuses, Unreachable."""
        try:
            self._handler.connect()
        except SlackApiError as refused:
            raise Forbidden(f"Slack refused apps.connections.open: {refused.response.get('error', '')}") from None
        except (SlackClientError, OSError) as broken:
            raise Unreachable(f"Slack cannot be reached for Socket Mode: {type(broken).__name__}") from None

    def stop(self) -> None:
        self._handler.close()

    def trouble(self) -> Sequence[str]:
        """What is wrong with the connection; nothing while pings are answered."""
        session = self._handler.client.current_session
        last = session.last_ping_pong_time if session is not None else None
        if not self._handler.client.is_connected():
            return ("Slack's socket is not connected",)
        if last is not None and time.time() - last > 3 * PING_S:
            return (f"Slack's socket has been silent for {time.time() - last:.0f} s",)
        return ()
