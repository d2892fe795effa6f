"""docs/threat-model.md names a test for each line of what is defended, and each of these tests exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
DEFENDED, _, NOT_DEFENDED = PAGE.partition("## What is not defended")
ROWS = [line for line in DEFENDED.splitlines() if line.startswith("| ") and not line.startswith("| against")]


@cache
def written_in(path: str) -> frozenset[str]:
    file = ROOT / path
    tree = ast.parse(file.read_text(encoding="utf-8")) if file.is_file() else ast.Module([], [])
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_each_line_names_tests_that_exist(row: str) -> None:
    named = NAMED.findall(row)
    assert named, "names no test"
    assert [f"{path}::{name}" for path, name in named if name not in written_in(path)] == []


def test_there_is_something_to_look_at_and_something_that_is_not_defended() -> None:
    assert len(ROWS) > 40
    assert NOT_DEFENDED.count("\n- ") >= 5
