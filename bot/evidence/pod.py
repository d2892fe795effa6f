"""What belongs to a pod: its owners up to the object that a person edits, its containers, and when it failed. Reads only through a ClusterReader."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bot.errors import WorldError
from bot.model import ObjectRef
from bot.ports import ClusterReader, Json

MAX_OWNERS = 8


@dataclass(frozen=True, slots=True)
class Owners:
    """The chain from the pod's controller to the root. `root` is known even when the root itself could not be read; then `stopped` says why."""

    objects: tuple[Json, ...] = ()
    root: ObjectRef | None = None
    stopped: str = ""


def owners(pod: Json, reader: ClusterReader) -> Owners:
    """Walks the controller's `ownerReferences` as far as they go (ReplicaSet -> Deployment, StatefulSet -> LeaderWorkerSet, ...)."""
    namespace = str(pod["metadata"].get("namespace", ""))
    found: list[Json] = []
    root: ObjectRef | None = None
    current = pod
    while len(found) < MAX_OWNERS and (owner := _controller(current)):
        root = ObjectRef(str(owner["apiVersion"]), str(owner["kind"]), namespace, str(owner["name"]), str(owner.get("uid", "")))
        try:
            current = reader.get(root.api_version, root.kind, namespace, root.name)
        except WorldError as wrong:
            return Owners(tuple(found), root, str(wrong))
        if root.uid and current.get("metadata", {}).get("uid") != root.uid:
            return Owners(tuple(found), root, f"{root} is another one now (its UID differs)")
        found.append(current)
    return Owners(tuple(found), root)


def _controller(item: Json) -> Json | None:
    references = [
        each for each in (item.get("metadata") or {}).get("ownerReferences") or () if each.get("apiVersion") and each.get("kind") and each.get("name")
    ]
    return next((each for each in references if each.get("controller")), references[0] if len(references) == 1 else None)


@dataclass(frozen=True, slots=True)
class Container:
    """One container and its state, as far as the kubelet told."""

    name: str
    kind: str  # init | main | ephemeral
    state: str = ""  # running | waiting | terminated | "" (not told yet)
    id: str = ""
    last_id: str = ""  # of the one that ended before it
    restarts: int = 0

    @property
    def has_log(self) -> bool:
        return bool(self.id)

    @property
    def has_previous(self) -> bool:
        """Whether an earlier instance ended. While one waits for its restart, the kubelet serves the ended one as the current log too."""
        return bool(self.last_id) and self.last_id != self.id


def containers(pod: Json) -> Iterator[Container]:
    """All containers of the pod in the order init, main, ephemeral."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    for kind, key, statuses in (
        ("init", "initContainers", "initContainerStatuses"),
        ("main", "containers", "containerStatuses"),
        ("ephemeral", "ephemeralContainers", "ephemeralContainerStatuses"),
    ):
        told = {each.get("name"): each for each in status.get(statuses) or ()}
        for each in spec.get(key) or ():
            yield _container(str(each.get("name", "")), kind, told.get(each.get("name")) or {})


def _container(name: str, kind: str, status: Json) -> Container:
    state = next(iter(status.get("state") or {}), "")
    ended = (status.get("lastState") or {}).get("terminated") or {}
    now = str(status.get("containerID") or ((status.get("state") or {}).get("terminated") or {}).get("containerID") or "")
    return Container(name, kind, state, now, str(ended.get("containerID") or ""), int(status.get("restartCount") or 0))


def failed_at(pod: Json) -> str:
    """When the pod last failed, as an RFC 3339 time that sorts as text; "" when nothing of it ever failed.

    A container that ended with a status other than 0, an eviction or a rejection, a container that cannot start, or a pod that nobody can place."""
    status = pod.get("status") or {}
    moments: list[str] = []
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        for state in (each.get("state") or {}, each.get("lastState") or {}):
            ended = state.get("terminated") or {}
            if ended and (ended.get("exitCode") or ended.get("reason") not in ("Completed", None)):
                moments.append(str(ended.get("finishedAt") or ""))
        waiting = (each.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing", "CrashLoopBackOff"):
            moments.append(_created(pod))
    if status.get("phase") == "Failed":
        moments += [str(each.get("lastTransitionTime") or "") for each in status.get("conditions") or ()] or [_created(pod)]
    if any(each.get("type") == "PodScheduled" and each.get("status") == "False" for each in status.get("conditions") or ()):
        moments.append(_created(pod))
    return max(moments, default="")


def _created(pod: Json) -> str:
    return str((pod.get("metadata") or {}).get("creationTimestamp") or "")


def failed_last(pods: Sequence[Json]) -> Json:
    """Of a workload's pods the one that failed most recently; the newest one when none failed."""
    return max(pods, key=lambda pod: (failed_at(pod), _created(pod)))
