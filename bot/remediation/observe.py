"""One look at a rollout: how many pods of the new template are ready, and whether it can go on by itself.

Reads only. It never waits; whoever watches calls it again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bot.model import Remediation, Rollout, StepKind
from bot.ports import ClusterReader, Json
from bot.remediation import endpoint, kinds, knative, orphan_segments, ray_serve, scheduled_restart, starting, stray_process
from bot.remediation.bound import OPERATION, read
from bot.remediation.paste import clean
from bot.remediation.pointer import MISSING, get
from bot.remediation.shape import ENDPOINT, rolls, shape_of
from bot.remediation.workload import (
    Workload,
    condition,
    container_statuses,
    controller_of,
    is_ready,
    is_terminating,
    metadata,
    observed,
    ordinal,
    parsed,
    pods,
    replica_sets,
    revision,
    serves,
)

PATIENCE = timedelta(seconds=20)  # a GPU that was just let go is not seen by the scheduler at once
DEADLINE = timedelta(minutes=30)  # from the start of a pod to ready, where its probes do not allow more
STEADY = timedelta(seconds=60)  # a pod that crashed before must have run this long to count as ready
DETAIL = 400  # characters of the cluster's words that are kept
CANNOT_START = frozenset({"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


@dataclass(frozen=True, slots=True)
class _Look:
    """What was read at one moment. `new` are the pods of the new template, newest first; `settled`: the controller has seen the template."""

    body: Json
    wanted: int
    new: tuple[Json, ...]
    old: tuple[Json, ...]
    settled: bool


def observe(
    remediation: Remediation, reader: ClusterReader, there: Collection[str] = (), *, now: datetime | None = None, deadline: timedelta = DEADLINE
) -> Rollout:
    """The rollout of the plan's object as it is now. `there`: the UIDs of the pods before the first write (`pods_there`), for kinds whose pods do not say of
    which template they are. `now`: by the cluster's clock. Raises NotFound when the object is gone, Forbidden, Temporary."""
    if remediation.action == scheduled_restart.NAME:
        done = scheduled_restart.is_there(remediation, reader) == (remediation.direction == "apply")
        return Rollout(1, int(done), int(done), done)
    if remediation.action in (stray_process.NAME, orphan_segments.NAME):
        return Rollout(1, 1, 1, done=True)  # the step itself says whether it is gone
    if remediation.object.kind == ENDPOINT:
        return endpoint.observe(remediation, reader)
    if remediation.object.kind == "Node":
        return _written_there(remediation, reader)
    look = _look(remediation, reader, there)
    moment = now or reader.now()
    ready = sum(1 for pod in look.new if serves(pod, moment, STEADY))
    names = tuple(str(metadata(pod)["name"]) for pod in look.new)
    done = look.settled and ready >= look.wanted and not _in_the_way(remediation, look)
    if not done and remediation.direction == "undo":
        done = _restored(look)
    stuck, detail = ("", "") if done else _stuck(remediation, look, moment, deadline)
    return Rollout(look.wanted, len(look.new), ready, done, stuck, clean(detail)[:DETAIL], names, starting=not done and not stuck and _starts(look, moment))


def _written_there(remediation: Remediation, reader: ClusterReader) -> Rollout:
    """An object without pods: done when it has what the plan wrote."""
    body = read(remediation.object, reader)
    wrote = [one for step in remediation.steps for one in step.patch if one["op"] != "test" and str(one["path"]).startswith("/spec/")]
    done = all(get(body, str(one["path"])) == one.get("value", MISSING) for one in wrote)
    return Rollout(1, int(done), int(done), done)


def pods_there(remediation: Remediation, reader: ClusterReader) -> tuple[str, ...]:
    """The UIDs of the pods as they are right before the first write, for `observe`; empty for kinds whose pods say of which template they are."""
    kind = remediation.object.kind
    if kind not in (*kinds.KINDS, "DaemonSet"):
        return ()
    return tuple(str(metadata(pod)["uid"]) for pod in _of_template(remediation, read(remediation.object, reader), reader)[1])


def _of_template(remediation: Remediation, body: Json, reader: ClusterReader) -> tuple[Workload, list[Json]]:
    kind = remediation.object.kind
    workload = Workload(remediation.object, body, *shape_of(kind, remediation.bound.container))
    return workload, pods(body, kind, reader) if kind == "DaemonSet" else kinds.of_template(workload, kinds.pods(body, kind, reader))


def _look(remediation: Remediation, reader: ClusterReader, there: Collection[str]) -> _Look:
    kind = remediation.object.kind
    if kind == "StatefulSet":
        return _stateful_set(remediation, reader)
    return _deployment(remediation, reader) if kind == "Deployment" else _by_what_was_there(remediation, reader, there)


