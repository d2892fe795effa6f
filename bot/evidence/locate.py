"""From what somebody typed or an alert named to one Target, or an error that lists the candidates. Nothing is guessed: of several none is picked.

`query` understands a word (`pod-x`, `ns/pod`, `deploy/name`, `sts/name`, `node/name`, `endpoint/name`); `locate` finds it on the clusters. Of a
workload's pods it takes the one that failed last. It reads names and owners only; evidence is `collect`'s.
"""

import contextlib
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bot.errors import BadInput, Forbidden, NotFound, TargetAmbiguous, TargetNotFound, WorldError
from bot.evidence import endpoint
from bot.evidence.pod import failed_last, owners
from bot.evidence.server import container_of, gpus, server_container
from bot.model import ObjectRef, Target, TargetQuery
from bot.ports import ClusterReader, Json

MANY = 20_000  # pods of a cluster that are looked at for a prefix
SHOWN = 10  # candidates that are listed

FORM = "give a pod (`pod-x` or `namespace/pod-x`), a workload (`deploy/name`, `sts/name`), a node (`node/name`) or a Databricks endpoint (`endpoint/name`)"

_ENDPOINT = re.compile(r"[A-Za-z0-9_-]{1,63}")
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|[a-z0-9][a-z0-9.-]{0,250}-", re.IGNORECASE)  # a prefix may end with a dash
_KINDS = {
    "deploy": "Deployment", "deployment": "Deployment", "deployments": "Deployment", "deployment.apps": "Deployment",
    "sts": "StatefulSet", "statefulset": "StatefulSet", "statefulsets": "StatefulSet", "statefulset.apps": "StatefulSet",
    "ds": "DaemonSet", "daemonset": "DaemonSet", "daemonsets": "DaemonSet", "rs": "ReplicaSet", "replicaset": "ReplicaSet", "replicasets": "ReplicaSet",
    "job": "Job", "jobs": "Job", "lws": "LeaderWorkerSet", "leaderworkerset": "LeaderWorkerSet", "raycluster": "RayCluster", "rayservice": "RayService",
    "endpoint": endpoint.KIND, "endpoints": endpoint.KIND, "serving-endpoint": endpoint.KIND,
    "isvc": "InferenceService", "inferenceservice": "InferenceService", "llmisvc": "LLMInferenceService", "llminferenceservice": "LLMInferenceService",
}  # fmt: skip
_SHORT = {"Deployment": "deploy", "StatefulSet": "sts", "DaemonSet": "ds", "ReplicaSet": "rs", "Job": "job"}
_API = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "ReplicaSet": "apps/v1", "Job": "batch/v1",
        endpoint.KIND: endpoint.VERSION, "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1", "RayCluster": "ray.io/v1", "RayService": "ray.io/v1",
        "InferenceService": "serving.kserve.io/v1beta1", "LLMInferenceService": "serving.kserve.io/v1alpha1"}  # fmt: skip
_LABELS = {
    "LeaderWorkerSet": "leaderworkerset.sigs.k8s.io/name={}",
    "RayCluster": "ray.io/cluster={}",
    "RayService": "ray.io/originated-from-cr-name={},ray.io/originated-from-crd=RayService",
    "InferenceService": "serving.kserve.io/inferenceservice={}",
    "LLMInferenceService": "app.kubernetes.io/name={},app.kubernetes.io/part-of=llminferenceservice",
}  # by what these kinds' controllers label their pods
_PODS, _NODES = ("pod", "pods", "po"), ("node", "nodes", "no")


def query(word: str, namespace: str | None = None, cluster: str | None = None, container: str | None = None) -> TargetQuery:
    """What a word means. Raises BadInput with the right form. A namespace inside the word must agree with `namespace`."""
    parts = word.strip().split("/")
    if not 1 <= len(parts) <= 3 or not all(parts):
        raise BadInput(f"{word[:80]!r} is no target: {FORM}")
    if len(parts) == 3 or (len(parts) == 2 and parts[0].lower() not in {*_KINDS, *_PODS, *_NODES}):
        inner = parts.pop(0)
        if namespace and namespace != inner:
            raise BadInput(f"{word[:80]!r} names the namespace {inner!r}, but {namespace!r} was given too")
        namespace = inner
    kind, name = (parts[0].lower(), parts[1]) if len(parts) == 2 else ("pod", parts[0])
    if _KINDS.get(kind) == endpoint.KIND:
        return _of_endpoint(word, name, namespace, cluster, container)
    for label, value in (("name", name), ("namespace", namespace), ("container", container)):
        if value is not None and not _NAME.fullmatch(value):
            raise BadInput(f"{value[:80]!r} cannot be the {label} of anything in Kubernetes: {FORM}")
    if kind in _NODES:
        return TargetQuery(word, "node", name, None, cluster, container)
    if kind in _PODS:
        return TargetQuery(word, "pod", name, namespace, cluster, container)
    if kind not in _KINDS:
        raise BadInput(f"{kind[:40]!r} is no kind that can be checked: {FORM}")
    return TargetQuery(word, "workload", name, namespace, cluster, container, workload_kind=_KINDS[kind])


