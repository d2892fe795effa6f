"""SSH servers of simulated nodes (paramiko's server mode), on loopback. They answer diagnostic commands from the nodes' state and execute nothing.

Each node has its own loopback address and host key; one key pair gets in. Where the system has only 127.0.0.1, several nodes cannot be told
apart, so none answers.
"""

import contextlib
import logging
import shlex
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import paramiko
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    MSG_CHANNEL_REQUEST,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_SUCCEEDED,
)

from bot.sandbox.kubelet import commands
from bot.sandbox.kubelet.machine import Machine

USER = "oombot"
LONGEST = 8192  # of a command line

_ANSWERS: dict[paramiko.Channel, Callable[[], None]] = {}  # by the channel that waits for its reply


class SshNode:
    """`machines` by node name. Keys and the known hosts file are written into `folder`."""

    def __init__(self, machines: Mapping[str, Machine], folder: Path) -> None:
        self.machines, self._folder = dict(machines), folder
        self._listeners: list[_Listener] = []
        self.port = 0
        self.key_file, self.known_hosts = folder / "node_key", folder / "known_hosts"
        self._host_keys = {name: _new_key(folder / f"host_{name}") for name in self.machines}
        self._user_key = _new_key(self.key_file)

    def start(self) -> int:
        """Starts listening; gives the port, which is the same on all nodes."""
        logging.getLogger("paramiko.transport").addHandler(logging.NullHandler())
        if self._told_apart():
            sockets = _listen([machine.address for machine in self.machines.values()])
            self.port = int(sockets[0].getsockname()[1])
            for (name, machine), found in zip(self.machines.items(), sockets, strict=True):
                self._listeners.append(_Listener(found, machine, self._host_keys[name], self._user_key))
        lines = [self.known_line(name, where) for name, machine in self.machines.items() for where in (machine.address, name)]
        self.known_hosts.write_text("".join(f"{line}\n" for line in lines))
        return self.port

    def stop(self) -> None:
        for listener in self._listeners:
            listener.stop()
        self._listeners.clear()

    def __enter__(self) -> "SshNode":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def known_line(self, node: str, where: str) -> str:
        """The line of a known hosts file for a node under a name or address."""
        key = self._host_keys[node]
        return f"[{where}]:{self.port} {key.get_name()} {key.get_base64()}"

    def settings(self) -> dict[str, Any]:
        """The bot's `ssh` settings for these nodes; no user, and so no SSH, where the nodes cannot be told apart."""
        return {"user": USER if self._told_apart() else "", "key": str(self.key_file), "known_hosts": str(self.known_hosts), "port": self.port or 22}

    def _told_apart(self) -> bool:
        return len({machine.address for machine in self.machines.values()}) == len(self.machines)


class _Listener:
    """One node's port: a thread that accepts, and one for each connection."""

    def __init__(self, found: socket.socket, machine: Machine, host_key: paramiko.PKey, user_key: paramiko.PKey) -> None:
        self._socket, self._machine, self._host_key, self._user_key = found, machine, host_key, user_key
        self._transports: list[paramiko.Transport] = []
        threading.Thread(target=self._accept, name=f"ssh {machine.name}", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # closed by stop()
            transport = _Transport(connection)
            transport.local_version = "SSH-2.0-OpenSSH_9.6p1"
            transport.add_server_key(self._host_key)
            self._transports = [each for each in self._transports if each.is_active()] + [transport]
            try:
                transport.start_server(event=threading.Event(), server=_Session(self._machine, self._user_key))
            except (paramiko.SSHException, EOFError, OSError):
                transport.close()

    def stop(self) -> None:
        # A blocked accept() goes on after close() alone.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for transport in self._transports:
            transport.close()


class _Transport(paramiko.Transport):
    """Runs what a request leads to after the reply to it has been sent.

    paramiko sends the reply only when `check_channel_exec_request` has returned; an answer from another thread may overtake it,
    and the client then takes the closing of the channel for a refusal."""

    def _then(channel: Any, message: Any) -> None:  # noqa: N805  a handler in a table of paramiko's, not a method
        paramiko.Channel._handle_request(channel, message)  # type: ignore[attr-defined]
        answer_now = _ANSWERS.pop(channel, None)
        if answer_now is not None:
            threading.Thread(target=answer_now, daemon=True).start()

    _channel_handler_table: ClassVar = {**paramiko.Transport._channel_handler_table, MSG_CHANNEL_REQUEST: _then}  # type: ignore[attr-defined]


class _Session(paramiko.ServerInterface):
    """Lets one key in, and answers single commands; no shell, no terminal, no forwarding."""

    def __init__(self, machine: Machine, user_key: paramiko.PKey) -> None:
        self._machine, self._user_key = machine, user_key

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        known = username == USER and key.get_base64() == self._user_key.get_base64()
        return AUTH_SUCCESSFUL if known else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED if kind == "session" else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        _ANSWERS[channel] = lambda: self._answer(channel, command)
        return True

    def _answer(self, channel: paramiko.Channel, command: bytes) -> None:
        stdout, stderr, status = answer(self._machine, command)
        try:
            channel.sendall(stdout)
            channel.sendall_stderr(stderr)
            channel.send_exit_status(status)
            channel.close()
        except (OSError, EOFError):
            return  # the other side went away first


def answer(machine: Machine, line: bytes) -> commands.Output:
    """What a node says to a command line. It is split into words as a shell would, and looked up; nothing in it is ever run."""
    try:
        words = shlex.split(line[:LONGEST].decode("utf-8"))
    except (UnicodeDecodeError, ValueError) as wrong:
        return b"", f"bash: -c: {wrong}\n".encode(), 2
    return commands.on_node(machine, unwrapped(words))


def unwrapped(words: list[str]) -> list[str]:
    """A command without `env NAME=VALUE` and `timeout -k 2 10` before it."""
    rest = list(words)
    if rest[:1] == ["env"]:
        rest = rest[1:]
        while rest and "=" in rest[0] and not rest[0].startswith("-"):
            rest.pop(0)
    if rest[:1] == ["timeout"]:
        rest = rest[1:]
        while rest and rest[0].startswith("-"):
            rest = rest[1:] if "=" in rest[0] else rest[2:]
        rest = rest[1:]
    return rest


def _new_key(path: Path) -> paramiko.PKey:
    """Writes a fresh ed25519 key."""
    data = Ed25519PrivateKey.generate().private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    path.touch(mode=0o600)
    path.write_bytes(data)
    return paramiko.Ed25519Key.from_private_key_file(str(path))


def _listen(addresses: list[str]) -> list[socket.socket]:
    """One socket for each address, all on the same free port."""
    for _ in range(20):
        found = [_bound(addresses[0], 0)]
        port = int(found[0].getsockname()[1])
        try:
            found += [_bound(address, port) for address in addresses[1:]]
        except OSError:
            for each in found:
                each.close()
            continue
        return found
    raise OSError(f"no port is free on all of {', '.join(addresses)}")


def _bound(address: str, port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.bind((address, port))
        found.listen(16)
    except OSError:
        found.close()
        raise
    return found
