"""A named fake of the use-cases for the rim's tests: keeps what arrives, idempotent by key, refuses on demand."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bot.errors import OombotError
from bot.model import Actor, Button, Case, Conversation, Press, Request, State

NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)


class FixedClock:
    def now(self) -> datetime:
        return NOW


@dataclass(frozen=True)
class Standing:
    frozen: tuple[str, str] | None
    open: tuple[Case, ...]
    clusters: tuple[str, ...]


class RecordingDesk:
    """`refuse_with` is raised by the next call that would change something."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.presses: list[Press] = []
        self.refuse_with: OombotError | None = None
        self.frozen_by: tuple[str, str] | None = None
        self.cases: dict[str, Case] = {}

    def receive(self, request: Request) -> Case:
        self._refuse()
        if request.key not in self.cases:
            self.requests.append(request)
            number = len(self.cases) + 1
            self.cases[request.key] = Case(f"case-{number}", 1, State.RECEIVED, request, NOW, NOW)
        return self.cases[request.key]

    def press(self, press: Press) -> None:
        self._refuse()
        if all(press.key != other.key for other in self.presses):
            self.presses.append(press)

    def form(self, button_id: str, actor: Actor) -> tuple[Case, Button]:
        self._refuse()
        raise AssertionError("no form is opened in these tests")

    def freeze(self, actor: Actor, on: bool, conversation: Conversation | None = None) -> None:
        self._refuse()
        self.frozen_by = (actor.id, NOW.isoformat()) if on else None

    def status(self, actor: Actor, conversation: Conversation | None) -> Standing:
        self._refuse()
        return Standing(self.frozen_by, tuple(self.cases.values()), ("east",))

    def history(self, actor: Actor, conversation: Conversation | None, limit: int = 20) -> Sequence[Case]:
        self._refuse()
        return list(self.cases.values())[-limit:]

    def _refuse(self) -> None:
        if self.refuse_with is not None:
            raise self.refuse_with
