"""Anything under any name that a bundle knows: an answer and a Gap, soon, and never an exception."""

import bz2
import gzip
import json
import lzma
import os
import random
import socket
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
import zstandard

from bot.evidence.args_text import read as read_args
from bot.evidence.bundle import NAMES, open_path
from bot.incident import examine, to_json
from bot.model import Diagnosis
from bot.playbooks import load
from bot.terminal.text import note

KNOWLEDGE = load()
EVERY_NAME = (*NAMES, "logs/server.log")
MOST_S = 8.0  # of processor time for one bundle: many times what any of these takes
LOG = b"ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB\n" * 400
POD = b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}'
DICE = random.Random(7)
NOISE = DICE.randbytes(60)


def alias_bomb() -> bytes:
    """YAML that grows ninefold a line where aliases are followed."""
    lines = [b"a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [b"a%d: &a%d [%s]" % (depth, depth, b",".join([b"*a%d" % (depth - 1)] * 9)) for depth in range(1, 12)]
    return b"\n".join(lines)


CONTENTS: dict[str, bytes] = {
    "nothing": b"",
    "noise": DICE.randbytes(100_000),
    "zeros": bytes(200_000),
    "a byte order mark": b"\xef\xbb\xbf" + POD,
    "UTF-16": (POD + b"\n" + LOG).decode().encode("utf-16"),
    "UTF-16 without a mark": LOG.decode().encode("utf-16-le"),
    "line feeds only": b"\n" * 500_000,
    "CRLF": LOG.replace(b"\n", b"\r\n"),
    "a progress bar of carriage returns": b"Loading: 50%|#####     | 1/2 [00:01<00:01]\r" * 5_000,
    "blanks": b" " * 500_000,
    "tabs in long lines": (b"\t" * 19_999 + b"\n") * 12,
    "one long line": b"x" * 1_000_000,
    "quotes": b'"' * 200_000,
    "backslashes": b"\\" * 200_000,
    "digits": b"9" * 300_000,
    "a number of a million digits in JSON": b'{"metadata": {"generation": ' + b"9" * 1_000_000 + b"}}",
    "numbers that are none": b'{"status": 1e999999, "x": -1e-999999, "n": NaN, "i": Infinity, "containers": [Infinity]}',
    "deep lists": b"[" * 50_000 + b"]" * 50_000,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "an open object": b'{"kind": "Pod", "metadata": {"annotations": {"x": "' + b"y" * 300_000,
    "not an object": b'"just a text"',
    "null": b"null",
    "lists in lists": b"[[], [[]], {}, null, 5]",
    "items that are nothing": b'{"items": [' + b"{}, null, 5, " * 20_000 + b"[]]}",
    "many keys": b"{" + b",".join(b'"k%d": %d' % (number, number) for number in range(50_000)) + b"}",
    "lone surrogates": b'{"kind": "Pod", "metadata": {"name": "\\ud800", "namespace": "\\u0000\\udfff"}}',
    "times that are none": b'{"status": {"startTime": "9999-99-99T99:99:99Z", "conditions": [{"lastTransitionTime": "0000-00-00T00:00:00Z"}]}}',
    "a YAML bomb": alias_bomb(),
    "deep YAML": b"".join(b" " * depth + b"a:\n" for depth in range(1_000)),
    "dashes": b"- " * 200_000,
    "one option again and again": b"--max-model-len " * 20_000,
    "table lines": b"| 0  NVIDIA A100 | 0MiB / 81920MiB |\n" * 10_000,
    "kills without an end": b"[123.456] Memory cgroup out of memory: Killed process 1 (a) total-vm:1kB\n" * 10_000,
    "colours": b"\x1b[31m" * 50_000,
    "huge counters": b"MemTotal: " + b"9" * 400 + b" kB\nmemory.max " + b"9" * 5_000 + b"\noom_kill " + b"9" * 5_000 + b"\n",
    "gzip": gzip.compress(LOG),
    "gzip, cut off": gzip.compress(LOG)[:-20],
    "gzip, its first bytes only": b"\x1f\x8b",
    "gzip, damaged": gzip.compress(LOG)[:20] + NOISE,
    "zstd": zstandard.compress(LOG),
    "zstd, cut off": zstandard.compress(LOG)[:-20],
    "zstd, its first bytes only": b"\x28\xb5\x2f\xfd",
    "zstd, damaged": zstandard.compress(LOG)[:12] + NOISE,
    "xz": lzma.compress(LOG),
    "xz, cut off": lzma.compress(LOG)[:-20],
    "xz, damaged": lzma.compress(LOG)[:24] + NOISE,
    "bzip2": bz2.compress(LOG),
    "bzip2, cut off": bz2.compress(LOG)[:-20],
    "bzip2, damaged": bz2.compress(LOG)[:24] + NOISE,
    "nothing but empty gzip members": gzip.compress(b"") * 20_000,
    "nothing but empty bzip2 members": bz2.compress(b"") * 20_000,
    "nothing but empty xz members": lzma.compress(b"") * 10_000,
}


def answered(folder: Path) -> Diagnosis:
    begin = time.process_time()
    found = examine(open_path(str(folder)), KNOWLEDGE)
    json.dumps(to_json(str(folder), found), allow_nan=False).encode()
    for language in ("en", "zh"):
        note(str(folder), found, language)
    assert time.process_time() - begin < MOST_S
    return found


@pytest.mark.parametrize("name", EVERY_NAME)
def test_any_content_under_any_name_is_answered(tmp_path: Path, name: str) -> None:
    for number, content in enumerate(CONTENTS.values()):
        place = tmp_path / str(number) / name
        place.parent.mkdir(parents=True)
        place.write_bytes(content)
        answered(tmp_path / str(number))


def folder(place: Path) -> None:
    place.mkdir()


def pipe_that_nobody_writes(place: Path) -> None:
    os.mkfifo(place)


def ear(place: Path) -> None:
    os.chdir(place.parent)  # a socket's path may not be long
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place.name)


def link_to_nothing(place: Path) -> None:
    place.symlink_to("not-there")


def link_to_itself(place: Path) -> None:
    place.symlink_to(place.name)


def link_that_leads_out(place: Path) -> None:
    place.symlink_to("/etc/passwd")


def device(place: Path) -> None:
    place.symlink_to("/dev/zero")


@pytest.mark.parametrize("name", EVERY_NAME)
@pytest.mark.parametrize("put", [folder, pipe_that_nobody_writes, ear, link_to_nothing, link_to_itself, link_that_leads_out, device])
def test_what_is_no_file_is_a_gap_and_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: Callable[[Path], None], name: str) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / name
    place.parent.mkdir(exist_ok=True)
    put(place)
    assert [gap for gap in answered(tmp_path).gaps if gap.source == name]


def test_a_command_line_of_blanks_takes_no_longer_than_its_length() -> None:
    def seconds(blanks: int) -> float:
        begin = time.process_time()
        read_args(b"\t" * blanks + b"x", "args.txt")
        return time.process_time() - begin

    assert min(seconds(16_000) for _ in range(3)) < 40 * max(min(seconds(1_000) for _ in range(3)), 0.0005)


def test_every_name_is_tried_with_every_content() -> None:
    assert len(set(chain(EVERY_NAME, NAMES))) == len(EVERY_NAME)
