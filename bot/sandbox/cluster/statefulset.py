"""The StatefulSet controller: ordinals in order, one at a time. A pod that is not ready stops the walk before the roll begins, as on real clusters."""

import copy

from bot.ports import Json
from bot.sandbox.cluster.owned import event, fingerprint, leaving, pod_of, pods_of, ready, reference, set_status
from bot.sandbox.cluster.resources import PODS, REVISIONS, STATEFULSETS
from bot.sandbox.cluster.store import Store

NAME = "statefulset-controller"
MANAGER = "kube-controller-manager"
HASH = "controller-revision-hash"


def reconcile(store: Store) -> None:
    for item in store.all(STATEFULSETS):
        _one(store, item)


def _one(store: Store, item: Json) -> None:
    update = _revision(store, item)
    current = item["status"].get("currentRevision") or update
    pods = {_ordinal(pod): pod for pod in store.owned(PODS, item)}
    wanted = range(_start(item), _start(item) + item["spec"]["replicas"])
    if "deletionTimestamp" not in item["metadata"]:
        _walk(store, item, pods, list(wanted), current, update)
    _status(store, item, current, update)


def _start(item: Json) -> int:
    return int((item["spec"].get("ordinals") or {}).get("start", 0))


def _ordinal(pod: Json) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def _healthy(pod: Json) -> bool:
    return pod["status"].get("phase") == "Running" and ready(pod) and not leaving(pod)


def _walk(store: Store, item: Json, pods: dict[int, Json], wanted: list[int], current: str, update: str) -> None:
    """One pass of the real controller: creates, waits, scales down, rolls; it stops at the first thing to wait for unless the pods are managed in parallel."""
    in_order = item["spec"]["podManagementPolicy"] == "OrderedReady"
    for ordinal in wanted:
        pod = pods.get(ordinal)
        if pod is not None and pod["status"].get("phase") in ("Failed", "Succeeded"):
            if not leaving(pod):
                _delete(store, item, pod)
            return
        if pod is None:
            pods[ordinal] = _create(store, item, ordinal, current if _keeps_current(item, ordinal) else update)
            if in_order:
                return
        elif in_order and not _healthy(pod):
            return
    condemned = sorted((ordinal for ordinal in pods if ordinal not in wanted), reverse=True)
    for ordinal in condemned:
        if leaving(pods[ordinal]):
            if in_order:
                return
            continue
        _delete(store, item, pods[ordinal])
        if in_order:
            return
    if item["spec"]["updateStrategy"]["type"] == "RollingUpdate":
        _roll(store, item, pods, wanted, update)


def _keeps_current(item: Json, ordinal: int) -> bool:
    """Below the partition a pod that is made again keeps the old template."""
    strategy = item["spec"]["updateStrategy"]
    return strategy["type"] == "RollingUpdate" and ordinal < _start(item) + int((strategy.get("rollingUpdate") or {}).get("partition", 0))


def _roll(store: Store, item: Json, pods: dict[int, Json], wanted: list[int], update: str) -> None:
    for ordinal in reversed(wanted):
        if _keeps_current(item, ordinal):
            return
        pod = pods[ordinal]
        if pod["metadata"]["labels"].get(HASH) != update and not leaving(pod):
            _delete(store, item, pod)
            return
        if not _healthy(pod):
            return


def _create(store: Store, item: Json, ordinal: int, revision: str) -> Json:
    template = store.get(REVISIONS, item["metadata"]["namespace"], revision)["data"]["spec"]["template"]
    name = f"{item['metadata']['name']}-{ordinal}"
    pod = pod_of(template, item, name)
    pod["metadata"].setdefault("labels", {}).update({HASH: revision, "statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(ordinal)})
    pod["spec"] |= {"hostname": name, "subdomain": item["spec"].get("serviceName", "")}
    made = store.create(PODS, pod, manager=MANAGER)
    event(store, item, "Normal", "SuccessfulCreate", f"create Pod {name} in StatefulSet {item['metadata']['name']} successful", NAME)
    return made


def _delete(store: Store, item: Json, pod: Json) -> None:
    meta = pod["metadata"]
    store.delete(PODS, meta["namespace"], meta["name"], uid=meta["uid"])
    event(store, item, "Normal", "SuccessfulDelete", f"delete Pod {meta['name']} in StatefulSet {item['metadata']['name']} successful", NAME)


def _revision(store: Store, item: Json) -> str:
    """The name of the ControllerRevision of the present template, made when it is new."""
    template = item["spec"]["template"]
    name, namespace = f"{item['metadata']['name']}-{fingerprint(template)}", item["metadata"]["namespace"]
    if store.find(REVISIONS, namespace, name) is None:
        number = max((each["revision"] for each in store.owned(REVISIONS, item)), default=0) + 1
        meta = {"name": name, "namespace": namespace, "labels": dict(template["metadata"].get("labels") or {}), "ownerReferences": [reference(item)]}
        store.create(REVISIONS, {"metadata": meta, "revision": number, "data": {"spec": {"template": copy.deepcopy(template)}}}, manager=MANAGER)
    return name


def _status(store: Store, item: Json, current: str, update: str) -> None:
    living = [pod for pod in pods_of(store, item) if not leaving(pod)]
    marks = [pod["metadata"]["labels"].get(HASH) for pod in living]
    up = sum(ready(pod) and pod["status"].get("phase") == "Running" for pod in living)
    if marks.count(update) == up == item["spec"]["replicas"] == len(living):
        current = update
    counted = {"currentReplicas": marks.count(current), "updatedReplicas": marks.count(update), "readyReplicas": up}
    status: Json = {"observedGeneration": item["metadata"]["generation"], "replicas": len(living), "availableReplicas": up, "collisionCount": 0,
                    "currentRevision": current, "updateRevision": update}  # fmt: skip
    set_status(store, STATEFULSETS, item, status | {key: value for key, value in counted.items() if value})
