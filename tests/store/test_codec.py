"""A Case is the same after it was kept: every field, every kind of value."""

import dataclasses
import enum
import typing
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import UnionType
from typing import Any

import pytest

from bot.errors import StoreError
from bot.model import Actor, Case, Recommendation, Request, State, TargetQuery, Text
from bot.store.codec import decode, encode

NOW = datetime(2026, 11, 30, 10, 0, 0, 123456, tzinfo=UTC)


def filled(kind: Any) -> Any:
    """A value of that type with every field filled in."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, UnionType):
        return filled(next(one for one in arguments if one is not type(None)))
    if origin is tuple:
        return (filled(arguments[0]), filled(arguments[0]))
    if origin in (Mapping, dict):
        return {"a": filled(arguments[1]), "b": filled(arguments[1])}
    if kind is Any:
        return {"nested": [1, 2.5, None, True, "x"]}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(iter(kind))
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{part.name: filled(hints[part.name]) for part in dataclasses.fields(kind)})
    simple: dict[Any, Callable[[], Any]] = {str: lambda: "zeichen \U0001f600 \u4e2d", int: lambda: 7, float: lambda: 0.94, bool: lambda: True, datetime: lambda: NOW}
    return simple[kind]()


def test_a_case_with_every_field_filled_comes_back_equal() -> None:
    case: Case = filled(Case)
    assert case.operation is not None
    assert decode(encode(case)) == case


def test_an_empty_case_comes_back_equal() -> None:
    case = Case("c1", 1, State.RECEIVED, Request("k", Actor("U1", "slack"), TargetQuery("x"), NOW), NOW, NOW)
    assert decode(encode(case)) == case


@pytest.mark.parametrize("value", [0.9, 1, 1.0, "1", "0.90", "true", None, 131072, 1e300, float("inf")])
def test_a_value_keeps_its_type(value: float | str | None) -> None:
    recommendation = Recommendation("r", "lower", Text("w"), Text("e"), "low", from_value=value)
    case: Case = filled(Case)
    assert case.diagnosis is not None
    case = dataclasses.replace(case, diagnosis=dataclasses.replace(case.diagnosis, recommendations=(recommendation,)))
    back = decode(encode(case))
    assert back.diagnosis is not None
    assert (back.diagnosis.recommendations[0].from_value, type(back.diagnosis.recommendations[0].from_value)) == (value, type(value))


def test_half_a_character_of_a_log_does_not_stop_a_case_from_being_kept() -> None:
    case = Case("c1", 1, State.RECEIVED, Request("k", Actor("U1", "slack"), TargetQuery("bad \udcff end"), NOW), NOW, NOW)
    assert decode(encode(case)).request.query.text == "bad \udcff end"


def test_a_case_of_an_older_program_takes_the_defaults_of_new_fields() -> None:
    case = Case("c1", 1, State.RECEIVED, Request("k", Actor("U1", "slack"), TargetQuery("x"), NOW), NOW, NOW)
    text = encode(case).replace(',"announced":{}', "").replace('"asked_again":[],', "")
    assert "announced" not in text
    assert decode(text) == case


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": 1}', "null"])
def test_what_is_no_case_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(StoreError) as wrong:
        decode(text)
    assert "\n" not in str(wrong.value)
