"""The runs of a server that wrote into one log: where one ended and the next began. Pure; knows roles and phases, no message by name."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from bot.logs.events import Event
from bot.model import Phase

QUIET = 45  # seconds after a death in which its followers may still speak
WEAK = 6  # errors of this tier and above say little: a server that goes on answering has survived them
_SERVER = re.compile(r"(?i)^(?:api_?server|engine_?core)")
_CORE = re.compile(r"(?i)^engine_?core")


@dataclass(frozen=True, slots=True)
class Attempt:
    """The events of one run of the server, in order of lines."""

    events: tuple[Event, ...]


def _key(event: Event) -> tuple[str, str]:
    return event.id, event.prefix.process if _SERVER.match(event.prefix.process) or not event.prefix.process else f"{event.prefix.process}/{event.prefix.pid}"


class _Run:
    """One run while it is being collected: what has started, which engines it has, whether it served, failed, or is over for good."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.started: set[tuple[str, str]] = set()
        self.engines: dict[str, int | None] = {}
        self.failed = self.served = self.stopped = self.worked = False
        self.over: float | None = None  # clock of the line that told of the whole server's end

    def add(self, event: Event) -> None:
        role, process = event.message.role, event.prefix.process
        if role == "start":
            self.started.add(_key(event))
        if _CORE.match(process):
            self.engines[process] = event.prefix.pid
        self.stopped = self.stopped or role == "shutdown"
        self.worked = self.worked or (role == "progress" and event.message.phase is not None and event.message.phase.order > Phase.CONFIG.order)
        self.served = self.served or (role == "progress" and event.message.phase is Phase.SERVING)
        if self.served and role == "fatal" and event.message.tier >= WEAK:
            pass  # a request's own error, and no end
        elif role in ("wrapper", "ended", "fatal"):
            self.failed = True
            if role != "fatal" or self.over is None:
                self.over = event.prefix.seconds if event.prefix.seconds is not None else self.over
        self.events.append(event)

    def renewed_by(self, event: Event) -> bool:
        """Some time after a failure, an engine of the same name has another number."""
        process, now = event.prefix.process, event.prefix.seconds
        renewed = self.failed and bool(_CORE.match(process)) and self.engines.get(process, event.prefix.pid) != event.prefix.pid
        return renewed and (self.over is None or now is None or abs(now - self.over) > QUIET)

    def left_behind_by(self, event: Event) -> bool:
        """The event belongs to a new run: a start seen before or after a failure, a step of starting after the server served, a failure at an earlier
        step, or anything from a new process long after (or, by a clock that was set back, before) the death."""
        role, phase = event.message.role, event.message.phase
        if role == "start":
            return _key(event) in self.started or self.failed or self.served or self.stopped
        if role == "fatal" and phase is Phase.CONFIG and self.worked and (self.failed or self.stopped):
            return True  # options are read at the very beginning
        early = role in ("progress", "fatal") and not event.message.counted and phase is not None and phase.order <= Phase.CACHE_ALLOCATION.order
        if early and self.served:
            return True
        if (
            role == "fatal"
            and phase is not None
            and any(old.message.role == "fatal" and (old.message.phase or phase).order > phase.order for old in self.events[-200:])
        ):
            return True  # nobody fails at an earlier step than the one already failed at
        if not self.failed or self.over is None or event.prefix.seconds is None or _follows(event):
            return False
        if (self.served or not self.worked) and role == "progress" and phase is Phase.SERVING and event.prefix.pid is None:
            return False  # a new run would have had to start: this one serves on, or what looks like its failure is none
        known = any(
            event.prefix.pid is not None and (event.prefix.process, event.prefix.pid) == (old.prefix.process, old.prefix.pid) for old in self.events[-200:]
        )
        return not known and abs(event.prefix.seconds - self.over) > QUIET


def _follows(event: Event) -> bool:
    """Only tells of another failure, however late: ranks notice ten minutes afterwards that one of them is gone."""
    return event.message.role not in ("start", "progress", "fatal") or (event.message.role == "fatal" and event.message.tier >= WEAK)


def attempts(events: Iterable[Event]) -> list[Attempt]:
    """Splits the events of one server into its runs."""
    runs = [_Run()]
    for event in events:
        run = runs[-1]
        if run.events and (run.renewed_by(event) or run.left_behind_by(event)):
            fresh = _Run()
            for old in _behind_engines(run.events) if run.renewed_by(event) else ():
                fresh.add(old)
            runs.append(fresh)
        runs[-1].add(event)
    return [Attempt(tuple(run.events)) for run in runs]


def _behind_engines(run: list[Event]) -> list[Event]:
    """Takes what stands behind the last line of the old engine off the old run: it belongs to the new one."""
    last = max((index for index, event in enumerate(run) if _CORE.match(event.prefix.process)), default=len(run) - 1)
    behind = run[last + 1 :]
    del run[last + 1 :]
    return behind
