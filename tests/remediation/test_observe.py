"""A look at a rollout says how far it is, and why it cannot go on."""

from datetime import timedelta
from typing import Any

from bot.model import Remediation, Rollout
from bot.remediation import execute_step, observe, plan_undo
from tests.remediation.plans import new_id, operation, planned
from tests.remediation.shelf import NOW, ShelfReader, deployment_shelf, pod, replica_set, stateful_shelf, target, workload

MESSAGE = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def rolling(*pods: Any, old: bool = False) -> tuple[ShelfReader, Remediation]:
    """A Deployment after its patch: revision 2 has these pods, revision 1 keeps its pod or has none."""
    shelf = deployment_shelf()
    remediation = planned(shelf)
    execute_step(remediation, 0, "op-1", shelf.writer())
    shelf.edit("Deployment", "chat", lambda body: body["metadata"]["annotations"].update({"deployment.kubernetes.io/revision": "2"}))
    shelf.put(replica_set(2))
    if not old:
        shelf.drop("Pod", "chat-r1-x")
    for one in pods:
        shelf.put(one)
    return shelf, remediation


def look(found: tuple[ShelfReader, Remediation], **fields: Any) -> Rollout:
    return observe(found[1], found[0], now=fields.pop("now", NOW), **fields)


def pending(since: str = "2026-11-30T10:16:00Z") -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": MESSAGE, "lastTransitionTime": since}
    body = pod("chat-r2-y", replica_set(2), node=None, phase="Pending", conditions=[scheduled], containerStatuses=[])
    return {**body, "metadata": {**body["metadata"], "creationTimestamp": since}}


def waiting(reason: str, restarts: int = 0, **fields: Any) -> dict[str, Any]:
    status = {"name": "server", "state": {"waiting": {"reason": reason, "message": "no such image"}}, "restartCount": restarts, **fields}
    return pod("chat-r2-y", replica_set(2), containerStatuses=[status])


def test_a_rollout_is_done_when_the_new_pods_are_ready_and_the_old_are_gone() -> None:
    assert look(rolling(pod("chat-r2-y", replica_set(2), ready=True))) == Rollout(1, 1, 1, True, "", "", ("chat-r2-y",))


def test_an_old_pod_that_is_still_there_keeps_it_from_being_done() -> None:
    assert not look(rolling(pod("chat-r2-y", replica_set(2), ready=True), old=True)).done


def test_a_controller_that_has_not_seen_the_template_has_no_new_pods() -> None:
    shelf, remediation = rolling(pod("chat-r2-y", replica_set(2), ready=True))
    shelf.edit("Deployment", "chat", lambda body: body["status"].update(observedGeneration=1))
    assert look((shelf, remediation)) == Rollout(1, 0, 0, False)


def test_a_pod_without_a_gpu_is_stuck_with_the_schedulers_words() -> None:
    found = look(rolling(pending()))
    assert (found.stuck, found.detail) == ("unschedulable", f"chat-r2-y: {MESSAGE}")


def test_a_pod_that_waits_for_a_gpu_just_let_go_is_not_stuck() -> None:
    assert look(rolling(pending(since="2026-11-30T10:16:55Z"))).stuck == ""
    shelf, remediation = rolling(pending(), old=True)
    shelf.edit("Pod", "chat-r1-x", lambda body: body["metadata"].update(deletionTimestamp="2026-11-30T10:16:30Z"))
    assert look((shelf, remediation)).stuck == ""


