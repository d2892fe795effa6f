"""Several workloads on the real API server are fixed and put back by a bot that is killed with -9 all the while; its audit log counts the writes.

`python -m bench kills --points 0 --real 1000` does the same a thousand times.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.walk.killed_cluster import WORKLOADS, ClusterRound, Fleet

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    made = Fleet()
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_a_bot_that_is_killed_at_any_moment_writes_each_step_once(fleet: Fleet, tmp_path: Path) -> None:
    tally = ClusterRound(fleet, tmp_path, seed=3, kills=8).go()
    assert tally.wrong == []
    assert tally.writes >= 2 * len(WORKLOADS)  # which ones there must be, the round has looked at
    assert tally.kills > 0


def test_two_replicas_of_which_one_is_killed_write_each_step_once(fleet: Fleet, tmp_path: Path) -> None:
    tally = ClusterRound(fleet, tmp_path, seed=4, kills=4, replicas=2).go()
    assert tally.wrong == []
    assert tally.writes >= 2 * len(WORKLOADS)
