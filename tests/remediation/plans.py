"""Plans made in tests: one recommendation, one line."""

import itertools
from datetime import datetime
from typing import Any

from bot.model import Actor, Handout, Operation, Predicted, Recommendation, Remediation, Target, Text
from bot.ports import ClusterReader
from bot.remediation import plan
from tests.remediation.shelf import NOW, target

_ids = itertools.count(1)


def new_id() -> str:
    return f"plan-{next(_ids)}"


def recommendation(remedy: str = "max_model_len", direction: str = "lower", to: Any = 57344, **fields: Any) -> Recommendation:
    return Recommendation(remedy, direction, Text("why"), Text("effect"), "low", to_value=to, **fields)


def planned(shelf: ClusterReader, wanted: Recommendation | str | None = None, at: Target | None = None, now: datetime = NOW, **fields: Any) -> Remediation:
    """The plan; fails the test with the reason when it is handed out instead."""
    found = plan(wanted or recommendation(), at or target(), shelf, now=now, new_id=new_id, **fields)
    assert isinstance(found, Remediation), found
    return found


def handed_out(shelf: ClusterReader, wanted: Recommendation | str | None = None, at: Target | None = None, **fields: Any) -> Handout:
    """The handout; fails the test when there is a plan instead."""
    found = plan(wanted or recommendation(), at or target(), shelf, now=NOW, new_id=new_id, **fields)
    assert isinstance(found, Handout), found
    return found


def operation(remediation: Remediation, name: str = "op-1") -> Operation:
    return Operation(name, remediation, Actor("U1", "slack"), NOW, NOW)


PREDICTED = Predicted(available_kv_bytes=11_360_000_000, kv_tokens=57_776)
