"""Pasted output of several commands in one file, split where a prompt line names the next command. Text in, sections out; nothing is run."""

import re
from dataclasses import dataclass

from bot.evidence.document import shorten
from bot.model import Place

MAX_BYTES = 4 * 2**20
MAX_LINES = 20_000
MAX_LINE = 2000  # characters

_PROMPT = re.compile(r"^\s*(?:\S{0,64}@\S{0,64}\s?)?(?:\[[^\]]{0,80}\])?\s?[$#>%]\s+(\S.*)$|^==> (\S.*) <==$")


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    text: str

    def place(self, source: str) -> Place:
        return Place(source, self.number, shorten(self.text))


@dataclass(frozen=True, slots=True)
class Section:
    """`command` is "" for what stands before the first prompt; of `==> FILE <==` it is `cat FILE`. `prompt` is the line that names it."""

    command: str
    lines: tuple[Line, ...]
    prompt: Line | None = None


def sections(data: bytes) -> list[Section]:
    """The sections of a file, at most 4 MiB of it."""
    found: list[Section] = []
    command = ""
    at: Line | None = None
    lines: list[Line] = []
    for number, raw in enumerate(data[:MAX_BYTES].split(b"\n")[:MAX_LINES], 1):
        text = raw[:MAX_LINE].decode("utf-8", errors="replace").rstrip("\r")
        prompt = _PROMPT.match(text)
        if prompt and not text.lstrip().startswith("# of "):
            if lines or command:
                found.append(Section(command, tuple(lines), at))
            command, lines, at = prompt[1] or f"cat {prompt[2]}", [], Line(number, text)
        elif text.strip():
            lines.append(Line(number, text))
    found.append(Section(command, tuple(lines), at))
    return found
