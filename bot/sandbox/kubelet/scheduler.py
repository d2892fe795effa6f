"""Puts pods on nodes as far as GPUs, memory, selectors and taints allow, and says why not in the scheduler's own words."""

from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal

from bot.ports import Json
from bot.sandbox.kubelet.pod import gpus_asked, shape
from bot.units import quantity

NAME = "default-scheduler"


def place(pod: Json, nodes: list[Json], pods: list[Json]) -> tuple[str | None, str]:
    """(node, "") or (None, the message of the FailedScheduling event)."""
    misfits: Counter[str] = Counter()
    for node in nodes:
        why = _misfit(pod, node, [each for each in pods if each["spec"].get("nodeName") == node["metadata"]["name"]])
        if why is None:
            return str(node["metadata"]["name"]), ""
        misfits[why] += 1
    return None, _sentence(len(nodes), misfits)


def _sentence(count: int, misfits: Counter[str]) -> str:
    if not count:
        return "no nodes available to schedule pods"
    reasons = ", ".join(f"{number} {why}" for why, number in sorted(misfits.items(), key=lambda row: f"{row[1]} {row[0]}"))
    victims = sum(number for why, number in misfits.items() if why.startswith("Insufficient"))
    rest = count - victims
    search = [f"{victims} No preemption victims found for incoming pod"] * bool(victims) + [f"{rest} Preemption is not helpful for scheduling"] * bool(rest)
    return f"0/{count} nodes are available: {reasons}. preemption: 0/{count} nodes are available: {', '.join(sorted(search))}."


def _misfit(pod: Json, node: Json, there: list[Json]) -> str | None:
    spec, labels = pod["spec"], node["metadata"].get("labels") or {}
    if node.get("spec", {}).get("unschedulable"):
        return "node(s) were unschedulable"
    for taint in node.get("spec", {}).get("taints") or []:
        if taint["effect"] in ("NoSchedule", "NoExecute") and not any(_tolerates(row, taint) for row in spec.get("tolerations") or []):
            value = f": {taint.get('value', '')}" if taint.get("value") else ""
            return f"node(s) had untolerated taint(s) {{{taint['key']}{value}}}"
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return "node(s) didn't match Pod's node affinity/selector"
    room = node["status"].get("allocatable") or {}
    living = [each for each in there if each["status"].get("phase") not in ("Succeeded", "Failed")]
    if gpus_asked(spec) > int(room.get("nvidia.com/gpu", 0)) - sum(gpus_asked(each["spec"]) for each in living):
        return "Insufficient nvidia.com/gpu"
    for size in ("memory", "cpu"):
        if _requested(spec, size) > quantity(room.get(size, "0")) - sum(_requested(each["spec"], size) for each in living):
            return f"Insufficient {size}"
    return None


def _tolerates(row: Json, taint: Json) -> bool:
    if row.get("effect") not in (None, "", taint["effect"]) or row.get("key") not in (None, "", taint["key"]):
        return False
    return row.get("operator") == "Exists" or row.get("value", "") == taint.get("value", "")


def _requested(spec: Json, size: str) -> Decimal:
    return sum((quantity(((row.get("resources") or {}).get("requests") or {}).get(size, "0")) for row in spec.get("containers") or []), Decimal(0))


def unschedulable(pod: Json, why: str) -> Json:
    """The status of a pod that found no node."""
    old = [row for row in pod["status"].get("conditions") or [] if row["type"] != "PodScheduled"]
    was = next((row for row in pod["status"].get("conditions") or [] if row["type"] == "PodScheduled"), None)
    since = was["lastTransitionTime"] if was and was["status"] == "False" else shape(datetime.now(UTC).timestamp())
    row = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why, "lastProbeTime": None, "lastTransitionTime": since}
    return {**pod["status"], "phase": "Pending", "conditions": [*old, row]}
