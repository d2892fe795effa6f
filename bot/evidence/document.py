"""JSON that was written by others: read as far as it goes, with the line of each value, and never an exception.

Kubernetes objects reach a bundle cut in the middle, with odd bytes, or with another type than the API promises. A `Node`
answers None (or nothing) for whatever is not there or is of the wrong type, so that readers need no defence of their own.
It will not validate: what is not JSON ends the reading and sets `complete` to False.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

from bot.model import Place
from bot.units import quantity

MAX_BYTES = 8 * 2**20
MAX_TEXT = 4096  # characters of one string
QUOTE = 240  # characters of one quoted line
MAX_DEPTH = 64
MAX_PARTS = 400_000  # values; 8 MiB of real events hold fewer

_TOKEN = re.compile(r'"((?:[^"\\\n]|\\.)*)"|([{}\[\],:])|(-?\d[\d.eE+-]*|true|false|null)|(\n)|[ \t\r]+|(.)', re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_CONTROL = re.compile(r"(?:\x1b\[[0-9;?]{0,16}[A-Za-z]|[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff])+")
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,]\d+)?(Z|[+-]\d\d:?\d\d)?$")

Scalar = str | int | float | bool | None


class Node:
    """One JSON value, or the lack of one. `line` counts from 1."""

    __slots__ = ("children", "line", "value")

    def __init__(self, value: Scalar = None, line: int | None = None, children: "dict[str, Node] | list[Node] | None" = None) -> None:
        self.value, self.line, self.children = value, line, children

    def __bool__(self) -> bool:
        return self.children is not None or self.value is not None

    def at(self, *path: str) -> "Node":
        """The value below these keys; an empty Node where there is none."""
        node = self
        for key in path:
            found = node.children.get(key) if isinstance(node.children, dict) else None
            if found is None:
                return NOTHING
            node = found
        return node

    def each(self, *path: str) -> Iterator["Node"]:
        """The elements of the list below these keys; none where it is not a list."""
        children = self.at(*path).children
        return iter(children if isinstance(children, list) else ())

    def items(self, *path: str) -> Iterator[tuple[str, "Node"]]:
        """The keys and values of the object below these keys."""
        children = self.at(*path).children
        return iter(children.items() if isinstance(children, dict) else ())

    def text(self, *path: str) -> str:
        """A string, or ""."""
        value = self.at(*path).value
        return value if isinstance(value, str) else ""

    def integer(self, *path: str) -> int | None:
        """A whole number of at most 18 digits (a string of digits counts)."""
        value = self.at(*path).value
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
            return int(value)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def flag(self, *path: str) -> bool | None:
        value = self.at(*path).value
        return value if isinstance(value, bool) else None

    def amount(self, *path: str) -> Decimal | None:
        """A Kubernetes quantity ("24Gi", "500m", 2)."""
        value = self.at(*path).value
        if isinstance(value, bool) or not isinstance(value, str | int):
            return None
        try:
            return quantity(str(value))
        except ValueError:
            return None

    def size(self, *path: str) -> int | None:
        """A Kubernetes quantity in whole bytes (or pieces)."""
        found = self.amount(*path)
        return int(found) if found is not None and abs(found) < 2**63 else None

    def seconds(self, *path: str) -> int | None:
        """A time stamp (RFC 3339) as seconds since 1970; the zero time of Go counts as none."""
        return epoch(self.text(*path))


NOTHING = Node()


class Document:
    """`root` holds what could be read; `complete` tells whether it was valid to its end; `lines` are the text for quotes."""

    def __init__(self, data: bytes, source: str) -> None:
        self.source = source
        self.text = data[:MAX_BYTES].decode("utf-8", errors="replace")
        if self.text.startswith("\ufeff"):
            self.text = " " + self.text[1:]
        self._lines: list[str] | None = None
        self.root, ended = _parse(self.text)
        self.complete = ended and len(data) <= MAX_BYTES

    def place(self, node: Node) -> Place:
        """Where a value stands, with its line as the quote."""
        return self.place_of(node.line)

    def place_of(self, line: int | None) -> Place:
        if line is None:
            return Place(self.source)
        if self._lines is None:
            self._lines = self.text.split("\n")
        return Place(self.source, line, shorten(self._lines[line - 1]))


def shorten(line: str, limit: int = QUOTE) -> str:
    """A line as a quote: no outer blanks, "..." where something is left out (what does not fit, colours, control characters)."""
    line = line.strip()
    if not line.isprintable():
        line = "...".join(part.strip(".") for part in _CONTROL.split(line) if part.strip(" .")).strip()  # dots beside the mark of a cut would be taken for it
    return line if len(line) <= limit else line[:limit].rstrip() + "..."


def epoch(text: str) -> int | None:
    """Seconds since 1970 of an RFC 3339 time; UTC where no zone stands. None for anything else and for Go's zero time."""
    found = _TIME.match(text.strip()) if len(text) < 48 else None
    if not found or found[1] < "1971":
        return None
    try:
        moment = datetime(*(int(found[i]) for i in range(1, 7)), tzinfo=UTC)  # type: ignore[misc,arg-type]
    except ValueError:
        return None
    zone = found[7] or "Z"
    shift = 0 if zone == "Z" else (int(zone[1:3]) * 60 + int(zone[-2:])) * (-60 if zone[0] == "+" else 60)
    return int(moment.timestamp()) + shift


