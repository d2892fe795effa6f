"""What an action wants: edits of one object, each with the value before, and the sentences that go with them.

Nothing is written here. `plan.py` turns a Change into steps, a diff and an undo, the same way for every action.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.model import ObjectRef, Text
from bot.remediation.pointer import MISSING, Missing, get, join, split


@dataclass(frozen=True, slots=True)
class Edit:
    """One value at one JSON pointer, before and after; MISSING where there is none.

    `proof` binds what cannot be tested at the path itself: (pointer, value) pairs of its surroundings, for a path that is absent.
    """

    pointer: str
    before: Any | Missing
    after: Any | Missing
    proof: tuple[tuple[str, Any], ...] = ()

    def operation(self) -> dict[str, Any]:
        """The JSON patch operation that makes this edit."""
        if self.after is MISSING:
            return {"op": "remove", "path": self.pointer}
        return {"op": "add" if self.before is MISSING else "replace", "path": self.pointer, "value": self.after}


@dataclass(frozen=True, slots=True)
class Beside:
    """Edits of another object that the plan carries: the ConfigMap that holds the value. It is written before the workload is."""

    ref: ObjectRef
    body: Mapping[str, Any]
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """Edits that belong together, and what people should know of them."""

    edits: tuple[Edit, ...]
    notes: tuple[Text, ...] = ()
    undoable: bool = True  # a restart puts nothing back
    beside: tuple[Beside, ...] = ()


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The value does not stand where the bot writes: why, and what to paste there instead."""

    reason: Text
    paste: str
    language: str = "yaml"


def put(body: Mapping[str, Any], pointer: str, value: Any) -> Edit:
    """The edit that sets a value in nested mappings, making the mappings that are not there yet."""
    parts = split(pointer)
    for size in range(1, len(parts) + 1):
        at = join(*parts[:size])
        if get(body, at) is MISSING:
            for key in reversed(parts[size:]):
                value = {key: value}
            return Edit(at, MISSING, value)
    return Edit(pointer, get(body, pointer), value)
