"""The writes that a rollout needs besides the patch of the template, found by looking at the workload's strategy, its pods and the free GPUs.

A crash-looping StatefulSet keeps its not-ready pod until somebody deletes it; a Deployment that may not go below its replica count
starts the new pod first, which never gets the GPU that the old one holds. Both were tried with the real controllers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bot.model import ObjectRef, Step, StepKind, Text
from bot.ports import ClusterReader, Json
from bot.remediation import kinds, rollouts
from bot.remediation.capacity import Room, room_for
from bot.remediation.change import Edit
from bot.remediation.pointer import MISSING, get
from bot.remediation.workload import Workload, gpus_of, is_terminating, metadata, ordinal, pods, serves, surge

STEADY = timedelta(minutes=10)  # a pod that crashed before must have run this long to count as serving
STRATEGY = "/spec/strategy"
_ROLLING = "/spec/strategy/rollingUpdate"


@dataclass(frozen=True, slots=True)
class Writes:
    """`edits` go into the same patch as the template's; `deletions` follow it. `held` says why nothing would roll at all."""

    edits: tuple[Edit, ...] = ()
    deletions: tuple[Step, ...] = ()
    notes: tuple[Text, ...] = ()
    held: Text | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """The workload's pods; `serving` are those that are ready, and not only between two crashes."""

    pods: tuple[Json, ...]
    serving: tuple[Json, ...]
    room: Room


def look(workload: Workload, reader: ClusterReader) -> Running:
    """Reads the pods, and whether one more would find a GPU where that matters."""
    if workload.kind == "Node":
        return Running((), (), Room(True))
    if workload.kind in kinds.KINDS:
        found = tuple(kinds.of_template(workload, kinds.pods(dict(workload.body), workload.kind, reader)))
    else:
        found = tuple(pods(workload.body, workload.kind, reader))
    surges = workload.kind in ("Deployment", "InferenceService", "LLMInferenceService", "RayService")
    room = room_for(workload.template, reader, _without_a_place(workload, found)) if surges and takes_gpus(workload) else Room(True)
    now = reader.now()
    return Running(found, tuple(pod for pod in found if serves(pod, now, STEADY)), room)


def _without_a_place(workload: Workload, found: Sequence[Json]) -> int:
    """How many pods it should have and that hold no GPU: what is free now is theirs before it is a new pod's."""
    wanted = kinds.KINDS[workload.kind].wanted(workload) if workload.kind in kinds.KINDS else workload.replicas
    return max(0, wanted - sum(1 for pod in found if (pod.get("spec") or {}).get("nodeName")))


def needed(workload: Workload, running: Running, target_pod: str) -> Writes:
    """All further writes for a patch of this workload's template."""
    if workload.kind == "StatefulSet":
        return _stateful_set(workload, running, target_pod)
    if workload.kind == "DaemonSet":
        return _daemon_set(workload, running)
    return _deployment(workload, running) if workload.kind == "Deployment" else _other(workload, running)


def _other(workload: Workload, running: Running) -> Writes:
    """The kinds that stand above Deployments and pods."""
    edits = rollouts.strategy(workload, running.room)
    return Writes(edits, rollouts.deletions(workload, running.pods), rollouts.notes(workload, running.room, edits), rollouts.held(workload, running.room))


def _daemon_set(workload: Workload, running: Running) -> Writes:
    """With RollingUpdate its controller takes not-ready pods first and waits for none of them; with OnDelete nothing rolls by itself."""
    if (workload.spec.get("updateStrategy") or {}).get("type") != "OnDelete":
        return Writes()
    stuck = sorted((pod for pod in running.pods if pod not in running.serving and not is_terminating(pod)), key=lambda pod: str(metadata(pod)["name"]))
    notes = [_on_delete(workload, len(running.serving)), *([_deletes_for_good(stuck)] if stuck else [])]
    return Writes(deletions=tuple(_deletion(pod) for pod in stuck), notes=tuple(notes))


def _deployment(workload: Workload, running: Running) -> Writes:
    room = running.room
    if workload.spec.get("paused"):
        return Writes(held=Text(
            f"The rollout of {workload.ref} is paused: a new template would roll nothing. Whoever paused it resumes it: kubectl -n {workload.ref.namespace} rollout resume deployment/{workload.ref.name}",
            f"{workload.ref} 的发布已暂停，修改模板不会生效。请由暂停的人恢复：kubectl -n {workload.ref.namespace} rollout resume deployment/{workload.ref.name}",
        ))  # fmt: skip
    more, fewer = surge(workload.spec)
    if (workload.spec.get("strategy") or {}).get("type") == "Recreate" or fewer or not more or not workload.replicas or not takes_gpus(workload):
        return Writes()
    if room.fits or (room.fits is None and running.serving):
        return Writes(notes=() if room.fits else (_unknown_room(room),))
    return Writes(_let_old_go_first(workload), notes=(_no_room(workload, room, more),))


def takes_gpus(workload: Workload) -> bool:
    return any(gpus_of(container) for container in workload.pod_spec.get("containers") or [])


def _let_old_go_first(workload: Workload) -> tuple[Edit, ...]:
    if get(workload.body, _ROLLING) is MISSING:
        before = get(workload.body, STRATEGY)
        return (Edit(STRATEGY, before, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}),)
    wanted: dict[str, Any] = {"maxSurge": 0, "maxUnavailable": 1}
    edits = [Edit(f"{_ROLLING}/{name}", get(workload.body, f"{_ROLLING}/{name}"), value) for name, value in wanted.items()]
    return tuple(edit for edit in edits if edit.before != edit.after)


