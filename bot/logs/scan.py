"""One pass over a log: all anchors of all messages at once, with memory that does not grow with the log.

Works on bytes in blocks; only lines that hold an anchor are decoded, and of a line only what stands near the anchor. Line numbers count line
feeds only. Knows nothing of servers; what the lines mean is `events` and `incidents`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

from bot.logs.messages import LogMessage
from bot.logs.search import Anchors, Search

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

BLOCK = 2 * 2**20
REACH = 4096  # bytes before and behind an anchor that a pattern sees
OVERLAP = 512  # longer than any anchor; what two parts of one endless line share
KEEP = 400  # hits of one message that are kept: so many first ones and so many last ones
TOGETHER = 64 * 2**20  # bytes behind which reading and searching go on side by side
PIECE = 64 * 2**10  # bytes in which line feeds are counted at a time: what the allocator keeps at hand
IN_ONE_LINE = 4  # hits of one anchor in one line that are looked at
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


@dataclass(slots=True)
class Scan:
    """What one pass found. `hits` are in order of lines; `dropped`: at least so many were found and are not among them."""

    hits: list[Hit] = field(default_factory=list)
    lines: int = 0
    size: int = 0
    dropped: int = 0
    tail: tuple[tuple[int, bytes], ...] = ()


class Scanner:
    """All anchors of `messages` as one database. Build it once; scanning leaves it unchanged."""

    def __init__(self, messages: Iterable[LogMessage]) -> None:
        self.messages = tuple(messages)
        pairs = [(anchor, message) for message in self.messages for anchor in message.anchors]
        self._owner = [message for _, message in pairs]
        self._anchors = [anchor for anchor, _ in pairs]
        self._search = Anchors(self._anchors, [index for index, message in enumerate(self._owner) if message.counted])

    def scan(self, stream: BinaryIO, block: int = BLOCK) -> Scan:
        """Reads `stream` to its end, through two buffers that are used again and again. May run in several threads at once."""
        keeper, search = _Keeper(self.messages), Search(self._search)
        newest: deque[_Part] = deque(maxlen=2)  # the last two stay in the two buffers
        before: tuple[_Part, Callable[[], _Ends]] | None = None
        with _Helper(search) as helper:
            for part in chain(_parts(stream, block), [None]):
                if before is not None:
                    self._take(before[0], before[1](), keeper)
                    newest.append(before[0])
                before = (part, helper.start(part)) if part is not None else None
        self._look_closely(newest, search, keeper)
        return keeper.result()

    def _take(self, part: "_Part", ends: "_Ends", keeper: "_Keeper") -> None:
        """Takes the hits of one part that was searched."""
        for index in ends.anchors():
            if self._owner[index].counted:
                ends.take(index, 0, part.buffer.rfind(self._anchors[index], 0, part.end) + len(self._anchors[index]))
        keeper.drop(ends.dropped)
        here: dict[int, tuple[int, int]] = {}  # anchor -> line of its newest hit, and how many it has there
        for line, end, index in _with_lines(part, ends.kept()):
            there, times = here.get(index, (0, 0))
            here[index] = (line, times + 1 if there == line else 1)
            if here[index][1] <= IN_ONE_LINE:
                keeper.take(_hit(part, self._owner[index], line, end, len(self._anchors[index])))
        keeper.end_of_part(part)

    def _look_closely(self, newest: Iterable["_Part"], search: Search, keeper: "_Keeper") -> None:
        """Of the most frequent anchors, the last KEEP hits of the file."""
        for part in newest:
            last = sorted((end, index) for index, end in search.last(part.buffer, part.end, KEEP))
            for line, end, index in _with_lines(part, last):
                keeper.take(_hit(part, self._owner[index], line, end, len(self._anchors[index])))
        keeper.put_in_order()


@dataclass(frozen=True, slots=True)
class _Part:
    """The first `end` bytes of the buffer: whole lines, or a piece of an endless one whose beginning is `head`. Of `seen` bytes the hits are known
    already; `line` is the number of the first line, `feeds` how many line feeds stand in it."""

    buffer: bytearray
    end: int
    line: int
    feeds: int
    seen: int
    head: bytes


def _parts(stream: BinaryIO, block: int) -> Iterator[_Part]:
    """The stream in parts, in two buffers that take turns: a part stays as it is while the next one is read."""
    size = max(block, 2 * OVERLAP) + 2 * OVERLAP
    buffer, other = bytearray(size), bytearray(size)
    line, seen, head, rest = 1, 0, b"", 0  # rest: bytes of an unfinished line at the front of the buffer
    while True:
        fresh = _fill(stream, buffer, rest)
        filled = rest + fresh
        cut = buffer.rfind(b"\n", 0, filled) + 1
        if not fresh:
            if filled:
                yield _Part(buffer, filled, line, _line_feeds(buffer, 0, filled), seen, head)
            return
        if cut:
            feeds = _line_feeds(buffer, 0, cut)
            yield _Part(buffer, cut, line, feeds, seen, head)
            line, seen, head = line + feeds, 0, b""
        elif filled == size:
            head = head or bytes(buffer[:OVERLAP])
            yield _Part(buffer, filled, line, 0, seen, head)
            cut, seen = filled - OVERLAP, OVERLAP
        rest = filled - cut
        other[:rest] = buffer[cut:filled]
        buffer, other = other, buffer


def _with_lines(part: _Part, hits: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Line, end and anchor of hits (ends with anchors, ascending) that were not seen before. Counts from whichever end is nearer."""
    line, position = part.line, 0
    for end, index in hits:
        if end <= part.seen:
            continue
        if end - position <= part.end - end:
            line += _line_feeds(part.buffer, position, end)
        else:
            line = part.line + part.feeds - _line_feeds(part.buffer, end, part.end)
        position = end
        yield line, end, index


