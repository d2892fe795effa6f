"""Plans: the writes that a rollout needs, what an approval is bound to, the preview, the digest."""

from datetime import timedelta
from typing import Any

import pytest

from bot.errors import NotFound
from bot.model import Certainty, Diagnosis, ObjectRef, Phase, StepKind, Target, Text
from bot.remediation import digest_of, plan
from tests.remediation.plans import PREDICTED, handed_out, new_id, planned, recommendation
from tests.remediation.shelf import NOW, ShelfReader, container, deployment_shelf, node, pod, replica_set, stateful_shelf, target, workload

DIAGNOSIS = Diagnosis("context_exceeds_kv_cache", "device_memory", Certainty.CERTAIN, Text("does not fit"), phase=Phase.CACHE_SIZING)


def writes(remediation: Any, step: int = 0) -> list[Any]:
    return [one for one in remediation.steps[step].patch if one["op"] != "test"]


def bound_by(remediation: Any) -> dict[str, Any]:
    return {one["path"]: one["value"] for one in remediation.steps[0].patch if one["op"] == "test"}


def notes(remediation: Any) -> str:
    return " ".join(note.en for note in remediation.notes)


def test_a_deployment_with_a_free_gpu_gets_the_argument_and_the_mark_only() -> None:
    found = planned(deployment_shelf(gpus=2))
    assert writes(found) == [
        {"op": "replace", "path": "/spec/template/spec/containers/0/args/1", "value": "--max-model-len=57344"},
        {"op": "add", "path": "/metadata/annotations/oombot.io~1operation", "value": "${operation}"},
    ]


def test_a_deployment_whose_new_pod_finds_no_gpu_lets_the_old_pod_go_first() -> None:
    found = planned(deployment_shelf(gpus=1))
    assert {one["path"]: one["value"] for one in writes(found)[1:3]} == {
        "/spec/strategy/rollingUpdate/maxSurge": 0,
        "/spec/strategy/rollingUpdate/maxUnavailable": 1,
    }
    assert len(found.steps) == 1
    assert "none is free on the one node that matches" in notes(found)
    assert found.before["/spec/strategy/rollingUpdate/maxSurge"] == "25%"


@pytest.mark.parametrize(
    "spec",
    [
        {"strategy": {"type": "Recreate"}},
        {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}},
        {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}},
    ],
)
def test_a_strategy_that_lets_an_old_pod_go_is_left_alone(spec: dict[str, Any]) -> None:
    assert [one["path"] for one in writes(planned(deployment_shelf(body=workload(**spec))))][1:] == ["/metadata/annotations/oombot.io~1operation"]


def test_four_replicas_at_a_quarter_each_need_no_strategy_but_two_do() -> None:
    assert len(writes(planned(deployment_shelf(body=workload(replicas=4))))) == 2
    assert len(writes(planned(deployment_shelf(body=workload(replicas=2))))) == 4


def test_gpus_on_nodes_that_do_not_match_are_not_counted_as_free() -> None:
    body = workload()
    body["spec"]["template"]["spec"]["nodeSelector"] = {"gpu": "l40s"}
    shelf = deployment_shelf(body=body)
    other, tainted, cordoned, matching = node("a", 8), node("b", 8), node("c", 8), node("d", 8)
    for one in (tainted, cordoned, matching):
        one["metadata"]["labels"]["gpu"] = "l40s"
    tainted["spec"]["taints"] = [{"key": "team", "value": "x", "effect": "NoSchedule"}]
    cordoned["spec"]["unschedulable"] = True
    for one in (other, tainted, cordoned):
        shelf.put(one)
    assert len(writes(planned(shelf))) == 4
    shelf.put(matching)
    assert len(writes(planned(shelf))) == 2


def test_a_pod_that_has_ended_gives_its_gpu_back() -> None:
    shelf = deployment_shelf(gpus=2)
    shelf.put(pod("old-job", replica_set(9), phase="Succeeded"))
    assert len(writes(planned(shelf))) == 2


def test_without_the_right_to_read_nodes_a_pod_that_serves_is_not_let_go() -> None:
    shelf = deployment_shelf(ready=True)
    shelf.forbidden = {"Node"}
    found = planned(shelf)
    assert len(writes(found)) == 2
    assert "could not be read" in notes(found)


