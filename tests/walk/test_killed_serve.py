"""`oombot serve`, killed with -9 while it works against the whole sandbox. The cluster counts the writes; `python -m bench kills` kills it more often."""

from collections.abc import Iterator
from typing import cast

import pytest

from bot.model import State
from bot.sandbox.cluster import SimulatedCluster
from tests.walk.killed_serve import Outside


@pytest.fixture
def outside() -> Iterator[Outside]:
    outside = Outside(seed=7, kills=1)
    try:
        outside.start()
        yield outside
    finally:
        outside.end()


def test_what_somebody_puts_back_while_the_bot_is_dead_after_verified_is_said_at_its_next_start(outside: Outside) -> None:
    outside.spare(kills=0)
    assert outside.carried("apply", State.VERIFIED)
    outside.kill()
    theirs = outside.world.incident("chat").manifest
    cast(SimulatedCluster, outside.world.cluster).apply(theirs, manager="argocd-application-controller")
    outside.until(lambda: outside.says("Verified, but"))
    assert outside.says("argocd-application-controller")
    assert outside.in_state(State.VERIFICATION_FAILED)()


def test_a_bot_that_is_killed_while_it_works_applies_once_and_undoes_once(outside: Outside) -> None:
    tally = outside.go()
    assert tally.wrong == []
    assert (tally.writes, tally.kills) == (3, 2)  # apply; undo; the strategy once the undo's rollout is through
