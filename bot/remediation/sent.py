"""What of an operation was really sent, when it or its undo stopped half-way: an undo takes back what still stands of it, and nothing else. Reads only."""

from collections.abc import Sequence
from dataclasses import replace

from bot.errors import NotFound
from bot.model import ObjectRef, Operation, Remediation, Step, StepKind
from bot.ports import ClusterReader
from bot.remediation.assemble import ANNOTATION
from bot.remediation.bound import read
from bot.remediation.execute import is_done
from bot.remediation.pointer import under

Place = tuple[ObjectRef, str]


def carried_out(operation: Operation, reader: ClusterReader, undos: Sequence[Operation] = ()) -> Operation:
    """The operation with only the steps that arrived and that none of its `undos`, which stopped half-way, has put back, as if no more had been planned."""
    sent = _arrived(operation, reader)
    for undo in undos:
        sent = _without(sent, _arrived(undo, reader).remediation)
    return sent


def _arrived(operation: Operation, reader: ClusterReader) -> Operation:
    """Of the step that was being sent, its mark on the object tells."""
    done, count = operation.remediation, operation.next_step
    if operation.sending == count and _bears_mark(operation, count, reader):
        count += 1
    steps = done.steps[:count]
    if len(steps) == len(done.steps):
        return operation
    paths = {str(one["path"]) for step in steps if step.kind is StepKind.PATCH and step.object == done.object for one in step.patch if one["op"] != "test"}
    before = {pointer: value for pointer, value in done.before.items() if pointer in paths}
    return replace(operation, remediation=replace(done, steps=steps, before=before), next_step=count, sending=None)


def _bears_mark(operation: Operation, index: int, reader: ClusterReader) -> bool:
    """A deletion leaves nothing to put back, whether or not it arrived."""
    step = operation.remediation.steps[index]
    if step.kind not in (StepKind.PATCH, StepKind.CREATE):
        return False
    try:
        return is_done(read(step.object, reader), operation.id, index)
    except NotFound:
        return False


def _without(operation: Operation, undo: Remediation) -> Operation:
    """What the undo has not put back. An edit is put back at its own place, or together with a mapping above it that had gone."""
    done = operation.remediation
    back = [place for step in undo.steps for place in _places(step)]
    steps = tuple(kept for step in done.steps if (kept := _rest(step, back)) is not None)
    before = {pointer: value for pointer, value in done.before.items() if not _is_back((done.object, pointer), back)}
    return replace(operation, remediation=replace(done, steps=steps, before=before), next_step=len(steps), sending=None)


def _places(step: Step) -> list[Place]:
    if step.kind is StepKind.DELETE:
        return [(step.object, "")]
    return [(step.object, str(one["path"])) for one in step.patch if step.kind is StepKind.PATCH and one["op"] != "test" and one["path"] != ANNOTATION]


def _is_back(place: Place, back: Sequence[Place]) -> bool:
    return any(place[0] == ref and (place[1] == pointer or under(place[1], pointer)) for ref, pointer in back)


def _rest(step: Step, back: Sequence[Place]) -> Step | None:
    """The step without what is back; None when nothing of it is left to put back."""
    if step.kind is StepKind.CREATE:
        return None if any(step.object.name == ref.name and step.object.kind == ref.kind for ref, _ in back) else step
    if step.kind is not StepKind.PATCH:
        return step
    patch = tuple(one for one in step.patch if one["op"] == "test" or one["path"] == ANNOTATION or not _is_back((step.object, str(one["path"])), back))
    edits = [one for one in patch if one["op"] != "test" and one["path"] != ANNOTATION]
    return replace(step, patch=patch) if edits else None
