"""One pass over a log: all anchors of all messages at once, with memory that does not grow with the log.

Works on bytes in blocks; only lines that hold an anchor are decoded, and of a line only what stands near the anchor. Line numbers count line
feeds only. Knows nothing of servers; what the lines mean is `events` and `incidents`.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import hyperscan

from bot.logs.messages import LogMessage

BLOCK = 4 * 2**20
REACH = 4096  # bytes before and behind an anchor that a pattern sees
OVERLAP = 512  # longer than any anchor; what two parts of one endless line share
KEEP = 400  # hits of one message that are kept: so many first ones and so many last ones
TAIL = 6  # last lines that are kept for showing where a log stops


@dataclass(frozen=True, slots=True)
class Hit:
    """An anchor was found. `raw`: the bytes around it, at most two REACHes, never beyond its line; `start`: where the anchor ends in `raw`;
    `head`: the first bytes of the line, when `raw` does not begin with them."""

    message: LogMessage
    line: int
    raw: bytes
    start: int
    head: bytes = b""
    count: int = 1


@dataclass(slots=True)
class Scan:
    """What one pass found. `hits` are in order of lines; `dropped` counts hits that were too many to keep."""

    hits: list[Hit] = field(default_factory=list)
    lines: int = 0
    size: int = 0
    dropped: int = 0
    tail: tuple[tuple[int, bytes], ...] = ()


class Scanner:
    """All anchors of `messages` as one database. Build it once; scanning leaves it unchanged."""

    def __init__(self, messages: Iterable[LogMessage]) -> None:
        self.messages = tuple(messages)
        pairs = [(anchor, index, message.counted) for index, message in enumerate(self.messages) for anchor in message.anchors]
        self._owner = [index for _, index, _ in pairs]
        self._anchors = [anchor for anchor, _, _ in pairs]
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=self._anchors,
            ids=list(range(len(pairs))),
            flags=[hyperscan.HS_FLAG_SINGLEMATCH if counted else 0 for _, _, counted in pairs],
            literal=True,
        )

    def scan(self, stream: BinaryIO, block: int = BLOCK) -> Scan:
        """Reads `stream` to its end. May run in several threads at once: each scan has a scratch space of its own (22 microseconds)."""
        keeper, scratch = _Keeper(self.messages), hyperscan.Scratch(self._database)
        for part in _parts(stream, block):
            self._scan_part(part, keeper, scratch)
        return keeper.result()

    def _scan_part(self, part: "_Part", keeper: "_Keeper", scratch: hyperscan.Scratch) -> None:
        found: list[tuple[int, int]] = []

        def take(index: int, _start: int, end: int, _flags: int, _context: object) -> None:
            found.append((end, index))

        if part.data:
            self._database.scan(part.data, match_event_handler=take, scratch=scratch)
        singles = [(end, index) for end, index in found if self.messages[self._owner[index]].counted]
        counts = {index: part.data.count(self._anchors[index]) for _, index in singles}
        for _, index in singles:
            last = part.data.rfind(self._anchors[index]) + len(self._anchors[index])
            if counts[index] > 1:
                found.append((last, index))
        found.sort()
        line, position = part.line, 0
        for end, index in found:
            if end <= part.seen:
                continue
            line += part.data.count(b"\n", position, end)
            position = end
            message = self.messages[self._owner[index]]
            keeper.take(_hit(part, message, line, end, len(self._anchors[index]), counts.get(index, 1)))
        keeper.end_of_part(part)


@dataclass(frozen=True, slots=True)
class _Part:
    """A block that ends with a line, or a piece of an endless line. `seen`: so many first bytes were scanned before; `line`: number of its first line."""

    data: bytes
    line: int
    seen: int = 0
    head: bytes = b""
    size: int = 0


def _parts(stream: BinaryIO, block: int) -> Iterator[_Part]:
    rest, line, seen, head = b"", 1, 0, b""
    while True:
        fresh = stream.read(block)
        data = rest + fresh
        if not fresh:
            if data:
                yield _Part(data, line, seen, head, len(data) - seen)
            return
        cut = data.rfind(b"\n") + 1
        if cut:
            yield _Part(data[:cut], line, seen, head, cut - seen)
            line += data.count(b"\n", 0, cut)
            rest, seen, head = data[cut:], 0, b""
        elif len(data) > max(block, 2 * OVERLAP):
            yield _Part(data, line, seen, head, len(data) - seen)
            head = head or data[:OVERLAP]
            rest, seen = data[-OVERLAP:], OVERLAP
        else:
            rest = data


def _hit(part: _Part, message: LogMessage, line: int, end: int, length: int, count: int) -> Hit:
    anchor = end - length
    begin = part.data.rfind(b"\n", max(0, anchor - REACH), anchor) + 1
    whole = begin > 0 or anchor <= REACH
    begin = begin or max(0, anchor - REACH)
    stop = part.data.find(b"\n", end, end + REACH)
    stop = stop if stop >= 0 else min(len(part.data), end + REACH)
    head = b"" if whole and not (begin == 0 and part.head) else part.head or _line_head(part.data, begin)
    return Hit(message, line, part.data[begin:stop], end - begin, head, count)


def _line_head(data: bytes, position: int) -> bytes:
    first = data.rfind(b"\n", 0, position) + 1
    return data[first : first + OVERLAP]


class _Keeper:
    """Keeps the first and the last hits of each message, and the last lines."""

    def __init__(self, messages: tuple[LogMessage, ...]) -> None:
        self._first: dict[str, list[Hit]] = {message.id: [] for message in messages}
        self._last: dict[str, deque[Hit]] = {}
        self._scan = Scan()
        self._tail: deque[tuple[int, bytes]] = deque(maxlen=TAIL)

    def take(self, hit: Hit) -> None:
        first = self._first[hit.message.id]
        if first and first[-1].line == hit.line and first[-1].message is hit.message and first[-1].start == hit.start:
            return
        if len(first) < KEEP:
            first.append(hit)
            return
        last = self._last.setdefault(hit.message.id, deque(maxlen=KEEP))
        self._scan.dropped += len(last) == KEEP
        last.append(hit)

    def end_of_part(self, part: _Part) -> None:
        self._scan.size += part.size
        feeds = part.data.count(b"\n")
        self._scan.lines = part.line - 1 + feeds + (not part.data.endswith(b"\n"))
        end = len(part.data)
        found: list[tuple[int, bytes]] = []
        number = part.line + feeds
        while end > 0 and len(found) < TAIL:
            begin = part.data.rfind(b"\n", 0, end) + 1
            text = part.data[begin : min(end, begin + REACH)]
            if text.strip():
                found.append((number, text))
            number, end = number - 1, begin - 1
        self._tail.extend(reversed(found))

    def result(self) -> Scan:
        hits = [hit for kept in self._first.values() for hit in kept] + [hit for kept in self._last.values() for hit in kept]
        hits.sort(key=lambda hit: hit.line)
        self._scan.hits = hits
        self._scan.tail = tuple(self._tail)
        return self._scan
