"""Writing: the three kinds of patch, dry runs, and what is refused."""

from typing import Any

import pytest

from bot.ports import Json
from tests.contracts.lane import CRASHES, Lane, refused, wait_for

ARGS = "/spec/template/spec/containers/0/args"
OLD = "--gpu-memory-utilization=0.9"


@pytest.fixture
def chat(lane: Lane) -> Lane:
    """A Deployment of no replicas: nothing moves but what a test moves."""
    lane.deploy(replicas=0)
    wait_for("a first status", lambda: lane.get("Deployment")["status"].get("conditions"))
    lane.settled(0.4)
    return lane


def _patch(lane: Lane, *operations: Json, **how: Any) -> Json:
    api = lane.api()
    found = lane.apps().patch_namespaced_deployment("chat", lane.namespace, list(operations), **how)
    sent: Json = api.sanitize_for_serialization(found)
    return sent


def _args(lane: Lane) -> list[str]:
    found: list[str] = lane.get("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    return found


def test_a_test_that_holds_lets_the_patch_through(chat: Lane) -> None:
    uid = chat.get("Deployment")["metadata"]["uid"]
    test = [{"op": "test", "path": "/metadata/uid", "value": uid}, {"op": "test", "path": f"{ARGS}/0", "value": OLD}]
    _patch(chat, *test, {"op": "replace", "path": f"{ARGS}/0", "value": "--gpu-memory-utilization=0.85"})
    assert _args(chat) == ["--gpu-memory-utilization=0.85", "--max-model-len=4096"]


@pytest.mark.parametrize(
    "test",
    [
        {"op": "test", "path": f"{ARGS}/0", "value": "--something-else"},
        {"op": "test", "path": "/metadata/uid", "value": "another"},
        {"op": "test", "path": f"{ARGS}/7", "value": "--none"},
        {"op": "test", "path": "/spec/nothing/here", "value": 1},
        {"op": "test", "path": "/spec/template/spec/containers/0/env", "value": []},
        {"op": "remove", "path": "/spec/template/spec/containers/0/env"},
        {"op": "replace", "path": f"{ARGS}/5", "value": "--late"},
        {"op": "add", "path": "/spec/nothing/here", "value": 1},
        {"op": "add", "path": f"{ARGS}/9", "value": "--late"},
    ],
)
def test_one_operation_that_does_not_hold_stops_all(chat: Lane, test: Json) -> None:
    before = chat.get("Deployment")
    code, status = refused(lambda: _patch(chat, {"op": "replace", "path": f"{ARGS}/0", "value": "--other"}, test))
    assert (code, status["reason"]) == (422, "Invalid")
    assert chat.get("Deployment") == before


def test_a_path_that_is_not_there_tests_as_null(chat: Lane) -> None:
    missing = {"op": "test", "path": "/spec/template/spec/containers/0/env", "value": None}
    _patch(chat, missing, {"op": "add", "path": f"{ARGS}/-", "value": "--enforce-eager"})
    assert _args(chat)[-1] == "--enforce-eager"


def test_pointers_escape_slashes(chat: Lane) -> None:
    path = "/metadata/annotations/oombot.io~1operation"
    _patch(chat, {"op": "add", "path": "/metadata/annotations", "value": {"oombot.io/operation": "op-1"}})
    _patch(chat, {"op": "test", "path": path, "value": "op-1"}, {"op": "replace", "path": path, "value": "op-2"})
    assert chat.get("Deployment")["metadata"]["annotations"]["oombot.io/operation"] == "op-2"


def test_move_and_copy_work_too(chat: Lane) -> None:
    _patch(chat, {"op": "copy", "from": f"{ARGS}/0", "path": f"{ARGS}/-"}, {"op": "move", "from": f"{ARGS}/1", "path": f"{ARGS}/0"})
    assert _args(chat) == ["--max-model-len=4096", OLD, OLD]


def test_a_strategic_patch_merges_containers_by_name(chat: Lane) -> None:
    body = {"spec": {"template": {"spec": {"containers": [{"name": "server", "env": [{"name": "A", "value": "1"}]}]}}}}
    chat.apps().patch_namespaced_deployment("chat", chat.namespace, body)
    (container,) = chat.get("Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "A", "value": "1"}]
    assert container["args"][0] == OLD
    gone = {"spec": {"template": {"spec": {"containers": [{"name": "server", "env": [{"name": "A", "$patch": "delete"}]}]}}}}
    chat.apps().patch_namespaced_deployment("chat", chat.namespace, gone)
    assert not chat.get("Deployment")["spec"]["template"]["spec"]["containers"][0].get("env")


def test_a_merge_patch_replaces_lists(chat: Lane) -> None:
    body = {"spec": {"template": {"spec": {"containers": [{"name": "other", "image": "registry.example/other:1"}]}}}}
    chat.apps().patch_namespaced_deployment("chat", chat.namespace, body, _content_type="application/merge-patch+json")
    (container,) = chat.get("Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "other"
    assert "args" not in container


def test_a_dry_run_answers_with_the_change_and_makes_none(chat: Lane) -> None:
    before = chat.get("Deployment")
    would = _patch(chat, {"op": "replace", "path": f"{ARGS}/0", "value": "--tried"}, dry_run="All")
    assert would["spec"]["template"]["spec"]["containers"][0]["args"][0] == "--tried"
    assert would["metadata"]["generation"] == before["metadata"]["generation"] + 1
    assert chat.get("Deployment") == before


def test_a_dry_run_is_refused_as_the_real_write_would_be(chat: Lane) -> None:
    failing = {"op": "test", "path": "/metadata/uid", "value": "another"}
    assert refused(lambda: _patch(chat, failing, dry_run="All"))[0] == 422
    wrong = {"op": "replace", "path": "/spec/replicas", "value": -1}
    code, status = refused(lambda: _patch(chat, wrong, dry_run="All"))
    assert (code, status["reason"]) == (422, "Invalid")


def test_only_all_is_a_dry_run(chat: Lane) -> None:
    nothing = {"op": "test", "path": "/spec/replicas", "value": 0}
    assert refused(lambda: _patch(chat, nothing, dry_run="Some"))[0] in (400, 422)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/spec/strategy", {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        ("/spec/strategy", {"type": "Recreate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
        ("/spec/selector", {"matchLabels": {"app": "other"}}),
        ("/spec/template/metadata/labels", {"app": "other"}),
        ("/spec/template/spec/containers", []),
        ("/spec/template/spec/containers/0/name", ""),
    ],
)
def test_what_makes_no_sense_is_invalid(chat: Lane, path: str, value: Any) -> None:
    code, status = refused(lambda: _patch(chat, {"op": "replace", "path": path, "value": value}))
    assert (code, status["reason"]) == (422, "Invalid")
    assert status["message"].startswith('Deployment.apps "chat" is invalid')


CONTAINER = "/spec/template/spec/containers/0"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{ARGS}/0", 0.85),
        (ARGS, "--gpu-memory-utilization=0.85"),
        (f"{CONTAINER}/env", [{"name": "A", "value": 1}]),
        ("/spec/replicas", "two"),
        (f"{CONTAINER}/resources/limits/memory", "lots"),
    ],
)
@pytest.mark.parametrize("validation", ["Strict", "Warn"])
def test_a_value_of_another_type_is_refused(chat: Lane, path: str, value: Any, validation: str) -> None:
    code, status = refused(lambda: _patch(chat, {"op": "add", "path": path, "value": value}, field_validation=validation))
    assert (code, status["reason"]) == (422, "Invalid")


