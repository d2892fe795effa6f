"""The audit trail: one JSON object a line, each chained to the one before by a keyed hash. It is only ever added to.

    {"n": 1, "at": "...", "event": {...}, "prev": "<mac of line n - 1>", "mac": "<HMAC-SHA256 over n, at, event, prev>"}

The head (number and mac of the last line) is kept apart, in the store, and posted with each outcome: a trail that was cut
short, or written anew by somebody who has the key, does not end in it. Text is redacted before it is written. What a person
with the key AND the store AND all posted heads could do, this does not find.
"""

import fcntl
import hashlib
import hmac
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from bot.errors import BadInput, StoreError
from bot.ports import Clock

HEAD_FLAG = "audit_head"
GENESIS = "0" * 64
LONGEST_TEXT = 16_000


class Flags(Protocol):
    """Where the head is kept: a part of `ports.CaseStore`."""

    def get_flag(self, name: str) -> str | None: ...

    def set_flag(self, name: str, value: str | None) -> None: ...


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


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it was written. `line` counts from 1; 0 is the file as a whole."""

    line: int
    what: str


class AuditTrail:
    """`redact` takes secrets out of text; `flags` keeps the head apart (None: it is not checked)."""

    def __init__(self, path: Path, key: bytes, clock: Clock, flags: Flags | None, redact: Callable[[bytes], bytes] = bytes) -> None:
        self.path, self._key, self._clock, self._flags, self._redact = path, key, clock, flags, redact
        self._lock = threading.Lock()
        self._tail: tuple[int, Head] | None = None  # size of the file when the head was read, and the head

    def append(self, event: Mapping[str, Any]) -> Head:
        """Adds one event, durable when it returns, and gives the new head. Raises StoreError."""
        cleaned = self._whole(self._clean(dict(event)))
        with self._lock, self._locked() as file:
            last = self._last(file)
            entry = {"n": last.n + 1, "at": self._clock.now().isoformat(), "event": cleaned, "prev": last.mac}
            head = Head(last.n + 1, self._mac(entry))
            line = json.dumps({**entry, "mac": head.mac}, ensure_ascii=True, sort_keys=True).encode() + b"\n"
            file.seek(0, os.SEEK_END)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
            self._tail = (file.tell(), head)
            if self._flags:
                self._flags.set_flag(HEAD_FLAG, str(head))
        return head

    def head(self) -> Head | None:
        """The head that is kept apart."""
        return Head.parse(self._flags.get_flag(HEAD_FLAG)) if self._flags else None

    def entries(self) -> Iterator[dict[str, Any]]:
        """What can be read, oldest first, whether or not it is sound (`verify` says that)."""
        for _, line in self._lines():
            entry = _parsed(line)
            if entry is not None:
                yield entry

    def verify(self, posted: Head | None = None) -> list[Problem]:
        """Everything that is wrong, with its place. `posted`: a head from a thread (the start of its mac is enough), which must stand in the trail, too."""
        problems: list[Problem] = []
        macs: dict[int, str] = {}
        last = Head(0, GENESIS)
        for number, line in self._lines():
            entry = _parsed(line)
            if entry is None:
                problems.append(Problem(number, "cut short: no end of line" if not line.endswith(b"\n") else "not an entry"))
                continue
            problems += [Problem(number, what) for what in self._check(entry, last)]
            last = Head(int(entry["n"]), str(entry["mac"]))
            macs[last.n] = last.mac
        for head, whose in ((self.head(), "kept in the store"), (posted, "that was posted")):
            problems += self._check_head(head, whose, macs, last)
        if self._flags and macs and self.head() is None:
            problems.append(Problem(0, "the store keeps no head: it is another store, or its head was taken away"))
        return problems

    def _check(self, entry: Mapping[str, Any], last: Head) -> Iterator[str]:
        if not hmac.compare_digest(self._mac(entry), str(entry["mac"])):
            yield "edited, or written with another key"
        if entry["n"] != last.n + 1:
            yield f"entry {entry['n']} follows entry {last.n}: {'entries are missing' if entry['n'] > last.n + 1 else 'entries stand twice or in another order'}"
        elif entry["prev"] != last.mac:
            yield "does not follow from the entry before it"

    @staticmethod
    def _check_head(head: Head | None, whose: str, macs: Mapping[int, str], last: Head) -> list[Problem]:
        if head is None or macs.get(head.n, "").startswith(head.mac):
            return []
        if head.n > last.n:
            return [Problem(0, f"truncated: it ends at entry {last.n}, but the head {whose} is entry {head.n}")]
        return [Problem(0, f"rewritten: entry {head.n} is not the one of the head {whose}")]

    def _mac(self, entry: Mapping[str, Any]) -> str:
        signed = json.dumps([entry["n"], entry["at"], entry["event"], entry["prev"]], ensure_ascii=True, sort_keys=True, separators=(",", ":"))
        return hmac.new(self._key, signed.encode(), hashlib.sha256).hexdigest()

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            short = value if len(value) <= LONGEST_TEXT else value[:LONGEST_TEXT] + "..."
            return self._redact(short.encode("utf-8", "backslashreplace")).decode("utf-8", "replace")
        if isinstance(value, Mapping):
            return {str(key): self._clean(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._clean(part) for part in value]
        return value if value is None or isinstance(value, (bool, int, float)) else self._clean(str(value))

    def _whole(self, event: Any) -> Any:
        """Once more over the event as JSON: a value may be secret by the name that stands beside it."""
        redacted = self._redact(json.dumps(event, ensure_ascii=False).encode("utf-8", "backslashreplace"))
        try:
            return json.loads(redacted)
        except ValueError:
            return event

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        """The file, for adding, with other processes (a terminal) kept out."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield file
        except OSError as wrong:
            raise StoreError(f"{self.path}: {wrong.strerror or 'cannot be written'}") from wrong

    def _last(self, file: BinaryIO) -> Head:
        """The last sound entry. A last line without an end was torn by a power cut before anybody relied on it: it is taken off."""
        size = file.seek(0, os.SEEK_END)
        if self._tail and self._tail[0] == size:
            return self._tail[1]
        file.seek(0)
        last, whole = Head(0, GENESIS), 0
        for line in file:
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            entry = _parsed(line)
            if entry is not None:
                last = Head(int(entry["n"]), str(entry["mac"]))
        if whole != size:
            file.truncate(whole)
        return last

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        try:
            with self.path.open("rb") as file:
                yield from enumerate(file, 1)
        except FileNotFoundError:
            return
        except OSError as wrong:
            raise StoreError(f"{self.path}: {wrong.strerror or 'cannot be read'}") from wrong


def _parsed(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    sound = isinstance(entry, dict) and {"n", "at", "event", "prev", "mac"} <= entry.keys() and type(entry["n"]) is int
    return entry if sound else None


def load_key(path: Path, given: str = "", *, make: bool = True) -> bytes:
    """The key: `given` by the settings, else the file's, else made there (0600). Raises BadInput."""
    if given:
        return given.encode()
    try:
        if make and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_hex(32) + "\n")
                file.flush()
                os.fsync(file.fileno())
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as wrong:
        raise BadInput(f"{path}: the key of the audit trail cannot be read ({getattr(wrong, 'strerror', None) or 'not text'})") from wrong
    if len(key) < 32:
        raise BadInput(f"{path}: the key of the audit trail is shorter than 32 characters")
    return key.encode()
