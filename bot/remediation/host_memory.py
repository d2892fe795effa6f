"""What a new memory limit means on the machine: the most that was seen in use beside it, and what the node has left. And after the change, the same again.

Sentences only; sizes are chosen by the diagnosis, and a node is chosen by the scheduler.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from bot.errors import WorldError
from bot.model import Diagnosis, Remediation, Text
from bot.ports import ClusterReader, Json
from bot.remediation import capacity
from bot.remediation.pointer import get
from bot.remediation.workload import Workload, metadata
from bot.units import quantity, show

FULL = 0.97  # of the limit: use that came so near was held back by it
_LIMIT = "/resources/limits/memory"


def predicted(workload: Workload, after: Mapping[str, Any], diagnosis: Diagnosis | None, node: str, reader: ClusterReader) -> tuple[Text, ...]:
    """For a preview that changes the memory limit; empty for any other. `after` is the object with the change."""
    old, new = (_bytes(get(body, workload.container_pointer + _LIMIT)) for body in (workload.body, after))
    if new is None or new == old:
        return ()
    seen = diagnosis.host_peak_bytes if diagnosis else None
    return (*(() if seen is None else (_seen(seen, old, new),)), *_on_node(workload, after, new, node, reader))


def compared(remediation: Remediation, before: Diagnosis | None, after: Diagnosis) -> Text:
    """What the new process has used so far beside its new limit and beside what the old one used; empty where that is not known."""
    new = limit_written(remediation)
    if new is None or after.host_peak_bytes is None:
        return Text("")
    was = before.host_peak_bytes if before else None
    more, more_zh = ("", "") if was is None else (f" (the old process: {show(was)})", f"（旧进程：{show(was)}）")
    return Text(f" Host memory so far: {show(after.host_peak_bytes)} at most, of {show(new)}{more}.", f" 主机内存目前最高 {show(after.host_peak_bytes)}，限制 {show(new)}{more_zh}。")


def limit_written(remediation: Remediation) -> int | None:
    """The memory limit that the plan sets, bytes; None when it sets none."""
    found = [one for step in remediation.steps for one in step.patch if one["op"] in ("add", "replace") and str(one["path"]).startswith(remediation.bound.container)]
    for one in found:
        rest = str(one["path"])[len(remediation.bound.container) :]
        value = one["value"] if rest == _LIMIT else get({"resources": one["value"]}, _LIMIT) if rest == "/resources" else None
        if rest == "/resources/limits" and isinstance(one["value"], Mapping):
            value = one["value"].get("memory")
        if (size := _bytes(value)) is not None:
            return size
    return None


def _seen(seen: int, old: int | None, new: int) -> Text:
    if old is not None and seen >= old * FULL:
        return Text(
            f"It was seen to use all of its {show(old)} and wanted more; how much more, nobody knows. The new limit is {show(new - old)} above that.",
            f"已观察到它用满了 {show(old)} 且还需要更多，具体多少未知。新限制高出 {show(new - old)}。",
        )
    if seen > new:
        return Text(
            f"It was seen to use {show(seen)} of host memory, which is more than the new limit of {show(new)}: expect it to be killed again.",
            f"已观察到它使用 {show(seen)} 主机内存，超过新限制 {show(new)}：预计会再次被终止。",
        )
    return Text(
        f"It was seen to use {show(seen)} of host memory at most; the new limit leaves {show(new - seen)} above that.",
        f"已观察到主机内存最高使用 {show(seen)}；新限制在其上还有 {show(new - seen)}。",
    )


def _on_node(workload: Workload, after: Mapping[str, Any], new: int, node: str, reader: ClusterReader) -> tuple[Text, ...]:
    """What of the node's memory nobody has asked for, beside what this pod may use beyond its own request."""
    if not node:
        return ()
    try:
        body = reader.get("v1", "Node", "", node)
        pods = reader.list("v1", "Pod", field_selector=f"spec.nodeName={node}", limit=1000)
    except WorldError:
        return ()
    allocatable = _bytes(((body.get("status") or {}).get("allocatable") or {}).get("memory"))
    if allocatable is None:
        return ()
    count, own, others = _requests(workload, after, pods)
    left = allocatable - others - count * own
    beyond = count * (new - own)
    if beyond <= left:
        return (Text(
            f"Node {node}: {show(max(0, left))} of {show(allocatable)} are asked for by nobody, enough for what it may use beyond its request.",
            f"节点 {node}：{show(allocatable)} 中有 {show(max(0, left))} 未被请求，足以容纳超出其 request 的部分。",
        ),)  # fmt: skip
    return (Text(
        f"Node {node}: only {show(max(0, left))} of {show(allocatable)} are asked for by nobody, and it may now use {show(beyond)} beyond its request: if it does, the node itself can run out of memory.",
        f"节点 {node}：{show(allocatable)} 中只有 {show(max(0, left))} 未被请求，而它现在可能超出其 request {show(beyond)}：果真如此，节点本身可能内存不足。",
    ),)  # fmt: skip


def _requests(workload: Workload, after: Mapping[str, Any], pods: Sequence[Json]) -> tuple[int, int, int]:
    """How many of the workload's pods the node has (or will have: one), what each asks for after the change, and what all other pods there ask for."""
    spec = Workload(workload.ref, dict(after), workload.index, workload.shape).pod_spec
    own = capacity.requests(spec).get("memory", Decimal(0))
    labels = ((workload.template.get("metadata") or {}).get("labels") or {}).items()
    running = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    others = [pod for pod in running if not (labels and labels <= (metadata(pod).get("labels") or {}).items())]
    return max(1, len(running) - len(others)), int(own), int(sum((capacity.requests(pod["spec"]).get("memory", Decimal(0)) for pod in others), Decimal(0)))


def _bytes(value: Any) -> int | None:
    return int(quantity(str(value))) if isinstance(value, str | int) and not isinstance(value, bool) else None
