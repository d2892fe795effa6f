"""Undo puts back exactly what was captured, and only when nobody changed it since."""

from typing import Any

import pytest

from bot.errors import BadInput, Conflict, Temporary
from bot.model import Remediation, StepKind
from bot.remediation import Changed, digest_of, execute_step, plan_undo
from tests.remediation.plans import new_id, operation, planned, recommendation
from tests.remediation.shelf import ShelfReader, container, deployment_shelf, stateful_shelf, target, workload


def applied(shelf: ShelfReader, wanted: Any = None, kind: str = "Deployment") -> Remediation:
    remediation = planned(shelf, wanted, target(kind))
    execute_step(remediation, 0, "op-1", shelf.writer())
    return remediation


def undo(shelf: ShelfReader, remediation: Remediation) -> Remediation:
    return plan_undo(operation(remediation), shelf, new_id=new_id)


@pytest.mark.parametrize(
    "wanted",
    [
        recommendation(),
        recommendation("max_num_seqs", to=64),
        recommendation("enforce_eager", "enable", None),
        recommendation("cudagraph_estimate", "disable", None),
        recommendation("expandable_segments", "enable", None),
    ],
)
@pytest.mark.parametrize("env", [None, [{"name": "PYTORCH_CUDA_ALLOC_CONF", "value": "max_split_size_mb:64"}]])
def test_undo_restores_the_specification_to_the_letter(wanted: Any, env: Any) -> None:
    shelf = deployment_shelf(gpus=2, body=workload(containers=[container(env=env)]))
    before = shelf.seen("Deployment", "chat")["spec"]
    back = undo(shelf, applied(shelf, wanted))
    assert shelf.seen("Deployment", "chat")["spec"] != before
    execute_step(back, 0, "op-2", shelf.writer())
    assert shelf.seen("Deployment", "chat")["spec"] == before
    assert (back.direction, back.digest) == ("undo", digest_of(back))


def test_the_strategy_goes_back_after_the_rollout_and_not_sooner() -> None:
    shelf = deployment_shelf()
    before = shelf.seen("Deployment", "chat")["spec"]
    back = undo(shelf, applied(shelf))
    assert [step.after_rollout for step in back.steps] == [False, True]
    execute_step(back, 0, "op-2", shelf.writer())
    assert shelf.seen("Deployment", "chat")["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    with pytest.raises(Temporary, match="not through"):
        execute_step(back, 1, "op-2", shelf.writer())
    shelf.edit("Deployment", "chat", lambda body: body["status"].update(updatedReplicas=1, replicas=1))
    execute_step(back, 1, "op-2", shelf.writer())
    execute_step(back, 1, "op-2", shelf.writer())
    assert shelf.seen("Deployment", "chat")["spec"] == before
    assert shelf.sent == [("patch", "chat")] * 3
    assert shelf.seen("Deployment", "chat")["metadata"]["annotations"]["oombot.io/operation"] == "op-2/1"


def test_the_strategy_is_left_alone_when_somebody_changed_the_object_in_between() -> None:
    shelf = deployment_shelf()
    back = undo(shelf, applied(shelf))
    execute_step(back, 0, "op-2", shelf.writer())
    shelf.edit("Deployment", "chat", lambda body: body["spec"]["template"]["spec"]["containers"][0]["args"].__setitem__(1, "--max-model-len=1"))
    with pytest.raises(Conflict, match="left as it is"):
        execute_step(back, 1, "op-2", shelf.writer())


def test_with_a_free_gpu_the_strategy_goes_back_at_once() -> None:
    shelf = deployment_shelf()
    remediation = applied(shelf)
    shelf.edit("Node", "gpu-1", lambda body: body["status"]["allocatable"].update({"nvidia.com/gpu": "2"}), namespace="")
    assert len(undo(shelf, remediation).steps) == 1


def test_an_undo_without_a_free_gpu_makes_room_even_if_the_fix_needed_none() -> None:
    shelf = deployment_shelf(gpus=2)
    before = shelf.seen("Deployment", "chat")["spec"]
    remediation = applied(shelf)
    shelf.edit("Node", "gpu-1", lambda body: body["status"]["allocatable"].update({"nvidia.com/gpu": "1"}), namespace="")
    back = undo(shelf, remediation)
    execute_step(back, 0, "op-2", shelf.writer())
    shelf.edit("Deployment", "chat", lambda body: body["status"].update(updatedReplicas=1, replicas=1))
    execute_step(back, 1, "op-2", shelf.writer())
    assert shelf.seen("Deployment", "chat")["spec"] == before


def test_the_undo_of_a_stateful_set_deletes_a_pod_that_is_still_not_ready() -> None:
    shelf = stateful_shelf()
    back = undo(shelf, applied(shelf, kind="StatefulSet"))
    assert [step.kind for step in back.steps] == [StepKind.PATCH, StepKind.DELETE_POD]


def test_a_value_that_somebody_changed_since_is_not_undone() -> None:
    shelf = deployment_shelf()
    remediation = applied(shelf)
    shelf.edit("Deployment", "chat", lambda body: body["spec"]["template"]["spec"]["containers"][0]["args"].__setitem__(1, "--max-model-len=4096"))
    with pytest.raises(Changed) as refused:
        undo(shelf, remediation)
    assert [(one.before, one.now) for one in refused.value.differences] == [("--max-model-len=57344", "--max-model-len=4096")]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda spec: spec["containers"][0].update(image="vllm/vllm-openai:v0.12.0"), "/spec/template/spec/containers/0/image"),
        (lambda spec: spec["containers"][0]["args"].append("--seed=1"), "/spec/template"),
        (lambda spec: spec.update(terminationGracePeriodSeconds=5), "/spec/template"),
    ],
)
def test_another_change_of_the_template_since_is_shown(change: Any, path: str) -> None:
    shelf = deployment_shelf()
    remediation = applied(shelf)
    shelf.edit("Deployment", "chat", lambda body: change(body["spec"]["template"]["spec"]))
    with pytest.raises(Changed) as refused:
        undo(shelf, remediation)
    assert [one.path for one in refused.value.differences] == [path]


