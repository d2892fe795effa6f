"""The shape of the files under `playbooks/`, checked by hand in milliseconds. A mistake is a path into the document and what is wrong there.

Only shapes: whether names exist and examples hold is `proof`.
"""

import re
from collections.abc import Callable, Iterable

from bot.logs.messages import CONVERSIONS, ROLES
from bot.model import Certainty, Phase
from bot.predicates import NAMES
from bot.servers import KINDS

Path = tuple[str | int, ...]
Mistakes = list[tuple[Path, str]]
Checker = Callable[[object, Path, Mistakes], None]

_ID = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+$")
_FACT = re.compile(r"[a-z][a-z0-9_]*(\.[a-zA-Z0-9_]+)*$")
_TYPED = re.compile(r"--[a-z][a-z0-9_-]{1,60}$")
_WORD = re.compile(r"[a-z0-9_]{1,30}")
_REMEDY = re.compile(r"[a-z_0-9]+(:[a-z_0-9]+)?$")


def text(value: object, path: Path, mistakes: Mistakes) -> None:
    if isinstance(value, str) and value:
        return
    if (
        isinstance(value, dict)
        and isinstance(value.get("en"), str)
        and value["en"]
        and set(value) <= {"en", "zh"}
        and all(isinstance(part, str) for part in value.values())
    ):
        return
    mistakes.append((path, "must be a text, or {en: text, zh: text}"))


def _string(value: object, path: Path, mistakes: Mistakes) -> None:
    if not isinstance(value, str):
        mistakes.append((path, "must be a text"))


def _of(words: Iterable[str]) -> Checker:
    allowed = tuple(words)

    def check(value: object, path: Path, mistakes: Mistakes) -> None:
        if value not in allowed:
            mistakes.append((path, f"{value!r} is none of {', '.join(allowed)}"))

    return check


def _id(value: object, path: Path, mistakes: Mistakes) -> None:
    if not isinstance(value, str) or not _ID.match(value):
        mistakes.append((path, "must be an id like vllm.no_cache_blocks"))


def _strings(value: object, path: Path, mistakes: Mistakes) -> None:
    if not isinstance(value, list) or not value or not all(isinstance(item, str) and item for item in value):
        mistakes.append((path, "must be a list of texts"))


def _anchors(value: object, path: Path, mistakes: Mistakes) -> None:
    _strings(value, path, mistakes)
    for index, anchor in enumerate(value if isinstance(value, list) else ()):
        if isinstance(anchor, str) and not 4 <= len(anchor.encode()) <= 240:
            mistakes.append(((*path, index), "an anchor has 4 to 240 bytes"))


def _pattern(value: object, path: Path, mistakes: Mistakes) -> None:
    _string(value, path, mistakes)


def _fields(value: object, path: Path, mistakes: Mistakes) -> None:
    if not isinstance(value, dict):
        mistakes.append((path, "must be a mapping from field to type"))
        return
    for name, kind in value.items():
        if kind not in CONVERSIONS:
            mistakes.append(((*path, str(name)), f"{kind!r} is none of {', '.join(CONVERSIONS)}"))


def _tier(value: object, path: Path, mistakes: Mistakes) -> None:
    if not isinstance(value, int) or not 1 <= value <= 9:
        mistakes.append((path, "must be a number from 1 (most specific) to 9"))


def _flag(value: object, path: Path, mistakes: Mistakes) -> None:
    if not isinstance(value, bool):
        mistakes.append((path, "must be true or false"))


def _anything(value: object, path: Path, mistakes: Mistakes) -> None:
    return


def conditions(value: object, path: Path, mistakes: Mistakes) -> None:
    """`{fact: {predicate: operand, ...}, ...}`"""
    if not isinstance(value, dict):
        mistakes.append((path, "must be a mapping from fact to {predicate: operand}"))
        return
    for name, condition in value.items():
        if not isinstance(name, str) or not _FACT.match(name):
            mistakes.append(((*path, str(name)), f"{name!r} is no name of a fact"))
        if not isinstance(condition, dict) or not condition:
            mistakes.append(((*path, str(name)), "must be {predicate: operand}"))
            continue
        for predicate, operand in condition.items():
            _operand(str(predicate), operand, (*path, str(name), str(predicate)), mistakes)


def _operand(predicate: str, operand: object, path: Path, mistakes: Mistakes) -> None:
    if predicate not in NAMES:
        mistakes.append((path, f"{predicate!r} is none of the seven predicates: {', '.join(NAMES)}"))
    elif predicate == "one_of" and not (isinstance(operand, list) and operand):
        mistakes.append((path, "one_of takes a list"))
    elif predicate in ("at_least", "at_most") and (isinstance(operand, bool) or not isinstance(operand, (int, float))):
        mistakes.append((path, f"{predicate} takes a number"))
    elif predicate == "present" and not isinstance(operand, bool):
        mistakes.append((path, "present takes true or false"))
    elif predicate in ("matches", "contains") and not isinstance(operand, str):
        mistakes.append((path, f"{predicate} takes a text"))


