"""Kinds above Deployments, on a shelf: where the container stands, what their controllers do with a change, and what is handed out instead."""

import copy
from typing import Any

import pytest

from bot.errors import Permanent
from bot.model import Expectation, ObjectRef, StepKind, Target
from bot.remediation import differences, dry_run, execute_step, observe, plan, plan_undo, pods_there
from bot.remediation.assemble import Draft, remediation
from bot.remediation.bound import FIELD_MANAGER
from bot.remediation.change import Change, Edit
from bot.remediation.fetch import fetch
from bot.remediation.writes import Writes, look
from tests.remediation.plans import handed_out, new_id, operation, planned, recommendation
from tests.remediation.shelf import NOW, ShelfReader, container, node, pod, workload

VERSIONS = {"LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1", "RayService": "ray.io/v1", "RayCluster": "ray.io/v1",
            "InferenceService": "serving.kserve.io/v1beta1", "LLMInferenceService": "serving.kserve.io/v1alpha1", "DaemonSet": "apps/v1"}  # fmt: skip


def custom(kind: str, spec: dict[str, Any], **meta: Any) -> dict[str, Any]:
    base = {"name": "chat", "namespace": "llm", "uid": f"{kind}-uid", "generation": 1, "resourceVersion": "7", "annotations": {"a": "b"}}
    return {"apiVersion": VERSIONS[kind], "kind": kind, "metadata": {**base, **meta}, "spec": spec, "status": {"observedGeneration": 1}}


def shelf(body: dict[str, Any], labels: dict[str, str], *, gpus: int = 1, ready: bool = False) -> ShelfReader:
    return ShelfReader(body, pod("chat-0", body, ready=ready, labels=labels), node(gpus=gpus))


def at(kind: str, name: str = "server") -> Target:
    return Target("shelf", "llm", "chat-0", "chat-0-uid", name, "gpu-1", ObjectRef(VERSIONS[kind], kind, "llm", "chat", f"{kind}-uid"), 1)


def ray(**spec: Any) -> dict[str, Any]:
    groups = [
        {"groupName": "cpu", "replicas": 2, "template": {"spec": {"containers": [container()]}}},
        {"groupName": "gpu", "replicas": 1, "template": {"spec": {"containers": [container()]}}},
    ]
    return {"headGroupSpec": {"template": {"spec": {"containers": [container()]}}}, "workerGroupSpecs": groups, **spec}


SERVICE = {"ray.io/originated-from-cr-name": "chat", "ray.io/originated-from-crd": "RayService", "ray.io/group": "gpu", "ray.io/node-type": "worker"}
WORKER = {"leaderworkerset.sigs.k8s.io/name": "chat", "leaderworkerset.sigs.k8s.io/worker-index": "1"}
MEMORY = recommendation("memory_limit", "raise", 48 * 2**30)


def paths(plan: Any) -> list[str]:
    return [one["path"] for step in plan.steps for one in step.patch if one["op"] != "test" and "oombot.io" not in one["path"]]


def test_the_group_of_the_pod_is_the_one_that_is_changed() -> None:
    plan = planned(shelf(custom("RayService", {"rayClusterConfig": ray()}), SERVICE, gpus=4), MEMORY, at("RayService"))
    assert all(path.startswith("/spec/rayClusterConfig/workerGroupSpecs/1/template/spec/containers/0/") for path in paths(plan))


def test_an_argument_of_a_worker_is_changed_in_the_leader_that_serves() -> None:
    groups = {
        "size": 2,
        "leaderTemplate": {"spec": {"containers": [container()]}},
        "workerTemplate": {"spec": {"containers": [container(command=["ray", "start"], args=None)]}},
    }
    body = custom("LeaderWorkerSet", {"replicas": 1, "leaderWorkerTemplate": groups})
    assert paths(planned(shelf(body, WORKER), at=at("LeaderWorkerSet")))[0].startswith("/spec/leaderWorkerTemplate/leaderTemplate/")
    assert paths(planned(shelf(body, WORKER), MEMORY, at("LeaderWorkerSet")))[0].startswith("/spec/leaderWorkerTemplate/workerTemplate/")


