"""Which run of a log is the incident, where in its life it failed, and which line is the root.

A file may hold several attempts (the last is the incident), several servers (docker compose), an orderly shutdown that prints the same words as a
death, and a cascade of followers behind the first failing process. Order decides, not words. Pure; knows roles and phases, no message by name.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bot.logs.events import Event
from bot.logs.scan import Scan
from bot.model import Phase

STACK = 600  # lines in front of a root in which its traceback may stand
WEAK = 6  # errors of this tier and above say little: a server that goes on answering has survived them
NEAR = 400  # lines behind a root in which its followers may stand
_SERVER = re.compile(r"(?i)^(?:api_?server|engine_?core)")
_CORE = re.compile(r"(?i)^engine_?core")

# Which frame says more about the phase, when a stack goes through several: capture is called by warm-up, profiling runs the model as serving does.
_SPECIFIC = ("wake_up", "kv_transfer")
_PHASES = (Phase.GRAPH_CAPTURE, Phase.WARMUP, Phase.CACHE_ALLOCATION, Phase.PROFILING, Phase.WEIGHTS, Phase.DEVICE, Phase.SERVING)
_PURPOSES = (
    "wake_up", "kv_transfer", "sampler", "prompt_logprobs", "logprobs", "multimodal_encoder", "lora", "repacking", "weights_creation", "weights_reading", "draft_model",
    "cache", "graph_capture", "compilation", "communication", "device_context", "sampling", "activation",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Attempt:
    """The events of one run of the server, in order of lines."""

    events: tuple[Event, ...]

    @property
    def first_line(self) -> int:
        return self.events[0].line if self.events else 1


@dataclass(frozen=True, slots=True)
class Incident:
    """One log, understood. `events`: those of the last attempt. `basis`: what `phase` rests on (stack, message, follower, marker; "" when it is not known).
    `reached`: the last phase that the run entered before its root. `recovered`: the run went on after the root and served."""

    source: str
    events: tuple[Event, ...] = ()
    attempts: int = 0
    earlier: tuple[Event, ...] = ()  # the roots of earlier attempts, oldest first
    root: Event | None = None
    frames: tuple[Event, ...] = ()
    phase: Phase | None = None
    purpose: str = ""
    basis: str = ""
    reached: Phase | None = None
    shutdown: Event | None = None
    ended: Event | None = None
    ready: Event | None = None
    neighbours: tuple[str, ...] = ()  # other servers that write into the same file
    scan: Scan = field(default_factory=Scan)

    def of(self, message: str) -> list[Event]:
        """All events of one message, in order of lines."""
        return [event for event in self.events if event.id == message]

    def last(self, message: str) -> Event | None:
        found = self.of(message)
        return found[-1] if found else None

    @property
    def wrapped(self) -> Event | None:
        """The first error that only tells of another one."""
        return next((event for event in self.events if event.message.role == "wrapper"), None)


def _key(event: Event) -> tuple[str, str]:
    return event.id, event.prefix.process if _SERVER.match(event.prefix.process) or not event.prefix.process else f"{event.prefix.process}/{event.prefix.pid}"


def _same_process(one: Event, other: Event) -> bool:
    left, right = one.prefix, other.prefix
    if left.process and right.process and (left.process, left.pid) != (right.process, right.pid):
        return False
    return left.rank is None or right.rank is None or left.rank == right.rank or (left.pid is not None and left.pid == right.pid)


def attempts(events: Iterable[Event]) -> list[Attempt]:
    """Splits the events of one server into its runs: a start that was seen before, or after a failure, begins a new one; so does, after a failure, an
    engine process of the same name and another number."""
    runs: list[list[Event]] = [[]]
    started: set[tuple[str, str]] = set()
    engines: dict[str, int | None] = {}
    failed = False
    for event in events:
        role, process = event.message.role, event.prefix.process
        core = bool(process and _CORE.match(process))
        again = role == "start" and (_key(event) in started or failed)
        renewed = failed and core and engines.get(process, event.prefix.pid) != event.prefix.pid
        if runs[-1] and (again or renewed):
            runs.append(_behind_engines(runs[-1]) if renewed else [])
            started, engines, failed = set(), {}, False
        if role == "start":
            started.add(_key(event))
        if core:
            engines[process] = event.prefix.pid
        failed = failed or role in ("fatal", "wrapper", "ended")
        runs[-1].append(event)
    return [Attempt(tuple(run)) for run in runs]


def _behind_engines(run: list[Event]) -> list[Event]:
    """Takes what stands behind the last line of the old engine off the old run: it belongs to the new one."""
    last = max((index for index, event in enumerate(run) if _CORE.match(event.prefix.process)), default=len(run) - 1)
    behind = run[last + 1 :]
    del run[last + 1 :]
    return behind


def _ready(events: Sequence[Event], after: int = 0) -> Event | None:
    return next((event for event in events if event.message.role == "progress" and event.message.phase is Phase.SERVING and event.line > after), None)


def _root(events: Sequence[Event], shutdown: Event | None) -> Event | None:
    """The line that the failure began with: the most specific error of the earliest failing process, neither survived by the start nor part of a shutdown."""
    wrapped = {event.line for event in events if event.message.role == "wrapper"}
    candidates = [
        event
        for event in events
        if event.message.role == "fatal" and (shutdown is None or event.line < shutdown.line) and not (event.line in wrapped and event.message.tier > 5)
    ]
    ready = max((event.line for event in events if event.message.role == "progress" and event.message.phase is Phase.SERVING), default=0)
    alive = max((event.line for event in events if event.message.counted and event.message.phase in (None, Phase.SERVING) and event.message.role != "hint"), default=0)
    lasting = [
        event
        for event in candidates
        if (event.line > ready or event.message.phase is Phase.SERVING) and not (event.message.tier >= WEAK and ready < event.line < alive)
    ]
    if not lasting:
        return None
    best = min(event.message.tier for event in lasting)
    return min((event for event in lasting if event.message.tier == best), key=lambda event: event.line)


def _frames(events: Sequence[Event], root: Event) -> tuple[Event, ...]:
    """The frames of the root's traceback: before it, of its process, behind the last sign of progress of that process."""
    begin = root.line - STACK
    for event in events:
        if event.line >= root.line:
            break
        if event.message.role in ("progress", "start") and not event.message.counted and _same_process(event, root):
            begin = max(begin, event.line)
    return tuple(event for event in events if event.message.role == "frame" and begin <= event.line <= root.line and _same_process(event, root))


