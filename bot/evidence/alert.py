"""Which target an alert names, from labels to a TargetQuery; pure but for `completed`, which asks a port for the labels.

Exporters that keep their own labels push the workload's aside as `exported_*` (Prometheus, honor_labels=false), so those are asked first:
with DCGM the plain `pod` is the exporter's. Source: Prometheus scrape configuration; kube-state-metrics, DCGM exporter and vLLM label names.
"""

from collections.abc import Mapping
from dataclasses import replace

from bot.model import Alert, Request, TargetQuery
from bot.ports import AlertDetails

_LIMIT = 253  # the longest name that Kubernetes allows

_LABELS: dict[str, tuple[str, ...]] = {
    "pod": ("exported_pod", "pod", "pod_name", "kubernetes_pod_name", "k8s.pod.name"),
    "namespace": ("exported_namespace", "namespace", "kubernetes_namespace", "k8s.namespace.name"),
    "container": ("exported_container", "container", "container_name", "k8s.container.name"),
    "deployment": ("deployment", "kubernetes_deployment"),
    "statefulset": ("statefulset",),
    "node": ("node", "node_name", "Hostname", "hostname"),
    "cluster": ("cluster", "cluster_name", "kubernetes_cluster"),
}


def completed(alerts: AlertDetails, request: Request) -> Request:
    """The request with its alert's details, and the target that they name. Raises what `fetch` raises: Temporary, Permanent."""
    if request.alert is None:
        return request
    alert = alerts.fetch(request.alert)
    return replace(request, alert=alert, query=target_of(alert))


def target_of(alert: Alert) -> TargetQuery:
    """The target that the alert's labels name: a pod before a workload before a node. `kind` is "unknown" when they name none;
    `text` then lists the labels that were looked for."""
    found = {name: _first(alert.labels, labels) for name, labels in _LABELS.items()}
    namespace, cluster = found["namespace"] or None, found["cluster"] or None
    if found["pod"]:
        return TargetQuery(_place(namespace, found["pod"]), "pod", found["pod"], namespace, cluster, found["container"] or None)
    for kind, label in (("Deployment", "deployment"), ("StatefulSet", "statefulset")):
        if found[label]:
            text = f"{kind.lower()}/{found[label]}"
            return TargetQuery(text, "workload", found[label], namespace, cluster, found["container"] or None, workload_kind=kind)
    if found["node"]:
        return TargetQuery(f"node/{found['node']}", "node", found["node"], None, cluster)
    return TargetQuery(_looked_for(alert), "unknown")


def _place(namespace: str | None, pod: str) -> str:
    return f"{namespace}/{pod}" if namespace else pod


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    """The first label that holds a name. Whatever could not be one (spaces, slashes, a template that was never filled) is passed over."""
    for name in names:
        value = str(labels.get(name, "")).strip()
        if value and len(value) <= _LIMIT and all(letter.isalnum() or letter in "-._" for letter in value):
            return value
    return ""


def _looked_for(alert: Alert) -> str:
    had = ", ".join(sorted(alert.labels)[:20]) or "none"
    return f"labels {', '.join(_LABELS)} (also as exported_*); the alert has: {had}"
