"""The ReplicaSet controller: keeps the wanted number of pods, and says how many are ready."""

from bot.ports import Json
from bot.sandbox.cluster.owned import event, leaving, pod_of, pods_of, ready, set_status, suffix
from bot.sandbox.cluster.resources import PODS, REPLICASETS
from bot.sandbox.cluster.store import Store

NAME = "replicaset-controller"


def reconcile(store: Store) -> None:
    for item in store.all(REPLICASETS):
        _one(store, item)


def _one(store: Store, item: Json) -> None:
    meta, wanted = item["metadata"], item["spec"]["replicas"]
    living = [pod for pod in pods_of(store, item) if not leaving(pod)]
    for _ in range(wanted - len(living)):
        pod = store.create(PODS, pod_of(item["spec"]["template"], item, f"{meta['name']}-{suffix()}"), manager="kube-controller-manager")
        event(store, item, "Normal", "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}", NAME)
    for pod in sorted(living, key=_first_to_go)[: max(0, len(living) - wanted)]:
        store.delete(PODS, meta["namespace"], pod["metadata"]["name"], uid=pod["metadata"]["uid"])
        event(store, item, "Normal", "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}", NAME)
    living = [pod for pod in pods_of(store, item) if not leaving(pod)]
    up = sum(ready(pod) for pod in living)
    status: Json = {"replicas": len(living), "fullyLabeledReplicas": len(living), "observedGeneration": meta["generation"]}
    set_status(store, REPLICASETS, item, status | ({"readyReplicas": up, "availableReplicas": up} if up else {}))


def _first_to_go(pod: Json) -> tuple[bool, int, bool, int]:
    """Unassigned, then pending, then not ready, then those with more restarts."""
    phase = {"Pending": 0, "Unknown": 1, "Running": 2}.get(pod["status"].get("phase", ""), 0)
    restarts = max((row.get("restartCount", 0) for row in pod["status"].get("containerStatuses") or []), default=0)
    return bool(pod["spec"].get("nodeName")), phase, ready(pod), -restarts
