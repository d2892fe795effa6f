"""Action remove_cpu_limit: takes the CPU limit off the server's container; the request stays.

What must hold afterwards: the pods become ready. Undo puts the limit back.
A ResourceQuota that demands a limit, or a LimitRange that would put one back, is named instead of writing something that cannot hold.
"""

from collections.abc import Iterator
from typing import Any

from bot.errors import WorldError
from bot.model import Text
from bot.ports import ClusterReader
from bot.remediation.change import Change, Edit, Elsewhere, put
from bot.remediation.pointer import MISSING, get, join
from bot.remediation.workload import Workload, metadata

NAME = "remove_cpu_limit"


def change(workload: Workload, reader: ClusterReader) -> Change | Elsewhere:
    """The edit that removes `resources.limits.cpu`."""
    path = workload.container_pointer + join("resources", "limits", "cpu")
    now = get(workload.body, path)
    if now is MISSING:
        return Elsewhere(Text("The pod template sets no CPU limit.", "模板里没有 CPU limit。"), "")
    forbidden = next(iter([*_quotas(workload, reader), *_defaults(workload, reader)]), None)
    if forbidden is not None:
        return Elsewhere(forbidden, "")
    return Change((Edit(path, now, MISSING), *_request(workload, now)), (_quality(),))


def _request(workload: Workload, limit: Any) -> tuple[Edit, ...]:
    """A request that was only implied by the limit is written out: it would vanish with it."""
    resources = workload.container_pointer + join("resources")
    if get(workload.body, f"{resources}/requests/cpu") is not MISSING:
        return ()
    return (put(workload.body, f"{resources}/requests/cpu", limit),)


def _quality() -> Text:
    return Text(
        "Should requests have equalled limits until now, the pod leaves the class Guaranteed: under node memory pressure the kernel prefers it sooner.",
        "如果之前 requests 等于 limits，Pod 将不再是 Guaranteed：节点内存紧张时会更早被选中。",
    )


def _quotas(workload: Workload, reader: ClusterReader) -> Iterator[Text]:
    try:
        found = reader.list("v1", "ResourceQuota", workload.ref.namespace)
    except WorldError:
        return
    for one in found:
        if "limits.cpu" in ((one.get("spec") or {}).get("hard") or {}):
            name = metadata(one)["name"]
            yield Text(
                f"ResourceQuota {name} counts CPU limits, so a pod without one is refused here.",
                f"ResourceQuota {name} 统计 CPU limit，没有 limit 的 Pod 会被拒绝。",
            )


def _defaults(workload: Workload, reader: ClusterReader) -> Iterator[Text]:
    try:
        found = reader.list("v1", "LimitRange", workload.ref.namespace)
    except WorldError:
        return
    for one in found:
        for rule in (one.get("spec") or {}).get("limits") or []:
            if rule.get("type") == "Container" and ("cpu" in (rule.get("default") or {}) or "cpu" in (rule.get("max") or {})):
                name = metadata(one)["name"]
                yield Text(
                    f"LimitRange {name} gives every container here a CPU limit, so removing it changes nothing.",
                    f"LimitRange {name} 会给每个容器补上 CPU limit，移除没有效果。",
                )
