"""Cuts a stream into parts of whole lines, and has two of them worked on at a time. Memory does not grow with the stream. Knows no messages."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

BLOCK = 2 * 2**20  # bytes of a part
OVERLAP = 512  # longer than any anchor; what two parts of one endless line share
TOGETHER = 16 * 2**20  # bytes behind which two threads pay
PIECE = 64 * 2**10  # bytes in which line feeds are counted at a time: what the allocator keeps at hand
LANES = 2  # parts that are in memory at a time

T = TypeVar("T")


@dataclass(slots=True)
class Part:
    """The first `end` bytes of the buffer: whole lines, or a piece of an endless one whose beginning is `head`. Of `seen` bytes the hits are known
    already; `line` is the number of the first line, `feeds` how many line feeds stand in it."""

    buffer: bytearray
    end: int
    seen: int
    head: bytes
    feeds: int = 0
    line: int = 1


class Parts:
    """The stream in parts, one after another; `lanes` are the buffers that take turns, so that the last parts stay as they are for a while."""

    def __init__(self, stream: BinaryIO, block: int) -> None:
        self._stream = stream
        size = max(block, 2 * OVERLAP) + 2 * OVERLAP
        self.lanes = tuple(bytearray(size) for _ in range(LANES))
        self._rest, self._seen, self._head = b"", 0, b""  # bytes of an unfinished line

    def read(self, lane: int) -> Part | None:
        """The next part, in that buffer; None at the end, and then the buffer is left as it is."""
        buffer, rest = self.lanes[lane], len(self._rest)
        buffer[:rest] = self._rest
        filled = _fill(self._stream, buffer, rest)
        cut = buffer.rfind(b"\n", rest, filled) + 1
        if filled == rest:
            self._rest = b""
            return Part(buffer, rest, self._seen, self._head) if rest else None
        if cut or filled < len(buffer):  # else a piece of an endless line
            part = Part(buffer, cut or filled, self._seen, self._head)
            self._rest, self._seen, self._head = bytes(buffer[part.end : filled]), 0, b""
        else:
            self._head = self._head or bytes(buffer[:OVERLAP])
            part = Part(buffer, filled, self._seen, self._head)
            self._rest, self._seen = bytes(buffer[filled - OVERLAP : filled]), OVERLAP
        return part


def _fill(stream: BinaryIO, buffer: bytearray, start: int) -> int:
    """Reads into the buffer behind `start` as much as fits, and gives where that ends; compressed streams give little at a time."""
    view, position = memoryview(buffer), start
    while position < len(buffer):
        got = stream.readinto(view[position:])  # type: ignore[attr-defined]
        if not got:
            break
        position += got
    return position


def line_feeds(data: bytearray, begin: int, end: int) -> int:
    """How many line feeds stand there. In long lines, taking them out is twice as fast as counting them, since that jumps from one to the next."""
    if end - begin <= 4096 or data.count(b"\n", begin, begin + 4096) > 100:
        return data.count(b"\n", begin, end)
    total = end - begin
    for at in range(begin, end, PIECE):
        total -= len(data[at : min(end, at + PIECE)].replace(b"\n", b""))
    return total


class Turns:
    """Work on the parts of a stream by turns, two at a time: in this thread, and in two others once the stream is so long that it pays.

    `work` begins with `read`, in order of the parts; the rest of it may run beside that of another part."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._pool: ThreadPoolExecutor | None = None
        self._turn = [threading.Semaphore(lane == 0) for lane in range(LANES)]
        self._size = 0

    def __enter__(self) -> "Turns":
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def each(self, begin: Callable[[], Callable[[Part], T]]) -> Iterator[tuple[Part, T]]:
        """Every part with what was made of it, in order. `begin` is asked for the work on a part when the one before the last is done with, so that
        what it gives does not depend on how fast the threads are."""
        waiting = [self._start(lane, begin()) for lane in range(LANES)]
        line, lane = 1, 0
        while (done := waiting[lane]()) is not None:
            part, made = done
            part.line = line
            line += part.feeds
            self._size += part.end
            yield part, made
            waiting[lane] = self._start(lane, begin())
            lane = (lane + 1) % LANES

    def _start(self, lane: int, work: Callable[[Part], T]) -> Callable[[], tuple[Part, T] | None]:
        if self._size < TOGETHER:
            done = self._do(lane, work)
            return lambda: done
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(LANES)
        return self._pool.submit(self._do, lane, work).result

    def _do(self, lane: int, work: Callable[[Part], T]) -> tuple[Part, T] | None:
        self._turn[lane].acquire()
        try:
            part = self._parts.read(lane)
        finally:
            self._turn[(lane + 1) % LANES].release()
        if part is None:
            return None
        part.feeds = line_feeds(part.buffer, 0, part.end)
        return part, work(part)
