"""What the controllers share: owner references, pods from templates, events, hashes. Not a controller itself."""

import copy
import hashlib
import json
import random
from datetime import UTC, datetime
from typing import Any

from bot.ports import Json
from bot.sandbox.answers import ApiError
from bot.sandbox.cluster.resources import EVENTS, PODS, Resource
from bot.sandbox.cluster.store import Store, stamp

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels and no look-alikes, as Kubernetes does it


def suffix(length: int = 5) -> str:
    return "".join(random.choices(_ALPHABET, k=length))  # noqa: S311  a name, not a secret


def fingerprint(value: Any) -> str:
    """A short hash of a template, in the letters that Kubernetes uses for pod-template-hash."""
    number = int(hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12], 16)
    letters = ""
    while len(letters) < 9:
        number, rest = divmod(number, len(_ALPHABET))
        letters += _ALPHABET[rest]
    return letters


def reference(owner: Json) -> Json:
    meta = owner["metadata"]
    row = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**row, "controller": True, "blockOwnerDeletion": True}


def pod_of(template: Json, owner: Json, name: str) -> Json:
    """A pod as a controller makes it from a template."""
    meta = {key: copy.deepcopy(value) for key, value in (template.get("metadata") or {}).items() if key in ("labels", "annotations")}
    meta |= {"name": name, "namespace": owner["metadata"]["namespace"], "ownerReferences": [reference(owner)]}
    return {"metadata": meta, "spec": copy.deepcopy(template["spec"])}


def event(
    store: Store, involved: Json, kind: str, reason: str, message: str, component: str, *, host: str = "", field: str = "", at: float | None = None
) -> None:
    """Records an event, or counts up the one that says the same of the same object."""
    meta = involved["metadata"]
    namespace = meta.get("namespace") or "default"
    now = stamp(store.now() if at is None else datetime.fromtimestamp(at, UTC))
    ref = {"apiVersion": involved["apiVersion"], "kind": involved["kind"], "name": meta["name"], "namespace": meta.get("namespace", ""), "uid": meta["uid"],
           "resourceVersion": meta["resourceVersion"]}  # fmt: skip
    if field:
        ref["fieldPath"] = field
    name = f"{meta['name']}.{fingerprint([meta['uid'], kind, reason, message, component, field])}"
    if store.find(EVENTS, namespace, name):
        store.edit(EVENTS, namespace, name, lambda old: old.update(count=old["count"] + 1, lastTimestamp=now), manager=component)
        return
    source = {"component": component} | ({"host": host} if host else {})
    body = {"metadata": {"name": name, "namespace": namespace}, "involvedObject": ref, "type": kind, "reason": reason, "message": message, "source": source,
            "count": 1, "firstTimestamp": now, "lastTimestamp": now, "eventTime": None, "reportingComponent": component, "reportingInstance": host}  # fmt: skip
    try:
        store.create(EVENTS, body, manager=component)
    except ApiError as no:  # its namespace went away meanwhile
        if no.code != 404:
            raise


def set_status(store: Store, resource: Resource, item: Json, status: Json, manager: str = "kube-controller-manager") -> None:
    if item.get("status") != status:
        store.edit(
            resource, item["metadata"]["namespace"], item["metadata"]["name"], lambda old: old.update(status=status), manager=manager, subresource="status"
        )


def pods_of(store: Store, owner: Json) -> list[Json]:
    """The owner's pods that have not ended, those being deleted included."""
    return [pod for pod in store.owned(PODS, owner) if pod["status"].get("phase") not in ("Succeeded", "Failed")]


def leaving(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def ready(pod: Json) -> bool:
    return any(row["type"] == "Ready" and row["status"] == "True" for row in pod["status"].get("conditions") or [])


def condition(old: Json, kind: str, status: str, reason: str, message: str, now: str) -> Json:
    """A condition whose times move as they do on the real server: transition with the status, update with the words."""
    was = next((row for row in old.get("conditions") or [] if row["type"] == kind), None)
    if was and (was["status"], was["reason"], was["message"]) == (status, reason, message):
        return dict(was)
    moved = was["lastTransitionTime"] if was and was["status"] == status else now
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastUpdateTime": now, "lastTransitionTime": moved}
