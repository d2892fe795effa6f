"""A Slack workspace, and our real Bolt app behind our real web layer, on loopback."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import pytest

from bot.sandbox.loopback import Served
from bot.sandbox.slack import TEAM, FakeSlack
from handlers.routes import asgi
from handlers.slack.app import Connection, build
from handlers.slack.chat import SlackChat, client
from handlers.slack.http import answering
from handlers.slack.people import SlackPeople
from tests.handlers.desk import FixedClock, RecordingDesk


@dataclass
class World:
    slack: FakeSlack
    desk: RecordingDesk
    chat: SlackChat
    people: SlackPeople
    url: str = ""

    @property
    def events_url(self) -> str:
        return f"{self.url}/slack/events"


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with FakeSlack() as fake:
        yield fake


@pytest.fixture
def world(slack: FakeSlack) -> Iterator[World]:
    api = client(slack.bot_token, slack.api_url)
    people = SlackPeople(api, TEAM)
    made = World(slack, RecordingDesk(), SlackChat(api, people, approvers=lambda _target, _action: ("S01ONCALL",)), people)
    app = build(Connection(slack.signing_secret), api, made.desk, made.chat, FixedClock())
    served = Served(asgi(slack=answering(app)))
    made.url = served.start()
    slack.connect(made.events_url)
    yield made
    served.stop()


Seen = TypeVar("Seen")


def eventually(look: Callable[[], Seen], within_s: float = 5.0) -> Seen:
    """What `look` gives once it gives something; it may raise IndexError until then."""
    until = time.monotonic() + within_s
    while True:
        try:
            return look()
        except IndexError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
