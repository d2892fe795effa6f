"""What an approver should know before pressing: what restarts, for how long capacity is missing, budgets, what undo does. Plain sentences, no decisions."""

from collections.abc import Mapping, Sequence
from typing import Any

from bot.errors import WorldError
from bot.model import Predicted, Text
from bot.ports import ClusterReader, Json
from bot.remediation import kinds, outage
from bot.remediation.change import Edit
from bot.remediation.pointer import get
from bot.remediation.shape import rolls
from bot.remediation.workload import Workload, condition, container_statuses, metadata, parsed
from bot.units import show


def restarts(workload: Workload, pods: Sequence[Json], serving: int, after: Mapping[str, Any]) -> Text:
    """Which pods restart, in which way, and what that costs."""
    count = _count(workload, pods)
    if not count:
        return Text(
            "The workload is scaled to 0: nothing restarts; the next pods start with the change.", "副本数为 0：没有 Pod 重启，之后启动的 Pod 会带上修改。"
        )
    way, way_zh = _way(workload, after, count)
    missing, missing_zh = outage.said(serving, count, outage.at_once(workload, after, count), last_start(workload, pods))
    return Text(f"Restarts {way}. {missing}", f"重启{way_zh}。{missing_zh}")


def _count(workload: Workload, pods: Sequence[Json]) -> int:
    if workload.kind in kinds.KINDS:
        return kinds.KINDS[workload.kind].wanted(workload)
    return len(pods) if workload.kind == "DaemonSet" else workload.replicas


def _way(workload: Workload, after: Mapping[str, Any], count: int) -> tuple[str, str]:
    if count == 1:
        return "its one pod", "唯一的 Pod"
    if workload.kind == "Deployment" and (after["spec"].get("strategy") or {}).get("type") == "Recreate":
        return f"all {count} pods at once (strategy Recreate)", f"全部 {count} 个 Pod，一次完成（Recreate）"
    if workload.kind == "RayCluster":
        return f"{count} pods of group {kinds.group_name(workload)} at once", f"组 {kinds.group_name(workload)} 的 {count} 个 Pod，一次完成"
    if workload.kind == "RayService":
        return (
            f"{count} pods of group {kinds.group_name(workload)}, in a second cluster",
            f"组 {kinds.group_name(workload)} 的 {count} 个 Pod（在第二个集群里）",
        )
    if workload.kind == "StatefulSet":
        return f"{count} pods one after another, highest number first", f" {count} 个 Pod，逐个，编号从大到小"
    return f"{count} pods one after another", f" {count} 个 Pod，逐个"


def last_start(workload: Workload, pods: Sequence[Json]) -> float | None:
    """Seconds from the start of the server's container to ready, of the pod that took longest; None when no pod is ready."""
    times = [seconds for pod in pods for seconds in _start_of(pod, str(workload.container_name))]
    return max(times, default=None)


def _start_of(pod: Mapping[str, Any], container: str) -> list[float]:
    condition_ready = condition(pod, "Ready")
    ready = parsed(condition_ready.get("lastTransitionTime")) if condition_ready.get("status") == "True" else None
    for status in container_statuses(pod):
        started = parsed(((status.get("state") or {}).get("running") or {}).get("startedAt"))
        if status.get("name") == container and started and ready and ready > started:
            return [(ready - started).total_seconds()]
    return []


def budgets(workload: Workload, reader: ClusterReader) -> tuple[Text, ...]:
    """The disruption budgets of these pods; they bind evictions, not rollouts, which people tend to forget."""
    try:
        found = reader.list("policy/v1", "PodDisruptionBudget", workload.ref.namespace)
    except WorldError:
        return ()
    labels = (workload.template.get("metadata") or {}).get("labels") or {}
    mine = [budget for budget in found if _selects(budget, labels)]
    return tuple(_budget(budget) for budget in mine)


def _selects(budget: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    selector = (budget.get("spec") or {}).get("selector") or {}
    wanted = selector.get("matchLabels") or {}
    return bool(wanted) and not selector.get("matchExpressions") and all(labels.get(key) == value for key, value in wanted.items())


def _budget(budget: Mapping[str, Any]) -> Text:
    spec = budget.get("spec") or {}
    asks = f"minAvailable {spec['minAvailable']}" if "minAvailable" in spec else f"maxUnavailable {spec.get('maxUnavailable')}"
    name = metadata(budget).get("name")
    return Text(f"Disruption budget {name} ({asks}) does not hold back a rollout.", f"PodDisruptionBudget {name}（{asks}）不约束滚动发布。")


def undo(edits: Sequence[Edit], workload: Workload) -> Text:
    """What undo will do."""
    strategy = any(not rolls(edit.pointer, workload.shape.template) for edit in edits)
    more, more_zh = (
        (" (the strategy last, once the pods are back)", "（发布策略在 Pod 恢复后最后还原）") if strategy and workload.kind == "Deployment" else ("", "")
    )
    if not any(rolls(edit.pointer, workload.shape.template) for edit in edits):
        return Text("Undo puts back the value above.", "撤销会还原上面的值。")
    return Text(f"Undo puts back the values above{more}, which restarts the pods once more.", f"撤销会还原上面的值{more_zh}，Pod 会再重启一次。")


def predicted(size: Predicted | None) -> tuple[Text, ...]:
    """The cache after the change, as far as it could be computed."""
    if size is None or (size.available_kv_bytes is None and size.kv_tokens is None):
        return ()
    parts = [show(size.available_kv_bytes)] if size.available_kv_bytes is not None else []
    parts += [f"{size.kv_tokens:,} tokens"] if size.kv_tokens is not None else []
    more, more_zh = "", ""
    if size.max_concurrency is not None:
        more, more_zh = f", room for {size.max_concurrency:.1f} request(s) of full length at once", f"，可同时容纳 {size.max_concurrency:.1f} 个满长请求"
    if size.free_bytes is not None:
        more, more_zh = f"{more}; {show(size.free_bytes)} of the card stay free", f"{more_zh}；显卡剩余 {show(size.free_bytes)}"
    return (Text(f"Afterwards: cache {', '.join(parts)}{more}.", f"之后：缓存 {'，'.join(parts)}{more_zh}。"),)


def drifted(workload: Workload, edit: Edit, seen: str | int | float | None, option: str) -> tuple[Text, ...]:
    """A warning when the template no longer says what the failing pod ran with: the size was computed for the old value."""
    now = get(workload.body, edit.pointer)
    if seen is None or not isinstance(now, str) or str(seen) in now:
        return ()
    return (Text(f"The failing pod ran with {option} {seen}, the template now says `{now}`.", f"出错的 Pod 使用 {option} {seen}，模板现在是 `{now}`。"),)
