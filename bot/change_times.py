"""When something may be changed: weekly windows, dated freezes, and how much an hour. Pure; the clock is handed in.

Whatever is open is so by a window in a time zone: a window of 02:30 on the night in which the clocks jump is as long as that night makes it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from bot.model import Act
from bot.reach import EVERYWHERE, Reach

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
HOUR = timedelta(hours=1)
FURTHEST = 400  # how often windows and freezes may take turns before we say that it never opens


@dataclass(frozen=True, slots=True)
class Window:
    """From `start` to `end` on each of `days`, in `zone`. An end that is not after the start is on the next day."""

    days: tuple[str, ...] = DAYS
    start: time = time(0)
    end: time = time(0)
    zone: str = "UTC"
    reach: Reach = EVERYWHERE

    def spans(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """The openings from yesterday's to those of a week later, in UTC."""
        zone = ZoneInfo(self.zone)
        today = now.astimezone(zone).date()
        for ahead in range(-1, 9):
            day = today + timedelta(days=ahead)
            if DAYS[day.weekday()] in self.days:
                last = day if self.end > self.start else day + timedelta(days=1)
                yield _utc(day, self.start, zone), _utc(last, self.end, zone)


@dataclass(frozen=True, slots=True)
class Freeze:
    """From `start` until `end`, both with their zone, nothing is changed."""

    start: datetime
    end: datetime
    reason: str = ""
    reach: Reach = EVERYWHERE


@dataclass(frozen=True, slots=True)
class Quota:
    """At most `most` changes an hour in the reach: in each of its namespaces, in each of its clusters, or (`per` "rule") in all of it."""

    most: int
    per: str = "namespace"
    reach: Reach = EVERYWHERE

    def counted(self, acts: Iterable[Act], cluster: str, namespace: str, now: datetime) -> list[Act]:
        """Those that count for a change there, oldest first. One that lies ahead (a clock was set back) counts, too."""
        return sorted(
            (
                act
                for act in acts
                if act.at > now - HOUR
                and self.reach.covers(act.cluster, act.namespace)
                and (self.per == "rule" or act.cluster == cluster)
                and (self.per != "namespace" or act.namespace == namespace)
            ),
            key=lambda act: act.at,
        )


@dataclass(frozen=True, slots=True)
class Closed:
    """It may not be now. `freeze`: the dated one that stands in the way; `opens`: when it may (None: not within reach of the rules)."""

    opens: datetime | None
    freeze: Freeze | None = None


def closed(windows: Sequence[Window], freezes: Sequence[Freeze], now: datetime) -> Closed | None:
    """None when it may be now. Both lists are those that cover the place; no window at all means always."""
    barrier = _barrier(windows, freezes, now)
    if barrier is None:
        return None
    freeze = barrier[1]
    for _ in range(FURTHEST):
        at, _ = barrier
        if at is None:
            return Closed(None, freeze)
        barrier = _barrier(windows, freezes, at)
        if barrier is None:
            return Closed(at, freeze)
    return Closed(None, freeze)


def _barrier(windows: Sequence[Window], freezes: Sequence[Freeze], now: datetime) -> tuple[datetime | None, Freeze | None] | None:
    """What stands in the way at that time, as the time when it is gone and the freeze that it is."""
    freeze = max((one for one in freezes if one.start <= now < one.end), key=lambda one: one.end, default=None)
    if freeze is not None:
        return freeze.end.astimezone(UTC), freeze
    spans = [span for window in windows for span in window.spans(now)]
    if not windows or any(start <= now < end for start, end in spans):
        return None
    return min((start for start, _ in spans if start > now), default=None), None


def _utc(day: date, at: time, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, at, zone).astimezone(UTC)
