"""Every verb on every kind, asked of the API server itself: each role may do what its files in deploy/rbac say, and not one thing more."""

import itertools
from pathlib import Path

import pytest
import yaml
from kubernetes import client

from bot.sandbox.cluster.resources import RESOURCES
from tests.cluster import access
from tests.cluster.control_plane import PROJECT
from tests.contracts.lane import Lane

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
SUBRESOURCES = (("", "pods/log"), ("", "pods/exec"), ("", "pods/eviction"), ("apps", "deployments/scale"), ("", "nodes/proxy"), ("", "serviceaccounts/token"))
Grant = tuple[str, str, str]


def granted(role: str) -> set[Grant]:
    rules = [rule for one in access.manifests() if one["kind"] == "ClusterRole" and f"oombot-{role}" in one["metadata"]["name"] for rule in one["rules"]]
    return {
        (group, resource, verb)
        for rule in rules
        if not rule.get("resourceNames")
        for group, resource, verb in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }


@pytest.mark.parametrize("role", access.ROLES)
def test_a_role_may_do_exactly_what_its_files_say(lane: Lane, role: str) -> None:
    lane.cluster.apply(access.bindings(lane.namespace))
    api, expected = client.AuthorizationV1Api(lane.api(role)), granted(role)
    kinds = [(resource.group, resource.plural) for resource in RESOURCES] + list(SUBRESOURCES)
    wrong = []
    for (group, plural), verb in itertools.product(kinds, VERBS):
        resource, _, part = plural.partition("/")
        attributes = {"namespace": lane.namespace, "verb": verb, "group": group, "resource": resource, "subresource": part}
        allowed = bool(api.create_self_subject_access_review({"spec": {"resourceAttributes": attributes}}).status.allowed)
        if allowed != ((group, plural, verb) in expected):
            wrong.append((group, plural, verb, allowed))
    assert wrong == []


def test_the_remediators_own_file_gives_no_more_than_the_actions_on_deployments_and_stateful_sets_need() -> None:
    text = (PROJECT / "deploy" / "rbac" / "remediator.yaml").read_text()
    rules = [rule for one in yaml.safe_load_all(text) if one["kind"] == "ClusterRole" for rule in one["rules"]]
    assert rules == [
        {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "delete"]},
        {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"]},
    ]


@pytest.mark.parametrize("file", sorted((PROJECT / "deploy" / "rbac").glob("*.yaml")), ids=lambda file: file.name)
def test_no_file_gives_secrets_wildcards_or_the_power_to_give_power(file: Path) -> None:
    rules = [rule for one in yaml.safe_load_all(file.read_text()) if one and one["kind"] == "ClusterRole" for rule in one["rules"]]
    for rule in rules:
        assert not {"*", "secrets", "roles", "clusterroles", "rolebindings", "clusterrolebindings", "serviceaccounts"} & set(rule["resources"])
        assert not {"*", "bind", "escalate", "impersonate"} & {*rule["verbs"], *rule["apiGroups"]}
