"""Which run of a log is the incident, where in its life it failed, and which line is the root.

A file may hold several attempts (`runs`; the last is the incident), several servers (docker compose), an orderly shutdown that prints the same words as
a death, and a cascade of followers behind the first failing process. Order decides, not words. Pure; knows roles and phases, no message by name.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from bot.logs.events import Event
from bot.logs.runs import QUIET, WEAK, Attempt, attempts
from bot.logs.scan import Scan
from bot.model import Phase

STACK = 600  # lines in front of a root in which its traceback may stand
BEHIND = 60  # lines behind a root without a stack of its own, in which another process may repeat it
CALL = 60  # lines around "a call failed" in which its error stands
AFTER = 40  # lines behind a root in which a word of progress, written to the other stream, may stand that belongs before it
FAR = 2000  # lines between what a failed call wrote past the log, to stderr, and the log's word of it
NEAR = 400  # lines behind a root in which its followers may stand
_STAGE = re.compile(r"Stage-\d{1,3}$")  # of vLLM-Omni, which serves one model with several engines

# Which frame says more about the phase, when a stack goes through several: capture is called by warm-up, profiling runs the model as serving does.
_SPECIFIC = ("wake_up", "kv_transfer", "idle_rank", "prompt_logprobs")
_CALLS = ("wake_up", "call")  # calls to an engine that may fail, and the engine lives on
_PHASES = (Phase.GRAPH_CAPTURE, Phase.WARMUP, Phase.CACHE_ALLOCATION, Phase.PROFILING, Phase.WEIGHTS, Phase.DEVICE, Phase.SERVING)
_PURPOSES = (
    "wake_up", "kv_transfer", "sampler", "prompt_logprobs", "logprobs", "multimodal_encoder", "lora", "repacking", "weights_creation", "weights_reading", "draft_model",
    "cache", "graph_capture", "compilation", "communication", "device_context", "sampling", "activation",
)  # fmt: skip


def _stage(event: Event) -> str | None:
    """The stage of a server that has several: by its name, or by the number of its process, as newer releases write it."""
    found = _STAGE.search(event.prefix.process)
    if found or event.prefix.pid is None or not event.prefix.process.startswith("StageEngineCore"):
        return found[0] if found else None
    return str(event.prefix.pid)


@dataclass(frozen=True, slots=True)
class Incident:
    """One log, understood. `events`: those of the last attempt. `basis`: what `phase` rests on (stack, message, follower, marker, behind; "" when it is not known).
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
    earlier_alive: Event | None = None  # weights that the run before put on the card, when nothing tells of its end and it was no server of its own
    asked_before: tuple[Event, ...] = ()  # what the run before was started with, where it failed
    passed_before: Event | None = None  # the first step of the run before, started alike, behind the one that this run failed at
    neighbours: tuple[str, ...] = ()  # other servers that write into the same file
    scan: Scan = field(default_factory=Scan)

    def of(self, message: str) -> list[Event]:
        """All events of one message, in order of lines."""
        return [event for event in self.events if event.id == message]

    def last(self, message: str) -> Event | None:
        found = self.of(message)
        return found[-1] if found else None

    @property
    def other_stages(self) -> tuple[Event, ...]:
        """What other engines of the same server wrote (of another stage than the failing one), each with numbers and a life of its own."""
        mine = _stage(self.root) if self.root is not None else None
        return tuple(event for event in self.events if _stage(event) not in (None, mine)) if mine is not None else ()

    @property
    def own(self) -> tuple[Event, ...]:
        """All events but those of `other_stages`."""
        others = {id(event) for event in self.other_stages}
        return tuple(event for event in self.events if id(event) not in others) if others else self.events

    @property
    def wrapped(self) -> Event | None:
        """The first error that only tells of another one."""
        return next((event for event in self.events if event.message.role == "wrapper"), None)

    @property
    def announced(self) -> Event | None:
        """The word of a process that an exception of its own follows: when there is no root, its words were cut off or nobody knows them. A process that goes
        on to tell of another one's failure has told all that it knows, and is no such word."""
        told = [event for event in self.events if event.message.role == "wrapper" and event.message.kind == "follower"]
        words = [event for event in self.events if event.message.role == "wrapper" and event.fields.get("own")]
        return next((word for word in words if not any(_same_process(word, event) and event.line > word.line for event in told)), None)


