"""For how long how much capacity is missing."""

from typing import Any

import pytest

from bot.remediation.outage import at_once, said
from bot.remediation.workload import Workload, ref_of
from tests.remediation.shelf import workload


def here(kind: str = "Deployment", replicas: int = 2, **spec: Any) -> Workload:
    body = workload(kind, replicas=replicas, **spec)
    return Workload(ref_of(body, "apps/v1", kind), body, 0)


def rolling(more: int | str, fewer: int | str) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": more, "maxUnavailable": fewer}}


@pytest.mark.parametrize(
    ("found", "going"),
    [
        (here(strategy=rolling(0, 1)), 1), (here(strategy=rolling("25%", "25%")), 0), (here(replicas=8, strategy=rolling("25%", "25%")), 2),
        (here(strategy={"type": "Recreate"}), 2), (here("StatefulSet"), 1),
    ],
)  # fmt: skip
def test_how_many_go_before_their_successors_is_read_from_the_strategy(found: Workload, going: int) -> None:
    assert at_once(found, found.body, found.replicas) == going


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((2, 2, 1, 110.0), "For about 3:40 it serves with half of its capacity (the last start took 1:50)."),
        ((8, 8, 2, 110.0), "For about 7:20 it serves with 6 of 8 pods"),
        ((3, 3, 3, 110.0), "It does not serve for about 1:50"),
        ((2, 2, 0, 110.0), "no capacity is missing, for about 3:40 both take GPUs"),
        ((0, 2, 1, None), "None serves now, so no capacity is lost; how long a start takes is not known."),
        ((1, 2, 1, None), "For the whole rollout it serves with half of its capacity; how long a start takes is not known. 1 of 2 serve now."),
    ],
)
def test_what_is_missing_is_said_with_its_time(numbers: Any, words: str) -> None:
    en, zh = said(*numbers)
    assert words in en
    assert zh
