"""How long a pod may take to start, by its own probes, and whether it is still within that. Pure.

A Deployment's `progressDeadlineSeconds` is another clock: it changes nothing when it has passed, and it may be shorter than what the probes allow.
What is not bounded by a probe is not bounded here: then the controller's word stands.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from bot.model import Text
from bot.remediation import knative
from bot.remediation.workload import Workload, condition, container_statuses, metadata, parsed
from bot.units import duration

PULL = timedelta(minutes=10)  # from a pod made to its containers started: images of servers have ten GB and more
_DELAY, _PERIOD, _FAILURES = ("initialDelaySeconds", 0), ("periodSeconds", 10), ("failureThreshold", 3)
_PROGRESS_S = 600  # a Deployment's deadline where it names none


def allowed(pod_spec: Mapping[str, Any]) -> timedelta:
    """From the start of the containers until the kubelet ends the one that may take longest; none where no probe bounds a start."""
    return max((_of_container(one) for one in pod_spec.get("containers") or []), default=timedelta())


def _of_container(container: Mapping[str, Any]) -> timedelta:
    probe = container.get("startupProbe") or container.get("livenessProbe")
    if not probe:
        return timedelta()
    delay, period, failures = (int(probe.get(name) or default) for name, default in (_DELAY, _PERIOD, _FAILURES))
    return timedelta(seconds=delay + period * failures)


def may_start(pod: Mapping[str, Any], now: datetime) -> bool:
    """Whether a pod that never ended is still within the time that its probes allow. One without a node has nothing that could start."""
    statuses, specs = list(container_statuses(pod)), {str(one.get("name")): one for one in pod["spec"].get("containers") or []}
    if not pod["spec"].get("nodeName") or condition(pod, "PodScheduled").get("status") == "False" or any(_has_ended(one) for one in statuses):
        return False
    begun = parsed(metadata(pod).get("creationTimestamp"))
    running = {str(one.get("name")): parsed(((one.get("state") or {}).get("running") or {}).get("startedAt")) for one in statuses}
    left = [name for name in specs if running.get(name) is None]
    if left:
        return begun is not None and now < begun + PULL
    return any(now < at + _of_container(specs[str(one["name"])]) for one in statuses if (at := running[str(one.get("name"))]) and _is_before(one, specs))


def _is_before(status: Mapping[str, Any], specs: Mapping[str, Any]) -> bool:
    """Whether a running container of the pod has yet to answer its probe."""
    spec = specs.get(str(status.get("name")))
    return spec is not None and not status.get("ready") and not (spec.get("startupProbe") and status.get("started"))


def _has_ended(status: Mapping[str, Any]) -> bool:
    """A container that ended, in this life or before; init containers that did their work have not."""
    ended = (status.get("state") or {}).get("terminated") or {}
    return int(status.get("restartCount", 0)) > 0 or bool((status.get("lastState") or {}).get("terminated")) or int(ended.get("exitCode", 0)) != 0


def said(workload: Workload, after: Mapping[str, Any]) -> tuple[Text, ...]:
    """For the preview: Knative's deadline, which ends a start; or that the probes of the new template allow more than the Deployment's, and what is made of that."""
    may = allowed(Workload(workload.ref, dict(after), workload.index, workload.shape).pod_spec)
    if workload.kind == "InferenceService" and knative.is_serverless(after):
        return (knative.said(after, may),)
    if workload.kind != "Deployment":
        return ()
    deadline = int(after["spec"].get("progressDeadlineSeconds") or _PROGRESS_S)
    if may.total_seconds() <= deadline:
        return ()
    lasts, own, pull = duration(may.total_seconds()), duration(deadline), duration(PULL.total_seconds())
    return (
        Text(
            f"A pod may take {lasts} to start by its probe, plus up to {pull} for its image, and is given that. The Deployment's progressDeadlineSeconds ({own}) "
            "may pass before: then it says ProgressDeadlineExceeded until the pod is ready, which stops nothing and does not count as stuck here.",
            f"按探针，一个 Pod 最多可用 {lasts} 启动，另加最多 {pull} 拉取镜像，机器人会等这么久。Deployment 的 progressDeadlineSeconds（{own}）可能先到："
            "此时它会显示 ProgressDeadlineExceeded，直到 Pod 就绪；这不会中止任何操作，这里也不算卡住。",
        ),
    )
