"""What a kubelet's own journal says of reclaiming: the node was short of memory or of disk. Which pod paid for it is the pod's own status to say.

Source: pkg/kubelet/eviction/eviction_manager.go, whose lines were sentences before 1.20 and are a sentence with fields since.
"""

import re
from collections.abc import Iterable

from bot.evidence.sections import Line
from bot.model import Fact

_RECLAIM = re.compile(r"eviction[_ ]manager.{0,60}?(?:must evict pod\(s\) to reclaim|[Aa]ttempting to reclaim)\W{1,4}(?:resourceName=\")?([a-z-]{3,30})")
_SHORT = {"memory": "events.node_pressure", "ephemeral-storage": "events.disk_pressure", "inodes": "events.disk_pressure"}


def facts(lines: Iterable[Line], source: str) -> list[Fact]:
    """The first line of each shortage."""
    found: dict[str, Fact] = {}
    for line in lines:
        told = _RECLAIM.search(line.text) if "viction" in line.text else None
        name = _SHORT.get(told[1]) if told else None
        if name:
            found.setdefault(name, Fact(name, True, line.place(source)))
    return list(found.values())
