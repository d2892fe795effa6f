"""One pass over a log: all anchors of all messages at once, with memory that does not grow with the log.

Works on bytes in blocks; only lines that hold an anchor are decoded, and of a line only what stands near the anchor. Line numbers count line
feeds only. Knows nothing of servers; what the lines mean is `events` and `incidents`.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import BinaryIO

from bot.logs.messages import LogMessage, compiled
from bot.logs.parts import BLOCK, OVERLAP, Part, Parts, Turns, line_feeds
from bot.logs.seams import Seam, Seams
from bot.logs.search import Anchors, Found, Look, Search

REACH = 4096  # bytes before and behind an anchor that a pattern sees
KEEP = 400  # hits of one message that are kept: so many first ones and so many last ones
SAMPLES = 64  # the same, of a message that a healthy server prints all the time: one or two of each part are looked at anyway
IN_ONE_LINE = 4  # hits of one anchor in one line that are looked at
TAIL = 6  # last lines that are kept for showing where a log stops


@dataclass(frozen=True, slots=True)
class Hit:
    """An anchor was found. `raw`: the bytes around it, at most two REACHes, never beyond its line; `start`: where the anchor ends in `raw`;
    `head`: the first bytes of the line, when `raw` does not begin with them; `shown`: what of `raw` stands in that line, where a runtime cut it and `raw`
    goes on in the next."""

    message: LogMessage
    line: int
    raw: bytes
    start: int
    head: bytes = b""
    shown: bytes = b""


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
        self._echoes = [(anchor, message.pattern) for anchor, message in pairs if message.role == "echo"]
        self._search = Anchors(self._anchors, [index for index, message in enumerate(self._owner) if message.counted])

    def scan(self, stream: BinaryIO, block: int = BLOCK) -> Scan:
        """Reads `stream` to its end, through two buffers that are used again and again. May run in several threads at once."""
        keeper, search, seams = _Keeper(self.messages), Search(self._search), Seams(self._echoed)
        newest: deque[Part] = deque(maxlen=2)  # the last two stay in the two buffers
        with Turns(Parts(stream, block)) as turns:
            for part, found in turns.each(lambda: partial(_find, search.look)):
                search.learn(found, part.buffer, part.end)
                self._take(part, found.hits, keeper)
                seams.look(part)
                newest.append(part)
        self._look_closely(newest, search, keeper)
        return keeper.result(list(self._across([seam for seam in seams.found if seam.line not in seams.echoes])), seams.echoes)

    def _across(self, seams: list[Seam]) -> Iterator[Hit]:
        """Hits that begin in front of a cut, with what stands behind it. Each is of the line that its anchor begins in, and shows only that."""
        text = b"\n".join(seam.before + seam.behind for seam in seams)
        ends = list(accumulate(len(seam.before) + len(seam.behind) + 1 for seam in seams))
        for index, end in sorted(Look(self._search).find(text, len(text)).hits, key=lambda found: found[1]):
            number = bisect_left(ends, end)
            seam, offset = seams[number], ends[number - 1] if number else 0
            begin, cut = end - len(self._anchors[index]) - offset, len(seam.before)
            if not cut - REACH // 2 <= begin < cut or self._echoed(seam.head, seam.before[:begin]):
                continue
            shown = seam.before[begin:]
            yield Hit(self._owner[index], seam.line, seam.before + seam.behind, end - offset, seam.head, shown if shown in seam.raw else seam.raw[begin - cut :])

    def _take(self, part: Part, hits: list[tuple[int, int]], keeper: "_Keeper") -> None:
        """Takes the hits of one part that was searched."""
        keeper.end_of_part(part)
        if not hits:
            return
        ends: dict[int, list[int]] = {}
        for index, end in hits:
            ends.setdefault(index, []).append(end)
        for index, found in ends.items():
            if self._owner[index].counted:
                found.append(part.buffer.rfind(self._anchors[index], 0, part.end) + len(self._anchors[index]))
        keeper.drop(sum(max(0, len(found) - 2 * KEEP) for found in ends.values()))
        here: dict[int, tuple[int, int]] = {}  # anchor -> line of its newest hit, and how many it has there
        for line, end, index in _with_lines(part, _kept(ends)):
            there, times = here.get(index, (0, 0))
            here[index] = (line, times + 1 if there == line else 1)
            if here[index][1] <= IN_ONE_LINE:
                self._take_hit(part, index, line, end, keeper)

    def _look_closely(self, newest: Iterable[Part], search: Search, keeper: "_Keeper") -> None:
        """Of the most frequent anchors, the last KEEP hits of the file."""
        for part in newest:
            last = sorted((end, index) for index, end in search.look.last(part.buffer, part.end, KEEP))
            for line, end, index in _with_lines(part, last):
                self._take_hit(part, index, line, end, keeper)
        keeper.put_in_order()

    def _take_hit(self, part: Part, index: int, line: int, end: int, keeper: "_Keeper") -> None:
        """Takes a hit, unless it stands in what a client wrote and the server only repeats."""
        hit = _hit(part, self._owner[index], line, end, len(self._anchors[index]))
        if not self._echoed(hit.head, hit.raw[: hit.start - len(self._anchors[index])]):
            keeper.take(hit)

    def _echoed(self, head: bytes, before: bytes) -> bool:
        """Whether a line with this beginning and this text in front repeats what a client wrote."""
        for anchor, pattern in self._echoes:  # a plain loop: this is asked of every hit
            if anchor in before or anchor in head:
                search = compiled(pattern).search
                if search(before.decode(errors="replace")) or search(head.decode(errors="replace")):
                    return True
        return False


def _find(look: Look, part: Part) -> Found:
    return look.find(part.buffer, part.end)


def _with_lines(part: Part, hits: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Line, end and anchor of hits (ends with anchors, ascending) that were not seen before. Counts from whichever end is nearer."""
    line, position = part.line, 0
    for end, index in hits:
        if end <= part.seen:
            continue
        if end - position <= part.end - end:
            line += line_feeds(part.buffer, position, end)
        else:
            line = part.line + part.feeds - line_feeds(part.buffer, end, part.end)
        position = end
        yield line, end, index


