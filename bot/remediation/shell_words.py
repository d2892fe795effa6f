"""Reads a shell string that is one simple command into words with their places, so that one of them can be changed and nothing else.

Whatever a shell would do more with (operators, substitutions, patterns, assignments, several lines) makes it no simple command: then it is left
to people. A variable stands only where it is the value of an option, since elsewhere it may become several words.
"""

import re
import shlex
from dataclasses import dataclass

_VARIABLE = r"\$\{\w+\}|\$\(\w+\)|\$[A-Za-z_]\w*"
_PLAIN = r"[A-Za-z0-9_@%+=:,./-]"
_QUOTED = r"'[^'\n]*'" + rf'|"(?:[^"$`\\\n!]|{_VARIABLE})*"'
_WORD = re.compile(rf"(?:{_PLAIN}|{_QUOTED}|{_VARIABLE})+")
_BLANK = re.compile(r"(?:[ \t]|\\\n)+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


@dataclass(frozen=True, slots=True)
class ShellWord:
    """`text` without its quotes; it stands from `start` to `end` in the string."""

    text: str
    start: int
    end: int


def simple_command(text: str) -> tuple[ShellWord, ...] | None:
    """The words of a simple command, without a leading `exec`; None when it is more than that."""
    found = _split(text.rstrip())
    if not found or [word.text for word in found] != shlex.split(text.replace("\\\n", " ")):
        return None
    words = found[1:] if found[0].text == "exec" else found
    if not words or _ASSIGNMENT.match(words[0].text) or any(_may_be_several(words, at, text) for at in range(len(words))):
        return None
    return words


def _split(text: str) -> tuple[ShellWord, ...] | None:
    words: list[ShellWord] = []
    at = 0
    while at < len(text):
        if blank := _BLANK.match(text, at):
            at = blank.end()
            continue
        word = _WORD.match(text, at)
        if word is None or (word.end() < len(text) and not _BLANK.match(text, word.end())):
            return None
        words.append(ShellWord(re.sub(_QUOTED, lambda quoted: quoted[0][1:-1], word[0]), word.start(), word.end()))
        at = word.end()
    return tuple(words)


def _may_be_several(words: tuple[ShellWord, ...], at: int, text: str) -> bool:
    """A variable outside quotes that does not follow an option or its equals sign."""
    written = text[words[at].start : words[at].end]
    bare = re.sub(_QUOTED, "", written)
    if "$" not in bare:
        return False
    if written.startswith("--") and "=" in written.partition("$")[0]:
        return False
    return at == 0 or not words[at - 1].text.startswith("--") or "=" in words[at - 1].text
