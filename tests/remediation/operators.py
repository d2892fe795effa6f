"""A fake operator: plays what LeaderWorkerSet, KubeRay and KServe do with their objects, since their controllers do not run in the tests (and what a
DaemonSet's does, where the real one does not run).

It makes pods (or a Deployment, which the real controllers roll) of the template as it stands. It knows no status and no scaling.
"""

import copy
import hashlib
import json
import threading
from typing import Any

import httpx

from bot.sandbox.answers import ApiError
from bot.sandbox.cluster import SimulatedCluster
from bot.sandbox.cluster.resources import BY_KIND
from tests.contracts.lane import Cluster

Json = dict[str, Any]
HASH = "fake-operator/template"


class Operator:
    """Looks after the objects of one kind in a namespace, ten times a second, until it is stopped."""

    def __init__(self, cluster: Cluster, kind: str, api_version: str, namespace: str) -> None:
        self._cluster, self._kind, self._api_version, self._namespace = cluster, kind, api_version, namespace
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"fake operator of {kind}", daemon=True)

    def __enter__(self) -> "Operator":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            try:
                for body in self._cluster.objects(self._api_version, self._kind, self._namespace):
                    self._reconcile(body)
            except (ApiError, AssertionError, httpx.HTTPError):
                continue  # somebody was faster; a real controller looks again, too

    def _reconcile(self, body: Json) -> None:
        if self._kind in ("InferenceService", "LLMInferenceService"):
            self._deploy(body)
        elif self._kind == "LeaderWorkerSet":
            self._pods(body, body["spec"]["leaderWorkerTemplate"]["leaderTemplate"], replaces=True)
        elif self._kind == "DaemonSet":
            self._pods(body, body["spec"]["template"], replaces=(body["spec"].get("updateStrategy") or {}).get("type") != "OnDelete")
            self._status(body)
        elif self._kind == "RayCluster":
            self._pods(body, body["spec"]["workerGroupSpecs"][0]["template"], replaces=False)
        else:
            self._second_cluster(body)

    # ---------------------------------------------------------------- a Deployment, rolled by its own controller

    def _deploy(self, body: Json) -> None:
        name, spec = body["metadata"]["name"], body["spec"]
        if self._kind == "InferenceService":
            predictor = spec["predictor"]
            model = {key: value for key, value in predictor["model"].items() if key in ("args", "env", "resources", "image")}
            pod = {"containers": [{"name": "kserve-container", **model}], "nodeSelector": predictor["nodeSelector"], "terminationGracePeriodSeconds": 1}
            labels = {"serving.kserve.io/inferenceservice": name, "component": "predictor"}
            annotations, strategy, made = predictor.get("annotations", {}), predictor.get("deploymentStrategy"), f"{name}-predictor"
        else:
            pod, annotations, strategy, made = spec["template"], {}, {"type": "Recreate"}, f"{name}-kserve"
            labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "llminferenceservice"}
        meta = {"labels": labels, "annotations": annotations}
        wanted = {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": meta, "spec": pod},
            **({"strategy": strategy} if strategy else {}),
        }
        mark = _hash(wanted)
        old = next((one for one in self._cluster.objects("apps/v1", "Deployment", self._namespace) if one["metadata"]["name"] == made), None)
        if old is None or old["metadata"]["annotations"].get(HASH) != mark:
            owned = {"name": made, "namespace": self._namespace, "annotations": {HASH: mark}, "ownerReferences": [self._owner(body)]}
            self._cluster.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": owned, "spec": copy.deepcopy(wanted)})

    # ---------------------------------------------------------------- pods of its own

    def _pods(self, body: Json, template: Json, *, replaces: bool) -> None:
        found = self._mine(body["metadata"]["uid"])
        stale = [pod for pod in found if replaces and pod["metadata"]["annotations"][HASH] != _hash(template)]
        for pod in stale:
            if not pod["metadata"].get("deletionTimestamp"):
                self._cluster.delete("Pod", self._namespace, pod["metadata"]["name"])
        if not found:
            self._cluster.apply(self._pod(body, template, body["metadata"]["name"] + "-0", self._labels(body)))

    def _status(self, body: Json) -> None:
        assert isinstance(self._cluster, SimulatedCluster)
        status = {"observedGeneration": body["metadata"]["generation"], "desiredNumberScheduled": 1}
        if body.get("status") != status:
            where = BY_KIND["apps/v1", "DaemonSet"]
            self._cluster.store.edit(where, self._namespace, body["metadata"]["name"], lambda old: old.update(status=status), manager="fake", subresource="status")

    def _second_cluster(self, body: Json) -> None:
        """A RayService's pods: those of a changed template beside the old ones, which go when the new ones are ready."""
        template = body["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]
        found, mark = self._mine(body["metadata"]["uid"]), _hash(template)
        new = [pod for pod in found if pod["metadata"]["annotations"][HASH] == mark]
        if not new:
            self._cluster.apply(self._pod(body, template, f"{body['metadata']['name']}-{mark[:5]}", self._labels(body)))
        if any(one["type"] == "Ready" and one["status"] == "True" for pod in new for one in pod.get("status", {}).get("conditions") or []):
            for pod in found:
                if pod not in new and not pod["metadata"].get("deletionTimestamp"):
                    self._cluster.delete("Pod", self._namespace, pod["metadata"]["name"])

    def _mine(self, uid: str) -> list[Json]:
        pods = self._cluster.objects("v1", "Pod", self._namespace)
        return [pod for pod in pods if any(owner["uid"] == uid for owner in pod["metadata"].get("ownerReferences") or [])]

    def _labels(self, body: Json) -> dict[str, str]:
        name = body["metadata"]["name"]
        return {
            "DaemonSet": body["spec"].get("selector", {}).get("matchLabels", {}),
            "LeaderWorkerSet": {"leaderworkerset.sigs.k8s.io/name": name, "leaderworkerset.sigs.k8s.io/worker-index": "0"},
            "RayCluster": {"ray.io/cluster": name, "ray.io/group": "gpu", "ray.io/node-type": "worker"},
            "RayService": {"ray.io/originated-from-cr-name": name, "ray.io/originated-from-crd": "RayService", "ray.io/group": "gpu", "ray.io/node-type": "worker"},
        }[self._kind]  # fmt: skip

    def _pod(self, body: Json, template: Json, name: str, labels: dict[str, str]) -> Json:
        given = (template.get("metadata") or {}).get("annotations") or {}
        meta = {"name": name, "namespace": self._namespace, "labels": labels, "annotations": {**given, HASH: _hash(template)}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "ownerReferences": [self._owner(body)]}, "spec": copy.deepcopy(template["spec"])}

    def _owner(self, body: Json) -> Json:
        meta = body["metadata"]
        return {"apiVersion": self._api_version, "kind": self._kind, "name": meta["name"], "uid": meta["uid"], "controller": True}


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
