"""A Deployment or StatefulSet as the planner sees it: the object, the server's container in its template, its pods.

Reads plain JSON; decides nothing and writes nothing.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bot.model import ObjectRef
from bot.ports import ClusterReader, Json
from bot.remediation.pointer import MISSING, get, join

TEMPLATE = "/spec/template"
SUPPORTED = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1"}


@dataclass(frozen=True, slots=True)
class Shape:
    """Where things stand in an object of a kind, as JSON pointers. `template` is what an approval binds as a whole, `annotations` those of its pods
    ("" where the kind has none to give).

    `container`: the server's container where it does not stand in a list of containers.
    """

    template: str = TEMPLATE
    pod_spec: str = "/spec/template/spec"
    annotations: str = "/spec/template/metadata/annotations"
    container: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """`body` is the object as the API server sends it; `index` the place of the server's container in its template."""

    ref: ObjectRef
    body: Json
    index: int
    shape: Shape = Shape()

    @property
    def kind(self) -> str:
        return self.ref.kind

    @property
    def spec(self) -> Json:
        return dict(self.body.get("spec") or {})

    @property
    def template(self) -> Json:
        """The pod template: `metadata` and `spec`, whatever the kind."""
        if self.shape.template == TEMPLATE and self.shape.pod_spec.startswith(TEMPLATE + "/"):
            return dict(self.spec.get("template") or {})
        annotations = get(self.body, self.shape.annotations) if self.shape.annotations else MISSING
        return {"metadata": {} if annotations is MISSING else {"annotations": annotations}, "spec": self.pod_spec}

    @property
    def pod_spec(self) -> Json:
        """The spec of its pods. A server that stands apart (KServe's `model`) counts as the first container."""
        spec = get(self.body, self.shape.pod_spec)
        found = dict(spec) if isinstance(spec, dict) else {}
        return {**found, "containers": [self.container, *(found.get("containers") or [])]} if self.shape.container else found

    @property
    def container(self) -> Json:
        found = get(self.body, self.container_pointer)
        return dict(found) if isinstance(found, dict) else {}

    @property
    def container_name(self) -> str:
        """The name as it stands in the object; KServe names the container of a `model` itself."""
        return str(self.container.get("name") or ("kserve-container" if self.shape.container else ""))

    @property
    def container_pointer(self) -> str:
        return self.shape.container or self.shape.pod_spec + join("containers", self.index)

    @property
    def replicas(self) -> int:
        return int(self.spec.get("replicas", 1))


def metadata(body: Mapping[str, Any]) -> Json:
    return dict(body.get("metadata") or {})


def ref_of(body: Mapping[str, Any], api_version: str, kind: str) -> ObjectRef:
    """The reference of an object, with its UID. Items of a list carry no kind of their own, so it is handed in."""
    meta = metadata(body)
    return ObjectRef(api_version, kind, str(meta.get("namespace", "")), str(meta["name"]), str(meta.get("uid", "")))


def container_index(body: Mapping[str, Any], wanted: str) -> int | None:
    """The place of the server's container: the named one, else the only one, else the only one that asks for a GPU. None: cannot tell."""
    containers = (((body.get("spec") or {}).get("template") or {}).get("spec") or {}).get("containers") or []
    if wanted:
        named = [at for at, container in enumerate(containers) if container.get("name") == wanted]
        return named[0] if named else None
    if len(containers) == 1:
        return 0
    with_gpu = [at for at, container in enumerate(containers) if gpus_of(container)]
    return with_gpu[0] if len(with_gpu) == 1 else None


def is_gpu(resource: str) -> bool:
    """Whether a resource name counts GPUs or slices of one: nvidia.com/gpu, nvidia.com/mig-1g.10gb, amd.com/gpu."""
    return "/" in resource and ("gpu" in resource or "/mig-" in resource)


def gpus_of(container: Mapping[str, Any]) -> int:
    """How many GPUs (or slices) one container asks for."""
    resources = container.get("resources") or {}
    wanted = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return sum(int(amount) for name, amount in wanted.items() if is_gpu(name) and str(amount).isdigit())


