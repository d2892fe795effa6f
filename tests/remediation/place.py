"""A place where remediations really happen: a namespace and a node with one GPU on a cluster, a reader and a writer with the tokens of their roles."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bot.clients.kubernetes_config import api_client
from bot.clients.kubernetes_reader import KubernetesReader
from bot.clients.kubernetes_writer import KubernetesWriter
from bot.errors import Temporary
from bot.model import ObjectRef, Remediation, Rollout, Target
from bot.remediation import dry_run, execute_step, observe, pods_there
from bot.remediation.workload import is_ready
from bot.sandbox.behaviours import ANNOTATION
from bot.sandbox.kubelet.machine import machine
from bot.settings import Access
from tests.cluster import access
from tests.contracts.lane import Cluster
from tests.remediation.plans import planned

MODEL = "/models/chat-32b-w6"  # 131,072 tokens do not fit beside it on one L40S; 57,344 do


CRASHES = {"ready_after": None, "exit_code": 1, "exit_after": 5, "log": ["ValueError: no room"]}


def manifest(kind: str, namespace: str, *, script: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """One replica with one GPU, whose server cannot start with the length it is given; with a script it plays that, whatever its arguments."""
    resources = {"limits": {"nvidia.com/gpu": "1", "memory": "32Gi", "cpu": "4"}}
    server = {"name": "server", "image": "vllm/vllm-openai:v0.11.0", "args": [f"--model={MODEL}", "--max-model-len=131072"], "resources": resources}
    meta = {"labels": {"app": "chat"}, **({"annotations": {ANNOTATION: json.dumps(script)}} if script else {})}
    template = {"metadata": meta, "spec": {"containers": [server], "terminationGracePeriodSeconds": 1, "nodeSelector": {"pool": namespace}}}
    body = {"replicas": 1, "selector": {"matchLabels": {"app": "chat"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "chat", "namespace": namespace}, "spec": body}


class Place:
    """`reading_writer` is a writer that was given the reader's token."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster, self.namespace = cluster, namespace
        cluster.add_machine(machine(f"node-{namespace}", labels={"pool": namespace}))
        cluster.namespace(namespace)
        cluster.apply(access.bindings(namespace))
        self.reader = KubernetesReader("sandbox", self._client(folder, "reader"), lambda argv: False)
        self.writer = KubernetesWriter("sandbox", self._client(folder, "remediator"))
        self.reading_writer = KubernetesWriter("sandbox", self._client(folder, "reader"))

    def _client(self, folder: Path, role: str) -> Any:
        return api_client(Access(kubeconfig=self.cluster.kubeconfig(folder / f"{role}.yaml", role)))

    def clean(self) -> None:
        for kind in ("Deployment", "StatefulSet", "DaemonSet"):
            for item in self.cluster.objects("apps/v1", kind, self.namespace):
                if not item["metadata"].get("ownerReferences"):  # those of an owner go with it
                    self.cluster.delete(kind, self.namespace, item["metadata"]["name"], api_version="apps/v1")

    def body(self, kind: str) -> dict[str, Any]:
        return dict(self.reader.get("apps/v1", kind, self.namespace, "chat"))

    def pods(self) -> list[dict[str, Any]]:
        return list(self.reader.list("v1", "Pod", self.namespace))

    def crash_looping(self, kind: str, *, script: dict[str, Any] | None = None, **spec: Any) -> Target:
        """The target of a crash-looping workload."""
        self.cluster.apply(manifest(kind, self.namespace, script=script, **spec))
        return self.target(kind, until(lambda: next((one for one in self.pods() if restarts(one) >= 1), None)))

    def ready(self, kind: str, *, script: dict[str, Any], **spec: Any) -> Target:
        """The target of a workload that serves."""
        self.cluster.apply(manifest(kind, self.namespace, script=script, **spec))
        return self.target(kind, until(lambda: next((one for one in self.pods() if is_ready(one)), None)))

    def target(self, kind: str, pod: dict[str, Any]) -> Target:
        ref = ObjectRef("apps/v1", kind, self.namespace, "chat", self.body(kind)["metadata"]["uid"])
        return Target("sandbox", self.namespace, pod["metadata"]["name"], pod["metadata"]["uid"], "server", f"node-{self.namespace}", ref, 1)

    def carry_out(self, remediation: Remediation, name: str) -> Rollout:
        """Dry run, every step in its time, until the rollout is done."""
        dry_run(remediation, self.writer)
        self.there = pods_there(remediation, self.reader)
        for index, step in enumerate(remediation.steps):
            if step.after_rollout:
                self.wait(remediation)
                with_patience(lambda index=index: execute_step(remediation, index, name, self.writer))
            else:
                execute_step(remediation, index, name, self.writer)
                execute_step(remediation, index, name, self.writer)  # as after a crash
        return self.wait(remediation)

    def planned(self, wanted: Any, target: Target) -> Remediation:
        return planned(self.reader, wanted, target, now=datetime.now(UTC))

    def wait(self, remediation: Remediation) -> Rollout:
        return until(lambda: found if (found := observe(remediation, self.reader, self.there)).done else None)


def restarts(pod: dict[str, Any]) -> int:
    return sum(status["restartCount"] for status in pod["status"].get("containerStatuses") or [])


def until(look: Callable[[], Any], seconds: float = 30) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (found := look()) is not None:
            return found
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")


def with_patience(work: Callable[[], None]) -> None:
    for _ in range(50):
        try:
            return work()
        except Temporary:
            time.sleep(0.1)
    raise AssertionError("it went on being temporary")
