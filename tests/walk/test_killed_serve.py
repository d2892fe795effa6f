"""`oombot serve`, killed with -9 while it works against the whole sandbox. The cluster counts the writes; `python -m bench kills` kills it more often."""

import re
from collections.abc import Iterator
from typing import cast

import pytest
from starlette.responses import Response

from bot.model import State
from bot.sandbox.cluster import SimulatedCluster
from tests.clients.fake_prometheus import FakePrometheus, vector
from tests.walk.killed_serve import Outside


@pytest.fixture
def prometheus() -> Iterator[FakePrometheus]:
    seen: list[str] = []

    def answer(query: str) -> Response:
        """The pod that failed was full; the one after it is not."""
        seen.append(re.findall('pod=~"[^"]*"', query)[0])
        return vector(({}, "0.99" if seen[-1] == seen[0] else "0.4")) if "kv_cache_usage" in query else vector()

    fake = FakePrometheus(answer)
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def outside(prometheus: FakePrometheus) -> Iterator[Outside]:
    outside = Outside(seed=7, kills=1, prometheus=prometheus.url)
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
    assert outside.says("Highest use of the KV cache: 99 % before, 40 % after.")
    assert (tally.writes, tally.kills) == (3, 2)  # apply; undo; the strategy once the undo's rollout is through
