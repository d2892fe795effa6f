"""What systemd says of the end of a unit, or why it did not start: in the output of `systemctl status`, or in a journal.

Facts `unit.<name>`. A whole journal tells of every unit of a machine: there only what all tell of one and the same unit is taken for the incident's.
"""

import re
from collections.abc import Iterable

from bot.model import Fact, Place, Value

MARKS = (b"code=killed", b"code=dumped", b"code=exited, status=2", b"timed out. Killing", b"start operation timed out", b"Watchdog timeout", b"Failed to fork", b"Failed to spawn", b"Failed to run '")
_MARKS = tuple(mark.decode() for mark in MARKS)
_UNIT = re.compile(r"(\S{1,200}\.(?:service|scope)): ")
_SAID = (  # a group is the value
    ("unit.killed", re.compile(r"code=killed, (?:signal=KILL|status=9/KILL)")),
    ("unit.crashed", re.compile(r"code=(?:killed|dumped), (?:signal=|status=\d{1,2}/)(SEGV|ABRT|BUS)\b")),
    ("unit.stop_timed_out", re.compile(r"State 'stop-(?:sigterm|watchdog|sigabrt)' timed out\. Killing")),
    ("unit.start_timed_out", re.compile(r"start operation timed out\. Terminating")),
    ("unit.watchdog", re.compile(r"Watchdog timeout \(limit (\S{1,20})\)")),
    ("unit.refused", re.compile(r"Failed to (?:fork|spawn|run)\b.{0,60}: (Cannot allocate memory|Resource temporarily unavailable)")),
    ("unit.not_executed", re.compile(r"code=exited, status=(2[0-4]\d/(?:EXEC|CHDIR|USER|GROUP|NAMESPACE|LIMITS|STDOUT|STDERR|CGROUP|RUNTIME_DIRECTORY|CREDENTIALS))\b")),
)


def facts(lines: Iterable[tuple[int, str, Place]], whole_journal: bool = False) -> list[Fact]:
    """The first line of each kind; of a whole journal nothing when they tell of several units."""
    found: dict[str, Fact] = {}
    units: set[str] = set()
    for _, text, place in lines:
        if not any(mark in text for mark in _MARKS):
            continue
        for name, pattern in _SAID:
            said = pattern.search(text)
            if said:
                unit = _UNIT.search(text)
                units.add(unit[1] if unit else "")
                value: Value = said[1] if pattern.groups else True
                found.setdefault(name, Fact(name, value, place))
    return [] if whole_journal and len(units) > 1 else list(found.values())
