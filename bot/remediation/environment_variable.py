"""Action set_environment_variable: sets one variable of the server's container, in its `env` list or as its first entry.

What must hold afterwards: the new process gets past the phase where the old one died. Undo puts the old value back, or takes the entry away.
A variable that comes from a ConfigMap or a Secret is not overridden in silence: it says where it comes from and what to paste there.
"""

from collections.abc import Mapping
from typing import Any

from bot.errors import BadInput
from bot.model import Text
from bot.remediation import serving
from bot.remediation.change import Change, Edit, Elsewhere
from bot.remediation.elsewhere import variable_value
from bot.remediation.pointer import MISSING, get, join
from bot.remediation.workload import Workload

NAME = "set_environment_variable"

# What may be written, value by value: nothing else reaches a patch.
ALLOWED: Mapping[str, tuple[str, ...]] = {
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": ("0", "1"),
    "PYTORCH_CUDA_ALLOC_CONF": ("expandable_segments:True", "expandable_segments:False"),
    "CUDA_DEVICE_ORDER": ("PCI_BUS_ID",),
}
# Other names of a variable: taken where the container has one of them already, or the device that reads it.
_OTHER_NAMES = {"PYTORCH_CUDA_ALLOC_CONF": ("PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF")}
_OF_DEVICE = {"PYTORCH_CUDA_ALLOC_CONF": ("huawei.com/ascend", "PYTORCH_NPU_ALLOC_CONF")}


def written(variable: str, before: Any, value: Any) -> str:
    """What the variable becomes. Raises BadInput for a variable or a value that the bot does not write."""
    if value not in ALLOWED.get(variable, ()):
        raise BadInput(f"{variable} is not set to {str(value)[:40]!r} by the bot; it may be {' or '.join(ALLOWED.get(variable, ('nothing',)))}")
    return _merged(str(before or ""), str(value)) if ":" in str(value) else str(value)


def change(workload: Workload, variable: str, value: Any) -> Change | Elsewhere:
    """The edit that sets the variable. Raises BadInput for a variable or a value that the bot does not write."""
    written(variable, None, value)
    if (unread := serving.ignored(workload, variable)) is not None:
        return unread
    entries = workload.container.get("env") or []
    name = _name(workload.container, variable)
    path = workload.container_pointer + join("env")
    at = next((at for at in reversed(range(len(entries))) if entries[at].get("name") == name), None)
    if at is None:
        return _add(path, get(workload.body, path), name, value, _overrides(workload, name))
    entry = entries[at]
    if "valueFrom" in entry:
        reason = Text(f"{name} is not written in the container itself.", f"{name} 不是直接写在容器里的。")
        return variable_value(workload, name, value, reason)
    new = written(variable, entry.get("value", ""), value)
    if new == entry.get("value"):
        return Elsewhere(
            Text(f"The pod template already says {name}={new}; the pods only have to be started anew.", f"模板里已经是 {name}={new}；只需要重启 Pod。"), ""
        )
    before = entry.get("value", MISSING)
    return Change((Edit(f"{path}/{at}/value", before, new, ((f"{path}/{at}/name", name),)),))


def _name(container: Mapping[str, Any], variable: str) -> str:
    """What the variable is called here: by the name that is set already, else by the device that the container asks for."""
    present = {entry.get("name") for entry in container.get("env") or []}
    for other in _OTHER_NAMES.get(variable, ()):
        if other in present:
            return other
    device, name = _OF_DEVICE.get(variable, ("", variable))
    sizes = (container.get("resources") or {}).values()
    return name if device and any(asked.lower().startswith(device) for size in sizes for asked in size or {}) else variable


def _add(path: str, entries: Any, name: str, value: Any, notes: tuple[Text, ...]) -> Change:
    entry = {"name": name, "value": str(value)}
    if entries is MISSING or not entries:  # of a custom resource an empty list is kept as it was written
        return Change((Edit(path, entries, [entry]),), notes)
    # names only: values may be secrets, which have no business in a stored plan
    proof = tuple((f"{path}/{at}/name", one["name"]) for at, one in enumerate(entries))
    return Change((Edit(f"{path}/{len(entries)}", MISSING, entry, proof),), notes)


def _overrides(workload: Workload, name: str) -> tuple[Text, ...]:
    if not workload.container.get("envFrom"):
        return ()
    return (Text(f"Should {name} come from envFrom today, the new entry takes its place.", f"如果 {name} 目前来自 envFrom，新的条目会覆盖它。"),)


def _merged(before: str, setting: str) -> str:
    """A comma list of `key:value` with one key set: "max_split_size_mb:128" and "expandable_segments:True" -> both."""
    key = setting.partition(":")[0]
    kept = [part.strip() for part in before.split(",") if part.strip() and part.strip().partition(":")[0] != key]
    return ",".join([*kept, setting])
