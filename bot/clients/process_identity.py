"""Which process this is, so that a later one can tell whether it still lives: process id and start time, since ids are used again.

For one machine and one process-id namespace. Where the start time cannot be read, the id alone has to do.
"""

import os
import pwd
from pathlib import Path


def mine() -> str:
    return f"{os.getpid()}:{_started(os.getpid())}"


def lives(identity: str) -> bool:
    """Whether the process of that identity is still running."""
    pid, _, started = identity.partition(":")
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _started(int(pid)) == started


def _started(pid: int) -> str:
    """Clock ticks from the machine's start to the process's (field 22 of /proc/PID/stat), and the machine's boot id, else ""."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
    if fields[0] in ("Z", "X"):  # dead, only not yet waited for
        return "dead"
    return f"{fields[19]}@{boot}"


def account() -> str:
    """The name of the account that this process runs as, else its number."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