class _Helper:
    """Searches a part in another thread while this one reads and counts the next, once a file is so large that it pays."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> "_Helper":
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def start(self, part: _Part) -> Callable[[], "_Ends"]:
        """Begins to search a part; the result waits for the end and gives the hits."""
        ends = _Ends()
        if self._search.read < TOGETHER:
            self._search.find(part.buffer, part.end, ends.take)
            return lambda: ends
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(1)
        at_work = self._pool.submit(self._search.find, part.buffer, part.end, ends.take)

        def wait() -> _Ends:
            at_work.result()
            return ends

        return wait


class _Ends:
    """Where anchors end in one part: of each the first KEEP and the last KEEP, so that a million hits cost little more than their count."""

    def __init__(self) -> None:
        self._first: dict[int, list[int]] = {}
        self._last: dict[int, deque[int]] = {}
        self._seen = 0

    def take(self, index: int, _start: int, end: int, _flags: int = 0, _context: object = None) -> None:
        self._seen += 1
        ends = self._first.setdefault(index, [])
        if len(ends) < KEEP:
            ends.append(end)
        else:
            self._last.setdefault(index, deque(maxlen=KEEP)).append(end)

    def anchors(self) -> list[int]:
        return list(self._first)

    def kept(self) -> list[tuple[int, int]]:
        """Ends with their anchors, in order of the part, each once."""
        return sorted({(end, index) for kept in (self._first, self._last) for index, ends in kept.items() for end in ends})

    @property
    def dropped(self) -> int:
        return self._seen - sum(len(ends) for kept in (self._first, self._last) for ends in kept.values())


def _line_feeds(data: bytearray, begin: int, end: int) -> int:
    """How many line feeds stand there. In long lines, taking them out is twice as fast as counting them, since that jumps from one to the next."""
    if end - begin < 4096 or data.count(b"\n", begin, begin + 4096) > 100:
        return data.count(b"\n", begin, end)
    total = end - begin
    for at in range(begin, end, PIECE):
        total -= len(data[at : min(end, at + PIECE)].replace(b"\n", b""))
    return total


def _fill(stream: BinaryIO, buffer: bytearray, start: int) -> int:
    """Reads into the buffer behind `start` as much as fits; compressed streams give little at a time."""
    view, position = memoryview(buffer), start
    while position < len(buffer):
        got = stream.readinto(view[position:])  # type: ignore[attr-defined]
        if not got:
            break
        position += got
    return position - start


def _hit(part: _Part, message: LogMessage, line: int, end: int, length: int) -> Hit:
    anchor = end - length
    begin = part.buffer.rfind(b"\n", max(0, anchor - REACH), anchor) + 1
    whole = begin > 0 or anchor <= REACH
    begin = begin or max(0, anchor - REACH)
    stop = part.buffer.find(b"\n", end, min(part.end, end + REACH))
    stop = stop if stop >= 0 else min(part.end, end + REACH)
    head = b"" if whole and not (begin == 0 and part.head) else part.head or _line_head(part.buffer, begin)
    return Hit(message, line, bytes(part.buffer[begin:stop]), end - begin, head)


def _line_head(data: bytearray, position: int) -> bytes:
    first = data.rfind(b"\n", 0, position) + 1
    return bytes(data[first : first + OVERLAP])


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

    def put_in_order(self) -> None:
        """Of what was taken late, the last KEEP hits of each message by their lines."""
        for name, last in self._last.items():
            by_place = {(hit.line, hit.start): hit for hit in last}
            self._last[name] = deque(sorted(by_place.values(), key=lambda hit: hit.line), maxlen=KEEP)

    def drop(self, hits: int) -> None:
        self._scan.dropped += hits

    def end_of_part(self, part: _Part) -> None:
        line = part.line + part.feeds
        self._scan.size += part.end - min(part.seen, part.end)
        open_line = part.end > 0 and part.buffer[part.end - 1] != 10
        if part.end:
            self._scan.lines = line - 1 + open_line
        found: list[tuple[int, bytes]] = []
        number, end = line, part.end
        while end > 0 and len(found) < TAIL and line - number < 64:
            begin = part.buffer.rfind(b"\n", 0, end) + 1
            text = bytes(part.buffer[begin : min(end, begin + REACH)])
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