def test_a_second_ray_cluster_that_would_never_get_a_gpu_is_said_before_anything_is_written() -> None:
    found = handed_out(shelf(custom("RayService", {"rayClusterConfig": ray()}), SERVICE), MEMORY, at("RayService"))
    assert "second cluster" in found.reason.en
    assert "no GPU is free" in found.reason.en
    assert "workerGroupSpecs" in found.paste


def test_a_ray_service_that_never_upgrades_is_said() -> None:
    body = custom("RayService", {"rayClusterConfig": ray(), "upgradeStrategy": {"type": "None"}})
    assert "upgradeStrategy None" in handed_out(shelf(body, SERVICE, gpus=4), MEMORY, at("RayService")).reason.en


ONE = {"model_loading_config": {"model_id": "a"}, "engine_kwargs": {"max_model_len": 131072}}


def served(*models: dict[str, Any]) -> dict[str, Any]:
    import yaml

    text = yaml.safe_dump({"applications": [{"name": "llm", "args": {"llm_configs": list(models)}}]})
    return custom("RayService", {"serveConfigV2": text, "rayClusterConfig": ray()})


def test_engine_kwargs_are_changed_in_the_text_even_where_no_gpu_is_free() -> None:
    plan = planned(shelf(served(ONE), SERVICE), at=at("RayService"))
    assert paths(plan) == ["/spec/serveConfigV2"]
    assert "max_model_len: 57344" in plan.diff
    assert [step.kind for step in plan.steps] == [StepKind.PATCH]


def test_two_models_in_one_service_are_left_to_people() -> None:
    found = handed_out(shelf(served(ONE, copy.deepcopy(ONE)), SERVICE), at=at("RayService"))
    assert "2 models" in found.reason.en
    assert "max_model_len: 57344" in found.paste


def test_a_switch_is_spelled_as_a_keyword() -> None:
    plan = planned(shelf(served(ONE), SERVICE), recommendation("enforce_eager", "enable", None), at("RayService"))
    assert "enforce_eager: true" in plan.diff


def test_in_place_configuration_is_done_when_ray_serve_says_that_it_runs() -> None:
    here = shelf(served(ONE), SERVICE, ready=True)
    plan = planned(here, at=at("RayService"))

    def status(word: str) -> dict[str, Any]:
        return {"observedGeneration": 1, "activeServiceStatus": {"applicationStatuses": {"llm": {"status": word}}}}

    here.edit("RayService", "chat", lambda body: body.update(status=status("DEPLOYING")))
    assert not observe(plan, here).done
    here.edit("RayService", "chat", lambda body: body.update(status=status("RUNNING")))
    assert observe(plan, here).done


def test_only_the_group_that_changes_loses_its_pods() -> None:
    body = custom("RayCluster", ray())
    labels = {"ray.io/cluster": "chat", "ray.io/node-type": "worker"}
    here = shelf(body, {**labels, "ray.io/group": "gpu"})
    here.put(pod("chat-cpu", body, labels={**labels, "ray.io/group": "cpu"}))
    foreign = pod("stranger", workload(), labels={**labels, "ray.io/group": "gpu"})
    here.put(foreign)
    plan = planned(here, MEMORY, at("RayCluster"))
    assert [step.object.name for step in plan.steps] == ["chat", "chat-0"]


def model(**fields: Any) -> dict[str, Any]:
    return {"predictor": {"model": {"modelFormat": {"name": "huggingface"}, "resources": {"limits": {"nvidia.com/gpu": "1"}}, **fields}}}


ISVC = {"serving.kserve.io/inferenceservice": "chat", "component": "predictor"}
RAW = {"annotations": {"serving.kserve.io/deploymentMode": "Standard"}}


