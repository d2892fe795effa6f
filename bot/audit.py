"""The audit trail: one JSON object a line, each chained to the one before by a keyed hash. It is only ever added to.

    {"n": 1, "at": "...", "event": {...}, "prev": "<mac of line n - 1>", "mac": "<HMAC-SHA256 over n, at, event, prev>"}

The head (number and mac of the last line) is kept apart, in the store, and posted with each outcome: a trail that was cut
short, or written anew by somebody who has the key, does not end in it. The next entry follows that head and not whatever the
file ends in, so that what was cut stays missed however much is added behind it. Text is redacted before it is written. What a
person with the key AND the store AND all posted heads could do, this does not find.
"""

import fcntl
import hashlib
import hmac
import json
import logging
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
FOREIGN = "edited, or written with another key"
log = logging.getLogger(__name__)


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
            last = self._end(file)
            entry = {"n": last.n + 1, "at": self._clock.now().isoformat(), "event": cleaned, "prev": last.mac}
            head = Head(last.n + 1, self._mac(entry))
            self._tail = (_added(file, _written({**entry, "mac": head.mac})), head)
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
        size, kept = self._now()
        for number, line in self._lines(size):
            entry = _parsed(line)
            if entry is None:
                problems.append(Problem(number, "cut short: no end of line" if not line.endswith(b"\n") else "not an entry"))
                continue
            problems += [Problem(number, what) for what in self._check(entry, line, last)]
            last = Head(int(entry["n"]), str(entry["mac"]))
            macs[last.n] = last.mac
        for head, whose in ((kept, "kept in the store"), (posted, "that was posted")):
            problems += self._check_head(head, whose, macs, last)
        if self._flags and macs and kept is None:
            problems.append(Problem(0, "the store keeps no head: it is another store, or its head was taken away"))
        return _in_runs(problems, len(macs))

    def _now(self) -> tuple[int, Head | None]:
        """How long the file is and the head that is kept, at one moment: a bot that runs may add to both at any other."""
        try:
            with self.path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH)
                return file.seek(0, os.SEEK_END), self.head()
        except FileNotFoundError:
            return 0, self.head()
        except OSError as wrong:
            raise StoreError(f"{self.path}: {wrong.strerror or 'cannot be read'}") from wrong

    def _check(self, entry: Mapping[str, Any], line: bytes, last: Head) -> Iterator[str]:
        if not hmac.compare_digest(self._mac(entry).encode(), str(entry["mac"]).encode("utf-8", "backslashreplace")):
            yield FOREIGN
        elif _written(entry) != line:  # a key that stands twice, other spaces: who reads the file may see another entry than we do
            yield "edited: the same entry in other bytes"
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

    def _end(self, file: BinaryIO) -> Head:
        """What the next entry follows: the last one, or, where the trail does not hold the head that is known, that head.
        A last line without an end was torn by a power cut before anybody relied on it: it is taken off."""
        size = file.seek(0, os.SEEK_END)
        if self._tail and self._tail[0] == size:
            return self._tail[1]
        known = max((head for head in (self.head(), self._tail[1] if self._tail else None) if head), key=lambda head: head.n, default=None)
        file.seek(0)
        last, whole, held = Head(0, GENESIS), 0, known is None
        for line in file:
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            entry = _parsed(line)
            if entry is not None:
                last = Head(int(entry["n"]), str(entry["mac"]))
                held = held or last == known
        if whole != size:
            file.truncate(whole)
        if held or known is None:
            return last
        log.error("%s does not hold its entry %d any more: it was cut, or written anew (oombot audit verify)", self.path, known.n)
        return Head(max(last.n, known.n), known.mac)

    def _lines(self, size: int | None = None) -> Iterator[tuple[int, bytes]]:
        """The lines, of the first `size` bytes alone when that is given."""
        try:
            with self.path.open("rb") as file:
                left = size
                for number, line in enumerate(file, 1):
                    if left is not None and left <= 0:
                        return
                    yield number, line if left is None else line[:left]
                    left = left if left is None else left - len(line)
        except FileNotFoundError:
            return
        except OSError as wrong:
            raise StoreError(f"{self.path}: {wrong.strerror or 'cannot be read'}") from wrong


def _added(file: BinaryIO, line: bytes) -> int:
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


def _written(entry: Mapping[str, Any]) -> bytes:
    """An entry as its line."""
    return json.dumps(entry, ensure_ascii=True, sort_keys=True).encode() + b"\n"


def _in_runs(problems: list[Problem], entries: int) -> list[Problem]:
    """One problem for many lines in a row that have the same: a replaced key would else be told once an entry."""
    foreign = [problem.line for problem in problems if problem.what == FOREIGN]
    if entries > 1 and len(foreign) == entries:
        return [Problem(0, f"none of its {entries} entries fits the key: the key was replaced, or somebody else wrote them"), *(one for one in problems if one.what != FOREIGN)]
    kept: list[Problem] = []
    runs = {line for line in foreign if line - 1 in foreign}
    for problem in problems:
        if problem.what == FOREIGN and problem.line in runs:
            continue
        end = problem.line
        while problem.what == FOREIGN and end + 1 in runs:
            end += 1
        kept.append(Problem(problem.line, f"{FOREIGN} (all to line {end})") if end > problem.line else problem)
    return kept


def _parsed(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
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
