"""What the rim needs of the use-cases, and nothing else: `bot.cases.Cases` has it, and so has the named fake of the tests."""

from collections.abc import Sequence
from typing import Protocol

from bot.model import Actor, Button, Case, Conversation, Press, Request


class Status(Protocol):
    """`frozen`: who stopped all changes, and when (as text)."""

    @property
    def frozen(self) -> tuple[str, str] | None: ...

    @property
    def open(self) -> tuple[Case, ...]: ...

    @property
    def clusters(self) -> tuple[str, ...]: ...


class Desk(Protocol):
    """Every method persists, enqueues and returns; the work itself is a job."""

    def receive(self, request: Request) -> Case:
        """Opens a Case, or gives the one that this request opened before. Raises Refused, StoreError."""

    def press(self, press: Press) -> None:
        """Takes a click. The same click twice counts once. Raises Refused, StoreError."""

    def form(self, button_id: str, actor: Actor) -> tuple[Case, Button]:
        """Opens the form in which somebody approves by typing a name; the Button is what sends it. Raises Refused, StoreError."""

    def freeze(self, actor: Actor, on: bool, conversation: Conversation | None = None) -> None:
        """Stops all changes, or allows them again. Raises Refused, Temporary."""

    def status(self, actor: Actor, conversation: Conversation | None) -> Status:
        """What stands open, as far as they may look at it from there. Raises Refused, Temporary."""

    def history(self, actor: Actor, conversation: Conversation | None, limit: int = 20) -> Sequence[Case]:
        """The last Cases, newest first, as far as they may look at them. Raises Refused, Temporary."""
