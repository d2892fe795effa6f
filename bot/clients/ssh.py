"""Commands on nodes over SSH (paramiko): bounded in time and bytes, from an allow-list, on hosts whose key is known.

A host key that does not stand in the known hosts file is refused; nothing is ever added to it. Commands are argv lists: each word is
quoted for the far shell, and a far `timeout` ends what we stop listening to. No forwarding, no terminal, no password.
"""

import logging
import math
import shlex
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import paramiko
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey
from paramiko.pkey import UnknownKeyType
from paramiko.ssh_exception import IncompatiblePeer

from bot.errors import Forbidden, HostKeyUnknown, NotFound, TimedOut, Unreachable, Unsupported, WorldError
from bot.ports import CommandOutput

CONNECT_S = 5.0
GRACE_S = 3.0  # after the far `timeout` should have ended the command
CHANNELS = 4  # sshd allows 10 a connection
ADDRESSES = 2  # of a node that are tried

# Kept by paramiko for old servers only; a node that offers nothing better is not talked to.
WEAK = {
    "macs": ["hmac-sha1", "hmac-sha1-96", "hmac-md5", "hmac-md5-96"],
    "ciphers": ["3des-cbc", "aes128-cbc", "aes192-cbc", "aes256-cbc"],
}

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # its tracebacks are no reading for people; errors come as exceptions


class SshAccess(Protocol):
    """What the settings say of SSH."""

    @property
    def user(self) -> str: ...
    @property
    def key(self) -> Path | None: ...
    @property
    def certificate(self) -> Path | None: ...
    @property
    def known_hosts(self) -> Path | None: ...
    @property
    def port(self) -> int: ...
    @property
    def agent(self) -> bool: ...


Allowed = Callable[[Sequence[str]], bool]


class SshShells:
    """Implements `ports.Shells`. `allowed` decides which argv lists may be sent (`bot.evidence.commands.on_node`)."""

    def __init__(self, settings: SshAccess, allowed: Allowed) -> None:
        self._settings = settings
        self._allowed = allowed

    def open(self, node: str, addresses: Sequence[str]) -> "SshShell":
        """Connects to `node` at the first of `addresses` that answers. Its key is looked up under the node's name and under each address."""
        settings = self._settings
        if not settings.user:
            raise Unsupported("no SSH access is configured (ssh.user, ssh.key and ssh.known_hosts in oombot.yaml)")
        if settings.known_hosts is None:
            raise Unsupported("no known hosts file is configured (ssh.known_hosts in oombot.yaml); without one no node can be told from an impostor")
        known = known_hosts(settings.known_hosts)
        name = _known_name(known, [node, *addresses], settings.port)
        if name is None:
            raise HostKeyUnknown(how_to_add(node, [*addresses, node][0], settings.port, settings.known_hosts))
        key = _private_key(settings)
        wrong: WorldError = Unreachable(f"{node} has no address")
        for address in list(addresses or [node])[:ADDRESSES]:
            try:
                return SshShell(node, self._connect(node, address, name, known, key), self._allowed)
            except (Unreachable, TimedOut) as failed:
                wrong = failed
        raise wrong

    def _connect(self, node: str, address: str, name: str, known: paramiko.HostKeys, key: paramiko.PKey | None) -> paramiko.SSHClient:
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        client.get_host_keys().update(known)
        where = f"{node} ({address}:{self._settings.port})"
        try:
            client.connect(
                name,
                port=self._settings.port,
                username=self._settings.user,
                pkey=key,
                allow_agent=self._settings.agent or key is None,
                look_for_keys=False,
                sock=socket.create_connection((address, self._settings.port), timeout=CONNECT_S),
                timeout=CONNECT_S,
                banner_timeout=CONNECT_S,
                auth_timeout=CONNECT_S,
                channel_timeout=CONNECT_S,
                disabled_algorithms=WEAK,
            )
        except (paramiko.SSHException, OSError, EOFError) as wrong:
            client.close()
            raise _translate(where, node, self._settings, wrong) from wrong
        transport = client.get_transport()
        if transport is not None:
            transport.set_keepalive(15)
        return client


