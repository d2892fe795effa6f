"""SimulatedCluster: store, API, controllers, scheduler and kubelets put together. Loopback only; anybody with its kubeconfig may do what the role may."""

import base64
import copy
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

import yaml

from bot.ports import Json
from bot.sandbox.answers import ApiError
from bot.sandbox.behaviours import Chooser
from bot.sandbox.cluster import deployment, garbage, replicaset, resources, roles, statefulset
from bot.sandbox.cluster.api import application
from bot.sandbox.cluster.local import LocalApi
from bot.sandbox.cluster.resources import NAMESPACES, NODES
from bot.sandbox.cluster.roles import Gate
from bot.sandbox.cluster.store import Store
from bot.sandbox.kubelet.commands import in_container
from bot.sandbox.kubelet.history import History
from bot.sandbox.kubelet.kernel import boot_lines
from bot.sandbox.kubelet.kubelet import Kubelet
from bot.sandbox.kubelet.machine import LOCAL, Machine, machine
from bot.sandbox.loopback import Served, certificate, loopback_addresses

TICK = 0.03  # seconds between two looks of the controllers and kubelets
WORKLOADS = {"Deployment", "StatefulSet", "Pod"}


class SimulatedCluster:
    """`machines` are its nodes (default: one with one L40S); `scale` is how many seconds of a server's life pass in one real second.

    Roles for `kubeconfig`: admin, reader, remediator, or a service account "namespace:name". `rbac` replaces the built-in roles."""

    def __init__(self, machines: Iterable[Machine] | None = None, *, chooser: Chooser | None = None, scale: float = 20.0, name: str = "sandbox",
                 rbac: Iterable[Json] | None = None, port: int = 0) -> None:  # fmt: skip
        self.name, self.scale, self._port = name, scale, port
        self.machines = {each.name: each for each in (machines if machines is not None else [machine("gpu-node-1")])}
        self.chooser = chooser or Chooser()
        self.store = Store()
        self.gate = Gate(self.store)
        self.kubelet = Kubelet(LocalApi(self.store), self.machines, self.chooser, in_container, scale)
        self._folder = tempfile.TemporaryDirectory(prefix="oombot-sandbox-")
        self._stop = threading.Event()
        self._served: Served | None = None
        self._ca = b""
        self._thread = threading.Thread(target=self._run, name="sandbox controllers", daemon=True)
        self._seen = -1
        self._furnish(roles.manifests() if rbac is None else rbac)

    # ------------------------------------------------------------ life

    def start(self) -> str:
        """Starts serving; gives the address of the API server."""
        tls = certificate(Path(self._folder.name))
        self._ca = tls.pem
        self._served = served = Served(application(self.store, self.gate, self.kubelet), port=self._port, tls=tls)
        self._thread.start()
        return served.start()

    def stop(self) -> None:
        self._stop.set()
        if self._served is not None:
            self._served.stop()
            self._thread.join(5)
        self._folder.cleanup()

    def __enter__(self) -> "SimulatedCluster":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        if self._served is None:
            raise RuntimeError("the simulated cluster has not been started")
        return self._served.url

    @property
    def uid(self) -> str:
        """Of the namespace kube-system."""
        return str(self.store.get(NAMESPACES, "", "kube-system")["metadata"]["uid"])

    def add_machine(self, node: Machine) -> None:
        """Joins a node."""
        node.kernel[:0] = boot_lines(node.booted)
        self.machines[node.name] = node
        self.store.create(NODES, node.node(), manager="kubelet")

    # ------------------------------------------------------------ the way in

    def kubeconfig(self, path: str | Path, role: str = "admin", *, context: str | None = None) -> Path:
        """Writes a kubeconfig for a role; gives its path."""
        name = context or self.name
        cluster = {"server": self.url, "certificate-authority-data": base64.b64encode(self._ca).decode()}
        document = {"apiVersion": "v1", "kind": "Config", "current-context": name, "clusters": [{"name": name, "cluster": cluster}],
                    "users": [{"name": role, "user": {"token": self.gate.token(role)}}],
                    "contexts": [{"name": name, "context": {"cluster": name, "user": role}}]}  # fmt: skip
        target = Path(path)
        target.touch(mode=0o600)
        target.write_text(yaml.safe_dump(document))
        return target

    def apply(self, manifest: str | Json | Iterable[Json], *, history: History | None = None, manager: str = "kubectl-client-side-apply") -> list[Json]:
        """Creates or replaces objects from YAML text or plain data; makes their namespaces. With `history` a new workload's pods are born with that past."""
        documents = yaml.safe_load_all(manifest) if isinstance(manifest, str) else [manifest] if isinstance(manifest, dict) else list(manifest)
        return [self._apply(copy.deepcopy(each), history, manager) for each in documents if each]

    def _apply(self, document: Json, history: History | None, manager: str) -> Json:
        resource = resources.of(document)
        if resource is None:
            raise ApiError(404, "NotFound", f"no kind {document.get('kind')} in {document.get('apiVersion')}")
        meta = document["metadata"]
        namespace = meta.setdefault("namespace", "default") if resource.namespaced else ""
        if namespace:
            self.namespace(namespace)
        if history is not None and document["kind"] in WORKLOADS:
            self.kubelet.histories[namespace, meta["name"]] = history
        if self.store.find(resource, namespace, meta["name"]) is None:
            return self.store.create(resource, document, manager=manager)
        return self.store.edit(resource, namespace, meta["name"], lambda old: {**document, "metadata": {**old["metadata"], **meta}}, manager=manager)

    def namespace(self, name: str) -> None:
        if self.store.find(NAMESPACES, "", name) is None:
            self.store.create(NAMESPACES, {"metadata": {"name": name}}, manager="kubectl-create")

    def objects(self, api_version: str, kind: str, namespace: str = "") -> list[Json]:
        """Copies of all objects of a kind; an empty namespace means all."""
        return copy.deepcopy(self.store.all(resources.BY_KIND[api_version, kind], namespace))

    def delete(self, kind: str, namespace: str, name: str, *, api_version: str = "v1") -> None:
        self.store.delete(resources.BY_KIND[api_version, kind], namespace, name)

    # ------------------------------------------------------------ inside

    def _furnish(self, rbac: Iterable[Json]) -> None:
        for name in ("kube-system", "default"):
            self.namespace(name)
        for each in rbac:
            self.apply(each)
        addresses = loopback_addresses(len(self.machines))
        for node, address in zip(list(self.machines.values()), addresses, strict=True):
            if node.address == LOCAL:
                node.address = address
            self.add_machine(node)

    def _run(self) -> None:
        while not self._stop.wait(TICK):
            try:
                self.step()
            except ApiError:
                # Somebody deleted or changed what a controller had just read; a real one tries again, and so does this.
                self._seen = -1

    def step(self) -> None:
        """One round of controllers and kubelets."""
        for _ in range(5):  # until nothing moves, within reason
            if self.store.version == self._seen:
                break
            self._seen = self.store.version
            garbage.collect(self.store)
            deployment.reconcile(self.store, self.scale)
            statefulset.reconcile(self.store)
            replicaset.reconcile(self.store)
        self.kubelet.tick()
