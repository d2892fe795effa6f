"""Which kinds of object the simulated API server keeps, and the discovery documents that say so."""

from dataclasses import dataclass

from bot.ports import Json

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind. `has_spec`: its generation counts changes of everything but metadata and status; `has_status`: status is a subresource."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    has_spec: bool = False
    has_status: bool = False
    short: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> str:
        return f"{self.plural}.{self.group}"


def _apps(plural: str, kind: str, short: str) -> Resource:
    return Resource("apps", "v1", plural, kind, has_spec=True, has_status=True, short=(short,))


def _custom(group: str, version: str, plural: str, kind: str) -> Resource:
    return Resource(group, version, plural, kind, has_spec=True, has_status=True)


RBAC = "rbac.authorization.k8s.io"

RESOURCES = (
    Resource("", "v1", "namespaces", "Namespace", namespaced=False, has_status=True, short=("ns",)),
    Resource("", "v1", "nodes", "Node", namespaced=False, has_status=True, short=("no",)),
    Resource("", "v1", "pods", "Pod", has_spec=True, has_status=True, short=("po",)),
    Resource("", "v1", "events", "Event", short=("ev",)),
    Resource("", "v1", "services", "Service", has_status=True, short=("svc",)),
    Resource("", "v1", "configmaps", "ConfigMap", short=("cm",)),
    Resource("", "v1", "secrets", "Secret"),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", short=("sa",)),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", has_status=True, short=("pvc",)),
    Resource("", "v1", "resourcequotas", "ResourceQuota", has_status=True, short=("quota",)),
    Resource("", "v1", "limitranges", "LimitRange", short=("limits",)),
    _apps("deployments", "Deployment", "deploy"),
    _apps("replicasets", "ReplicaSet", "rs"),
    _apps("statefulsets", "StatefulSet", "sts"),
    _apps("daemonsets", "DaemonSet", "ds"),
    Resource("apps", "v1", "controllerrevisions", "ControllerRevision"),
    Resource("batch", "v1", "jobs", "Job", has_spec=True, has_status=True),
    Resource("batch", "v1", "cronjobs", "CronJob", has_spec=True, has_status=True, short=("cj",)),
    Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", has_status=True, short=("hpa",)),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", has_spec=True, has_status=True, short=("pdb",)),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    Resource(RBAC, "v1", "roles", "Role"),
    Resource(RBAC, "v1", "rolebindings", "RoleBinding"),
    Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    _custom("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"),
    _custom("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService"),
    _custom("serving.kserve.io", "v1alpha1", "llminferenceservices", "LLMInferenceService"),
    _custom("ray.io", "v1", "rayclusters", "RayCluster"),
    _custom("ray.io", "v1", "rayservices", "RayService"),
    _custom("argoproj.io", "v1alpha1", "applications", "Application"),
    _custom("kustomize.toolkit.fluxcd.io", "v1", "kustomizations", "Kustomization"),
    _custom("helm.toolkit.fluxcd.io", "v2", "helmreleases", "HelmRelease"),
)

BY_PATH = {(resource.group, resource.version, resource.plural): resource for resource in RESOURCES}
BY_KIND = {(resource.api_version, resource.kind): resource for resource in RESOURCES}
PODS = BY_PATH["", "v1", "pods"]
NODES = BY_PATH["", "v1", "nodes"]
EVENTS = BY_PATH["", "v1", "events"]
NAMESPACES = BY_PATH["", "v1", "namespaces"]
DEPLOYMENTS = BY_PATH["apps", "v1", "deployments"]
REPLICASETS = BY_PATH["apps", "v1", "replicasets"]
STATEFULSETS = BY_PATH["apps", "v1", "statefulsets"]
REVISIONS = BY_PATH["apps", "v1", "controllerrevisions"]
CLUSTER_ROLES = BY_PATH[RBAC, "v1", "clusterroles"]
CLUSTER_ROLE_BINDINGS = BY_PATH[RBAC, "v1", "clusterrolebindings"]
ROLES = BY_PATH[RBAC, "v1", "roles"]
ROLE_BINDINGS = BY_PATH[RBAC, "v1", "rolebindings"]

REVIEWS = "authorization.k8s.io"


def of(document: Json) -> Resource | None:
    """The resource of a manifest, by its apiVersion and kind."""
    return BY_KIND.get((str(document.get("apiVersion")), str(document.get("kind"))))


def groups() -> Json:
    """The answer of `/apis`."""
    listed = {**dict.fromkeys((resource.group, resource.version) for resource in RESOURCES if resource.group), (REVIEWS, "v1"): None}
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(group, version) for group, version in listed]}


def versions() -> Json:
    """The answer of `/api`."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def resource_list(group: str, version: str) -> Json | None:
    """The answer of `/api/v1` or `/apis/GROUP/VERSION`; None when there is no such group."""
    rows: list[Json] = []
    for resource in RESOURCES:
        if (resource.group, resource.version) == (group, version):
            rows += _rows(resource)
    if group == REVIEWS:
        rows = [{"name": "selfsubjectaccessreviews", "singularName": "", "namespaced": False, "kind": "SelfSubjectAccessReview", "verbs": ["create"]}]
    if not rows:
        return None
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/{version}" if group else version, "resources": rows}


def _group(group: str, version: str) -> Json:
    named = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [named], "preferredVersion": named}


def _rows(resource: Resource) -> list[Json]:
    base = {"singularName": resource.kind.lower(), "namespaced": resource.namespaced, "kind": resource.kind}
    rows: list[Json] = [{"name": resource.plural, **base, "verbs": VERBS, "shortNames": list(resource.short)}]
    if resource.has_status:
        rows.append({"name": f"{resource.plural}/status", **base, "verbs": ["get", "patch", "update"]})
    if resource is PODS:
        rows += [{"name": "pods/log", **base, "verbs": ["get"]}, {"name": "pods/exec", **base, "kind": "PodExecOptions", "verbs": ["create", "get"]}]
    return rows
