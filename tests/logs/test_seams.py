"""Lines that a container runtime cut are read across the cut; the quote stands in the line that it names."""

import json
from io import BytesIO

import pytest

from bot.logs.parts import Part, line_feeds
from bot.logs.seams import KEPT, Seams
from tests.diagnosis.bundles import diagnose, knowledge

CUT = 16384
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.45 GiB. GPU 0 has a total capacity of 31.36 GiB of which 1.02 GiB is free. "
    "Including non-PyTorch memory, this process has 30.33 GiB memory in use."
)
FIRST = "2026-03-01T10:00:00.000000001Z"


def long_line(at: int, text: str = OOM) -> str:
    """A line with the message so that `at` letters of it stand in front of the cut."""
    return "x" * (CUT - at - 1) + " " + text


def cri(line: str, stream: str = "stderr", between: str = "") -> str:
    pieces = [line[begin : begin + CUT] for begin in range(0, len(line), CUT)]
    return between.join(f"{FIRST} {stream} {'P' if number + 1 < len(pieces) else 'F'} {piece}\n" for number, piece in enumerate(pieces))


def docker(line: str) -> str:
    pieces = [line[begin : begin + CUT] for begin in range(0, len(line), CUT)]
    pieces[-1] += "\n"
    return "".join(json.dumps({"log": piece, "stream": "stderr", "time": FIRST}, separators=(",", ":")) + "\n" for piece in pieces)


@pytest.mark.parametrize("at", [3, 30, 45, 60, 90, 140])
@pytest.mark.parametrize("write", [cri, docker])
def test_a_message_across_the_cut_is_understood_and_quoted_from_its_own_line(write: object, at: int) -> None:
    assert callable(write)
    text = write("before") + write(long_line(at)) + write("behind")
    found = diagnose({"container.log": text})
    assert found.family == "device_memory"
    assert all(quote.quote.strip(".") in text.split("\n")[quote.line - 1] for quote in found.evidence if quote.line)
    assert {quote.line for quote in found.evidence} & {2, 3}
    assert "1.45 GiB" in found.summary.en


def test_a_line_of_the_other_stream_may_stand_between() -> None:
    other = f"{FIRST} stdout F INFO: all is well\n"
    found = diagnose({"container.log": cri(long_line(45), between=other)})
    assert "1.45 GiB" in found.summary.en


def test_two_lines_that_only_follow_each_other_are_not_joined() -> None:
    line = long_line(30)
    text = f"{FIRST} stderr F {line[:CUT]}\n{FIRST} stderr F {line[CUT:]}\n"
    assert not any(hit.shown for hit in knowledge().scanner.scan(BytesIO(text.encode())).hits)


@pytest.mark.parametrize("write", [cri, docker])
def test_a_clients_text_behind_a_cut_is_still_the_clients(write: object) -> None:
    assert callable(write)
    prompt = f"INFO 03-01 10:00:00 [logger.py:43] Received request chatcmpl-1: prompt: '{'a' * 3 * CUT} {OOM} {'b' * 3 * CUT}', params: SamplingParams(n=1)"
    found = diagnose({"container.log": write(prompt) + write("INFO 03-01 10:00:01 [async_llm.py:270] Added request chatcmpl-1.")})
    assert found.family != "device_memory"


def test_a_cut_between_two_blocks_is_seen() -> None:
    text = cri(long_line(45))
    scan = knowledge().scanner.scan(BytesIO(text.encode()), block=17_000)
    assert any(hit.message.id.startswith("torch.") and b"1.45 GiB" in hit.raw for hit in scan.hits)


@pytest.mark.parametrize("write", [cri, docker])
def test_a_cut_in_the_middle_of_a_large_log_is_seen(write: object) -> None:
    assert callable(write)
    usual = write("INFO: all is well, a usual line of a server") * 40_000
    assert "1.45 GiB" in diagnose({"container.log": usual + write(long_line(45)) + usual}).summary.en


def test_a_log_full_of_cuts_keeps_a_few_of_them() -> None:
    data = bytearray(b"".join(f"{FIRST} stdout P {'x' * 8000}\n".encode() for _ in range(4 * KEPT)))
    seams = Seams(lambda _head, _before: False)
    seams.look(Part(data, len(data), 0, b"", line_feeds(data, 0, len(data))))
    assert len(seams.found) == 2 * KEPT


def test_a_coloured_word_in_a_message_is_no_reason_to_miss_it() -> None:
    line = "\x1b[31mtorch.OutOfMemoryError\x1b[0m: \x1b[1;31mCUDA out of\x1b[0m memory. Tried to allocate \x1b[36m1.45\x1b[0m GiB. GPU \x1b[36m0\x1b[0m has a total capacity of 31.36 GiB of which 1.02 GiB is free."
    found = diagnose({"container.log": f"starting\n{line}\n"})
    assert (found.family, found.evidence[0].line) == ("device_memory", 2)
    assert found.evidence[0].quote in line