def _hint(events: Sequence[Event], root: Event) -> Event | None:
    near = [event for event in events if event.message.role in ("hint", "wrapper") and event.message.phase and abs(event.line - root.line) <= NEAR]
    return near[0] if near else None


def _where(events: Sequence[Event], root: Event, frames: Sequence[Event], reached: Phase | None) -> tuple[Phase | None, str]:
    if root.message.phase is not None:
        return root.message.phase, "message"
    for frame in frames:
        if frame.message.purpose in _SPECIFIC and frame.message.phase:
            return frame.message.phase, "stack"
    phases = {frame.message.phase for frame in frames}
    found = next((phase for phase in _PHASES if phase in phases), None)
    if found is Phase.SERVING and reached is not None and reached.order < Phase.CACHE_SIZING.order and not _ready(events):
        found = reached  # the profiling run executes the model by the same functions as a request does
    if found is not None:
        return found, "stack"
    hint = _hint(events, root)
    if hint is not None:
        return hint.message.phase, "follower"
    return reached, "marker" if reached else ""


def _purpose(root: Event, frames: Sequence[Event]) -> str:
    purposes = {frame.message.purpose for frame in frames} | {root.message.purpose}
    return next((purpose for purpose in _PURPOSES if purpose in purposes), "")


def _reached(events: Sequence[Event], root: Event | None) -> Phase | None:
    entered = [event.message.phase for event in events if event.message.role == "progress" and event.message.phase and (root is None or event.line < root.line)]
    return max(entered, key=lambda phase: phase.order, default=None)


def understand(events: Sequence[Event], source: str, scan: Scan) -> Incident:
    """The incident of one log file."""
    services: dict[str, list[Event]] = {}
    for event in events:
        services.setdefault(event.prefix.service, []).append(event)
    if len(services) == 1 or not services:
        return _one(events, source, scan, ())
    whole = {name: _one(found, source, scan, tuple(sorted(other for other in services if other and other != name))) for name, found in services.items()}
    failing = [incident for incident in whole.values() if incident.root is not None or incident.wrapped is not None]
    serving = [incident for incident in whole.values() if incident.reached is not None]
    return max(failing or serving or list(whole.values()), key=lambda incident: (incident.root.line if incident.root else 0, len(incident.events)))


def _one(events: Sequence[Event], source: str, scan: Scan, neighbours: tuple[str, ...]) -> Incident:
    runs = attempts(events)
    last = runs[-1].events
    shutdown = next((event for event in last if event.message.role == "shutdown"), None)
    root = _root(last, shutdown)
    if root is not None and shutdown is not None and shutdown.line < root.line:
        root = None
    frames = _frames(last, root) if root else ()
    reached = _reached(last, root)
    phase, basis = _where(last, root, frames, reached) if root else (None, "")
    earlier = [_root(run.events, next((e for e in run.events if e.message.role == "shutdown"), None)) for run in runs[:-1]]
    return Incident(
        source=source,
        events=last,
        attempts=len(runs),
        earlier=tuple(event for event in earlier if event is not None),
        root=root,
        frames=frames,
        phase=phase,
        purpose=_purpose(root, frames) if root else "",
        basis=basis,
        reached=reached,
        shutdown=shutdown,
        ended=next((event for event in last if event.message.role == "ended"), None),
        ready=_ready(last),
        neighbours=neighbours,
        scan=scan,
    )
