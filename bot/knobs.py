"""How the change of a knob is written for people: `--max-model-len 131072 -> 57344`, `2G -> 3Gi`. One place for terminal and chat.

Knows how options are spelled, and nothing of what they do.
"""

from bot.model import Recommendation
from bot.units import as_quantity

Value = str | int | float | None

# Knobs that are options of the server, as they are typed.
OPTIONS: dict[str, str] = {
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "kv_cache_memory_bytes": "--kv-cache-memory-bytes",
    "max_model_len": "--max-model-len",
    "max_num_seqs": "--max-num-seqs",
    "max_num_batched_tokens": "--max-num-batched-tokens",
    "tensor_parallel_size": "--tensor-parallel-size",
    "kv_cache_dtype": "--kv-cache-dtype",
    "swap_space": "--swap-space",
    "cpu_offload": "--cpu-offload-gb",
    "enforce_eager": "--enforce-eager",
}
# Fields of a pod whose number alone would not say what it counts.
_FIELDS = {"probe": "failureThreshold", "grace_period": "terminationGracePeriodSeconds"}
_BYTES = frozenset({"memory_limit", "memory_request", "shm_size", "init_container_memory", "sidecar_memory", "ephemeral_storage", "ray_object_store"})


def shown(value: Value, remedy: str) -> str:
    """A value for people: 131072 -> "131072", bytes of a pod's sizes as "24Gi", 0.94 -> "0.94"; "" when there is none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and remedy in _BYTES and value >= 1 << 20:
        return as_quantity(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def change(recommendation: Recommendation) -> str:
    """From what to what, "2G -> 3Gi"; only the new value when the old one is not known, "" without a new one."""
    remedy = recommendation.remedy
    old, new = shown(recommendation.from_value, remedy), shown(recommendation.to_value, remedy)
    if not new:
        return ""
    arrow = f"{old} -> {new}" if old else new
    return f"{_FIELDS[remedy]} {arrow}" if remedy in _FIELDS else arrow


def typed(recommendation: Recommendation) -> str:
    """The change of an option of the server as it is typed, `--max-model-len 131072 -> 57344`; "" for any other change and without a value."""
    option = OPTIONS.get(recommendation.remedy, "")
    if not option or recommendation.to_value is None:
        return ""
    return option if recommendation.to_value is True else f"{option} {change(recommendation)}"
