"""The data under playbooks/remediations is whole, and every mistake in it is told with file and line."""

from pathlib import Path

import pytest

from bot import playbooks
from bot.errors import KnowledgeError
from bot.remediation import recipes
from bot.remediation.recipes import RecipeStep, load, read_text

GOOD = """remedy: max_model_len
directions: [lower]
says: {en: Sets it., zh: 设置。}
risk: low
sizes: [max_model_len]
steps:
  - {action: set_engine_argument, argument: max-model-len, value: size}
verify: [pods_ready]
"""


def test_the_files_that_we_ship_are_right() -> None:
    found, mistakes = recipes.read(recipes.folder())
    assert mistakes == []
    assert {"restart", "gpu_memory_utilization", "max_model_len", "enforce_eager", "cudagraph_estimate", "expandable_segments"} <= set(found)


def test_every_remediation_carries_out_a_remedy_of_the_vocabulary() -> None:
    assert recipes.mistakes(recipes.folder(), playbooks.load().remedies) == []


def test_a_direction_that_no_remedy_has_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "max_model_len.yaml").write_text(GOOD.replace("[lower]", "[lower, sideways]"), encoding="utf-8")
    assert recipes.mistakes(tmp_path, playbooks.load().remedies) == [f"{tmp_path}/max_model_len.yaml:1: no remedy is called max_model_len:sideways"]


def test_each_file_is_named_after_its_remedy() -> None:
    for path in recipes.folder().glob("*.yaml"):
        assert f"remedy: {path.stem}\n" in path.read_text(encoding="utf-8")


def test_a_right_file_becomes_a_recipe() -> None:
    recipe, mistakes = read_text(GOOD, "f.yaml")
    assert mistakes == []
    assert recipe is not None
    assert recipe.steps == (RecipeStep("set_engine_argument", "max-model-len", "size"),)


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        ("risk: low", "risk: none", "f.yaml:4: risk must be one of low, medium, high"),
        ("risk: low", "risky: low\nrisk: low", "f.yaml:4: unknown key 'risky'"),
        ("action: set_engine_argument", "action: run_shell", "f.yaml:7: a step needs an action"),
        ("argument: max-model-len", "argument: trust-remote-code", "f.yaml:7: argument must be one of"),
        ("value: size}", "value: size, also: x}", "f.yaml:7: unknown key 'also'"),
        ("sizes: [max_model_len]\n", "", "f.yaml:5: a step uses `size`"),
        ("[pods_ready]", "[pods_ready, looks_good]", "f.yaml:8: unknown verify 'looks_good'"),
        (", zh: 设置。", "", "f.yaml:3: says needs a sentence in `en` and in `zh`"),
        ("remedy: max_model_len\n", "", "f.yaml:1: remedy must be a name"),
        ("directions: [lower]", "directions: lower", "f.yaml:2: directions must be a list of names"),
        ("risk: low", "risk: [low", "f.yaml:5: not YAML"),
    ],
)
def test_a_mistake_is_told_with_its_line(old: str, new: str, mistake: str) -> None:
    recipe, mistakes = read_text(GOOD.replace(old, new), "f.yaml")
    assert recipe is None
    assert any(one.startswith(mistake) for one in mistakes), mistakes


def test_all_mistakes_are_told_at_once() -> None:
    text = GOOD.replace("risk: low", "risk: none").replace("[pods_ready]", "[x, y]")
    assert len(read_text(text, "f.yaml")[1]) == 3


def test_two_files_for_one_remedy_are_a_mistake(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(GOOD, encoding="utf-8")
    with pytest.raises(KnowledgeError, match=r"b\.yaml:1: remedy max_model_len has a file already"):
        load(tmp_path)
