"""Serves an ASGI application on loopback, in a thread of its own. Never binds anything else."""

import datetime
import ipaddress
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A self-signed one for 127.0.0.1 and localhost, as files and as text."""

    cert: Path
    key: Path

    @property
    def pem(self) -> bytes:
        return self.cert.read_bytes()


def certificate(folder: Path) -> Certificate:
    """Makes one in a folder."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "oombot sandbox")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))])
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(x509.random_serial_number())
    built = built.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=30))
    built = built.add_extension(names, critical=False).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    made = Certificate(folder / "sandbox.crt", folder / "sandbox.key")
    made.cert.write_bytes(built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    made.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    made.key.chmod(0o600)
    return made


def loopback_addresses(count: int) -> list[str]:
    """That many addresses of this machine's loopback; all the same where the system has but one (macOS)."""
    if count == 1:
        return [HOST]
    wanted = [f"127.0.{number // 200}.{number % 200 + 11}" for number in range(count)]
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        try:
            trial.bind((wanted[-1], 0))
        except OSError:
            return [HOST] * count
    return wanted


class Served:
    """A running server: `url`, `port`, and `stop()`."""

    def __init__(self, application: Any, *, port: int = 0, tls: Certificate | None = None) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((HOST, port))
        self.port = int(self._socket.getsockname()[1])
        self.url = f"{'https' if tls else 'http'}://{HOST}:{self.port}"
        files = {"ssl_certfile": str(tls.cert), "ssl_keyfile": str(tls.key)} if tls else {}
        config = uvicorn.Config(application, log_level="critical", lifespan="off", timeout_graceful_shutdown=1, ws="websockets-sansio", **files)  # type: ignore[arg-type]
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name=f"sandbox:{self.port}", daemon=True)

    def start(self, *, within_s: float = 10) -> str:
        """Gives the address once it answers. Raises TimeoutError."""
        self._thread.start()
        until = time.monotonic() + within_s
        while not self._server.started:
            if time.monotonic() > until or not self._thread.is_alive():
                raise TimeoutError(f"the sandbox server at {self.url} did not start")
            time.sleep(0.01)
        return self.url

    def stop(self) -> None:
        # Open watches are cut, not waited for.
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(5)
        self._socket.close()
