"""Whole remediations on a cluster: one GPU for one replica, the old pod crash-looping, real clients on both sides, real rollouts."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.errors import Conflict, Forbidden, Rejected
from bot.model import ObjectRef, Recommendation
from bot.remediation import Changed, differences, dry_run, execute_step, observe, plan_undo
from bot.sandbox.behaviours import ANNOTATION
from bot.sandbox.kubelet.machine import machine
from bot.units import GIB
from tests.remediation.place import CRASHES, MODEL, Place, manifest, until
from tests.remediation.plans import new_id, operation, recommendation


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_crash_looping_workload_becomes_ready_and_goes_back(place: Place, kind: str) -> None:
    target = place.crash_looping(kind)
    before = place.body(kind)["spec"]
    remediation = place.planned(recommendation(), target)
    assert len(remediation.steps) == (1 if kind == "Deployment" else 2)
    done = place.carry_out(remediation, "op-1")
    assert (done.ready, done.wanted) == (1, 1)
    assert place.body(kind)["spec"]["template"]["spec"]["containers"][0]["args"] == [f"--model={MODEL}", "--max-model-len=57344"]
    patched = place.body(kind)["metadata"]["generation"]

    undo = plan_undo(operation(remediation), place.reader, new_id=new_id)
    assert patched == place.body(kind)["metadata"]["generation"]
    place.carry_out(undo, "op-2")
    assert place.body(kind)["spec"] == before
    assert place.body(kind)["metadata"]["annotations"]["oombot.io/operation"] == ("op-2/1" if kind == "Deployment" else "op-2")


def test_each_step_reaches_the_server_once(place: Place) -> None:
    target = place.crash_looping("Deployment", script=CRASHES)
    generation = place.body("Deployment")["metadata"]["generation"]
    remediation = place.planned(recommendation(), target)
    for _ in range(4):
        execute_step(remediation, 0, "op-1", place.writer)
    assert place.body("Deployment")["metadata"]["generation"] == generation + 1


def test_a_dry_run_with_the_writing_credentials_changes_nothing(place: Place) -> None:
    target = place.crash_looping("StatefulSet", script=CRASHES)
    before, uids = place.body("StatefulSet"), [one["metadata"]["uid"] for one in place.pods()]
    remediation = place.planned(recommendation(), target)
    assert len(remediation.steps) == 2
    dry_run(remediation, place.writer)
    after = place.body("StatefulSet")
    assert (after["spec"], after["metadata"].get("annotations")) == (before["spec"], before["metadata"].get("annotations"))
    assert [(one["metadata"]["uid"], one["metadata"].get("deletionTimestamp")) for one in place.pods()] == [(uid, None) for uid in uids]


def test_the_reading_credentials_cannot_write(place: Place) -> None:
    remediation = place.planned(recommendation(), place.crash_looping("Deployment", script=CRASHES))
    with pytest.raises(Forbidden):
        dry_run(remediation, place.reading_writer)
    with pytest.raises(Forbidden):
        execute_step(remediation, 0, "op-1", place.reading_writer)


def test_a_namespace_without_a_binding_cannot_be_changed(place: Place) -> None:
    remediation = place.planned(recommendation(), place.crash_looping("Deployment", script=CRASHES))
    place.cluster.delete("RoleBinding", place.namespace, "oombot-remediator", api_version="rbac.authorization.k8s.io/v1")
    with pytest.raises(Forbidden, match=r"cannot (get|patch)"):
        dry_run(remediation, place.writer)


def test_an_object_recreated_under_the_same_name_is_refused(place: Place) -> None:
    remediation = place.planned(recommendation(), place.crash_looping("Deployment", script=CRASHES))
    place.cluster.delete("Deployment", place.namespace, "chat", api_version="apps/v1")
    place.cluster.apply(manifest("Deployment", place.namespace, script=CRASHES))
    with pytest.raises(Changed, match="uid"):
        execute_step(remediation, 0, "op-1", place.writer)
    assert [one.path for one in differences(remediation, place.reader)] == ["uid"]


def test_a_status_that_moves_all_the_time_goes_through(place: Place) -> None:
    remediation = place.planned(recommendation(), place.crash_looping("Deployment", script=CRASHES))
    version = place.body("Deployment")["metadata"]["resourceVersion"]
    until(lambda: True if place.body("Deployment")["metadata"]["resourceVersion"] != version else None)
    assert differences(remediation, place.reader) == ()
    execute_step(remediation, 0, "op-1", place.writer)


def test_a_template_changed_meanwhile_is_refused_with_who(place: Place) -> None:
    remediation = place.planned(recommendation(), place.crash_looping("Deployment", script=CRASHES))
    changed = manifest("Deployment", place.namespace, script=CRASHES)
    changed["spec"]["template"]["spec"]["containers"][0]["args"][1] = "--max-model-len=8192"
    place.cluster.apply(changed, manager="argocd-application-controller")
    with pytest.raises(Changed) as refused:
        execute_step(remediation, 0, "op-1", place.writer)
    assert [(one.before, one.now, one.who) for one in refused.value.differences] == [
        ("--max-model-len=131072", "--max-model-len=8192", "argocd-application-controller")
    ]


def test_a_fix_that_does_not_fit_is_seen_as_crash_looping(place: Place) -> None:
    remediation = place.planned(recommendation(to=120_000), place.crash_looping("Deployment"))
    execute_step(remediation, 0, "op-1", place.writer)
    found = until(lambda: look if (look := observe(remediation, place.reader)).stuck else None)
    assert found.stuck == "crash_looping"
    assert "container server ended with exit code" in found.detail


def test_the_servers_words_come_with_a_rejection(place: Place) -> None:
    target = place.crash_looping("Deployment", script=CRASHES)
    ref = target.workload
    assert ref is not None
    with pytest.raises(Conflict, match="not what the patch was made for"):
        place.writer.patch(ref, [{"op": "test", "path": "/metadata/uid", "value": "other"}], dry_run=False)
    with pytest.raises(Rejected):
        place.writer.delete_pod(ref, dry_run=False)
    pod = ObjectRef("v1", "Pod", place.namespace, target.pod, "another-uid")
    with pytest.raises(Conflict):
        place.writer.delete_pod(pod, dry_run=False)


@pytest.mark.parametrize(
    "wanted",
    [
        recommendation("max_num_seqs", to=64),
        recommendation("enforce_eager", "enable", None),
        recommendation("cudagraph_estimate", "disable", None),
        recommendation("memory_limit", "raise", 48 * GIB),
        recommendation("cpu_limit", "remove", None),
        recommendation("shm_size", "raise", 8 * GIB),
        recommendation("grace_period", "raise", 120),
    ],
    ids=lambda wanted: str(wanted.id),
)
def test_each_action_is_taken_by_the_server_and_undone_to_the_letter(place: Place, wanted: Recommendation) -> None:
    target = place.crash_looping("Deployment", script=CRASHES, strategy={"type": "Recreate"})
    before = place.body("Deployment")["spec"]
    remediation = place.planned(wanted, target)
    dry_run(remediation, place.writer)
    execute_step(remediation, 0, "op-1", place.writer)
    assert place.body("Deployment")["spec"] != before
    execute_step(plan_undo(operation(remediation), place.reader, new_id=new_id), 0, "op-2", place.writer)
    assert place.body("Deployment")["spec"] == before


def test_a_restart_gives_new_pods_of_the_same_specification(place: Place) -> None:
    target = place.crash_looping("Deployment", script=CRASHES)
    execute_step(place.planned("restart", target), 0, "op-1", place.writer)
    new = until(lambda: next((one for one in place.pods() if one["metadata"]["uid"] != target.pod_uid and one["spec"].get("nodeName")), None))
    assert "kubectl.kubernetes.io/restartedAt" in new["metadata"]["annotations"]


SERVES = {"ready_after": 2, "log": ["serving"]}


def test_with_on_delete_only_the_dead_pod_is_replaced(place: Place) -> None:
    target = place.crash_looping("StatefulSet", updateStrategy={"type": "OnDelete"})
    remediation = place.planned(recommendation(), target)
    done = place.carry_out(remediation, "op-1")
    assert (done.wanted, done.ready) == (1, 1)
    assert [one["metadata"]["uid"] for one in place.pods()] != [target.pod_uid]


def test_a_gpu_taken_after_the_preview_ends_unschedulable_and_is_undone(place: Place) -> None:
    place.cluster.add_machine(machine(f"spare-{place.namespace}", labels={"pool": place.namespace}))
    target = place.ready("Deployment", script=SERVES)
    before = place.body("Deployment")["spec"]
    remediation = place.planned(recommendation(), target)
    assert not any(pointer.startswith("/spec/strategy") for pointer in remediation.before)
    place.cluster.apply(thief(place.namespace))
    until(lambda: True if any(one["metadata"]["name"] == "thief" and one["spec"].get("nodeName") for one in place.pods()) else None)
    execute_step(remediation, 0, "op-1", place.writer)
    later = datetime.now(UTC) + timedelta(minutes=1)
    found = until(lambda: look if (look := observe(remediation, place.reader, now=later)).stuck else None)
    assert found.stuck == "unschedulable"
    assert "Insufficient nvidia.com/gpu" in found.detail
    undo = plan_undo(operation(remediation), place.reader, new_id=new_id)
    assert place.carry_out(undo, "op-2").ready == 1
    assert place.body("Deployment")["spec"] == before
    assert target.pod_uid in [one["metadata"]["uid"] for one in place.pods()]


def test_every_replica_of_a_stateful_set_gets_the_fix(place: Place) -> None:
    place.cluster.add_machine(machine(f"spare-{place.namespace}", labels={"pool": place.namespace}))
    target = place.crash_looping("StatefulSet", replicas=2, podManagementPolicy="Parallel")
    done = place.carry_out(place.planned(recommendation(), target), "op-1")
    assert (done.wanted, done.ready, len(done.new_pods)) == (2, 2, 2)


def thief(namespace: str) -> dict[str, Any]:
    """A pod that takes a GPU of the place."""
    container = {"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    meta = {"name": "thief", "namespace": namespace, "annotations": {ANNOTATION: json.dumps(SERVES)}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], "nodeSelector": {"pool": namespace}}}
