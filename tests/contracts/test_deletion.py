"""Deleting: preconditions, grace, dry runs, and what goes with its owner."""

from bot.ports import Json
from tests.contracts.lane import SERVES, Lane, refused, wait_for


def test_another_uid_is_a_conflict_and_nothing_goes(lane: Lane) -> None:
    lane.deploy()
    pod = lane.ready_pod()
    name = pod["metadata"]["name"]
    code, status = refused(
        lambda: lane.core().delete_namespaced_pod(name, lane.namespace, body={"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}})
    )
    assert (code, status["reason"]) == (409, "Conflict")
    assert "the UID in the precondition" in status["message"]
    assert [each["metadata"]["uid"] for each in lane.pods()] == [pod["metadata"]["uid"]]


def test_the_right_uid_deletes_and_the_owner_makes_another(lane: Lane) -> None:
    lane.deploy()
    pod = lane.ready_pod()
    lane.core().delete_namespaced_pod(pod["metadata"]["name"], lane.namespace, body={"preconditions": {"uid": pod["metadata"]["uid"]}})
    new = wait_for("a successor", lambda: next((each for each in lane.pods() if each["metadata"]["uid"] != pod["metadata"]["uid"]), None))
    assert new["metadata"]["name"] != pod["metadata"]["name"]


def test_a_dry_run_deletes_nothing(lane: Lane) -> None:
    lane.deploy()
    pod = lane.ready_pod()
    name, body = pod["metadata"]["name"], {"preconditions": {"uid": pod["metadata"]["uid"]}}
    lane.core().delete_namespaced_pod(name, lane.namespace, dry_run="All")
    lane.core().delete_namespaced_pod(name, lane.namespace, body={**body, "dryRun": ["All"]})
    lane.settled(0.5)
    assert [each["metadata"]["name"] for each in lane.pods()] == [name]
    wrong = {"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}, "dryRun": ["All"]}
    assert refused(lambda: lane.core().delete_namespaced_pod(name, lane.namespace, body=wrong))[0] == 409


def test_a_body_makes_the_server_overlook_a_dry_run_in_the_query(lane: Lane) -> None:
    """A trap: with preconditions in the body, `dryRun` must stand there too, or the pod really goes."""
    lane.deploy()
    pod = lane.ready_pod()
    name, body = pod["metadata"]["name"], {"preconditions": {"uid": pod["metadata"]["uid"]}}
    lane.core().delete_namespaced_pod(name, lane.namespace, body=body, dry_run="All")
    wait_for("its end", lambda: name not in [each["metadata"]["name"] for each in lane.pods()])


def test_what_is_gone_is_not_found(lane: Lane) -> None:
    assert refused(lambda: lane.core().delete_namespaced_pod("nobody", lane.namespace))[0] == 404


def test_a_pod_that_listens_to_nobody_stays_for_its_grace(lane: Lane) -> None:
    deaf: Json = {**SERVES, "leaves_after": None}
    manifest = lane.workload("Deployment", deaf)
    manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 40
    lane.cluster.apply(manifest)
    pod = lane.ready_pod()
    name = pod["metadata"]["name"]
    lane.core().delete_namespaced_pod(name, lane.namespace)
    leaving = next(each for each in lane.cluster.objects("v1", "Pod", lane.namespace) if each["metadata"]["name"] == name)
    assert leaving["metadata"]["deletionGracePeriodSeconds"] == 40
    assert "deletionTimestamp" in leaving["metadata"]
    wait_for("its end", lambda: name not in [each["metadata"]["name"] for each in lane.cluster.objects("v1", "Pod", lane.namespace)])


def test_pods_go_with_their_deployment(lane: Lane) -> None:
    lane.deploy()
    lane.ready_pod()
    lane.apps().delete_namespaced_deployment("chat", lane.namespace)
    wait_for("an empty namespace", lambda: not lane.cluster.objects("v1", "Pod", lane.namespace))
    assert not lane.cluster.objects("apps/v1", "ReplicaSet", lane.namespace)
