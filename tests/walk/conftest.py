"""The stage of a test: the small world in a fresh folder, alone or with a Slack workspace before it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.walk.slack_stage import SlackStage
from tests.walk.world import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Callable[..., SlackStage]]:
    """Makes one: `workspace(policy, world=..., people=...)`."""
    made: list[SlackStage] = []

    def make(*given: Any, **named: Any) -> SlackStage:
        made.append(SlackStage(tmp_path, *given, **named))
        return made[-1]

    yield make
    for one in made:
        one.stop()
