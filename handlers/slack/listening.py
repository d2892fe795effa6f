"""What all listeners share: from a line of text to an answer in one line, and from an error to one clear line. Everything answered is escaped."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.cases.buttons import made
from bot.errors import OombotError, Refused, StoreError, UserError, WorldError
from bot.model import Actor, Case, Conversation, Press, Request, TargetQuery, Words
from bot.ports import Clock
from handlers import command_line, messages
from handlers.command_line import Misunderstood
from handlers.desk import Desk
from handlers.slack import kit, wording
from handlers.slack.chat import SlackChat
from handlers.slack.page import called

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asking:
    """One request as it reached us. `key` is Slack's own id for it: what arrives twice has the same."""

    key: str
    actor: Actor
    conversation: Conversation


@dataclass(frozen=True, slots=True)
class Answered:
    """What to answer a line with. `to_all`: the whole channel has to know."""

    text: str
    to_all: bool = False


class Listening:
    def __init__(self, desk: Desk, chat: SlackChat, clock: Clock, command: str) -> None:
        self.desk, self.chat, self.clock = desk, chat, clock
        self.command = command

    def say(self, actor: Actor, key: str, **parameters: object) -> str:
        return messages.of_the_bot(kit.escape).say(key, self.chat.language_of(actor.id), **parameters)

    def label(self, actor: Actor, name: str) -> str:
        return messages.of_the_bot(kit.escape).label(name, self.chat.language_of(actor.id))

    def answer(self, asking: Asking, text: str) -> Answered:
        """Does what a line asks for, and gives what is read at once: by the person alone, or by the channel. A mistake gets one line that says why."""
        try:
            return self._obey(asking, command_line.parse(text))
        except OombotError as error:
            return Answered(self.why(asking.actor, error))

    def why(self, actor: Actor, error: OombotError) -> str:
        if isinstance(error, Misunderstood):
            return wording.say(error.words, self.chat.language_of(actor.id))
        if isinstance(error, Refused):
            return wording.say(Words(error.key, error.parameters), self.chat.language_of(actor.id), self.command)
        if isinstance(error, UserError):
            return self.say(actor, "wrong_input", what=str(error))
        if isinstance(error, (WorldError, StoreError)):
            log.warning("not done: %s", error)
            return self.say(actor, "temporarily_not", what=str(error))
        raise error

    def check(self, asking: Asking, query: TargetQuery) -> Case:
        return self.desk.receive(Request(asking.key, asking.actor, query, self.clock.now(), asking.conversation))

    def press(self, asking: Asking, button_id: str, reason: str = "", *, typed: str = "") -> None:
        self.desk.press(Press(asking.key, button_id, asking.actor, asking.conversation, self.clock.now(), reason, typed))

    def tell(self, asking: Asking, mrkdwn: str) -> None:
        """An ephemeral line where the request came from; when Slack does not take it, the log has it."""
        try:
            self.chat.tell(asking.actor.id, asking.conversation, mrkdwn)
        except WorldError as failure:
            log.warning("could not tell %s: %s", asking.actor.id, failure)

    def tell_all(self, asking: Asking, mrkdwn: str) -> None:
        """The same as a message that everybody there sees."""
        try:
            self.chat.say(asking.conversation, mrkdwn)
        except WorldError as failure:
            log.warning("could not tell %s: %s", asking.conversation.channel, failure)

    # ------------------------------------------------------------ the verbs

    def _obey(self, asking: Asking, command: command_line.Command) -> Answered:
        actor = asking.actor
        if command.verb == "check" and command.query is not None:
            self.check(asking, command.query)
            return Answered(self.say(actor, "receipt", what=command.query.text, thread=bool(asking.conversation.thread)))
        if command.verb == "status":
            return Answered(self._status(asking))
        if command.verb == "history":
            return Answered(self._listed(actor, self.desk.history(actor, asking.conversation, command.count)))
        if command.verb in ("freeze", "unfreeze"):
            self.desk.freeze(actor, command.verb == "freeze", asking.conversation)
            return Answered(self.say(actor, f"now_{'frozen' if command.verb == 'freeze' else 'unfrozen'}", command=self.command, who=kit.mention(actor.id)), to_all=True)
        return Answered(self.say(actor, "help", command=self.command, clusters=self._clusters(asking)))

    def _clusters(self, asking: Asking) -> str:
        """Their names, for whoever may look at them."""
        try:
            return ", ".join(self.desk.status(asking.actor, asking.conversation).clusters)
        except (UserError, WorldError):
            return ""

    def _status(self, asking: Asking) -> str:
        actor, status = asking.actor, self.desk.status(asking.actor, asking.conversation)
        cases, frozen = status.open, status.frozen
        lines = [wording.say(Words("status_frozen", {"who": frozen[0], "at": frozen[1]}), self.chat.language_of(actor.id))] if frozen else []
        lines += [self.say(actor, "status_made", what=what, link=self._link(actor, case) or self.label(actor, "thread")) for case in cases for what in made(case)]
        return "\n".join([*lines, self.say(actor, "status_open", count=len(cases)), *([self._listed(actor, cases[:20])] if cases else [])])

    def _listed(self, actor: Actor, cases: Sequence[Case]) -> str:
        return "\n".join(self._line(actor, case) for case in cases) or self.say(actor, "status_none")

    def _line(self, actor: Actor, case: Case) -> str:
        cause = messages.of_the_bot(kit.escape).cause(case.diagnosis.cause, self.chat.language_of(actor.id)) if case.diagnosis else ""
        state = self.label(actor, f"state_{case.state.value}")
        return self.say(actor, "case_line", at=_when(case.created_at), what=called(case), state=state, cause=cause, link=self._link(actor, case))

    def _link(self, actor: Actor, case: Case) -> str:
        address = self.chat.address_of(case)
        return kit.link(address, self.label(actor, "thread")) if address else ""


def _when(at: datetime) -> messages.Trusted:
    return messages.Trusted(f"<!date^{int(at.timestamp())}^{{date_short}} {{time}}|{at:%Y-%m-%d %H:%M} UTC>")
