"""Finds anchors (constant texts) in blocks of bytes, in three ways that give the same answer: one by one in a small block, all at once with hyperscan,
and, in a large file, by a few short pieces that stand in no usual line of this very file.

What a file prints all the time is learned from the file: an anchor with very many hits is looked for from both ends of a block only. Knows no lines
and no messages.
"""

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import hyperscan  # not at run time: a small log needs none

Buffer = bytes | bytearray
Note = Callable[[int, int, int, int, object], bool | None]  # index of the text, start (unused), end, flags and context (unused)

SMALL = 16 * 2**10  # bytes up to which one search for each anchor is faster than to build a database
LARGE = 16 * 2**20  # bytes of a file behind which it pays to learn what its usual lines look like
PIECE = 4  # bytes of a short piece
SAMPLE = 64 * 2**10  # bytes that show the usual lines
PLACES = 32  # of a block that the sample is taken from: numbers and times go on within it
USUAL = 4  # hits of a text in the sample that make it usual
CROWD = 2000  # hits of all pieces, or of one anchor, in a block that are too many
STRAY = 500  # places with a piece and no anchor that cost as much as to learn the file anew, since each holds two threads up; doubled by each time
RELEARN = 8  # times that a file may be learned anew
_NOTHING = b"no anchor is left, and this stands in no log \x01\xff"  # a database wants one text at least
EACH_END = 4  # hits of a very frequent anchor that are given at each end of a block


class Texts:
    """Constant texts as one database, built when it is first searched for. Several threads may search at once."""

    def __init__(self, texts: Sequence[bytes], ids: Sequence[int], once: Collection[int] = ()) -> None:
        self._texts, self._ids, self._once = texts, ids, once
        self._scratches: list[hyperscan.Scratch] = []  # room to work in, that no thread uses now

    @cached_property
    def _database(self) -> "hyperscan.Database":
        import hyperscan

        flags = [hyperscan.HS_FLAG_SINGLEMATCH if index in self._once else 0 for index in self._ids]
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        database.compile(expressions=list(self._texts) or [_NOTHING], ids=list(self._ids) or [0], flags=flags or [0], literal=True)
        return database

    def search(self, view: memoryview, note: Note) -> None:
        """Calls `note` for each hit, in no order, until it gives True."""
        import hyperscan

        try:
            scratch = self._scratches.pop()
        except IndexError:
            scratch = hyperscan.Scratch(self._database)
        with suppress(hyperscan.ScanTerminated):
            self._database.scan(view, match_event_handler=note, scratch=scratch)  # type: ignore[type-var]  # any buffer
        self._scratches.append(scratch)


class Anchors:
    """The constant texts of all messages. Shared by all scans; `once`: indexes of which the first hit of a block will do."""

    def __init__(self, texts: Sequence[bytes], once: Collection[int]) -> None:
        self.texts, self.once = tuple(texts), frozenset(once)
        self.longest = max(map(len, self.texts), default=0)
        self.whole = self.but(frozenset())

    def but(self, hot: Collection[int]) -> Texts:
        """All others, under their own indexes."""
        ids = [index for index in range(len(self.texts)) if index not in hot]
        return Texts([self.texts[index] for index in ids], ids, self.once)


@dataclass(slots=True)
class Found:
    """Of one block: hits (index and end of the anchor, in no order), which frequent anchors it has no more, and what tells that it is unlike the
    sample: too many places with a piece, or `strays`, the ends of pieces."""

    hits: list[tuple[int, int]] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    crowded: bool = False
    strays: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Look:
    """How blocks of one file are searched, from what is known of it so far. Unchanged by searching: two threads may use it at once."""

    anchors: Anchors
    hot: frozenset[int] = frozenset()  # very frequent ones
    rest: Texts | None = None  # all others
    pieces: Texts | None = None

    def find(self, buffer: Buffer, end: int) -> Found:
        """The hits in the first `end` bytes."""
        if end <= SMALL and self.rest is None:
            return Found(list(self._one_by_one(bytes(buffer[:end]))))
        found, rest = Found(), self.rest or self.anchors.whole
        ends = _ends(self.pieces, buffer, end) if self.pieces is not None else None
        if ends is None or len(ends) > CROWD:
            found.crowded = ends is not None
            found.hits = _hits(rest, buffer, [(0, end)])
        elif ends:  # in small windows the frequent ones may be found too: no reason to build another database
            found.hits = [hit for hit in _hits(self.anchors.whole, buffer, _windows(sorted(ends), self.anchors.longest, end)) if hit[0] not in self.hot]
            found.strays = ends
        for index in self.hot:
            hits = self._from_both_ends(index, buffer, end)
            found.hits += hits
            if not hits:
                found.gone.add(index)
        return found

    def last(self, buffer: Buffer, end: int, most: int) -> Iterator[tuple[int, int]]:
        """The last `most` hits of each very frequent anchor in the first `end` bytes: index and end."""
        for index in self.hot - self.anchors.once:
            yield from self._backwards(index, buffer, end, most)

    def _one_by_one(self, data: bytes) -> Iterator[tuple[int, int]]:
        for index, text in enumerate(self.anchors.texts):
            at = data.find(text)
            while at >= 0:
                yield index, at + len(text)
                at = -1 if index in self.anchors.once else data.find(text, at + 1)

    def _from_both_ends(self, index: int, buffer: Buffer, end: int) -> list[tuple[int, int]]:
        """A few hits of a very frequent anchor."""
        text, hits = self.anchors.texts[index], list[tuple[int, int]]()
        each = 1 if index in self.anchors.once else EACH_END
        at = buffer.find(text, 0, end)
        while at >= 0 and len(hits) < each:
            hits.append((index, at + len(text)))
            at = buffer.find(text, at + 1, end)
        return hits + list(self._backwards(index, buffer, end, each)) if hits else []

    def _backwards(self, index: int, buffer: Buffer, end: int, most: int) -> Iterator[tuple[int, int]]:
        text, at = self.anchors.texts[index], end
        for _ in range(most):
            at = buffer.rfind(text, 0, at)
            if at < 0:
                return
            yield index, at + len(text)
            at += len(text) - 1


