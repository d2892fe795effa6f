"""One journey for each kind above Deployments, on both clusters: found from its pod, changed in the object that people edit, ready only with the fix, undone."""

import contextlib
import functools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from bot.evidence.locate import locate, query
from bot.model import Handout, ObjectRef, Remediation, Target
from bot.remediation import dry_run, execute_step, plan, plan_undo
from bot.remediation.workload import is_ready
from bot.sandbox.behaviours import ANNOTATION
from bot.sandbox.kubelet.machine import machine
from bot.units import GIB
from tests.remediation.operators import Operator
from tests.remediation.place import MODEL, Place, restarts, until
from tests.remediation.plans import new_id, operation, planned, recommendation

IMAGE = "vllm/vllm-openai:v0.11.0"
RESOURCES = {"limits": {"nvidia.com/gpu": "1", "memory": "32Gi", "cpu": "4"}}
ARGS = [f"--model={MODEL}", "--max-model-len=131072"]
SERVES = {"ready_after": 2, "log": ["serving"]}
VERSIONS = {
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1", "RayCluster": "ray.io/v1", "RayService": "ray.io/v1",
    "InferenceService": "serving.kserve.io/v1beta1", "LLMInferenceService": "serving.kserve.io/v1alpha1",
}  # fmt: skip


def pod_spec(place: Place, **fields: Any) -> dict[str, Any]:
    server = {"name": "server", "image": IMAGE, "args": list(ARGS), "resources": json.loads(json.dumps(RESOURCES)), **fields}
    return {"containers": [server], "terminationGracePeriodSeconds": 1, "nodeSelector": {"pool": place.namespace}}


def leader_worker_set(place: Place) -> dict[str, Any]:
    return {
        "replicas": 1,
        "leaderWorkerTemplate": {"size": 1, "leaderTemplate": {"spec": pod_spec(place)}, "workerTemplate": {"spec": pod_spec(place, args=["ray"])}},
    }


def inference_service(place: Place) -> dict[str, Any]:
    model = {"modelFormat": {"name": "huggingface"}, "image": IMAGE, "args": list(ARGS), "resources": json.loads(json.dumps(RESOURCES))}
    return {"predictor": {"minReplicas": 1, "nodeSelector": {"pool": place.namespace}, "model": model}}


def llm_inference_service(place: Place) -> dict[str, Any]:
    return {"replicas": 1, "template": pod_spec(place, name="main")}


def ray_groups(place: Place) -> dict[str, Any]:
    template = {"metadata": {"annotations": {ANNOTATION: json.dumps(SERVES)}}, "spec": pod_spec(place)}
    head = {"template": {"spec": pod_spec(place, args=["ray"])}}
    return {"headGroupSpec": head, "workerGroupSpecs": [{"groupName": "gpu", "replicas": 1, "template": template}]}


@pytest.fixture
def kinds(place: Place) -> Iterator[Place]:
    """The place, emptied of the kinds that it does not know of."""
    yield place
    for kind, version in VERSIONS.items():
        until(functools.partial(emptied, place, kind, version))


def emptied(place: Place, kind: str, version: str) -> bool | None:
    """True when none is left. A new definition's storage answers 429 at first, and the garbage collector may be faster."""
    try:
        for one in place.cluster.objects(version, kind, place.namespace):
            place.cluster.delete(kind, place.namespace, one["metadata"]["name"], api_version=version)
    except AssertionError:
        return None
    return True


def applied(place: Place, kind: str, spec: dict[str, Any], **meta: Any) -> None:
    place.cluster.apply({"apiVersion": VERSIONS[kind], "kind": kind, "metadata": {"name": "chat", "namespace": place.namespace, **meta}, "spec": spec})


def body(place: Place, kind: str) -> dict[str, Any]:
    return dict(place.reader.get(VERSIONS[kind], kind, place.namespace, "chat"))


def found(place: Place, pod: dict[str, Any]) -> Target:
    return locate(query(f"{place.namespace}/{pod['metadata']['name']}"), {"sandbox": place.reader})


def first(place: Place, wanted: Any) -> dict[str, Any]:
    return dict(until(lambda: next((one for one in place.pods() if wanted(one)), None)))