def remedy_id(value: object, path: Path, mistakes: Mistakes) -> None:
    if not isinstance(value, str) or not _REMEDY.match(value):
        mistakes.append((path, f"{value!r} is no remedy like max_model_len:lower"))


_REMEDY_KEYS: dict[str, Checker] = {"remedy": remedy_id, "if": conditions, "unless": conditions, "why": text}
_NO_HELP_KEYS: dict[str, Checker] = {"remedy": remedy_id, "if": conditions, "unless": conditions, "why": text}
_DECIDER_KEYS: dict[str, Checker] = {"source": _string, "would_tell": text}


def _entries(keys: dict[str, Checker], required: tuple[str, ...], short: bool) -> Checker:
    def check(value: object, path: Path, mistakes: Mistakes) -> None:
        if not isinstance(value, list):
            mistakes.append((path, "must be a list"))
            return
        for index, item in enumerate(value):
            if short and isinstance(item, str):
                remedy_id(item, (*path, index), mistakes)
            else:
                mapping(item, keys, required, (*path, index), mistakes)

    return check


def _quotes(value: object, path: Path, mistakes: Mistakes) -> None:
    if isinstance(value, dict):
        for name, says in value.items():
            text(says, (*path, str(name)), mistakes)
        return
    _strings(value, path, mistakes)


def mapping(value: object, keys: dict[str, Checker], required: tuple[str, ...], path: Path, mistakes: Mistakes) -> None:
    """Checks one mapping: no unknown key, none missing, each value by its checker."""
    if not isinstance(value, dict):
        mistakes.append((path, "must be a mapping"))
        return
    for key, item in value.items():
        if key not in keys:
            mistakes.append(((*path, str(key)), f"unknown key {key!r}; known: {', '.join(keys)}"))
        else:
            keys[key](item, (*path, key), mistakes)
    mistakes.extend((path, f"{key!r} is missing") for key in required if key not in value)


MESSAGE_KEYS: dict[str, Checker] = {
    "id": _id,
    "says": text,
    "anchors": _anchors,
    "pattern": _pattern,
    "fields": _fields,
    "role": _of(ROLES),
    "kind": _string,
    "phase": _of([phase.value for phase in Phase]),
    "purpose": _string,
    "tier": _tier,
    "counted": _flag,
    "lasting": _flag,
    "versions": _string,
    "printed_by": _string,
}
SIGNATURE_KEYS: dict[str, Checker] = {
    "cause": _string,
    "says": text,
    "when": conditions,
    "unless": conditions,
    "certain_if": conditions,
    "at_best": _of([certainty.value for certainty in Certainty]),
    "remedies": _entries(_REMEDY_KEYS, ("remedy",), short=True),
    "will_not_help": _entries(_NO_HELP_KEYS, ("remedy",), short=True),
    "decides": _entries(_DECIDER_KEYS, ("source", "would_tell"), short=False),
    "quotes": _quotes,
}
_VARIANT_KEYS: dict[str, Checker] = {"if": conditions, "unless": conditions, "says": text, "adds": text, "late": _flag, "lacks": text}
REMEDY_KEYS: dict[str, Checker] = {
    "says": text, "effect": text, "risk": _of(["low", "medium", "high"]), "cost": _tier, "of_server": _flag, "where": _entries(_VARIANT_KEYS, ("if",), short=False),
}  # fmt: skip
PROOF_KEYS: dict[str, Checker] = {"examples": _anything, "not": _anything}


def check_messages(document: object) -> Mistakes:
    """Mistakes of a file under log_messages: one message, or a family of them under `messages:`."""
    mistakes: Mistakes = []
    if isinstance(document, dict) and "messages" in document:
        mapping(document, {"messages": _anything, "printed_by": _string, "versions": _string, **PROOF_KEYS}, ("messages",), (), mistakes)
        family = document["messages"]
        if not isinstance(family, list):
            return [*mistakes, (("messages",), "must be a list")]
        for index, message in enumerate(family):
            mapping(message, MESSAGE_KEYS, ("id", "says", "anchors"), ("messages", index), mistakes)
        return mistakes
    mapping(document, MESSAGE_KEYS | PROOF_KEYS, ("id", "says", "anchors"), (), mistakes)
    return mistakes


