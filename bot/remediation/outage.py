"""How much capacity is missing during a rollout, and for how long: from the strategy, the replicas that serve, and how long the last start took. Pure."""

import math
from collections.abc import Mapping
from typing import Any

from bot.remediation import kinds, rollouts
from bot.remediation.pointer import get
from bot.remediation.shape import STRATEGY
from bot.remediation.workload import Workload, share, surge
from bot.units import duration


def at_once(workload: Workload, after: Mapping[str, Any], count: int) -> int:
    """How many old pods go before their successors are ready; 0 when the successors start first."""
    spec = after.get("spec") or {}
    if workload.kind in kinds.KINDS:
        return _custom(workload, after, count)
    if workload.kind == "StatefulSet":
        return 1
    if workload.kind == "DaemonSet":
        rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
        return share(rolling.get("maxUnavailable", 1), count, up=True)
    return count if (spec.get("strategy") or {}).get("type") == "Recreate" else surge(spec)[1]


def _custom(workload: Workload, after: Mapping[str, Any], count: int) -> int:
    if workload.kind == "RayCluster":
        return count
    if workload.kind == "LeaderWorkerSet":
        rolling = ((after["spec"].get("rolloutStrategy") or {}).get("rollingUpdateConfiguration")) or {}
        groups = max(1, workload.replicas)
        return max(1, share(rolling.get("maxUnavailable", 1), groups, up=False)) * count // groups
    return 1 if get(after, STRATEGY) == rollouts.OLD_FIRST else 0


def said(serving: int, count: int, going: int, start: float | None) -> tuple[str, str]:
    """One or two sentences: what is missing and for how long. `start`: seconds of the last start, None when it is not known."""
    each, each_zh = (
        (f" (the last start took {duration(start)})", f"（上次启动用时 {duration(start)}）")
        if start
        else ("; how long a start takes is not known", "；启动用时未知")
    )
    if not serving:
        return f"None serves now, so no capacity is lost{each}.", f"目前没有 Pod 在服务，不损失容量{each_zh}。"
    now, now_zh = (f" {serving} of {count} serve now.", f"目前 {count} 个中有 {serving} 个在服务。") if serving < count else ("", "")
    rounds = math.ceil(count / going) if going else count
    whole, whole_zh = (f"about {duration(start * rounds)}", f"约 {duration(start * rounds)}") if start else ("the whole rollout", "整个发布期间")
    if not going:
        return (
            f"The old pods serve until their successors are ready: no capacity is missing, for {whole} both take GPUs{each}.{now}",
            f"旧 Pod 会服务到新 Pod 就绪，不缺容量；{whole_zh}内两者都占用 GPU{each_zh}。{now_zh}",
        )
    if going >= count:
        return f"It does not serve for {whole}{each}.{now}", f"{whole_zh}内不提供服务{each_zh}。{now_zh}"
    if going * 2 == count:
        return f"For {whole} it serves with half of its capacity{each}.{now}", f"{whole_zh}内只有一半容量{each_zh}。{now_zh}"
    return (
        f"For {whole} it serves with {count - going} of {count} pods{each}.{now}",
        f"{whole_zh}内只有 {count} 个中的 {count - going} 个在服务{each_zh}。{now_zh}",
    )
