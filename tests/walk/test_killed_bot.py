"""The bot is killed with -9 at seeded random moments of check, apply, watch and undo, and started again; and two work on one store at once. Nothing is
lost and nothing done twice.

`python -m bench kills` does the same many hundred times.
"""

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.model import Actor, Case, Job, Press, Request, State, TargetQuery
from tests.walk.killed_bot import Bot
from tests.walk.killing import Round
from tests.walk.world import ANA, JO, OPS, WEI


@pytest.mark.parametrize("seed", range(2))
def test_a_bot_that_is_killed_at_any_moment_does_everything_once(tmp_path: Path, seed: int) -> None:
    tally = Round(tmp_path, seed, kills=6).go()
    assert tally.wrong == []
    assert (tally.writes, tally.kills > 0) == (6, True)


def test_two_replicas_that_work_at_once_do_everything_once(tmp_path: Path) -> None:
    tally = Round(tmp_path, 0, kills=0, replicas=2).go()
    assert (tally.wrong, tally.writes) == ([], 6)


def test_two_replicas_of_which_one_is_killed_do_everything_once(tmp_path: Path) -> None:
    tally = Round(tmp_path, 1, kills=3, replicas=2).go()
    assert (tally.wrong, tally.writes) == ([], 6)


def test_one_plan_that_is_executed_by_several_workers_at_the_same_moment_is_carried_out_once(tmp_path: Path) -> None:
    """As after a lease that expired though its worker lived: the same job in several hands."""
    first, second = Bot(tmp_path), Bot(tmp_path)
    first.run()
    second.run()
    try:
        case = first.cases.receive(Request("webhook-1", ANA, TargetQuery("chat-old", "pod", "chat-old", "llm"), datetime.now(UTC), OPS))
        case = reached(first, case, State.DIAGNOSED)
        press(first, case, JO, "apply")
        case = reached(first, case, State.AWAITING_APPROVAL)
        press(first, case, WEI, "approve")
        for number in range(12):
            (first, second)[number % 2].queue.put(Job("execute", case.id))
            time.sleep(0.04)
        reached(first, case, State.VERIFIED)
    finally:
        first.queue.stop()
        second.queue.stop()
    assert [what for (what,) in first.world.rows("SELECT what FROM writes ORDER BY n")] == ["apply:0", "apply:1", "apply:2"]
    assert first.audit.verify() == []


def press(bot: Bot, case: Case, actor: Actor, verb: str) -> None:
    button = next(one for one in case.buttons if one.verb == verb)
    bot.cases.press(Press(f"p{verb}", button.id, actor, OPS, case.updated_at))


def reached(bot: Bot, case: Case, state: State) -> Case:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        found = bot.store.get(case.id)
        assert found is not None
        if found.state is state:
            return found
        time.sleep(0.02)
    raise AssertionError(f"still {found.state}: {found.trouble}")
