"""Starts etcd, kube-apiserver and kube-controller-manager from binaries that `make control-plane` built. Loopback only."""

import ctypes
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bot.sandbox.cluster.roles import User, user_of
from tests.needs import need

PROJECT = Path(__file__).parents[2]
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")
CONTROLLERS = ",".join(f"{name}-controller" for name in ("deployment", "replicaset", "statefulset", "daemonset", "garbage-collector", "namespace", "cronjob", "job"))


def binaries() -> Path:
    """Their folder; skips (or fails in CI) when they have not been built."""
    folder = Path(os.environ.get("KUBEBUILDER_ASSETS") or PROJECT / ".cache" / "control-plane")
    need(all((folder / name).is_file() for name in PROGRAMS), "the real Kubernetes control plane is not built: run `make control-plane` (needs Go 1.26)")
    return folder


@dataclass(frozen=True, slots=True)
class Token:
    role: str
    secret: str
    user: User

    def line(self) -> str:
        return f'{self.secret},{self.user.name},{self.role},"{",".join(group for group in self.user.groups if group != "system:authenticated")}"'


class ControlPlane:
    """`tokens` by role; `url` and `ca` once started."""

    def __init__(self, folder: Path, accounts: Mapping[str, str]) -> None:
        self.folder, self._processes = folder, list[subprocess.Popen[bytes]]()
        self.audit_log = folder / "audit.log"  # every write of the remediator, as the API server saw it
        users = {role: user_of(account) for role, account in {"admin": "admin", **accounts}.items()}
        self.tokens = {role: Token(role, secrets.token_urlsafe(24), user) for role, user in users.items()}
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca(self) -> bytes:
        return (self.folder / "apiserver.crt").read_bytes()

    def start(self) -> None:
        programs = binaries()
        client, peer, self.port = free_ports(3)
        _service_account_key(self.folder)
        (self.folder / "tokens.csv").write_text("".join(token.line() + "\n" for token in self.tokens.values()))
        (self.folder / "audit-policy.yaml").write_text(json.dumps(_audit_policy(self.tokens["remediator"].user.name)))
        etcd = f"http://127.0.0.1:{client}"
        self._run(programs / "etcd", "--unsafe-no-fsync", f"--data-dir={self.folder / 'etcd'}", f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}",
                  f"--listen-peer-urls=http://127.0.0.1:{peer}", "--log-level=error")  # fmt: skip
        key = self.folder / "service-account.key"
        self._run(programs / "kube-apiserver", f"--etcd-servers={etcd}", f"--secure-port={self.port}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
                  f"--cert-dir={self.folder}", f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
                  "--service-account-issuer=https://kubernetes.default.svc", f"--token-auth-file={self.folder / 'tokens.csv'}", "--authorization-mode=RBAC",
                  "--disable-admission-plugins=ServiceAccount", "--kubelet-preferred-address-types=InternalIP", "--service-cluster-ip-range=10.96.0.0/16",
                  "--endpoint-reconciler-type=none", f"--audit-policy-file={self.folder / 'audit-policy.yaml'}", f"--audit-log-path={self.audit_log}")  # fmt: skip
        self._wait()
        self._run(programs / "kube-controller-manager", f"--kubeconfig={self._admin_kubeconfig()}", "--leader-elect=false", f"--controllers={CONTROLLERS}",
                  "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000")  # fmt: skip

    def stop(self) -> None:
        """At once: nothing of it is kept, and a graceful end takes the API server ten seconds."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait(10)

    def client(self, role: str = "admin") -> httpx.Client:
        """An HTTP client with a role's token."""
        trust = ssl.create_default_context(cadata=self.ca.decode())
        trust.check_hostname = False  # its self-made certificate is for the advertised address under other names too
        limits = httpx.Limits(max_connections=50, max_keepalive_connections=10)
        return httpx.Client(base_url=self.url, verify=trust, headers={"Authorization": f"Bearer {self.tokens[role].secret}"}, timeout=10, limits=limits)

    def _run(self, program: Path, *flags: str) -> None:
        with (self.folder / f"{program.name}.log").open("wb") as log:
            command = [str(program), *flags]
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, preexec_fn=_end_with_parent))

    def _wait(self, within_s: float = 60) -> None:
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            if any(process.poll() is not None for process in self._processes):
                break
            try:
                with self.client() as client:
                    if client.get("/readyz").status_code == 200 and client.get("/api/v1/namespaces/kube-system").status_code == 200:
                        return
            except (httpx.TransportError, OSError):
                pass  # not there yet
            time.sleep(0.05)
        logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.log"))
        self.stop()
        raise TimeoutError(f"the control plane did not get ready:\n{logs}")

    def _admin_kubeconfig(self) -> Path:
        from tests.cluster.kubeconfig import write

        return write(self.folder / "controllers.kubeconfig", "controllers", self.url, self.ca, self.tokens["admin"].secret)


def _audit_policy(user: str) -> dict[str, Any]:
    """What one account writes, with what it sent; nothing else. Each event stands in the log before the answer is given."""
    written = {"level": "Request", "users": [user], "verbs": ["patch", "create", "update", "delete", "deletecollection"]}
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [written, {"level": "None"}]}


def _end_with_parent() -> None:
    """A test run that is killed must not leave servers behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _service_account_key(folder: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    (folder / "service-account.key").write_bytes(pem)