class SshShell:
    """One connection to one node. Implements `ports.Shell`; may be used from several threads."""

    def __init__(self, host: str, client: paramiko.SSHClient, allowed: Allowed) -> None:
        self.host = host
        self._client = client
        self._allowed = allowed
        self._channels = threading.BoundedSemaphore(CHANNELS)

    def run(self, argv: Sequence[str], *, timeout_s: float = 10, limit_bytes: int = 1 << 20) -> CommandOutput:
        """Runs an allowed command. Raises Forbidden for any other, NotFound when the node has no such program, TimedOut when it did not end."""
        if not self._allowed(argv):
            raise Forbidden(f"not an allowed command: {' '.join(argv)[:200]}")
        with self._channels:
            try:
                output = self._run(tuple(argv), timeout_s, limit_bytes)
            except (paramiko.SSHException, OSError, EOFError) as wrong:
                raise Unreachable(f"{self.host}: the connection broke during {argv[0]}: {_line(wrong)}") from wrong
        if output.status == 127:
            raise NotFound(f"{self.host} has no {argv[0]}: {_line(output.stderr.decode('utf-8', 'replace'))}")
        if output.status in (124, 137) and not output.cut:
            raise TimedOut(f"{self.host}: {argv[0]} did not end within {timeout_s:.0f} s")
        return output

    def _run(self, argv: tuple[str, ...], timeout_s: float, limit: int) -> CommandOutput:
        transport = self._client.get_transport()
        if transport is None or not transport.is_active():
            raise EOFError("not connected")
        channel = transport.open_session(timeout=CONNECT_S)
        try:
            channel.exec_command(far_line(argv, timeout_s))
            return _read(channel, argv, time.monotonic() + timeout_s + GRACE_S, limit)
        finally:
            channel.close()

    def close(self) -> None:
        self._client.close()


def far_line(argv: Sequence[str], timeout_s: float) -> str:
    """The one string that SSH sends: every word quoted, C locale, and ended over there (closing a channel ends nothing)."""
    return f"env LC_ALL=C timeout -k 2 {max(1, math.ceil(timeout_s))} {shlex.join(argv)}"


def _read(channel: paramiko.Channel, argv: tuple[str, ...], end: float, limit: int) -> CommandOutput:
    """Both streams in one loop (reading one to its end first can block for ever), until the end, the deadline or the cap of either."""
    out, err = bytearray(), bytearray()
    while True:
        moved = False
        for ready, receive, into in ((channel.recv_ready, channel.recv, out), (channel.recv_stderr_ready, channel.recv_stderr, err)):
            if ready():
                into += receive(32768)
                moved = True
        if len(out) > limit or len(err) > limit:
            return CommandOutput(argv, bytes(out[:limit]), bytes(err[:limit]), -1, cut=True)
        if not moved:
            if channel.exit_status_ready() and not channel.recv_ready() and not channel.recv_stderr_ready():
                return CommandOutput(argv, bytes(out), bytes(err), channel.recv_exit_status())
            if channel.closed:
                raise EOFError("the far side closed the channel")
            if time.monotonic() > end:
                raise TimedOut(f"{argv[0]} did not end in time")
            time.sleep(0.01)
        elif time.monotonic() > end:
            return CommandOutput(argv, bytes(out), bytes(err), -1, cut=True)


# ---------------------------------------------------------------- host keys


