"""Whether what a process held grew from one allocation error to the next: a server that outlives its errors shows a leak that way.

Only errors of one process are compared, and only where the requests do not get smaller: a smaller one fails with more in use all by itself. Pure;
decides nothing.
"""

from collections.abc import Sequence
from itertools import accumulate

from bot.logs.events import Event
from bot.model import Fact, Value

_ALIKE = 0.9  # of an earlier request that a later one must reach: a smaller one fails with more in use, and that is no growth


def facts_of(errors: Sequence[Event], events: Sequence[Event]) -> list[Fact]:
    """`alloc.grows`, and where it does `alloc.growth_bytes`, `alloc.growth_errors` (different figures) and `alloc.growth_s` (where the lines, or ones
    before them, have a clock). `errors`: the allocation errors of one run, in order; `events`: all of the run, for its clock."""
    last = errors[-1] if errors else None
    mine = [error for error in errors if last is not None and (error.prefix.process, error.prefix.pid) == (last.prefix.process, last.prefix.pid)]
    held = _held(mine)
    if last is None or len(held) < 2 or held[0] == held[-1] or not _alike(mine) or held != sorted(held):
        return [Fact("alloc.grows", False, last.place if last else None)]
    values: dict[str, Value | None] = {
        "grows": True,
        "growth_bytes": held[-1] - held[0],
        "growth_errors": len(set(held)),
        "growth_s": _between(mine[0], last, events),
    }
    return [Fact(f"alloc.{name}", value, last.place) for name, value in values.items() if value is not None]


def _held(errors: Sequence[Event]) -> list[int]:
    """Bytes in use at each error: what PyTorch had given out, else what the process held; empty where an error does not say it."""
    for name in ("allocated", "own"):
        found = [size for error in errors if isinstance(size := error.fields.get(name), int)]
        if len(found) == len(errors):
            return found
    return []


def _alike(errors: Sequence[Event]) -> bool:
    asked = [size for error in errors if isinstance(size := error.fields.get("wanted"), int)]
    return len(asked) == len(errors) and all(size >= _ALIKE * most for size, most in zip(asked, accumulate(asked, max), strict=True))


def _between(first: Event, last: Event, events: Sequence[Event]) -> float | None:
    begin, end = _clock(first, events), _clock(last, events)
    return end - begin if begin is not None and end is not None and end >= begin else None


def _clock(event: Event, events: Sequence[Event]) -> float | None:
    """Its own time, or that of the last line before it that has one: a bare line of a traceback has none."""
    if event.prefix.seconds is not None:
        return event.prefix.seconds
    return next((other.prefix.seconds for other in reversed(events) if other.line < event.line and other.prefix.seconds is not None), None)
