"""The Deployment controller: one ReplicaSet for each template, rolled as the strategy says. Follows the arithmetic of the real one, since that decides who waits for whom."""

import copy
import math
from collections.abc import Callable
from datetime import datetime, timedelta

from bot.ports import Json
from bot.sandbox.cluster.owned import condition, event, fingerprint, pods_of, reference, set_status
from bot.sandbox.cluster.resources import DEPLOYMENTS, REPLICASETS
from bot.sandbox.cluster.store import Store, stamp

NAME = "deployment-controller"
MANAGER = "kube-controller-manager"
REVISION = "deployment.kubernetes.io/revision"


def reconcile(store: Store, scale: float) -> None:
    for item in store.all(DEPLOYMENTS):
        _one(store, item, scale)


def _one(store: Store, item: Json, scale: float) -> None:
    old = store.owned(REPLICASETS, item)
    new = next((each for each in old if _template(each) == item["spec"]["template"]), None)
    paused = bool(item["spec"].get("paused"))
    if new is None and not paused:
        if item["spec"]["strategy"]["type"] == "Recreate" and not _all_gone(store, item, old):
            _status(store, item, None, scale)
            return
        new = _new_replica_set(store, item, old)
    old = [each for each in old if new is None or each["metadata"]["uid"] != new["metadata"]["uid"]]
    if new is not None:
        _adopt_revision(store, item, new, old)
    if paused:
        _scale_paused(store, item, new, old)
    elif item["spec"]["strategy"]["type"] == "Recreate":
        if new is not None and _all_gone(store, item, old):
            _scale(store, item, new, item["spec"]["replicas"])
    elif new is not None:
        _roll(store, item, new, old)
    _status(store, item, new, scale)


def _template(replica_set: Json) -> Json:
    """The template without the hash that the controller put in."""
    template: Json = copy.deepcopy(replica_set["spec"]["template"])
    template["metadata"]["labels"].pop("pod-template-hash", None)
    return template


def _new_replica_set(store: Store, item: Json, old: list[Json]) -> Json:
    template = copy.deepcopy(item["spec"]["template"])
    mark = fingerprint(template)
    labels = {**template["metadata"]["labels"], "pod-template-hash": mark}
    template["metadata"]["labels"] = labels
    selector = copy.deepcopy(item["spec"]["selector"])
    selector.setdefault("matchLabels", {})["pod-template-hash"] = mark
    meta = {"name": f"{item['metadata']['name']}-{mark}", "namespace": item["metadata"]["namespace"], "labels": labels, "ownerReferences": [reference(item)],
            "annotations": {REVISION: str(max(map(_revision, old), default=0) + 1)}}  # fmt: skip
    found = store.create(REPLICASETS, {"metadata": meta, "spec": {"replicas": 0, "selector": selector, "template": template}}, manager=MANAGER)
    if item["spec"]["strategy"]["type"] == "RollingUpdate" and not any(each["spec"]["replicas"] for each in old):
        _scale(store, item, found, item["spec"]["replicas"])
    return store.get(REPLICASETS, meta["namespace"], meta["name"])


def _revision(replica_set: Json) -> int:
    return int((replica_set["metadata"].get("annotations") or {}).get(REVISION, 0))


def _adopt_revision(store: Store, item: Json, new: Json, old: list[Json]) -> None:
    """A template that comes back (an undo) gets the newest revision number; the Deployment shows it in an annotation."""
    newest = max(map(_revision, old), default=0)
    revision = max(_revision(new), newest + 1) if _revision(new) <= newest else _revision(new)
    if revision != _revision(new):
        meta = new["metadata"]
        store.edit(
            REPLICASETS, meta["namespace"], meta["name"], lambda each: each["metadata"]["annotations"].update({REVISION: str(revision)}), manager=MANAGER
        )
    meta = item["metadata"]
    if (meta.get("annotations") or {}).get(REVISION) != str(revision):
        # Through the status, as the real one does it: that leaves the generation alone.
        store.edit(
            DEPLOYMENTS,
            meta["namespace"],
            meta["name"],
            lambda each: each["metadata"].setdefault("annotations", {}).update({REVISION: str(revision)}),
            manager=MANAGER,
            subresource="status",
        )


def _scale(store: Store, item: Json, replica_set: Json, wanted: int) -> None:
    meta = replica_set["metadata"]
    now = store.get(REPLICASETS, meta["namespace"], meta["name"])["spec"]["replicas"]
    if now == wanted:
        return
    store.edit(REPLICASETS, meta["namespace"], meta["name"], lambda each: each["spec"].update(replicas=wanted), manager=MANAGER)
    way = "up" if wanted > now else "down"
    event(store, item, "Normal", "ScalingReplicaSet", f"Scaled {way} replica set {meta['name']} from {now} to {wanted}", NAME)


def _scale_paused(store: Store, item: Json, new: Json | None, old: list[Json]) -> None:
    """A paused Deployment still follows its number of replicas, with the newest ReplicaSet that is in use."""
    active = [each for each in [*([new] if new else []), *old] if each["spec"]["replicas"]]
    if len(active) == 1:
        _scale(store, item, active[0], item["spec"]["replicas"])


def _all_gone(store: Store, item: Json, old: list[Json]) -> bool:
    """Recreate: scales the old down, and is true once their pods have really gone."""
    for each in old:
        _scale(store, item, each, 0)
    return not any(pods_of(store, each) for each in old)


