"""Nodes behind a real OpenSSH server: its forced command asks the test for what the simulated machine would print, and runs nothing else."""

import contextlib
import shlex
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from bot.ports import Json
from bot.sandbox.kubelet import commands
from bot.sandbox.kubelet.machine import Machine
from tests.clients.sshd import Sshd, running_sshd

# The login shell's part: sends the command that was asked for to the test's socket, and hands its answer out.
FORCED = """import os, socket, sys
asked = socket.socket(socket.AF_UNIX)
asked.connect(sys.argv[1])
asked.sendall(os.environ.get("SSH_ORIGINAL_COMMAND", "").encode())
asked.shutdown(socket.SHUT_WR)
data = b"".join(iter(lambda: asked.recv(65536), b""))
status, _, text = data.partition(b"\\n")
sys.stdout.buffer.write(text)
sys.exit(int(status))
"""


class SshdNodes:
    """One node behind one sshd on 127.0.0.1. `asked` are the commands that arrived."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine, self.folder = machine, folder
        self.asked: list[str] = []
        self._stack = contextlib.ExitStack()
        self._sshd: Sshd | None = None
        self._socket = socket.socket(socket.AF_UNIX)

    def start(self) -> None:
        where = self.folder / "answers"
        script = self.folder / "forced.py"
        script.write_text(FORCED)
        self._socket.bind(str(where))
        self._socket.listen(16)
        threading.Thread(target=self._answer, daemon=True, name="node answers").start()
        self._sshd = self._stack.enter_context(running_sshd(self.folder, options=f'restrict,command="{sys.executable} {script} {where}"'))

    def stop(self) -> None:
        self._stack.close()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def settings(self) -> Json:
        assert self._sshd is not None
        return {"user": "root", "key": str(self._sshd.folder / "user_key"), "known_hosts": str(self._sshd.folder / "known_hosts"), "port": self._sshd.port}

    def _answer(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                words = shlex.split(b"".join(_received(connection)).decode())
                self.asked.append(shlex.join(words))
                assert words[:4] == ["env", "LC_ALL=C", "timeout", "-k"], words  # every command is bounded on the far side, too
                out, _, status = commands.on_node(self.machine, words[6:])
                with contextlib.suppress(OSError):
                    connection.sendall(f"{status}\n".encode() + out)


def _received(connection: socket.socket) -> Iterator[bytes]:
    while piece := connection.recv(65536):
        yield piece
