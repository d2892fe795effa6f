"""Finds constant texts (anchors) in blocks of bytes, in three ways that give the same answer: one by one in a small block, all at once with hyperscan,
and, in a large file, by a few short pieces that stand in no usual line of this very file.

What a file prints all the time is learned from the file: an anchor with very many hits is looked for from both ends of a block only. Knows no lines
and no messages.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import hyperscan  # not at run time: a small log needs none

Take = Callable[[int, int, int], None]  # index of the anchor, start (unused), end

SMALL = 16 * 2**10  # bytes up to which one search for each anchor is faster than to build a database
LARGE = 48 * 2**20  # bytes of a file behind which it pays to learn what its usual lines look like
PIECE = 4  # bytes of a short piece
SAMPLE = 64 * 2**10  # bytes that show the usual lines, from four places of a block
USUAL = 4  # hits of a text in the sample that make it usual
CROWD = 2000  # hits of all pieces, or of one anchor, in a block that are too many
RELEARN = 8  # times that a file may be learned anew
_NOTHING = b"no anchor is left, and this stands in no log \x01\xff"  # a database wants one text at least
EACH_END = 4  # hits of a very frequent anchor that are given at each end of a block


class Anchors:
    """The constant texts, as one database that is built when a block is large enough. Shared by all scans; `once`: indexes of which the first hit of a
    block will do."""

    def __init__(self, texts: Sequence[bytes], once: Collection[int]) -> None:
        self.texts, self.once = tuple(texts), frozenset(once)
        self.longest = max(map(len, self.texts), default=0)
        self._whole: hyperscan.Database | None = None

    def whole(self) -> "hyperscan.Database":
        if self._whole is None:
            self._whole = self.database(range(len(self.texts)))
        return self._whole

    def database(self, indexes: Iterable[int]) -> "hyperscan.Database":
        """A database of some of the texts, under their own indexes."""
        import hyperscan

        ids = list(indexes)
        flags = [hyperscan.HS_FLAG_SINGLEMATCH if index in self.once else 0 for index in ids]
        return _compiled([self.texts[index] for index in ids], ids, flags)


def _compiled(texts: Sequence[bytes], ids: Sequence[int], flags: Sequence[int]) -> "hyperscan.Database":
    import hyperscan

    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=list(texts) or [_NOTHING], ids=list(ids) or [0], flags=list(flags) or [0], literal=True)
    return database


class Search:
    """One scan of one file: finds anchors block by block, and learns while it goes. Used by one thread."""

    def __init__(self, anchors: Anchors) -> None:
        self._anchors = anchors
        self.read = 0
        self._learned = 0
        self._hot: set[int] = set()
        self._all: hyperscan.Database | None = None
        self._pieces: hyperscan.Database | None = None
        self._scratch: hyperscan.Scratch | None = None
        self._pieces_scratch: hyperscan.Scratch | None = None
        self._offset = 0
        self._found: list[tuple[int, int]] = []
        self._pieces_at: list[int] = []

    def find(self, buffer: bytearray, end: int, take: Take) -> None:
        """Calls `take` for the hits in the first `end` bytes, in no particular order."""
        if end <= SMALL and not self.read:
            self._one_by_one(buffer, end, take)
            return
        self.read += end
        self._found = []
        if self._pieces is None or not self._by_pieces(buffer, end):
            self._at_once(buffer, 0, end)
        for index, at in self._found:
            take(index, 0, at)
        gone = {index for index in self._hot if not self._from_both_ends(index, buffer, end, take)}
        counts = Counter(index for index, _ in self._found)
        hot = {index for index, count in counts.items() if count > CROWD}
        if end > SAMPLE and (hot or gone or (self._pieces is None and self.read > LARGE)) and self._learned < RELEARN:
            self._learn(buffer, end, self._hot - gone | hot)

    def last(self, buffer: bytearray, end: int, most: int) -> Iterator[tuple[int, int]]:
        """The last `most` hits of each very frequent anchor in the first `end` bytes: index and end."""
        for index in self._hot - self._anchors.once:
            text, stop = self._anchors.texts[index], end
            for _ in range(most):
                at = buffer.rfind(text, 0, stop)
                if at < 0:
                    break
                yield index, at + len(text)
                stop = at + len(text) - 1

    def _one_by_one(self, buffer: bytearray, end: int, take: Take) -> None:
        data = bytes(buffer[:end])
        for index, text in enumerate(self._anchors.texts):
            at = data.find(text)
            while at >= 0:
                take(index, 0, at + len(text))
                at = -1 if index in self._anchors.once else data.find(text, at + 1)

    def _at_once(self, buffer: bytearray, begin: int, end: int) -> None:
        import hyperscan

        if self._all is None:
            self._all = self._anchors.whole()
        if self._scratch is None:
            self._scratch = hyperscan.Scratch(self._all)
        self._offset = begin
        self._all.scan(memoryview(buffer)[begin:end], match_event_handler=self._note, scratch=self._scratch)  # type: ignore[type-var]  # any buffer

    def _note(self, index: int, _start: int, end: int, _flags: int, _context: object) -> None:
        self._found.append((index, end + self._offset))

    def _note_piece(self, _index: int, _start: int, end: int, _flags: int, _context: object) -> bool:
        self._pieces_at.append(end)
        return len(self._pieces_at) > CROWD  # true: stop here

    def _by_pieces(self, buffer: bytearray, end: int) -> bool:
        """Looks at the places where a piece stands. False when these are too many: the block is unlike the sample."""
        import hyperscan

        self._pieces_at = []
        with suppress(hyperscan.ScanTerminated):
            self._pieces.scan(memoryview(buffer)[:end], match_event_handler=self._note_piece, scratch=self._pieces_scratch)  # type: ignore
        if len(self._pieces_at) > CROWD:
            self._pieces = None if self._learned < RELEARN else self._pieces
            return False
        for begin, stop in _windows(sorted(self._pieces_at), self._anchors.longest, end):
            self._at_once(buffer, begin, stop)
        return True

    def _from_both_ends(self, index: int, buffer: bytearray, end: int, take: Take) -> bool:
        """Gives a few hits of a very frequent anchor; False when there is none any more."""
        text = self._anchors.texts[index]
        each = 1 if index in self._anchors.once else EACH_END
        at = buffer.find(text, 0, end)
        if at < 0:
            return False
        for _ in range(each):
            if at >= 0:
                take(index, 0, at + len(text))
                at = buffer.find(text, at + 1, end)
        stop = end
        for _ in range(each):
            at = buffer.rfind(text, 0, stop)
            if at >= 0:
                take(index, 0, at + len(text))
                stop = at + len(text) - 1
        return True

    def _learn(self, buffer: bytearray, end: int, hot: set[int]) -> None:
        """Takes the block as a sample of what is usual now."""
        import hyperscan

        self._learned += 1
        sample = b"\n".join(bytes(buffer[at : at + SAMPLE // 4]) for at in range(0, end - SAMPLE // 4, max(1, (end - SAMPLE // 4) // 4)))
        if self.read > LARGE:
            hot = hot | {index for index, text in enumerate(self._anchors.texts) if text in sample and sample.count(text) >= USUAL}
        self._hot = hot
        rest = [index for index in range(len(self._anchors.texts)) if index not in hot]
        self._all = self._anchors.database(rest)
        self._scratch = hyperscan.Scratch(self._all)
        self._pieces = None
        if self.read > LARGE:
            pieces = pieces_of([self._anchors.texts[index] for index in rest], sample)
            self._pieces = _compiled(pieces, range(len(pieces)), [0] * len(pieces))
            self._pieces_scratch = hyperscan.Scratch(self._pieces)


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


def pieces_of(texts: Sequence[bytes], sample: bytes) -> list[bytes]:
    """Few short pieces of which each text holds one at least, none of them in the sample; a text of which that cannot be said stands for itself."""
    usual = {sample[at : at + PIECE] for at in range(len(sample) - PIECE + 1)}
    holders: dict[bytes, set[int]] = {}
    for index, text in enumerate(texts):
        for at in range(len(text) - PIECE + 1):
            piece = text[at : at + PIECE]
            if piece not in usual:
                holders.setdefault(piece, set()).add(index)
    left = set().union(*holders.values())
    chosen = [text for index, text in enumerate(texts) if index not in left]
    heap = [(-len(held), piece) for piece, held in holders.items()]
    heapify(heap)
    while left:
        count, piece = heappop(heap)
        held = holders[piece] & left
        if held and len(held) < -count:
            heappush(heap, (-len(held), piece))
        elif held:
            chosen.append(piece)
            left -= held
    return chosen