def undone(place: Place, plan: Remediation) -> None:
    undo = plan_undo(operation(plan), place.reader, new_id=new_id)
    for index in range(len(undo.steps)):
        if not undo.steps[index].after_rollout:
            execute_step(undo, index, "op-2", place.writer)


@pytest.mark.parametrize(
    ("kind", "spec", "container"),
    [
        ("LeaderWorkerSet", leader_worker_set, "server"),
        ("InferenceService", inference_service, "kserve-container"),
        ("LLMInferenceService", llm_inference_service, "main"),
    ],
)
def test_a_crash_looping_server_is_found_fixed_ready_and_put_back(kinds: Place, kind: str, spec: Any, container: str) -> None:
    meta = {"annotations": {"serving.kserve.io/deploymentMode": "RawDeployment"}} if kind == "InferenceService" else {}
    with Operator(kinds.cluster, kind, VERSIONS[kind], kinds.namespace):
        applied(kinds, kind, spec(kinds), **meta)
        target = found(kinds, first(kinds, lambda one: restarts(one) >= 1))
        assert target.workload is not None
        assert (target.workload.kind, target.container) == (kind, container)
        assert locate(query(f"{kind.lower()}/chat", kinds.namespace), {"sandbox": kinds.reader}) == target
        if kind == "LLMInferenceService":
            kinds.cluster.add_machine(machine(f"spare-{kinds.namespace}", labels={"pool": kinds.namespace}))
        before = body(kinds, kind)["spec"]
        plan = planned(kinds.reader, recommendation(), target, now=datetime.now(UTC))
        assert plan.object.kind == kind
        rollout = kinds.carry_out(plan, "op-1")
        assert (rollout.ready, rollout.wanted) == (1, 1)
        assert "--max-model-len=57344" in json.dumps([one["spec"] for one in kinds.pods()])
        undo = plan_undo(operation(plan), kinds.reader, new_id=new_id)
        assert any(step.after_rollout for step in undo.steps) == (kind == "InferenceService")  # the strategy goes back last
        assert kinds.carry_out(undo, "op-2").done
        assert body(kinds, kind)["spec"] == before


def test_an_inference_service_lets_its_old_pod_go_first_where_no_gpu_is_free(kinds: Place) -> None:
    kind = "InferenceService"
    with Operator(kinds.cluster, kind, VERSIONS[kind], kinds.namespace):
        applied(kinds, kind, inference_service(kinds), annotations={"serving.kserve.io/deploymentMode": "RawDeployment"})
        plan = planned(kinds.reader, recommendation(), found(kinds, first(kinds, lambda one: restarts(one) >= 1)), now=datetime.now(UTC))
    assert "deploymentStrategy:" in plan.diff
    assert any("none is free" in note.en for note in plan.notes)


def test_the_pods_of_a_ray_group_are_deleted_and_made_anew(kinds: Place) -> None:
    with Operator(kinds.cluster, "RayCluster", VERSIONS["RayCluster"], kinds.namespace):
        applied(kinds, "RayCluster", ray_groups(kinds))
        old = first(kinds, is_ready)
        plan = planned(kinds.reader, recommendation("memory_limit", "raise", 48 * GIB), found(kinds, old), now=datetime.now(UTC))
        assert [step.object.name for step in plan.steps] == ["chat", "chat-0"]
        rollout = kinds.carry_out(plan, "op-1")
        assert (rollout.ready, rollout.wanted) == (1, 1)
        assert first(kinds, is_ready)["spec"]["containers"][0]["resources"]["limits"]["memory"] == "48Gi"
        undone(kinds, plan)
    assert body(kinds, "RayCluster")["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] == "32Gi"


@pytest.mark.parametrize("strategy", ["RollingUpdate", "OnDelete"])
def test_a_daemon_set_gets_the_fix_on_its_node(place: Place, strategy: str) -> None:
    spec = {"updateStrategy": {"type": strategy}, "selector": {"matchLabels": {"app": "chat"}}}
    template = {"metadata": {"labels": {"app": "chat"}}, "spec": pod_spec(place)}
    document = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "chat", "namespace": place.namespace},
        "spec": {**spec, "template": template},
    }
    real = place.cluster.name == "real"
    with contextlib.nullcontext() if real else Operator(place.cluster, "DaemonSet", "apps/v1", place.namespace):
        place.cluster.apply(document)
        target = found(place, first(place, lambda one: restarts(one) >= 1))
        before = place.body("DaemonSet")["spec"]
        plan = planned(place.reader, recommendation(), target, now=datetime.now(UTC))
        assert len(plan.steps) == (2 if strategy == "OnDelete" else 1)
        rollout = place.carry_out(plan, "op-1")
        assert (rollout.ready, rollout.wanted) == (1, 1)
        assert [one["spec"]["containers"][0]["args"][1] for one in place.pods()] == ["--max-model-len=57344"]
        undone(place, plan)
        assert place.body("DaemonSet")["spec"] == before