def test_without_the_right_to_read_nodes_a_pod_that_crash_loops_is_let_go() -> None:
    shelf = deployment_shelf()
    shelf.forbidden = {"Node"}
    assert len(writes(planned(shelf))) == 4


def test_a_crash_looping_stateful_set_has_its_pod_deleted_by_uid() -> None:
    found = planned(stateful_shelf(), at=target("StatefulSet"))
    assert [step.kind for step in found.steps] == [StepKind.PATCH, StepKind.DELETE_POD]
    assert found.steps[1].object == ObjectRef("v1", "Pod", "llm", "chat-0", "chat-0-uid")
    assert "deletes chat-0" in notes(found)


def test_ready_and_foreign_pods_of_a_stateful_set_are_left_alone() -> None:
    owner = workload("StatefulSet", replicas=3)
    stranger = pod("chat-9", {"kind": "StatefulSet", "metadata": {"name": "other", "uid": "other"}})
    shelf = stateful_shelf(body=owner, pods=[pod("chat-0", owner, ready=True), pod("chat-1", owner), pod("chat-2", owner), stranger])
    found = planned(shelf, at=target("StatefulSet", "chat-1"))
    assert [step.object.name for step in found.steps[1:]] == ["chat-2", "chat-1"]


def test_on_delete_is_explained_and_only_the_dead_pod_is_replaced() -> None:
    owner = workload("StatefulSet", replicas=2, updateStrategy={"type": "OnDelete"})
    found = planned(stateful_shelf(body=owner, pods=[pod("chat-0", owner), pod("chat-1", owner, ready=True)]), at=target("StatefulSet"))
    assert [step.object.name for step in found.steps[1:]] == ["chat-0"]
    assert "OnDelete: nothing rolls by itself. 1 pod(s)" in notes(found)


def test_a_partition_that_keeps_the_pod_back_is_handed_out() -> None:
    owner = workload("StatefulSet", replicas=2, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 1}})
    shelf = stateful_shelf(body=owner, pods=[pod("chat-0", owner), pod("chat-1", owner)])
    assert "partition 1" in handed_out(shelf, at=target("StatefulSet")).reason.en
    found = planned(shelf, at=target("StatefulSet", "chat-1"))
    assert [step.object.name for step in found.steps[1:]] == ["chat-1"]


def test_a_paused_deployment_is_handed_out_with_the_command_that_resumes_it() -> None:
    found = handed_out(deployment_shelf(body=workload(paused=True)))
    assert "rollout resume deployment/chat" in found.reason.en
    assert "--max-model-len=57344" in found.paste


def test_every_patch_is_bound_to_uid_container_and_previous_value() -> None:
    assert bound_by(planned(deployment_shelf(gpus=2))) == {
        "/metadata/uid": "Deployment-uid",
        "/spec/template/spec/containers/0/name": "server",
        "/spec/template/spec/containers/0/args/1": "--max-model-len=131072",
    }


def test_an_appended_argument_is_bound_to_all_that_stands_before_it() -> None:
    found = planned(deployment_shelf(gpus=2), recommendation("max_num_seqs", to=64))
    assert bound_by(found)["/spec/template/spec/containers/0/args/0"] == "--model=llama"
    assert bound_by(found)["/spec/template/spec/containers/0/args/1"] == "--max-model-len=131072"
    assert found.before == {"/spec/template/spec/containers/0/args/2": None}


def test_the_first_variable_of_a_container_is_bound_to_there_being_none() -> None:
    found = planned(deployment_shelf(gpus=2), recommendation("cudagraph_estimate", "disable", None))
    assert bound_by(found)["/spec/template/spec/containers/0/env"] is None


@pytest.mark.parametrize(
    "secret", [["--api-key=sk-1234567890abcdef1234567890abcdef"], ["--api-key", "sk-1234567890abcdef1234567890abcdef"], ["--api-key", "hunter2"]]
)
def test_secrets_stay_out_of_the_plan(secret: list[str]) -> None:
    body = workload(containers=[container(args=["--model=llama", *secret, "--max-model-len=131072"])])
    for wanted in (recommendation(), recommendation("max_num_seqs", to=64)):
        found = repr(planned(deployment_shelf(gpus=2, body=body), wanted))
        assert secret[-1] not in found
        assert "hunter2" not in found
    body["metadata"]["annotations"]["meta.helm.sh/release-name"] = "r"
    paste = handed_out(deployment_shelf(gpus=2, body=body)).paste
    assert "57344" in paste
    assert secret[-1] not in paste


