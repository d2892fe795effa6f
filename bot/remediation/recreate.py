"""Bare pods and Jobs, whose templates Kubernetes does not let anybody change: the whole manifest with the change, to delete and make anew by hand.

What the cluster filled in (status, identity, the node, the token's volume) is left out, so that the text can be applied as it stands. Secrets are covered.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from bot.errors import Permanent
from bot.model import ObjectRef, Target
from bot.ports import ClusterReader, Json
from bot.remediation.bound import is_clean
from bot.remediation.change import Edit
from bot.remediation.paste import REDACTED, dump
from bot.remediation.pointer import MISSING, apply, get, join
from bot.remediation.workload import Shape, Workload, container_index, metadata, ref_of

LONGEST = 2600  # characters that a message shows whole
ACCESS_VOLUME = "kube-api-access-"
POD = Shape("/spec", "/spec", "/metadata/annotations")
FILLED_IN = ("nodeName", "serviceAccount", "enableServiceLinks", "preemptionPolicy", "priority", "schedulerName")
JOB_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name")


def root(target: Target) -> ObjectRef | None:
    """The pod or Job that is deleted and made anew; None for other kinds."""
    found = target.workload
    if found is None or (found.kind == "Pod" and found.api_version == "v1"):
        return ObjectRef("v1", "Pod", target.namespace, target.pod, target.pod_uid) if target.pod else None
    return found if found.kind == "Job" and found.api_version.startswith("batch/") else None


def fetch(ref: ObjectRef, target: Target, reader: ClusterReader) -> Workload:
    """The object as the planner sees a workload. Raises NotFound, Permanent when the server's container is not in it."""
    body = reader.get(ref.api_version, ref.kind, ref.namespace, ref.name)
    shape = Shape() if ref.kind == "Job" else POD
    index = container_index({"spec": {"template": {"spec": get(body, shape.pod_spec)}}}, target.container)
    if index is None:
        raise Permanent(f"{ref} has no container {target.container!r}" if target.container else f"{ref}: name the server's container")
    return Workload(ref_of(body, ref.api_version, ref.kind), body, index, shape)


def paste(workload: Workload, edits: Sequence[Edit]) -> tuple[str, str]:
    """What to paste and its language: the way and the whole manifest; one too long for a message is kept and changed by commands instead."""
    after = apply(workload.body, [edit.operation() for edit in edits])
    whole = manifest(workload, after)
    if len(whole) <= LONGEST or not is_clean([edit.after for edit in edits if edit.after is not MISSING]):
        return whole, "yaml"
    return commands(workload, edits), "sh"


def commands(workload: Workload, edits: Sequence[Edit]) -> str:
    """Keeps the manifest in a file, changes a copy of it, and makes the object anew from that."""
    kind, name, namespace = workload.kind.lower(), workload.ref.name, workload.ref.namespace
    operations = [edit.operation() for edit in edits] + [{"op": "remove", "path": path} for path in _filled_in(workload)]
    change = shlex.quote(json.dumps(operations, ensure_ascii=False))
    return (
        f"kubectl -n {namespace} get {kind} {name} -o yaml > {name}.yaml  # kept\n"
        f"kubectl patch --local -f {name}.yaml --type=json -o yaml -p {change} > {name}-new.yaml\n"
        f"kubectl -n {namespace} delete {kind} {name}\n"
        f"kubectl create -f {name}-new.yaml\n"
    )


def _filled_in(workload: Workload) -> list[str]:
    """What the cluster filled in and would refuse or hold against a new object."""
    spec = workload.shape.pod_spec
    paths = ["/status", "/metadata/uid", "/metadata/resourceVersion", "/metadata/creationTimestamp", f"{spec}/nodeName"]
    if workload.kind == "Job":
        paths += ["/spec/selector", *(join(*place, label) for place in _LABELS for label in JOB_LABELS)]
    return [path for path in paths if get(workload.body, path) is not MISSING]


_LABELS = (("metadata", "labels"), ("spec", "template", "metadata", "labels"))


def manifest(workload: Workload, after: Mapping[str, Any]) -> str:
    """The way, then the manifest."""
    kind, name, namespace = workload.kind.lower(), workload.ref.name, workload.ref.namespace
    shown = dump(_cleaned(after, workload.kind))
    lines = [f"# 1. kubectl -n {namespace} delete {kind} {name}", "# 2. kubectl apply -f the-file-with-this.yaml"]
    if REDACTED in shown:
        lines.insert(0, f"# 0. put back what stands as {REDACTED} here: kubectl -n {namespace} get {kind} {name} -o yaml")
    return "\n".join([*lines, shown])


def _cleaned(body: Mapping[str, Any], kind: str) -> Json:
    meta = metadata(body)
    kept = {key: meta[key] for key in ("name", "namespace", "labels", "annotations") if meta.get(key)}
    spec = dict(body.get("spec") or {})
    if kind == "Job":
        kept = _without_labels(kept)
        template = {**spec["template"], "metadata": _without_labels(dict(spec["template"].get("metadata") or {})), "spec": _pod_spec(spec["template"]["spec"])}
        spec = {**{key: value for key, value in spec.items() if key != "selector"}, "template": template}
    else:
        spec = _pod_spec(spec)
    return {"apiVersion": "batch/v1" if kind == "Job" else "v1", "kind": kind, "metadata": kept, "spec": spec}


def _without_labels(meta: Json) -> Json:
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key not in JOB_LABELS}
    return {**{key: value for key, value in meta.items() if key not in ("labels", "creationTimestamp")}, **({"labels": labels} if labels else {})}


def _pod_spec(spec: Mapping[str, Any]) -> Json:
    kept = {key: value for key, value in spec.items() if key not in FILLED_IN}
    for key in ("containers", "initContainers"):
        if key in kept:
            kept[key] = [_container(one) for one in kept[key]]
    volumes = [one for one in kept.pop("volumes", None) or [] if not str(one.get("name", "")).startswith(ACCESS_VOLUME)]
    return {**kept, **({"volumes": volumes} if volumes else {})}


def _container(container: Mapping[str, Any]) -> Json:
    mounts = [one for one in container.get("volumeMounts") or [] if not str(one.get("name", "")).startswith(ACCESS_VOLUME)]
    rest = {key: value for key, value in container.items() if key not in ("volumeMounts", "terminationMessagePath", "terminationMessagePolicy")}
    return {**rest, **({"volumeMounts": mounts} if mounts else {})}


def is_changed(workload: Workload, after: Mapping[str, Any]) -> bool:
    """Whether the pod's own part differs, an annotation apart: a restart needs no new manifest of a pod."""
    before, now = get(workload.body, workload.shape.pod_spec), get(after, workload.shape.pod_spec)
    return before is not MISSING and before != now
