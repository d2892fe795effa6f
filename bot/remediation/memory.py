"""Action set_memory: sets the memory limit or request of the server's container to a computed size in bytes.

What must hold afterwards: the new process is not killed for the same cause. Undo puts the old quantity back, or takes the field away.
A LimitRange or ResourceQuota that forbids the size is named before anything is written; whether a node has the room is for the scheduler.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from bot.errors import BadInput, WorldError
from bot.model import Text
from bot.ports import ClusterReader
from bot.remediation.change import Change, Elsewhere, put
from bot.remediation.paste import container_patch
from bot.remediation.pointer import MISSING, get, join
from bot.remediation.shared_memory import PLACE
from bot.remediation.workload import Workload, metadata
from bot.units import GIB, MIB, TIB, as_quantity, quantity, show

NAME = "set_memory"
FIELDS = ("limits", "requests")
LOW, HIGH = 64 * MIB, 16 * TIB


def change(workload: Workload, field: str, value: Any, direction: str, reader: ClusterReader) -> Change | Elsewhere:
    """The edit that sets `resources.<field>.memory`. Raises BadInput for a size outside 64 MiB to 16 TiB."""
    size = _size(value)
    path = workload.container_pointer + join("resources", field, "memory")
    written = as_quantity(size)
    now = get(workload.body, path)
    against = _against(workload, field, size, now, direction)
    if against is not None:
        return against
    forbidden = [*_limit_ranges(workload, size, reader), *_quotas(workload, field, size, now, reader)]
    if forbidden:
        return Elsewhere(forbidden[0], container_patch(workload.container_name, {"resources": {field: {"memory": written}}}))
    edits = [put(workload.body, path, written)]
    return Change(tuple(edits), _notes(workload, field, size))


def _size(value: Any) -> int:
    """Bytes, rounded up to whole MiB (to whole GiB from 4 GiB on)."""
    if isinstance(value, str):
        value = int(quantity(value))
    if isinstance(value, bool) or not isinstance(value, int | float) or not LOW <= value <= HIGH:
        raise BadInput(f"a memory size must lie between {show(LOW)} and {show(HIGH)}, not {str(value)[:40]}")
    unit = GIB if value >= 4 * GIB else MIB
    return -(-int(value) // unit) * unit


def _against(workload: Workload, field: str, size: int, now: Any, direction: str) -> Elsewhere | None:
    """Why the size makes no sense beside what stands there."""
    if now is not MISSING:
        current = int(quantity(str(now)))
        if current == size:
            return Elsewhere(Text(f"The pod template already says {field}.memory {now}.", f"模板里已经是 {field}.memory {now}。"), "")
        if direction in ("raise", "lower") and (size > current) != (direction == "raise"):
            return Elsewhere(
                Text(
                    f"The template now says {field}.memory {now}: {as_quantity(size)} would not {direction} it. Check again.",
                    f"模板现在是 {field}.memory {now}，与建议方向不符，请重新检查。",
                ),
                "",
            )
    other = get(workload.container, join("resources", "requests" if field == "limits" else "limits", "memory"))
    if other is not MISSING and (size < quantity(str(other)) if field == "limits" else size > quantity(str(other))):
        return Elsewhere(
            Text(f"{field}.memory {as_quantity(size)} does not go with the other side, {other}: a request may not exceed its limit. Change both in the manifest.",
                 f"{field}.memory {as_quantity(size)} 与另一侧的 {other} 冲突：request 不能超过 limit。请在清单里同时修改。"), ""
        )  # fmt: skip
    return None


def _limit_ranges(workload: Workload, size: int, reader: ClusterReader) -> Iterator[Text]:
    try:
        found = reader.list("v1", "LimitRange", workload.ref.namespace)
    except WorldError:
        return
    for one in found:
        for rule in (one.get("spec") or {}).get("limits") or []:
            most = (rule.get("max") or {}).get("memory")
            if rule.get("type") == "Container" and most is not None and Decimal(size) > quantity(str(most)):
                name = metadata(one)["name"]
                yield Text(
                    f"LimitRange {name} allows at most {most} a container here; who keeps it must raise it first.",
                    f"LimitRange {name} 限制每个容器最多 {most}，需要先由其负责人调高。",
                )


def _quotas(workload: Workload, field: str, size: int, now: Any, reader: ClusterReader) -> Iterator[Text]:
    """Quotas for all pods of the namespace that the size would break, once each pod of the workload has it. Those with a scope may be for other pods."""
    more = (size - (0 if now is MISSING else int(quantity(str(now))))) * max(1, workload.replicas)
    names = ("limits.memory",) if field == "limits" else ("requests.memory", "memory")
    try:
        found = reader.list("v1", "ResourceQuota", workload.ref.namespace)
    except WorldError:
        return
    for one in found:
        spec, status = one.get("spec") or {}, one.get("status") or {}
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue
        for name in names:
            hard, used = (status.get("hard") or {}).get(name), (status.get("used") or {}).get(name)
            if hard is not None and used is not None and int(quantity(str(used))) + more > int(quantity(str(hard))):
                called = metadata(one)["name"]
                yield Text(
                    f"ResourceQuota {called} allows {name} {hard} in this namespace, of which {used} are used: {as_quantity(more)} more do not fit. Who keeps it must raise it first.",
                    f"ResourceQuota {called} 限制本命名空间 {name} 为 {hard}，已用 {used}：再加 {as_quantity(more)} 放不下，需要先由其负责人调高。",
                )


def _notes(workload: Workload, field: str, size: int) -> tuple[Text, ...]:
    if field == "requests":
        return (
            Text(
                "The pod now needs a node with that much memory unclaimed; if there is none, it stays Pending.",
                "Pod 需要有这么多可分配内存的节点；没有则会一直 Pending。",
            ),
        )
    mounts: list[Mapping[str, Any]] = workload.container.get("volumeMounts") or []
    if any(mount.get("mountPath") == PLACE for mount in mounts):
        return (Text(f"What stands in {PLACE} counts against these {show(size)} too.", f"{PLACE} 里的内容也计入这 {show(size)}。"),)
    return ()
