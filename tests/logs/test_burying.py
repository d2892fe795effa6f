"""Burying a log in what else stands in a file changes no answer. The whole (50,000 lines for every case) is `python -m bench burying`."""

from pathlib import Path

import pytest

from bot.model import Certainty
from tests.logs.buried_cases import Answer, answers, buried_answers, cases
from tests.logs.burying import WAYS, bury, draws

CASES = cases()
FEW, MANY = 1_200, 50_000


@pytest.mark.parametrize("part", range(4))
def test_no_answer_changes_in_a_thousand_lines(part: int) -> None:
    changed = []
    for case in CASES[part::4]:
        before = answers(case)
        changed += [f"{case.name}, {way}: {before} became {after}" for way, after in buried_answers(case, FEW, seed=part) if not after.holds(before)]
    assert changed == []


@pytest.mark.parametrize("name", ["gpu-035", "gpu-038", "gpu-068", "platform-124"])
def test_no_answer_changes_in_fifty_thousand_lines(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    before = answers(case)
    changed = [f"{way}: {before} became {after}" for way, after in buried_answers(case, MANY, seed=7) if not after.holds(before)]
    assert changed == []


def test_most_logs_can_be_buried_in_most_ways() -> None:
    """A generator that refuses would prove nothing."""
    done = [way for case in CASES for way, _ in draws((case / "container.log").read_bytes().decode("utf-8", "surrogateescape"), 20, seed=1)]
    assert all(done.count(way) >= len(CASES) // 20 for way in WAYS)  # few of the cases in the repository had begun to serve
    assert len(done) >= 4 * len(CASES)


def test_the_same_seed_buries_alike_and_another_otherwise() -> None:
    log = (CASES[0] / "container.log").read_text()
    assert bury(log, WAYS[0], 200, seed=3) == bury(log, WAYS[0], 200, seed=3)
    assert bury(log, WAYS[0], 200, seed=3) != bury(log, WAYS[0], 200, seed=4)


@pytest.mark.parametrize("way", WAYS)
def test_every_line_of_the_log_is_still_there_in_its_order(way: str) -> None:
    for case in CASES:
        own = (case / "container.log").read_bytes().decode("utf-8", "surrogateescape").rstrip("\n").split("\n")
        text = bury("\n".join(own), way, 300, seed=2)
        if text is not None:
            rest = iter(text.split("\n"))
            assert all(line in rest for line in own), case.name


def test_an_answer_that_grew_surer_or_turned_does_not_hold() -> None:
    sure = Answer("gpu_oom", "device_memory", Certainty.CERTAIN, frozenset())
    likely = Answer("gpu_oom", "device_memory", Certainty.LIKELY, frozenset())
    other = Answer("healthy", "not_memory", Certainty.LIKELY, frozenset())
    assert likely.holds(sure)
    assert not sure.holds(likely)
    assert not other.holds(sure)


def test_logs_of_others_are_read_in_place_and_never_kept() -> None:
    inside = Path(__file__).parent.parent.parent
    assert all(case.is_relative_to(inside / "tests" / "cases") or not case.is_relative_to(inside) for case in CASES)
