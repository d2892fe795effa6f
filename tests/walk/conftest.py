"""The stage of a test: the small world in a fresh folder."""

from pathlib import Path

import pytest

from tests.walk.world import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)
