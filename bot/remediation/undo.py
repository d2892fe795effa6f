"""Plans the way back: exactly what was captured before, and only when nobody changed the object since.

A strategy that was changed for the rollout goes back after the undo's own rollout, unless a GPU is free by then: restored at once it would
block the very rollout that undoes.
"""

from collections.abc import Callable, Mapping
from typing import Any

from bot.errors import BadInput
from bot.model import Difference, Expectation, Operation, Remediation, Step, StepKind
from bot.ports import ClusterReader
from bot.remediation import endpoint, orphan_segments, scheduled_restart, stray_process
from bot.remediation.assemble import ANNOTATION, Draft, remediation
from bot.remediation.bound import Changed, difference, read, template_difference, who
from bot.remediation.change import Beside, Change, Edit, put
from bot.remediation.pointer import MISSING, apply, get, under
from bot.remediation.shape import ENDPOINT, STRATEGY, rolls, shape_of
from bot.remediation.workload import Shape, Workload, metadata
from bot.remediation.writes import Writes, look, needed


def plan_undo(operation: Operation, reader: ClusterReader, *, new_id: Callable[[], str]) -> Remediation:
    """The undo of a carried-out operation. Raises Changed when somebody changed the object since, BadInput when there is nothing to put back, NotFound when it is gone."""
    done = operation.remediation
    if done.action == stray_process.NAME:
        raise BadInput("A stopped process cannot be started again by the bot.")
    if done.action == orphan_segments.NAME:
        raise BadInput("Shared memory that was dropped cannot be brought back.")
    if not done.before and not any(step.kind is StepKind.PATCH and step.object != done.object for step in done.steps):
        raise BadInput("There is nothing to put back: a restart changes nothing but the time of the restart.")
    uid = reader.uid()
    if uid != done.bound.cluster_uid:
        raise Changed((Difference("cluster", done.bound.cluster_uid, uid),))
    if done.action == scheduled_restart.NAME:
        return scheduled_restart.plan_undo(operation, reader, new_id)
    live = read(done.object, reader)
    _refuse_changed(done, live)
    if done.object.kind == ENDPOINT:
        return endpoint.undo(done, live, [_back(pointer, before, written(done), live) for pointer, before in reversed(list(done.before.items()))], reader, new_id)
    workload = Workload(done.object, live, *_place(done))
    beside = tuple(_beside(step, reader) for step in reversed(done.steps) if step.kind is StepKind.PATCH and step.object != done.object)
    edits = [_back(pointer, before, written(done), live) for pointer, before in reversed(list(done.before.items()))]
    return _assembled(done, workload, Change(tuple(edits), beside=beside), reader, new_id)


def _place(done: Remediation) -> tuple[int, Shape]:
    """Where the container stood, from what was bound."""
    pointer = done.bound.container or next(one for one in done.bound.values if one.endswith("/name") and "/containers/" in one).removesuffix("/name")
    return shape_of(done.object.kind, pointer)


def _beside(step: Step, reader: ClusterReader) -> Beside:
    """The way back for another object: what its patch tested is what goes back. Raises Changed when somebody changed it since."""
    live = read(step.object, reader)
    uid = metadata(live).get("uid")
    if uid != step.object.uid:
        raise Changed((Difference("uid", step.object.uid, uid),))
    before = {str(one["path"]): one["value"] for one in step.patch if one["op"] == "test"}
    wrote = {str(one["path"]): one.get("value", MISSING) for one in step.patch if one["op"] != "test" and one["path"] != ANNOTATION}
    found = [_touched(pointer, value, live) for pointer, value in wrote.items() if get(live, pointer) != value]
    if found:
        raise Changed(found)
    return Beside(step.object, live, tuple(Edit(pointer, value, before[pointer]) for pointer, value in wrote.items()))


def _assembled(done: Remediation, workload: Workload, change: Change, reader: ClusterReader, new_id: Callable[[], str]) -> Remediation:
    edits = change.edits
    running = look(workload, reader)
    of_template = tuple(edit for edit in edits if rolls(edit.pointer, workload.shape.template))
    of_strategy = tuple(edit for edit in edits if edit not in of_template)
    draft = Draft(new_id(), done.action, "undo", done.remedy, done.target, done.risk, Expectation())
    if not of_template:
        return remediation(draft, workload, Change(of_strategy, beside=change.beside), Writes(), running, reader)
    writes = needed(workload, running, done.target.pod) if not any(edit.pointer == STRATEGY for edit in of_strategy) else Writes()
    if running.room.fits:
        return remediation(draft, workload, Change((*of_template, *of_strategy), _held(writes), beside=change.beside), writes, running, reader)
    later = (*of_strategy, *(Edit(edit.pointer, edit.after, edit.before) for edit in reversed(writes.edits)))
    return remediation(draft, workload, Change(of_template, _held(writes), beside=change.beside), writes, running, reader, later)


def _held(writes: Writes) -> tuple[Any, ...]:
    return () if writes.held is None else (writes.held,)


def written(done: Remediation) -> dict[str, Any]:
    """What the operation's patches left at each path: JSON pointer -> value, MISSING for what they removed."""
    operations = [one for step in done.steps if step.kind is StepKind.PATCH and step.object == done.object for one in step.patch if one["op"] != "test"]
    return {str(one["path"]): one.get("value", MISSING) for one in operations}


def _back(pointer: str, before: Any, after: Mapping[str, Any], live: Mapping[str, Any]) -> Edit:
    if after[pointer] is MISSING and before is not None and not isinstance(get(live, pointer.rpartition("/")[0]), list):
        return put(live, pointer, before)  # the API server drops a mapping that has become empty
    return Edit(pointer, after[pointer], MISSING if before is None else before)


def _refuse_changed(done: Remediation, live: Mapping[str, Any]) -> None:
    """Raises Changed unless the object is what the operation left: the same object, its values in place, the rest of the template as captured."""
    uid = metadata(live).get("uid")
    if uid != done.bound.object_uid:
        raise Changed((Difference("uid", done.bound.object_uid, uid),))
    left = written(done)
    found = [_touched(pointer, left[pointer], live) for pointer in done.before if get(live, pointer) != left[pointer]]
    others = {pointer: value for pointer, value in done.bound.values.items() if not any(under(pointer, one) or under(one, pointer) for one in done.before)}
    found += [difference(pointer, value, live) for pointer, value in others.items() if get(live, pointer) != value and pointer not in left]
    if not found and any(under(pointer, done.bound.template) for pointer in done.before):
        edits = [_back(pointer, before, left, live) for pointer, before in reversed(list(done.before.items()))]
        restored = apply(live, [edit.operation() for edit in edits if under(edit.pointer, done.bound.template)])
        found = list(template_difference(done.bound, restored, live))
    if found:
        raise Changed(found)


def _touched(pointer: str, wrote: Any, live: Mapping[str, Any]) -> Difference:
    if wrote is MISSING:
        now = get(live, pointer)
        return Difference(pointer, None, now, who(live, pointer))
    return difference(pointer, wrote, live)
