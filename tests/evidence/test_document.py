"""JSON of others: lines, wrong types, cut files."""

import json

from hypothesis import given
from hypothesis import strategies as st

from bot.evidence.document import Document, epoch, shorten

SCALARS = st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.text(max_size=20)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=30)


def plain(node: object) -> object:
    children = node.children  # type: ignore[attr-defined]
    if isinstance(children, dict):
        return {key: plain(value) for key, value in children.items()}
    if isinstance(children, list):
        return [plain(value) for value in children]
    return node.value  # type: ignore[attr-defined]


@given(VALUES)
def test_valid_json_is_read_as_it_is(value: object) -> None:
    document = Document(json.dumps(value, indent=1).encode(), "x")
    assert document.complete
    assert plain(document.root) == value


def test_each_value_knows_its_line() -> None:
    document = Document(b'{\n "a": 1,\n "b": {\n  "c": "x"\n }\n}\n', "x")
    assert [document.root.at("a").line, document.root.at("b", "c").line] == [2, 4]
    assert document.place(document.root.at("b", "c")).quote == '"c": "x"'


def test_cut_json_keeps_what_stood_before_the_cut() -> None:
    document = Document(b'{"metadata": {"name": "chat-0", "uid": "0a1b', "x")
    assert not document.complete
    assert document.root.text("metadata", "name") == "chat-0"


def test_wrong_types_are_nothing() -> None:
    root = Document(b'{"a": [1], "b": "x", "c": {"d": true}, "e": 1.5}', "x").root
    assert (root.text("a"), root.integer("b"), root.integer("c", "d"), root.flag("e"), list(root.each("b")), list(root.items("a"))) == ("", None, None, None, [], [])


def test_numbers_of_a_thousand_digits_and_deep_nesting_end_quietly() -> None:
    assert Document(b'{"a": ' + b"9" * 1000 + b"}", "x").root.integer("a") is None
    deep = Document(b"[" * 100_000 + b"]" * 100_000, "x")
    assert deep.root.children is not None


def test_duplicate_and_trailing_text_are_not_complete() -> None:
    assert not Document(b'{"a": 1} {"a": 2}', "x").complete
    assert not Document(b"", "x").complete
    assert not Document(b"error: pods not found", "x").complete


def test_times_with_and_without_zone() -> None:
    assert epoch("2026-01-14T09:31:07Z") == epoch("2026-01-14T10:31:07+01:00") == epoch("2026-01-14T04:01:07.123-0530")
    assert epoch("0001-01-01T00:00:00Z") is None
    assert epoch("2026-13-45T09:31:07Z") is None


def test_dots_beside_a_control_character_are_not_taken_for_the_mark_of_a_cut() -> None:
    line = "one.\x00two...\x07.three"
    assert all(part in line for part in shorten(line).split("..."))
