"""How the change of a knob is written for people: `--max-model-len 131072 -> 57344`, `2G -> 3Gi`. One place for terminal and chat.

How the options of a server are spelled is data (`playbooks/servers/`) and comes with the recommendation.
"""

from bot.model import Recommendation
from bot.units import as_quantity

Value = str | int | float | None

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
    option = recommendation.option
    if not option or recommendation.to_value is None:
        return ""
    return option if recommendation.to_value is True else f"{option} {change(recommendation)}"
