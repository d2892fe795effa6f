"""RealCluster: the real control plane with simulated nodes. Has the methods of `bot.sandbox.cluster.SimulatedCluster`, so that a test runs on both."""

import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

import httpx
import yaml

from bot.ports import Json
from bot.sandbox.behaviours import Chooser
from bot.sandbox.cluster import resources
from bot.sandbox.cluster.resources import Resource
from bot.sandbox.kubelet.commands import in_container
from bot.sandbox.kubelet.history import History
from bot.sandbox.kubelet.kernel import boot_lines
from bot.sandbox.kubelet.kubelet import Kubelet
from bot.sandbox.kubelet.machine import Machine, machine
from bot.sandbox.loopback import Served, certificate
from tests.cluster import access, custom_kinds, kubeconfig
from tests.cluster.control_plane import ControlPlane
from tests.cluster.kubelet_server import application
from tests.cluster.rest_api import MERGE, RestApi

TICK = 0.08


class RealCluster:
    """`machines` are its nodes (default: one with one L40S); `scale` as in the simulated one. RBAC is that of deploy/rbac."""

    def __init__(self, machines: Iterable[Machine] | None = None, *, chooser: Chooser | None = None, scale: float = 20.0, name: str = "real") -> None:
        self.name, self.scale, self.machines = name, scale, dict[str, Machine]()
        self._wanted = list(machines if machines is not None else [machine("gpu-node-1")])
        self.chooser = chooser or Chooser()
        self._folder = tempfile.TemporaryDirectory(prefix="oombot-control-plane-")
        self.plane = ControlPlane(Path(self._folder.name), access.accounts())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelets", daemon=True)

    # ------------------------------------------------------------ life

    def start(self) -> str:
        self.plane.start()
        self.client = self.plane.client()
        self.kubelet = Kubelet(RestApi(self.client), self.machines, self.chooser, in_container, self.scale)
        self._served = Served(application(self.kubelet), tls=certificate(Path(self._folder.name)))
        self._served.start()
        for each in self._wanted:
            self.add_machine(each)
        for definition in custom_kinds.definitions():
            self._ok(self.client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=definition))
        self.apply(access.manifests())
        self._thread.start()
        return self.plane.url

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(5)
            self._served.stop()
            self.client.close()
        self.plane.stop()
        self._folder.cleanup()

    @property
    def url(self) -> str:
        return self.plane.url

    @property
    def uid(self) -> str:
        return str(self.client.get("/api/v1/namespaces/kube-system").json()["metadata"]["uid"])

    def add_machine(self, node: Machine) -> None:
        """Joins a node."""
        node.kernel[:0] = boot_lines(node.booted)
        self.machines[node.name] = node
        document = node.node(self._served.port)
        self._ok(self.client.post("/api/v1/nodes", json=document))
        where = f"/api/v1/nodes/{node.name}"
        self._ok(self.client.patch(f"{where}/status", json={"status": document["status"]}, headers=MERGE))
        # Admission taints a new node as not ready, and the controller that would lift it does not run here.
        self._ok(self.client.patch(where, json={"spec": {"taints": node.taints or None}}, headers=MERGE))

    # ------------------------------------------------------------ the way in

    def kubeconfig(self, path: str | Path, role: str = "admin", *, context: str | None = None) -> Path:
        return kubeconfig.write(Path(path), context or self.name, self.url, self.plane.ca, self.plane.tokens[role].secret)

    def apply(self, manifest: str | Json | Iterable[Json], *, history: History | None = None, manager: str = "kubectl-client-side-apply") -> list[Json]:
        documents = yaml.safe_load_all(manifest) if isinstance(manifest, str) else [manifest] if isinstance(manifest, dict) else list(manifest)
        return [self._apply(each, history, manager) for each in documents if each]

    def _apply(self, document: Json, history: History | None, manager: str) -> Json:
        resource = resources.of(document)
        assert resource is not None, f"no kind {document.get('kind')} in {document.get('apiVersion')}"
        meta = document["metadata"]
        namespace = meta.get("namespace") or ("default" if resource.namespaced else "")
        if namespace:
            self.namespace(namespace)
        if history is not None:
            self.kubelet.histories[namespace, meta["name"]] = history
        where, query = _collection(resource, namespace), {"fieldManager": manager}
        made = self.client.post(where, json=document, params=query)
        for _ in range(20):  # a controller may be faster than our change; kubectl looks again, too
            if made.status_code != 409:
                break
            old = self._ok(self.client.get(f"{where}/{meta['name']}"))
            document = {**document, "metadata": {**meta, "resourceVersion": old["metadata"]["resourceVersion"]}}
            made = self.client.put(f"{where}/{meta['name']}", json=document, params=query)
        return self._ok(made)

    def namespace(self, name: str) -> None:
        if self.client.get(f"/api/v1/namespaces/{name}").status_code == 404:
            self._ok(self.client.post("/api/v1/namespaces", json={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))

    def objects(self, api_version: str, kind: str, namespace: str = "") -> list[Json]:
        found = self._ok(self.client.get(_collection(resources.BY_KIND[api_version, kind], namespace)))
        return [{"apiVersion": api_version, "kind": kind, **item} for item in found["items"]]

    def delete(self, kind: str, namespace: str, name: str, *, api_version: str = "v1") -> None:
        self._ok(self.client.request("DELETE", f"{_collection(resources.BY_KIND[api_version, kind], namespace)}/{name}"))

    # ------------------------------------------------------------ inside

    def _run(self) -> None:
        while not self._stop.wait(TICK):
            try:
                self.kubelet.tick()
            except httpx.HTTPError as wrong:
                if self._stop.is_set():
                    return
                print(f"kubelets: {wrong}")  # shown by pytest when a test fails

    @staticmethod
    def _ok(answer: httpx.Response) -> Json:
        assert answer.is_success, f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
        found: Json = answer.json()
        return found


def _collection(resource: Resource, namespace: str) -> str:
    base = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    return f"{base}/namespaces/{namespace}/{resource.plural}" if namespace and resource.namespaced else f"{base}/{resource.plural}"
