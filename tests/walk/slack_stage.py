"""The small world with the people of a Slack workspace before it: the real Bolt app, chat and people behind the real web layer, all on loopback.

What a person does goes through Slack's signed requests, what they see is read from the workspace. Clock and queue are moved by hand, as in `world.py`.
"""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bot.audit import AuditTrail
from bot.cases import Cases, Timings
from bot.clients.sqlite import Database
from bot.model import Case
from bot.policy import ApproverRule, Policy, ReadRule
from bot.redact import redact
from bot.sandbox.loopback import Served
from bot.sandbox.slack import TEAM, FakeSlack
from bot.sandbox.slack.fake import CHANNELS, GROUPS, PEOPLE
from bot.sandbox.slack.outgoing import Ack
from bot.sandbox.slack.workspace import BOT_USER, Channel, Group, Member, Message, View
from bot.store.sqlite import SqliteStore
from handlers.routes import asgi
from handlers.slack.app import Connection, build
from handlers.slack.chat import SlackChat, client
from handlers.slack.http import answering
from handlers.slack.people import SlackPeople
from tests.walk.world import HandClock, HandQueue, NamedCluster, SmallWorld

CHANNEL, ONCALL = "C01ONCALL", "S01ONCALL"
POLICY = Policy(
    read=(ReadRule(channels=(CHANNEL,)),), actions=("set_engine_argument",), approvers=(ApproverRule(groups=(ONCALL,)),), approval_channels=(CHANNEL,)
)  # fmt: skip
Seen = TypeVar("Seen")


class SlackStage:
    """`typed`, `click` and `submit` are what people do; `thread`, `told` and `screen` what they see."""

    def __init__(
        self, folder: Path, policy: Policy = POLICY, world: SmallWorld | None = None, *, people: Sequence[Member] = PEOPLE, groups: Sequence[Group] = GROUPS,
        channels: Sequence[Channel] = CHANNELS, timings: Timings | None = None, readers: Mapping[str, Any] | None = None, language: str = "auto",
    ) -> None:  # fmt: skip
        self.folder, self.policy, self.timings, self.language = folder, policy, timings or Timings(), language
        self.clock, self.world = HandClock(), world or SmallWorld()
        self.readers = readers or {"prod": NamedCluster()}
        self.slack = FakeSlack(people, channels, groups)
        self.slack.start()
        self._served: Served | None = None
        self._numbers = itertools.count(1)
        self.boot()

    def boot(self) -> None:
        """A bot starts, with nothing but what is kept."""
        self._stop_serving()
        api = client(self.slack.bot_token, self.slack.api_url)
        self.people = SlackPeople(api, TEAM, now=lambda: self.clock.now().timestamp())
        self.chat = SlackChat(api, self.people, language=self.language, approvers=self.policy.named_approvers, second_person=self.policy.needs_second_person)
        self.store = SqliteStore(Database(self.folder / "oombot.db"))
        self.audit = AuditTrail(self.folder / "audit.jsonl", b"k" * 32, self.clock, self.store, redact)
        self.queue = HandQueue(self.clock)
        self.cases = Cases(
            self.store, self.queue, self.readers, {"prod": NamedCluster()}, None, self.chat, self.people, self.policy, None, self.audit, self.clock,
            engine=self.world.engine(), timings=self.timings,
        )  # fmt: skip
        self.cases.bind(self.queue)
        self.cases.resume()
        app = build(Connection(self.slack.signing_secret), api, self.cases, self.chat, self.clock)
        self._served = Served(asgi(slack=answering(app)))
        self.slack.connect(f"{self._served.start()}/slack/events")

    def stop(self) -> None:
        self._stop_serving()
        self.slack.stop()

    def _stop_serving(self) -> None:
        if self._served is not None:
            self._served.stop()
            self._served = None

    # ------------------------------------------------------------ what people do

    def typed(self, who: str, text: str, channel: str = CHANNEL) -> str:
        """A slash command; what its author reads at once."""
        ack = self.slack.command(who, channel, text)
        self.queue.run_due()
        return ack.text

    def click(self, who: str, verb: str) -> Ack:
        """The newest button with that verb."""
        message, action = self._button(verb)
        ack = self.slack.click(who, CHANNEL, message.ts, action)
        self.queue.run_due()
        return ack

    def press(self, who: str, verb: str) -> None:
        """The button of the Case itself, as a screen still shows it though its message is gone."""
        person, place = self.slack.workspace.person(who), self.slack.workspace.channel(CHANNEL)
        button = next(one for one in self.case.buttons if one.verb == verb)
        message = Message(self.slack.workspace.ts(), CHANNEL, BOT_USER)
        self.slack.press(person, place, message, {"action_id": f"oom.press.{verb}.{button.id}", "value": button.id, "text": {"type": "plain_text", "text": verb}})
        self.queue.run_due()

    def ask_back(self, who: str, verb: str) -> View:
        """A button that opens a modal, which comes after the acknowledgement."""
        before = len(self.slack.views(who))
        self.click(who, verb)
        return self.until(lambda: self.slack.views(who)[before:])[0]

    def submit(self, who: str, view: View | None = None, **values: str) -> Ack:
        ack = self.slack.submit(who, values, view.id if view else None)
        self.queue.run_due()
        return ack

    def later(self, **span: float) -> None:
        self.clock.forward(**span)
        self.queue.run_due()

    def planned(self) -> None:
        """Ana asks, Jo presses Apply."""
        self.typed("Ana", "check llm/chat-old")
        self.click("Jo", "apply")

    # ------------------------------------------------------------ what they see

    @property
    def case(self) -> Case:
        return self.store.recent(1)[0]

    def thread(self) -> list[str]:
        """Everything that the bot shows in the channel, in order."""
        return [message.shown for message in self.slack.messages(CHANNEL) if message.user == BOT_USER]

    def top(self) -> str:
        return self.thread()[0]

    def last(self) -> str:
        return self.thread()[-1]

    def told(self, who: str) -> str:
        """The newest line that only this person saw."""
        return self.slack.ephemerals(who)[-1]

    def verbs(self) -> list[str]:
        """All buttons that can be seen."""
        return [str(each["action_id"]).split(".")[2] for message in self.slack.messages(CHANNEL) for each in buttons(message)]

    def until(self, look: Callable[[], Seen], within_s: float = 5.0) -> Seen:
        end = time.monotonic() + within_s
        while not (found := look()):
            assert time.monotonic() < end, "it did not happen"
            time.sleep(0.01)
        return found

    def _button(self, verb: str) -> tuple[Message, str]:
        for message in reversed(self.slack.messages(CHANNEL)):
            for each in buttons(message):
                if each["action_id"].startswith(f"oom.press.{verb}."):
                    return message, str(each["action_id"])
        raise LookupError(f"no {verb} among {self.verbs()}")


def buttons(message: Message) -> list[dict[str, Any]]:
    """The buttons of a message, in order."""
    return [
        element
        for block in message.blocks
        for element in [*block.get("elements", ()), *([block["accessory"]] if "accessory" in block else [])]
        if element.get("type") == "button"
    ]
