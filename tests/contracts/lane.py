"""A test's own corner of a cluster: namespace, node, clients by role, and manifests that land there."""

import json
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

from kubernetes import client, config
from kubernetes.client import ApiException

from bot.ports import Json
from bot.sandbox.behaviours import ANNOTATION
from bot.sandbox.kubelet.history import History
from bot.sandbox.kubelet.machine import Machine

T = TypeVar("T")

SERVES: Json = {"ready_after": 2, "log": ["loading", "serving"]}
CRASHES: Json = {"ready_after": None, "exit_code": 1, "exit_after": 6, "log": ["first line", "second line", "ValueError: no room"]}
STRATEGIC = "application/strategic-merge-patch+json"


class Cluster(Protocol):
    """What SimulatedCluster and RealCluster have in common."""

    name: str
    machines: dict[str, Machine]

    @property
    def url(self) -> str: ...
    @property
    def uid(self) -> str: ...
    def kubeconfig(self, path: str | Path, role: str = "admin", *, context: str | None = None) -> Path: ...
    def apply(self, manifest: str | Json | Iterable[Json], *, history: History | None = None, manager: str = "x") -> list[Json]: ...
    def objects(self, api_version: str, kind: str, namespace: str = "") -> list[Json]: ...
    def add_machine(self, node: Machine) -> None: ...
    def namespace(self, name: str) -> None: ...
    def delete(self, kind: str, namespace: str, name: str, *, api_version: str = "v1") -> None: ...


def wait_for(what: str, look: Callable[[], T | None], within_s: float = 20) -> T:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {within_s:.0f} s")


def refused(call: Callable[[], Any]) -> tuple[int, Json]:
    """(HTTP status, Status object) of a call that must fail."""
    try:
        answer = call()
    except ApiException as no:
        return int(no.status), json.loads(no.body) if no.body else {}
    raise AssertionError(f"was not refused: {answer}")


class Lane:
    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster, self.namespace, self._folder = cluster, namespace, folder
        self._clients: dict[str, client.ApiClient] = {}

    def api(self, role: str = "admin") -> client.ApiClient:
        if role not in self._clients:
            path = self.cluster.kubeconfig(self._folder / f"{role}.kubeconfig", role)
            self._clients[role] = config.new_client_from_config(str(path))
        return self._clients[role]

    def core(self, role: str = "admin") -> client.CoreV1Api:
        return client.CoreV1Api(self.api(role))

    def apps(self, role: str = "admin") -> client.AppsV1Api:
        return client.AppsV1Api(self.api(role))

    @cached_property
    def node(self) -> str:
        return f"node-{self.namespace}"

    # ------------------------------------------------------------ manifests

    def pod_template(self, script: Json | None = None, *, gpus: int = 1, grace: int = 1) -> Json:
        limits = {"memory": "8Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
        server = {"name": "server", "image": "registry.example/server:1", "args": ["--gpu-memory-utilization=0.9", "--max-model-len=4096"],
                  "resources": {"limits": limits}, "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}}}  # fmt: skip
        meta = {"labels": {"app": "chat"}, "annotations": {ANNOTATION: json.dumps(script or SERVES)}}
        return {"metadata": meta, "spec": {"containers": [server], "nodeSelector": {"pool": self.namespace}, "terminationGracePeriodSeconds": grace}}

    def workload(self, kind: str, script: Json | None = None, *, replicas: int = 1, gpus: int = 1, **spec: Any) -> Json:
        body = {"replicas": replicas, "selector": {"matchLabels": {"app": "chat"}}, "template": self.pod_template(script, gpus=gpus), **spec}
        if kind == "StatefulSet":
            body["serviceName"] = "chat"
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "chat", "namespace": self.namespace, "labels": {"app": "chat"}}, "spec": body}

    def deploy(self, script: Json | None = None, **how: Any) -> Json:
        return self.cluster.apply(self.workload("Deployment", script, **how))[0]

    def configmap(self, name: str, labels: dict[str, str] | None = None, data: dict[str, str] | None = None) -> Json:
        document = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels or {}},
            "data": data or {},
        }
        return self.cluster.apply(document)[0]

    # ------------------------------------------------------------ looks

    def pods(self) -> list[Json]:
        """Newest first, those being deleted left out."""
        found = [pod for pod in self.cluster.objects("v1", "Pod", self.namespace) if "deletionTimestamp" not in pod["metadata"]]
        return sorted(found, key=lambda pod: int(pod["metadata"]["resourceVersion"]), reverse=True)

    def get(self, kind: str, name: str = "chat") -> Json:
        return next(item for item in self.cluster.objects("apps/v1", kind, self.namespace) if item["metadata"]["name"] == name)

    def ready_pod(self, script: Json | None = None) -> Json:
        return wait_for("a ready pod", lambda: next((pod for pod in self.pods() if is_ready(pod) and (script is None or runs(pod, script))), None))

    def crashed_pod(self, restarts: int = 1) -> Json:
        return wait_for("a crash loop", lambda: next((pod for pod in self.pods() if restarts_of(pod) >= restarts), None), 30)

    def settled(self, seconds: float = 1.5) -> None:
        """Time in which something would have happened."""
        time.sleep(seconds)

    def rescript(self, kind: str, script: Json, **more: Any) -> None:
        """Changes the template."""
        patch = {"spec": {**more, "template": {"metadata": {"annotations": {ANNOTATION: json.dumps(script)}}}}}
        call = self.apps().patch_namespaced_deployment if kind == "Deployment" else self.apps().patch_namespaced_stateful_set
        call("chat", self.namespace, patch)

    def clean(self) -> None:
        for kind in ("Deployment", "StatefulSet"):
            for item in self.cluster.objects("apps/v1", kind, self.namespace):
                self.cluster.delete(kind, self.namespace, item["metadata"]["name"], api_version="apps/v1")
        for pod in self.pods():
            if not pod["metadata"].get("ownerReferences"):
                self.cluster.delete("Pod", self.namespace, pod["metadata"]["name"])
        for api in self._clients.values():
            api.close()


def is_ready(pod: Json) -> bool:
    return any(row["type"] == "Ready" and row["status"] == "True" for row in pod["status"].get("conditions") or [])


def runs(pod: Json, script: Json) -> bool:
    return bool(pod["metadata"]["annotations"][ANNOTATION] == json.dumps(script))


def restarts_of(pod: Json) -> int:
    return max((row["restartCount"] for row in pod["status"].get("containerStatuses") or []), default=0)


def waits_for_gpu(pod: Json) -> str:
    """The scheduler's message of a pod that found no node; "" otherwise."""
    rows = [row for row in pod["status"].get("conditions") or [] if row["type"] == "PodScheduled" and row["status"] == "False"]
    return str(rows[0]["message"]) if rows else ""