def test_values_of_other_variables_are_neither_shown_nor_handed_out() -> None:
    env = [{"name": "DB", "value": "hunter2"}, {"name": "PYTORCH_CUDA_ALLOC_CONF", "value": "backend:native"}, {"name": "Z", "value": "swordfish"}]
    wanted = recommendation("expandable_segments", "enable", None)
    found = planned(deployment_shelf(gpus=2, body=workload(containers=[container(env=env)])), wanted)
    assert "expandable_segments:True" in found.diff
    assert "hunter2" not in repr(found)
    assert "swordfish" not in repr(found)
    helm = workload(containers=[container(env=env)], meta={"annotations": {"meta.helm.sh/release-name": "r"}})
    paste = handed_out(deployment_shelf(gpus=2, body=helm), wanted).paste
    assert "backend:native,expandable_segments:True" in paste
    assert "hunter2" not in paste


def test_the_digest_is_the_same_for_the_same_change_and_differs_for_another() -> None:
    first, again = planned(deployment_shelf()), planned(deployment_shelf())
    assert first.id != again.id
    assert first.digest == again.digest == digest_of(first)
    assert planned(deployment_shelf(), recommendation(to=57345)).digest != first.digest


def test_the_digest_does_not_move_with_time() -> None:
    shelf = deployment_shelf()
    one = plan("restart", target(), shelf, now=NOW, new_id=new_id)
    other = plan("restart", target(), shelf, now=NOW + timedelta(hours=1), new_id=new_id)
    assert one.digest == other.digest  # type: ignore[union-attr]
    assert one.steps != other.steps  # type: ignore[union-attr]


def test_the_preview_shows_the_changed_lines_under_their_field() -> None:
    found = planned(deployment_shelf())
    assert found.diff.splitlines() == [
        "@@ container server @@",
        "  args:",
        "    - --model=llama",
        "-   - --max-model-len=131072",
        "+   - --max-model-len=57344",
        "@@ Deployment @@",
        "  strategy:",
        "  ...",
        "    rollingUpdate:",
        "-     maxSurge: 25%",
        "-     maxUnavailable: 25%",
        "+     maxSurge: 0",
        "+     maxUnavailable: 1",
    ]


def test_the_time_of_a_restart_is_not_in_the_preview() -> None:
    found = planned(deployment_shelf(gpus=2), "restart")
    assert "(when it is applied)" in found.diff
    assert "2026" not in found.diff
    assert found.before == {}


def test_the_notes_say_how_long_capacity_is_missing() -> None:
    assert "1:50" in notes(planned(deployment_shelf(ready=True)))
    assert "does not serve for about 1:50" in notes(planned(deployment_shelf(ready=True)))
    assert "None serves now" in notes(planned(deployment_shelf()))
    assert "serve until their successors" in notes(planned(deployment_shelf(gpus=2, ready=True)))


def test_every_note_is_there_in_both_languages() -> None:
    for found in (planned(deployment_shelf()), planned(stateful_shelf(), at=target("StatefulSet"))):
        assert all(note.en and note.zh for note in found.notes)


def test_a_disruption_budget_of_these_pods_is_named() -> None:
    shelf = deployment_shelf()
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "chat"}}}
    shelf.put({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "chat-pdb", "namespace": "llm"}, "spec": spec})
    assert "Disruption budget chat-pdb (minAvailable 1)" in notes(planned(shelf))


