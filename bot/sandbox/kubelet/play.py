"""What a container does from its start to its end, as data: a Play. The kubelet shows it; nothing here runs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bot.ports import Json

CLOCK = "\x00"  # in a line: replaced by the time at which it is printed, as vLLM writes it


@dataclass(frozen=True, slots=True)
class Line:
    """`at`: seconds since the start of the container."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class HostKill:
    """The kernel kills a process of the container. `limit` is the cgroup's, None when the whole node ran out."""

    process: str
    anon_bytes: int
    limit: int | None
    shmem_bytes: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """How the main process ends. `reason` as the runtime gives it: Error, Completed, OOMKilled."""

    at: float
    exit_code: int
    reason: str = "Error"
    kill: HostKill | None = None


@dataclass(frozen=True, slots=True)
class Play:
    """`ready_at` None: never. `device` and `host`: (seconds, bytes held from then on) on each of its cards, and of host memory.

    `leaves_after`: seconds from SIGTERM to its exit once it is ready, `leaves_early` before that; None: it does not listen, and is
    killed when the grace period is over."""

    lines: tuple[Line, ...] = ()
    ready_at: float | None = 0.0
    end: End | None = None
    device: tuple[tuple[float, int], ...] = ()
    host: tuple[tuple[float, int], ...] = ()
    process: str = "python3"
    leaves_after: float | None = 1.0
    leaves_early: float | None = 1.0
    hangs_at: float | None = None  # from then on its health endpoint does not answer

    def held(self, at: float) -> int:
        """Bytes of each card at that time."""
        return next((size for since, size in reversed(self.device) if since <= at), 0)

    def host_bytes(self, at: float) -> int:
        return next((size for since, size in reversed(self.host) if since <= at), 0)


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU as the container finds it, before it has taken anything. `total_bytes` is what CUDA reports."""

    name: str
    total_bytes: int
    others: tuple[tuple[int, int], ...] = ()  # (pid on the host, bytes) of those who hold memory already

    @property
    def others_bytes(self) -> int:
        return sum(size for _, size in self.others)


@dataclass(frozen=True, slots=True)
class Place:
    """What a container finds when it starts."""

    cards: tuple[Card, ...] = ()
    memory_limit: int | None = None
    node_memory: int = 256 << 30
    attempt: int = 0
    pid: int = 4242  # of its main process, on the host
    environment: Json = field(default_factory=dict)


Behaviour = Callable[[Json, Place], Play]  # (container of the pod's spec, where it runs)


def rendered(text: str, at: float) -> str:
    """A line with its time in it."""
    return text.replace(CLOCK, datetime.fromtimestamp(at, UTC).strftime("%m-%d %H:%M:%S"))


def scripted(script: Json) -> Behaviour:
    """A Play from plain data: {"log": ["line", ...], "ready_after": 1, "exit_code": 1, "exit_after": 3, "reason": "Error", "attempts": 2}.

    With `attempts` only that many starts fail. Without `exit_code` it runs on. The lines come spread before its end, or at once."""

    def behave(container: Json, place: Place) -> Play:
        fails = "exit_code" in script and place.attempt < int(script.get("attempts", 1 << 30))
        over = float(script.get("exit_after", 1))
        words = [str(line) for line in script.get("log") or [f"{container['name']} started"]]
        gap = over / (len(words) + 1) if fails else 0.0
        lines = tuple(Line(gap * number, text) for number, text in enumerate(words))
        kill = None
        if script.get("reason") == "OOMKilled":
            kill = HostKill("python3", place.memory_limit or place.node_memory, place.memory_limit)
        end = End(over, int(script["exit_code"]), str(script.get("reason", "Error")), kill) if fails else None
        ready_after = script.get("ready_after", 0)
        ready = None if ready_after is None or (end and float(ready_after) >= over) else float(ready_after)
        leaves = script.get("leaves_after", 1.0)
        leaves = None if leaves is None else float(leaves)
        return Play(lines, ready, end, leaves_after=leaves, leaves_early=leaves)

    return behave
