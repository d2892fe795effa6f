"""The limits that `docker run` and its like give a container, from a command line in `args.txt`: `args.container_memory_bytes`. Other flags are left alone."""

import re

from bot.evidence.document import shorten
from bot.model import Fact, Place

_RUN = re.compile(r"\b(?:docker|podman|nerdctl)\s+(?:container\s+)?run\b")
_MEMORY = re.compile(r"(?:^|\s)(?:-m[ =]?|--memory[ =])\s*[\"']?(\d{1,15})([bkmg]?)b?\b", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30}


def facts(lines: list[str], source: str) -> list[Fact]:
    """The memory limit of the last run command; its flags may stand on the lines that follow it."""
    running, found = False, []
    for number, line in enumerate(lines, 1):
        head = line[:4096]
        running = running or bool(_RUN.search(head))
        flag = _MEMORY.search(head) if running else None
        if flag:
            found = [Fact("args.container_memory_bytes", int(flag[1]) * _UNITS[flag[2].lower()], Place(source, number, shorten(line)))]
    return found