def test_the_expectation_comes_from_the_diagnosis_and_the_prediction() -> None:
    found = planned(deployment_shelf(), recommendation(predicted=PREDICTED), diagnosis=DIAGNOSIS)
    assert (found.expects.pass_phase, found.expects.cause, found.expects.predicted) == (Phase.CACHE_SIZING, "context_exceeds_kv_cache", PREDICTED)


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({"annotations": {"argocd.argoproj.io/tracking-id": "chat:apps/Deployment:llm/chat"}}, "Argo CD (chat)"),
        ({"labels": {"argocd.argoproj.io/instance": "chat-app"}}, "Argo CD (chat-app)"),
        ({"managedFields": [{"manager": "argocd-controller"}]}, "Argo CD"),
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux"}}, "Flux (Kustomization flux/apps)"),
        ({"annotations": {"meta.helm.sh/release-name": "chat-release"}}, "Helm release chat-release"),
        ({"ownerReferences": [{"kind": "InferenceService", "name": "llama", "uid": "u", "controller": True}]}, "InferenceService llama"),
    ],
)
def test_an_object_that_somebody_else_keeps_is_handed_out_as_a_fragment(meta: dict[str, Any], words: str) -> None:
    shelf = deployment_shelf(body=workload(meta=meta))
    found = handed_out(shelf)
    assert words in found.reason.en
    assert "--max-model-len=57344" in found.paste
    if "ownerReferences" in meta:
        assert words in handed_out(shelf, in_place=True).reason.en  # an operator puts it back at once
    else:
        assert words in notes(planned(shelf, in_place=True))


def test_a_restart_of_a_kept_object_is_planned_since_nobody_reverts_it() -> None:
    shelf = deployment_shelf(gpus=2, body=workload(meta={"labels": {"argocd.argoproj.io/instance": "chat-app"}}))
    assert planned(shelf, "restart").action == "restart"


def test_a_bare_pod_is_handed_out_with_its_new_arguments() -> None:
    shelf = deployment_shelf()
    at = Target("shelf", "llm", "chat-r1-x", container="server")
    found = handed_out(shelf, at=at)
    assert "belongs to no workload" in found.reason.en
    assert "# 1. kubectl -n llm delete pod chat-r1-x" in found.paste
    assert "--max-model-len=57344" in found.paste


def test_a_node_is_told_to_be_no_workload() -> None:
    assert "node/gpu-1 is none" in handed_out(deployment_shelf(), at=Target("shelf", "", "", node="gpu-1")).reason.en


def test_another_kind_of_owner_is_handed_out() -> None:
    at = Target("shelf", "llm", "chat-r1-x", container="server", workload=ObjectRef("production-stack.vllm.ai/v1alpha1", "VLLMRuntime", "llm", "big", "u"))
    assert "VLLMRuntime" in handed_out(deployment_shelf(), at=at).reason.en


def test_the_predicted_cache_is_in_the_notes() -> None:
    assert "Afterwards: cache 10.58 GiB, 57,776 tokens." in notes(planned(deployment_shelf(), recommendation(predicted=PREDICTED)))


def test_what_the_bot_does_not_do_is_handed_out_with_the_size() -> None:
    found = handed_out(deployment_shelf(), recommendation("tensor_parallel_size", "raise", 2, from_value=1))
    assert "GPU request" in found.reason.en
    assert found.paste == "tensor_parallel_size: 1 -> 2\n"
    assert "by itself" in handed_out(deployment_shelf(), recommendation("nccl", "change", None)).reason.en


def test_a_recommendation_without_a_size_is_not_guessed() -> None:
    assert "does not guess" in handed_out(deployment_shelf(), recommendation(to=None)).reason.en


def test_an_object_recreated_under_the_same_name_is_refused() -> None:
    with pytest.raises(NotFound, match="made anew"):
        planned(deployment_shelf(), at=target(uid="older-uid"))


def test_the_servers_container_is_found_among_sidecars() -> None:
    sidecar = {"name": "proxy", "image": "envoy"}
    shelf = deployment_shelf(gpus=2, body=workload(containers=[sidecar, container()]))
    assert writes(planned(shelf, at=target(container_name="")))[0]["path"] == "/spec/template/spec/containers/1/args/1"


def test_a_template_that_moved_since_the_pod_started_is_said() -> None:
    assert "The failing pod ran with --max-model-len 262144" in notes(planned(deployment_shelf(), recommendation(from_value=262144)))


def test_a_workload_scaled_to_zero_says_that_nothing_restarts() -> None:
    shelf = ShelfReader(workload(replicas=0), replica_set(), node())
    assert "scaled to 0" in notes(planned(shelf))