def _by_what_was_there(remediation: Remediation, reader: ClusterReader, there: Collection[str]) -> _Look:
    """Kinds whose pods do not say of which template they are: new are those that were not there before our write. No clock is asked: those of two API servers,
    which stamp the pods and the write, need not agree."""
    body, kind = read(remediation.object, reader), remediation.object.kind
    workload, found = _of_template(remediation, body, reader)
    in_place = _in_place(remediation)
    old = frozenset(there) if _makes_pods(remediation, body) else frozenset()
    new = [pod for pod in found if metadata(pod).get("uid") not in old and not is_terminating(pod)]
    wanted = _daemons(remediation, body) if kind == "DaemonSet" else kinds.KINDS[kind].wanted(workload)
    settled = observed(body) and (not in_place or _applications_run(body))
    return _Look(body, wanted, _newest_first(new), tuple(pod for pod in found if pod not in new), settled)


def _makes_pods(remediation: Remediation, body: Json) -> bool:
    """Whether our last write made new pods: not where it left the template alone, as one does that puts the strategy back after the rollout."""
    mark = str((metadata(body).get("annotations") or {}).get(OPERATION, "")).rpartition("/")[2]
    last = int(mark) if mark.isdigit() else 0
    waits = [at for at, step in enumerate(remediation.steps) if step.after_rollout]
    if waits and last >= waits[0]:
        return False
    written = [str(one["path"]) for step in remediation.steps if step.object == remediation.object for one in step.patch if one["op"] != "test"]
    return any(rolls(path, remediation.bound.template) for path in written)


def _in_place(remediation: Remediation) -> bool:
    """Ray Serve takes a changed configuration up without new pods."""
    return any(one["path"] == ray_serve.POINTER and one["op"] != "test" for step in remediation.steps for one in step.patch)


def _applications_run(body: Json) -> bool:
    found = ((body.get("status") or {}).get("activeServiceStatus") or {}).get("applicationStatuses") or {}
    return bool(found) and all(one.get("status") == "RUNNING" for one in found.values())


def _daemons(remediation: Remediation, body: Json) -> int:
    if (body["spec"].get("updateStrategy") or {}).get("type") == "OnDelete":
        return sum(1 for step in remediation.steps if step.kind is StepKind.DELETE_POD)
    return int((body.get("status") or {}).get("desiredNumberScheduled", 0))


def _newest_first(found: Sequence[Json]) -> tuple[Json, ...]:
    return tuple(sorted(found, key=lambda pod: (str(metadata(pod).get("creationTimestamp", "")), str(metadata(pod)["name"])), reverse=True))


def _deployment(remediation: Remediation, reader: ClusterReader) -> _Look:
    body = read(remediation.object, reader)
    settled = observed(body)
    sets = replica_sets(body, reader)
    # until the controller has seen the template, its newest ReplicaSet is the old one
    newest = {metadata(one)["uid"] for one in sets if revision(one) == revision(body)} if settled else set()
    found = pods(body, "Deployment", reader)
    new = [pod for pod in found if (controller_of(pod) or {}).get("uid") in newest and not is_terminating(pod)]
    old = [pod for pod in found if (controller_of(pod) or {}).get("uid") not in newest]
    return _Look(body, int(body["spec"].get("replicas", 1)), _newest_first(new), tuple(old), settled)


def _stateful_set(remediation: Remediation, reader: ClusterReader) -> _Look:
    body = read(remediation.object, reader)
    settled = observed(body)
    target = (body.get("status") or {}).get("updateRevision", "") if settled else ""
    found = pods(body, "StatefulSet", reader)
    new = [pod for pod in found if target and _hash(pod) == target and not is_terminating(pod)]
    return _Look(body, _reached(remediation, body), _newest_first(new), tuple(pod for pod in found if pod not in new), settled)


def _hash(pod: Mapping[str, Any]) -> str:
    return str((metadata(pod).get("labels") or {}).get("controller-revision-hash", ""))


