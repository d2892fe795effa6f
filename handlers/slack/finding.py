"""Finds a message of ours by its metadata, when it is not known whether its post arrived. It reads a conversation and writes nothing.

A page may hold fewer messages than were asked for (Slack's word), so the cursor is followed; not for ever, since a channel can be busy and Slack counts calls.
"""

import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any

from slack_sdk import WebClient

from handlers.slack.errors import Json, calling

PAGE, PAGES = 200, 10  # messages of a page, and pages, that are looked through at most
SLACK_S = 60.0  # by which Slack's clock may be behind ours
log = logging.getLogger(__name__)


def find(client: WebClient, metadata: Json, channel: str, thread: str | None, since: datetime) -> str:
    """The `ts` of the message with this metadata in a thread, or without one in the channel; "" when it is not among those that stand there since then."""
    where: dict[str, Any] = {"channel": channel, "include_all_metadata": True, "limit": PAGE, "oldest": f"{since.timestamp() - SLACK_S:.6f}"}
    pages = _pages(client.conversations_replies, {**where, "ts": thread}) if thread else _pages(client.conversations_history, where)
    for message in pages:
        found = message.get("metadata") or {}
        if (found.get("event_type"), found.get("event_payload")) == (metadata["event_type"], metadata["event_payload"]):
            return str(message["ts"])
    return ""


def _pages(ask: Callable[..., Any], where: Json) -> Iterator[Json]:
    cursor: dict[str, str] = {}
    for _ in range(PAGES):
        answer = calling("conversations.replies" if "ts" in where else "conversations.history", partial(ask, **where, **cursor))
        yield from answer.get("messages") or ()
        following = str((answer.get("response_metadata") or {}).get("next_cursor") or "")
        if not following:
            return
        cursor = {"cursor": following}
    log.warning("a message of ours was not found among the first %d of %s; it may stand there twice", PAGE * PAGES, where["channel"])
