"""The bot is killed with -9 at seeded random moments of check, apply, watch and undo, and started again. Nothing is lost and nothing done twice."""

import random
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.lifecycle import RESTING
from bot.model import Actor, Case, Press, Request, State, TargetQuery
from tests.walk.killed_bot import Bot
from tests.walk.world import ANA, JO, OPS, WEI

ROOT = Path(__file__).parents[2]
WITHIN_S = 60


class Killer:
    """Starts the bot, and kills it again and again until `kills` are used up."""

    def __init__(self, folder: Path, seed: int, kills: int) -> None:
        self._folder, self._random, self._left = folder, random.Random(seed), kills
        self._bot: subprocess.Popen[str] | None = None
        self._until = 0.0

    def keep_it_running(self) -> None:
        """Called often: starts it when it is dead, kills it when its moment has come."""
        if self._bot is None:
            self._bot = subprocess.Popen([sys.executable, "-m", "tests.walk.killed_bot", str(self._folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
            assert self._bot.stdout is not None
            assert self._bot.stdout.readline() == "runs\n"
            self._until = time.monotonic() + self._random.uniform(0.01, 0.25)
        elif self._left and time.monotonic() >= self._until:
            self._left -= 1
            self.end()

    def end(self) -> None:
        if self._bot is not None:
            self._bot.send_signal(signal.SIGKILL)
            self._bot.wait()
            assert self._bot.stdout is not None
            self._bot.stdout.close()
            self._bot = None


def wait_for(bot: Bot, killer: Killer, case: Case, *states: State) -> Case:
    end = time.monotonic() + WITHIN_S
    while time.monotonic() < end:
        killer.keep_it_running()
        now = bot.store.get(case.id)
        assert now is not None
        if now.state in states:
            return now
        time.sleep(0.01)
    raise AssertionError(f"{now.state} and not {states} after {WITHIN_S} s: {[step.to_state.value for step in now.history]}, {now.trouble}")


def click(bot: Bot, case: Case, actor: Actor, verb: str) -> None:
    button = next(one for one in case.buttons if one.verb == verb)
    bot.cases.press(Press(f"p{bot.keys()}", button.id, actor, OPS, case.updated_at))


@pytest.mark.parametrize("seed", range(3))
def test_a_bot_that_is_killed_at_any_moment_does_everything_once(tmp_path: Path, seed: int) -> None:
    bot, killer = Bot(tmp_path), Killer(tmp_path, seed, kills=20)
    try:
        case = bot.cases.receive(Request("webhook-1", ANA, TargetQuery("chat-old", "pod", "chat-old", "llm"), datetime.now(UTC), OPS))
        case = wait_for(bot, killer, case, State.DIAGNOSED)
        for verb, end in (("apply", State.VERIFIED), ("undo", State.UNDONE)):
            click(bot, case, JO, verb)
            case = wait_for(bot, killer, case, State.AWAITING_APPROVAL)
            click(bot, case, WEI, "approve")
            case = wait_for(bot, killer, case, end, *(state for state in RESTING if state is not State.VERIFIED or end is State.UNDONE))
            assert case.state is end, case.trouble
        settle(bot, killer, case)
    finally:
        killer.end()
    assert [what for (what,) in bot.world.rows("SELECT what FROM writes ORDER BY n")] == [f"{verb}:{step}" for verb in ("apply", "undo") for step in range(3)]
    assert bot.world.rows("SELECT purpose, count(*) FROM messages GROUP BY purpose HAVING count(*) > 1") == []
    assert bot.world.rows("SELECT count(*) FROM messages") == [(7,)]
    assert bot.world.rows("SELECT * FROM whispers") == []
    assert bot.audit.verify() == []


def settle(bot: Bot, killer: Killer, case: Case) -> None:
    """Until the thread shows the end."""
    end = time.monotonic() + WITHIN_S
    while bot.world.rows("SELECT state FROM messages WHERE purpose = 'top'") != [(case.state.value,)] and time.monotonic() < end:
        killer.keep_it_running()
        time.sleep(0.02)
