"""The conditions of one node as `kubectl describe node` and `kubectl get nodes` print them, among other pasted readings. Of a text with several nodes nothing
is read: which of them mattered is not known.

Facts: `node.ready`, `node.ready_reason`, `node.runtime_trouble` and the pressures, named as those of `node.json`.
"""

import re
from collections.abc import Callable

from bot.evidence.kubelet_journal import runtime_trouble
from bot.evidence.sections import Line, Section
from bot.model import Value

_ROW = re.compile(r"^\s{1,8}(\w{1,60})\s+(True|False|Unknown)\s+(?:\S.{0,80}?\s{2,}){1,2}(\w{1,80})\s{2,}(\S.*)$")  # type, status, one or two times, reason, message
_LISTED = re.compile(r"^(\S{1,253})\s+((?:Not)?Ready)(,SchedulingDisabled)?\s+\S+\s+\w{1,12}\s+v\d")  # of `kubectl get nodes`: name, status, roles, age, version
_PRESSURES = {"MemoryPressure": "memory_pressure", "DiskPressure": "disk_pressure", "PIDPressure": "pid_pressure"}


def read(section: Section, emit: Callable[[str, Value, Line], None]) -> None:
    """The conditions, where the section holds those of exactly one node."""
    listed = [(found, line) for line in section.lines if (found := _LISTED.match(line.text))]
    if len(listed) == 1:
        found, line = listed[0]
        emit("node.ready", found[2] == "Ready", line)
        emit("node.ready_reason", found[2], line)
        return
    rows = [(found, line) for line in section.lines if (found := _ROW.match(line.text))]
    if sum(found[1] == "Ready" for found, _ in rows) != 1:
        return
    for found, line in rows:
        kind, status, reason, message = found.groups()
        if kind == "Ready":
            emit("node.ready", status == "True", line)
            emit("node.ready_reason", reason, line)
            trouble = runtime_trouble(message)
            if trouble:
                emit("node.runtime_trouble", trouble, line)
        elif kind in _PRESSURES and status != "Unknown":
            emit(f"node.{_PRESSURES[kind]}", status == "True", line)
