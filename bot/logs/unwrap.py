"""Lines that a narrow terminal or a mail broke, joined again: a refusal of 200 letters that stands in three lines is in none of them.

Only for short texts. Where some line is long, no mail broke the others: then only lines that end at one and the same edge, a terminal's, are joined.
The first reading stays where the joined one finds nothing more specific. Each joined line is quoted by the first line that it was made of. Pure.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from itertools import pairwise

from bot.logs.events import QUOTE, Event, events
from bot.logs.incidents import Incident, understand
from bot.logs.prefixes import ANSI
from bot.logs.scan import Scan

MOST = 256 * 1024  # bytes: what people paste is short, what servers write themselves is not wrapped
WIDEST = 240  # letters: wider than the terminals that people copy from
NARROWEST = 40  # letters: no terminal is narrower
SHORTEST = 0.4  # of the widest line: a line that was broken is not much shorter, since words are short
_COLOURS = re.compile(ANSI.pattern.encode())
_MARK = re.compile(rb"^(?:> ?){1,3}")  # a mail or a forum quotes
# A line that begins like this is a line of its own.
_OWN = re.compile(
    rb'^(?:\s{2,}|\s*File "|Traceback|During handling|The above exception|```|'
    rb"\(\w[\w.+:-]{0,60}(?: rank=\d+)?,? ?(?:pid|ip)=|\[(?:rank|pod/|\d{4}-|\d\d?:\d\d)|\d{4}-\d\d-\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:|"
    rb"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b|(?:[a-z_][\w]*\.)*[A-Z]\w*(?:Error|Exception|Warning|Interrupt)\b|[\w.-]{1,60} +\| |\{\"|\| |\+[-=])"
)

_HANGING = re.compile(rb"^ {2,8}(?=[^ ~^])")  # one blank may be the one between two words, where a terminal broke
# A line under which broken ones may hang by an indent: what a logger or an exception printed, and no frame of a stack.
_HOLDS = re.compile(
    rb"^(?!.*(?:File \"|Traceback ))(?:\(\w[\w.+:-]{0,60}(?: rank=\d+)?,? ?(?:pid|ip)=|(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b|"
    rb"(?:[a-z_][\w]*\.)*[A-Z]\w*(?:Error|Exception)\b:|\d{4}-\d\d-\d\d)"
)


def joined(data: bytes) -> tuple[bytes, tuple[int, ...]] | None:
    """The text with its broken lines joined, and for each of its lines the number of the first line that it was made of (from 1). None where
    nothing looks broken."""
    lines = [_MARK.sub(b"", line.rstrip(b"\r")) for line in data.split(b"\n")]
    margin = min((len(line) - len(line.lstrip(b" ")) for line in lines if line.strip()), default=0)  # an indented block
    lines = [line[margin:] for line in lines]
    widest, least = max(map(len, lines), default=0), SHORTEST
    if widest > WIDEST:
        widest, least = _edge(lines), 1
    if len(data) > MOST or widest < NARROWEST or b"\x1b" in data:
        return None
    hung = () if least == 1 else _hanging(lines)
    for number in hung:
        lines[number] = lines[number].lstrip(b" ")
    goes_on = [number for number, line in enumerate(lines) if number and _goes_on(lines[number - 1], line, least * widest)]
    if least == 1:
        goes_on = [number for number in goes_on if len(lines[number - 1]) == widest]
    if not goes_on:
        return None
    hard = not hung and all(len(lines[number - 1]) == widest for number in goes_on)  # a terminal breaks at its edge, a mail between words
    parts: list[list[bytes]] = []
    firsts: list[int] = []
    broken = set(goes_on)
    for number, line in enumerate(lines):
        if number in broken:
            parts[-1].append((b"" if hard or lines[number - 1].endswith(b" ") else b" ") + line)
        else:
            parts.append([line])
            firsts.append(number + 1)
    return b"\n".join(b"".join(part) for part in parts), tuple(firsts)


def _edge(lines: list[bytes]) -> int:
    """The length at which a terminal broke lines: the one that most lines have of those that go on below, twice at least; 0 where there is none."""
    lengths = Counter(len(before) for before, line in pairwise(lines) if len(before) <= WIDEST and _goes_on(before, line, NARROWEST))
    edge, count = max(lengths.items(), key=lambda pair: (pair[1], pair[0]), default=(0, 0))
    return edge if count >= 2 else 0


def _hanging(lines: list[bytes]) -> tuple[int, ...]:
    """Numbers of the lines that stand, a little to the right, under the line that they belong to."""
    found: list[int] = []
    holds = False
    for number, line in enumerate(lines):
        if holds and _HANGING.match(line) and not _OWN.match(line.lstrip(b" ")):
            found.append(number)
        else:
            holds = bool(_HOLDS.match(line))
    return tuple(found)


def _goes_on(before: bytes, line: bytes, least: float) -> bool:
    return bool(before.strip() and line.strip()) and len(before) >= least and not _OWN.match(line) and not before.startswith(b"```")


def reread(data: bytes, found: Incident, scan: Callable[[BytesIO], Scan]) -> Incident:
    """`found`, or the incident of the joined text where that says more; of a coloured text, of the text without its colours."""
    if b"\x1b" in data:
        return _uncoloured(data, found, scan)
    again = joined(data)
    if again is None:
        return found
    text, firsts = again
    result, lines = scan(BytesIO(text)), data.split(b"\n")
    whole = understand(
        [_at(event, firsts, lines) for event in events(result.hits, found.source)], found.source, replace(result, tail=found.scan.tail, lines=found.scan.lines)
    )
    return whole if _says_more(whole, found) else found


def _uncoloured(data: bytes, found: Incident, scan: Callable[[BytesIO], Scan]) -> Incident:
    """Some loggers colour words of a message, so that its constant part is not there in one piece. Lines stay what they are; each is quoted between its codes."""
    plain = _COLOURS.sub(b"", data)
    if plain == data or len(data) > MOST:
        return found
    result, lines = scan(BytesIO(plain)), data.split(b"\n")
    made = [replace(event, quote=_between(lines[event.line - 1], event)) for event in events(result.hits, found.source)]
    whole = understand(made, found.source, replace(result, tail=found.scan.tail, lines=found.scan.lines))
    return whole if _says_more(whole, found) else found


def _between(line: bytes, event: Event) -> str:
    """The longest part of a coloured line that stands in the message too."""
    parts = [part.decode(errors="replace").strip() for part in _COLOURS.split(line)]
    shown = max((part for part in parts if part in event.text and part.isprintable()), key=len, default="")
    return shown[:QUOTE] or event.quote


def _at(event: Event, firsts: tuple[int, ...], lines: list[bytes]) -> Event:
    line = firsts[event.line - 1]
    shown = lines[line - 1].decode(errors="replace").strip()
    return replace(event, line=line, quote=shown[:QUOTE] if shown.isprintable() else event.quote)


def _says_more(whole: Incident, found: Incident) -> bool:
    if whole.root is None:
        return found.root is None and _tells(whole) > _tells(found) and {event.id for event in whole.events} >= {event.id for event in found.events}
    if found.root is None or whole.root.message.tier < found.root.message.tier:
        return True
    return whole.root.id == found.root.id and len(whole.root.fields) > len(found.root.fields)


def _tells(incident: Incident) -> int:
    """How much was read: fields of all messages."""
    return sum(len(event.fields) for event in incident.events)