def test_an_argument_of_the_runtime_is_overridden_behind_it() -> None:
    plan = planned(shelf(custom("InferenceService", model(), **RAW), ISVC), at=at("InferenceService", "kserve-container"))
    operation = next(one for one in plan.steps[0].patch if one["path"] == "/spec/predictor/model/args" and one["op"] == "add")
    assert operation["value"] == ["--max-model-len=57344"]


def test_another_runtime_than_vllm_is_left_to_people() -> None:
    body = custom("InferenceService", model(modelFormat={"name": "triton"}), **RAW)
    handed_out(shelf(body, ISVC), at=at("InferenceService", "kserve-container"))


def test_a_serverless_revision_that_would_never_get_a_gpu_is_said() -> None:
    found = handed_out(shelf(custom("InferenceService", model(args=["--max-model-len=131072"])), ISVC), at=at("InferenceService", "kserve-container"))
    assert "Knative starts the new revision beside the old one" in found.reason.en
    assert "predictor:\n    model:\n      args:\n        - --max-model-len=57344" in found.paste


LLM = {"app.kubernetes.io/name": "chat", "app.kubernetes.io/part-of": "llminferenceservice"}


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (None, [{"name": "VLLM_ADDITIONAL_ARGS", "value": "--max-model-len=57344"}]),
        ([{"name": "A", "value": "1"}], {"name": "VLLM_ADDITIONAL_ARGS", "value": "--max-model-len=57344"}),
        ([{"name": "VLLM_ADDITIONAL_ARGS", "value": "--max-model-len 131072 --seed 1"}], "--max-model-len 57344 --seed 1"),
        ([{"name": "VLLM_ADDITIONAL_ARGS", "value": "--seed=1"}], "--seed=1 --max-model-len=57344"),
    ],
)
def test_the_arguments_behind_a_preset_stand_in_its_variable(env: Any, expected: Any) -> None:
    server = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}, **({"env": env} if env else {})}
    body = custom("LLMInferenceService", {"replicas": 1, "template": {"containers": [server]}})
    plan = planned(shelf(body, LLM, gpus=2), at=at("LLMInferenceService", "main"))
    assert [one["value"] for one in plan.steps[0].patch if one["op"] != "test" and "/env" in one["path"]] == [expected]


def test_a_service_that_leaves_its_template_to_a_preset_is_said_to_have_no_container() -> None:
    body = custom("LLMInferenceService", {"replicas": 1, "model": {"uri": "hf://x"}})
    with pytest.raises(Permanent, match="has no container 'main' in its pod template"):
        plan("restart", at("LLMInferenceService", "main"), shelf(body, LLM), now=NOW, new_id=new_id)


@pytest.mark.parametrize("remedy", ["order_devices", "cudagraph_estimate"])
def test_an_empty_list_of_variables_of_a_custom_resource_is_bound_as_it_was_written(remedy: str) -> None:
    body = custom("RayCluster", ray())
    body["spec"]["workerGroupSpecs"][1]["template"]["spec"]["containers"][0]["env"] = []
    here = shelf(body, {"ray.io/cluster": "chat", "ray.io/node-type": "worker", "ray.io/group": "gpu"}, gpus=4)
    made = planned(here, recommendation(remedy, "set" if remedy == "order_devices" else "disable", None), at("RayCluster"))
    dry_run(made, here.writer())


