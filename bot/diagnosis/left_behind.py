"""Processes of a server that hold its card long after it had stopped: an engine that nobody ended, as when a front end stops in order and its engine hangs in
the driver. Proved by the log's word of the stop, a later look of nvidia-smi, and the number of the process: one of the log's own, or one that a process of
the log gave to its engine.
"""

from bot.diagnosis.host_records import Record, records
from bot.facts import Facts
from bot.logs.prefixes import stamp_seconds
from bot.model import Fact

LATER = 60.0  # seconds after the stop: an engine gives its card back sooner
_DAY = 86400.0
_CHILD = 2000  # a child's number is at most so much above its parent's on a machine that starts little else
_INSIDE = 300  # numbers up to it are those of a container's own namespace, which say nothing of the machine's


def left_behind(facts: Facts) -> list[Fact]:
    """`gpus.left_behind_*`, where they are proved."""
    looked, stopped = facts.get("gpus.read_at"), facts.get("log.stop_asked_at")
    now = stamp_seconds(looked) if isinstance(looked, str) else None
    if now is None or not isinstance(stopped, float) or not LATER <= now - stopped <= _DAY:
        return []
    pids = facts.get("log.pids")
    own = [int(pid) for pid in pids if pid.isdigit()] if isinstance(pids, tuple) else []
    found = {_number(process): process for process in records(facts, "gpu.process") if "C" in process.text("type") and _of(process, own)}
    held = sum(int(process.number("used_bytes") or 0) for process in found.values())
    if not held:
        return []
    place = next(iter(found.values())).place("pid")
    return [Fact("gpus.left_behind_bytes", held, place), Fact("gpus.left_behind_pids", tuple(map(str, found)), place)]


def _number(process: Record) -> int:
    return int(process.number("pid") or 0)


def _of(process: Record, own: list[int]) -> bool:
    """Whether the process is one of the log's, or an engine that was started soon after one of them."""
    pid = _number(process)
    if pid in own:
        return pid > _INSIDE
    return process.text("name").startswith("VLLM::") and any(_INSIDE < parent < pid <= parent + _CHILD for parent in own)
