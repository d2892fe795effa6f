"""`ray_status.txt`: `ray status` (both autoscaler versions), and `serve status`. What the cluster has, uses and is asked for; not why.

Facts: `ray_status.<name>`; sizes in bytes, GPUs as numbers.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from bot.evidence import serve_status
from bot.evidence.reading import Reading
from bot.evidence.sections import Line, sections
from bot.model import Fact, Gap, Value
from bot.units import size_of

_Emit = Callable[[str, Value, Line], None]
_USAGE = re.compile(r"^\s*([\d.]{1,20})(\w{0,3})/([\d.]{1,20})(\w{0,3}) ([\w:.-]{1,80})")
_BUNDLES = re.compile(r"\{([^{}]{0,400})\}(?:: | \* )(\d{1,6})\+?")
_RESOURCE = re.compile(r"['\"]?([A-Za-z_][\w.:-]{0,80})['\"]?: ?(\d[\d.]{0,19}(?:e\+?\d{1,2})?)(?=[,}\s]|$)")
_COUNTED = {"GPU": "gpu", "CPU": "cpu", "memory": "memory", "object_store_memory": "object_store"}  # what Ray itself knows; any other name is somebody's
_HEADS = (
    "Active:",
    "Idle:",
    "Pending:",
    "Recent failures:",
    "Healthy:",
    "Resources",
    "Usage:",
    "Total Usage:",
    "Demands:",
    "Total Demands:",
    "Pending Demands:",
    "From request_resources:",
    "Constraints:",
    "Total Constraints:",
    "Node status",
)
_PHRASES = (
    ("infeasible", re.compile(r"No available node types can fulfill resource requests?|cannot be scheduled right now|Insufficient resources")),
    (
        "no_answer",
        re.compile(r"Ray cluster is not found|Could not find any running Ray instance|Failed to (?:connect|get).{0,40}GCS|ConnectionError", re.IGNORECASE),
    ),
)


class Demand(NamedTuple):
    """What one line of demands waits for: amounts by Ray's names of resources."""

    wanted: dict[str, float]
    line: Line
    kind: str  # placement group, placement group on one node, task


def read(data: bytes, source: str) -> Reading:
    """Facts of the last status in the file."""
    facts: dict[str, Fact] = {}

    def emit(name: str, value: Value, line: Line) -> None:
        facts[f"ray_status.{name}"] = Fact(f"ray_status.{name}", value, line.place(source))

    head = ""
    demands: list[Demand] = []
    nodes = 0
    for section in sections(data):
        for line in section.lines:
            text = line.text.strip()
            if "Autoscaler status" in text:
                head, demands, nodes = "", [], 0
                emit("looked", True, line)
            elif text in _HEADS:
                head = text.rstrip(":").removeprefix("Total ").removeprefix("Pending ") if text != "Pending:" else "Pending"
            elif head in ("Active", "Idle", "Healthy") and re.match(r"\d+ \S", text):
                nodes += int(re.match(r"\d{1,6}", text)[0])  # type: ignore[index]
                emit("nodes", nodes, line)
            elif head == "Usage":
                _usage(text, line, emit)
            elif head == "Demands":
                demands += _demand(text, line)
            elif head == "Recent failures" and text.startswith(("(", "-")) is False:
                emit("failure", text[:200], line)
            _phrases(text, line, emit)
    _demanded(demands, emit)
    for fact in serve_status.facts([line for section in sections(data) for line in section.lines], source):
        facts[fact.name] = fact
    if not facts:
        return Reading(gaps=(Gap(source, "no ray status in it", "how many GPUs the Ray cluster has and what waits for them"),))
    return Reading(tuple(facts.values()), ("ray_status.",) if "ray_status.looked" in facts else ())


def _usage(text: str, line: Line, emit: _Emit) -> None:
    found = _USAGE.match(text)
    if not found:
        return
    used, total = _amount(found[1], found[2]), _amount(found[3], found[4])
    if used is None or total is None:
        return
    name = _COUNTED.get(found[5])
    if name:
        emit(f"{name}_used", used, line)
        emit(f"{name}_total", total, line)
    else:
        emit(f"resource.{found[5]}", total - used, line)


def _amount(number: str, unit: str) -> float | None:
    try:
        return float(size_of(number, unit)) if unit else float(number)
    except ValueError:
        return None


def _demand(text: str, line: Line) -> list[Demand]:
    """One demand line; of a placement group the sum of its bundles, of single tasks one of them."""
    group = "placement group" in text
    whole: dict[str, float] = {}
    for bundle in _BUNDLES.finditer(text):
        for name, number in _RESOURCE.findall(bundle[1]):
            each = _amount(number, "") or 0.0
            whole[name] = whole.get(name, 0.0) + each * int(bundle[2]) if group else max(whole.get(name, 0.0), each)
    if group:
        return [Demand(whole, line, "placement group on one node" if "STRICT_PACK" in text else "placement group")]
    return [Demand(whole, line, "task")] if text.startswith("{") else []


def _demanded(demands: list[Demand], emit: _Emit) -> None:
    if not demands:
        return
    most = max(demands, key=lambda demand: demand.wanted.get("GPU", 0.0))
    emit("demand", most.kind, most.line)
    for name, number in most.wanted.items():
        if name in _COUNTED and name != "GPU":
            emit(f"{_COUNTED[name]}_demand", number, most.line)
    emit("gpu_demand", most.wanted.get("GPU", 0.0), most.line)
    named = [name for name in most.wanted if name not in _COUNTED and "_group_" not in name]
    if named:
        emit("named_demand", named[0], most.line)


def _phrases(text: str, line: Line, emit: _Emit) -> None:
    for name, pattern in _PHRASES:
        if pattern.search(text):
            emit(name, True, line)
