"""A message with parameters that mean something to Slack: ids become mentions, times each reader's own, states and verbs their names.

Parameters come from the use-cases as plain text (`bot/policy.py`, `bot/cases`); whatever does not look like an id or a time stays text, escaped.
"""

import re
from datetime import datetime

from bot.model import Words
from handlers import messages
from handlers.messages import Trusted
from handlers.slack import kit


def say(words: Words, language: str, command: str = "/oom") -> str:
    """The message, escaped. `command` is what the slash command is called here."""
    catalogue = messages.of_the_bot(kit.escape)
    parameters = {name: _meant(name, value, language) for name, value in words.parameters.items()}
    if words.key == "already_decided":  # what they pressed, by the name of its button
        parameters["what"] = _named(words.parameters.get("what", ""), language)
    return catalogue.say(words.key, language, **{"command": command, **parameters})


def _meant(name: str, value: str, language: str) -> str:
    catalogue = messages.of_the_bot(kit.escape)
    if name == "who":
        return Trusted(", ".join(kit.mention(each.strip().removeprefix("slack:")) for each in value.split(",") if each.strip()))
    if name == "at":
        return _time(value)
    if name == "opens":
        return _day(value)
    if name == "channel" and re.fullmatch(r"[CGD][A-Z0-9]{2,20}", value):
        return Trusted(f"<#{value}>")
    if name == "lapsed":
        return catalogue.label(f"lapsed_{value}", language)
    if name in ("risk", "highest"):
        return catalogue.label(f"risk_{value}", language)
    if name in ("state", "wanted", "verb"):
        return _named(value, language)
    if name == "path":
        return path_of(value, language)
    if name == "remedy":
        return catalogue.remedy(value, language)
    if name == "candidates":
        return ", ".join(value.splitlines())
    return value


def path_of(path: str, language: str) -> str:
    """Where in an object something is, or what else is not what it was ("uid", "cluster")."""
    catalogue = messages.of_the_bot(kit.escape)
    if catalogue.has_label(f"path_{path}", language):
        return catalogue.label(f"path_{path}", language)
    return Trusted(f"`{kit.escape(path)}`")


def _time(value: str) -> str:
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return value
    return kit.moment(at) if at.tzinfo else value


def _day(value: str) -> str:
    """A time that may lie days ahead."""
    try:
        return kit.day_and_time(datetime.fromisoformat(value))
    except ValueError:
        return value


def _named(value: str, language: str) -> str:
    """A state's or a button's name."""
    catalogue = messages.of_the_bot(kit.escape)
    for kind in ("state", "button"):
        if catalogue.has_label(f"{kind}_{value}", language):
            return catalogue.label(f"{kind}_{value}", language)
    return value
