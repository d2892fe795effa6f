"""Rounds of check, apply and undo in the small world, through a bot that is killed with -9 again and again. For a test (a few kills) and for the bench (many).

Each bot is a process of its own, made by a fork server that has everything imported already, so that a kill costs milliseconds. What must hold at the
end is looked at from outside: in the world that outlives the bot, which counts each write that arrived.
"""

import logging
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from bot.lifecycle import RESTING
from bot.model import Actor, Case, Press, Request, State, TargetQuery
from tests.walk.killed_bot import STEPS, Bot
from tests.walk.world import ANA, JO, OPS, WEI

WITHIN_S = 120
MESSAGES = 7  # top, evidence, recommendation; plan and outcome of the apply and of the undo
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.walk.killed_bot", "tests.walk.cluster_bot", "tests.walk.endpoint_bot"])


@dataclass
class Tally:
    """What a round came to. `at`: in which state the Case (each of them, where several run side by side) was when the bot was killed; `wrong`: what must not be."""

    kills: int = 0
    writes: int = 0
    at: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def live(folder: str, ready: Connection) -> None:
    """A bot's process."""
    logging.disable(logging.CRITICAL)
    Bot(Path(folder)).run()
    ready.send("runs")
    time.sleep(600)


def at_once(dice: random.Random) -> float:
    """Seconds that a bot lives whose every call takes milliseconds."""
    return dice.uniform(0.005, 0.18)


class Killer:
    """Starts the bot, or several on one store, and kills one of them again and again until `kills` are used up. `life`: what such a process does, and for how long."""

    def __init__(
        self, folder: Path, seed: int, kills: int, states: Callable[[], Iterable[str]], *, replicas: int = 1,
        life: Callable[[str, Connection], None] = live, lasts: Callable[[random.Random], float] = at_once,
    ) -> None:  # fmt: skip
        self._folder, self._random, self._left, self._states = folder, random.Random(seed), kills, states
        self._replicas, self._life, self._lasts = replicas, life, lasts
        self._bots: list[BaseProcess] = []
        self._until = 0.0
        self.tally = Tally()

    def keep_it_running(self, *, spares: bool = False) -> None:
        """Called often: starts it when it is dead, kills it when its moment has come, unless it is spared."""
        if len(self._bots) < self._replicas:
            self._start()
            self._until = time.monotonic() + self._lasts(self._random)
        elif self._left and not spares and time.monotonic() >= self._until:
            self._left -= 1
            self._end(self._bots.pop(self._random.randrange(len(self._bots))))
            self.tally.kills += 1
            self.tally.at.update(self._states())

    def _start(self) -> None:
        mine, theirs = FORKS.Pipe(duplex=False)
        bot = FORKS.Process(target=self._life, args=(str(self._folder), theirs), daemon=True)
        bot.start()
        theirs.close()
        assert mine.recv() == "runs"
        mine.close()
        self._bots.append(bot)

    def at_most(self, kills: int) -> None:
        self._left = min(self._left, kills)

    def end(self) -> None:
        for bot in self._bots:
            self._end(bot)
        self._bots = []

    @staticmethod
    def _end(bot: BaseProcess) -> None:
        bot.kill()  # SIGKILL
        bot.join()
        bot.close()


class Round:
    """One case from the request to undone. `folder` is fresh."""

    def __init__(self, folder: Path, seed: int, kills: int, replicas: int = 1) -> None:
        self.bot = Bot(folder)
        self.case: Case | None = None
        self.killer = Killer(folder, seed, kills, lambda: [self.now().state.value], replicas=replicas)

    def now(self) -> Case:
        found = self.bot.store.get(self.case.id) if self.case else None
        assert found is not None
        return found

    def go(self) -> Tally:
        """Raises TimeoutError when it gets nowhere."""
        try:
            query = TargetQuery("chat-old", "pod", "chat-old", "llm")
            self.case = self.bot.cases.receive(Request("webhook-1", ANA, query, datetime.now(UTC), OPS))
            self._until(State.DIAGNOSED)
            for verb, end in (("apply", State.VERIFIED), ("undo", State.UNDONE)):
                self._click(JO, verb)
                self._until(State.AWAITING_APPROVAL)
                self._click(WEI, "approve")
                reached = self._until(end, *(state for state in RESTING if state is not State.VERIFIED or end is State.UNDONE))
                if reached.state is not end:
                    self.killer.tally.wrong.append(f"{verb} ended {reached.state.value}: {reached.trouble}")
                    return self.killer.tally
            self._settle()
            self._look()
        finally:
            self.killer.end()
            self.bot.world.database.close()
        return self.killer.tally

    def _until(self, *states: State) -> Case:
        end = time.monotonic() + WITHIN_S
        while time.monotonic() < end:
            self.killer.keep_it_running()
            case = self.now()
            if case.state in states:
                return case
            time.sleep(0.01)
        raise TimeoutError(f"still {self.now().state} after {WITHIN_S} s: {self.now().trouble}")

    def _click(self, actor: Actor, verb: str) -> None:
        case = self.now()
        button = next(one for one in case.buttons if one.verb == verb)
        self.bot.cases.press(Press(f"p{self.bot.keys()}", button.id, actor, OPS, case.updated_at))

    def _settle(self) -> None:
        """Until the thread shows the end, all of it; few kills are left for that, since all writes are done."""
        end = time.monotonic() + WITHIN_S
        self.killer.at_most(2)
        while not self._shown() and time.monotonic() < end:
            self.killer.keep_it_running()
            time.sleep(0.01)

    def _shown(self) -> bool:
        rows = self.bot.world.rows
        return rows("SELECT state FROM messages WHERE purpose = 'top'") == [(State.UNDONE.value,)] and rows("SELECT count(*) FROM messages")[0][0] >= MESSAGES

    def _look(self) -> None:
        """What must hold."""
        world, tally = self.bot.world, self.killer.tally
        writes = [what for (what,) in world.rows("SELECT what FROM writes ORDER BY n")]
        tally.writes = len(writes)
        for what, found, wanted in (
            ("writes", writes, [f"{verb}:{step}" for verb in ("apply", "undo") for step in range(STEPS)]),
            ("value", world.rows("SELECT value FROM value"), [(131072,)]),
            ("messages that stand twice", world.rows("SELECT purpose FROM messages GROUP BY purpose HAVING count(*) > 1"), []),
            ("messages", world.rows("SELECT count(*) FROM messages"), [(MESSAGES,)]),
            ("refusals", world.rows("SELECT who, key FROM whispers"), []),
            ("audit trail", [str(one) for one in self.bot.audit.verify()], []),
        ):
            if found != wanted:
                tally.wrong.append(f"{what}: {found} instead of {wanted}")
