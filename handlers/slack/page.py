"""What every message needs while it is written: the words of one language, who may approve, and the buttons of the Case. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from bot.cases.buttons import goes_on
from bot.model import Button, Case, Text, Words
from handlers import messages
from handlers.messages import Trusted
from handlers.slack import kit, wording
from handlers.slack.kit import Block

ACTION = "oom.press"  # a button's action_id begins with it; the verb behind it only says how to ask back, the server side goes by the id
BY_NAME = "approve_by_name"  # Approve where the name has to be typed
ASKS_BACK = frozenset({"reject", BY_NAME})  # verbs that open a modal first
_STYLES = {"approve": "primary", "undo": "danger"}


@dataclass(frozen=True, slots=True)
class Page:
    """One message being written. `approvers` are ids of groups and people; `second_person`: whoever asked or pressed Apply may not approve."""

    case: Case
    language: str
    approvers: tuple[str, ...] = ()
    second_person: bool = True
    command: str = "/oom"

    def say(self, key: str, **parameters: object) -> str:
        return messages.of_the_bot(kit.escape).say(key, self.language, **parameters)

    def words(self, words: Words) -> Trusted:
        """A message of the use-cases, with mentions and times."""
        return Trusted(wording.say(words, self.language, self.command))

    def reason(self, words: Words) -> Trusted:
        """The same behind "Not carried out.": without "Refused:" and "Nothing was done.", which that says."""
        said = self.words(words).removeprefix(self.label("refused")).removesuffix(self.label("nothing_done")).strip()
        return Trusted(said[:1].upper() + said[1:])

    def label(self, name: str) -> str:
        return messages.of_the_bot(kit.escape).label(name, self.language)

    def progress(self, name: str) -> str:
        """A line of progress (`bot/evidence/collect.py` names them), escaped."""
        label = f"line_{name.lower().replace(' ', '_')}"
        return self.label(label) if messages.of_the_bot(kit.escape).has_label(label, self.language) else kit.escape(name)

    def text(self, text: Text) -> str:
        """A sentence of ours that may hold names from outside: escaped."""
        return kit.escape(text.say(self.language))

    def remedy(self, remedy: str, direction: str) -> str:
        name = f"{remedy}:{direction}" if direction else remedy
        return messages.of_the_bot(kit.escape).remedy(name, self.language)

    def what(self) -> str:
        """The target as it was found, else as it was asked for, else the alert that named none."""
        return called(self.case)

    def cause(self, cause: str) -> str:
        return messages.of_the_bot(kit.escape).cause(cause, self.language)

    def buttons(self, verbs: Sequence[str], remediation_id: str | None = None) -> list[Block]:
        """The Case's buttons with these verbs, in the order of the verbs; with `remediation_id`, only those of that plan and of none."""
        chosen = [
            button
            for verb in verbs
            for button in self.case.buttons
            if button.verb == verb and (remediation_id is None or button.remediation_id in ("", remediation_id))
        ]
        return [self.button(each) for each in chosen]

    def button(self, button: Button, text: str = "") -> Block:
        """The face of a button. What leaves is an opaque id (`value`); `action_id` must differ within a message."""
        operation = self.case.operation
        verb = BY_NAME if button.verb == "approve" and operation is not None and operation.must_type else button.verb
        action_id = f"{ACTION}.{verb}.{button.id}"[:255]
        rest = button.verb == "undo" and operation is not None and operation.remediation.direction == "undo"  # of an undo that stopped half-way
        on = button.verb == "wait" and goes_on(operation)
        words = text or self.label("button_undo_rest" if rest else "button_go_on" if on else f"button_{button.verb}")
        if verb in ASKS_BACK:
            return kit.button(f"{words}...", action_id, button.id, style=_STYLES.get(button.verb, ""))
        return kit.button(words, action_id, button.id, style=_STYLES.get(button.verb, ""), confirm=self._confirm(button))

    def _confirm(self, button: Button) -> Block | None:
        """Approve asks once more, and says again what it is about."""
        operation = self.case.operation
        if button.verb != "approve" or operation is None:
            return None
        plan = operation.remediation
        words = self.say("confirm_approve", object=plan.object, what=self.change_of(plan.remedy))
        return kit.confirm(self.label("confirm_title"), words, self.label("button_approve"), self.label("button_cancel"))

    def change_of(self, remedy_id: str) -> str:
        remedy, _, direction = remedy_id.partition(":")
        return self.remedy(remedy, direction)


def called(case: Case) -> str:
    """What a Case is about, in a few words."""
    if case.target:
        return str(case.target)
    query, alert = case.request.query, case.request.alert
    return alert.title if alert is not None and query.kind == "unknown" else query.text


def grouped(number: int | float) -> str:
    """A count for people: 57,776."""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.2f}"
