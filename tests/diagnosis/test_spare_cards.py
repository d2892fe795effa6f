"""A card is spare only when this server does not use it, also while it waits for its next start."""

import pytest

from bot.diagnosis.device_facts import derive
from bot.facts import Facts
from bot.model import Fact, Value


def _spare(**facts: Value) -> object:
    return derive(Facts([Fact(name.replace("__", "."), value) for name, value in facts.items()]), None).get("gpus.spare_count")


@pytest.mark.parametrize(
    ("count", "idle", "ranks", "spare"),
    [
        (1, 1, 1, 0),  # its own card, idle since the server is in back-off
        (2, 1, 1, 1),
        (8, 8, 2, 6),
        (8, 0, 2, 0),  # the others are in use by somebody
    ],
)
def test_the_cards_of_a_server_that_is_down_are_not_spare(count: int, idle: int, ranks: int, spare: int) -> None:
    assert _spare(gpus__count=count, gpus__idle_count=idle, engine__ranks=ranks) == spare


def test_without_the_number_of_ranks_the_pods_own_request_counts() -> None:
    assert _spare(gpus__count=4, gpus__idle_count=4, container__gpus=4) == 0
