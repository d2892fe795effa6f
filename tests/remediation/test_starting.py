"""A pod is given the time that its probes allow for a start, whatever the Deployment's own deadline says."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from bot.model import Remediation, Rollout
from bot.ports import Json
from bot.remediation import execute_step, observe
from bot.remediation.starting import allowed
from tests.remediation.plans import planned, recommendation
from tests.remediation.shelf import ShelfReader, deployment_shelf, pod, replica_set, stateful_shelf, workload
from tests.remediation.shelf import target as target_of

MADE = datetime.fromisoformat("2026-11-30T10:00:00Z")
PROBE = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10, "failureThreshold": 120}  # 20 min
LATE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": 'ReplicaSet "chat-r2" has timed out progressing.'}


def after(minutes: float) -> datetime:
    return MADE + timedelta(minutes=minutes)


def new_pod(state: Json | None = None, *, probes: Mapping[str, Any] | None = None, **status: Any) -> Json:
    """The pod of the new template, made at 10:00, whose image was there a minute later."""
    one = {
        "name": "server",
        "state": state or {"running": {"startedAt": "2026-11-30T10:01:00Z"}},
        "restartCount": 0,
        "ready": False,
        "started": False,
        **status,
    }
    body = pod("chat-r2-y", replica_set(2), containerStatuses=[one])
    body["metadata"]["creationTimestamp"] = "2026-11-30T10:00:00Z"
    body["spec"]["containers"][0].update(probes if probes is not None else {"startupProbe": PROBE})
    return body


def late(*pods: Json) -> tuple[ShelfReader, Remediation]:
    """A rollout past the Deployment's deadline."""
    shelf = deployment_shelf()
    remediation = planned(shelf)
    execute_step(remediation, 0, "op-1", shelf.writer())
    shelf.edit("Deployment", "chat", lambda body: body["metadata"]["annotations"].update({"deployment.kubernetes.io/revision": "2"}))
    shelf.edit("Deployment", "chat", lambda body: body["status"].update(conditions=[LATE]))
    shelf.put(replica_set(2))
    shelf.drop("Pod", "chat-r1-x")
    for one in pods:
        shelf.put(one)
    return shelf, remediation


def look(minutes: float, *pods: Json) -> Rollout:
    shelf, remediation = late(*pods)
    return observe(remediation, shelf, now=after(minutes))


def test_a_deadline_that_passes_while_the_probe_still_allows_it_is_not_stuck() -> None:
    found = look(11, new_pod())
    assert (found.stuck, found.starting) == ("", True)
    assert (look(20.9, new_pod()).stuck, look(21.1, new_pod()).stuck) == ("", "never_ready")


def test_a_liveness_probe_bounds_the_start_where_there_is_no_start_up_probe() -> None:
    slow = {"livenessProbe": {**PROBE, "initialDelaySeconds": 60}}
    assert (look(21.9, new_pod(probes=slow)).stuck, look(22.1, new_pod(probes=slow)).stuck) == ("", "never_ready")


def test_where_no_probe_bounds_a_start_the_controllers_deadline_is_believed() -> None:
    assert look(11, new_pod(probes={})).stuck == "never_ready"
    assert look(11, new_pod(probes={"livenessProbe": {"httpGet": {"path": "/health", "port": 8000}}})).stuck == "never_ready"


def test_an_image_is_waited_for_ten_minutes() -> None:
    pulling = new_pod({"waiting": {"reason": "ContainerCreating"}})
    assert (look(9, pulling).stuck, look(11, pulling).stuck) == ("", "never_ready")


@pytest.mark.parametrize(
    "status", [{"restartCount": 1}, {"lastState": {"terminated": {"exitCode": 1}}}, {"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]
)
def test_a_pod_that_ended_once_is_not_merely_starting(status: Json) -> None:
    assert look(11, {**new_pod(), "status": {**new_pod()["status"], "containerStatuses": [{**new_pod()["status"]["containerStatuses"][0], **status}]}}).stuck


def test_a_pod_that_passed_its_start_up_probe_and_is_not_ready_is_not_starting() -> None:
    assert look(11, new_pod(started=True)).stuck == "never_ready"


def test_a_pod_without_a_node_is_not_starting() -> None:
    lost = new_pod({"waiting": {"reason": "ContainerCreating"}})
    lost["spec"].pop("nodeName")
    assert look(5, lost).stuck == "never_ready"


def test_a_side_car_that_is_ready_does_not_hold_the_deadline_open() -> None:
    body = new_pod(probes={})
    body["spec"]["containers"].append({"name": "proxy", "startupProbe": PROBE})
    proxy = {"name": "proxy", "state": {"running": {"startedAt": "2026-11-30T10:01:00Z"}}, "restartCount": 0, "ready": True, "started": True}
    body["status"]["containerStatuses"].append(proxy)
    assert look(11, body).stuck == "never_ready"


def test_a_stateful_set_whose_probe_allows_an_hour_is_given_it() -> None:
    owner = workload("StatefulSet", replicas=1)
    shelf = stateful_shelf(body=owner, pods=[pod("chat-0", owner)])
    remediation = planned(shelf, at=target_of("StatefulSet", "chat-0"))
    execute_step(remediation, 0, "op-1", shelf.writer())
    shelf.edit("StatefulSet", "chat", lambda one: one["status"].update(updateRevision="new", currentRevision="old"))
    fresh = new_pod(probes={"startupProbe": {**PROBE, "failureThreshold": 360}})
    fresh["metadata"].update(
        name="chat-0", labels={"app": "chat", "controller-revision-hash": "new"}, ownerReferences=pod("chat-0", owner)["metadata"]["ownerReferences"]
    )
    shelf.put(fresh)
    found = observe(remediation, shelf, now=after(45))
    assert (found.stuck, found.starting) == ("", True)
    assert "70 minutes" in observe(remediation, shelf, now=after(71)).detail


def test_the_slowest_container_decides_and_kubernetes_defaults_count() -> None:
    assert allowed(
        {"containers": [{"name": "a", "startupProbe": {}}, {"name": "b", "startupProbe": {"initialDelaySeconds": 5, "failureThreshold": 6}}]}
    ) == timedelta(seconds=65)
    assert allowed({"containers": [{"name": "a"}]}) == timedelta()


def notes(deadline: int | None) -> str:
    body = workload()
    body["spec"].update({} if deadline is None else {"progressDeadlineSeconds": deadline})
    body["spec"]["template"]["spec"]["containers"][0]["startupProbe"] = {**PROBE, "failureThreshold": 30}
    return " ".join(one.en for one in planned(deployment_shelf(body=body), recommendation("probe", "relax", 120)).notes)


def test_the_preview_says_what_the_new_template_allows_beside_the_deployments_own_deadline() -> None:
    assert "A pod may take 20:00 to start by its probe, plus up to 10:00 for its image" in notes(None)
    assert "progressDeadlineSeconds (15:00) may pass before" in notes(900)
    assert "progressDeadlineSeconds" not in notes(1200)