def _reached(remediation: Remediation, body: Json) -> int:
    """How many pods of a StatefulSet the new template reaches: those from the partition on, or with OnDelete those that the plan deletes."""
    strategy = body["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return sum(1 for step in remediation.steps if step.kind is StepKind.DELETE_POD)
    return max(0, int(body["spec"].get("replicas", 1)) - int((strategy.get("rollingUpdate") or {}).get("partition", 0)))


def _in_the_way(remediation: Remediation, look: _Look) -> bool:
    """Old pods must be gone, or at least going; where they may stay (a StatefulSet, OnDelete), `wanted` counts that."""
    if remediation.object.kind in ("StatefulSet", "DaemonSet"):
        return False
    return any(not is_terminating(pod) for pod in look.old)


def _restored(look: _Look) -> bool:
    """An undo puts a template back, whether or not that template's pods can live: each one has started, and is ready or has ended as before."""
    ended = [pod for pod in look.new if is_ready(pod) or _restarts(pod) > 0 or _crashing(pod)]
    return look.settled and len(ended) >= look.wanted and not any(not is_terminating(pod) for pod in look.old if pod not in look.new)


def _restarts(pod: Mapping[str, Any]) -> int:
    return max((int(status.get("restartCount", 0)) for status in container_statuses(pod)), default=0)


def _crashing(pod: Mapping[str, Any]) -> bool:
    waiting = [((status.get("state") or {}).get("waiting") or {}).get("reason") for status in container_statuses(pod)]
    return "CrashLoopBackOff" in waiting or _restarts(pod) >= 2


def _stuck(remediation: Remediation, look: _Look, now: datetime, deadline: timedelta) -> tuple[str, str]:
    """Why it cannot go on by itself, and the server's words; two empty texts while it can."""
    if look.body["spec"].get("paused"):
        return "paused", f"{remediation.object} was paused"
    for pod in look.new:
        reason = _pod_stuck(pod, look, now, deadline)
        if reason[0]:
            return reason
    if remediation.object.kind == "InferenceService" and (words := knative.given_up(look.body)):
        return "never_ready", words
    progress = condition(look.body, "Progressing")
    if look.settled and progress.get("status") == "False" and progress.get("reason") == "ProgressDeadlineExceeded" and not _starts(look, now):
        return "never_ready", str(progress.get("message", "the progress deadline has passed"))
    quota = condition(look.body, "ReplicaFailure")
    if look.settled and quota.get("status") == "True" and _older(quota.get("lastTransitionTime"), PATIENCE, now):
        return "never_ready", str(quota.get("message", "its pods cannot be created"))
    return _old_pod_blocks(remediation, look, now)


def _pod_stuck(pod: Json, look: _Look, now: datetime, deadline: timedelta) -> tuple[str, str]:
    name = str(metadata(pod)["name"])
    if serves(pod, now, STEADY):
        return "", ""
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False" and _older(scheduled.get("lastTransitionTime"), PATIENCE, now) and not any(is_terminating(one) for one in look.old):
        return "unschedulable", f"{name}: {scheduled.get('message') or scheduled.get('reason', '')}"
    if _crashing(pod):
        return "crash_looping", f"{name}: {_last_end(pod)}"
    for status in container_statuses(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in CANNOT_START and _older(metadata(pod).get("creationTimestamp"), PATIENCE, now):
            return "never_ready", f"{name}: {waiting['reason']}: {str(waiting.get('message', ''))[:300]}"
    given = max(deadline, starting.PULL + starting.allowed(pod["spec"]))
    if _older(metadata(pod).get("creationTimestamp"), given, now):
        return "never_ready", f"{name} is not ready {int(given.total_seconds() // 60)} minutes after it was made"
    return "", ""


def _starts(look: _Look, now: datetime) -> bool:
    """Whether a new pod is on its way by its own probes: then a deadline that has passed, the controller's or ours, says nothing yet."""
    return any(not is_ready(pod) and starting.may_start(pod, now) for pod in look.new)


def _last_end(pod: Json) -> str:
    for status in container_statuses(pod):
        ended = (status.get("lastState") or {}).get("terminated") or (status.get("state") or {}).get("terminated") or {}
        if ended:
            return f"container {status.get('name')} ended with exit code {ended.get('exitCode')} ({ended.get('reason', 'Error')}), {status.get('restartCount', 0)} restart(s)"
    return f"{_restarts(pod)} restart(s)"


def _old_pod_blocks(remediation: Remediation, look: _Look, now: datetime) -> tuple[str, str]:
    """A StatefulSet waits for each pod to be ready: one of the old template that is not, and was not in the plan, holds it up."""
    if remediation.object.kind != "StatefulSet" or not look.settled or look.body["spec"].get("podManagementPolicy") == "Parallel":
        return "", ""
    first = int((look.body["spec"].get("ordinals") or {}).get("start", 0))
    partition = int(((look.body["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}).get("partition", 0))
    for pod in look.old:
        since = condition(pod, "Ready").get("lastTransitionTime") or metadata(pod).get("creationTimestamp")
        if not is_ready(pod) and not is_terminating(pod) and ordinal(pod) - first >= partition and _older(since, 3 * PATIENCE, now):
            return "never_ready", f"{metadata(pod)['name']} still has the old template and is not ready; the StatefulSet waits for it"
    return "", ""


def _older(stamp: Any, than: timedelta, now: datetime) -> bool:
    when = parsed(stamp)
    return when is not None and now - when >= than
