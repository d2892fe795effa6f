"""The kubelets' way into the simulated cluster: straight to the store, without HTTP."""

import copy
from datetime import UTC, datetime, timedelta

from bot.ports import Json
from bot.sandbox.answers import ApiError
from bot.sandbox.cluster.owned import event
from bot.sandbox.cluster.resources import BY_KIND, NODES, PODS, Resource
from bot.sandbox.cluster.store import Store


class LocalApi:
    """A ClusterApi on a Store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def pods(self) -> list[Json]:
        # Two levels are copied: the scheduler notes its choice in `spec`.
        return [{**pod, "spec": dict(pod["spec"])} for pod in self.store.all(PODS)]

    def nodes(self) -> list[Json]:
        return self.store.all(NODES)

    def set_status(self, pod: Json, status: Json) -> None:
        self._edit(PODS, pod, {"status": copy.deepcopy(status)}, "kubelet", "status")

    def bind(self, pod: Json, node: str) -> None:
        meta = pod["metadata"]
        try:
            self.store.edit(PODS, meta["namespace"], meta["name"], lambda each: each["spec"].update(nodeName=node), manager="kube-scheduler")
        except ApiError as no:
            _unless_gone(no)

    def remove(self, pod: Json) -> None:
        meta = pod["metadata"]
        try:
            self.store.delete(PODS, meta["namespace"], meta["name"], grace=0, uid=meta["uid"])
        except ApiError as no:
            _unless_gone(no)

    def born(self, pod: Json, at: float) -> None:
        """Pod and owners get at least that age; each owner is a little older than what it made."""
        item, when = pod, datetime.fromtimestamp(at, UTC)
        while True:
            resource = BY_KIND[item["apiVersion"], item["kind"]]
            self.store.backdate(resource, item["metadata"]["namespace"], item["metadata"]["name"], when)
            owner = next(iter(item["metadata"].get("ownerReferences") or []), None)
            above = BY_KIND.get((owner["apiVersion"], owner["kind"])) if owner else None
            found = self.store.find(above, item["metadata"]["namespace"], owner["name"]) if owner and above else None
            if found is None:
                return
            item, when = found, when - timedelta(seconds=1)

    def event(self, involved: Json, kind: str, reason: str, message: str, component: str, host: str, field: str, at: float | None) -> None:
        event(self.store, involved, kind, reason, message, component, host=host, field=field, at=at)

    def _edit(self, resource: Resource, item: Json, change: Json, manager: str, subresource: str) -> None:
        meta = item["metadata"]
        try:
            self.store.edit(resource, meta["namespace"], meta["name"], lambda each: each.update(change), manager=manager, subresource=subresource)
        except ApiError as no:
            _unless_gone(no)


def _unless_gone(no: ApiError) -> None:
    if no.code not in (404, 409):
        raise no
