"""Fills `{fact.name}` placeholders in the texts of signatures and remedies. One fixed format a kind of fact; no logic in the texts.

A bracket that only holds what was not read is left out, and so is such a part of one between commas: "ran out (an unknown amount asked)" says less than
"ran out". A code ("graph_capture", "ephemeral-storage") is written in words where its fact is one that holds codes.
"""

import re

from bot import units
from bot.diagnosis.codes import in_words
from bot.facts import VOCABULARY, Facts, Missing
from bot.model import Text, Value

_PLACEHOLDER = re.compile(r"\{([a-zA-Z_][\w.]*)\}")
_BRACKET = re.compile(r"\s?\([^()]*\{[^()]*\)|（[^（）]*\{[^（）]*）")
_GAP = re.compile(r"(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])")  # a code in words leaves the spaces that stood around its placeholder
_UNKNOWN = {"en": "an unknown amount", "zh": "未知"}
_UNNAMED = {"en": "something not shown", "zh": "未知"}  # where a name is missing, "amount" would be nonsense
_YES = {True: Text("yes", "是"), False: Text("no", "否")}


def show(name: str, value: Value, language: str = "en") -> str:
    """A fact for people: sizes in binary units, shares in percent, thousands with commas, codes in words."""
    if isinstance(value, bool):
        return _YES[value].say(language)
    if isinstance(value, tuple):
        return ", ".join(value[:5])[:200]
    if name == "container.lifetime_s" and isinstance(value, int | float):
        return _lasted(value).say(language)
    if isinstance(value, int) and name.endswith("_bytes"):
        return units.show(value)
    if isinstance(value, float) and name.endswith("_share"):
        return f"{value:.0%}"
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".") or "0"
    if isinstance(value, int):
        return f"{value:,}"
    return in_words(name, value[:200], language)


def _lasted(seconds: float) -> Text:
    """A time that a person can picture: "39 s", "18 min", "3.1 h", "30 days"."""
    for least, unit, en, zh in ((172800, 86400, "days", "天"), (7200, 3600, "h", "小时"), (600, 60, "min", "分钟")):
        if seconds >= least:
            return Text(f"{seconds / unit:.2g} {en}", f"{seconds / unit:.2g} {zh}")
    return Text(f"{seconds:,.0f} s", f"{seconds:,.0f} 秒")


def _filled(template: str, facts: Facts, language: str) -> str:
    def one(found: re.Match[str]) -> str:
        value = facts.get(found[1])
        if isinstance(value, Missing):
            return (_UNNAMED if VOCABULARY.get(found[1], ("", ""))[0] == "text" else _UNKNOWN)[language]
        return show(found[1], value, language)

    filled = _PLACEHOLDER.sub(one, _kept(template, facts))
    return _GAP.sub("", filled) if language == "zh" else filled


def _kept(template: str, facts: Facts) -> str:
    """The template without the brackets, and the parts of them between commas, that hold nothing known."""

    def lost(part: str) -> bool:
        names = _PLACEHOLDER.findall(part)
        return bool(names) and all(isinstance(facts.get(name), Missing) for name in names)

    def known(found: re.Match[str]) -> str:
        if lost(found[0]):
            return ""
        opening = found[0].find("(") + 1 or found[0].find("（") + 1
        comma = "，" if "，" in found[0] else ", "
        parts = [part for part in found[0][opening:-1].split(comma) if not lost(part)]
        return found[0][:opening] + comma.join(parts) + found[0][-1]

    return _BRACKET.sub(known, template)


def complete(text: Text, facts: Facts) -> bool:
    """Whether the text can be said with nothing missing: a reason that rests on a number which nobody read is none."""
    return not any(isinstance(facts.get(name), Missing) for name in _PLACEHOLDER.findall(_kept(text.en, facts)))


def fill(text: Text, facts: Facts) -> Text:
    """The text with its placeholders replaced by this incident's facts."""
    return Text(_filled(text.en, facts, "en"), _filled(text.zh, facts, "zh"))


def placeholders(text: Text) -> set[str]:
    """Names of the facts that a text uses."""
    return set(_PLACEHOLDER.findall(text.en)) | set(_PLACEHOLDER.findall(text.zh))
