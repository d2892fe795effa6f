"""Action set_replicas: one more replica, or as many as a recommendation names.

What must hold afterwards: all pods are ready. Undo puts the old number back. A HorizontalPodAutoscaler that would put it back, a quota that refuses the
pod and a cluster without a free GPU for it are named instead of writing something that cannot hold.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from bot.errors import BadInput, WorldError
from bot.model import Text
from bot.ports import ClusterReader
from bot.remediation.capacity import is_counted, requests, room_for
from bot.remediation.change import Change, Elsewhere, put
from bot.remediation.pointer import MISSING, get
from bot.remediation.workload import Workload, gpus_of, metadata
from bot.units import quantity

NAME = "set_replicas"
ONE_MORE = "one more"
MOST = 256
_POINTERS = {
    "Deployment": "/spec/replicas",
    "StatefulSet": "/spec/replicas",
    "LeaderWorkerSet": "/spec/replicas",
    "LLMInferenceService": "/spec/replicas",
    "InferenceService": "/spec/predictor/minReplicas",
}


def change(workload: Workload, value: Any, reader: ClusterReader) -> Change | Elsewhere:
    """The edit of the number of replicas. Raises BadInput for a number outside 1 to 256."""
    pointer = _POINTERS.get(workload.kind) or _of_group(workload)
    if not pointer:
        return Elsewhere(Text(f"The number of pods of {workload.ref} is not set in it.", f"{workload.ref} 的 Pod 数不由它设定。"), "")
    found = get(workload.body, pointer)
    now = 1 if found is MISSING else int(found)
    wanted = now + 1 if value in (None, ONE_MORE) else value
    if isinstance(wanted, bool) or not isinstance(wanted, int | float) or wanted != int(wanted) or not 1 <= wanted <= MOST:
        raise BadInput(f"a number of replicas must be a whole number from 1 to {MOST}, not {str(value)[:40]!r}")
    if wanted <= now:
        return Elsewhere(Text(f"{workload.ref} already wants {now} replicas.", f"{workload.ref} 已经是 {now} 个副本。"), "")
    against = next(iter([*_scaled_by(workload, reader), *_quota(workload, int(wanted) - now, reader), *_no_room(workload, reader)]), None)
    if against is not None:
        return Elsewhere(against, f"kubectl -n {workload.ref.namespace} scale {workload.kind.lower()}/{workload.ref.name} --replicas={int(wanted)}\n", "sh")
    return Change((put(workload.body, pointer, int(wanted)),), (_costs(workload, int(wanted) - now),))


def _of_group(workload: Workload) -> str:
    """A Ray worker group's own number; the head is one."""
    return (
        f"{workload.shape.template.rpartition('/')[0]}/replicas"
        if workload.kind in ("RayCluster", "RayService") and "/workerGroupSpecs/" in workload.shape.template
        else ""
    )


def _costs(workload: Workload, more: int) -> Text:
    gpus = more * sum(gpus_of(one) for one in workload.pod_spec.get("containers") or [])
    return Text(
        f"Nothing restarts. {more} more pod(s) take {gpus} more GPU(s), for as long as they stay.",
        f"没有 Pod 重启。新增 {more} 个 Pod，持续占用 {gpus} 块 GPU。",
    )


def _scaled_by(workload: Workload, reader: ClusterReader) -> Iterator[Text]:
    try:
        found = reader.list("autoscaling/v2", "HorizontalPodAutoscaler", workload.ref.namespace)
    except WorldError:
        return
    for one in found:
        spec = one.get("spec") or {}
        ref = spec.get("scaleTargetRef") or {}
        if (ref.get("kind"), ref.get("name")) == (workload.kind, workload.ref.name):
            name = metadata(one)["name"]
            yield Text(
                f"HorizontalPodAutoscaler {name} sets the number (from {spec.get('minReplicas', 1)} to {spec.get('maxReplicas')}) and would put it back: change it there.",
                f"HorizontalPodAutoscaler {name} 控制副本数（{spec.get('minReplicas', 1)} 到 {spec.get('maxReplicas')}），会还原修改：请在那里修改。",
            )


def _quota(workload: Workload, more: int, reader: ClusterReader) -> Iterator[Text]:
    try:
        found = reader.list("v1", "ResourceQuota", workload.ref.namespace)
    except WorldError:
        return
    wanted = _asked(workload)
    for one in found:
        hard, used = ((one.get("status") or {}).get(part) or {} for part in ("hard", "used"))
        for resource, each in wanted.items():
            if resource in hard and quantity(str(used.get(resource, 0))) + more * each > quantity(str(hard[resource])):
                name = metadata(one)["name"]
                yield Text(
                    f"ResourceQuota {name} allows {hard[resource]} of {resource} here and {used.get(resource, 0)} are used: the new pod would be refused.",
                    f"ResourceQuota {name} 限制 {resource} 为 {hard[resource]}，已用 {used.get(resource, 0)}：新 Pod 会被拒绝。",
                )


def _asked(workload: Workload) -> Mapping[str, Decimal]:
    """What one pod counts in a quota."""
    counted = {f"requests.{name}": amount for name, amount in requests(workload.pod_spec).items()}
    limits: dict[str, Decimal] = {}
    for container in workload.pod_spec.get("containers") or []:
        for name, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            if is_counted(name):
                limits[f"limits.{name}"] = limits.get(f"limits.{name}", Decimal(0)) + quantity(str(amount))
    return {**counted, **limits, "pods": Decimal(1)}


def _no_room(workload: Workload, reader: ClusterReader) -> Iterator[Text]:
    room = room_for(workload.template, reader)
    if room.fits is False:
        yield Text(
            f"{room.none_of_them[:1].upper()}{room.none_of_them[1:]} has room for one more pod ({room.free_gpus} GPU(s) free at most): it would stay Pending.",
            f"{room.matching} 个匹配的节点都放不下新的 Pod（最多空闲 {room.free_gpus} 块 GPU）：它会一直 Pending。",
        )
