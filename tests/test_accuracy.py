"""The labelled incidents: what is answered right today stays right."""

import json
import sys
from pathlib import Path

import pytest

from tests.accuracy import CASES, FLOORS, Label, Score, answers, labels, score, shares, stands, table


@pytest.fixture(scope="module")
def scores() -> list[Score]:
    cases = labels()
    return [score(label, answer) for label, answer in zip(cases, answers([sys.executable, "-m", "bot", "diagnose", "--json"], cases), strict=True)]


@pytest.mark.parametrize("what", FLOORS)
def test_share_of_right_answers_is_not_lost(scores: list[Score], what: str) -> None:
    assert shares(scores)[what] >= FLOORS[what], "\n".join(table(scores))


def test_no_advice_is_harmful(scores: list[Score]) -> None:
    assert {s.label.name: s.harmful for s in scores if s.harmful} == {}


def test_the_scorer_notices_a_quote_that_does_not_stand_where_it_says(tmp_path: Path) -> None:
    (tmp_path / "container.log").write_text("first\nCUDA out of memory. Tried to allocate 2.00 GiB here\n")
    assert stands(tmp_path, {"source": "container.log", "line": 2, "quote": "CUDA out of memory ... 2.00 GiB".replace("memory ...", "memory. ...")})
    assert not stands(tmp_path, {"source": "container.log", "line": 1, "quote": "CUDA out of memory"})
    assert not stands(tmp_path, {"source": "container.log", "line": 2, "quote": "2.00 GiB ... CUDA"})
    assert not stands(tmp_path, {"source": "other.log", "line": 1, "quote": "first"})


def test_the_scorer_counts_advice_for_the_wrong_kind_of_memory() -> None:
    label = Label("x", CASES, "kv_cache_too_small", frozenset({"kv_cache_too_small"}), ("max_model_len:lower",), frozenset(), "yes")
    advice = [{"remedy": "max_model_len", "direction": "lower"}, {"remedy": "memory_limit", "direction": "raise"}]
    answer = {"cause": "kv_cache_too_small", "certainty": "certain", "evidence": [], "recommendations": advice}
    assert score(label, answer).harmful == ("memory_limit:raise",)
    assert score(label, answer).remedy is True


def test_the_product_never_sees_a_label(tmp_path: Path) -> None:
    spy = tmp_path / "spy.py"
    spy.write_text("import json, os, sys\nfor p in sys.argv[1:]: print(json.dumps(sorted(os.listdir(p))))\n")
    for seen in answers([sys.executable, str(spy)], labels()[:5]):
        assert "expected.yaml" not in json.dumps(seen)
