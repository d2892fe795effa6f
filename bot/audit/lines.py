"""A line of the audit trail and the head that it makes: how an entry is written, read, signed, and added durably. It knows no trail."""

import hashlib
import hmac
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

GENESIS = "0" * 64
BLOCK = 1 << 16  # bytes that are read at once


@dataclass(frozen=True, slots=True)
class Head:
    n: int
    mac: str

    def __str__(self) -> str:
        return f"{self.n}:{self.mac}"

    @classmethod
    def parse(cls, text: str | None) -> "Head | None":
        number, _, mac = (text or "").partition(":")
        return cls(int(number), mac) if number.isdigit() and mac else None


def signature(key: bytes, entry: Mapping[str, Any]) -> str:
    """The mac of an entry: over its number, time, event, and the mac before it."""
    signed = json.dumps([entry["n"], entry["at"], entry["event"], entry["prev"]], ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hmac.new(key, signed.encode(), hashlib.sha256).hexdigest()


def added(file: BinaryIO, line: bytes) -> int:
    """Adds a line, durable, and gives the size of the file. What could not be written whole (a full disk) is taken off again. Raises OSError."""
    before, descriptor = file.seek(0, os.SEEK_END), file.fileno()
    try:
        written = 0
        while written < len(line):  # past the buffer of `file`, which would try again when it is closed
            written += os.pwrite(descriptor, line[written:], before + written)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, before)
        raise
    return before + len(line)


def newest_first(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file that ends in a whole one, from its end."""
    start, rest = file.seek(0, os.SEEK_END), b""
    while start > 0:
        end, start = start, max(0, start - BLOCK)
        file.seek(start)
        rest, *lines = (file.read(end - start) + rest).split(b"\n")
        yield from (line + b"\n" for line in reversed(lines) if line)
    if rest:
        yield rest + b"\n"


def written(entry: Mapping[str, Any]) -> bytes:
    """An entry as its line."""
    return json.dumps(entry, ensure_ascii=True, sort_keys=True).encode() + b"\n"


def parsed(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    sound = isinstance(entry, dict) and {"n", "at", "event", "prev", "mac"} <= entry.keys() and type(entry["n"]) is int
    return entry if sound else None
