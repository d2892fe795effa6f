"""The audit trail: one JSON object a line, each chained to the one before by a keyed hash. It is only ever added to.

    {"n": 1, "at": "...", "event": {...}, "prev": "<mac of line n - 1>", "mac": "<HMAC-SHA256 over n, at, event, prev>"}

The head (number and mac of the last line) is kept apart, in the store, and posted with each outcome: a trail that was cut
short, or written anew by somebody who has the key, does not end in it. The next entry follows that head and not whatever the
file ends in, so that what was cut stays missed however much is added behind it. Text is redacted before it is written. What a
person with the key AND the store AND all posted heads could do, this does not find.
"""

import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from bot.audit.check import Problem, problems
from bot.audit.lines import GENESIS, Head, added, newest_first, parsed, signature, written
from bot.errors import StoreError
from bot.ports import Clock

HEAD_FLAG = "audit_head"
LONGEST_TEXT = 16_000
log = logging.getLogger(__name__)


class Flags(Protocol):
    """Where the head is kept: a part of `ports.CaseStore`."""

    def get_flag(self, name: str) -> str | None: ...

    def set_flag(self, name: str, value: str | None) -> None: ...


def _without(event: Any, loose: Collection[str]) -> Any:
    return {name: value for name, value in event.items() if name not in loose} if isinstance(event, dict) else event


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
            return self._add(file, self._end(file), cleaned)

    def append_once(self, event: Mapping[str, Any], since: datetime, loose: Collection[str] = ()) -> Head:
        """The same, unless an entry of ours since then says the same but for the fields `loose`: then gives the head that this one made. For what is written
        before it is kept elsewhere: a killed process does it again. What cannot be found (a clock was set back) is added; nothing is ever left out for doubt."""
        cleaned = self._whole(self._clean(dict(event)))
        with self._lock, self._locked() as file:
            last = self._end(file)
            return self._said(file, cleaned, since.isoformat(), loose) or self._add(file, last, cleaned)

    def _add(self, file: BinaryIO, last: Head, cleaned: Any) -> Head:
        entry = {"n": last.n + 1, "at": self._clock.now().isoformat(), "event": cleaned, "prev": last.mac}
        head = Head(last.n + 1, signature(self._key, entry))
        self._tail = (added(file, written({**entry, "mac": head.mac})), head)
        if self._flags:
            self._flags.set_flag(HEAD_FLAG, str(head))
        return head

    def _said(self, file: BinaryIO, cleaned: Any, since: str, loose: Collection[str]) -> Head | None:
        """The head of the entry that says this already; one that somebody else wrote is none."""
        wanted = _without(cleaned, loose)
        for line in newest_first(file):
            entry = parsed(line)
            if entry is None:
                continue
            if str(entry["at"]) < since:
                return None
            if _without(entry["event"], loose) == wanted and signature(self._key, entry) == entry["mac"]:
                return Head(int(entry["n"]), str(entry["mac"]))
        return None

    def head(self) -> Head | None:
        """The head that is kept apart."""
        return Head.parse(self._flags.get_flag(HEAD_FLAG)) if self._flags else None

    def entries(self) -> Iterator[dict[str, Any]]:
        """What can be read, oldest first, whether or not it is sound (`verify` says that)."""
        for _, line in self._lines():
            entry = parsed(line)
            if entry is not None:
                yield entry

    def verify(self, posted: Head | None = None) -> list[Problem]:
        """Everything that is wrong, with its place. `posted`: a head from a thread (the start of its mac is enough), which must stand in the trail, too."""
        size, kept = self._now()
        return problems(self._lines(size), self._key, kept, posted, kept_apart=self._flags is not None)

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
            entry = parsed(line)
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
