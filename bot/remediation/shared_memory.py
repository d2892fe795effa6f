"""Action set_shared_memory: gives /dev/shm of the server's container a size in bytes, by an in-memory volume of its own or by a larger limit of the one it has.

What must hold afterwards: the new process gets past the phase where the old one died. Undo takes the volume away, or puts the old limit back.
"""

from typing import Any

from bot.errors import BadInput
from bot.model import Text
from bot.remediation.change import Change, Edit, Elsewhere
from bot.remediation.pointer import MISSING, get, join
from bot.remediation.workload import Workload
from bot.units import GIB, MIB, TIB, as_quantity, quantity, show

NAME = "set_shared_memory"
PLACE, VOLUME = "/dev/shm", "oombot-shm"
LOW, HIGH = 64 * MIB, TIB


def change(workload: Workload, value: Any) -> Change | Elsewhere:
    """The edits for a /dev/shm of that size. Raises BadInput for a size outside 64 MiB to 1 TiB."""
    size = int(quantity(value)) if isinstance(value, str) else value
    if isinstance(size, bool) or not isinstance(size, int | float) or not LOW <= size <= HIGH:
        raise BadInput(f"a size of /dev/shm must lie between {show(LOW)} and {show(HIGH)}, not {str(value)[:40]}")
    unit = GIB if size >= GIB else MIB
    written = as_quantity(-(-int(size) // unit) * unit)
    mounts = workload.container.get("volumeMounts") or []
    mounted = next((one for one in mounts if str(one.get("mountPath", "")).rstrip("/") == PLACE), None)
    found = _new(workload, written) if mounted is None else _larger(workload, str(mounted.get("name")), written)
    return found if isinstance(found, Elsewhere) else Change(found, (_counts(workload),))


def _larger(workload: Workload, name: str, written: str) -> tuple[Edit, ...] | Elsewhere:
    volumes = workload.pod_spec.get("volumes") or []
    at = next((at for at, one in enumerate(volumes) if one.get("name") == name), None)
    directory = volumes[at].get("emptyDir") if at is not None else None
    if at is None or directory is None or directory.get("medium") != "Memory":
        return Elsewhere(Text(f"{PLACE} is mounted from volume {name}, which is no memory of this pod.", f"{PLACE} 挂载自卷 {name}，不是该 Pod 的内存卷。"), "")
    path = workload.shape.pod_spec + join("volumes", at, "emptyDir", "sizeLimit")
    now = get(workload.body, path)
    if now is MISSING:
        return Elsewhere(
            Text(f"{PLACE} has no size limit of its own: only the memory limit bounds it.", f"{PLACE} 没有单独的大小限制，只受内存 limit 约束。"), ""
        )
    if quantity(str(now)) >= quantity(written):
        return Elsewhere(Text(f"{PLACE} already has {now}.", f"{PLACE} 已经有 {now}。"), "")
    return (Edit(path, now, written, ((workload.shape.pod_spec + join("volumes", at, "name"), name),)),)


def _new(workload: Workload, written: str) -> tuple[Edit, ...]:
    volume = {"name": VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": written}}
    mount = {"name": VOLUME, "mountPath": PLACE}
    volumes, mounts = workload.shape.pod_spec + join("volumes"), f"{workload.container_pointer}/volumeMounts"
    return (_appended(workload, volumes, volume, "name"), _appended(workload, mounts, mount, "mountPath"))


def _appended(workload: Workload, path: str, item: dict[str, Any], key: str) -> Edit:
    items = get(workload.body, path)
    if items is MISSING or not items:
        return Edit(path, items, [item])
    return Edit(f"{path}/{len(items)}", MISSING, item, tuple((f"{path}/{at}/{key}", one[key]) for at, one in enumerate(items)))


def _counts(workload: Workload) -> Text:
    limit = get(workload.container, join("resources", "limits", "memory"))
    if limit is MISSING:
        return Text(f"What stands in {PLACE} is memory of the node.", f"{PLACE} 里的内容占用节点内存。")
    return Text(f"What stands in {PLACE} counts against the container's memory limit of {limit}.", f"{PLACE} 里的内容计入容器的内存 limit（{limit}）。")