def check_signature(document: object) -> Mistakes:
    """Mistakes of a file under signatures."""
    mistakes: Mistakes = []
    mapping(document, SIGNATURE_KEYS | PROOF_KEYS, ("cause", "says", "when"), (), mistakes)
    return mistakes


NAME_LISTS = ("hybrid", "plain", "latent", "multimodal", "experts", "unified", "unified_sizes", "before_fp8")


def check_names(document: object) -> Mistakes:
    """Mistakes of a file under names: lists of regular expressions, and of cards with their sizes."""
    mistakes: Mistakes = []
    mapping(document, {**dict.fromkeys(NAME_LISTS, _expressions), "sizes": _sizes, **PROOF_KEYS}, (), (), mistakes)
    return mistakes


def _expressions(value: object, path: Path, mistakes: Mistakes) -> None:
    _strings(value, path, mistakes)
    for index, pattern in enumerate(value if isinstance(value, list) else ()):
        _expression(pattern, (*path, index), mistakes)


def _expression(value: object, path: Path, mistakes: Mistakes) -> None:
    try:
        re.compile(value if isinstance(value, str) else "")
    except re.error as wrong:
        mistakes.append((path, f"not a regular expression: {wrong}"))


def _sizes(value: object, path: Path, mistakes: Mistakes) -> None:
    for index, card in enumerate(value if isinstance(value, list) else [None]):
        right = isinstance(card, dict) and set(card) == {"name", "gib"} and isinstance(card["name"], str) and isinstance(card["gib"], (int, float)) and 0 < card["gib"] < 10_000
        if not right:
            mistakes.append(((*path, index), "must be {name: a regular expression, gib: a number}"))
        else:
            _expression(card["name"], (*path, index), mistakes)


def _typed(value: object, path: Path, mistakes: Mistakes) -> None:
    if not isinstance(value, str) or not _TYPED.match(value):
        mistakes.append((path, "must be an option as it is typed, like --context-length"))


def _quantity(value: object, path: Path, mistakes: Mistakes) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        mistakes.append((path, "must be a number"))


def _keyed(keys: dict[str, Checker], required: tuple[str, ...]) -> Checker:
    def check(value: object, path: Path, mistakes: Mistakes) -> None:
        for name, item in value.items() if isinstance(value, dict) else (("", None),):
            mapping(item, keys, required, (*path, str(name)), mistakes)

    return check


def _lacks(value: object, path: Path, mistakes: Mistakes) -> None:
    for name, why in value.items() if isinstance(value, dict) else (("", 0),):
        remedy_id(name, (*path, str(name)), mistakes)
        if why is not None:
            _both(why, (*path, str(name)), mistakes)


def _both(value: object, path: Path, mistakes: Mistakes) -> None:
    if not isinstance(value, dict) or set(value) != {"en", "zh"} or not all(isinstance(part, str) and part for part in value.values()):
        mistakes.append((path, "must be {en: text, zh: text}"))


_OPTION_KEYS: dict[str, Checker] = {
    "option": _typed,
    "kind": _of(KINDS),
    "low": _quantity,
    "high": _quantity,
    "default": _quantity,
    "to": _string,
    "also": _strings,
    "holds_weights": _flag,
    "printed": _strings,
}
SERVER_KEYS: dict[str, Checker] = {
    "name": _string,
    "assumed": _flag,
    "image_starts": _flag,
    "messages": _strings,
    "command": _expression,
    "image": _expression,
    "options": _keyed(_OPTION_KEYS, ("option", "kind")),
    "remedies": _keyed({"says": _both, "effect": _both}, ("says",)),
    "lacks": _lacks,
}


def check_server(document: object) -> Mistakes:
    """Mistakes of a file under servers: how a server is recognised, and how it spells its options."""
    mistakes: Mistakes = []
    mapping(document, SERVER_KEYS | PROOF_KEYS, ("name", "options"), (), mistakes)
    if mistakes or not isinstance(document, dict):
        return mistakes
    for knob, option in document["options"].items():
        bounded = option["kind"] not in ("fraction", "gib", "count") or option.get("low", 0) < option.get("high", 0)
        if not bounded:
            mistakes.append((("options", knob), "needs low and high"))
        if option["kind"] == "word" and not _WORD.fullmatch(option.get("to", "")):
            mistakes.append((("options", knob), "needs `to`, the word that is set"))
    return mistakes


def check_remedies(document: object) -> Mistakes:
    """Mistakes of remedies.yaml."""
    mistakes: Mistakes = []
    if not isinstance(document, dict):
        return [((), "must be a mapping from remedy to its texts")]
    for name, value in document.items():
        remedy_id(name, (str(name),), mistakes)
        mapping(value, REMEDY_KEYS, ("says", "effect"), (str(name),), mistakes)
    return mistakes
