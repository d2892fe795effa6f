"""The kubelets of all simulated nodes in one object, and the scheduler with them. Whoever owns it calls `tick`.

Plays the pods of any API server that a ClusterApi reaches: the simulated one, or a real kube-apiserver in the tests.
"""

import threading
import time
from collections.abc import Callable
from typing import Protocol

from bot.ports import Json
from bot.sandbox.answers import ApiError, bad_request, not_found
from bot.sandbox.kubelet import scheduler
from bot.sandbox.kubelet.container import Container, Run
from bot.sandbox.kubelet.history import History
from bot.sandbox.kubelet.machine import Machine
from bot.sandbox.kubelet.pod import Choose, PodWorker

Execute = Callable[[Machine, PodWorker, str, list[str]], tuple[bytes, bytes, int]]


class ClusterApi(Protocol):
    """What a kubelet and a scheduler need of an API server. Writes on a pod that has gone meanwhile are dropped."""

    def pods(self) -> list[Json]: ...

    def nodes(self) -> list[Json]: ...

    def set_status(self, pod: Json, status: Json) -> None: ...

    def bind(self, pod: Json, node: str) -> None: ...

    def remove(self, pod: Json) -> None: ...

    def born(self, pod: Json, at: float) -> None:
        """A pod is born with a past that began at `at`. A real server cannot note that, and need not."""

    def event(self, involved: Json, kind: str, reason: str, message: str, component: str, host: str, field: str, at: float | None) -> None: ...


class Kubelet:
    """`choose` gives each container its behaviour; `execute` answers exec; `histories` holds pasts for pods that are to be born with one."""

    def __init__(self, api: ClusterApi, machines: dict[str, Machine], choose: Choose, execute: Execute, scale: float) -> None:
        self.api, self.machines, self.choose, self._execute, self.scale = api, machines, choose, execute, scale
        self.histories: dict[tuple[str, str], History] = {}
        self._workers: dict[str, PodWorker] = {}
        self._lock = threading.RLock()
        self._addresses = 0

    def tick(self) -> None:
        """One look at everything; cheap when nothing is due."""
        with self._lock:
            now, pods = time.time(), self.api.pods()
            self._forget({pod["metadata"]["uid"] for pod in pods})  # first: what has gone lets go of its cards before anybody is given some
            self._schedule(pods)
            for pod in pods:
                if pod["spec"].get("nodeName") in self.machines and pod["status"].get("phase") not in ("Succeeded", "Failed"):
                    self._play(pod, now)

    # ------------------------------------------------------------ inside a tick

    def _schedule(self, pods: list[Json]) -> None:
        nodes: list[Json] | None = None
        for pod in pods:
            if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
                continue
            nodes = self.api.nodes() if nodes is None else nodes
            node, why = scheduler.place(pod, nodes, pods)
            if node is not None:
                meta = pod["metadata"]
                self.api.bind(pod, node)
                self.api.event(pod, "Normal", "Scheduled", f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}", scheduler.NAME, "", "", None)
                pod["spec"]["nodeName"] = node  # for the pods after it in this round; `pods` are our copies
            elif not any(row["type"] == "PodScheduled" and row.get("message") == why for row in pod["status"].get("conditions") or []):
                self.api.set_status(pod, scheduler.unschedulable(pod, why))
                self.api.event(pod, "Warning", "FailedScheduling", why, scheduler.NAME, "", "", None)

    def _play(self, pod: Json, now: float) -> None:
        uid, worker = pod["metadata"]["uid"], self._workers.get(pod["metadata"]["uid"])
        if worker is None:
            worker = self._workers[uid] = self._worker(pod, now)
        worker.pod = pod
        if "deletionTimestamp" in pod["metadata"]:
            worker.leave(now)
        worker.advance(now)
        self._report(pod, worker)
        if worker.gone:
            self.api.remove(pod)
            return
        status = worker.status(now, pod["status"])
        if status not in (pod["status"], worker.reported):
            self.api.set_status(pod, status)
            worker.reported = status

    def _worker(self, pod: Json, now: float) -> PodWorker:
        self._addresses += 1
        machine = self.machines[pod["spec"]["nodeName"]]
        worker = PodWorker(pod, machine, self.choose, self.scale, f"10.42.{self._addresses // 250}.{self._addresses % 250 + 4}", now)
        past = self.histories.pop(_family(pod), None)
        if past is not None:
            past.relive(worker, now)
            self.api.born(pod, worker.since - 3)
        return worker

    def _report(self, pod: Json, worker: PodWorker) -> None:
        for name, told in worker.told:
            field = f"spec.containers{{{name}}}" if name else ""
            self.api.event(pod, told.kind, told.reason, told.message, "kubelet", worker.machine.name, field, told.at)
        worker.told.clear()

    def _forget(self, there: set[str]) -> None:
        for uid in [uid for uid in self._workers if uid not in there]:
            self._workers.pop(uid).machine.release(uid)

    # ------------------------------------------------------------ what a kubelet serves

    def log(self, namespace: str, pod: str, container: str, *, previous: bool) -> list[tuple[float, str]]:
        """(time, line) of a container's newest run, or of the one before it. Raises a 400 with the kubelet's words when there is none."""
        with self._lock:
            found, worker = self._container(namespace, pod, container)
            run = self._run(found, previous)
            if run is None and previous:
                raise bad_request(f'previous terminated container "{container}" in pod "{pod}" not found')
            if run is None:
                state = "PodInitializing" if worker is not None and found in worker.main and worker.init else "ContainerCreating"
                raise bad_request(f'container "{container}" in pod "{pod}" is waiting to start: {state}')
            return run.log(time.time())

    @staticmethod
    def _run(container: Container | None, previous: bool) -> Run | None:
        """A container that has ended and waits for its restart is the current and the previous one at once, as on real nodes."""
        if container is None or container.run is None:
            return None
        if not previous or (not container.run.running and container.run.end is not None):
            return container.run
        return container.previous

    def execute(self, namespace: str, pod: str, container: str, argv: list[str]) -> tuple[bytes, bytes, int]:
        """(stdout, stderr, exit status) of a command in a running container. Raises an ApiError when it does not run."""
        with self._lock:
            found, worker = self._container(namespace, pod, container)
            if worker is None or found is None or found.run is None or not found.run.running:
                raise ApiError(500, "InternalError", f'Internal error occurred: unable to upgrade connection: container not found ("{container}")')
            return self._execute(worker.machine, worker, container, argv)

    def _container(self, namespace: str, pod: str, container: str) -> tuple[Container | None, PodWorker | None]:
        worker = self.worker(namespace, pod)
        if worker is None:
            if not any((each["metadata"]["namespace"], each["metadata"]["name"]) == (namespace, pod) for each in self.api.pods()):
                raise not_found("pods", "", pod)
            return None, None
        return worker.find(container), worker

    def worker(self, namespace: str, pod: str) -> PodWorker | None:
        """The one that plays a pod, once it has a node."""
        with self._lock:
            named = (worker for worker in self._workers.values() if (worker.pod["metadata"]["namespace"], worker.pod["metadata"]["name"]) == (namespace, pod))
            return next(named, None)


def _family(pod: Json) -> tuple[str, str]:
    """(namespace, name of the workload that a person knows)."""
    meta = pod["metadata"]
    owner = next(iter(meta.get("ownerReferences") or []), None)
    name = meta["name"] if owner is None else owner["name"]
    if owner is not None and owner["kind"] == "ReplicaSet":
        name = name.rpartition("-")[0]
    return meta["namespace"], str(name)
