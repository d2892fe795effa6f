"""What names of models and cards tell comes from the data, and counts only where nothing was printed."""

from pathlib import Path

import pytest

from bot.diagnosis.ledger_engine import engine_facts
from bot.diagnosis.names import Names, facts_of
from bot.facts import Facts
from bot.model import Fact, Value
from bot.playbooks import load
from bot.playbooks.proof import mistakes
from bot.units import gib

NAMES = load().names
OWN = Names(hybrid=("swirl",), plain=("straight",), multimodal=(r"\w*eye",), experts=("many",), unified=("borrowed",), sizes=(("Card 9", 9.5), ("Card", 4.0)))


def named(names: Names, **facts: Value) -> Facts:
    given = Facts([Fact(name.replace("__", "."), value) for name, value in facts.items()])
    return given.with_facts(facts_of(given, names))


def test_a_family_is_known_by_a_line_of_data() -> None:
    assert engine_facts(named(OWN, engine__model="/m/swirl-9b")).known_hybrid is True
    assert engine_facts(named(OWN, engine__model="/m/straight-9b")).known_plain
    assert not engine_facts(named(OWN, engine__model="/m/other-9b")).known_plain


def test_what_the_engine_printed_counts_before_the_name() -> None:
    assert engine_facts(named(OWN, engine__model="/m/swirl-9b", engine__hybrid=False)).known_hybrid is False


def test_a_card_is_known_by_the_first_line_that_matches() -> None:
    assert engine_facts(named(OWN, gpus__names=("Maker Card 9",))).card_bytes == gib(9.5)
    assert engine_facts(named(OWN, gpus__names=("Maker Card 8",))).card_bytes == gib(4.0)
    assert engine_facts(named(OWN, gpus__names=("Maker Board",))).card_bytes is None


def test_slices_and_unequal_cards_have_no_size_by_name() -> None:
    assert engine_facts(named(OWN, gpus__names=("Card 9",), gpus__mig=True)).card_bytes is None
    assert engine_facts(named(OWN, gpus__names=("Card 9",), gpus__differ=True)).card_bytes is None


def test_media_are_looked_for_in_whole_parts_of_a_name() -> None:
    assert NAMES.tells("multimodal", "/models/m-vl-7b")
    assert not NAMES.tells("multimodal", "/models/dvlp-7b")


def test_sizes_of_unequal_cards_come_from_all_names() -> None:
    found = named(NAMES, gpus__names=("NVIDIA A100-SXM4-80GB", "NVIDIA L4"))
    assert (found.get("named.least_card_bytes"), found.get("named.most_card_bytes")) == (gib(22.0), 80 * 2**30)


@pytest.mark.parametrize(("total", "unified"), [(119.63, True), (121.69, True), (139.8, False), (94.97, False)])
def test_a_size_that_only_boards_with_shared_memory_have_tells_of_them(total: float, unified: bool) -> None:
    assert ("named.unified_memory" in named(NAMES, alloc__total_bytes=gib(total))) is unified
    assert "named.unified_memory" not in named(NAMES, alloc__total_bytes=gib(total), gpus__names=("NVIDIA H200",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hybrid: ['a(']\nexamples:\n  hybrid: [a]\n", "not a regular expression"),
        ("hybrid: ['swirl']\n", "has no example"),
        ("hybrid: ['swirl']\nexamples:\n  hybrid: [straight]\n", "'straight' is not told by hybrid"),
        ("hybrid: ['swirl']\nexamples:\n  hybrid: [swirl]\nnot:\n  hybrid: [a-swirl-b]\n", "'a-swirl-b' is told by hybrid"),
        ("sizes: [{name: Card, gib: many}]\n", "must be {name: a regular expression, gib: a number}"),
        ("colours: [red]\n", "colours"),
    ],
)
def test_mistakes_in_a_file_of_names_are_told_with_their_place(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "log_messages").mkdir()
    (tmp_path / "log_messages" / "a.yaml").write_text("id: a.line\nsays: x\nanchors: [a long line]\nexamples:\n  - {line: a long line}\n")
    (tmp_path / "names").mkdir()
    (tmp_path / "names" / "models.yaml").write_text(text)
    found = [line for line in mistakes(tmp_path) if line.startswith("names/models.yaml:")]
    assert any(said in line for line in found), found
