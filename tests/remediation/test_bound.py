"""What a difference says, and whom it names."""

from dataclasses import replace
from typing import Any

import pytest

from bot.remediation.bound import compare, who
from bot.remediation.canonical import digest_of
from tests.remediation.plans import planned
from tests.remediation.shelf import container, deployment_shelf, workload

ARGS = "/spec/template/spec/containers/1/args/1"
SPEC = {"f:spec": {"f:template": {"f:spec": {"f:containers": {}}}}}


def owned(manager: str, time: str, container_name: str, field: str, **more: Any) -> dict[str, Any]:
    fields = {"f:spec": {"f:template": {"f:spec": {"f:containers": {f'k:{{"name":"{container_name}"}}': {".": {}, field: {}}}}}}}
    return {"manager": manager, "time": time, "fieldsV1": fields, **more}


def live(*entries: dict[str, Any]) -> dict[str, Any]:
    return workload(containers=[{"name": "proxy"}, container()], meta={"managedFields": list(entries)})


def test_the_owner_of_the_field_of_this_container_is_named() -> None:
    body = live(
        owned("helm", "2026-11-30T08:00:00Z", "server", "f:image"),
        owned("kubectl-edit", "2026-11-30T10:00:00Z", "server", "f:args"),
        owned("mesh-injector", "2026-11-30T11:00:00Z", "proxy", "f:args"),
    )
    assert who(body, ARGS) == "kubectl-edit"


def test_of_two_owners_the_later_one_is_named() -> None:
    body = live(owned("helm", "2026-11-30T08:00:00Z", "server", "f:args"), owned("argocd-controller", "2026-11-30T10:00:00Z", "server", "f:args"))
    assert who(body, ARGS) == "argocd-controller"


def test_writers_of_the_status_and_the_bot_itself_are_not_named() -> None:
    body = live(
        owned("helm", "2026-11-30T08:00:00Z", "server", "f:args"),
        owned("kube-controller-manager", "2026-11-30T12:00:00Z", "server", "f:args", subresource="status"),
        owned("oombot", "2026-11-30T12:00:00Z", "server", "f:args"),
    )
    assert who(body, ARGS) == "helm"


def test_a_field_that_nobody_owns_any_more_leads_to_the_last_writer() -> None:
    body = live(
        {"manager": "helm", "time": "2026-11-30T08:00:00Z", "fieldsV1": {"f:metadata": {}}},
        {"manager": "kubectl-edit", "time": "2026-11-30T10:00:00Z", "fieldsV1": {"f:metadata": {}}},
    )
    assert who(body, "/spec/template/spec/containers/1/env/0/value") == "kubectl-edit"


def test_without_managed_fields_nobody_is_accused() -> None:
    assert who(workload(), ARGS) == ""


@pytest.mark.parametrize("args", [["--api-key=sk-1234567890abcdef", "--max-model-len=131072"], ["--api-key", "hunter2"]])
def test_a_secret_in_a_changed_value_is_not_shown(args: list[str]) -> None:
    shelf = deployment_shelf(gpus=2)
    bound = planned(shelf).bound
    shelf.edit("Deployment", "chat", lambda body: body["spec"]["template"]["spec"]["containers"][0].update(args=args))
    found = compare(bound, shelf.seen("Deployment", "chat"))
    assert found[0].before == "--model=llama"
    assert "sk-1234" not in repr(found)
    assert "hunter2" not in repr(found)


def test_a_container_that_was_removed_is_a_difference() -> None:
    shelf = deployment_shelf(gpus=2)
    bound = planned(shelf).bound
    shelf.edit("Deployment", "chat", lambda body: body["spec"]["template"]["spec"].update(containers=[]))
    assert {one.now for one in compare(bound, shelf.seen("Deployment", "chat"))} == {None}


def changed_in_the_template(change: Any, env: list[dict[str, str]] | None = None) -> Any:
    """What is found after somebody changed the server's container where no value is bound."""
    shelf = deployment_shelf(gpus=2, body=workload(containers=[container(env=env or [])]))
    bound = planned(shelf).bound
    shelf.edit("Deployment", "chat", lambda body: change(body["spec"]["template"]["spec"]["containers"][0]))
    (found,) = compare(bound, shelf.seen("Deployment", "chat"))
    return found


def test_an_argument_that_was_added_is_shown_as_its_line() -> None:
    found = changed_in_the_template(lambda server: server["args"].append("--max-num-seqs=64"))
    assert (found.path, found.before) == ("/spec/template", None)
    assert found.now.strip() == "- --max-num-seqs=64"


def test_another_probe_is_shown_as_its_lines() -> None:
    found = changed_in_the_template(lambda server: server.update(livenessProbe={"periodSeconds": 5}))
    assert [line.strip() for line in found.now.splitlines()] == ["livenessProbe:", "periodSeconds: 5"]


@pytest.mark.parametrize("added", [["--api-key=hunter2"], ["--api-key", "hunter2"], ["--hf-token", "hunter2"]])
def test_a_secret_that_was_added_is_not_shown(added: list[str]) -> None:
    assert "hunter2" not in repr(changed_in_the_template(lambda server: server["args"].extend(added)))


def test_the_value_of_a_variable_is_never_shown_but_that_one_was_added_is() -> None:
    env = [{"name": "DB", "value": "swordfish"}]
    changed = changed_in_the_template(lambda server: server["env"][0].update(value="hunter2"), env)
    assert (changed.before.startswith("sha256:"), changed.now.startswith("sha256:")) == (True, True)
    added = changed_in_the_template(lambda server: server["env"].append({"name": "CACHE", "value": "hunter2"}), env)
    assert "name: CACHE" in added.now
    assert "hunter2" not in repr(added)


def test_a_plan_of_an_older_version_or_with_a_huge_template_says_by_digest_that_it_differs() -> None:
    shelf = deployment_shelf(gpus=2)
    plan = planned(shelf)
    assert digest_of(replace(plan, bound=replace(plan.bound, shown=""))) == plan.digest
    shelf.edit("Deployment", "chat", lambda body: body["spec"]["template"]["spec"]["containers"][0]["args"].append("--max-num-seqs=64"))
    (found,) = compare(replace(plan.bound, shown=""), shelf.seen("Deployment", "chat"))
    assert found.before.startswith("sha256:")
    huge = deployment_shelf(gpus=2, body=workload(containers=[container(args=["--model=llama", "--max-model-len=131072", "x" * 30_000])]))
    assert planned(huge).bound.shown == ""