def _of_endpoint(word: str, name: str, namespace: str | None, cluster: str | None, container: str | None) -> TargetQuery:
    """A Databricks serving endpoint; `container` names a served entity."""
    if namespace:
        raise BadInput(f"{word[:80]!r}: an endpoint is in no namespace; `--cluster` names its workspace")
    if not _ENDPOINT.fullmatch(name):
        raise BadInput(f"{name[:80]!r} cannot be the name of a serving endpoint: letters, digits, dashes and underscores")
    return TargetQuery(word, "workload", name, None, cluster, container, workload_kind=endpoint.KIND)


@dataclass(frozen=True, slots=True)
class _Match:
    """An object that has the name, on one cluster."""

    cluster: str
    reader: ClusterReader
    item: Json

    @property
    def name(self) -> str:
        return str(self.item["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.item["metadata"].get("namespace", ""))

    def words(self, several_clusters: bool) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{place} (cluster {self.cluster})" if several_clusters else place


def locate(wanted: TargetQuery, clusters: Mapping[str, ClusterReader]) -> Target:
    """The one target. Raises TargetNotFound (with the nearest names), TargetAmbiguous (with all candidates), BadInput, or a WorldError
    when the clusters that would have to be asked do not answer."""
    if wanted.kind == "unknown" or not wanted.name:
        raise TargetNotFound(f"no target is named ({wanted.text[:200]}): {FORM}")
    asked = _clusters(wanted, clusters)
    kind = {"pod": "Pod", "node": "Node"}.get(wanted.kind) or wanted.workload_kind or "Deployment"
    match = _one(wanted, kind, _search(wanted, kind, asked), asked)
    if kind == "Node":
        return Target(match.cluster, "", "", node=match.name)
    if kind == endpoint.KIND:
        return _endpoint(match, wanted)
    if "spec" not in match.item:  # found by a prefix, among names only
        match = replace(match, item=match.reader.get(_API.get(kind, "v1"), kind, match.namespace, match.name))
    if kind == "Pod":
        return _target(match, match.item, wanted)
    return _target(match, _pod_of(match, kind), wanted)


def _clusters(wanted: TargetQuery, clusters: Mapping[str, ClusterReader]) -> Mapping[str, ClusterReader]:
    if not clusters:
        raise BadInput("no cluster is configured: name `clusters` in oombot.yaml")
    if not wanted.cluster:
        return clusters
    if wanted.cluster in clusters:
        return {wanted.cluster: clusters[wanted.cluster]}
    found = [name for name in clusters if name.startswith(wanted.cluster)]
    if len(found) != 1:
        raise BadInput(f"no cluster {wanted.cluster[:80]!r}; there are: {', '.join(sorted(clusters))}")
    return {found[0]: clusters[found[0]]}


def _search(wanted: TargetQuery, kind: str, clusters: Mapping[str, ClusterReader]) -> list[_Match]:
    """Exact names first, on every cluster; only then prefixes. A cluster that does not answer matters only when no other one has it."""
    wrong: list[WorldError] = []
    for exact in (True, False):
        found: list[_Match] = []
        for cluster, reader in clusters.items():
            try:
                found += [_Match(cluster, reader, item) for item in _named(wanted, kind, reader, exact)]
            except NotFound:
                continue  # a cluster that has no such kind has none of that name
            except WorldError as failed:
                wrong.append(failed)
        if found:
            return found
    if wrong:
        raise wrong[0]
    return []


def _named(wanted: TargetQuery, kind: str, reader: ClusterReader, exact: bool) -> Sequence[Json]:
    version, namespace = _API.get(kind, "v1"), "" if kind == "Node" else wanted.namespace or ""
    if exact and (namespace or kind == "Node"):
        try:
            return [reader.get(version, kind, namespace, wanted.name)]
        except NotFound:
            return []
    try:
        if exact:
            return reader.list(version, kind, namespace, field_selector=f"metadata.name={wanted.name}")
        return [item for item in reader.names(version, kind, namespace, limit=MANY) if str(item["metadata"]["name"]).startswith(wanted.name)]
    except Forbidden as wrong:
        if namespace or kind == "Node":
            raise
        raise Forbidden(f"{wrong}; these credentials may not look at all namespaces: name one (`namespace/pod`, or -n)") from wrong


def _one(wanted: TargetQuery, kind: str, found: Sequence[_Match], clusters: Mapping[str, ClusterReader]) -> _Match:
    if len(found) == 1:
        return found[0]
    if not found:
        raise _nothing(wanted, kind, clusters)
    names = sorted(match.words(len(clusters) > 1) for match in found)
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    what = {"Pod": "pods", "Node": "nodes"}.get(kind, f"{kind}s")
    hint = _workload_hint(found) if kind == "Pod" else ""
    raise TargetAmbiguous(f"{len(names)} {what} match {wanted.name!r}: {shown}{hint}", names)


def _workload_hint(found: Sequence[_Match]) -> str:
    """Where all the pods belong to one ReplicaSet or StatefulSet, its name is the shorter way."""
    references = {(match.cluster, match.namespace, ref["kind"], ref["name"]) for match in found for ref in match.item["metadata"].get("ownerReferences") or ()}
    if len(references) != 1:
        return ""
    _, namespace, kind, name = references.pop()
    if kind == "ReplicaSet":
        kind, name = "Deployment", name.rpartition("-")[0]
    return f"; `{_SHORT[kind]}/{name} -n {namespace}` takes the one that failed last" if kind in _SHORT and name else ""


def _nothing(wanted: TargetQuery, kind: str, clusters: Mapping[str, ClusterReader]) -> TargetNotFound:
    names: dict[str, str] = {}
    for cluster, reader in clusters.items():
        try:
            items = reader.names(_API.get(kind, "v1"), kind, "" if kind == "Node" else wanted.namespace or "", limit=MANY)
            if not items and wanted.namespace:
                items = reader.names(_API.get(kind, "v1"), kind, limit=MANY)
        except WorldError:
            continue
        for item in items:
            names.setdefault(str(item["metadata"]["name"]), _Match(cluster, reader, item).words(len(clusters) > 1))
    nearest = _nearest(wanted.name, names)
    where = f" in namespace {wanted.namespace}" if wanted.namespace else ""
    hint = _elsewhere(wanted, kind, clusters) or (f"; nearest: {', '.join(nearest)}" if nearest else "")
    return TargetNotFound(f"no {kind} is called {wanted.name!r}{where} (nor begins so){hint}", nearest)


def _nearest(word: str, names: Mapping[str, str]) -> list[str]:
    """The words for the names that are most like `word`, also by their beginning: people leave out what a controller appends."""
    keys: dict[str, str] = {}
    for name, words in names.items():
        for key in (name, name.rsplit("-", 1)[0], name.rsplit("-", 2)[0], name[: len(word)]):
            keys.setdefault(key, words)
    found = [keys[key] for key in difflib.get_close_matches(word, keys, n=10, cutoff=0.6)]
    return list(dict.fromkeys(found))[:5]


def _elsewhere(wanted: TargetQuery, kind: str, clusters: Mapping[str, ClusterReader]) -> str:
    """A workload or node of exactly that name, when a pod was asked for."""
    if kind != "Pod":
        return ""
    for other, form in (("Deployment", "deploy"), ("StatefulSet", "sts"), ("Node", "node")):
        for reader in clusters.values():
            with contextlib.suppress(WorldError):
                if _named(wanted, other, reader, exact=True):
                    return f"; there is a {other} of that name: {form}/{wanted.name}"
    return ""


def _endpoint(match: _Match, wanted: TargetQuery) -> Target:
    body = match.reader.get(endpoint.VERSION, endpoint.KIND, "", match.name)
    names = [str(one.get("name") or "") for one in body["status"]["entities"]]
    if wanted.container and wanted.container not in names:
        raise TargetNotFound(f"endpoint {match.name} serves no {wanted.container[:80]!r}; it serves {', '.join(names) or 'nothing'}", names)
    ref = ObjectRef(endpoint.VERSION, endpoint.KIND, "", match.name, str(body["metadata"]["uid"]))
    return Target(match.cluster, "", "", container=wanted.container or endpoint.failing(body), workload=ref)


def _pod_of(match: _Match, kind: str) -> Json:
    """The workload's pod that failed last."""
    spec = match.item.get("spec") or {}
    selector = _LABELS[kind].format(match.name) if kind in _LABELS else _selector(spec.get("selector") or {})
    pods = match.reader.list("v1", "Pod", match.namespace, label_selector=selector, limit=MANY) if selector else ()
    if not pods:
        wanted = spec.get("replicas", spec.get("parallelism", 1))
        raise TargetNotFound(f"{kind} {match.namespace}/{match.name} has no pods (it wants {wanted})")
    return failed_last(pods)


def _selector(selector: Json) -> str:
    """A label selector as the query string wants it."""
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for rule in selector.get("matchExpressions") or ():
        values = ",".join(rule.get("values") or ())
        operator = rule.get("operator")
        parts += [
            {"In": f"{rule['key']} in ({values})", "NotIn": f"{rule['key']} notin ({values})", "Exists": rule["key"], "DoesNotExist": f"!{rule['key']}"}[
                operator
            ]
        ]
    return ",".join(parts)


def _target(match: _Match, pod: Json, wanted: TargetQuery) -> Target:
    container = server_container(pod, wanted.container)
    chain = owners(pod, match.reader)
    return Target(
        cluster=match.cluster,
        namespace=str(pod["metadata"]["namespace"]),
        pod=str(pod["metadata"]["name"]),
        pod_uid=str(pod["metadata"].get("uid", "")),
        container=container,
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        workload=chain.root or _itself(pod),
        gpus=gpus(container_of(pod, container)),
    )


def _itself(pod: Json) -> ObjectRef:
    """A pod without an owner is what a person edits."""
    metadata = pod["metadata"]
    return ObjectRef("v1", "Pod", str(metadata["namespace"]), str(metadata["name"]), str(metadata.get("uid", "")))
