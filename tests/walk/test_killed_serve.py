"""`oombot serve`, killed with -9 while it works against the whole sandbox. The cluster counts the writes; `python -m bench kills` kills it more often."""

from collections.abc import Iterator

import pytest

from tests.walk.killed_serve import Outside


@pytest.fixture
def outside() -> Iterator[Outside]:
    outside = Outside(seed=7, kills=1)
    try:
        outside.start()
        yield outside
    finally:
        outside.end()


def test_a_bot_that_is_killed_while_it_works_applies_once_and_undoes_once(outside: Outside) -> None:
    tally = outside.go()
    assert tally.wrong == []
    assert (tally.writes, tally.kills) == (3, 1)  # apply; undo; the strategy once the undo's rollout is through
