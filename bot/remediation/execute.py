"""Carries out one step of an approved plan, once: the patch marks the object with the operation's id, so that a step sent before a crash is known afterwards.

The only file that writes. It sends what was approved and nothing else; what it adds to a patch are tests that make it stricter.
"""

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from bot.errors import Conflict, NotFound, Rejected, Temporary
from bot.model import Difference, ObjectRef, Remediation, Step, StepKind, Written
from bot.ports import ClusterWriter, Json
from bot.remediation import standing
from bot.remediation.assemble import ANNOTATION, PLACEHOLDER
from bot.remediation.bound import OPERATION, Changed, compare, compare_beside, difference
from bot.remediation.pointer import MISSING, get, join, under
from bot.remediation.workload import SUPPORTED, is_terminating, metadata, observed

TRIES = 3
SETTLE_S = 10.0
LONGEST = 64  # characters of a UID or a resourceVersion that are kept


def dry_run(remediation: Remediation, writer: ClusterWriter) -> None:
    """Sends every step as a server-side dry run. Raises Changed, Conflict, Rejected, Forbidden, NotFound, Temporary.

    What comes back must be what was shown: admission may also change a patch, in silence. A step that waits for the rollout is not tried: it is made for
    the object as the first step leaves it.
    """
    _same_cluster(remediation, writer)
    for step in remediation.steps:
        if step.kind is StepKind.DELETE_POD:
            _delete(step, writer, dry=True)
        elif step.kind is StepKind.STOP_PROCESS:
            _stop(step, writer, dry=True)
        elif step.kind is StepKind.DROP_SEGMENTS:
            _drop(step, writer, dry=True)
        elif step.kind in (StepKind.CREATE, StepKind.DELETE):
            _cron_job(remediation, step, "dry-run", writer, dry=True)
        elif not step.after_rollout:
            _refuse_altered(step, _patch(remediation, step, "dry-run", writer, dry=True)[0], writer.name)


def execute_step(remediation: Remediation, index: int, operation_id: str, writer: ClusterWriter, *, sleep: Callable[[float], None] = time.sleep) -> Written:
    """Carries out one step and gives what came back; a step that this operation did before is recognised and not done again.

    Raises Changed when a bound value moved, Temporary when it is to be tried again (the connection broke; the rollout that the step waits for is not through).
    """
    _same_cluster(remediation, writer)
    step = remediation.steps[index]
    if step.kind is StepKind.DELETE_POD:
        _wait_until_observed(remediation, operation_id, writer, sleep)
        return Written(str(step.object), step.object.uid, recognised=not _delete(step, writer, dry=False))
    if step.kind is StepKind.STOP_PROCESS:
        _stop(step, writer, dry=False)
        return Written(str(step.object))
    if step.kind is StepKind.DROP_SEGMENTS:
        _drop(step, writer, dry=False)
        return Written(str(step.object))
    if step.kind in (StepKind.CREATE, StepKind.DELETE):
        return _written(step.object, _cron_job(remediation, step, operation_id, writer, dry=False))
    live = writer.get(step.object)
    if is_done(live, operation_id, index):
        return _written(step.object, live, recognised=True)
    if step.after_rollout:
        _refuse_unsettled(remediation, operation_id, live)
    return _written(step.object, *_patch(remediation, step, operation_id, writer, dry=False, index=index))


def _written(ref: ObjectRef, body: Json, recognised: bool = False) -> Written:
    meta = body.get("metadata") or {}
    generation = meta.get("generation")
    return Written(
        str(ref),
        str(meta.get("uid") or ref.uid)[:LONGEST],
        str(meta.get("resourceVersion") or "")[:LONGEST],
        generation if isinstance(generation, int) else None,
        recognised,
    )


def is_done(live: Mapping[str, Any], operation_id: str, index: int) -> bool:
    """Whether the object bears this operation's mark for this step or a later one."""
    mark = str((metadata(live).get("annotations") or {}).get(OPERATION, ""))
    name, _, number = mark.partition("/")
    return name == operation_id and index <= (int(number) if number.isdigit() else 0)


def _same_cluster(remediation: Remediation, writer: ClusterWriter) -> None:
    uid = writer.uid()
    if uid != remediation.bound.cluster_uid:
        raise Conflict(f"{writer.name} is not the cluster that the plan was made for")


def _patch(remediation: Remediation, step: Step, operation_id: str, writer: ClusterWriter, *, dry: bool, index: int = 0) -> tuple[Json, bool]:
    """The object as it came back, and whether an earlier try had sent it."""
    for attempt in range(1, TRIES + 1):
        live = writer.get(step.object)
        if not dry and is_done(live, operation_id, index):
            return live, True
        changed = _changed(remediation, step, live)
        if changed:
            raise Changed(changed)
        try:
            return writer.patch(step.object, filled(step.patch, operation_id, live), dry_run=dry), False
        except Conflict:
            # the object moved between our look and our patch: look again, and say who when it was a bound value
            if attempt == TRIES:
                raise
    raise AssertionError("the last try either gave the object or raised")


