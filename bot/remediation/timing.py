"""Actions set_probe_threshold and set_grace_period: how often a probe may fail, and how long a pod may take to stop.

What must hold afterwards: the new process gets past the phase where the old one was killed. Undo puts the old number back.
"""

from typing import Any

from bot.errors import BadInput
from bot.model import Text
from bot.remediation.change import Change, Elsewhere, put
from bot.remediation.pointer import MISSING, get
from bot.remediation.workload import Workload
from bot.units import duration

PROBE, GRACE = "set_probe_threshold", "set_grace_period"
PROBES = ("startupProbe", "livenessProbe")
_DEFAULTS = {"failureThreshold": 3, "periodSeconds": 10}


def probe(workload: Workload, value: Any) -> Change | Elsewhere:
    """Raises the failure threshold of the start-up probe, or of the liveness probe where there is none. Raises BadInput outside 1 to 10,000."""
    wanted = _whole(value, 1, 10_000, "a probe's failureThreshold")
    name = next((one for one in PROBES if one in workload.container), None)
    if name is None:
        return Elsewhere(Text("The container has neither a start-up nor a liveness probe.", "容器没有 startup 或 liveness 探针。"), "")
    settings = {**_DEFAULTS, **workload.container[name]}
    if settings["failureThreshold"] >= wanted:
        return Elsewhere(
            Text(f"{name} already has failureThreshold {settings['failureThreshold']}.", f"{name} 的 failureThreshold 已经是 {settings['failureThreshold']}。"),
            "",
        )
    lasts = duration(wanted * int(settings["periodSeconds"]))
    edit = put(workload.body, f"{workload.container_pointer}/{name}/failureThreshold", wanted)
    return Change((edit,), (Text(f"{name} gives up after {lasts} instead.", f"{name} 将在 {lasts} 后才放弃。"),))


def grace_period(workload: Workload, value: Any) -> Change | Elsewhere:
    """Raises the time to stop, in seconds. Raises BadInput outside 1 s to 1 h."""
    wanted = _whole(value, 1, 3600, "a grace period in seconds")
    path = workload.shape.pod_spec + "/terminationGracePeriodSeconds"
    now = get(workload.body, path)
    if now is not MISSING and int(now) >= wanted:
        return Elsewhere(Text(f"The grace period is {now} s already.", f"宽限期已经是 {now} 秒。"), "")
    return Change(
        (put(workload.body, path, wanted),), (Text("Every pod that is stopped may now take that long.", "之后每个被停止的 Pod 都可能用这么长时间。"),)
    )


def _whole(value: Any, low: int, high: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or not low <= value <= high:
        raise BadInput(f"{what} must be a whole number from {low} to {high}, not {str(value)[:40]}")
    return int(value)
