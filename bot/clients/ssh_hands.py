"""Stops a stray process on a node or drops shared memory that nobody holds, over SSH, with an account and a key of their own. The far side runs
deploy/node/oombot-stop (and by it oombot-shm) and nothing else.

What may be touched is decided there once more: start time, control group and GPU right before the signal; inode, size, time and all processes right
before a segment goes.
"""

import re
from collections.abc import Sequence

from bot.clients.ssh import SshAccess, SshShells
from bot.errors import Conflict, Rejected, Temporary
from bot.ports import CommandOutput

LIST, STOP = "list", "stop"
SEGMENTS, CHECK, DROP = "segments", "check", "drop"
LIST_S, STOP_S, SEGMENTS_S, DROP_S = 10, 30, 20, 45  # far seconds
CONTAINER, NO_GPU = 3, 4  # exit statuses of oombot-stop
CHANGED, BUSY, UNSEEN = 3, 5, 7  # of oombot-shm
MOST_WORDS = 40
WORD = re.compile(r"file:\d{1,19}:\d{1,19}:\d{1,19}:\d{1,19}\.\d{1,10}:\d{1,19}:[0-9A-Za-z][0-9A-Za-z._-]{0,99}|sysv(?::\d{1,19}){5}", re.ASCII)


def allowed(argv: Sequence[str]) -> bool:
    """The verbs of the scripts, with words that hold nothing a shell looks at."""
    if tuple(argv) in ((LIST,), (SEGMENTS,)):
        return True
    if argv and argv[0] in (CHECK, DROP):
        return 1 <= len(argv) - 1 <= MOST_WORDS and all(WORD.fullmatch(word) for word in argv[1:])
    return len(argv) == 3 and argv[0] == STOP and all(word.isascii() and word.isdigit() and not word.startswith("0") and len(word) <= 10 for word in argv[1:])


class SshHands:
    """Implements `ports.NodeHands`. `access`: the stopping account's user and key."""

    def __init__(self, access: SshAccess) -> None:
        self._shells = SshShells(access, allowed)

    def processes(self, node: str, addresses: Sequence[str]) -> str:
        """What holds memory of the node's GPUs, as the script lists it. Raises HostKeyUnknown, Forbidden, Unreachable, Rejected."""
        output = self._run(node, addresses, (LIST,), LIST_S)
        if output.status != 0:
            raise Rejected(f"{node}: {_said(output)}")
        return output.stdout.decode("utf-8", "replace")

    def stop(self, node: str, addresses: Sequence[str], pid: int, start: int) -> None:
        """Stops the process, if it is still that one; one that is gone already was stopped before. Raises Conflict when it must not be touched (any
        more), Rejected when it did not end."""
        output = self._run(node, addresses, (STOP, str(pid), str(start)), STOP_S)
        if output.status in (CONTAINER, NO_GPU):
            raise Conflict(f"{node}: {_said(output)}")
        if output.status != 0:
            raise Rejected(f"{node}: {_said(output)}")

    def segments(self, node: str, addresses: Sequence[str]) -> str:
        """Shared memory, as the script lists it. Raises Temporary when the node cannot tell who holds it; HostKeyUnknown, Forbidden, Unreachable, Rejected."""
        output = self._run(node, addresses, (SEGMENTS,), SEGMENTS_S)
        _refuse(node, output)
        return output.stdout.decode("utf-8", "replace")

    def drop(self, node: str, addresses: Sequence[str], words: Sequence[str], *, dry_run: bool) -> None:
        """Drops all of them or none; what is gone already was dropped before (a dry run wants them there). Raises Conflict when one is not what it was or
        somebody holds it, Temporary when that could not be told."""
        _refuse(node, self._run(node, addresses, (CHECK if dry_run else DROP, *words), DROP_S))

    def _run(self, node: str, addresses: Sequence[str], argv: tuple[str, ...], seconds: float) -> CommandOutput:
        shell = self._shells.open(node, addresses)
        try:
            output = shell.run(argv, timeout_s=seconds)
        finally:
            shell.close()
        if output.cut:
            raise Temporary(f"{node}: the answer of {argv[0]} was cut")
        return output


def _said(output: CommandOutput) -> str:
    return " ".join(output.stderr.decode("utf-8", "replace").split())[:200] or f"exit status {output.status}"


def _refuse(node: str, output: CommandOutput) -> None:
    """What an exit status of oombot-shm means."""
    if output.status == 0:
        return
    said = f"{node}: {_said(output)}"
    if output.status == CHANGED:
        raise Conflict(said)
    raise Temporary(said) if output.status in (BUSY, UNSEEN) else Rejected(said)
