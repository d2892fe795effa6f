"""CustomResourceDefinitions of our own writing for the kinds above Deployments, with only what tests need: any field goes."""

from bot.ports import Json
from bot.sandbox.cluster.resources import RESOURCES, Resource

BUILT_IN = {"", "apps", "batch", "autoscaling", "policy", "coordination.k8s.io", "rbac.authorization.k8s.io"}


def definitions() -> list[Json]:
    return [_definition(resource) for resource in RESOURCES if resource.group not in BUILT_IN]


def _definition(resource: Resource) -> Json:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}
    version = {"name": resource.version, "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    names = {"plural": resource.plural, "singular": resource.kind.lower(), "kind": resource.kind, "listKind": f"{resource.kind}List"}
    # Some of these groups are protected: the API server wants to know where the definition was approved.
    meta = {"name": f"{resource.plural}.{resource.group}", "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}}
    spec = {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": meta, "spec": spec}