def test_a_new_pod_that_crash_loops_is_stuck_and_an_old_one_is_not() -> None:
    ended = {"lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}
    found = look(rolling(waiting("CrashLoopBackOff", 3, **ended)))
    assert found.stuck == "crash_looping"
    assert "container server ended with exit code 1 (Error), 3 restart(s)" in found.detail
    assert look(rolling(old=True)).stuck == ""


def test_an_image_that_cannot_be_pulled_is_never_ready() -> None:
    found = look(rolling(waiting("ImagePullBackOff")))
    assert (found.stuck, "ImagePullBackOff: no such image" in found.detail) == ("never_ready", True)


def test_a_pod_past_the_deadline_is_never_ready() -> None:
    late = NOW + timedelta(minutes=1)
    assert look(rolling(waiting("ContainerCreating")), now=late, deadline=timedelta(hours=2)).stuck == ""
    assert look(rolling(waiting("ContainerCreating")), now=late, deadline=timedelta(minutes=30)).stuck == "never_ready"


def test_the_controllers_own_deadline_is_believed() -> None:
    shelf, remediation = rolling()
    condition = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": 'ReplicaSet "chat-r2" has timed out progressing.'}
    shelf.edit("Deployment", "chat", lambda body: body["status"].update(conditions=[condition]))
    assert look((shelf, remediation)).stuck == "never_ready"
    assert "timed out progressing" in look((shelf, remediation)).detail


def test_pods_that_a_quota_forbids_are_never_ready_with_the_quotas_words() -> None:
    shelf, remediation = rolling()
    condition = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: gpus", "lastTransitionTime": "2026-11-30T10:16:00Z"}
    shelf.edit("Deployment", "chat", lambda body: body["status"].update(conditions=[condition]))
    assert "exceeded quota" in look((shelf, remediation)).detail


def test_a_deployment_that_is_paused_in_the_middle_is_stuck() -> None:
    shelf, remediation = rolling(old=True)
    shelf.edit("Deployment", "chat", lambda body: body["spec"].update(paused=True))
    assert look((shelf, remediation)).stuck == "paused"


def stateful(*pods: Any, body: Any = None) -> tuple[ShelfReader, Remediation]:
    owner = body or workload("StatefulSet", replicas=2)
    shelf = stateful_shelf(body=owner, pods=[pod("chat-0", owner), pod("chat-1", owner)])
    remediation = planned(shelf, at=target("StatefulSet", "chat-1"))
    execute_step(remediation, 0, "op-1", shelf.writer())
    shelf.edit("StatefulSet", "chat", lambda one: one["status"].update(updateRevision="new", currentRevision="old"))
    for one in pods:
        shelf.put(one)
    return shelf, remediation


def of(name: str, hashed: str, *, ready: bool = True) -> Any:
    return pod(name, workload("StatefulSet"), ready=ready, labels={"controller-revision-hash": hashed})


def test_a_stateful_set_is_done_when_all_pods_have_the_new_revision() -> None:
    assert look(stateful(of("chat-0", "old"), of("chat-1", "new"))) == Rollout(2, 1, 1, False, "", "", ("chat-1",))
    assert look(stateful(of("chat-0", "new"), of("chat-1", "new"))).done


def test_a_partition_leaves_the_lower_pods_out_of_what_is_wanted() -> None:
    body = workload("StatefulSet", replicas=2, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 1}})
    found = look(stateful(of("chat-0", "old"), of("chat-1", "new"), body=body))
    assert (found.wanted, found.done) == (1, True)


def test_on_delete_wants_only_the_pods_that_the_plan_deletes() -> None:
    owner = workload("StatefulSet", replicas=2, updateStrategy={"type": "OnDelete"})
    shelf = stateful_shelf(body=owner, pods=[pod("chat-0", owner, ready=True), pod("chat-1", owner)])
    remediation = planned(shelf, at=target("StatefulSet", "chat-1"))
    execute_step(remediation, 0, "op-1", shelf.writer())
    shelf.edit("StatefulSet", "chat", lambda one: one["status"].update(updateRevision="new"))
    shelf.put(of("chat-1", "new"))
    assert look((shelf, remediation)) == Rollout(1, 1, 1, True, "", "", ("chat-1",))


def test_an_old_pod_that_is_not_ready_holds_a_stateful_set_up() -> None:
    found = look(stateful(of("chat-0", "old", ready=False), of("chat-1", "new")))
    assert (found.stuck, "chat-0 still has the old template" in found.detail) == ("never_ready", True)


def test_an_undo_is_done_when_the_old_template_runs_again_even_if_it_crashes_as_before() -> None:
    shelf = deployment_shelf()
    remediation = planned(shelf)
    execute_step(remediation, 0, "op-1", shelf.writer())
    back = plan_undo(operation(remediation), shelf, new_id=new_id)
    execute_step(back, 0, "op-2", shelf.writer())
    shelf.edit("Deployment", "chat", lambda body: body["metadata"]["annotations"].update({"deployment.kubernetes.io/revision": "3"}))
    shelf.put(replica_set(3))
    shelf.drop("Pod", "chat-r1-x")
    assert not look((shelf, back)).done
    shelf.put(pod("chat-r3-z", replica_set(3)))
    assert look((shelf, back)) == Rollout(1, 1, 0, True, "", "", ("chat-r3-z",))


def test_patience_is_measured_by_the_clusters_clock_and_not_by_ours() -> None:
    """Ours may be hours off in either direction."""
    shelf, remediation = rolling(pending(since="2026-11-30T10:16:55Z"))  # five seconds before the cluster's now
    assert observe(remediation, shelf).stuck == ""
    shelf.time = NOW + timedelta(minutes=1)
    assert observe(remediation, shelf).stuck == "unschedulable"
