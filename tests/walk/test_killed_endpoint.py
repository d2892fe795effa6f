"""Several Databricks endpoints are changed and put back by a bot that is killed with -9 all the while; the workspace counts the updates that it accepted.

`python -m bench kills --points 0 --endpoints 1000` does the same a thousand times.
"""

from pathlib import Path

import pytest

from tests.walk.killed_endpoint import EndpointRound

pytestmark = pytest.mark.timeout(300)
UPDATES = 8  # of each of the four endpoints one, and one that takes it back


def test_a_bot_that_is_killed_at_any_moment_updates_each_endpoint_once(tmp_path: Path) -> None:
    tally = EndpointRound(tmp_path, seed=5, kills=8).go()
    assert tally.wrong == []
    assert (tally.writes, tally.kills > 0) == (UPDATES, True)


def test_two_replicas_of_which_one_is_killed_update_each_endpoint_once(tmp_path: Path) -> None:
    tally = EndpointRound(tmp_path, seed=6, kills=4, replicas=2).go()
    assert (tally.wrong, tally.writes) == ([], UPDATES)
