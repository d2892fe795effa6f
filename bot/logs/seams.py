"""Where a container runtime cut a long line in two (CRI's flag P, docker's record without a line end): what stands around the cut, as it was printed.

Only long lines are looked at, since runtimes cut at 8 or 16 KiB, and of each cut only so much on both sides as a pattern sees; so memory and time do not
grow with a log that is full of them. Knows no messages.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bot.logs.parts import OVERLAP, Part

LONG = 8000  # bytes: no runtime cuts earlier (CRI-O at 8 KiB, containerd and docker at 16)
SIDE = 4096  # bytes of each side of a cut
KEPT = 64  # cuts that are kept: so many first ones and so many last ones
FEW = 2**20  # bytes of a part in which every line is looked at
PLACES = 16  # of a larger part at which a line is looked at: a runtime writes all lines of its file alike
_LINES_BETWEEN = 8  # lines of the other stream that may stand between two pieces
_CRI = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]{8,30}(?:Z|[+-]\d\d:?\d\d) (stdout|stderr) ([FP]) ")
_DOCKER = re.compile(rb'\{"log":"')
_DOCKER_END = re.compile(rb'","stream":"(stdout|stderr)"[^\\\n]{0,4000}\}\r?$')


@dataclass(frozen=True, slots=True)
class Seam:
    """A line that goes on in a later one. `before` and `behind` are what the program printed on both sides of the cut, `raw` the end of the line before as it
    stands in the log; `line` is the number of that line, `head` its first bytes."""

    line: int
    before: bytes
    behind: bytes
    raw: bytes
    head: bytes


@dataclass(frozen=True, slots=True)
class _Piece:
    line: int
    stream: bytes
    text: bytes
    raw: bytes
    head: bytes


class Seams:
    """Collects the cuts of a log, part by part. `is_echo(head, end of the line)`: the line repeats what a client wrote, and so do all that go on from it."""

    def __init__(self, is_echo: Callable[[bytes, bytes], bool]) -> None:
        self.echoes: set[int] = set()  # numbers of lines that go on from such a one
        self._is_echo = is_echo
        self._open: list[_Piece] = []
        self._first: list[Seam] = []
        self._last: deque[Seam] = deque(maxlen=KEPT)

    def look(self, part: Part) -> None:
        """Takes the cuts of one part; a line that goes on in the next part is remembered."""
        if not self._open and part.end > FEW and not _by_a_runtime(part):
            return
        line, position = part.line, 0
        for begin, end in _interesting(part, bool(self._open)):
            line += part.buffer.count(b"\n", position, begin)
            position = begin
            self._meet(line, part.buffer, begin, end)

    def _meet(self, line: int, buffer: bytearray, begin: int, end: int) -> None:
        """A long line, or one behind a line that goes on."""
        self._open = [piece for piece in self._open if line - piece.line <= _LINES_BETWEEN]
        read = _read(buffer, begin, end)
        if read is None:
            return
        stream, goes_on, text_begin, text_end, docker = read
        for piece in [piece for piece in self._open if piece.stream == stream]:
            self._open.remove(piece)
            if piece.line in self.echoes or self._is_echo(piece.head, piece.text):
                self.echoes.add(line)
            self._keep(Seam(piece.line, piece.text, _plain(bytes(buffer[text_begin : min(text_end, text_begin + SIDE)]), docker), piece.raw, piece.head))
        if goes_on and end - begin >= LONG:
            tail = bytes(buffer[max(text_begin, text_end - SIDE) : text_end])
            self._open.append(_Piece(line, stream, _plain(tail, docker), tail, bytes(buffer[begin : begin + OVERLAP])))

    def _keep(self, seam: Seam) -> None:
        if len(self._first) < KEPT:
            self._first.append(seam)
        else:
            self._last.append(seam)

    @property
    def found(self) -> list[Seam]:
        return [*self._first, *self._last]


def _by_a_runtime(part: Part) -> bool:
    """Whether one of the lines at some places of a part is a runtime's, or the endless line that it is a piece of."""
    begins = [0, *(part.buffer.find(b"\n", place, part.end) + 1 for place in range(part.end // PLACES, part.end, part.end // PLACES))]
    return any(pattern.match(part.buffer, begin, part.end) or pattern.match(part.head) for begin in begins for pattern in (_CRI, _DOCKER))


def _interesting(part: Part, open_line: bool) -> Iterator[tuple[int, int]]:
    """Begin and end of the long lines of a part and of the lines right behind each, also of its first lines when the last part ended with a long one."""
    begin, wanted = 0, _LINES_BETWEEN if open_line else 0
    while begin < part.end:
        if not wanted:
            near = part.buffer.rfind(b"\n", begin, min(part.end, begin + LONG)) + 1
            if near:  # no line up to there is long
                begin = near
                continue
        end = part.buffer.find(b"\n", begin, part.end)
        end = end if end >= 0 else part.end
        long = end - begin >= LONG
        if long or wanted:
            yield begin, end
        wanted = _LINES_BETWEEN if long else max(0, wanted - 1)
        begin = end + 1


def _read(buffer: bytearray, begin: int, end: int) -> tuple[bytes, bool, int, int, bool] | None:
    """Stream of a runtime's line, whether it goes on, where its text begins and ends, and whether docker wrote it."""
    head = _CRI.match(buffer, begin, end)
    if head is not None:
        return head[1], head[2] == b"P", head.end(), end, False
    record = _DOCKER.match(buffer, begin, end)
    close = _DOCKER_END.search(buffer, max(begin, end - SIDE - 200), end) if record is not None else None
    if record is None or close is None:
        return None
    return close[1], not buffer.endswith(b"\\n", record.end(), close.start()), record.end(), close.start(), True


def _plain(text: bytes, docker: bool) -> bytes:
    """What was printed; docker's records have it as JSON writes it, and a piece of it may begin within an escape."""
    if not docker:
        return text
    for skipped in range(12):
        try:
            plain = json.loads(b'"' + text[skipped:].removesuffix(b"\\") + b'"')
        except ValueError:
            continue
        return str(plain).encode(errors="replace").rstrip(b"\n")
    return text
