"""Whether what an operation wrote still stands, and who changed it when it does not: somebody with kubectl, or GitOps that puts its own back.

Reads only. A value that a later removal from the same list may have moved is not looked at: its place says nothing any more.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from bot.errors import NotFound
from bot.model import Difference, ObjectRef, Operation, Step, StepKind
from bot.ports import ClusterReader
from bot.remediation.assemble import ANNOTATION
from bot.remediation.bound import OPERATION, difference, read
from bot.remediation.pointer import get
from bot.remediation.workload import metadata


def standing(operation: Operation, reader: ClusterReader) -> tuple[Difference, ...]:
    """What of the steps that were sent does not stand any more: `before` is what was written, `now` what is there. Raises NotFound when an object is gone."""
    found: list[Difference] = []
    for ref, wrote in _written(operation).items():
        live = read(ref, reader)
        uid = metadata(live).get("uid")
        if uid != ref.uid:
            found.append(Difference("uid", ref.uid, uid))
            continue
        found += [difference(pointer, value, live) for pointer, value in wrote.items() if get(live, pointer) != value]
    return (*found, *_gone(operation, reader))


def _gone(operation: Operation, reader: ClusterReader) -> Iterator[Difference]:
    """What a step made and is not there any more, or is another one of that name."""
    for step in operation.remediation.steps[: operation.next_step]:
        if step.kind is StepKind.CREATE:
            try:
                mark = (metadata(read(step.object, reader)).get("annotations") or {}).get(OPERATION)
            except NotFound:
                yield Difference(str(step.object), operation.id, None)
                continue
            if mark != operation.id:
                yield Difference(str(step.object), operation.id, mark)


def _written(operation: Operation) -> dict[ObjectRef, dict[str, Any]]:
    """Object -> pointer -> the value that the last of its patches left there."""
    wrote: dict[ObjectRef, dict[str, Any]] = {}
    for step in operation.remediation.steps[: operation.next_step]:
        if step.kind is StepKind.PATCH:
            mine = wrote.setdefault(step.object, {})
            mine |= _values(step)
            for pointer in _moved(step, mine):
                del mine[pointer]
    return wrote


def values(step: Step) -> dict[str, Any]:
    """Pointer -> value of what one patch leaves there, as far as its own removals do not move it."""
    wrote = dict(_values(step))
    return {pointer: value for pointer, value in wrote.items() if pointer not in _moved(step, wrote)}


def _values(step: Step) -> Iterator[tuple[str, Any]]:
    for one in step.patch:
        if one["op"] in ("add", "replace") and one["path"] != ANNOTATION and not str(one["path"]).endswith("/-"):
            yield str(one["path"]), one["value"]


def _moved(step: Step, wrote: Mapping[str, Any]) -> list[str]:
    removed = [str(one["path"]) for one in step.patch if one["op"] == "remove"]
    lists = {path.rpartition("/")[0] for path in removed if path.rpartition("/")[2].isdigit()}
    return [pointer for pointer in wrote if pointer in removed or any(pointer.startswith(f"{one}/") for one in lists)]
