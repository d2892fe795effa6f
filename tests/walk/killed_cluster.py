"""Rounds of check, apply, watch, verify and undo of several workloads side by side on a real API server, through one bot that is killed with -9 all the while, once they are diagnosed.

One control plane serves many rounds: after an undo the workloads are what they were before. What must hold at the end is looked at from outside; each write
is counted in the API server's own audit log. For a test (a few kills) and for the bench (a thousand).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bot.model import Operation, StepKind, TargetQuery
from bot.sandbox.demo.incidents import NAMESPACE, Incident, incidents
from bot.sandbox.kubelet.machine import machine
from tests.cluster.real_cluster import RealCluster
from tests.cluster.written import Write, cut_off, writes
from tests.walk.cluster_bot import ClusterBot, live
from tests.walk.crowd import Crowd, Key

# what cannot start, as a Deployment and as a StatefulSet, and a memory limit that is too small
WORKLOADS = (("chat", "Deployment"), ("chat", "StatefulSet"), ("embed", "Deployment"), ("chat", "Deployment"))
SCALE = 40.0


class Fleet:
    """A control plane, and workloads on it that fail; each has a node with one GPU of its own."""

    def __init__(self, workloads: Sequence[tuple[str, str]] = WORKLOADS) -> None:
        known = {each.name: each for each in incidents()}
        self.workloads = [_numbered(known[name], kind, number) for number, (name, kind) in enumerate(workloads, 1)]
        cards = [known[name].node.gpus[0].name for name, _ in workloads]
        names = [each["metadata"]["name"] for each in self.workloads]
        self.cluster = RealCluster([machine(name, card=card, labels={"pool": name}) for name, card in zip(names, cards, strict=True)], scale=SCALE)

    def start(self) -> None:
        self.cluster.start()
        for each in self.workloads:
            self.cluster.apply(each)

    def stop(self) -> None:
        self.cluster.stop()

    def found(self, workload: dict[str, Any]) -> dict[str, Any]:
        kind, name = workload["kind"], workload["metadata"]["name"]
        return next(each for each in self.cluster.objects("apps/v1", kind, NAMESPACE) if each["metadata"]["name"] == name)

    def failing(self) -> bool:
        """Whether each has a pod that has ended."""
        pods = [pod for pod in self.cluster.objects("v1", "Pod", NAMESPACE) if not pod["metadata"].get("deletionTimestamp")]
        hurt = {pod["metadata"]["labels"]["app"] for pod in pods if any(one.get("restartCount") for one in pod["status"].get("containerStatuses") or [])}
        return hurt >= {each["metadata"]["name"] for each in self.workloads}


def _numbered(incident: Incident, kind: str, number: int) -> dict[str, Any]:
    """The incident's manifest under a name of its own."""
    name = f"{incident.name}-{number}"
    made: dict[str, Any] = json.loads(json.dumps(incident.manifest).replace(f'"{incident.name}"', f'"{name}"'))
    return made | {"kind": kind, "spec": made["spec"] | ({"serviceName": name} if kind == "StatefulSet" else {})}


class ClusterRound(Crowd):
    """One case for each workload of the fleet."""

    def __init__(self, fleet: Fleet, folder: Path, seed: int, kills: int, *, replicas: int = 1) -> None:
        self.fleet = fleet
        for role in ("reader", "remediator"):
            fleet.cluster.kubeconfig(folder / f"{role}.kubeconfig", role)
        super().__init__(ClusterBot(folder), folder, seed, kills, live, replicas=replicas)
        log = fleet.cluster.plane.audit_log
        self._since = log.stat().st_size if log.exists() else 0

    def failing(self) -> bool:
        return self.fleet.failing()

    def queries(self) -> list[TargetQuery]:
        return [_query(each) for each in self.fleet.workloads]

    def standing(self) -> list[Any]:
        return [self.fleet.found(each)["spec"] for each in self.fleet.workloads]

    def counted(self) -> list[int]:
        """A patch of the specification counts the generation up by one."""
        return [self.fleet.found(each)["metadata"]["generation"] for each in self.fleet.workloads]

    def planned(self, operation: Operation) -> list[Key]:
        return [
            ("delete", step.object.name, step.object.uid) if step.kind is StepKind.DELETE_POD else ("patch", step.object.name, f"{operation.id}/{at}" if at else operation.id)
            for at, step in enumerate(operation.remediation.steps)
        ]

    def arrived(self) -> list[Key]:
        return [_key(each) for each in writes(self.fleet.cluster.plane.audit_log, self._since)]

    def cut_off(self) -> list[Key]:
        return [_key(each) for each in cut_off(self.fleet.cluster.plane.audit_log, self._since)]


def _query(workload: dict[str, Any]) -> TargetQuery:
    kind, name = workload["kind"], workload["metadata"]["name"]
    return TargetQuery(f"{kind}/{name}", "workload", name, NAMESPACE, workload_kind=kind)


def _key(write: Write) -> Key:
    return (write.verb, write.name, write.uid if write.verb == "delete" else write.mark)
