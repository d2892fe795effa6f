"""A cluster on a shelf: objects as plain JSON that the planner reads and the executor patches. It keeps what was sent, and runs no controller."""

import copy
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from bot.errors import Conflict, Forbidden, NotFound, Unsupported
from bot.model import ObjectRef, Target
from bot.ports import CommandOutput, Json, LogPiece
from bot.remediation import pointer

NOW = datetime(2026, 11, 30, 10, 17, tzinfo=UTC)
CLUSTER = "cluster-uid-1"


class Shelf:
    """Reader and writer of the same objects. `sent` holds every write that came through, dry runs apart."""

    def __init__(self, *objects: Json, forbidden: Sequence[str] = ()) -> None:
        self.name = "shelf"
        self.cluster_uid, self.time = CLUSTER, NOW
        self.forbidden = set(forbidden)
        self.sent: list[tuple[str, str]] = []
        self.dry: list[tuple[str, str]] = []
        self.before_patch: Callable[[], None] = lambda: None  # what somebody else does just before our patch arrives
        self._objects = {self._key(one): copy.deepcopy(one) for one in objects}

    @staticmethod
    def _key(body: Json) -> tuple[str, str, str]:
        return body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]

    def put(self, body: Json) -> None:
        self._objects[self._key(body)] = copy.deepcopy(body)

    def drop(self, kind: str, name: str, namespace: str = "llm") -> None:
        del self._objects[(kind, namespace, name)]

    def edit(self, kind: str, name: str, change: Callable[[Json], None], namespace: str = "llm") -> None:
        change(self._objects[(kind, namespace, name)])

    def seen(self, kind: str, name: str, namespace: str = "llm") -> Json:
        return copy.deepcopy(self._objects[(kind, namespace, name)])

    def uid(self) -> str:
        return self.cluster_uid

    def now(self) -> datetime:
        return self.time

    def names(self, api_version: str, kind: str, namespace: str = "", *, limit: int = 20_000) -> Sequence[Json]:
        return self.list(api_version, kind, namespace, limit=limit)

    def list(self, api_version: str, kind: str, namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = 500) -> Sequence[Json]:
        if kind in self.forbidden:
            raise Forbidden(f"{kind} is forbidden")
        wanted = dict(part.split("=") for part in label_selector.split(",") if part)
        node = field_selector.removeprefix("spec.nodeName=")
        found = [
            copy.deepcopy(body)
            for (one, where, _), body in self._objects.items()
            if one == kind
            and namespace in ("", where)
            and node in ("", body["spec"].get("nodeName"))
            and wanted.items() <= (body["metadata"].get("labels") or {}).items()
        ]
        return found[:limit]

    def log(self, namespace: str, pod: str, container: str, *, previous: bool = False, tail_lines: int | None = None, limit_bytes: int = 4 << 20) -> LogPiece:
        raise NotFound("a shelf has no logs")

    def run(self, namespace: str, pod: str, container: str, argv: Sequence[str], *, timeout_s: float = 10, limit_bytes: int = 1 << 20) -> CommandOutput:
        raise NotFound("a shelf runs nothing")

    def delete_pod(self, ref: ObjectRef, *, dry_run: bool) -> None:
        body = self._get("Pod", ref.namespace, ref.name)
        if body["metadata"]["uid"] != ref.uid:
            raise Conflict("the UID in the precondition does not match")
        if dry_run:
            self.dry.append(("delete", ref.name))
            return
        self.sent.append(("delete", ref.name))
        del self._objects[("Pod", ref.namespace, ref.name)]

    def create(self, body: Mapping[str, Any], *, dry_run: bool) -> Json:
        if self._key(dict(body)) in self._objects:
            raise Conflict(f"{body['metadata']['name']} already exists")
        if dry_run:
            self.dry.append(("create", body["metadata"]["name"]))
            return dict(body)
        self.sent.append(("create", body["metadata"]["name"]))
        made = copy.deepcopy(dict(body))
        made["metadata"]["uid"] = f"{body['metadata']['name']}-uid"
        self.put(made)
        return made

    def delete(self, ref: ObjectRef, *, dry_run: bool) -> None:
        if self._get(ref.kind, ref.namespace, ref.name)["metadata"]["uid"] != ref.uid:
            raise Conflict("the UID in the precondition does not match")
        (self.dry if dry_run else self.sent).append(("delete", ref.name))
        if not dry_run:
            del self._objects[(ref.kind, ref.namespace, ref.name)]

    def _get(self, kind: str, namespace: str, name: str) -> Json:
        if (kind, namespace, name) not in self._objects:
            raise NotFound(f'{kind} "{name}" not found')
        return copy.deepcopy(self._objects[(kind, namespace, name)])

    def patch_object(self, ref: ObjectRef, operations: Sequence[Mapping[str, Any]], *, dry_run: bool) -> Json:
        self.before_patch()
        body = self._get(ref.kind, ref.namespace, ref.name)
        try:
            after: Json = pointer.apply(body, operations)
        except pointer.PatchFailed as wrong:
            raise Conflict(str(wrong)) from wrong
        if dry_run:
            self.dry.append(("patch", ref.name))
            return after
        self.sent.append(("patch", ref.name))
        meta = after["metadata"]
        meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1)
        if after.get("spec") != body.get("spec"):
            meta["generation"] += 1
            after["status"]["observedGeneration"] = meta["generation"]
        self.put(after)
        return after


class ShelfReader(Shelf):
    """The reading side."""

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Json:
        return self._get(kind, namespace, name)

    def writer(self) -> "ShelfWriter":
        """The writing side of the same shelf."""
        return ShelfWriter(self)


