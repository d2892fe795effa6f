"""The seven predicates of signatures, three-valued: True, False, or None when the fact is not known.

There will be no eighth, no nesting and no arithmetic: a number that has to be computed is a named fact in Python with a test of its own.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache

from bot.facts import ABSENT, UNKNOWN, Facts, Missing
from bot.model import Value

Condition = Mapping[str, object]  # one predicate and its operand, e.g. {"at_least": 3}


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _equals(value: Value, operand: object) -> bool:
    return value == operand and isinstance(value, bool) == isinstance(operand, bool)


def _one_of(value: Value, operand: object) -> bool:
    return isinstance(operand, (list, tuple)) and any(_equals(value, item) for item in operand)


def _matches(value: Value, operand: object) -> bool:
    texts = value if isinstance(value, tuple) else (str(value),)
    return any(_compiled(str(operand)).search(text[:8192]) for text in texts)


def _contains(value: Value, operand: object) -> bool:
    return str(operand) in (value if isinstance(value, tuple) else str(value))


def _at_least(value: Value, operand: object) -> bool | None:
    left, right = _number(value), _number(operand)
    return None if left is None or right is None else left >= right


def _at_most(value: Value, operand: object) -> bool | None:
    left, right = _number(value), _number(operand)
    return None if left is None or right is None else left <= right


PREDICATES: dict[str, Callable[[Value, object], bool | None]] = {
    "equals": _equals,
    "one_of": _one_of,
    "matches": _matches,
    "contains": _contains,
    "at_least": _at_least,
    "at_most": _at_most,
}
NAMES = (*PREDICATES, "present")


def holds(value: Value | Missing, predicate: str, operand: object) -> bool | None:
    """Whether one predicate holds of one fact. An absent fact has no value, so nothing but `present: false` holds of it; of an unknown one nothing is known."""
    if predicate == "present":
        return None if value is UNKNOWN else (value is not ABSENT) == bool(operand)
    if isinstance(value, Missing):
        return None if value is UNKNOWN else False
    return PREDICATES[predicate](value, operand)


def check(facts: Facts, name: str, condition: Condition) -> bool | None:
    """Whether all predicates of one condition hold of the fact `name`; None when that is not known and none of them is false."""
    verdicts = [holds(facts.get(name), predicate, operand) for predicate, operand in condition.items()]
    if False in verdicts:
        return False
    return None if None in verdicts else True


def all_hold(facts: Facts, conditions: Mapping[str, Condition]) -> bool | None:
    """Whether every condition holds: False when one does not, None when none is false and one is not known."""
    verdict: bool | None = True
    for name, condition in conditions.items():
        result = check(facts, name, condition)
        if result is False:
            return False
        if result is None:
            verdict = None
    return verdict