def _no_room(workload: Workload, room: Room, more: int) -> Text:
    gpus = sum(gpus_of(container) for container in workload.template["spec"]["containers"])
    if room.fits is None:
        why, why_zh = f"whether one is free could not be read ({room.reason})", f"是否有空闲无法读取（{room.reason}）"
    elif room.free_gpus >= gpus and room.missing:
        why, why_zh = (
            f"{room.missing} of the pods that it should have {'is' if room.missing == 1 else 'are'} not placed yet, and would take what is free",
            f"应有的 Pod 中有 {room.missing} 个还没有调度，会先占用空闲的 GPU",
        )
    elif room.free_gpus >= gpus:
        why, why_zh = f"{room.none_of_them} has the CPU and memory left", f"{room.matching} 个匹配的节点都没有足够的 CPU 和内存"
    elif room.free_gpus:
        why, why_zh = (
            f"the most that is free on {room.them} is {room.free_gpus}",
            f"{room.matching} 个匹配的节点上最多只剩 {room.free_gpus} 块",
        )
    else:
        why, why_zh = f"none is free on {room.them}", f"{room.matching} 个匹配的节点上没有空闲"
    return Text(
        f"A new pod needs {gpus} free GPU{'s' if gpus > 1 else ''} while the old one holds its own: {why}. So the same patch lets one old pod go before its successor starts "
        f"(maxSurge {more} -> 0, maxUnavailable 0 -> 1); undo puts both back.",
        f"新 Pod 需要 {gpus} 块空闲 GPU，而旧 Pod 还占着自己的：{why_zh}。因此同一补丁让旧 Pod 先退出（maxSurge {more} -> 0，maxUnavailable 0 -> 1），撤销时一并还原。",
    )


def _unknown_room(room: Room) -> Text:
    return Text(
        f"Whether a GPU is free for the new pod could not be read ({room.reason}). If none is, the new pod stays Pending and you are asked what to do; the old pods go on serving.",
        f"无法读取是否有空闲 GPU（{room.reason}）。如果没有，新 Pod 会一直 Pending，届时会询问如何处理；旧 Pod 继续服务。",
    )


def _stateful_set(workload: Workload, running: Running, target_pod: str) -> Writes:
    strategy = workload.spec.get("updateStrategy") or {}
    first = int((workload.spec.get("ordinals") or {}).get("start", 0))
    partition = int((strategy.get("rollingUpdate") or {}).get("partition", 0))
    reached = [pod for pod in running.pods if ordinal(pod) - first >= partition]
    if strategy.get("type") != "OnDelete" and partition:
        wanted = [pod for pod in running.pods if metadata(pod)["name"] == target_pod]
        if not reached or any(pod not in reached for pod in wanted):
            return Writes(held=_partition(workload, partition))
    stuck = sorted((pod for pod in reached if pod not in running.serving and not is_terminating(pod)), key=ordinal, reverse=True)
    notes: list[Text] = []
    if strategy.get("type") == "OnDelete":
        notes.append(_on_delete(workload, len(running.serving)))
    elif partition:
        notes.append(Text(f"Partition {partition}: pods with a lower number keep the old template.", f"partition 为 {partition}：编号更小的 Pod 保持旧模板。"))
    if stuck:
        notes.append(_deletes(stuck))
    return Writes(deletions=tuple(_deletion(pod) for pod in stuck), notes=tuple(notes))


def _partition(workload: Workload, partition: int) -> Text:
    return Text(
        f"{workload.ref} has partition {partition}: pods with a lower number keep the old template, so the change would not reach this one. Whoever set the partition decides.",
        f"{workload.ref} 的 partition 为 {partition}：编号更小的 Pod 保持旧模板，修改不会生效。请由设置 partition 的人决定。",
    )


def _on_delete(workload: Workload, serving: int) -> Text:
    return Text(
        f"Update strategy OnDelete: nothing rolls by itself. {serving} pod(s) that are ready keep the old template until somebody deletes them.",
        f"更新策略为 OnDelete：不会自动滚动。{serving} 个就绪的 Pod 在被删除前保持旧模板。",
    )


def _deletes(stuck: Sequence[Json]) -> Text:
    names = ", ".join(str(metadata(pod)["name"]) for pod in stuck)
    return Text(
        f"A StatefulSet waits for a pod that is not ready instead of replacing it, so the plan deletes {names} (only these very pods, by UID).",
        f"StatefulSet 会一直等待未就绪的 Pod 而不替换它，因此计划会删除 {names}（按 UID 只删除这些 Pod）。",
    )


def _deletes_for_good(stuck: Sequence[Json]) -> Text:
    names = ", ".join(str(metadata(pod)["name"]) for pod in stuck)
    return Text(f"The plan deletes the not-ready {names} (only these very pods, by UID).", f"计划会删除未就绪的 {names}（按 UID 只删除这些 Pod）。")


def _deletion(pod: Json) -> Step:
    meta = metadata(pod)
    ref = ObjectRef("v1", "Pod", str(meta["namespace"]), str(meta["name"]), str(meta["uid"]))
    return Step(
        StepKind.DELETE_POD,
        ref,
        Text(f"Deletes the not-ready pod {ref.name}, so that it is made anew from the new template.", f"删除未就绪的 Pod {ref.name}，按新模板重建。"),
    )
