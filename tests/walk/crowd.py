"""Several cases side by side, from the request to undone, through one bot that is killed with -9 all the while: what people press, and what must hold at the end.

A round of a kind (`killed_cluster.py`, `killed_endpoint.py`) says what stands in the world, before and after, and which writes arrived there.
"""

import itertools
import random
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from bot.audit import AuditTrail
from bot.cases import Cases
from bot.lifecycle import END, RESTING
from bot.model import Actor, Case, Operation, Press, Request, State, StepKind, TargetQuery, Verdict
from bot.store.sqlite import SqliteStore
from tests.walk.killed_bot import OutsideWorld
from tests.walk.killing import MESSAGES, Killer, Tally
from tests.walk.world import ANA, JO, OPS, WEI

WITHIN_S = 240
SHORT, LONG, EACH = (0.01, 0.4), (2.5, 4.5), 6  # seconds that a bot lives: too short for most of what it has begun, and each so many times long enough to get on
PATIENCE = 12  # kills without a move of a case; a job is given up after fifteen
Key = tuple[str, ...]


def bursts() -> Callable[[random.Random], float]:
    """How long each bot lives. Without a long life now and then a job would be given up for taking its process down each time."""
    lives = itertools.count(1)
    return lambda dice: dice.uniform(*(SHORT if next(lives) % EACH else LONG))


class OneBot(Protocol):
    """The parts of a bot as the harness holds them: it presses and looks, and runs no job."""

    world: OutsideWorld
    store: SqliteStore
    audit: AuditTrail
    cases: Cases
    keys: Callable[[], int]


