"""Stops a stray process on a node, over SSH, with an account and a key of their own. The far side runs deploy/node/oombot-stop and nothing else.

What may be stopped is decided there once more: the start time, the control group and the GPU are looked at right before the signal.
"""

from collections.abc import Sequence

from bot.clients.ssh import SshAccess, SshShells
from bot.errors import Conflict, Rejected, Temporary
from bot.ports import CommandOutput

LIST, STOP = "list", "stop"
LIST_S, STOP_S = 10, 30  # far seconds
CONTAINER, NO_GPU = 3, 4  # exit statuses of the script


def allowed(argv: Sequence[str]) -> bool:
    """The two verbs of the script."""
    if tuple(argv) == (LIST,):
        return True
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
