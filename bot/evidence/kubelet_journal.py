"""What a kubelet's own journal says of its node: it was short of memory or of disk, or its container runtime answers no more.

Which pod paid for it is the pod's own status to say. Source: pkg/kubelet/eviction/eviction_manager.go, pkg/kubelet/pleg/generic.go and
pkg/kubelet/nodestatus/setters.go, whose lines were sentences before 1.20 and are a sentence with fields since.
"""

import re
from collections.abc import Iterable

from bot.evidence.sections import Line
from bot.model import Fact

_RECLAIM = re.compile(r"eviction[_ ]manager.{0,60}?(?:must evict pod\(s\) to reclaim|[Aa]ttempting to reclaim)\W{1,4}(?:resourceName=\")?([a-z-]{3,30})")
_SHORT = {"memory": "events.node_pressure", "ephemeral-storage": "events.disk_pressure", "inodes": "events.disk_pressure"}

# Not what every start says for a moment ("has yet to be successful", "status check may not have completed yet").
_RUNTIME = re.compile(r"PLEG is not healthy: pleg was last seen active \S{2,40} ago|container runtime is down")


def runtime_trouble(text: str) -> str:
    """The kubelet's words for a container runtime that does not answer, as a journal or a node's condition has them; empty where there are none."""
    told = _RUNTIME.search(text)
    return told[0] if told else ""


def facts(lines: Iterable[Line], source: str) -> list[Fact]:
    """The first line of each shortage, and of each trouble with the runtime."""
    found: dict[str, Fact] = {}
    for line in lines:
        trouble = runtime_trouble(line.text) if "PLEG" in line.text or "runtime is down" in line.text else ""
        if trouble:
            found.setdefault("node.runtime_trouble", Fact("node.runtime_trouble", trouble, line.place(source)))
            if "ode became not ready" in line.text:
                found.setdefault("events.node_not_ready", Fact("events.node_not_ready", True, line.place(source)))
        told = _RECLAIM.search(line.text) if "viction" in line.text else None
        name = _SHORT.get(told[1]) if told else None
        if name:
            found.setdefault(name, Fact(name, True, line.place(source)))
    return list(found.values())
