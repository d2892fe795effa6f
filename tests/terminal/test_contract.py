"""The JSON that others rely on, for every labelled case: keys, types, ranges, quotes at their lines, and one line a path in the order given."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bot.diagnosis.causes import FAMILIES
from bot.playbooks import load

CASES = sorted(path.parent for path in (Path(__file__).parent.parent / "cases").glob("*/expected.yaml"))
FAMILY = {cause: family for family, causes in FAMILIES.items() for cause in causes}
REMEDIES = load().remedies
CERTAINTIES = ("certain", "likely", "possible")
KEYS = {
    "schema": int,
    "path": str,
    "cause": str,
    "family": str,
    "certainty": str,
    "summary": str,
    "evidence": list,
    "against": list,
    "runners_up": list,
    "gaps": list,
    "ledger": dict | None,
    "recommendations": list,
    "will_not_help": list,
}
SIZES = (
    "total_bytes", "free_at_start_bytes", "requested_bytes", "weights_bytes", "activation_peak_bytes", "non_torch_bytes", "cudagraph_estimate_bytes", "cudagraph_bytes",
    "available_kv_bytes", "kv_blocks", "kv_tokens", "max_model_len", "needed_kv_bytes", "estimated_max_len", "residual_bytes", "rank",
)  # fmt: skip
LEDGER = {*SIZES, "ranks_seen", "utilization", "max_concurrency", "derived", "failed"}


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", "bot", "diagnose", "--json", *map(str, CASES)], capture_output=True, check=True)
    assert done.stderr == b""
    lines = [json.loads(line) for line in done.stdout.split(b"\n")[:-1]]
    assert [line["path"] for line in lines] == [str(case) for case in CASES]
    return {case.name: line for case, line in zip(CASES, lines, strict=True)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_key_is_there_with_its_type(case: Path, answers: dict[str, Any]) -> None:
    found = answers[case.name]
    assert list(found)[: len(KEYS)] == list(KEYS)
    assert all(isinstance(found[key], wanted) for key, wanted in KEYS.items())
    assert (found["schema"], found["family"]) == (1, FAMILY[found["cause"]])
    assert found["certainty"] in CERTAINTIES
    assert "{" not in found["summary"]
    for rival in found["runners_up"]:
        assert rival.keys() == {"cause", "certainty"}
        assert rival["cause"] in FAMILY
        assert rival["certainty"] in CERTAINTIES
    for gap in found["gaps"]:
        assert gap.keys() == {"source", "reason", "would_tell"}
        assert all(isinstance(value, str) for value in gap.values())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_quotes_are_parts_of_their_lines(case: Path, answers: dict[str, Any]) -> None:
    for quote in (*answers[case.name]["evidence"], *answers[case.name]["against"]):
        assert quote.keys() == {"source", "line", "quote", "says"}
        if quote["line"] is not None:
            line = (case / quote["source"]).read_bytes().split(b"\n")[quote["line"] - 1].decode(errors="replace")
            assert all(part.strip() in line for part in quote["quote"].replace("[redacted]", "...").split("...")), quote


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ledgers_hold_numbers_or_null(case: Path, answers: dict[str, Any]) -> None:
    ledger = answers[case.name]["ledger"]
    if ledger is None:
        return
    assert ledger.keys() >= LEDGER
    assert all(ledger[name] is None or isinstance(ledger[name], int) for name in SIZES)
    assert isinstance(ledger["ranks_seen"], int)
    assert all(ledger[name] is None or isinstance(ledger[name], int | float) for name in ("utilization", "max_concurrency"))
    assert set(ledger["derived"]) <= ledger.keys()
    assert all(ledger[name] is not None for name in ledger["derived"])
    assert ledger["failed"] is None or isinstance(ledger["failed"], str)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_advice_has_words_of_the_vocabulary(case: Path, answers: dict[str, Any]) -> None:
    found = answers[case.name]
    for advice in found["recommendations"]:
        assert advice.keys() == {"remedy", "direction", "from", "to", "why", "effect", "risk", "predicted"}
        assert advice["risk"] in ("low", "medium", "high")
        assert advice["predicted"] is None or advice["predicted"].keys() == {"available_kv_bytes", "kv_tokens"}
        assert all(isinstance(advice[key], str) and not re.search(r"\{[a-z]", advice[key]) for key in ("why", "effect"))
    for item in found["will_not_help"]:
        assert item.keys() == {"remedy", "direction", "why"}
    for item in (*found["recommendations"], *found["will_not_help"]):
        assert _id(item) in REMEDIES
    useless = {_id(item) for item in found["will_not_help"]}
    assert useless.isdisjoint(_id(item) for item in found["recommendations"])


def _id(item: dict[str, Any]) -> str:
    return f"{item['remedy']}:{item['direction']}" if item["direction"] else item["remedy"]
