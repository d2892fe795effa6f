"""Kinds above Deployments that a person edits: where their pod templates stand, which pods are theirs, how many there should be.

LeaderWorkerSet, RayCluster, RayService, KServe's InferenceService and LLMInferenceService. Pure, but for the list of pods. What their controllers
do with a changed template is in `rollouts.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bot.ports import ClusterReader, Json
from bot.remediation.pointer import MISSING, get, join
from bot.remediation.shape import shape_of
from bot.remediation.workload import Shape, Workload, container_index, controller_of, metadata

LEADER, WORKER = "/spec/leaderWorkerTemplate/leaderTemplate/spec", "/spec/leaderWorkerTemplate/workerTemplate/spec"
MODEL = "/spec/predictor/model"
HEAD_GROUP = "headgroup"  # KubeRay's own name for the head


@dataclass(frozen=True, slots=True)
class Kind:
    """`group` of its API. `places`: the pod specs (JSON pointers), that of the given pod first. `labels` select its pods."""

    group: str
    places: Callable[[Json, Mapping[str, str]], Sequence[str]]
    labels: Callable[[str], str]
    wanted: Callable[[Workload], int]


def is_known(kind: str, api_version: str) -> bool:
    """Whether it is one of these kinds, of the group that it should have: others may be called the same."""
    return kind in KINDS and api_version.partition("/")[0] == KINDS[kind].group


def choices(body: Json, kind: str, labels: Mapping[str, str], container: str) -> list[tuple[int, Shape]]:
    """Where the server's container may stand, the pod's own template first: index and shape."""
    found: list[tuple[int, Shape]] = []
    if kind == "InferenceService" and isinstance(get(body, MODEL), Mapping):
        return [shape_of(kind, MODEL)]
    for pod_spec in KINDS[kind].places(body, labels):
        spec = get(body, pod_spec)
        if not isinstance(spec, Mapping):  # an LLMInferenceService may leave its whole template to a preset
            continue
        names = [container, ""] if container else [""]
        index = next((at for name in names if (at := container_index({"spec": {"template": {"spec": spec}}}, name)) is not None), None)
        if index is not None:
            found.append(shape_of(kind, pod_spec + join("containers", index)))
    return found


def pods(body: Json, kind: str, reader: ClusterReader) -> list[Json]:
    """The pods, by the labels that the controller gives them; those of a RayCluster only when it controls them."""
    meta = metadata(body)
    found = reader.list("v1", "Pod", str(meta.get("namespace", "")), label_selector=KINDS[kind].labels(str(meta["name"])), limit=5000)
    if kind == "RayCluster":
        return [pod for pod in found if (controller_of(pod) or {}).get("uid") == meta.get("uid")]
    return list(found)


def of_template(workload: Workload, found: Sequence[Json]) -> list[Json]:
    """Those pods that are made of the workload's template."""
    return [pod for pod in found if _place_of(workload, pod) == workload.shape.pod_spec]


def _place_of(workload: Workload, pod: Json) -> str:
    places = KINDS[workload.kind].places(dict(workload.body), metadata(pod).get("labels") or {})
    return places[0] if places else workload.shape.pod_spec


def group_name(workload: Workload) -> str:
    """The name of the Ray group whose template it is."""
    name = get(workload.body, workload.shape.template.rpartition("/")[0] + "/groupName")
    return HEAD_GROUP if name is MISSING else str(name)


def _leader_worker(body: Json, labels: Mapping[str, str]) -> Sequence[str]:
    leader = LEADER if get(body, LEADER) is not MISSING else WORKER
    first = WORKER if labels.get("leaderworkerset.sigs.k8s.io/worker-index", "0") != "0" else leader
    return list(dict.fromkeys([first, leader, WORKER]))


def _ray(prefix: str) -> Callable[[Json, Mapping[str, str]], Sequence[str]]:
    def places(body: Json, labels: Mapping[str, str]) -> Sequence[str]:
        groups = get(body, f"{prefix}/workerGroupSpecs")
        every = {HEAD_GROUP: f"{prefix}/headGroupSpec/template/spec"}
        for at, group in enumerate(groups if isinstance(groups, list) else []):
            every[str(group.get("groupName", at))] = f"{prefix}/workerGroupSpecs/{at}/template/spec"
        own = labels.get("ray.io/group", "")
        own = HEAD_GROUP if labels.get("ray.io/node-type") == "head" else own
        return list(dict.fromkeys([*([every[own]] if own in every else []), *([] if own in every else every.values())]))

    return places


def _predictor(body: Json, labels: Mapping[str, str]) -> Sequence[str]:
    return ["/spec/predictor"] if labels.get("component", "predictor") == "predictor" else []


def _llm(body: Json, labels: Mapping[str, str]) -> Sequence[str]:
    part = labels.get("app.kubernetes.io/component", "").rpartition("workload")[2]
    own = {"-prefill": "/spec/prefill/template", "-worker": "/spec/worker", "-prefill-worker": "/spec/prefill/worker"}.get(part, "/spec/template")
    return [own]


def _replicas(workload: Workload) -> int:
    return int(workload.spec.get("replicas", 1))


def _group_replicas(workload: Workload) -> int:
    if workload.shape.template.endswith("/headGroupSpec/template"):
        return 1
    group = get(workload.body, workload.shape.template.rpartition("/")[0])
    return int(group.get("replicas", 1)) * int(group.get("numOfHosts", 1)) if isinstance(group, Mapping) else 1


def _leader_worker_pods(workload: Workload) -> int:
    size = int((workload.spec.get("leaderWorkerTemplate") or {}).get("size", 1))
    both = workload.shape.pod_spec == WORKER and get(workload.body, LEADER) is MISSING
    return _replicas(workload) * (size if both else 1 if workload.shape.pod_spec == LEADER else size - 1)


KINDS: Mapping[str, Kind] = {
    "LeaderWorkerSet": Kind("leaderworkerset.x-k8s.io", _leader_worker, lambda name: f"leaderworkerset.sigs.k8s.io/name={name}", _leader_worker_pods),
    "RayCluster": Kind("ray.io", _ray("/spec"), lambda name: f"ray.io/cluster={name}", _group_replicas),
    "RayService": Kind(
        "ray.io", _ray("/spec/rayClusterConfig"), lambda name: f"ray.io/originated-from-cr-name={name},ray.io/originated-from-crd=RayService", _group_replicas
    ),
    "InferenceService": Kind(
        "serving.kserve.io", _predictor, lambda name: f"serving.kserve.io/inferenceservice={name}",
        lambda workload: max(1, int((workload.spec.get("predictor") or {}).get("minReplicas", 1))),
    ),
    "LLMInferenceService": Kind(
        "serving.kserve.io", _llm, lambda name: f"app.kubernetes.io/name={name},app.kubernetes.io/part-of=llminferenceservice", _replicas
    ),
}  # fmt: skip
