"""A Slack workspace in memory: people, channels, groups, messages, modals, and a feed of all that happened.

It knows no HTTP. Every change goes through `record`, so that a page can follow by sequence number.
"""

import itertools
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bot.sandbox.slack import limits

TEAM, APP, BOT_USER, BOT_ID = "T0SANDBOX", "A0SANDBOX", "U0OOMBOT", "B0OOMBOT"
RESPONSE_USES, RESPONSE_SECONDS = 5, 30 * 60

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Member:
    """A person as the workspace knows them. `team` other than the workspace's makes a stranger of a shared channel."""

    id: str
    name: str
    locale: str = "en-US"
    email: str = ""
    team: str = TEAM
    bot: bool = False
    guest: bool = False
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Channel:
    """A conversation. The bot is in it unless `bot_is_in` says no; `members` empty means everybody."""

    id: str
    name: str
    private: bool = False
    shared: bool = False
    bot_is_in: bool = True
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    id: str
    handle: str
    members: tuple[str, ...] = ()


@dataclass(slots=True)
class Message:
    """One message. `only_for` is the one person who sees an ephemeral message."""

    ts: str
    channel: str
    user: str
    text: str = ""
    blocks: list[Json] = field(default_factory=list)
    thread_ts: str | None = None
    metadata: Json | None = None
    bot_id: str = ""
    edited: int = 0
    only_for: str = ""
    unfurl: bool = True

    @property
    def shown(self) -> str:
        """What a reader sees: the blocks when there are any, else the text."""
        return limits.shown(self.blocks) if self.blocks else self.text

    @property
    def pings(self) -> tuple[str, ...]:
        return limits.pings(self.text, self.blocks)

    @property
    def buttons(self) -> list[str]:
        return [str(button["text"]["text"]) for button in limits.buttons(self.blocks)]

    def wire(self, *, with_metadata: bool = False) -> Json:
        """As Slack sends it."""
        out: Json = {"type": "message", "ts": self.ts, "user": self.user, "text": self.text, "team": TEAM}
        if self.bot_id:
            out |= {"bot_id": self.bot_id, "app_id": APP}
        if self.blocks:
            out["blocks"] = self.blocks
        if self.thread_ts:
            out["thread_ts"] = self.thread_ts
        if self.edited:
            out["edited"] = {"user": self.user, "ts": self.ts}
        if with_metadata and self.metadata:
            out["metadata"] = self.metadata
        return out


@dataclass(slots=True)
class View:
    """A modal on somebody's screen. `errors` are those of the last submission, by block id."""

    id: str
    user: str
    body: Json
    hash: str
    errors: dict[str, str] = field(default_factory=dict)

    def wire(self) -> Json:
        return {**self.body, "id": self.id, "hash": self.hash, "team_id": TEAM, "app_id": APP, "bot_id": BOT_ID, "root_view_id": self.id, "previous_view_id": None}


@dataclass(slots=True)
class ResponseUrl:
    channel: str
    user: str
    until: float
    message_ts: str = ""
    uses: int = 0


Named = TypeVar("Named", Member, Channel)


class Workspace:
    """Holds the state under one lock; methods that change it may be called from any thread."""

    def __init__(
        self, people: Sequence[Member], channels: Sequence[Channel], groups: Sequence[Group], *, now: Callable[[], float] = time.time, trigger_seconds: float = 3.0
    ) -> None:
        self.now, self.trigger_seconds = now, trigger_seconds
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.people = {member.id: member for member in [Member(BOT_USER, "oombot", bot=True), *people]}
        self.channels = {channel.id: channel for channel in channels}
        self.groups = {group.id: group for group in groups}
        self.all_messages: list[Message] = []
        self.views: dict[str, View] = {}
        self.feed: list[Json] = []
        self.triggers: dict[str, tuple[str, float, bool]] = {}  # id -> person, until, used
        self.response_urls: dict[str, ResponseUrl] = {}
        self._numbers = itertools.count(1)
        self._last_ts = 0.0

    # ------------------------------------------------------------ names

    def person(self, name: str) -> Member:
        """By id or name. Raises LookupError."""
        return self._named(self.people, name)

    def channel(self, name: str) -> Channel:
        """By id or name (with or without #). Raises LookupError."""
        return self._named(self.channels, name.lstrip("#"))

    @staticmethod
    def _named(known: Mapping[str, Named], name: str) -> Named:
        if name in known:
            return known[name]
        for each in known.values():
            if each.name.lower() == name.lower():
                return each
        raise LookupError(f"the sandbox has no {name!r}")

    def is_member(self, user: str, channel: Channel) -> bool:
        return channel.bot_is_in if user == BOT_USER else not channel.members or user in channel.members

    def direct(self, user: str) -> Channel:
        """The conversation between the bot and one person, made on first use."""
        with self.lock:
            name = f"D{user[1:]}"
            return self.channels.setdefault(name, Channel(name, f"dm-{self.people[user].name}", private=True, members=(user,)))

    # ------------------------------------------------------------ ids

    def id(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers):06d}{secrets.token_hex(3).upper()}"

    def ts(self) -> str:
        with self.lock:
            self._last_ts = max(self.now(), self._last_ts + 0.000_001)
            return f"{self._last_ts:.6f}"

    def trigger(self, user: str) -> str:
        with self.lock:
            made = f"{secrets.randbelow(10**12)}.{secrets.randbelow(10**12)}.{secrets.token_hex(16)}"
            self.triggers[made] = (user, self.now() + self.trigger_seconds, False)
            return made

    def use_trigger(self, trigger: str) -> tuple[str, str]:
        """The person behind a trigger id and "", or "" and Slack's error."""
        with self.lock:
            if trigger not in self.triggers:
                return "", "invalid_trigger_id"
            user, until, used = self.triggers[trigger]
            if used:
                return "", "exchanged_trigger_id"
            if self.now() > until:
                return "", "expired_trigger_id"
            self.triggers[trigger] = (user, until, True)
            return user, ""

    def response_url(self, channel: str, user: str, message_ts: str = "") -> str:
        with self.lock:
            made = secrets.token_urlsafe(18)
            self.response_urls[made] = ResponseUrl(channel, user, self.now() + RESPONSE_SECONDS, message_ts)
            return made

    # ------------------------------------------------------------ what happened

    def record(self, what: str, **details: Any) -> None:
        with self.changed:
            self.feed.append({"n": len(self.feed) + 1, "at": self.now(), "what": what, **details})
            self.changed.notify_all()

    def add(self, message: Message) -> Message:
        with self.lock:
            for number, block in enumerate(message.blocks):
                block.setdefault("block_id", f"b{number}")
            self.all_messages.append(message)
            self.record("ephemeral" if message.only_for else "message", channel=message.channel, ts=message.ts, only_for=message.only_for)
            return message

    def find(self, channel: str, ts: str) -> Message | None:
        with self.lock:
            return next((each for each in self.all_messages if each.channel == channel and each.ts == ts), None)

    def in_channel(self, channel: str) -> list[Message]:
        with self.lock:
            return [each for each in self.all_messages if each.channel == channel and not each.only_for]

    def replies(self, channel: str, ts: str) -> list[Message]:
        """The thread's first message and its replies, in order."""
        return [each for each in self.in_channel(channel) if ts in (each.ts, each.thread_ts)]

    def open_view(self, user: str, body: Json) -> View:
        with self.lock:
            view = View(self.id("V"), user, body, secrets.token_hex(8))
            self.views[view.id] = view
            self.record("view", view=view.id, user=user)
            return view