@pytest.mark.parametrize("path", [f"{CONTAINER}/argz", "/spec/nothing", "/spec/template/spec/container"])
def test_a_field_that_nobody_knows_is_refused_when_asked_to_be_strict(chat: Lane, path: str) -> None:
    before = chat.get("Deployment")
    code, status = refused(lambda: _patch(chat, {"op": "add", "path": path, "value": ["x"]}, field_validation="Strict"))
    assert (code, status["reason"]) == (422, "Invalid")
    assert "unknown field" in status["message"]
    _patch(chat, {"op": "add", "path": path, "value": ["x"]}, field_validation="Ignore")
    assert chat.get("Deployment")["spec"] == before["spec"], "and dropped without a word when not"


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (f"{CONTAINER}/env", [{"value": "1"}], "spec.template.spec.containers[0].env[0].name"),
        (f"{CONTAINER}/volumeMounts", [{"name": "nope", "mountPath": "/dev/shm"}], "spec.template.spec.containers[0].volumeMounts[0].name"),
        (f"{CONTAINER}/resources", {"limits": {"memory": "8Gi"}, "requests": {"memory": "9Gi"}}, "spec.template.spec.containers[0].resources.requests"),
        (f"{CONTAINER}/readinessProbe/failureThreshold", -1, "spec.template.spec.containers[0].readinessProbe.failureThreshold"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_field(chat: Lane, path: str, value: Any, field: str) -> None:
    code, status = refused(lambda: _patch(chat, {"op": "add", "path": path, "value": value}))
    assert (code, status["reason"]) == (422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == [field]


def test_a_stateful_set_keeps_its_service_name(lane: Lane) -> None:
    lane.cluster.apply(lane.workload("StatefulSet", CRASHES, replicas=0))
    operation = [{"op": "replace", "path": "/spec/serviceName", "value": "other"}]
    code, status = refused(lambda: lane.apps().patch_namespaced_stateful_set("chat", lane.namespace, operation))
    assert (code, status["reason"]) == (422, "Invalid")
    assert "updates to statefulset spec for fields other than" in status["message"]


def test_a_pods_arguments_cannot_be_changed(lane: Lane) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", "namespace": lane.namespace, "labels": {}}, "spec": lane.pod_template()["spec"]}
    lane.cluster.apply(pod)
    operation = [{"op": "replace", "path": "/spec/containers/0/args/0", "value": "--other"}]
    code, status = refused(lambda: lane.core().patch_namespaced_pod("alone", lane.namespace, operation))
    assert (code, status["reason"]) == (422, "Invalid")
    assert "pod updates may not change fields other than" in status["message"]
