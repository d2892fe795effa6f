"""A real OpenSSH server for one test: own host key, own configuration, loopback only."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.needs import need

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"


@dataclass(frozen=True)
class Settings:
    """What `SshShells` asks of its settings."""

    user: str = "root"
    key: Path | None = None
    certificate: Path | None = None
    known_hosts: Path | None = None
    port: int = 22
    agent: bool = False


@dataclass(frozen=True)
class Sshd:
    """A running server: its port, its folder, its public host key."""

    port: int
    folder: Path

    @property
    def host_key(self) -> str:
        return (self.folder / "host_key.pub").read_text().rsplit(" ", 1)[0].strip()

    def known_hosts(self, name: str = "127.0.0.1", text: str | None = None) -> Path:
        path = self.folder / "known_hosts"
        path.write_text(text if text is not None else f"[{name}]:{self.port} {self.host_key}\n")
        return path

    def settings(self, **changes: object) -> Settings:
        values: dict[str, object] = {"key": self.folder / "user_key", "known_hosts": self.folder / "known_hosts", "port": self.port, **changes}
        return Settings(**values)  # type: ignore[arg-type]


def make_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


def sign(ca: Path, public_key: Path, principal: str, *options: str) -> Path:
    """A user certificate for `public_key`."""
    subprocess.run(["ssh-keygen", "-q", "-s", str(ca), "-I", "test", "-n", principal, *options, str(public_key)], check=True)
    return public_key.with_name(public_key.name.replace(".pub", "-cert.pub"))


@contextlib.contextmanager
def running_sshd(folder: Path, extra: str = "", options: str = "") -> Iterator[Sshd]:
    """Starts a server that lets `folder/user_key` in as root; `options` stand before its public key, `extra` in the configuration."""
    need(Path(SSHD).exists() and os.geteuid() == 0, "needs sshd, as root: apt-get install -y openssh-server")
    Path("/run/sshd").mkdir(exist_ok=True)
    make_key(folder / "host_key")
    make_key(folder / "user_key")
    (folder / "authorized_keys").write_text(f"{options} {(folder / 'user_key.pub').read_text()}".lstrip())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "sshd_config"
    config.write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host_key\nPidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
        f"PermitRootLogin yes\nAuthorizedKeysFile {folder}/authorized_keys\n{extra}\n"
    )
    with (folder / "sshd.log").open("wb") as log:
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stdout=log, stderr=log)
        try:
            _wait(port, server, folder / "sshd.log")
            sshd = Sshd(port, folder)
            sshd.known_hosts()
            yield sshd
        finally:
            server.terminate()
            server.wait(10)


def _wait(port: int, server: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(100):
        if server.poll() is not None:
            raise RuntimeError(f"sshd ended: {log.read_text()}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise RuntimeError("sshd did not listen")