def limits(item: Json) -> tuple[int, int]:
    """(maxSurge, maxUnavailable) in pods: a share of surge is rounded up, one of unavailable down; both zero means one unavailable."""
    replicas, rolling = item["spec"]["replicas"], item["spec"]["strategy"].get("rollingUpdate") or {}
    surge, unavailable = _share(rolling.get("maxSurge", "25%"), replicas, math.ceil), _share(rolling.get("maxUnavailable", "25%"), replicas, math.floor)
    return surge, (1 if surge == unavailable == 0 else unavailable)


def _share(value: int | str, of: int, rounded: Callable[[float], int]) -> int:
    if isinstance(value, int):
        return value
    share = of * float(value.rstrip("%")) / 100
    return rounded(share)


def _roll(store: Store, item: Json, new: Json, old: list[Json]) -> None:
    wanted, (surge, unavailable) = item["spec"]["replicas"], limits(item)
    sizes = {each["metadata"]["name"]: each["spec"]["replicas"] for each in [new, *old]}
    total, name = sum(sizes.values()), new["metadata"]["name"]
    if sizes[name] > wanted:
        _scale(store, item, new, wanted)
        return
    if sizes[name] < wanted and total < wanted + surge:
        _scale(store, item, new, sizes[name] + min(wanted + surge - total, wanted - sizes[name]))
        return
    _shrink_old(store, item, new, old, total, wanted - unavailable)


def _shrink_old(store: Store, item: Json, new: Json, old: list[Json], total: int, least: int) -> None:
    new_missing = new["spec"]["replicas"] - new["status"].get("availableReplicas", 0)
    may_go = total - least - new_missing
    for each in sorted(old, key=lambda row: row["metadata"]["creationTimestamp"]):  # first those that do not work anyway
        size, up = each["spec"]["replicas"], each["status"].get("availableReplicas", 0)
        if may_go > 0 and each["status"].get("observedGeneration") == each["metadata"]["generation"] and (gone := min(may_go, size - up)) > 0:
            _scale(store, item, each, size - gone)
            may_go -= gone
    available = sum(each["status"].get("availableReplicas", 0) for each in [new, *old])
    may_go = available - least
    for each in old:
        size = store.get(REPLICASETS, each["metadata"]["namespace"], each["metadata"]["name"])["spec"]["replicas"]
        if (gone := min(may_go, size)) > 0:
            _scale(store, item, each, size - gone)
            may_go -= gone


def _status(store: Store, item: Json, new: Json | None, scale: float) -> None:
    meta = item["metadata"]
    item = store.get(DEPLOYMENTS, meta["namespace"], meta["name"])
    sets = store.owned(REPLICASETS, item)
    count = {key: sum(each["status"].get(key, 0) for each in sets) for key in ("replicas", "readyReplicas", "availableReplicas")}
    fresh = next((each for each in sets if new is not None and each["metadata"]["uid"] == new["metadata"]["uid"]), None)
    updated, wanted = (fresh["status"].get("replicas", 0) if fresh else 0), item["spec"]["replicas"]
    short = max(0, sum(each["spec"]["replicas"] for each in sets) - count["availableReplicas"])
    status: Json = {"observedGeneration": item["metadata"]["generation"], "replicas": count["replicas"], "updatedReplicas": updated,
                    "readyReplicas": count["readyReplicas"], "availableReplicas": count["availableReplicas"], "unavailableReplicas": short}  # fmt: skip
    status = {key: value for key, value in status.items() if value or key == "observedGeneration"}
    now, old = store.now(), item["status"]
    enough = count["availableReplicas"] >= wanted - limits(item)[1]
    words = (
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        if enough
        else ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    )
    status["conditions"] = [condition(old, "Available", *words, stamp(now))]
    progressing = _progressing(item, fresh, status, now, scale)
    if progressing:
        status["conditions"].append(progressing)
    if not any(row["type"] == "Progressing" and row["reason"] == "ProgressDeadlineExceeded" for row in status["conditions"]):
        status["conditions"].sort(key=lambda row: row["type"])
    set_status(store, DEPLOYMENTS, item, status)


def _progressing(item: Json, fresh: Json | None, status: Json, now: datetime, scale: float) -> Json | None:
    old, wanted = item["status"], item["spec"]["replicas"]
    was = next((row for row in old.get("conditions") or [] if row["type"] == "Progressing"), None)
    if item["spec"].get("paused"):
        return condition(old, "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", stamp(now))
    if fresh is None:
        return was
    name = fresh["metadata"]["name"]
    done = status.get("updatedReplicas", 0) == status.get("replicas", 0) == status.get("availableReplicas", 0) == wanted
    if done:
        return condition(old, "Progressing", "True", "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.', stamp(now))
    keys = ("updatedReplicas", "readyReplicas", "availableReplicas", "replicas")
    moved = (
        any(old.get(key, 0) != status.get(key, 0) for key in keys) or was is None or f'"{name}"' not in was["message"] or was["reason"] == "DeploymentPaused"
    )
    if moved:
        kept = condition(old, "Progressing", "True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.', stamp(now))
        return {**kept, "lastUpdateTime": stamp(now)}
    since = datetime.fromisoformat(was["lastUpdateTime"]) if was else now
    if was and was["reason"] != "NewReplicaSetAvailable" and now - since > timedelta(seconds=item["spec"]["progressDeadlineSeconds"] / scale):
        return condition(old, "Progressing", "False", "ProgressDeadlineExceeded", f'ReplicaSet "{name}" has timed out progressing.', stamp(now))
    return was
