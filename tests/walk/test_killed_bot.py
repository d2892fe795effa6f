"""The bot is killed with -9 at seeded random moments of check, apply, watch and undo, and started again. Nothing is lost and nothing done twice.

`python -m bench kills` does the same many hundred times.
"""

from pathlib import Path

import pytest

from tests.walk.killing import Round


@pytest.mark.parametrize("seed", range(3))
def test_a_bot_that_is_killed_at_any_moment_does_everything_once(tmp_path: Path, seed: int) -> None:
    tally = Round(tmp_path, seed, kills=20).go()
    assert tally.wrong == []
    assert (tally.writes, tally.kills > 2) == (6, True)
