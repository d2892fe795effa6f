"""From hits to events: the message of a line with its typed fields, and who printed it. Pure; what events mean together is `incidents`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bot.logs.messages import LogMessage, read_fields
from bot.logs.prefixes import ANSI, Prefix, strip
from bot.logs.scan import Hit
from bot.model import Place, Value

QUOTE = 320  # letters of a line that are quoted


@dataclass(frozen=True, slots=True)
class Event:
    """A message was printed: where, by whom, and the typed fields of it (units as in the message's file: sizes are bytes). `column`: about where in its line
    the words stand; a progress bar that never ended its line has the next message behind it."""

    message: LogMessage
    source: str
    line: int
    prefix: Prefix
    quote: str
    text: str
    fields: Mapping[str, Value] = field(default_factory=dict)
    column: int = 0

    @property
    def id(self) -> str:
        return self.message.id

    @property
    def place(self) -> Place:
        return Place(self.source, self.line, self.quote)


def _segment(hit: Hit) -> tuple[bytes, int]:
    """The part between carriage returns that holds the anchor (a progress bar writes many into one line), and where the anchor ends in it."""
    begin = hit.raw.rfind(b"\r", 0, hit.start) + 1
    stop = hit.raw.find(b"\r", hit.start)
    return hit.raw[begin : stop if stop >= 0 else len(hit.raw)], hit.start - begin


def _quote(raw: str, text: str, anchor: int) -> str:
    """Part of the raw line around the anchor, without colour codes and control characters, at most QUOTE letters, "..." where shortened."""
    pieces, begin, end = ANSI.split(raw), 0, len(raw)
    if len(pieces) > 1:
        position = 0
        for piece in pieces:
            begin = raw.find(piece, position)
            position = end = begin + len(piece)
            if anchor <= end:
                break
    offset = raw.find(text, begin, end) if text else -1
    begin = offset if offset >= 0 and offset < anchor else begin
    shown = raw[begin:end]
    if len(shown) > QUOTE:
        near = anchor - begin <= QUOTE * 3 // 4
        middle = 0 if near else max(0, min(anchor - begin - QUOTE // 2, len(shown) - QUOTE))
        shown = ("..." if middle else "") + shown[middle : middle + QUOTE].strip() + ("..." if middle + QUOTE < len(shown) else "")
    shown = shown.strip()
    return shown if shown.isprintable() else "...".join(part for part in _printable(shown) if part)


def _printable(text: str) -> list[str]:
    return "".join(letter if letter.isprintable() else "\0" for letter in text).split("\0")


def event(hit: Hit, source: str) -> Event | None:
    """The event of one hit; None when the pattern of its message does not match there."""
    segment, end = _segment(hit)
    raw = segment.decode(errors="replace")
    prefix, text = strip(raw)
    if hit.head or (not prefix.process and b"\r" in hit.raw):
        outer, _ = strip((hit.head or hit.raw[:512]).split(b"\r")[0].decode(errors="replace"))
        prefix = outer if not prefix.process else prefix
    fields = read_fields(hit.message, text)
    if fields is None:
        return None
    column = hit.start + (len(hit.raw) if hit.head else 0)
    if hit.shown:
        shown = hit.shown.decode(errors="replace")
        return Event(hit.message, source, hit.line, prefix, _quote(shown, "", 0), text, fields, column)
    anchor = len(segment[:end].decode(errors="replace"))
    return Event(hit.message, source, hit.line, prefix, _quote(raw, text, anchor), text, fields, column)


def events(hits: Iterable[Hit], source: str) -> list[Event]:
    """Events in order of lines, one a message and line."""
    found: dict[tuple[str, int], Event] = {}
    for hit in hits:
        made = event(hit, source)
        if made is not None:
            found[made.id, made.line] = made
    return list(found.values())
