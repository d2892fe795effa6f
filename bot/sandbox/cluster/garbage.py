"""The garbage collector: what lost its owner goes; what stood in a namespace that went, goes with it."""

from bot.ports import Json
from bot.sandbox.cluster.resources import BY_KIND, EVENTS, NAMESPACES, PODS, RESOURCES
from bot.sandbox.cluster.store import Store


def collect(store: Store) -> None:
    for resource in RESOURCES:
        for item in store.all(resource):
            meta = item["metadata"]
            # Asked for now and not listed in front: others write meanwhile, and a namespace is always older than what stands in it.
            homeless = resource.namespaced and store.find(NAMESPACES, "", meta["namespace"]) is None
            if homeless or (resource is not EVENTS and _orphaned(store, item)):
                grace = None if resource is PODS and not homeless else 0
                if "deletionTimestamp" not in meta or grace == 0:
                    store.delete(resource, meta.get("namespace", ""), meta["name"], grace=grace)


def _orphaned(store: Store, item: Json) -> bool:
    owners = item["metadata"].get("ownerReferences") or []
    return bool(owners) and not any(_lives(store, item, owner) for owner in owners)


def _lives(store: Store, item: Json, owner: Json) -> bool:
    resource = BY_KIND.get((owner["apiVersion"], owner["kind"]))
    if resource is None:
        return True  # a kind that is not kept here: nobody can say that it went
    found = store.find(resource, item["metadata"].get("namespace", "") if resource.namespaced else "", owner["name"])
    return found is not None and found["metadata"]["uid"] == owner["uid"]
