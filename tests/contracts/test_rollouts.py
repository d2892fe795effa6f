"""What rolls, what waits for whom, and what has to be pushed."""

from bot.ports import Json
from tests.contracts.lane import CRASHES, SERVES, Lane, is_ready, restarts_of, runs, wait_for, waits_for_gpu

FIXED: Json = {**SERVES, "log": ["fixed"]}
ONE_AT_A_TIME = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def test_a_deployment_gets_ready_and_says_so(lane: Lane) -> None:
    lane.deploy()
    lane.ready_pod()
    status = wait_for("an available replica", lambda: lane.get("Deployment")["status"] if lane.get("Deployment")["status"].get("availableReplicas") else None)
    conditions = {row["type"]: (row["status"], row["reason"]) for row in status["conditions"]}
    assert (status["replicas"], status["updatedReplicas"], status["readyReplicas"], status["observedGeneration"]) == (1, 1, 1, 1)
    assert conditions["Available"] == ("True", "MinimumReplicasAvailable")
    assert conditions["Progressing"] == ("True", "NewReplicaSetAvailable")


def test_with_one_gpu_the_successor_waits_and_the_crashing_pod_keeps_the_gpu(lane: Lane) -> None:
    lane.deploy(CRASHES)
    old = lane.crashed_pod()
    lane.rescript("Deployment", FIXED)
    waiting = wait_for("an unschedulable successor", lambda: next((pod for pod in lane.pods() if waits_for_gpu(pod)), None))
    assert "Insufficient nvidia.com/gpu" in waits_for_gpu(waiting)
    lane.settled()
    names = {pod["metadata"]["name"] for pod in lane.pods()}
    assert names == {old["metadata"]["name"], waiting["metadata"]["name"]}
    events = lane.cluster.objects("v1", "Event", lane.namespace)
    assert any(event["reason"] == "FailedScheduling" and "nodes are available" in event["message"] for event in events)


def test_a_strategy_step_lets_the_old_pod_go_first(lane: Lane) -> None:
    lane.deploy(CRASHES)
    old = lane.crashed_pod()
    lane.rescript("Deployment", FIXED, strategy=ONE_AT_A_TIME)
    new = lane.ready_pod(FIXED)
    assert old["metadata"]["name"] not in {pod["metadata"]["name"] for pod in lane.pods()}
    assert new["spec"]["nodeName"] == lane.node


def test_recreate_ends_the_old_pod_before_it_makes_the_new_one(lane: Lane) -> None:
    lane.deploy(strategy={"type": "Recreate"})
    lane.ready_pod()
    lane.rescript("Deployment", FIXED)
    lane.ready_pod(FIXED)
    assert not any(waits_for_gpu(pod) for pod in lane.pods())


def test_a_roll_that_gets_nowhere_runs_into_its_deadline(lane: Lane) -> None:
    lane.deploy(gpus=2, progressDeadlineSeconds=2)
    wait_for("the deadline", lambda: _progress(lane) == ("False", "ProgressDeadlineExceeded"))


def test_a_deployment_that_wants_two_pods_has_one_when_there_is_one_gpu(lane: Lane) -> None:
    lane.deploy(replicas=2)
    lane.ready_pod()
    wait_for("an unschedulable pod", lambda: any(waits_for_gpu(pod) for pod in lane.pods()))
    wait_for("one of two", lambda: lane.get("Deployment")["status"].get("readyReplicas") == 1)
    assert lane.get("Deployment")["status"]["unavailableReplicas"] == 1


def test_a_paused_deployment_rolls_nothing(lane: Lane) -> None:
    lane.deploy()
    old = lane.ready_pod()
    lane.rescript("Deployment", FIXED, paused=True)
    wait_for("the pause", lambda: any(row["reason"] == "DeploymentPaused" for row in lane.get("Deployment")["status"].get("conditions", [])))
    lane.settled()
    assert [pod["metadata"]["name"] for pod in lane.pods()] == [old["metadata"]["name"]]