def _scalar(word: str) -> Scalar:
    if word in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[word]
    if re.fullmatch(r"-?\d{1,18}", word):
        return int(word)
    if len(word) <= 40:
        try:
            return float(word)
        except ValueError:
            return None
    return None


def _string(body: str) -> str:
    if "\\" not in body:
        return body[:MAX_TEXT]
    text = _ESCAPE.sub(_unescape, body[: 2 * MAX_TEXT])[:MAX_TEXT]
    if any("\ud800" <= letter <= "\udfff" for letter in text):  # two halves make one letter; a lone half is none
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _unescape(found: re.Match[str]) -> str:
    word = found[1]
    return chr(int(word[1:], 16)) if len(word) == 5 else _ESCAPES.get(word, word)


class _Builder:
    """Puts values where they belong, without recursion."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self.stack: list[Node] = []
        self.key: str | None = None
        self.too_deep = 0
        self.parts = 0

    def add(self, node: Node) -> bool:
        """False when a value stands where none may stand, or when there are more than any object has."""
        self.parts += 1
        if self.parts > MAX_PARTS:
            return False
        if not self.stack:
            if self.root is not None:
                return False
            self.root = node
            return True
        parent = self.stack[-1].children
        if isinstance(parent, list):
            parent.append(node)
            return True
        if not isinstance(parent, dict) or self.key is None:
            return False
        parent[self.key] = node
        self.key = None
        return True


def _parse(text: str) -> tuple[Node, bool]:
    """The value and whether it was complete."""
    builder, line, closed = _Builder(), 1, False
    for token in _TOKEN.finditer(text):
        string, mark, word, newline, odd = token.groups()
        if newline:
            line += 1
        elif odd:
            break
        elif mark:
            if not _mark(builder, mark, line):
                break
        elif string is not None:
            if not _text(builder, _string(string), line):
                break
        elif word and not builder.too_deep and not builder.add(Node(_scalar(word), line)):
            break
        closed = not builder.stack and builder.root is not None and not builder.too_deep
        if closed:
            break
    rest = text[token.end() :] if closed else "x"
    return builder.root or NOTHING, closed and not rest.strip()


def _mark(builder: _Builder, mark: str, line: int) -> bool:
    """Handles a brace, bracket, comma or colon; False ends the reading."""
    if mark in "{[":
        if builder.too_deep or len(builder.stack) >= MAX_DEPTH:
            builder.too_deep += 1
            return True
        node = Node(None, line, {} if mark == "{" else [])
        if not builder.add(node):
            return False
        builder.stack.append(node)
    elif mark in "}]":
        if builder.too_deep:
            builder.too_deep -= 1
            builder.key = None if not builder.too_deep else builder.key
            return True
        if not builder.stack:
            return False
        builder.stack.pop()
        builder.key = None
    return True


def _text(builder: _Builder, string: str, line: int) -> bool:
    if builder.too_deep:
        return True
    if builder.stack and isinstance(builder.stack[-1].children, dict) and builder.key is None:
        builder.key = string
        return True
    return builder.add(Node(string, line))