class ShelfWriter:
    """The writing side."""

    def __init__(self, shelf: Shelf) -> None:
        self.name, self._shelf = shelf.name, shelf

    def uid(self) -> str:
        return self._shelf.uid()

    def get(self, ref: ObjectRef) -> Json:
        return self._shelf._get(ref.kind, ref.namespace, ref.name)

    def patch(self, ref: ObjectRef, operations: Sequence[Mapping[str, Any]], *, dry_run: bool) -> Json:
        return self._shelf.patch_object(ref, operations, dry_run=dry_run)

    def delete_pod(self, ref: ObjectRef, *, dry_run: bool) -> None:
        self._shelf.delete_pod(ref, dry_run=dry_run)

    def create_cron_job(self, ref: ObjectRef, body: Mapping[str, Any], *, dry_run: bool) -> Json:
        return self._shelf.create(body, dry_run=dry_run)

    def delete_cron_job(self, ref: ObjectRef, *, dry_run: bool) -> None:
        self._shelf.delete(ref, dry_run=dry_run)

    def stop_process(self, ref: ObjectRef, addresses: Sequence[str], pid: int, start: int, *, dry_run: bool) -> None:
        raise Unsupported("a shelf has no processes")

    def drop_segments(self, ref: ObjectRef, addresses: Sequence[str], words: Sequence[str], *, dry_run: bool) -> None:
        raise Unsupported("a shelf has no memory")


def container(**fields: Any) -> Json:
    """A server's container with one GPU; fields replace or add."""
    plain: Json = {
        "name": "server",
        "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--model=llama", "--max-model-len=131072"],
        "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "32Gi"}, "requests": {"nvidia.com/gpu": "1", "memory": "32Gi"}},
    }
    return {key: value for key, value in {**plain, **fields}.items() if value is not None}


def workload(kind: str = "Deployment", *, replicas: int = 1, containers: Sequence[Json] = (), meta: Json | None = None, **spec: Any) -> Json:
    """A Deployment or StatefulSet as an API server gives it back, defaults filled in."""
    ways: Json = {
        "Deployment": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}},
        "StatefulSet": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}, "podManagementPolicy": "OrderedReady"},
    }[kind]
    template = {"metadata": {"labels": {"app": "chat"}}, "spec": {"containers": list(containers) or [container()]}}
    annotations = {"deployment.kubernetes.io/revision": "1"} if kind == "Deployment" else None
    metadata = {"name": "chat", "namespace": "llm", "uid": f"{kind}-uid", "generation": 1, "resourceVersion": "211", "annotations": annotations, **(meta or {})}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {key: value for key, value in metadata.items() if value is not None},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "chat"}}, "template": template, **ways, **spec},
        "status": {"observedGeneration": 1, "replicas": replicas},
    }


def replica_set(revision: int = 1) -> Json:
    owner = {"kind": "Deployment", "name": "chat", "uid": "Deployment-uid", "controller": True}
    meta = {"name": f"chat-r{revision}", "namespace": "llm", "uid": f"rs-uid-{revision}", "labels": {"app": "chat"}, "ownerReferences": [owner]}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {**meta, "annotations": {"deployment.kubernetes.io/revision": str(revision)}},
        "spec": {},
    }


def pod(name: str, owner: Json, *, ready: bool = False, node: str | None = "gpu-1", labels: Mapping[str, str] = {}, **status: Any) -> Json:
    """A pod of an owner; not ready means that its container crashed."""
    reference = {"kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}
    spec: Json = {"containers": [container()]} | ({"nodeName": node} if node else {})
    state = {"running": {"startedAt": "2026-11-30T09:10:11Z"}} if ready else {"waiting": {"reason": "CrashLoopBackOff"}}
    statuses = [{"name": "server", "state": state, "restartCount": 0 if ready else 14, "ready": ready}]
    conditions = [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": "2026-11-30T09:12:01Z"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "llm",
            "uid": f"{name}-uid",
            "labels": {"app": "chat", **labels},
            "ownerReferences": [reference],
            "creationTimestamp": "2026-11-30T09:10:00Z",
        },
        "spec": spec,
        "status": {"phase": "Running", "conditions": conditions, "containerStatuses": statuses, **status},
    }


def node(name: str = "gpu-1", gpus: int = 1) -> Json:
    allocatable = {"nvidia.com/gpu": str(gpus), "memory": "256Gi", "cpu": "32"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def deployment_shelf(*, gpus: int = 1, ready: bool = False, body: Json | None = None) -> ShelfReader:
    """A Deployment of one replica on one node; its pod crash-loops unless it is ready."""
    revision = replica_set()
    return ShelfReader(body or workload(), revision, pod("chat-r1-x", revision, ready=ready), node(gpus=gpus))


def stateful_shelf(*, body: Json | None = None, pods: Sequence[Json] = ()) -> ShelfReader:
    owner = body or workload("StatefulSet")
    return ShelfReader(owner, *(pods or [pod("chat-0", owner)]), node())


def target(kind: str = "Deployment", pod_name: str | None = None, container_name: str = "server", uid: str | None = None) -> Target:
    name = pod_name if pod_name is not None else {"Deployment": "chat-r1-x", "StatefulSet": "chat-0"}.get(kind, "chat-0")
    ref = ObjectRef("apps/v1", kind, "llm", "chat", uid if uid is not None else f"{kind}-uid")
    return Target("shelf", "llm", name, f"{name}-uid", container_name, "gpu-1", ref, 1)
