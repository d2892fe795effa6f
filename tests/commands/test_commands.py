"""Every pasted output of `tests/commands/*.yaml` gives exactly the facts that stand beside it."""

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml

CASES = [(f"{path.stem}: {case['command']}", case) for path in sorted(Path(__file__).parent.glob("*.yaml")) for case in yaml.safe_load(path.read_text())]


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_pasted_output_is_read_as_written_beside_it(case: dict[str, Any]) -> None:
    reader = importlib.import_module(f"bot.evidence.{case['reader']}")
    output = case["output"]
    reading = reader.read(output.encode(), "pasted")
    got = {fact.name: list(fact.value) if isinstance(fact.value, tuple) else fact.value for fact in reading.facts}
    wanted = case.get("facts", {})
    assert {name: got.get(name) for name in wanted} == wanted
    assert not [name for name in case.get("absent", []) if name in got]
    if "gap" in case:
        assert [gap.reason for gap in reading.gaps] == [case["gap"]]


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_each_fact_quotes_the_line_it_was_read_from(case: dict[str, Any]) -> None:
    reader = importlib.import_module(f"bot.evidence.{case['reader']}")
    lines = case["output"].split("\n")
    for fact in reader.read(case["output"].encode(), "pasted").facts:
        if fact.place is not None and fact.place.line is not None:
            for part in fact.place.quote.split("..."):
                assert part in lines[fact.place.line - 1]