def _refuse_altered(step: Step, came_back: Json, cluster: str) -> None:
    """Raises Rejected where the cluster would write something else than the step says: a mutating webhook or policy that has its own mind."""
    for pointer, value in standing.values(step).items():
        if get(came_back, pointer) != value:
            now = difference(pointer, value, came_back).now
            raise Rejected(f"{cluster}: admission changes the patch: at {pointer} it would write {'nothing' if now is None else now}, and not what is shown")


def _changed(remediation: Remediation, step: Step, live: Json) -> tuple[Difference, ...]:
    if step.object != remediation.object:
        return compare_beside(step, live)
    return () if step.after_rollout else compare(remediation.bound, live)


def filled(patch: Sequence[Mapping[str, Any]], operation_id: str, live: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The patch as it is sent: with the operation's id, bound to the generation just compared.

    An object without annotations gets the whole map, bound to there being none (the API server takes a missing member as null).
    """
    meta = metadata(live)
    guards = [{"op": "test", "path": "/metadata/generation", "value": meta["generation"]}] if "generation" in meta else []
    bare = get(live, join("metadata", "annotations")) is MISSING
    if bare:
        guards.append({"op": "test", "path": join("metadata", "annotations"), "value": None})
    return guards + [_filled(one, operation_id, bare=bare) for one in patch]


def _filled(operation: Mapping[str, Any], operation_id: str, *, bare: bool) -> dict[str, Any]:
    if operation["path"] != ANNOTATION or operation["op"] != "add":
        return dict(operation)
    mark = str(operation["value"]).replace(PLACEHOLDER, operation_id)
    if bare:
        return {"op": "add", "path": join("metadata", "annotations"), "value": {OPERATION: mark}}
    return {**operation, "value": mark}


def _cron_job(remediation: Remediation, step: Step, operation_id: str, writer: ClusterWriter, *, dry: bool) -> Json:
    """Makes it, once: one of that name that bears this operation's mark was made by an earlier try. Or deletes it, if it is still that one."""
    if step.kind is StepKind.DELETE:
        with suppress(NotFound):
            writer.delete_cron_job(step.object, dry_run=dry)
        return {}
    changed = compare(remediation.bound, writer.get(remediation.object))
    if changed:
        raise Changed(changed)
    body = copy.deepcopy(dict(step.patch[0]["value"]))
    body["metadata"]["annotations"][OPERATION] = operation_id
    try:
        return writer.create_cron_job(step.object, body, dry_run=dry)
    except Conflict:
        if dry or not is_done(made := writer.get(step.object), operation_id, 0):
            raise
        return made


def _stop(step: Step, writer: ClusterWriter, *, dry: bool) -> None:
    """The number and the start time tell the process from any other, so doing it again after a crash does nothing."""
    value = step.patch[0]["value"]
    writer.stop_process(step.object, value["addresses"], int(value["pid"]), int(value["start"]), dry_run=dry)


def _drop(step: Step, writer: ClusterWriter, *, dry: bool) -> None:
    """Inode, size and time tell a segment from any other, so doing it again after a crash does nothing."""
    value = step.patch[0]["value"]
    writer.drop_segments(step.object, value["addresses"], value["words"], dry_run=dry)


def _delete(step: Step, writer: ClusterWriter, *, dry: bool) -> bool:
    """Whether it was asked to go. Gone, going, or another pod of the same name by now: then somebody (or an earlier try) has deleted it, and that was all we wanted."""
    try:
        if is_terminating(writer.get(step.object)):
            return False
        writer.delete_pod(step.object, dry_run=dry)
    except (NotFound, Conflict):
        return False
    return True


def _wait_until_observed(remediation: Remediation, operation_id: str, writer: ClusterWriter, sleep: Callable[[float], None]) -> None:
    """Until the controller has seen the new template: a pod deleted sooner may be made anew from the old one."""
    waited, pause = 0.0, 0.1
    while True:
        live = writer.get(remediation.object)
        if not is_done(live, operation_id, 0):
            raise Conflict(f"{remediation.object} does not bear this operation's mark, so its pods are left alone")
        if observed(live):
            return
        if waited >= SETTLE_S:
            raise Temporary(f"the controller has not taken up the new template of {remediation.object} yet")
        sleep(pause)
        waited, pause = waited + pause, min(1.0, pause * 2)


def _refuse_unsettled(remediation: Remediation, operation_id: str, live: Json) -> None:
    """For a step that waits for the rollout: our template still stands, and all pods are of it, ready or not."""
    first = next(step for step in remediation.steps if step.kind is StepKind.PATCH and step.object == remediation.object)
    wrote = [one for one in first.patch if one["op"] in ("add", "replace") and under(str(one["path"]), remediation.bound.template)]
    if not is_done(live, operation_id, 0) or any(get(live, one["path"]) != one["value"] for one in wrote):
        raise Conflict(f"{remediation.object} was changed again, so its strategy is left as it is")
    if remediation.object.kind not in SUPPORTED:  # whoever watches has seen its rollout through
        if not observed(live):
            raise Temporary(f"the controller has not taken up the new template of {remediation.object} yet")
        return
    status, wanted = live.get("status") or {}, int((live.get("spec") or {}).get("replicas", 1))
    if not observed(live) or int(status.get("updatedReplicas", 0)) < wanted or int(status.get("replicas", 0)) > wanted:
        raise Temporary(f"the rollout of {remediation.object} is not through yet; its strategy goes back afterwards")
