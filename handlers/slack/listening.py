"""What all listeners share: from a line of text to an answer in one line, and from an error to one clear line. Everything answered is escaped."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

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


class Listening:
    def __init__(self, desk: Desk, chat: SlackChat, clock: Clock, command: str) -> None:
        self.desk, self.chat, self.clock = desk, chat, clock
        self.command = command

    def say(self, actor: Actor, key: str, **parameters: object) -> str:
        return messages.of_the_bot(kit.escape).say(key, self.chat.language_of(actor.id), **parameters)

    def label(self, actor: Actor, name: str) -> str:
        return messages.of_the_bot(kit.escape).label(name, self.chat.language_of(actor.id))

    def answer(self, asking: Asking, text: str) -> str:
        """Does what a line asks for, and gives what the person reads at once."""
        return self.or_why_not(asking.actor, lambda: self._obey(asking, command_line.parse(text)))

    def or_why_not(self, actor: Actor, work: Callable[[], str]) -> str:
        """The result of `work`, or one line that says why there is none."""
        try:
            return work()
        except OombotError as error:
            return self.why(actor, error)

    def why(self, actor: Actor, error: OombotError) -> str:
        if isinstance(error, Misunderstood):
            return self.say(actor, "wrong_input", what=messages.Trusted(wording.say(error.words, self.chat.language_of(actor.id))))
        if isinstance(error, Refused):
            return wording.say(Words(error.key, error.parameters), self.chat.language_of(actor.id))
        if isinstance(error, UserError):
            return self.say(actor, "wrong_input", what=str(error))
        if isinstance(error, (WorldError, StoreError)):
            log.warning("not done: %s", error)
            return self.say(actor, "temporarily_not", what=str(error))
        raise error

    def check(self, asking: Asking, query: TargetQuery) -> Case:
        return self.desk.receive(Request(asking.key, asking.actor, query, self.clock.now(), asking.conversation))

    def press(self, asking: Asking, button_id: str, reason: str = "") -> None:
        self.desk.press(Press(asking.key, button_id, asking.actor, asking.conversation, self.clock.now(), reason))

    def tell(self, asking: Asking, mrkdwn: str) -> None:
        """An ephemeral line where the request came from; when Slack does not take it, the log has it."""
        try:
            self.chat.tell(asking.actor.id, asking.conversation, mrkdwn)
        except WorldError as failure:
            log.warning("could not tell %s: %s", asking.actor.id, failure)

    # ------------------------------------------------------------ the verbs

    def _obey(self, asking: Asking, command: command_line.Command) -> str:
        if command.verb == "check" and command.query is not None:
            self.check(asking, command.query)
            return self.say(asking.actor, "receipt", what=command.query.text, thread=bool(asking.conversation.thread))
        if command.verb == "status":
            return self._status(asking.actor)
        if command.verb == "history":
            return self._listed(asking.actor, self.desk.history(command.count))
        if command.verb in ("freeze", "unfreeze"):
            self.desk.freeze(asking.actor, command.verb == "freeze", asking.conversation)
            return self.say(asking.actor, "now_frozen" if command.verb == "freeze" else "now_unfrozen", command=self.command)
        return self.say(asking.actor, "help", command=self.command, clusters=", ".join(self.desk.status().clusters) or "-")

    def _status(self, actor: Actor) -> str:
        status = self.desk.status()
        cases, frozen = status.open, status.frozen
        lines = [wording.say(Words("status_frozen", {"who": frozen[0], "at": frozen[1]}), self.chat.language_of(actor.id))] if frozen else []
        return "\n".join([*lines, self.say(actor, "status_open", count=len(cases)), *([self._listed(actor, cases[:20])] if cases else [])])

    def _listed(self, actor: Actor, cases: Sequence[Case]) -> str:
        return "\n".join(self._line(actor, case) for case in cases) or self.say(actor, "status_none")

    def _line(self, actor: Actor, case: Case) -> str:
        cause = messages.of_the_bot(kit.escape).cause(case.diagnosis.cause, self.chat.language_of(actor.id)) if case.diagnosis else ""
        return self.say(actor, "case_line", at=_when(case.created_at), what=called(case), state=self.label(actor, f"state_{case.state.value}"), cause=cause, link="")


def _when(at: datetime) -> messages.Trusted:
    return messages.Trusted(f"<!date^{int(at.timestamp())}^{{date_short}} {{time}}|{at:%Y-%m-%d %H:%M} UTC>")
