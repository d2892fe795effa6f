"""Parts of whole lines in order, whatever the size of the blocks and however many threads work on them."""

import threading
from io import BytesIO, RawIOBase
from typing import BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.logs import parts
from bot.logs.messages import LogMessage
from bot.logs.parts import OVERLAP, Part, Parts, Turns, line_feeds
from bot.logs.scan import Scanner
from bot.model import Text

NEEDLE = LogMessage("test.needle", Text("A needle."), (b"needle=",), r"needle=(?P<size>\d+)", {"size": "int"}, role="fatal", kind="needle")
SCRAPS = st.lists(st.sampled_from([b"\n", b"needle=1", b"hay " * 100, b"x" * 1500, b"\r", b"\n\n\n", b"y" * 511]), max_size=60).map(b"".join)


@settings(max_examples=300, deadline=None)
@given(SCRAPS, st.sampled_from([1, 300, 1000, 1400]))
def test_every_hit_stands_in_its_line_whatever_the_size_of_the_blocks(data: bytes, block: int) -> None:
    scan = Scanner([NEEDLE]).scan(BytesIO(data), block)
    lines = data.split(b"\n")
    assert {hit.line for hit in scan.hits} == {number for number, line in enumerate(lines, 1) if b"needle=" in line}
    assert scan.lines == len(lines) - (lines[-1] == b"")
    assert scan.size == len(data)


@given(SCRAPS, st.sampled_from([1, 300, 1000]))
def test_parts_are_the_whole_stream_and_end_with_lines_where_these_end(data: bytes, block: int) -> None:
    source, seen, ends = Parts(BytesIO(data), block), b"", []
    lane = 0
    while (part := source.read(lane)) is not None:
        piece = bytes(part.buffer[: part.end])
        assert seen.endswith(piece[: part.seen])
        seen += piece[part.seen :]
        ends.append(piece.endswith(b"\n") or len(piece) == len(part.buffer))
        lane = 1 - lane
    assert seen == data
    assert all(ends[:-1])


def numbers_of(stream: BinaryIO, block: int) -> list[tuple[int, int, bytes, str]]:
    """Of each part: its first line, its line feeds, its bytes, and the thread that worked on it."""

    def work(part: Part) -> tuple[bytes, str]:
        return bytes(part.buffer[part.seen : part.end]), threading.current_thread().name

    with Turns(Parts(stream, block)) as turns:
        return [(part.line, part.feeds, *made) for part, made in turns.each(lambda: work)]


def test_two_threads_give_what_one_gives_in_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(b"line %d %s\n" % (number, b"z" * (number % 700)) for number in range(3000))
    alone = numbers_of(BytesIO(data), 4096)
    monkeypatch.setattr(parts, "TOGETHER", 0)
    together = numbers_of(BytesIO(data), 4096)
    assert [row[:3] for row in together] == [row[:3] for row in alone]
    assert b"".join(row[2] for row in together) == data
    assert {row[3] for row in alone} == {threading.current_thread().name}
    assert len({row[3] for row in together}) > 1


class Broken(RawIOBase):
    """Gives some lines, then fails as a bad disk does."""

    def __init__(self) -> None:
        self.left = 20

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        self.left -= 1
        if self.left < 0:
            raise OSError("Input/output error")
        view[:] = b"\n" * len(view)
        return len(view)


@pytest.mark.parametrize("together", [0, parts.TOGETHER])
def test_a_stream_that_breaks_is_an_error_and_no_hang(monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    monkeypatch.setattr(parts, "TOGETHER", together)
    with pytest.raises(OSError, match="Input/output error"):
        numbers_of(cast(BinaryIO, Broken()), 1000)


@pytest.mark.parametrize("gap", [1, 40, 101, 5000])
@pytest.mark.parametrize("size", [0, 100, 4096, 4097, 300_000])
def test_line_feeds_are_counted_alike_in_short_and_in_long_lines(gap: int, size: int) -> None:
    data = bytearray((b"x" * (gap - 1) + b"\n") * ((size + OVERLAP) // gap + 2))
    for begin in (0, 1, OVERLAP):
        assert line_feeds(data, begin, begin + size) == data.count(b"\n", begin, begin + size)
