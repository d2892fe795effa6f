"""What the rim needs of the use-cases, and nothing else: `bot.cases.Cases` has it, and so has the named fake of the tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bot.model import Actor, Case, Press, Request


@dataclass(frozen=True, slots=True)
class Frozen:
    """Who stopped all changes, and when (as text)."""

    who: str
    at: str


class Desk(Protocol):
    """Every method persists, enqueues and returns; the work itself is a job."""

    def receive(self, request: Request) -> Case:
        """Opens a Case, or gives the one that this request opened before. Raises Refused, StoreError."""

    def press(self, press: Press) -> None:
        """Takes a click. The same click twice counts once. Raises Refused, StoreError."""

    def freeze(self, actor: Actor, on: bool) -> None:
        """Stops all changes, or allows them again. Raises Refused, Temporary."""

    def frozen(self) -> Frozen | None: ...

    def open_cases(self) -> Sequence[Case]: ...

    def recent(self, limit: int) -> Sequence[Case]: ...
