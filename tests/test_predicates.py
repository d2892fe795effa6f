"""Seven predicates, three values: true, false, not known."""

import pytest

from bot.facts import ABSENT, UNKNOWN, Facts
from bot.model import Fact
from bot.predicates import NAMES, all_hold, check, holds


@pytest.mark.parametrize(
    ("value", "predicate", "operand", "verdict"),
    [
        (3, "equals", 3, True),
        (True, "equals", 1, False),
        ("a", "one_of", ["a", "b"], True),
        ("c", "one_of", ["a", "b"], False),
        ("fp8_e4m3", "matches", "fp8|int8", True),
        (("NVIDIA L4", "NVIDIA A10"), "matches", "A10", True),
        (("x", "y"), "contains", "y", True),
        ("long text", "contains", "text", True),
        (3, "at_least", 3, True),
        (2.9, "at_least", 3, False),
        (3, "at_most", 3, True),
        ("three", "at_least", 3, None),
        (True, "at_least", 1, None),
        (0, "present", True, True),
        (0, "present", False, False),
        (ABSENT, "present", False, True),
        (ABSENT, "equals", 3, False),
        (ABSENT, "at_most", 3, False),
        (UNKNOWN, "present", False, None),
        (UNKNOWN, "equals", 3, None),
    ],
)
def test_a_predicate_is_true_false_or_not_known(value: object, predicate: str, operand: object, verdict: bool | None) -> None:
    assert holds(value, predicate, operand) is verdict  # type: ignore[arg-type]


def test_there_are_seven_and_no_more() -> None:
    assert len(NAMES) == 7


def test_one_false_condition_outweighs_what_is_not_known() -> None:
    facts = Facts([Fact("a", 1)], ["b"])
    assert all_hold(facts, {"unknown.x": {"equals": 1}, "a": {"equals": 2}}) is False
    assert all_hold(facts, {"unknown.x": {"equals": 1}, "a": {"equals": 1}}) is None
    assert all_hold(facts, {}) is True


def test_two_predicates_of_one_fact_must_both_hold() -> None:
    facts = Facts([Fact("a", 5)])
    assert check(facts, "a", {"at_least": 3, "at_most": 6}) is True
    assert check(facts, "a", {"at_least": 3, "at_most": 4}) is False
