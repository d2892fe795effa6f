"""One pass, line numbers by line feeds only, memory that does not grow with the log."""

from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import pytest

from bot.logs.events import events
from bot.logs.messages import LogMessage
from bot.logs.scan import KEEP, REACH, SAMPLES, Scanner
from bot.model import Text

NEEDLE = LogMessage("test.needle", Text("A needle."), (b"needle=",), r"needle=(?P<size>\d+)", {"size": "int"}, role="fatal", kind="needle")
COUNTED = LogMessage("test.counted", Text("Hay."), (b"hay hay",), counted=True)


def lines_of(data: bytes, block: int = 4 * 2**20) -> list[int]:
    return [event.line for event in events(Scanner([NEEDLE, COUNTED]).scan(BytesIO(data), block).hits, "log") if event.id == "test.needle"]


@pytest.mark.parametrize("block", [7, 64, 1000, 4 * 2**20])
def test_lines_are_counted_alike_whatever_the_size_of_the_blocks(block: int) -> None:
    data = b"one\ntwo needle=1\r\nthree\rfour needle=2\n\nneedle=3"
    assert lines_of(data, block) == [2, 3, 5]


def test_a_carriage_return_begins_no_line() -> None:
    assert lines_of(b"progress 1%\rprogress 2%\rneedle=4\nnext needle=5\n") == [1, 2]


@pytest.mark.parametrize("place", [0, 10_000, 2**20 - 3, 3 * 2**20])
def test_a_needle_in_an_endless_line_is_found_once_with_a_bounded_window(place: int) -> None:
    data = b"x" * place + b" needle=7 " + b"y" * (4 * 2**20 - place)
    scan = Scanner([NEEDLE]).scan(BytesIO(data), 2**20)
    assert len(scan.hits) == 1
    assert len(scan.hits[0].raw) <= 2 * REACH + len(b"needle=")
    assert scan.lines == 1


def test_a_million_matches_keep_the_first_and_the_last() -> None:
    scan = Scanner([NEEDLE]).scan(BytesIO(b"needle=1\n" * 1_000_000))
    assert [hit.line for hit in scan.hits[:KEEP]] == list(range(1, KEEP + 1))
    assert [hit.line for hit in scan.hits[-KEEP:]] == list(range(1_000_001 - KEEP, 1_000_001))
    assert len(scan.hits) == 2 * KEEP
    assert scan.dropped > 0


def test_what_is_printed_all_the_time_is_counted_and_sampled() -> None:
    scan = Scanner([COUNTED]).scan(BytesIO(b"hay hay\n" * 500_000))
    assert len(scan.hits) < 10
    assert scan.hits[0].line == 1
    assert scan.hits[-1].line == 500_000


def test_of_what_is_printed_all_the_time_few_samples_are_kept_the_first_and_the_last_among_them() -> None:
    scan = Scanner([COUNTED]).scan(BytesIO(b"hay hay\n" * 50_000), 1024)
    assert len(scan.hits) == 2 * SAMPLES
    assert (scan.hits[0].line, scan.hits[-1].line) == (1, 50_000)


def test_a_number_of_a_thousand_digits_is_no_number() -> None:
    found = events(Scanner([NEEDLE]).scan(BytesIO(b"needle=" + b"9" * 1000 + b"\n")).hits, "log")
    assert [event.fields for event in found] == [{}]


def test_bytes_that_are_no_text_are_read_all_the_same() -> None:
    assert lines_of(b"\xff\xfe\x00 needle=3 \x80\n\x00\x00\n") == [1]


def test_the_last_lines_are_kept_for_showing_where_a_log_stops() -> None:
    scan = Scanner([NEEDLE]).scan(BytesIO(b"a\nb\n\n  \nlast line\n\n"))
    assert scan.tail[-1] == (5, b"last line")


def test_one_scanner_serves_several_checks_at_once() -> None:
    scanner, data = Scanner([NEEDLE]), b"needle=1\nhay\n" * 200_000
    with ThreadPoolExecutor(4) as pool:
        scans = list(pool.map(lambda _: scanner.scan(BytesIO(data)), range(8)))
    assert {(scan.lines, len(scan.hits), scan.dropped) for scan in scans} == {(scans[0].lines, len(scans[0].hits), scans[0].dropped)}
    assert scans[0].lines == 400_000
