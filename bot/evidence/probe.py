"""What the probes of one check share: the desk they lay their files on, and how a failure becomes a Gap.

Every text is redacted before it is laid down, so nothing downstream sees a secret. It reads nothing itself.
"""

import io
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from bot.errors import Forbidden, HostKeyUnknown, NotFound, TimedOut, Unreachable, Unsupported, WorldError
from bot.model import BundleFile, Gap
from bot.ports import Json
from bot.redact import redact, redact_text

FILE_CAP = 8 << 20  # bytes of one file of a bundle

TELLS = {
    "pod.json": "how the containers ended, their limits and probes",
    "workload.json": "which object a person would change",
    "events.json": "evictions, probe failures, scheduling and admission",
    "container.log": "what the server printed before it stopped",
    "previous.log": "what the server printed before it was restarted",
    "node.json": "the node's conditions, sizes and cards",
    "kernel.log": "whether the kernel killed a process for memory, and for which limit",
    "nvidia-smi.txt": "which cards there are, how full they are and who holds them",
    "node_readings.txt": "memory of the node and of the container",
    "ray_status.txt": "which resources Ray waits for",
    "args.txt": "the server's arguments",
    "endpoint.json": "the state and the configuration of the endpoint",
}


@dataclass(slots=True)
class Desk:
    """Where probes lay down files, gaps and notes for `bundle.json`. Closed when the time is over: what comes later is dropped."""

    pieces: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    gaps: list[Gap] = field(default_factory=list)
    notes: dict[str, object] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)  # looked for, and there was none
    closed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, name: str, data: bytes, *, cut: bool = False, order: int = 0) -> None:
        """Lays down a file, redacted and capped. Pieces of one name are joined by `order` (what a pod says of itself comes behind what its node says)."""
        clean = redact(data)
        with self.lock:
            if self.closed:
                return
            self.pieces.setdefault(name, []).append((order, clean[:FILE_CAP]))
            if cut or len(clean) > FILE_CAP:
                self.cut.add(name)

    def put_json(self, name: str, value: object) -> None:
        self.put(name, as_json(value))

    def gap(self, source: str, reason: str, would_tell: str = "") -> None:
        with self.lock:
            if not self.closed:
                self.gaps.append(Gap(source, redact_text(reason), would_tell or TELLS.get(source, "")))

    def note(self, key: str, value: object) -> None:
        with self.lock:
            if not self.closed:
                self.notes[key] = value

    def none(self, name: str, why: str) -> None:
        """We looked, and there was none."""
        with self.lock:
            if not self.closed:
                self.absent[name] = why

    def bundle_files(self) -> dict[str, BundleFile]:
        """The files, complete; nothing is taken any more."""
        with self.lock:
            self.closed = True
        whole = {name: b"".join(data for _, data in sorted(parts, key=lambda part: part[0])) for name, parts in self.pieces.items()}
        return {name: BundleFile(name, partial(io.BytesIO, data), name in self.cut) for name, data in whole.items()}


def as_json(value: object) -> bytes:
    """JSON as kubectl prints it: indented, keys sorted."""
    return (json.dumps(value, indent=4, sort_keys=True, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def without_managed_fields(item: Json) -> Json:
    """Who last wrote each field is long, and nothing of it explains a failure; kubectl hides it too."""
    metadata = {key: value for key, value in (item.get("metadata") or {}).items() if key != "managedFields"}
    return {**item, "metadata": metadata}


def reason_of(wrong: WorldError) -> str:
    """Why something could not be read, for a Gap: the kind in words, then what the outside said."""
    kinds: tuple[tuple[type[WorldError], str], ...] = (
        (HostKeyUnknown, "SSH refused"),
        (Forbidden, "not permitted"),
        (TimedOut, "no answer in time"),
        (Unreachable, "not reachable"),
        (Unsupported, "not available"),
        (NotFound, "not there"),
    )
    kind = next((words for error, words in kinds if isinstance(wrong, error)), "could not be read")
    return f"{kind}: {wrong}"


@dataclass(frozen=True, slots=True)
class Deadline:
    """When this check's time is over (monotonic seconds)."""

    at: float
    now: Callable[[], float] = time.monotonic

    def left(self, most: float) -> float:
        """Seconds that are left, at most `most`. Raises TimedOut when there are none."""
        left = self.at - self.now()
        if left <= 0.05:
            raise TimedOut("the time for this check is over")
        return min(left, most)
