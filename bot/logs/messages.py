"""What a log message is: constant parts (anchors), a pattern with typed fields, and what the line means for the course of a server.

The messages themselves are data under `playbooks/log_messages/`; this module knows none of them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from bot import units
from bot.model import Phase, Text, Value

MAX_DIGITS = 30
ROLES = {
    "start": "a new attempt of the server begins here",
    "progress": "the server enters the message's phase",
    "fatal": "an error that may be the root; `kind` says which",
    "wrapper": "an error that only tells of another one; never the root",
    "hint": "stands near a failure of the message's phase, e.g. an answer 500",
    "frame": "a line of a traceback; gives phase and purpose",
    "shutdown": "somebody asked the server to stop",
    "ended": "the server has stopped in order",
    "echo": "what stands behind it in the line is a client's text, in which no message is looked for",
    "note": "a fact, no event",
}


@dataclass(frozen=True, slots=True)
class LogMessage:
    """One message, or one line of a family. `tier` orders what can be the root of one failure (1 is most specific); `counted`: a healthy server
    may print it all the time, so only the first and last of a block are looked at and the others counted. `lasting`: the server does not outlive
    it, whatever its front goes on answering; only a new start does away with it."""

    id: str
    says: Text
    anchors: tuple[bytes, ...]
    pattern: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    role: str = "note"
    kind: str = ""
    phase: Phase | None = None
    purpose: str = ""
    tier: int = 3
    counted: bool = False
    lasting: bool = False
    versions: str = ""
    printed_by: str = ""  # the program, library or source file that prints it
    file: str = ""


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _digits(text: str) -> str:
    plain = text.replace(",", "").replace("_", "").strip()
    if sum(letter.isdigit() for letter in plain) > MAX_DIGITS:
        raise ValueError("a number of too many digits")
    return plain


def _size(text: str) -> int:
    number, _, unit = text.strip().partition(" ")
    return units.size_of(_digits(number), unit.strip() or "bytes")


def _version(text: str) -> str:
    return text.strip().lstrip("v")[:60]


CONVERSIONS: dict[str, Callable[[str], Value]] = {
    "text": lambda text: text[:200],
    "int": lambda text: int(_digits(text)),
    "tokens": lambda text: int(_digits(text)),
    "float": lambda text: float(_digits(text)),
    "seconds": lambda text: float(_digits(text)),
    "percent": lambda text: float(_digits(text)),
    "gib": lambda text: units.gib(_digits(text)),
    "mib": lambda text: round(float(_digits(text)) * units.MIB),
    "gb": lambda text: round(float(_digits(text)) * 10**9),
    "bytes": lambda text: int(_digits(text)),
    "size": _size,
    "version": _version,
    "flag": bool,
}


SIZES = frozenset({"gib", "mib", "gb", "bytes", "size"})


def fact_name(message: LogMessage, name: str) -> str:
    """Name of the fact of one field: sizes say so by their ending."""
    return f"{message.id}.{name}_bytes" if message.fields[name] in SIZES else f"{message.id}.{name}"


def read_fields(message: LogMessage, text: str) -> dict[str, Value] | None:
    """The typed fields of the message in `text`, or None when its pattern does not match. A field that is no number after all is left out."""
    if not message.pattern:
        return {}
    found = compiled(message.pattern).search(text)
    if found is None:
        return None
    fields: dict[str, Value] = {}
    for name, part in found.groupdict().items():
        if part is None or name not in message.fields:
            continue
        try:
            fields[name] = CONVERSIONS[message.fields[name]](part)
        except (ValueError, OverflowError):
            continue
    return fields