def known_hosts(path: Path) -> paramiko.HostKeys:
    """The host keys of a known hosts file. `@revoked` keys count as unknown; `@cert-authority` lines are left out (paramiko knows no host
    certificates); lines that cannot be read are left out. Raises Unsupported when the file cannot be read."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError as wrong:
        raise Unsupported(f"the known hosts file {path} cannot be read: {wrong.strerror}") from wrong
    entries: list[HostKeyEntry] = []
    revoked: set[str] = set()
    for line in (line.strip() for line in lines):
        marker, _, rest = line.partition(" ")
        entry = _entry(rest.strip() if marker == "@revoked" else line)
        if entry is None or marker == "@cert-authority":
            continue
        if marker == "@revoked":
            revoked.add(entry.key.get_base64())
        else:
            entries.append(entry)
    keys = paramiko.HostKeys()
    for entry in entries:
        if entry.key.get_base64() not in revoked:
            for host in entry.hostnames:
                keys.add(host, entry.key.get_name(), entry.key)
    return keys


def _entry(line: str) -> HostKeyEntry | None:
    if not line or line.startswith(("#", "@")):
        return None
    try:
        return HostKeyEntry.from_line(line)
    except (InvalidHostKey, paramiko.SSHException, ValueError):
        return None


def _known_name(known: paramiko.HostKeys, names: Sequence[str], port: int) -> str | None:
    """The name under which the host's key is known: what we connect to is decided by the address, who answers by the key."""
    return next((name for name in names if known.lookup(name if port == 22 else f"[{name}]:{port}")), None)


def how_to_add(node: str, address: str, port: int, path: Path) -> str:
    """What a person does about an unknown key."""
    scan = f"ssh-keyscan -t ed25519{'' if port == 22 else f' -p {port}'} {address}"
    return f"the SSH host key of {node} is not in {path}: add the line that `{scan}` prints, after comparing its fingerprint on the node itself (docs/nodes.md)"


# ---------------------------------------------------------------- keys and errors


def _private_key(settings: SshAccess) -> paramiko.PKey | None:
    """The private key with its certificate; None: the agent has it."""
    if settings.key is None:
        return None
    try:
        key = paramiko.PKey.from_path(settings.key)
        if settings.certificate is not None:
            key.load_certificate(str(settings.certificate))
    except paramiko.PasswordRequiredException as wrong:
        raise Unsupported(f"the SSH key {settings.key} has a passphrase: use one without, or the agent") from wrong
    except OSError as wrong:
        raise Unsupported(f"the SSH key or certificate cannot be read: {wrong.filename}: {wrong.strerror}") from wrong
    except (ValueError, TypeError, paramiko.SSHException, UnknownKeyType) as wrong:
        raise Unsupported(f"the SSH key {settings.key} cannot be used: {_line(wrong)}") from wrong
    return key


def _translate(where: str, node: str, settings: SshAccess, wrong: Exception) -> WorldError:
    if isinstance(wrong, paramiko.BadHostKeyException):
        return HostKeyUnknown(
            f"the SSH host key of {where} is not the one in {settings.known_hosts}: it shows {wrong.key.fingerprint}, known is {wrong.expected_key.fingerprint}; "
            "if the node was set up anew, replace its line, else somebody stands in between"
        )
    if isinstance(wrong, paramiko.AuthenticationException):
        return Forbidden(f"{where} does not accept the key of {settings.user!r}: {_line(wrong)}")
    if isinstance(wrong, TimeoutError):
        return TimedOut(f"no answer from SSH on {where} in time")
    if isinstance(wrong, paramiko.SSHException) and "not found in known_hosts" in str(wrong):
        return HostKeyUnknown(how_to_add(node, node, settings.port, settings.known_hosts or Path("known_hosts")))
    if isinstance(wrong, paramiko.SSHException) and "No authentication methods" in str(wrong):
        return Unsupported(f"there is no SSH key to show to {where}: ssh.key is not set in oombot.yaml, and the agent holds none")
    if isinstance(wrong, IncompatiblePeer):
        return Unsupported(f"{where} offers only algorithms that are not safe: {_line(wrong)}")
    return Unreachable(f"no SSH connection to {where}: {_line(wrong) or 'it was closed'}")


def _line(wrong: object) -> str:
    return " ".join(str(wrong).split())[:300]
