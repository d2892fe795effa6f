"""Workloads of every kind in shapes as people write them, drawn by a seed, for a test that plans every remedy for each. Valid for an API server, if odd."""

from random import Random
from typing import Any

from bot.model import Recommendation, Target
from bot.ports import Json
from bot.remediation import recipes
from bot.units import GIB
from tests.remediation.plans import recommendation
from tests.remediation.shelf import ShelfReader, node, pod, replica_set, workload
from tests.remediation.shelf import target as target_of
from tests.remediation.test_kinds import ISVC, LLM, RAW, SERVICE, at, custom, daemon_set

KINDS = ("Deployment", "StatefulSet", "DaemonSet", "LeaderWorkerSet", "RayCluster", "RayService", "InferenceService", "LLMInferenceService")
SIZES: dict[str, Any] = {
    "max_model_len": 57344, "gpu_memory_utilization": 0.93, "max_num_batched_tokens": 4096, "memory_limit": 48 * GIB, "memory_request": 20 * GIB,
    "shm_size": 8 * GIB, "grace_period": 120, "probe": 90, "kv_cache_memory_bytes": 4 * GIB, "add_replicas": None,
}  # fmt: skip
ARGS: tuple[Any, ...] = (
    None, [], ["--model=llama", "--max-model-len=131072"], ["--model", "llama", "--max-model-len", "131072", "--gpu-memory-utilization", "0.9"],
    ["serve", "m", "--max_model_len=131072"], ["--model=x", "--enforce-eager"], ["--model=x", "--max-model-len=$(LEN)"],
    ["--model=a", "--max-model-len=131072", "--max-model-len=4096"],
)  # fmt: skip
COMMANDS: tuple[Any, ...] = (
    None, None, ["vllm", "serve", "m"], ["sh", "-c", "vllm serve m --max-model-len 131072"], ["bash", "-lc", "source x; vllm serve m"],
    ["sh", "-c", "exec vllm serve m --max-model-len=131072 --api-key=$KEY"], ["python3", "-m", "vllm.entrypoints.openai.api_server", "--max-model-len", "131072"],
)  # fmt: skip
VARIABLES: tuple[Any, ...] = (
    None, [], [{"name": "LEN", "value": "131072"}], [{"name": "A", "value": "1"}, {"name": "PYTORCH_CUDA_ALLOC_CONF", "value": "max_split_size_mb:128"}],
    [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
)  # fmt: skip
RESOURCES: tuple[Any, ...] = (
    None, {}, {"limits": {"nvidia.com/gpu": "1", "memory": "32Gi", "cpu": "4"}}, {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
    {"limits": {"nvidia.com/gpu": "1", "memory": "32Gi"}, "requests": {"memory": "16Gi", "cpu": "2"}}, {"requests": {"cpu": "500m"}},
)  # fmt: skip
PROBE = {"httpGet": {"path": "/health", "port": 8000}, "failureThreshold": 3, "periodSeconds": 5}
SERVE = "applications:\n- name: llm\n  args:\n    llm_configs:\n    - engine_kwargs:\n        max_model_len: 131072 # tokens\n"


def remedies() -> list[Recommendation | str]:
    """Every remedy that has steps or says what to do by hand, in each of its directions."""
    return ["restart", *(recommendation(name, way, SIZES.get(name, 8)) for name, one in recipes.load().items() for way in one.directions or ["raise"])]


def place(dice: Random) -> tuple[str, ShelfReader, Target]:
    """The kind, a cluster with one such workload, and its target."""
    kind, count = dice.choice(KINDS), dice.choice([0, 1, 1, 2, 5])
    body, labels = _body(dice, kind, count)
    ready, gpus = dice.random() < 0.4, dice.choice([1, 2, 8])
    host = node(gpus=gpus)
    host["metadata"] |= {"uid": "node-uid", "resourceVersion": "7", "generation": 1}
    if kind == "Deployment":
        return kind, ShelfReader(body, replica_set(), *([pod("chat-r1-x", replica_set(), ready=ready)] if count else []), host), target_of()
    found = [pod(f"chat-{number}", body, ready=ready, labels=labels) for number in range(max(1, min(count, 3)))]
    target = target_of(kind) if kind in ("StatefulSet", "DaemonSet") else at(kind, "kserve-container" if kind == "InferenceService" else "server")
    return kind, ShelfReader(body, *found, host), target


def _container(dice: Random, name: str = "server") -> Json:
    probes = dice.choice([{}, {"startupProbe": PROBE}, {"livenessProbe": PROBE}])
    mounts = dice.choice([None, [{"name": "m", "mountPath": "/models"}], [{"name": "shm", "mountPath": "/dev/shm"}]])
    drawn = {"args": dice.choice(ARGS), "command": dice.choice(COMMANDS), "env": dice.choice(VARIABLES), "resources": dice.choice(RESOURCES), "volumeMounts": mounts}
    found = {"name": name, "image": "vllm/vllm-openai:v0.11.0", **drawn, **probes}
    return {key: value for key, value in found.items() if value is not None}


def _pod_spec(dice: Random) -> Json:
    containers = [_container(dice)]
    if dice.random() < 0.3:
        containers.insert(dice.choice([0, 1]), {"name": "side", "image": "x", "args": ["--max-model-len=1"]})
    memory = {"name": "shm", "emptyDir": {"medium": "Memory", **({"sizeLimit": "1Gi"} if dice.random() < 0.5 else {})}}
    volumes = dice.choice([None, [memory], [{"name": "m", "persistentVolumeClaim": {"claimName": "c"}}, memory]])
    more = {"volumes": volumes, "terminationGracePeriodSeconds": dice.choice([None, 10, 600])}
    return {"containers": containers, **{key: value for key, value in more.items() if value is not None}}


def _strategy(dice: Random) -> Json:
    rolling = {"maxSurge": dice.choice(["25%", "0%", 0, 1, 2, "100%"]), "maxUnavailable": dice.choice(["25%", 0, 1, "100%", "50%"])}
    return dice.choice([{"type": "Recreate"}, {"type": "RollingUpdate", "rollingUpdate": rolling}])


def _body(dice: Random, kind: str, count: int) -> tuple[Json, dict[str, str]]:
    spec = _pod_spec(dice)
    if kind in ("Deployment", "StatefulSet", "DaemonSet"):
        return _built_in(dice, kind, count, spec), {}
    if kind == "LeaderWorkerSet":
        leader = {"leaderTemplate": {"spec": _pod_spec(dice)}} if dice.random() < 0.5 else {}
        groups = {"size": 2, "workerTemplate": {"spec": spec}, **leader}
        index = {"leaderworkerset.sigs.k8s.io/name": "chat", "leaderworkerset.sigs.k8s.io/worker-index": dice.choice(["0", "1"])}
        return custom(kind, {"replicas": max(1, count), "leaderWorkerTemplate": groups}), index
    if kind in ("RayCluster", "RayService"):
        group = {"groupName": "gpu", "replicas": max(1, count), "template": {"spec": spec}}
        cluster = {"headGroupSpec": {"template": {"spec": _pod_spec(dice)}}, "workerGroupSpecs": [group]}
        serve = dice.choice([{}, {"serveConfigV2": SERVE}, {"serveConfigV2": "applications: []\n"}])
        labels = {**SERVICE, "ray.io/cluster": "chat", "ray.io/node-type": "worker"}
        return custom(kind, cluster if kind == "RayCluster" else {"rayClusterConfig": cluster, **serve}), labels
    if kind == "InferenceService":
        return _inference_service(dice, count), ISVC
    return custom(kind, {"replicas": max(1, count), **({"template": spec} if dice.random() < 0.8 else {"model": {"uri": "hf://x"}})}), LLM


def _built_in(dice: Random, kind: str, count: int, spec: Json) -> Json:
    body = daemon_set(type=dice.choice(["RollingUpdate", "OnDelete"])) if kind == "DaemonSet" else workload(kind, replicas=count)
    body["spec"]["template"]["spec"] = spec
    if dice.random() < 0.5:
        body["spec"]["template"]["metadata"]["annotations"] = {"a": "b"}
    if dice.random() < 0.3:
        body["metadata"].pop("annotations", None)
    if kind == "Deployment":
        body["spec"]["strategy"] = _strategy(dice)
    if kind == "StatefulSet":
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": dice.choice([0, 1])}}
        body["spec"] |= {"updateStrategy": dice.choice([{"type": "OnDelete"}, rolling]), "podManagementPolicy": dice.choice(["OrderedReady", "Parallel"])}
    return body


def _inference_service(dice: Random, count: int) -> Json:
    drawn = _container(dice, "kserve-container")
    nameless = {key: value for key, value in drawn.items() if key != "name"}
    predictor = dice.choice([{"model": {"modelFormat": {"name": "huggingface"}, **nameless}}, {"containers": [drawn]}])
    more = dice.choice([{}, {"minReplicas": count}, {"deploymentStrategy": _strategy(dice)}, {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]}])
    return custom("InferenceService", {"predictor": {**predictor, **more}}, **(RAW if dice.random() < 0.7 else {}))
