"""The kill switch: one flag in the store that stops every write, kept over restarts and noted in the audit trail. Who may turn it is decided by whoever calls."""

import json
from typing import Protocol

from bot.ports import Clock

FROZEN = "frozen"


class Flags(Protocol):
    """A part of `ports.CaseStore`."""

    def get_flag(self, name: str) -> str | None: ...

    def set_flag(self, name: str, value: str | None) -> None: ...


def turn(flags: Flags, clock: Clock, who: str, *, on: bool) -> dict[str, str]:
    """Turns it, and gives the event for the audit trail, which comes second: a trail that cannot be written must not keep a switch from working."""
    origin, _, name = who.rpartition(":")
    shown = name if origin == "slack" else who
    flags.set_flag(FROZEN, json.dumps({"who": shown, "at": clock.now().isoformat(timespec="seconds")}) if on else None)
    return {"what": "frozen" if on else "unfrozen", "who": who}


def state(flags: Flags) -> tuple[str, str] | None:
    """Who stopped all writing, and when; None when nobody did."""
    flag = flags.get_flag(FROZEN)
    if flag is None:
        return None
    kept = json.loads(flag)
    return str(kept["who"]), str(kept["at"])
