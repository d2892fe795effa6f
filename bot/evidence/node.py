"""Readings of the pod's node over SSH, and of the container itself by exec: only commands of the allow-list, each with its heading.

A command that is missing or refused leaves a Gap for its file, unless another of the same file answered. What the output means is the
readers' business (`kernel_log`, `node_readings`, `nvidia_smi`, `ray_status`).
"""

import contextlib
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bot.errors import Unsupported, WorldError
from bot.evidence.commands import kernel, memory
from bot.evidence.commands.command import Command
from bot.evidence.probe import Deadline, Desk, reason_of
from bot.model import Target
from bot.ports import ClusterReader, CommandOutput, Json, Shell, Shells

_NOTHING_FOUND = (b"-- No entries --", b"No journal files were found", b"not seeing messages from", b"Operation not permitted", b"Permission denied")
_ADDRESSES = ("InternalIP", "InternalDNS", "Hostname", "ExternalIP")


def addresses(node: Json) -> list[str]:
    """Where a node can be reached, the inner address first."""
    told = [(str(each.get("type")), str(each.get("address"))) for each in (node.get("status") or {}).get("addresses") or ()]
    order = sorted((each for each in told if each[0] in _ADDRESSES), key=lambda each: _ADDRESSES.index(each[0]))
    return list(dict.fromkeys(address for _, address in order))


@dataclass(slots=True)
class NodeShell:
    """One SSH connection for all probes of a node: opened by whoever comes first, and a failure to open is everybody's failure."""

    shells: Shells | None
    node: str
    addresses: Sequence[str]
    parameters: Mapping[str, str]
    deadline: Deadline
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _shell: Shell | None = None
    _wrong: WorldError | None = None
    _over: bool = False

    @property
    def closed_to_us(self) -> bool:
        """Whether no connection could be had (then no other command need be tried)."""
        return self._wrong is not None

    def run(self, command: Command) -> CommandOutput:
        argv = command.filled(self.parameters)
        return self._open().run(argv, timeout_s=command.timeout_s, limit_bytes=command.limit_bytes)

    def _open(self) -> Shell:
        with self._lock:
            if self._wrong is not None:
                raise self._wrong
            if self._shell is None:
                self.deadline.left(1)
                try:
                    self._shell = _no_shells() if self.shells is None else self.shells.open(self.node, self.addresses)
                except WorldError as wrong:
                    self._wrong = wrong
                    raise
                if self._over:
                    self._shell.close()
            return self._shell

    def close(self) -> None:
        """Does not wait for somebody who is still connecting: that one closes what it opened."""
        self._over = True
        if self._lock.acquire(blocking=False):
            try:
                if self._shell is not None:
                    self._shell.close()
            finally:
                self._lock.release()

    def collect(self, commands: Sequence[Command], desk: Desk) -> str:
        """All of them, each under its heading; a Gap for a file of which nothing could be read."""
        failed = _collect(self.run, lambda command: f"$ {shlex.join(command.filled(self.parameters))}", commands, desk, 0)
        for file, reason in failed.items():
            desk.gap(file, reason)
        return next(iter(failed.values()), "")


def _no_shells() -> Shell:
    raise Unsupported("no SSH access is configured (ssh in oombot.yaml)")


@dataclass(frozen=True, slots=True)
class PodShell:
    """Exec in the server's container."""

    reader: ClusterReader
    target: Target
    deadline: Deadline

    def run(self, command: Command) -> CommandOutput:
        target = self.target
        return self.reader.run(
            target.namespace, target.pod, target.container, command.argv, timeout_s=self.deadline.left(command.timeout_s), limit_bytes=command.limit_bytes
        )

    def collect(self, commands: Sequence[Command], desk: Desk) -> str:
        """All of them; what failed is one Gap, since mostly exec as a whole is not permitted."""
        heading = f"$ kubectl exec -n {self.target.namespace} {self.target.pod} -c {self.target.container} --"
        failed = _collect(self.run, lambda command: f"{heading} {shlex.join(command.argv)}", commands, desk, 1)
        if failed:
            tells = "; ".join(dict.fromkeys(command.would_tell for command in commands if command.file in failed))
            desk.gap("exec", "; ".join(dict.fromkeys(failed.values())), tells)
        return next(iter(failed.values()), "")


def _collect(run: Callable[[Command], CommandOutput], heading: Callable[[Command], str], commands: Sequence[Command], desk: Desk, order: int) -> dict[str, str]:
    """Lays down what was printed; gives the first reason of each file of which nothing could be read."""
    failed: dict[str, str] = {}
    answered: set[str] = set()
    for command in commands:
        try:
            output = run(command)
        except WorldError as wrong:
            failed.setdefault(command.file, reason_of(wrong))
            continue
        if output.stdout.strip():
            answered.add(command.file)
        elif output.status != 0:
            failed.setdefault(command.file, f"{command.argv[0]} ended with status {output.status}: {_line(output.stderr)}")
        text = output.stdout if output.stdout.strip() else output.stderr
        if text.strip():
            desk.put(command.file, heading(command).encode() + b"\n" + text.rstrip(b"\n") + b"\n", cut=output.cut, order=order)
    return {file: reason for file, reason in failed.items() if file not in answered}


def kernel_log(shell: NodeShell, desk: Desk) -> str:
    """`kernel.log` from the first command that shows one. None of them: one Gap that says what each of them said."""
    said: list[str] = []
    for command in kernel.KERNEL_LOG:
        try:
            output = shell.run(command)
        except WorldError as wrong:
            said.append(reason_of(wrong))
            if shell.closed_to_us:
                break
            continue
        if output.stdout.count(b"\n") > 1 and not any(words in output.stdout[:400] for words in _NOTHING_FOUND):
            desk.put("kernel.log", output.stdout, cut=output.cut)
            desk.note("kernel_log_command", str(command))
            return command.argv[0]
        said.append(f"{command.argv[0]}: {_line(output.stderr or output.stdout) or 'nothing'}")
    reason = "; ".join(dict.fromkeys(said))
    desk.gap("kernel.log", reason)
    return reason


def readings(shell: NodeShell, desk: Desk) -> str:
    """`node_readings.txt` of the node: free, the day's history, the control groups of pod and container; and when the node started."""
    wanted = [command for command in memory.ON_NODE if all(hole in shell.parameters for hole in command.holes)]
    said = shell.collect(wanted, desk)
    with contextlib.suppress(WorldError, ValueError, IndexError):  # the boot time only helps to date a dmesg without dates
        desk.note("node_uptime_s", float(shell.run(memory.UPTIME).stdout.split()[0]))
    return said


def _line(data: bytes) -> str:
    return " ".join(data.decode("utf-8", "replace").split())[:200]