def test_going_back_to_an_old_template_uses_its_replica_set_again(lane: Lane) -> None:
    lane.deploy(strategy=ONE_AT_A_TIME)
    lane.ready_pod()
    (first,) = lane.cluster.objects("apps/v1", "ReplicaSet", lane.namespace)
    lane.rescript("Deployment", FIXED)
    lane.ready_pod(FIXED)
    lane.rescript("Deployment", SERVES)
    lane.ready_pod(SERVES)
    sets = {item["metadata"]["name"]: item for item in lane.cluster.objects("apps/v1", "ReplicaSet", lane.namespace)}
    assert len(sets) == 2
    assert sets[first["metadata"]["name"]]["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"


def test_pods_of_a_deployment_name_their_owners(lane: Lane) -> None:
    lane.deploy()
    pod = lane.ready_pod()
    (owner,) = pod["metadata"]["ownerReferences"]
    (replica_set,) = lane.cluster.objects("apps/v1", "ReplicaSet", lane.namespace)
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == (
        "ReplicaSet",
        replica_set["metadata"]["name"],
        replica_set["metadata"]["uid"],
        True,
    )
    assert pod["metadata"]["labels"]["pod-template-hash"] == replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["ownerReferences"][0]["name"] == "chat"


def test_a_crash_looping_stateful_set_rolls_nothing_until_its_pod_is_deleted(lane: Lane) -> None:
    lane.cluster.apply(lane.workload("StatefulSet", CRASHES))
    old = lane.crashed_pod()
    lane.rescript("StatefulSet", FIXED)
    lane.settled(2)
    (still,) = lane.pods()
    assert still["metadata"]["uid"] == old["metadata"]["uid"]
    lane.core().delete_namespaced_pod("chat-0", lane.namespace, body={"preconditions": {"uid": old["metadata"]["uid"]}})
    new = lane.ready_pod(FIXED)
    assert new["metadata"]["name"] == "chat-0"
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    done = wait_for("the new revision", lambda: lane.get("StatefulSet") if lane.get("StatefulSet")["status"].get("readyReplicas") else None)["status"]
    wait_for("one revision", lambda: lane.get("StatefulSet")["status"]["currentRevision"] == lane.get("StatefulSet")["status"]["updateRevision"])
    assert done["updatedReplicas"] == 1


def test_a_ready_stateful_set_rolls_by_itself(lane: Lane) -> None:
    lane.cluster.apply(lane.workload("StatefulSet"))
    lane.ready_pod(SERVES)
    lane.rescript("StatefulSet", FIXED)
    assert lane.ready_pod(FIXED)["metadata"]["name"] == "chat-0"


def test_parallel_management_rolls_a_crashing_pod(lane: Lane) -> None:
    lane.cluster.apply(lane.workload("StatefulSet", CRASHES, podManagementPolicy="Parallel"))
    lane.crashed_pod()
    lane.rescript("StatefulSet", FIXED)
    lane.ready_pod(FIXED)


def test_on_delete_waits_for_somebody_to_delete(lane: Lane) -> None:
    lane.cluster.apply(lane.workload("StatefulSet", updateStrategy={"type": "OnDelete"}))
    lane.ready_pod()
    lane.rescript("StatefulSet", FIXED)
    lane.settled()
    assert [runs(pod, SERVES) for pod in lane.pods()] == [True]
    lane.core().delete_namespaced_pod("chat-0", lane.namespace)
    lane.ready_pod(FIXED)


def test_below_the_partition_a_pod_keeps_the_old_template_even_when_deleted(lane: Lane) -> None:
    partition = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    lane.cluster.apply(lane.workload("StatefulSet", updateStrategy=partition))
    old = lane.ready_pod()
    lane.rescript("StatefulSet", FIXED)
    lane.settled()
    lane.core().delete_namespaced_pod("chat-0", lane.namespace)
    new = wait_for("the pod again", lambda: next((pod for pod in lane.pods() if is_ready(pod) and pod["metadata"]["uid"] != old["metadata"]["uid"]), None))
    assert runs(new, SERVES)


def test_a_crash_loop_shows_what_a_kubelet_shows(lane: Lane) -> None:
    lane.deploy(CRASHES)
    pod = wait_for("a back-off", lambda: next((pod for pod in lane.pods() if restarts_of(pod) and "waiting" in _server(pod)["state"]), None), 30)
    row = _server(pod)
    assert row["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert row["state"]["waiting"]["message"].startswith("back-off ")
    assert (row["lastState"]["terminated"]["exitCode"], row["lastState"]["terminated"]["reason"]) == (1, "Error")
    assert pod["status"]["phase"] == "Running"
    assert not is_ready(pod)


def _progress(lane: Lane) -> tuple[str, str]:
    rows = [row for row in lane.get("Deployment")["status"].get("conditions", []) if row["type"] == "Progressing"]
    return (rows[0]["status"], rows[0]["reason"]) if rows else ("", "")


def _server(pod: Json) -> Json:
    row: Json = pod["status"]["containerStatuses"][0]
    return row