def _same_process(one: Event, other: Event) -> bool:
    left, right = one.prefix, other.prefix
    if left.process and right.process and (left.process, left.pid) != (right.process, right.pid):
        return False
    return left.rank is None or right.rank is None or left.rank == right.rank or (left.pid is not None and left.pid == right.pid)


def _without_lived_through(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """The events without words of an end that the server went on serving behind, and refused nobody: somebody's text, as a client may write into a log."""
    load = max((event for event in events if event.message.counted and event.message.role == "progress"), key=lambda event: event.line, default=None)
    refused = max((event.line for event in events if event.message.role == "hint" and event.message.phase is Phase.SERVING), default=0)
    if load is None or load.message.phase is not Phase.SERVING:
        return events
    return tuple(
        event for event in events if event.message.role not in ("wrapper", "shutdown", "ended") or event.line < refused or not _long_before(event, load)
    )


def _long_before(event: Event, load: Event) -> bool:
    """By the clock, or by lines where there is none: an ended server may report its load once or twice more."""
    if event.prefix.seconds is None or load.prefix.seconds is None:
        return load.line - event.line > NEAR
    return load.line > event.line and load.prefix.seconds - event.prefix.seconds > QUIET


def _over(events: Sequence[Event]) -> bool:
    """Whether anything tells of a run's end."""
    return any(event.message.role in ("fatal", "wrapper", "shutdown", "ended") for event in events)


def _same_again(runs: Sequence[Attempt]) -> bool:
    """Whether the last run starts with the arguments of the one before, which failed, and has not come beyond that failure yet: a crash loop, cut while
    it goes round. What it will end in is known."""
    if len(runs) < 2:
        return False
    before, last = runs[-2].events, runs[-1].events
    root = _root(before, None)
    told = {event.text for event in last if event.message.role == "start"}
    if root is None or not any("=" in text or "{" in text for text in told) or _over(last) or _ready(last):
        return False  # a version alone says nothing of arguments
    phase, _ = _where(before, root, _frames(before, root), _reached(before, root))
    reached = _reached(last, None)
    return told <= {event.text for event in before} and phase is not None and (reached is None or reached.order < phase.order)


def _passed(before: Sequence[Event], last: Sequence[Event], phase: Phase | None) -> Event | None:
    """The first step of the run before that lies behind `phase`, at which the last run failed, when both were started with the same arguments: what this
    step needs was there then."""
    told = {event.text for event in last if event.message.role == "start"}
    alike = any("=" in text or "{" in text for text in told) and told <= {event.text for event in before}
    steps = [event for event in before if event.message.role == "progress" and event.message.phase and phase and event.message.phase.order > phase.order]
    return steps[0] if alike and steps else None


def _ready(events: Sequence[Event], after: int = 0) -> Event | None:
    return next((event for event in events if event.message.role == "progress" and event.message.phase is Phase.SERVING and event.line > after), None)


@dataclass(frozen=True, slots=True)
class _Life:
    """The lines in which a run shows that it lives. Each is 0 when it never does."""

    begun: int  # the first one of serving, where the log has a start: no start survives what fails behind it
    started: int  # the last one of a start that ended well
    served: int  # the last one of serving
    reported: int  # the last report that a healthy server repeats
    newest: Event | None  # that of `served`

    def survived_start(self, event: Event) -> bool:
        """Whether the server came to serve behind the event."""
        return event.line <= min(self.served, self.begun) and not _later(event, self.newest)

    def outlived(self, event: Event) -> bool:
        """Whether an error that says little has life behind it; of a lasting one only a new start is any."""
        return event.message.tier >= WEAK and event.line < (self.started if event.message.lasting else max(self.served, self.reported))


def _life(events: Sequence[Event]) -> _Life:
    wrapped = max((event.line for event in events if event.message.role == "wrapper"), default=None)
    dead = wrapped + NEAR if wrapped is not None else 0  # what an API server prints meanwhile shows no life of its engine
    serving = [event for event in events if event.message.role == "progress" and event.message.phase is Phase.SERVING]
    newest = max((event for event in serving if not (event.message.counted and event.line < dead)), key=lambda event: event.line, default=None)
    served = newest.line if newest is not None else 0
    has_start = any(event.message.role in ("start", "progress") and not event.message.counted for event in events)
    reports = (event.line for event in events if event.message.counted and event.message.phase is Phase.SERVING and event.message.role != "hint")
    return _Life(
        begun=min((event.line for event in serving), default=served) if has_start else 0,
        started=max((event.line for event in serving if not event.message.counted), default=0),
        served=served,
        reported=max(reports, default=0),
        newest=newest,
    )


def _root(events: Sequence[Event], shutdown: Event | None) -> Event | None:
    """The line that the failure began with: the most specific error of the earliest failing process, neither survived by the start nor part of a shutdown."""
    wrapped = {event.line for event in events if event.message.role == "wrapper"}
    candidates = [
        event
        for event in events
        if event.message.role == "fatal" and (shutdown is None or event.line < shutdown.line) and not (event.line in wrapped and event.message.tier > 5)
    ]
    life = _life(events)
    calls = [event.line for event in events if event.message.role == "hint" and event.message.purpose in _CALLS]
    lasting = [
        event
        for event in candidates
        if not life.outlived(event)
        and (not life.survived_start(event) or event.message.phase is Phase.SERVING or any(abs(event.line - line) <= CALL for line in calls))
    ]
    if not lasting:
        return None
    best = min(event.message.tier for event in lasting)
    return min((event for event in lasting if event.message.tier == best), key=lambda event: event.line)


def _later(event: Event, other: Event | None) -> bool:
    """Whether the event is the later one by the clock, wherever it stands: two streams lie in one file and one may lag behind."""
    return other is not None and event.prefix.seconds is not None and other.prefix.seconds is not None and event.prefix.seconds > other.prefix.seconds


def _frames(events: Sequence[Event], root: Event) -> tuple[Event, ...]:
    """The frames of the root's traceback: before it, of its process, behind the last sign of progress of that process."""
    begin = root.line - STACK
    for event in events:
        if event.line >= root.line:
            break
        if event.message.role in ("progress", "start") and not event.message.counted and _same_process(event, root):
            begin = max(begin, event.line)
    mine = [event for event in events if event.message.role == "frame" and begin <= event.line <= root.line and _same_process(event, root)]
    if not mine:  # a line that sums an error up stands in front of its traceback
        mine = [event for event in events if event.message.role == "frame" and root.line < event.line <= root.line + BEHIND and _same_process(event, root)]
    if root.prefix.process:
        return tuple(mine)
    failing = {event.prefix.process for event in events if event.message.role in ("fatal", "wrapper")}
    return tuple(frame for frame in mine if not frame.prefix.process or frame.prefix.process not in failing)  # those have errors of their own to tell


def _hint(events: Sequence[Event], root: Event) -> Event | None:
    near = [event for event in events if event.message.role in ("hint", "wrapper") and event.message.phase and abs(event.line - root.line) <= NEAR]
    return min(near, key=lambda event: abs(event.line - root.line), default=None)


def _where(events: Sequence[Event], root: Event, frames: Sequence[Event], reached: Phase | None) -> tuple[Phase | None, str]:
    if root.message.phase is not None:
        return root.message.phase, "message"
    for frame in frames:
        if frame.message.purpose in _SPECIFIC and frame.message.phase:
            return frame.message.phase, "stack"
    phases = {frame.message.phase for frame in frames}
    if reached is not None and reached.order > Phase.DEVICE.order:
        phases.discard(Phase.DEVICE)  # buffers between the ranks are also made later on
    found = next((phase for phase in _PHASES if phase in phases), None)
    if found is Phase.SERVING and reached is not None and reached.order < Phase.CACHE_SIZING.order and not _ready(events):
        found = reached  # the profiling run executes the model by the same functions as a request does
    if found is Phase.CACHE_ALLOCATION and reached is Phase.GRAPH_CAPTURE:
        found = reached  # older engines capture within the call that makes the cache
    if found is not None:
        return found, "stack"
    hint = _hint(events, root)
    if hint is not None:
        return hint.message.phase, "follower"
    behind = {event.message.phase for event in events if event.message.role == "frame" and root.line < event.line <= root.line + BEHIND}
    told = next((phase for phase in _PHASES if phase in behind), None) if not frames else None
    if told is not None:
        return told, "follower"  # Ray and others repeat the stack behind the error
    entered = _overtaken(events, root)
    if entered is not None and (reached is None or reached.order < entered.order):
        return entered, "behind"
    if reached is None and any(event.message.counted and event.message.phase is Phase.SERVING and event.line < root.line for event in events):
        reached = Phase.SERVING  # requests were answered before; the start stands in an older log
    return reached, "marker" if reached else ""


def _overtaken(events: Sequence[Event], root: Event) -> Phase | None:
    """The last phase of which the root's process says right behind the root that it has entered it. Two streams lie in one file and either may overtake
    the other: a process that has died enters nothing any more."""
    behind = [
        event.message.phase
        for event in events
        if event.message.role == "progress" and root.line < event.line <= root.line + AFTER and _same_process(event, root) and event.message.phase
    ]
    return max(behind, key=lambda phase: phase.order, default=None)


def _purpose(events: Sequence[Event], root: Event, frames: Sequence[Event]) -> str:
    hints = [] if frames else [event for event in events if event.message.role == "hint" and abs(event.line - root.line) <= FAR]
    calls = [event for event in hints if event.message.purpose in _CALLS]
    call = min(calls, key=lambda event: abs(event.line - root.line), default=None)
    purposes = {frame.message.purpose for frame in frames} | {root.message.purpose}
    return next((purpose for purpose in _PURPOSES if purpose in purposes), call.message.purpose if call else "")


def _reached(events: Sequence[Event], root: Event | None) -> Phase | None:
    """The last stage that was entered. Some engines capture graphs for a trial before they size the cache: what stands before the sizes is no later stage."""
    entered = [event for event in events if event.message.role == "progress" and event.message.phase and (root is None or _in_front(event, root))]
    sized = {event.prefix.process: event.line for event in entered if event.message.phase is Phase.CACHE_SIZING}
    phases = [event.message.phase for event in entered if event.message.phase and not (_behind_sizing(event) and event.line < sized.get(event.prefix.process, 0))]
    return max(phases, key=lambda phase: phase.order, default=None)


def _in_front(event: Event, root: Event) -> bool:
    return (event.line, event.column) < (root.line, root.column)


def _behind_sizing(event: Event) -> bool:
    phase = event.message.phase
    return phase is not None and Phase.CACHE_SIZING.order < phase.order < Phase.SERVING.order


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
    return max(failing or serving or list(whole.values()), key=_tells)


def _tells(incident: Incident) -> tuple[bool, int, int]:
    """Of several servers in one file the one whose error says what happened, of those the last."""
    root = incident.root
    return root is not None and root.message.tier < WEAK, root.line if root else 0, len(incident.events)


def _one(events: Sequence[Event], source: str, scan: Scan, neighbours: tuple[str, ...]) -> Incident:
    runs = attempts(events)
    count = len(runs)
    if _same_again(runs):
        runs = runs[:-1]
    last = _without_lived_through(runs[-1].events)
    shutdown = next((event for event in last if event.message.role == "shutdown"), None)
    root = _root(last, shutdown)
    if root is not None and shutdown is not None and shutdown.line < root.line:
        root = None
    frames = _frames(last, root) if root else ()
    reached = _reached(last, root)
    phase, basis = _where(last, root, frames, reached) if root else (None, "")
    before = runs[-2].events if len(runs) > 1 else ()
    left = next((event for event in reversed(before) if event.message.role == "progress"), None) if not _over(before) and not _ready(before) else None
    passed = _passed(before, last, phase if basis != "marker" else None)
    earlier = [_root(run.events, next((e for e in run.events if e.message.role == "shutdown"), None)) for run in runs[:-1]]
    return Incident(
        source=source,
        events=last,
        attempts=count,
        earlier=tuple(event for event in earlier if event is not None),
        root=root,
        frames=frames,
        phase=phase,
        purpose=_purpose(last, root, frames) if root else "",
        basis=basis,
        reached=reached,
        shutdown=shutdown,
        ended=next((event for event in last if event.message.role == "ended"), None),
        ready=_ready(last),
        earlier_alive=left,
        asked_before=tuple(event for event in before if event.message.role == "start") if earlier and earlier[-1] is not None else (),
        passed_before=passed,
        neighbours=neighbours,
        scan=scan,
    )
