"""What the controllers of the kinds in `kinds.py` do with a changed template, and which further writes that needs.

A RayCluster keeps its old pods: the plan deletes those of the group. A RayService prepares a second cluster beside the old one, KServe a second
pod: where no GPU is free for it, the strategy is changed in the same patch if the kind has one, and else it is said that nothing would roll.
"""

from collections.abc import Mapping, Sequence

from bot.model import ObjectRef, Step, StepKind, Text
from bot.ports import Json
from bot.remediation import kinds, knative
from bot.remediation.capacity import Room
from bot.remediation.change import Edit, put
from bot.remediation.pointer import MISSING, get
from bot.remediation.shape import STRATEGY
from bot.remediation.workload import Workload, gpus_of, metadata

OLD_FIRST = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def deletions(workload: Workload, found: Sequence[Json]) -> tuple[Step, ...]:
    """A RayCluster's operator never replaces a pod for a changed template: those of the group are deleted, by UID."""
    if workload.kind != "RayCluster":
        return ()
    return tuple(_deletion(pod, kinds.group_name(workload)) for pod in found)


def _deletion(pod: Json, group: str) -> Step:
    meta = metadata(pod)
    ref = ObjectRef("v1", "Pod", str(meta["namespace"]), str(meta["name"]), str(meta["uid"]))
    return Step(
        StepKind.DELETE_POD,
        ref,
        Text(
            f"Deletes pod {ref.name} of group {group}, which KubeRay makes anew from the new template.",
            f"删除组 {group} 的 Pod {ref.name}，KubeRay 会按新模板重建。",
        ),
    )


def strategy(workload: Workload, room: Room) -> tuple[Edit, ...]:
    """The edits by which an old pod goes before its successor starts, where one more would find no GPU."""
    if workload.kind != "InferenceService" or room.fits or knative.is_serverless(workload.body):
        return ()
    now = get(workload.body, STRATEGY)
    goes_first = isinstance(now, Mapping) and (
        now.get("type") == "Recreate" or (now.get("rollingUpdate") or {}).get("maxUnavailable") not in (None, 0, "0%", "25%")
    )
    if goes_first:
        return ()
    return (put(workload.body, STRATEGY, OLD_FIRST),) if now is MISSING else (Edit(STRATEGY, now, OLD_FIRST),)


def notes(workload: Workload, room: Room, edits: Sequence[Edit]) -> tuple[Text, ...]:
    """What people should know of how this kind rolls."""
    if edits:
        return (Text(
            "A new pod needs a GPU while the old one holds its own, and none is free: so the same patch lets the old pod go first (deploymentStrategy maxSurge 0, maxUnavailable 1); undo puts it back.",
            "新 Pod 需要 GPU 而旧 Pod 还占着，且没有空闲：同一补丁让旧 Pod 先退出（deploymentStrategy maxSurge 0、maxUnavailable 1），撤销时还原。",
        ),)  # fmt: skip
    if workload.kind == "RayService" and room.fits is not False:
        return (
            Text(
                "KubeRay prepares a second cluster with the change and moves the traffic when it serves; both hold GPUs meanwhile.",
                "KubeRay 会先准备第二个集群，就绪后切换流量；期间两者都占用 GPU。",
            ),
        )
    if workload.kind == "RayCluster":
        return (
            Text(
                "KubeRay does not replace pods for a changed template, so the plan deletes those of the group; what runs on them is lost.",
                "KubeRay 不会因模板变化替换 Pod，因此计划会删除该组的 Pod；其上运行的任务会丢失。",
            ),
        )
    if workload.kind == "LeaderWorkerSet":
        return (Text("A group (leader and workers) restarts as a whole, one group after another.", "每组（leader 和 worker）整体重启，逐组进行。"),)
    return ()


def held(workload: Workload, room: Room) -> Text | None:
    """Why nothing would roll, however the patch is written."""
    upgrade = (workload.spec.get("upgradeStrategy") or {}).get("type", "")
    if workload.kind == "RayService" and upgrade == "None":
        return Text(
            f"{workload.ref} has upgradeStrategy None: KubeRay would not roll a new template.",
            f"{workload.ref} 的 upgradeStrategy 为 None：KubeRay 不会发布新模板。",
        )
    if room.fits is not False or not any(gpus_of(one) for one in workload.pod_spec.get("containers") or []):
        return None
    beside = {
        "RayService": ("KubeRay prepares a second cluster beside the old one", "KubeRay 会在旧集群旁准备第二个集群", "its old RayCluster", "旧的 RayCluster"),
        "LLMInferenceService": (
            "its controller starts the new pod beside the old one",
            "控制器会先启动新 Pod",
            "its old pods (scale to 0 and back)",
            "旧 Pod（缩到 0 再恢复）",
        ),
    }
    if workload.kind == "InferenceService" and knative.is_serverless(workload.body):
        beside["InferenceService"] = ("Knative starts the new revision beside the old one", "Knative 会先启动新版本", "its old revision", "旧版本")
    if workload.kind not in beside:
        return None
    way, way_zh, what, what_zh = beside[workload.kind]
    return Text(
        f"{way}, and no GPU is free for it on {room.them}: it would wait for ever. Free a GPU, or remove {what} after the change.",
        f"{way_zh}，而 {room.matching} 个匹配的节点上没有空闲 GPU，会一直等待。请先腾出 GPU，或在修改后删除{what_zh}。",
    )
