"""From edits to a Remediation: one JSON patch that carries its own tests, the deletions that the rollout needs, diff, notes, undo values, digest.

The same way for every action and for an undo. Reads the cluster, writes nothing.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.errors import Permanent
from bot.model import Expectation, Remediation, Step, StepKind, Target, Text
from bot.ports import ClusterReader
from bot.remediation import notes, starting
from bot.remediation.bound import OPERATION, bind, is_clean
from bot.remediation.canonical import digest_of
from bot.remediation.change import Beside, Change, Edit
from bot.remediation.diff import diff
from bot.remediation.pointer import MISSING, apply, join, under
from bot.remediation.shape import rolls
from bot.remediation.workload import Workload
from bot.remediation.writes import Running, Writes

ANNOTATION = join("metadata", "annotations", OPERATION)
PLACEHOLDER = "${operation}"


@dataclass(frozen=True, slots=True)
class Draft:
    """What is known of a plan before its writes are: who it is for and what it is called."""

    id: str
    action: str
    direction: str
    remedy: str
    target: Target
    risk: str
    expects: Expectation


def remediation(
    draft: Draft, workload: Workload, change: Change, writes: Writes, running: Running, reader: ClusterReader, later: Sequence[Edit] = ()
) -> Remediation:
    """The whole plan. `later`: edits that wait until the rollout is through, in a step of their own."""
    edits = (*change.edits, *writes.edits)
    after = apply(workload.body, [edit.operation() for edit in edits])
    steps = [Step(StepKind.PATCH, one.ref, _beside_says(one), patch_beside(one, at)) for at, one in enumerate(change.beside)]
    if edits or not steps:  # an undo of a plan that stopped before the workload was written to puts back the other object alone
        steps.append(Step(StepKind.PATCH, workload.ref, _says(workload, edits), patch(workload, edits, len(steps))))
    steps += writes.deletions
    if later:
        settled = Workload(workload.ref, after, workload.index, workload.shape)
        steps.append(Step(StepKind.PATCH, workload.ref, _later_says(), patch(settled, later, len(steps)), after_rollout=True))
    shown = apply(after, [edit.operation() for edit in later])
    kept = edits if change.undoable else writes.edits
    rolling = any(rolls(edit.pointer, workload.shape.template) for edit in edits)
    said = [
        *((notes.restarts(workload, running.pods, len(running.serving), after), *starting.said(workload, after)) if rolling else ()),
        *writes.notes,
        *change.notes,
        *notes.budgets(workload, reader),
    ]
    if change.undoable and draft.direction == "apply":
        said.append(notes.undo(edits, workload))
    preview = diff(workload, workload.body, shown, change.beside)
    if not preview:
        raise Permanent(f"what would change in {workload.ref} cannot be shown, so it is not offered")
    plan = Remediation(
        id=draft.id, action=draft.action, direction=draft.direction, remedy=draft.remedy, target=draft.target, object=workload.ref, steps=tuple(steps),
        bound=bind(workload, edits, reader.uid()), diff=preview, notes=tuple(said), risk=draft.risk, expects=draft.expects,
        before={edit.pointer: None if edit.before is MISSING else edit.before for edit in kept},
    )  # fmt: skip
    return dataclasses.replace(plan, digest=digest_of(plan))


def patch(workload: Workload, edits: Sequence[Edit], index: int = 0) -> tuple[Mapping[str, Any], ...]:
    """JSON patch: the tests (UID, the container's name, every value before), the edits, and the mark by which the operation knows its own work."""
    tests: dict[str, Any] = {"/metadata/uid": workload.ref.uid}
    if "name" in workload.container and any(under(edit.pointer, workload.shape.template) for edit in edits):
        tests[f"{workload.container_pointer}/name"] = workload.container["name"]
    return _patch(tests, edits, index)


def patch_beside(beside: Beside, index: int) -> tuple[Mapping[str, Any], ...]:
    """The same for another object of the plan."""
    return _patch({"/metadata/uid": beside.ref.uid}, beside.edits, index)


def _patch(tests: dict[str, Any], edits: Sequence[Edit], index: int) -> tuple[Mapping[str, Any], ...]:
    for edit in edits:
        tests |= {pointer: value for pointer, value in edit.proof if is_clean(value)}
        if edit.before is not MISSING:
            tests[edit.pointer] = edit.before
        elif not edit.proof:
            tests[edit.pointer] = None  # the API server takes a missing member as null; an absent list item has its proof
    mark = {"op": "add", "path": ANNOTATION, "value": PLACEHOLDER if not index else f"{PLACEHOLDER}/{index}"}
    return (*({"op": "test", "path": pointer, "value": value} for pointer, value in tests.items()), *(edit.operation() for edit in edits), mark)


def _says(workload: Workload, edits: Sequence[Edit]) -> Text:
    fields = list(dict.fromkeys(_field(edit.pointer) for edit in edits))
    return Text(f"Patches {workload.ref}: {', '.join(fields)}.", f"修改 {workload.ref}：{'、'.join(fields)}。")


def _beside_says(beside: Beside) -> Text:
    keys = ", ".join(edit.pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~") for edit in beside.edits)
    return Text(f"Patches {beside.ref}: {keys}.", f"修改 {beside.ref}：{keys}。")


def _field(pointer: str) -> str:
    """A short name of what a pointer leads to: "args", "env", "annotations", "strategy"."""
    parts = pointer.split("/")
    if "containers" in parts:
        return parts[parts.index("containers") + 2]
    return parts[4] if pointer.startswith("/spec/template/") and len(parts) > 4 else parts[-1] if len(parts) > 3 else parts[2]


def _later_says() -> Text:
    return Text("Puts the update strategy back, once the rollout is through.", "发布完成后还原更新策略。")