def _kept(ends: dict[int, list[int]]) -> list[tuple[int, int]]:
    """Of each anchor the first KEEP ends and the last KEEP, so that a million hits cost little more than their count; in order of the part, each once."""
    for index, found in ends.items():
        if len(found) > 2 * KEEP:
            found.sort()
            ends[index] = found[:KEEP] + found[-KEEP:]
    return sorted({(end, index) for index, found in ends.items() for end in found})


def _hit(part: Part, message: LogMessage, line: int, end: int, length: int) -> Hit:
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
        keep = SAMPLES if hit.message.counted else KEEP
        if len(first) < keep:
            first.append(hit)
            return
        last = self._last.setdefault(hit.message.id, deque(maxlen=keep))
        self._scan.dropped += len(last) == keep
        last.append(hit)

    def put_in_order(self) -> None:
        """Of what was taken late, the last KEEP hits of each message by their lines."""
        for name, last in self._last.items():
            by_place = {(hit.line, hit.start): hit for hit in last}
            self._last[name] = deque(sorted(by_place.values(), key=lambda hit: hit.line), maxlen=last.maxlen)

    def drop(self, hits: int) -> None:
        self._scan.dropped += hits

    def end_of_part(self, part: Part) -> None:
        line = part.line + part.feeds
        self._scan.size += part.end - min(part.seen, part.end)
        open_line = part.end > 0 and part.buffer[part.end - 1] != 10
        if part.end:
            self._scan.lines = line - 1 + open_line
        ends = part.buffer[max(0, part.end - REACH) : part.end].split(b"\n")[1:]
        if len(ends) > TAIL and not ends[-1] and all(text and not text.isspace() for text in ends[-1 - TAIL : -1]):
            self._tail.extend(enumerate(map(bytes, ends[-1 - TAIL : -1]), line - TAIL))
            return
        found: list[tuple[int, bytes]] = []
        number, end = line, part.end
        while end > 0 and len(found) < TAIL and line - number < 64:
            begin = part.buffer.rfind(b"\n", 0, end) + 1
            text = part.buffer[begin : min(end, begin + REACH)]
            if text and not text.isspace():
                found.append((number, bytes(text)))
            number, end = number - 1, begin - 1
        self._tail.extend(reversed(found))

    def result(self, across: Iterable[Hit], echoes: Set[int]) -> Scan:
        """All of it in order of lines; `across`: hits that read a line further than it goes, and so count more than those of the line alone; nothing of the
        lines `echoes`."""
        hits = [hit for kept in self._first.values() for hit in kept] + [hit for kept in self._last.values() for hit in kept]
        hits = [*(hit for hit in hits if hit.line not in echoes), *across]
        hits.sort(key=lambda hit: hit.line)
        self._scan.hits = hits
        self._scan.tail = tuple(self._tail)
        return self._scan
