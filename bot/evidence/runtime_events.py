"""What container runtimes print of a memory kill: `docker events`, `podman events`, `ctr events`, and the journals of dockerd, containerd and conmon (CRI-O, podman).

Facts: `docker.oom_ids` (containers in which a process was killed for memory, oldest first) and `docker.exit_code` of such a container. A runtime only
passes on that somebody in the container was killed; for whose limit, and whether the container lived on, is decided elsewhere.
"""

import re
from collections.abc import Iterable

from bot.model import Fact, Place

MARKS = (b"TaskOOM", b"container oom ", b"/tasks/oom", b'"oom"', b"container die ", b"OOM received", b"OOM event received")  # one of them stands in each line that is read
_MARKS = ("TaskOOM", "container oom ", "/tasks/oom", "OOM received", "OOM event received")
MOST = 50
_OOM = re.compile(
    r"\bTaskOOM event\b.{0,40}?container_?id:\s{0,2}\\{0,2}\"?([0-9a-f]{6,64})|\bcontainer oom ([0-9a-f]{6,64})\b|/tasks/oom\b.{0,20}?container_id\\{0,2}\":\s?\\{0,2}\"([0-9a-f]{6,64})|\bconmon(?:\[\d{1,7}\])?: conmon ([0-9a-f]{6,64}) <\w{1,8}>: OOM (?:event )?received",
    re.IGNORECASE,
)
_JSON_OOM, _JSON_ID = re.compile(r'"(?:status|Action)": ?"oom"'), re.compile(r'"(?:id|ID)": ?"([0-9a-f]{6,64})"')
_DIE = re.compile(r"\bcontainer die ([0-9a-f]{6,64}) .{0,2000}?\bexitCode=(\d{1,3})\b")


def facts(lines: Iterable[tuple[int, str, Place]]) -> list[Fact]:
    """Of (number, text, place) of lines in their order."""
    killed: dict[str, Place] = {}
    ended: dict[str, tuple[int, Place]] = {}
    for _, text, place in lines:
        oom = (_OOM.search(text) if any(mark in text for mark in _MARKS) else None) or (_JSON_ID.search(text) if text.lstrip().startswith("{") and _JSON_OOM.search(text) else None)
        if oom and len(killed) < MOST:
            killed.setdefault(next(group for group in oom.groups() if group), place)
        died = _DIE.search(text) if "container die " in text else None
        if died:
            ended[died[1]] = (int(died[2]), place)
    if not killed:
        return []
    last, place = list(killed.items())[-1]
    found = [Fact("docker.oom_ids", tuple(killed), place)]
    if last in ended:
        found.append(Fact("docker.exit_code", *ended[last]))
    return found
