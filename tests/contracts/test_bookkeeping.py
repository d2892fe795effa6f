"""uid, resourceVersion, generation, managedFields: what a plan may be bound to and what moves by itself."""

import pytest

from bot.ports import Json
from tests.contracts.lane import CRASHES, SERVES, Lane, refused, restarts_of, wait_for

ARGS = "/spec/template/spec/containers/0/args"


@pytest.fixture
def chat(lane: Lane) -> Lane:
    lane.deploy(replicas=0)
    wait_for("a first status", lambda: lane.get("Deployment")["status"].get("conditions"))
    lane.settled(0.5)
    return lane


def _meta(lane: Lane) -> Json:
    found: Json = lane.get("Deployment")["metadata"]
    return found


def test_a_change_of_the_template_raises_the_generation_and_the_status_follows(chat: Lane) -> None:
    before = _meta(chat)
    chat.rescript("Deployment", {**SERVES, "log": ["x"]})
    after = _meta(chat)
    assert after["generation"] == before["generation"] + 1
    assert after["uid"] == before["uid"]
    wait_for("the observed generation", lambda: chat.get("Deployment")["status"].get("observedGeneration") == after["generation"])


def test_crashes_move_the_resource_version_and_not_the_generation(lane: Lane) -> None:
    flips: Json = {"ready_after": 1, "exit_code": 1, "exit_after": 8}
    lane.deploy(flips)
    lane.ready_pod()
    before = _meta(lane)
    wait_for("crashes", lambda: any(restarts_of(pod) >= 2 for pod in lane.pods()), 40)
    after = wait_for("another version", lambda: _meta(lane) if _meta(lane)["resourceVersion"] != before["resourceVersion"] else None)
    assert int(after["resourceVersion"]) > int(before["resourceVersion"])
    assert after["generation"] == before["generation"]


def test_an_annotation_raises_the_generation_of_a_deployment_and_makes_no_pod(chat: Lane) -> None:
    before = _meta(chat)
    chat.apps().patch_namespaced_deployment("chat", chat.namespace, {"metadata": {"annotations": {"oombot.io/operation": "op-1"}}})
    assert _meta(chat)["generation"] == before["generation"] + 1
    assert len(chat.cluster.objects("apps/v1", "ReplicaSet", chat.namespace)) == 1


def test_a_label_leaves_the_generation_alone(chat: Lane) -> None:
    before = _meta(chat)
    chat.apps().patch_namespaced_deployment("chat", chat.namespace, {"metadata": {"labels": {"seen": "yes"}}})
    assert _meta(chat)["generation"] == before["generation"]
    assert _meta(chat)["resourceVersion"] != before["resourceVersion"]


def test_a_patch_that_changes_nothing_moves_nothing(chat: Lane) -> None:
    before = _meta(chat)
    chat.apps().patch_namespaced_deployment("chat", chat.namespace, {"spec": {"replicas": 0}})
    assert _meta(chat)["resourceVersion"] == before["resourceVersion"]


def test_the_main_path_cannot_write_the_status(chat: Lane) -> None:
    chat.apps().patch_namespaced_deployment("chat", chat.namespace, {"status": {"readyReplicas": 9}})
    assert "readyReplicas" not in chat.get("Deployment")["status"]


def test_the_status_path_cannot_write_the_spec(chat: Lane) -> None:
    chat.apps().patch_namespaced_deployment_status("chat", chat.namespace, {"spec": {"replicas": 5}})
    assert chat.get("Deployment")["spec"]["replicas"] == 0


def test_an_old_resource_version_is_a_conflict(chat: Lane) -> None:
    stale = chat.apps().read_namespaced_deployment("chat", chat.namespace)
    chat.apps().patch_namespaced_deployment("chat", chat.namespace, {"metadata": {"labels": {"seen": "yes"}}})
    code, status = refused(lambda: chat.apps().replace_namespaced_deployment("chat", chat.namespace, stale))
    assert (code, status["reason"]) == (409, "Conflict")
    assert "the object has been modified" in status["message"]
    patch = {"metadata": {"resourceVersion": stale.metadata.resource_version, "labels": {"seen": "no"}}}
    assert refused(lambda: chat.apps().patch_namespaced_deployment("chat", chat.namespace, patch))[0] == 409


def test_managed_fields_say_who_set_what(chat: Lane) -> None:
    operation = [{"op": "add", "path": f"{ARGS}/-", "value": "--enforce-eager"}]
    chat.apps().patch_namespaced_deployment("chat", chat.namespace, operation, field_manager="oombot")
    chat.apps().patch_namespaced_deployment("chat", chat.namespace, {"spec": {"replicas": 0, "paused": True}}, field_manager="somebody")
    owners = {entry["manager"]: entry for entry in _meta(chat)["managedFields"] if not entry.get("subresource")}
    container = owners["oombot"]["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"server"}']
    assert "f:args" in container
    assert owners["somebody"]["fieldsV1"] == {"f:spec": {"f:paused": {}}}
    first = owners["kubectl-client-side-apply"]["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"server"}']
    assert "f:image" in first
    assert "f:args" not in first, "an atomic list has one owner"
    assert owners["oombot"]["operation"] == "Update"
    assert owners["oombot"]["time"].endswith("Z")


def test_the_status_has_owners_of_its_own(lane: Lane) -> None:
    lane.deploy(CRASHES)
    wait_for("a status", lambda: lane.get("Deployment")["status"].get("conditions"))
    managers = {(entry["manager"], entry.get("subresource", "")) for entry in _meta(lane)["managedFields"]}
    assert ("kube-controller-manager", "status") in managers


def test_the_server_fills_in_what_was_left_out(chat: Lane) -> None:
    spec = chat.get("Deployment")["spec"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)
    template = spec["template"]["spec"]
    assert (template["restartPolicy"], template["dnsPolicy"], template["schedulerName"]) == ("Always", "ClusterFirst", "default-scheduler")
    (container,) = template["containers"]
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTP"
    assert container["readinessProbe"]["failureThreshold"] == 3


def test_the_template_as_read_hashes_the_same_twice(chat: Lane) -> None:
    """A plan is bound to the template: reading it, and writing back what was read, must not change it."""
    before = chat.get("Deployment")
    chat.apps().patch_namespaced_deployment("chat", chat.namespace, [{"op": "replace", "path": "/spec/template", "value": before["spec"]["template"]}])
    assert chat.get("Deployment")["spec"]["template"] == before["spec"]["template"]
    assert chat.get("Deployment")["metadata"]["generation"] == before["metadata"]["generation"]
