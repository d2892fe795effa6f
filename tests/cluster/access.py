"""The project's own RBAC objects (deploy/rbac), and which service account plays which role."""

import yaml

from bot.ports import Json
from bot.sandbox.cluster import roles
from tests.cluster.control_plane import PROJECT

ROLES = ("reader", "remediator")


def manifests() -> list[Json]:
    """All objects of deploy/rbac, namespaces first."""
    files = sorted((PROJECT / "deploy" / "rbac").glob("*.yaml"))
    found = [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]
    found = found or roles.manifests()
    return sorted(found, key=lambda document: document["kind"] != "Namespace")


def bindings(namespace: str) -> list[Json]:
    """The RoleBindings of deploy/rbac, for another namespace than the one that they name as an example."""
    found = [document for document in manifests() if document["kind"] == "RoleBinding"]
    return [{**document, "metadata": {**document["metadata"], "namespace": namespace}} for document in found]


def accounts() -> dict[str, str]:
    """Role -> "namespace:name" of the service account that deploy/rbac binds for it."""
    subjects = [subject for document in manifests() for subject in document.get("subjects") or [] if subject["kind"] == "ServiceAccount"]
    return {role: next(f"{row['namespace']}:{row['name']}" for row in subjects if role in row["name"]) for role in ROLES}