def test_an_empty_list_of_variables_does_not_keep_the_arguments_behind_a_preset_from_being_set() -> None:
    server = {"name": "main", "env": [], "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    here = shelf(custom("LLMInferenceService", {"replicas": 1, "template": {"containers": [server]}}), LLM, gpus=2)
    dry_run(planned(here, at=at("LLMInferenceService", "main")), here.writer())


def test_the_model_of_an_inference_service_has_a_name_in_what_is_to_be_pasted() -> None:
    body = custom("InferenceService", model(command=["sh", "-c", "source env; vllm serve m --max-model-len 131072"]), **RAW)
    found = handed_out(shelf(body, ISVC, gpus=2), at=at("InferenceService", "kserve-container"))
    assert "name: kserve-container" in found.paste


def restarted(body: dict[str, Any], when: str) -> None:
    body["spec"]["predictor"].setdefault("annotations", {})["kubectl.kubernetes.io/restartedAt"] = when


def test_a_restart_of_an_inference_service_is_shown_once_and_its_strategy_goes_back() -> None:
    here = shelf(custom("InferenceService", model(), **RAW), ISVC)
    made = planned(here, "restart", at("InferenceService", "kserve-container"))
    assert made.diff.count("restartedAt") == 1
    assert "(when it is applied)" in made.diff
    execute_step(made, 0, "op-1", here.writer())
    undo = plan_undo(operation(made), here, new_id=new_id)
    assert "deploymentStrategy" in undo.diff


def test_somebodys_restart_of_an_inference_service_meanwhile_is_no_change() -> None:
    here = shelf(custom("InferenceService", model(args=["--max-model-len=131072"]), **RAW), ISVC)
    made = planned(here, at=at("InferenceService", "kserve-container"))
    here.edit("InferenceService", "chat", lambda body: restarted(body, "2026-11-30T09:59:00Z"))
    assert differences(made, here) == ()


@pytest.mark.parametrize("kind", ["RayCluster", "RayService"])
def test_another_number_of_pods_of_a_ray_group_is_shown(kind: str) -> None:
    labels = {"ray.io/cluster": "chat", "ray.io/node-type": "worker", "ray.io/group": "gpu"}
    body = custom(kind, ray() if kind == "RayCluster" else {"rayClusterConfig": ray()})
    made = planned(shelf(body, {**labels, **SERVICE}, gpus=4, ready=True), "add_replicas", at(kind))
    assert made.diff == "@@ group gpu @@\n- replicas: 1\n+ replicas: 2"


def test_what_cannot_be_shown_is_not_offered() -> None:
    body = custom("RayService", {"rayClusterConfig": {**ray(), "rayVersion": "2.50.0"}})
    here = shelf(body, SERVICE, gpus=4)
    place = fetch(at("RayService"), here)[0]
    hidden = Change((Edit("/spec/rayClusterConfig/rayVersion", "2.50.0", "2.51.0"),))
    draft = Draft("r-1", "restart", "apply", "restart", at("RayService"), "low", Expectation())
    with pytest.raises(Permanent, match="cannot be shown, so it is not offered"):
        remediation(draft, place, hidden, Writes(), look(place, here), here)


def test_what_the_variable_holds_besides_plain_words_is_left_to_people() -> None:
    server = {
        "name": "main",
        "env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": "--max-model-len $(cat /len)"}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    body = custom("LLMInferenceService", {"replicas": 1, "template": {"containers": [server]}})
    handed_out(shelf(body, LLM, gpus=2), at=at("LLMInferenceService", "main"))


def test_a_kind_of_the_same_name_in_another_group_is_not_touched() -> None:
    target = Target("shelf", "llm", "chat-0", container="server", workload=ObjectRef("example.com/v1", "RayService", "llm", "chat", "RayService-uid"))
    assert "does not change by itself" in handed_out(shelf(custom("RayService", {"rayClusterConfig": ray()}), SERVICE), at=target).reason.en


@pytest.mark.parametrize(
    ("body", "labels", "container_name", "pointer"),
    [
        (custom("InferenceService", model(), **RAW), ISVC, "kserve-container", "/spec/predictor/minReplicas"),
        (
            custom("RayCluster", ray()),
            {"ray.io/cluster": "chat", "ray.io/node-type": "worker", "ray.io/group": "gpu"},
            "server",
            "/spec/workerGroupSpecs/1/replicas",
        ),
    ],
)
def test_one_more_pod_restarts_none_and_counts_those_that_are_there(body: Any, labels: Any, container_name: str, pointer: str) -> None:
    here = shelf(body, labels, gpus=3, ready=True)
    plan = planned(here, "add_replicas", at(body["kind"], container_name))
    assert paths(plan) == [pointer]
    assert not any("Restarts" in note.en for note in plan.notes)
    execute_step(plan, 0, "op-1", here.writer())
    here.edit(body["kind"], "chat", lambda one: one["metadata"].update(managedFields=[{"manager": FIELD_MANAGER, "time": "2026-11-30T10:00:00Z"}]))
    assert (observe(plan, here).updated, observe(plan, here).wanted) == (1, 2)
    here.put(pod("chat-1", body, ready=True, labels=labels))
    assert observe(plan, here).done


def test_the_pods_stay_new_when_the_strategy_goes_back_after_the_rollout() -> None:
    here = shelf(custom("InferenceService", model(args=["--max-model-len=131072"]), **RAW), ISVC, ready=True)
    plan = planned(here, at=at("InferenceService", "kserve-container"))
    execute_step(plan, 0, "op-1", here.writer())
    undo = plan_undo(operation(plan), here, new_id=new_id)
    assert [step.after_rollout for step in undo.steps] == [False, True]
    there = pods_there(undo, here)
    execute_step(undo, 0, "op-2", here.writer())
    assert not observe(undo, here, there).done
    here.edit("Pod", "chat-0", lambda one: one["metadata"].update(uid="another"))
    for index in (1, 1):
        assert observe(undo, here, there).done
        execute_step(undo, index, "op-2", here.writer())


def daemon_set(**strategy: Any) -> dict[str, Any]:
    body = workload()
    body.update(kind="DaemonSet", status={"observedGeneration": 1, "desiredNumberScheduled": 1})
    body["metadata"]["uid"] = "DaemonSet-uid"
    del body["spec"]["replicas"], body["spec"]["strategy"]
    body["spec"]["updateStrategy"] = strategy
    return body


@pytest.mark.parametrize(("kind", "deletes"), [("RollingUpdate", 0), ("OnDelete", 1)])
def test_a_daemon_set_needs_a_deletion_only_with_on_delete(kind: str, deletes: int) -> None:
    plan = planned(shelf(daemon_set(type=kind), {}), at=at("DaemonSet"))
    assert len([step for step in plan.steps if step.kind is StepKind.DELETE_POD]) == deletes


def test_the_pods_of_a_daemon_set_are_new_when_they_were_not_there_before_the_write() -> None:
    here = shelf(daemon_set(type="RollingUpdate"), {}, ready=True)
    plan = planned(here, at=at("DaemonSet"))
    there = pods_there(plan, here)
    assert there == ("chat-0-uid",)
    assert not observe(plan, here, there).done
    here.edit("Pod", "chat-0", lambda body: body["metadata"].update(uid="another"))
    assert observe(plan, here, there).done


@pytest.mark.parametrize("made", ["2026-11-30T09:00:00Z", "2026-11-30T11:00:00Z"])
def test_which_pods_are_new_asks_no_clock(made: str) -> None:
    """The stamps of pods and of our write come from API servers whose clocks need not agree."""
    body = custom("LeaderWorkerSet", {"replicas": 1, "leaderWorkerTemplate": {"size": 1, "workerTemplate": {"spec": {"containers": [container()]}}}})
    labels = {"leaderworkerset.sigs.k8s.io/name": "chat", "leaderworkerset.sigs.k8s.io/worker-index": "0"}
    here = shelf(body, labels, ready=True)
    plan = planned(here, at=at("LeaderWorkerSet"))
    there = pods_there(plan, here)
    execute_step(plan, 0, "op-1", here.writer())
    here.edit("LeaderWorkerSet", "chat", lambda one: one["metadata"].update(managedFields=[{"manager": FIELD_MANAGER, "time": "2026-11-30T10:00:00Z"}]))
    here.edit("Pod", "chat-0", lambda one: one["metadata"].update(creationTimestamp=made))
    assert not observe(plan, here, there).done
    here.edit("Pod", "chat-0", lambda one: one["metadata"].update(uid="another"))
    assert observe(plan, here, there).done
