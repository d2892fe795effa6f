"""What of an operation was really sent, when it stopped half-way: an undo takes back that, and nothing else. Reads only."""

from dataclasses import replace

from bot.errors import NotFound
from bot.model import Operation, StepKind
from bot.ports import ClusterReader
from bot.remediation.bound import read
from bot.remediation.execute import is_done


def carried_out(operation: Operation, reader: ClusterReader) -> Operation:
    """The operation with only the steps that arrived, as if no more had been planned. Of the step that was being sent, its mark on the object tells."""
    done, count = operation.remediation, operation.next_step
    if operation.sending == count and _arrived(operation, count, reader):
        count += 1
    steps = done.steps[:count]
    if len(steps) == len(done.steps):
        return operation
    paths = {str(one["path"]) for step in steps if step.kind is StepKind.PATCH and step.object == done.object for one in step.patch if one["op"] != "test"}
    before = {pointer: value for pointer, value in done.before.items() if pointer in paths}
    return replace(operation, remediation=replace(done, steps=steps, before=before), next_step=count, sending=None)


def _arrived(operation: Operation, index: int, reader: ClusterReader) -> bool:
    """A deletion leaves nothing to put back, whether or not it arrived."""
    step = operation.remediation.steps[index]
    if step.kind not in (StepKind.PATCH, StepKind.CREATE):
        return False
    try:
        return is_done(read(step.object, reader), operation.id, index)
    except NotFound:
        return False
