"""The objects of the simulated cluster, with the bookkeeping of an API server: uid, resourceVersion, generation, managedFields, a history for watches.

Thread-safe. What it gives out is shared and must not be changed by the receiver; what it takes in is copied.
"""

import copy
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from bot.ports import Json
from bot.sandbox.answers import already_exists, invalid, modified, not_found, too_old, wrong_uid
from bot.sandbox.cluster import defaults, managed
from bot.sandbox.cluster.resources import DEPLOYMENTS, NAMESPACES, PODS, Resource

Key = tuple[str, str, str]  # resource key, namespace, name

HISTORY = 20_000


@dataclass(frozen=True, slots=True)
class Change:
    """One write, as a watch tells it. `kind`: ADDED | MODIFIED | DELETED; `before` is None for ADDED."""

    version: int
    kind: str
    resource: Resource
    item: Json
    before: Json | None


def stamp(at: datetime) -> str:
    """A time as Kubernetes writes it: "2026-11-30T09:12:00Z"."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Store:
    """All objects. `now` is a clock, so that history can be written as of an earlier time."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.now = now
        self._lock = threading.RLock()
        self._items: dict[Key, Json] = {}
        self._changes: deque[Change] = deque(maxlen=HISTORY)
        self.version = 100
        self.listeners: list[Callable[[], None]] = []

    # ------------------------------------------------------------ reading

    def get(self, resource: Resource, namespace: str, name: str) -> Json:
        """One object. Raises 404."""
        found = self.find(resource, namespace, name)
        if found is None:
            raise not_found(resource.plural, resource.group, name)
        return found

    def find(self, resource: Resource, namespace: str, name: str) -> Json | None:
        with self._lock:
            return self._items.get((resource.key, namespace, name))

    def all(self, resource: Resource, namespace: str = "") -> list[Json]:
        """All objects of a kind, sorted by namespace and name; an empty namespace means all."""
        return self.snapshot(resource, namespace)[0]

    def snapshot(self, resource: Resource, namespace: str = "") -> tuple[list[Json], int]:
        """The list, and the version that it shows."""
        with self._lock:
            found = [item for (key, where, _), item in self._items.items() if key == resource.key and namespace in ("", where)]
            version = self.version
        found.sort(key=lambda item: (item["metadata"].get("namespace", ""), item["metadata"]["name"]))
        return found, version

    def changes(self, resource: Resource, after: int) -> Iterator[Change]:
        """What happened to a kind after a version. Raises 410 when that is too long ago."""
        with self._lock:
            if self._changes and after < self._changes[0].version - 1 and len(self._changes) == HISTORY:
                raise too_old()
            found = [change for change in self._changes if change.version > after and change.resource.key == resource.key]
        return iter(found)

    def owned(self, resource: Resource, owner: Json) -> list[Json]:
        """Objects whose controller is `owner`."""
        uid, namespace = owner["metadata"]["uid"], owner["metadata"].get("namespace", "")
        return [item for item in self.all(resource, namespace) if any(row["uid"] == uid for row in item["metadata"].get("ownerReferences") or [])]

    # ------------------------------------------------------------ writing

    def create(self, resource: Resource, document: Json, *, manager: str, dry_run: bool = False) -> Json:
        """Raises 404 (no namespace), 409 (name taken), 422 (wrong)."""
        item = copy.deepcopy(document)
        meta = item.setdefault("metadata", {})
        with self._lock:
            self._name(resource, meta)
            if (resource.key, meta.get("namespace", ""), meta["name"]) in self._items:
                raise already_exists(resource.plural, resource.group, meta["name"])
            item["apiVersion"], item["kind"] = resource.api_version, resource.kind
            defaults.fill(resource, item)
            defaults.check(resource, item, None)
            meta["uid"], meta["creationTimestamp"] = str(uuid.uuid4()), stamp(self.now())
            if resource.has_spec:
                meta["generation"] = 1
            meta["managedFields"] = managed.note(None, item, manager, stamp(self.now()), "")
            if not dry_run:
                self._put(resource, item, None)
        self._tell(dry_run)
        return item

    def update(self, resource: Resource, item: Json, *, manager: str, subresource: str = "", dry_run: bool = False) -> Json:
        """Replaces an object (its `metadata.resourceVersion`, when given, must still hold: else 409); `subresource` "status" touches the status alone."""
        meta = item["metadata"]
        with self._lock:
            before = self.get(resource, meta.get("namespace", ""), meta["name"])
            if meta.get("resourceVersion") not in (None, "", before["metadata"]["resourceVersion"]):
                raise modified(resource.plural, resource.group, meta["name"])
            if meta.get("uid") not in (None, "", before["metadata"]["uid"]):
                raise wrong_uid(resource.kind, resource.plural, resource.group, meta["name"], meta["uid"], before["metadata"]["uid"])
            after = self._merged(resource, before, copy.deepcopy(item), subresource)
            if after == before:
                return before
            after["metadata"]["managedFields"] = managed.note(before, after, manager, stamp(self.now()), subresource)
            if not dry_run:
                self._put(resource, after, before)
        self._tell(dry_run)
        return after

    def edit(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        change: Callable[[Json], Json | None],
        *,
        manager: str,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Json:
        """Reads, changes and writes in one go. `change` gets a copy, which it may change in place or answer with another."""
        with self._lock:
            before = copy.deepcopy(self.get(resource, namespace, name))
            after = change(before)
            return self.update(resource, before if after is None else after, manager=manager, subresource=subresource, dry_run=dry_run)

    def delete(
        self, resource: Resource, namespace: str, name: str, *, grace: int | None = None, uid: str = "", version: str = "", dry_run: bool = False
    ) -> Json:
        """Deletes; a running pod is first marked, and goes when its kubelet is done with it (`grace` 0: at once)."""
        with self._lock:
            before = self.get(resource, namespace, name)
            if uid and uid != before["metadata"]["uid"]:
                raise wrong_uid(resource.kind, resource.plural, resource.group, name, uid, before["metadata"]["uid"])
            if version and version != before["metadata"]["resourceVersion"]:
                raise modified(resource.plural, resource.group, name)
            after = self._marked(resource, before, grace)
            if dry_run:
                return after
            if after is before:
                del self._items[resource.key, namespace, name]
                self.version += 1
                gone = {**before, "metadata": {**before["metadata"], "resourceVersion": str(self.version)}}
                self._changes.append(Change(self.version, "DELETED", resource, gone, before))
            elif after["metadata"].get("deletionTimestamp") != before["metadata"].get("deletionTimestamp"):
                self._put(resource, after, before)
        self._tell(dry_run)
        return after

    def backdate(self, resource: Resource, namespace: str, name: str, at: datetime) -> None:
        """Makes an object older than it is, for one that is born with a past. No real server does that."""
        with self._lock:
            before = self.get(resource, namespace, name)
            if before["metadata"]["creationTimestamp"] > stamp(at):
                self._put(resource, {**before, "metadata": {**before["metadata"], "creationTimestamp": stamp(at)}}, before)

    # ------------------------------------------------------------ inside

    def _marked(self, resource: Resource, item: Json, grace: int | None) -> Json:
        """`item` itself when it goes at once, else a copy that bears the mark of deletion."""
        if resource is not PODS or grace == 0 or not item["spec"].get("nodeName") or item["status"].get("phase") in ("Succeeded", "Failed"):
            return item
        seconds = grace if grace is not None else int(item["spec"].get("terminationGracePeriodSeconds", 30))
        meta = dict(item["metadata"])
        if "deletionTimestamp" not in meta:
            meta |= {
                "deletionTimestamp": stamp(self.now() + timedelta(seconds=seconds)),
                "deletionGracePeriodSeconds": seconds,
                "generation": meta.get("generation", 1) + 1,
            }
        return {**item, "metadata": meta}

    def _name(self, resource: Resource, meta: Json) -> None:
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
        if not meta.get("name"):
            raise invalid(resource.kind, resource.group, "", "metadata.name", "Required value: name or generateName is required")
        if not resource.namespaced:
            meta.pop("namespace", None)
        elif (NAMESPACES.key, "", meta.setdefault("namespace", "default")) not in self._items:
            raise not_found("namespaces", "", meta["namespace"])

    def _merged(self, resource: Resource, before: Json, after: Json, subresource: str) -> Json:
        if subresource == "status":
            meta = dict(before["metadata"])
            if resource is DEPLOYMENTS and "annotations" in after["metadata"]:
                # The real server lets a status update change a Deployment's annotations: its controller notes the revision that way.
                meta["annotations"] = after["metadata"]["annotations"]
            return {**before, "status": after.get("status", {}), "metadata": meta}
        after["apiVersion"], after["kind"] = resource.api_version, resource.kind
        for key in ("uid", "creationTimestamp", "generation", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"):
            after["metadata"].pop(key, None)
            if key in before["metadata"]:
                after["metadata"][key] = before["metadata"][key]
        if resource.has_status:
            after["status"] = before.get("status", {})
        defaults.fill(resource, after)
        defaults.check(resource, after, before)
        if resource.has_spec and self._counts(resource, before, after):
            after["metadata"]["generation"] = before["metadata"].get("generation", 1) + 1
        return after

    @staticmethod
    def _counts(resource: Resource, before: Json, after: Json) -> bool:
        """Whether the change is one that the generation counts; a Deployment's annotations count too, as on the real server."""
        if resource is DEPLOYMENTS and before["metadata"].get("annotations") != after["metadata"].get("annotations"):
            return True
        return any(before.get(key) != after.get(key) for key in {*before, *after} if key not in ("metadata", "status"))

    def _put(self, resource: Resource, item: Json, before: Json | None) -> None:
        self.version += 1
        item["metadata"] = {**item["metadata"], "resourceVersion": str(self.version)}
        self._items[resource.key, item["metadata"].get("namespace", ""), item["metadata"]["name"]] = item
        self._changes.append(Change(self.version, "ADDED" if before is None else "MODIFIED", resource, item, before))

    def _tell(self, dry_run: bool) -> None:
        if not dry_run:
            for listener in self.listeners:
                listener()