class Search:
    """What is known of one file: `look` says how its next block is searched, and `learn` takes what was found, block by block."""

    def __init__(self, anchors: Anchors) -> None:
        self.look = Look(anchors)
        self.read = 0
        self._learned = 0
        self._strays, self._patience = 0, STRAY
        self._usual: set[int] = set()

    def learn(self, found: Found, buffer: Buffer, end: int) -> None:
        """Takes what `look.find` gave for a block."""
        self.read += end
        look = self.look
        counts = Counter(index for index, _ in found.hits) if len(found.hits) > CROWD else Counter[int]()
        hot = {index for index, count in counts.items() if count > CROWD}
        self._strays += len(found.strays)
        astray = self._strays > self._patience
        if astray:
            self._patience *= 2
            self._usual |= _grams(b"\n".join(buffer[max(0, at - 2 * PIECE) : at] for at in found.strays))
        unlike = self.read > LARGE and (look.pieces is None or found.crowded or astray)
        if end > SAMPLE and (hot or found.gone or unlike) and self._learned < RELEARN:
            self._learn(buffer, end, (look.hot - found.gone) | hot)

    def _learn(self, buffer: Buffer, end: int, hot: frozenset[int]) -> None:
        """Takes the block as a sample of what is usual now."""
        self._learned, self._strays = self._learned + 1, 0
        look, anchors, pieces = self.look, self.look.anchors, None
        if self.read > LARGE:
            sample = bytearray().join(buffer[at : at + SAMPLE // PLACES] for at in range(0, end - SAMPLE // PLACES, max(1, end // PLACES)))
            seen = {index for index, _ in _hits(anchors.whole, sample, [(0, len(sample))])}
            hot = hot | {index for index in seen if sample.count(anchors.texts[index]) >= USUAL}
            self._usual |= _grams(sample)
            chosen = pieces_of([text for index, text in enumerate(anchors.texts) if index not in hot], self._usual)
            pieces = Texts(chosen, range(len(chosen)))
        self.look = Look(anchors, hot, look.rest if hot == look.hot else anchors.but(hot), pieces)


def _hits(texts: Texts, buffer: Buffer, windows: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Index and end of each hit, in no order."""
    view, hits, offset = memoryview(buffer), list[tuple[int, int]](), 0

    def note(index: int, _start: int, end: int, _flags: int, _context: object) -> None:
        hits.append((index, end + offset))

    for begin, stop in windows:
        offset = begin
        texts.search(view[begin:stop], note)
    return hits


def _ends(pieces: Texts, buffer: Buffer, end: int) -> list[int]:
    """Where pieces end, in no order; more than CROWD: it stopped there."""
    ends: list[int] = []

    def note(_index: int, _start: int, end: int, _flags: int, _context: object) -> bool:
        ends.append(end)
        return len(ends) > CROWD

    pieces.search(memoryview(buffer)[:end], note)
    return ends


def _windows(places: Sequence[int], reach: int, end: int) -> Iterator[tuple[int, int]]:
    """Where anchors may be that hold a piece which ends at one of `places` (ascending): parts of the block that do not touch."""
    begin = stop = -1
    for place in places:
        if stop >= 0 and place - reach <= stop:
            stop = min(end, place + reach)
            continue
        if stop >= 0:
            yield begin, stop
        begin, stop = max(0, place - reach), min(end, place + reach)
    if stop >= 0:
        yield begin, stop


def _grams(data: Buffer) -> set[int]:
    """All that stands in PIECE bytes next to each other, as the numbers of a machine."""
    found: set[int] = set()
    for shift in range(PIECE):
        found.update(memoryview(data)[shift : shift + (len(data) - shift) // PIECE * PIECE].cast("I"))
    return found


@cache
def _grams_of(text: bytes) -> frozenset[int]:
    return frozenset(_grams(text))


def pieces_of(texts: Sequence[bytes], usual: set[int]) -> list[bytes]:
    """Few short pieces of which each text holds one at least, none of them usual; a text of which that cannot be said stands for itself."""
    unusual = [_grams_of(text) - usual for text in texts]
    holders: dict[int, list[int]] = {}
    for index, pieces in enumerate(unusual):
        for piece in pieces:
            holders.setdefault(piece, []).append(index)
    chosen, left = set[int](), {index for index, pieces in enumerate(unusual) if pieces}
    heap = [(-len(held), piece) for piece, held in holders.items() if len(held) > 1]
    heapify(heap)
    while heap and left:
        count, piece = heappop(heap)
        held = left.intersection(holders[piece])
        if held and len(held) < -count:
            heappush(heap, (-len(held), piece))
        elif held:
            chosen.add(piece)
            left -= held
    chosen.update(min(unusual[index]) for index in left)
    return [text for index, text in enumerate(texts) if not unusual[index]] + [piece.to_bytes(PIECE, sys.byteorder) for piece in sorted(chosen)]