SERVE = "applications:\n- name: llm\n  args:\n    llm_configs:\n    - model_loading_config: {model_id: chat}\n      engine_kwargs:\n        max_model_len: 131072 # long\n"


def test_a_ray_service_makes_a_second_cluster_and_its_engine_options_stand_in_its_yaml(kinds: Place) -> None:
    kinds.cluster.add_machine(machine(f"spare-{kinds.namespace}", labels={"pool": kinds.namespace}))
    with Operator(kinds.cluster, "RayService", VERSIONS["RayService"], kinds.namespace):
        applied(kinds, "RayService", {"serveConfigV2": SERVE, "rayClusterConfig": ray_groups(kinds)})
        target = found(kinds, first(kinds, is_ready))
        before = body(kinds, "RayService")["spec"]
        memory = planned(kinds.reader, recommendation("memory_limit", "raise", 48 * GIB), target, now=datetime.now(UTC))
        assert kinds.carry_out(memory, "op-1").ready == 1
        undone(kinds, memory)
        assert body(kinds, "RayService")["spec"] == before
        plan = planned(kinds.reader, recommendation(), target, now=datetime.now(UTC))
        execute_step(plan, 0, "op-3", kinds.writer)
        assert body(kinds, "RayService")["spec"]["serveConfigV2"] == SERVE.replace("131072", "57344")
        undone(kinds, plan)
        assert body(kinds, "RayService")["spec"] == before


@pytest.mark.parametrize(
    "wanted",
    [
        recommendation("max_num_seqs", to=64),
        recommendation("cudagraph_estimate", "disable", None),
        recommendation("memory_limit", "raise", 48 * GIB),
        recommendation("cpu_limit", "remove", None),
        recommendation("shm_size", "raise", 8 * GIB),
        recommendation("grace_period", "raise", 120),
        "restart",
    ],
    ids=lambda wanted: str(getattr(wanted, "id", wanted)),
)
@pytest.mark.parametrize("kind", ["LeaderWorkerSet", "InferenceService", "LLMInferenceService", "RayCluster", "RayService"])
def test_each_action_is_taken_by_the_server_and_undone_to_the_letter(kinds: Place, kind: str, wanted: Any) -> None:
    kinds.cluster.add_machine(machine(f"spare-{kinds.namespace}", labels={"pool": kinds.namespace}))
    specs: dict[str, Any] = {
        "LeaderWorkerSet": leader_worker_set,
        "InferenceService": inference_service,
        "LLMInferenceService": llm_inference_service,
        "RayCluster": ray_groups,
    }
    spec = {"rayClusterConfig": ray_groups(kinds)} if kind == "RayService" else specs[kind](kinds)
    applied(kinds, kind, spec, annotations={"serving.kserve.io/deploymentMode": "RawDeployment"})
    before = until(lambda: body(kinds, kind))
    ref = ObjectRef(VERSIONS[kind], kind, kinds.namespace, "chat", before["metadata"]["uid"])
    made = plan(wanted, Target("sandbox", kinds.namespace, "", workload=ref), kinds.reader, now=datetime.now(UTC), new_id=new_id)
    if isinstance(made, Handout):
        assert (kind, wanted) == ("LLMInferenceService", "restart")
        return
    dry_run(made, kinds.writer)
    execute_step(made, 0, "op-1", kinds.writer)
    assert body(kinds, kind)["spec"] != before["spec"]
    if wanted != "restart":
        undone(kinds, made)
        assert body(kinds, kind)["spec"] == before["spec"]
