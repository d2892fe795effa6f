"""`playbooks/remediations/<name>.yaml`: which remedy is carried out by which steps of named actions, how risky it is, how it is verified.

Data only: linear steps, sizes by name. The check is written by hand, tells every mistake with file and line, and knows no other part of the playbooks.
"""

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bot.errors import KnowledgeError
from bot.model import Text
from bot.remediation.actions import ACTIONS

RISKS = ("low", "medium", "high")
VERIFY = ("pods_ready", "passes_failed_phase", "cause_gone", "predicted_cache")
SIZE = "size"


@dataclass(frozen=True, slots=True)
class RecipeStep:
    """One named action; `subject` is the argument or variable, `value` a literal or "size" (the computed number of the recommendation)."""

    action: str
    subject: str = ""
    value: Any = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one remedy is carried out. No steps: it is handed out (`by_hand` says how)."""

    remedy: str
    directions: tuple[str, ...]
    says: Text
    risk: str
    steps: tuple[RecipeStep, ...]
    verify: tuple[str, ...]
    sizes: tuple[str, ...] = ()
    by_hand: Text | None = None


def folder() -> Path:
    """`playbooks/remediations` beside the `bot` package, in a checkout and in an installed wheel alike."""
    return Path(__file__).resolve().parents[2] / "playbooks" / "remediations"


@functools.cache
def load(where: Path | None = None) -> Mapping[str, Recipe]:
    """All recipes by remedy. Raises KnowledgeError with every mistake."""
    recipes, mistakes = read(where or folder())
    if mistakes:
        raise KnowledgeError(mistakes)
    return recipes


def read(where: Path) -> tuple[dict[str, Recipe], list[str]]:
    """All recipes of a folder and all mistakes, each `file:line: what`."""
    recipes: dict[str, Recipe] = {}
    mistakes: list[str] = []
    for path in sorted(where.glob("*.yaml")):
        recipe, wrong = read_text(path.read_text(encoding="utf-8"), str(path))
        mistakes += wrong
        if recipe is not None and recipe.remedy in recipes:
            mistakes.append(f"{path}:1: remedy {recipe.remedy} has a file already")
        elif recipe is not None:
            recipes[recipe.remedy] = recipe
    return recipes, mistakes


def mistakes(where: Path, remedies: Collection[str] = ()) -> list[str]:
    """For `oombot lint`: every mistake under `playbooks/remediations`, and every id that is not among the remedies ("max_model_len:lower"), if they are given."""
    recipes, found = read(where)
    for name, recipe in recipes.items():
        ids = [f"{name}:{direction}" for direction in recipe.directions] or [name]
        found += [f"{where / name}.yaml:1: no remedy is called {one}" for one in ids if remedies and one not in remedies]
    return found


def read_text(text: str, path: str) -> tuple[Recipe | None, list[str]]:
    """One file. The recipe is None when there is any mistake."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        document = yaml.safe_load(text)
    except yaml.YAMLError as wrong:
        mark = getattr(wrong, "problem_mark", None)
        return None, [f"{path}:{mark.line + 1 if mark else 1}: not YAML: {getattr(wrong, 'problem', '') or 'cannot be read'}"]
    if not isinstance(document, dict):
        return None, [f"{path}:1: a remediation is a mapping"]
    check = _Check(path, _lines(node))
    recipe = check.recipe(document)
    return (None, check.mistakes) if check.mistakes else (recipe, [])


def _lines(node: Any, prefix: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], int]:
    """The line of each value by its path."""
    lines = {prefix: node.start_mark.line + 1}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            lines |= _lines(value, (*prefix, str(key.value)))
            lines[(*prefix, str(key.value))] = key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for at, value in enumerate(node.value):
            lines |= _lines(value, (*prefix, at))
    return lines


class _Check:
    """Collects mistakes while it reads one document; readable but wrong parts become harmless empty values."""

    _KEYS = ("remedy", "directions", "says", "risk", "sizes", "steps", "verify", "by_hand")

    def __init__(self, path: str, lines: Mapping[tuple[str | int, ...], int]) -> None:
        self.path, self.lines, self.mistakes = path, lines, list[str]()

    def wrong(self, what: str, *place: str | int) -> None:
        at = next((self.lines[place[:size]] for size in range(len(place), -1, -1) if place[:size] in self.lines), 1)
        self.mistakes.append(f"{self.path}:{at}: {what}")

    def recipe(self, document: Mapping[str, Any]) -> Recipe:
        for key in document:
            if key not in self._KEYS:
                self.wrong(f"unknown key {key!r}; known are {', '.join(self._KEYS)}", str(key))
        steps = self._steps(document.get("steps", []))
        by_hand = self._text(document, "by_hand") if "by_hand" in document else None
        if not steps and by_hand is None and not self.mistakes:
            self.wrong("needs steps, or by_hand when the bot does not do it", "remedy")
        sizes = self._names(document, "sizes")
        if any(step.value == SIZE for step in steps) and not sizes:
            self.wrong("a step uses `size`, but `sizes` names none", "steps")
        return Recipe(
            self._name(document, "remedy"), self._names(document, "directions"), self._text(document, "says"), self._choice(document, "risk", RISKS),
            steps, self._known(document, "verify", VERIFY), sizes, by_hand,
        )  # fmt: skip

    def _name(self, document: Mapping[str, Any], key: str) -> str:
        value = document.get(key)
        if not isinstance(value, str) or not value:
            self.wrong(f"{key} must be a name", key)
            return ""
        return value

    def _choice(self, document: Mapping[str, Any], key: str, choices: Sequence[str]) -> str:
        value = document.get(key)
        if value not in choices:
            self.wrong(f"{key} must be one of {', '.join(choices)}", key)
        return str(value)

    def _names(self, document: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = document.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.wrong(f"{key} must be a list of names", key)
            return ()
        return tuple(value)

    def _known(self, document: Mapping[str, Any], key: str, known: Sequence[str]) -> tuple[str, ...]:
        names = self._names(document, key)
        for at, name in enumerate(names):
            if name not in known:
                self.wrong(f"unknown {key} {name!r}; known are {', '.join(known)}", key, at)
        return names

    def _text(self, document: Mapping[str, Any], key: str) -> Text:
        value = document.get(key)
        if not isinstance(value, dict) or set(value) != {"en", "zh"} or not all(isinstance(item, str) and item for item in value.values()):
            self.wrong(f"{key} needs a sentence in `en` and in `zh`", key)
            return Text("")
        return Text(value["en"], value["zh"])

    def _steps(self, value: Any) -> tuple[RecipeStep, ...]:
        if not isinstance(value, list):
            self.wrong("steps must be a list", "steps")
            return ()
        return tuple(self._step(item, at) for at, item in enumerate(value))

    def _step(self, item: Any, at: int) -> RecipeStep:
        if not isinstance(item, dict) or item.get("action") not in ACTIONS:
            self.wrong(f"a step needs an action: {', '.join(ACTIONS)}", "steps", at)
            return RecipeStep("")
        action = ACTIONS[item["action"]]
        key, allowed = action.key, action.subjects
        for name in item:
            if name not in {"action", "value", key}:
                self.wrong(f"unknown key {name!r} in a step {item['action']}", "steps", at, str(name))
        if key and item.get(key) not in allowed:
            self.wrong(f"{key} must be one of {', '.join(allowed)}", "steps", at, key)
        return RecipeStep(item["action"], str(item.get(key, "")) if key else "", item.get("value"))
