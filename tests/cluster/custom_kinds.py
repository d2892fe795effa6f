"""CustomResourceDefinitions of our own writing for the kinds above Deployments: those that the bot changes stand in `crds`, with only the fields that it
uses (so a write outside of them is refused); of the others any field goes."""

from pathlib import Path

import yaml

from bot.ports import Json
from bot.sandbox.cluster.resources import RESOURCES, Resource

FOLDER = Path(__file__).parent / "crds"
BUILT_IN = {"", "apps", "batch", "autoscaling", "policy", "coordination.k8s.io", "rbac.authorization.k8s.io"}


def definitions() -> list[Json]:
    """One for each custom kind."""
    written = {path.stem: yaml.safe_load(path.read_text()) for path in FOLDER.glob("*.yaml")}
    return [written.get(resource.plural) or _definition(resource) for resource in RESOURCES if resource.group not in BUILT_IN]


def _definition(resource: Resource) -> Json:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}
    version = {"name": resource.version, "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    names = {"plural": resource.plural, "singular": resource.kind.lower(), "kind": resource.kind, "listKind": f"{resource.kind}List"}
    # Some of these groups are protected: the API server wants to know where the definition was approved.
    meta = {"name": f"{resource.plural}.{resource.group}", "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}}
    spec = {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": meta, "spec": spec}