class Crowd(ABC):
    """One case for each target, all with one bot. `folder` is fresh."""

    def __init__(self, bot: OneBot, folder: Path, seed: int, kills: int, life: Callable[[str, Connection], None], *, replicas: int = 1) -> None:
        self.bot = bot
        self.killer = Killer(folder, seed, kills, self._states, replicas=replicas, life=life, lasts=bursts())
        self.cases: list[str] = []
        self._pressed: set[str] = set()
        self._moves: dict[str, tuple[int, int]] = {}  # of each case: the moves that it has made, and the kills until the last one

    @abstractmethod
    def failing(self) -> bool:
        """Whether what is to be asked about has failed."""

    @abstractmethod
    def queries(self) -> list[TargetQuery]:
        """What is asked about."""

    @abstractmethod
    def standing(self) -> list[Any]:
        """What stands there now, of each target in that order: the same before and after."""

    @abstractmethod
    def counted(self) -> list[int]:
        """How often each target was written to until now, by its own count."""

    @abstractmethod
    def planned(self, operation: Operation) -> list[Key]:
        """The writes that a started operation should have made."""

    @abstractmethod
    def arrived(self) -> list[Key]:
        """The writes that were counted where they arrive."""

    def cut_off(self) -> list[Key]:
        """Those of which is only known that their client was killed: whether they were carried out, what stands tells."""
        return []

    # -------------------------------------------------------- the round

    def now(self, case_id: str) -> Case:
        found = self.bot.store.get(case_id)
        assert found is not None
        return found

    def _states(self) -> list[str]:
        states = [self.now(each).state for each in self.cases]
        return [state.value for state in states if state not in END]

    def go(self) -> Tally:
        """Raises TimeoutError when it gets nowhere."""
        try:
            self._wait("the targets to fail", self.failing)
            before, counts = self.standing(), self.counted()
            for query in self.queries():
                self.cases.append(self.bot.cases.receive(Request(query.name, ANA, query, datetime.now(UTC), OPS)).id)
            self._wait("all to end", self._people)
            self.killer.at_most(2)
            self._wait("the threads to show it", self._shown)
            for case_id, was, is_now in zip(self.cases, before, self.standing(), strict=True):
                self._look(self.now(case_id), was, is_now)
            for case_id, was, by_now in zip(self.cases, counts, self.counted(), strict=True):
                self._must(f"{self.now(case_id).target}: writes by its own count", by_now - was, sum(_patches(one) for one in self._begun(case_id)))
            self._look_whole()
        finally:
            self.killer.end()
            self.bot.world.database.close()
        return self.killer.tally

    def _wait(self, what: str, look: Callable[[], bool]) -> None:
        end = time.monotonic() + WITHIN_S
        while not look():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {WITHIN_S} s for {what}: {[_told(each) for each in map(self.now, self.cases)]}; whispers {self.bot.world.rows('SELECT who, key FROM whispers')}")
            if self.cases:  # a check writes nothing: the kills are for what comes after it
                self.killer.keep_it_running(spares=self._stands_still() or any(each in ("received", "checking") for each in self._states()))
            time.sleep(0.03)

    def _stands_still(self) -> bool:
        """Whether a case did not get on for so many kills that one of its jobs would be given up for taking its process down each time: on a busy machine lives are short."""
        kills = self.killer.tally.kills
        for case in map(self.now, self.cases):
            if self._moves.get(case.id, (0, 0))[0] != len(case.history):
                self._moves[case.id] = len(case.history), kills
        return any(kills - since >= PATIENCE for case_id, (_, since) in self._moves.items() if self.now(case_id).state not in END)

    def _people(self) -> bool:
        """Each case's people press what is next. True when there is nothing more to press."""
        found = [self.now(case_id) for case_id in self.cases]
        for number, case in enumerate(found):
            self._next(case, waits=number % 2 == 0)
        return all(case.state in END or _is_wrong(case) for case in found)

    def _next(self, case: Case, *, waits: bool) -> None:
        if case.state is State.DIAGNOSED and not case.operations:
            self._click(JO, case, "apply" if any(one.verb == "apply" for one in case.buttons) else "retry")  # it was looked at while it had just begun anew
        elif case.state is State.AWAITING_APPROVAL:
            self._click(WEI, case, "approve")
        elif case.state is State.VERIFIED and not (waits and case.operation is not None and case.operation.aftermath is None):
            self._click(JO, case, "undo")

    def _click(self, actor: Actor, case: Case, verb: str) -> None:
        button = next((one for one in case.buttons if one.verb == verb), None)
        if button is not None and button.id not in self._pressed:
            self._pressed.add(button.id)
            self.bot.cases.press(Press(f"p{self.bot.keys()}", button.id, actor, OPS, datetime.now(UTC)))

    def _shown(self) -> bool:
        rows = self.bot.world.rows
        shown = sorted(rows("SELECT case_id, state FROM messages WHERE purpose = 'top'")) == sorted((each, self.now(each).state.value) for each in self.cases)
        return shown and (rows("SELECT count(*) FROM messages")[0][0] >= MESSAGES * len(self.cases) or any(self.now(each).state not in END for each in self.cases))

    # -------------------------------------------------------- what must hold

    def _look(self, case: Case, was: Any, is_now: Any) -> None:
        name, done = str(case.target), [*case.operations, *([case.operation] if case.operation else [])]
        self._must(f"{name}: end", (case.state.value, case.trouble), (State.UNDONE.value, None))
        self._must(f"{name}: specification", is_now, was)
        self._must(f"{name}: outcomes", [one.outcome.verdict if one.outcome else None for one in done], [Verdict.VERIFIED, Verdict.UNDONE])

    def _look_whole(self) -> None:
        """Each planned write arrived once, nothing else did; nothing was said twice, nobody refused, and the trail is whole."""
        arrived, rows, planned = Counter(self.arrived()), self.bot.world.rows, Counter(self._wanted())
        arrived += (planned - arrived) & Counter(set(self.cut_off()))
        self.killer.tally.writes = arrived.total()
        for what, found, wanted in (
            ("writes", arrived, planned),
            ("messages that stand twice", rows("SELECT case_id, purpose FROM messages GROUP BY case_id, purpose HAVING count(*) > 1"), []),
            ("refusals", rows("SELECT who, key FROM whispers"), []),
            ("audit trail", [str(one) for one in self.bot.audit.verify()], []),
        ):
            self._must(what, found, wanted)

    def _wanted(self) -> Iterable[Key]:
        for case_id in self.cases:
            for operation in self._begun(case_id):
                yield from self.planned(operation)

    def _begun(self, case_id: str) -> list[Operation]:
        case = self.now(case_id)
        return [one for one in (*case.operations, case.operation) if one is not None and one.started_at is not None]

    def _must(self, what: str, found: Any, wanted: Any) -> None:
        if found != wanted:
            self.killer.tally.wrong.append(f"{what}: {found} instead of {wanted}")


def _patches(operation: Operation) -> int:
    return sum(1 for step in operation.remediation.steps if step.kind is StepKind.PATCH)


def _told(case: Case) -> str:
    return f"{case.state.value} ({case.diagnosis.cause if case.diagnosis else 'no diagnosis'}; {[one.verb for one in case.buttons]}; {case.trouble})"


def _is_wrong(case: Case) -> bool:
    return case.state is State.CHECK_FAILED or (case.state in RESTING and case.state is not State.VERIFIED and bool(case.operations or case.operation or case.trouble))