def controller_of(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner that manages this object, if it has one."""
    return next((owner for owner in metadata(body).get("ownerReferences") or [] if owner.get("controller")), None)


def pods(body: Mapping[str, Any], kind: str, reader: ClusterReader) -> list[Json]:
    """The workload's pods, found by its selector and kept only when it (or one of its ReplicaSets) controls them."""
    meta = metadata(body)
    namespace = str(meta.get("namespace", ""))
    owners = {meta.get("uid")}
    if kind == "Deployment":
        owners = {metadata(one).get("uid") for one in replica_sets(body, reader)}
    found = reader.list("v1", "Pod", namespace, label_selector=selector(body), limit=5000)
    return [pod for pod in found if (controller_of(pod) or {}).get("uid") in owners]


def replica_sets(body: Mapping[str, Any], reader: ClusterReader) -> list[Json]:
    """The ReplicaSets that a Deployment controls, newest revision first."""
    meta = metadata(body)
    found = reader.list("apps/v1", "ReplicaSet", str(meta.get("namespace", "")), label_selector=selector(body), limit=5000)
    mine = [one for one in found if (controller_of(one) or {}).get("uid") == meta.get("uid")]
    return sorted(mine, key=revision, reverse=True)


def revision(body: Mapping[str, Any]) -> int:
    """The Deployment controller's revision number of an object; 0 when it has none."""
    number = str((metadata(body).get("annotations") or {}).get("deployment.kubernetes.io/revision", "0"))
    return int(number) if number.isdigit() else 0


def selector(body: Mapping[str, Any]) -> str:
    """`matchLabels` as a label selector; what `matchExpressions` would cut off is cut off by the owner instead."""
    labels = ((body.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def observed(body: Mapping[str, Any]) -> bool:
    """Whether the controller has seen the newest specification; one that never says so is taken to have."""
    status = body.get("status") or {}
    if "observedGeneration" not in status and body.get("kind") not in SUPPORTED:
        return True
    return int(status.get("observedGeneration", 0)) >= int(metadata(body).get("generation", 0))


def is_ready(pod: Mapping[str, Any]) -> bool:
    return condition(pod, "Ready").get("status") == "True" and not is_terminating(pod)


def serves(pod: Mapping[str, Any], now: datetime, steady: timedelta) -> bool:
    """Ready, and not only between two crashes: a server without a readiness probe is ready whenever its process runs."""
    return is_ready(pod) and not any(_crashed_since(status, now - steady) for status in (pod.get("status") or {}).get("containerStatuses") or [])


def _crashed_since(status: Mapping[str, Any], since: datetime) -> bool:
    started = parsed(((status.get("state") or {}).get("running") or {}).get("startedAt"))
    return int(status.get("restartCount", 0)) > 0 and started is not None and started > since


def parsed(stamp: Any) -> datetime | None:
    """A time as Kubernetes writes it ("2026-11-30T09:12:01Z"); None when there is none."""
    try:
        return datetime.fromisoformat(str(stamp)) if stamp else None
    except ValueError:
        return None


def is_terminating(pod: Mapping[str, Any]) -> bool:
    return bool(metadata(pod).get("deletionTimestamp"))


def condition(body: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """One condition of a status; empty when it is not there."""
    found = [one for one in (body.get("status") or {}).get("conditions") or [] if one.get("type") == kind]
    return found[0] if found else {}


def container_statuses(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or []
    yield from status.get("containerStatuses") or []


def ordinal(pod: Mapping[str, Any]) -> int:
    """The number at the end of a StatefulSet pod's name; -1 when there is none."""
    tail = str(metadata(pod).get("name", "")).rpartition("-")[2]
    return int(tail) if tail.isdigit() else -1


def surge(spec: Mapping[str, Any]) -> tuple[int, int]:
    """maxSurge and maxUnavailable of a rolling update in pods, as the Deployment controller rounds them."""
    rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
    replicas = int(spec.get("replicas", 1))
    more = share(rolling.get("maxSurge", "25%"), replicas, up=True)
    fewer = share(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    return (more, fewer) if more or fewer else (0, 1)


def share(amount: int | str, replicas: int, *, up: bool) -> int:
    """An amount of pods, or a percentage of the replicas, rounded."""
    if isinstance(amount, int):
        return amount
    share = int(amount.rstrip("%")) * replicas / 100
    return math.ceil(share) if up else math.floor(share)