def test_status_and_replicas_may_have_moved_since() -> None:
    shelf = deployment_shelf()
    remediation = applied(shelf)
    shelf.edit("Deployment", "chat", lambda body: body["spec"].update(replicas=2))
    shelf.edit("Deployment", "chat", lambda body: body["status"].update(readyReplicas=1))
    assert undo(shelf, remediation).direction == "undo"


def test_a_recreated_object_or_another_cluster_is_not_undone() -> None:
    shelf = deployment_shelf()
    remediation = applied(shelf)
    shelf.edit("Deployment", "chat", lambda body: body["metadata"].update(uid="another-uid"))
    with pytest.raises(Changed, match="uid"):
        undo(shelf, remediation)
    shelf.cluster_uid = "another-cluster"
    with pytest.raises(Changed, match="cluster"):
        undo(shelf, remediation)


def test_a_restart_has_nothing_to_undo() -> None:
    shelf = deployment_shelf(gpus=2)
    with pytest.raises(BadInput, match="nothing to put back"):
        undo(shelf, applied(shelf, "restart"))


def test_the_undo_of_a_restart_that_needed_a_strategy_puts_only_that_back() -> None:
    shelf = deployment_shelf()
    strategy = shelf.seen("Deployment", "chat")["spec"]["strategy"]
    back = undo(shelf, applied(shelf, "restart"))
    execute_step(back, 0, "op-2", shelf.writer())
    assert shelf.seen("Deployment", "chat")["spec"]["strategy"] == strategy
    assert not any("Restarts" in note.en for note in back.notes)


def test_a_gpu_that_the_pod_of_the_change_would_take_is_not_free_for_the_undo() -> None:
    """Its pod is missing (a quota held it up): put back at once, the strategy would wait for ever for a second GPU."""
    shelf = deployment_shelf()
    remediation = planned(shelf)
    execute_step(remediation, 0, "op-1", shelf.writer())
    shelf.drop("Pod", "chat-r1-x")
    undo = plan_undo(operation(remediation), shelf, new_id=new_id)
    assert [step.after_rollout for step in undo.steps] == [False, True]
