"""Whether one more pod of a workload would find a place, from the nodes' allocatable amounts and the pods' requests.

A sketch of the scheduler that is right in the case that matters (no free GPU): selector, required affinity, taints, readiness and
requests count; spreading, pod affinity and preemption do not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bot.errors import WorldError
from bot.ports import ClusterReader, Json
from bot.remediation.workload import condition, is_gpu, metadata
from bot.units import quantity

Amounts = dict[str, Decimal]
FEW = 50  # nodes that are asked for their pods one by one; a large cluster has many more pods that do not matter here
_COUNTED = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Room:
    """`fits`: None when nodes or pods could not be read (`reason`). `matching` nodes pass selector, affinity and taints; `free_gpus` is the most on one of them.
    `missing`: so many pods that it should have hold no place yet, and may take one before the one more does."""

    fits: bool | None
    matching: int = 0
    free_gpus: int = 0
    reason: str = ""
    missing: int = 0

    @property
    def them(self) -> str:
        """The nodes that match, in a sentence."""
        return "the one node that matches" if self.matching == 1 else f"the {self.matching} nodes that match"

    @property
    def none_of_them(self) -> str:
        return "not even the one node that matches" if self.matching == 1 else f"none of {self.them}"


def room_for(template: Mapping[str, Any], reader: ClusterReader, missing: int = 0) -> Room:
    """Room for one more pod of the template besides all that run now, and besides `missing` ones that may come at any moment."""
    pod_spec = dict(template.get("spec") or {})
    try:
        nodes = [node for node in reader.list("v1", "Node", limit=10_000) if takes(node, pod_spec)]
        if len(nodes) > FEW:
            return compute(pod_spec, nodes, reader.list("v1", "Pod", limit=100_000), missing)
        pods = [pod for node in nodes for pod in reader.list("v1", "Pod", field_selector=f"spec.nodeName={metadata(node)['name']}", limit=1000)]
    except WorldError as wrong:
        return Room(None, reason=str(wrong))
    return compute(pod_spec, nodes, pods, missing)


def compute(pod_spec: Mapping[str, Any], nodes: Sequence[Json], pods: Sequence[Json], missing: int = 0) -> Room:
    """The same, from what was read."""
    wanted = requests(pod_spec)
    used: dict[str, Amounts] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if node and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            _add(used.setdefault(node, {}), requests(pod["spec"]))
    matching = [node for node in nodes if takes(node, pod_spec)]
    free = [_free(node, used.get(metadata(node)["name"], {})) for node in matching]
    fits = sum(_times(left, wanted, missing + 1) for left in free) > missing
    gpus = max((sum(int(amount) for name, amount in left.items() if is_gpu(name)) for left in free), default=0)
    return Room(fits, len(matching), max(0, gpus), missing=missing)


def _times(left: Amounts, wanted: Amounts, most: int) -> int:
    """How many such pods a node takes, counted up to `most`."""
    return max(0, min([most, *(int(left.get(name, Decimal(0)) // amount) for name, amount in wanted.items() if amount > 0)]))


def requests(pod_spec: Mapping[str, Any]) -> Amounts:
    """What the scheduler counts for a pod: the sum of its containers, or its largest init container where that is more. GPUs, CPU and memory."""
    total: Amounts = {}
    for container in pod_spec.get("containers") or []:
        _add(total, _requests(container))
    for container in pod_spec.get("initContainers") or []:
        one = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(total, one)
        else:
            total.update({name: max(total.get(name, Decimal(0)), amount) for name, amount in one.items()})
    return total


def _requests(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    both = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: quantity(str(amount)) for name, amount in both.items() if is_counted(name)}


def is_counted(resource: str) -> bool:
    """Whether it is looked at: CPU, memory, GPUs."""
    return resource in _COUNTED or is_gpu(resource)


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Decimal(0)) + amount


def _free(node: Mapping[str, Any], used: Amounts) -> Amounts:
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    counted = {name: quantity(str(amount)) for name, amount in allocatable.items() if is_counted(name)}
    return {name: amount - used.get(name, Decimal(0)) for name, amount in counted.items()}


def takes(node: Mapping[str, Any], pod_spec: Mapping[str, Any]) -> bool:
    """Whether a node lets such a pod in at all, however full it is."""
    spec = node.get("spec") or {}
    if spec.get("unschedulable") or condition(node, "Ready").get("status") != "True":
        return False
    labels = {**(metadata(node).get("labels") or {})}
    wanted = pod_spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return _affine(labels, str(metadata(node)["name"]), pod_spec) and _tolerated(spec.get("taints") or [], pod_spec.get("tolerations") or [])


def _affine(labels: Mapping[str, str], name: str, pod_spec: Mapping[str, Any]) -> bool:
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms")
    if not terms:
        return True
    fields = {"metadata.name": name}
    return any(
        all(_holds(one, labels) for one in term.get("matchExpressions") or []) and all(_holds(one, fields) for one in term.get("matchFields") or [])
        for term in terms
    )


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator, values = expression.get("key", ""), expression.get("operator"), expression.get("values") or []
    value = labels.get(key)
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if value is None or not value.lstrip("-").isdigit() or not values:
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])


def _tolerated(taints: Iterable[Mapping[str, Any]], tolerations: Sequence[Mapping[str, Any]]) -> bool:
    return all(any(_tolerates(one, taint) for one in tolerations) for taint in taints if taint.get("effect") in ("NoSchedule", "NoExecute"))


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint.get("key"))
    return toleration.get("key") == taint.get("key") and toleration.get("value", "") == taint.get("value", "")
