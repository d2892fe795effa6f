"""The demo's roles are those of deploy/rbac."""

import pytest
import yaml

from bot.ports import Json
from bot.sandbox.cluster import roles
from tests.cluster.control_plane import PROJECT

Grant = tuple[str, str, str, str]


def _grants(rules: list[Json]) -> set[Grant]:
    return {
        (group, resource, verb, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames") or [""]
    }


@pytest.mark.parametrize(("role", "rules"), [("reader", roles.READER_RULES), ("remediator", roles.REMEDIATOR_RULES)])
def test_a_built_in_role_grants_what_deploy_rbac_grants(role: str, rules: list[Json]) -> None:
    documents = [each for file in (PROJECT / "deploy" / "rbac").glob("*.yaml") for each in yaml.safe_load_all(file.read_text()) if each]
    deployed = [rule for each in documents if each["kind"] == "ClusterRole" and role in each["metadata"]["name"] for rule in each["rules"]]
    assert _grants(rules) == _grants(deployed)


def test_no_role_but_admin_may_escalate_or_read_secrets() -> None:
    for rules in (roles.READER_RULES, roles.REMEDIATOR_RULES):
        assert not any(resource in ("*", "secrets", "roles", "clusterroles") for _, resource, _, _ in _grants(rules))
