"""What the API server fills in and refuses when an object is written: only what a reader of the result could notice."""

from collections.abc import Callable, Iterator

from bot.ports import Json
from bot.sandbox.answers import ApiError, invalid
from bot.sandbox.cluster import selectors
from bot.sandbox.cluster.resources import Resource
from bot.units import quantity


def fill(resource: Resource, document: Json) -> None:
    """Fills in defaults, in place."""
    filler = _FILLERS.get(resource.kind)
    if filler:
        filler(document)
    if resource.has_status:
        document.setdefault("status", {})


def check(resource: Resource, document: Json, before: Json | None) -> None:
    """Refuses (422) what the real server would refuse for the kinds that the bot writes. `before` is None at creation."""
    kind, name, group = resource.kind, document["metadata"].get("name", ""), resource.group
    if kind in ("Deployment", "StatefulSet", "ReplicaSet"):
        _check_workload(kind, name, group, document, before)
    if kind == "Pod":
        _check_containers(document.get("spec") or {}, kind, name, group, "spec")
        if before is not None:
            _check_pod_change(name, document, before)


def _pod_spec(spec: Json) -> None:
    for key, value in {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
    }.items():
        spec.setdefault(key, value)
    spec.setdefault("securityContext", {})
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        container.setdefault("resources", {})
        _limits_are_requests(container["resources"])
        tag = str(container.get("image", "")).rpartition("/")[2].partition(":")[2]
        container.setdefault("imagePullPolicy", "IfNotPresent" if tag and tag != "latest" else "Always")
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        for port in container.get("ports") or []:
            port.setdefault("protocol", "TCP")
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in container:
                _probe(container[probe])


def _limits_are_requests(resources: Json) -> None:
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _probe(probe: Json) -> None:
    for key, value in {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}.items():
        probe.setdefault(key, value)
    if "httpGet" in probe:
        probe["httpGet"].setdefault("scheme", "HTTP")


def _pod(document: Json) -> None:
    spec = document.setdefault("spec", {})
    _pod_spec(spec)
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("tolerations", [])
    status = document.setdefault("status", {})
    status.setdefault("phase", "Pending")
    status.setdefault("qosClass", _quality(spec))


def _quality(spec: Json) -> str:
    sizes = [((row.get("resources") or {}).get("requests") or {}, (row.get("resources") or {}).get("limits") or {}) for row in spec.get("containers") or []]
    named = [key for requests, limits in sizes for key in (*requests, *limits) if key in ("cpu", "memory")]
    if not named:
        return "BestEffort"
    equal = all(key in limits and requests.get(key) == limits[key] for requests, limits in sizes for key in ("cpu", "memory"))
    return "Guaranteed" if equal else "Burstable"


def _template(spec: Json) -> None:
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {}).setdefault("creationTimestamp", None)
    _pod_spec(template.setdefault("spec", {}))


def _deployment(document: Json) -> None:
    spec = document.setdefault("spec", {})
    for key, value in {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}.items():
        spec.setdefault(key, value)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    _template(spec)


def _replica_set(document: Json) -> None:
    document.setdefault("spec", {}).setdefault("replicas", 1)
    _template(document["spec"])


def _stateful_set(document: Json) -> None:
    spec = document.setdefault("spec", {})
    for key, value in {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"}.items():
        spec.setdefault(key, value)
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})
    _template(spec)


def _namespace(document: Json) -> None:
    document.setdefault("spec", {"finalizers": ["kubernetes"]})
    document.setdefault("status", {"phase": "Active"})
    document["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = document["metadata"]["name"]


_FILLERS: dict[str, Callable[[Json], None]] = {
    "Pod": _pod,
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "StatefulSet": _stateful_set,
    "Namespace": _namespace,
}


def _check_workload(kind: str, name: str, group: str, document: Json, before: Json | None) -> None:
    spec = document.get("spec") or {}
    template = spec.get("template") or {}
    _check_containers(template.get("spec") or {}, kind, name, group, "spec.template.spec")
    if not isinstance(spec.get("replicas", 1), int) or spec.get("replicas", 1) < 0:
        raise invalid(kind, group, name, "spec.replicas", f"Invalid value: {spec.get('replicas')!r}: must be greater than or equal to 0")
    selector = spec.get("selector")
    if not selector:
        raise invalid(kind, group, name, "spec.selector", "Required value")
    if not selectors.of_selector(selector)(template):
        raise invalid(kind, group, name, "spec.template.metadata.labels", "Invalid value: `selector` does not match template `labels`")
    if before is not None and before["spec"].get("selector") != selector:
        raise invalid(kind, group, name, "spec.selector", "Invalid value: field is immutable")
    if kind == "Deployment":
        _check_strategy(name, group, spec.get("strategy") or {})
    if kind == "StatefulSet" and before is not None:
        _check_stateful_change(name, group, spec, before["spec"])


def _check_stateful_change(name: str, group: str, spec: Json, before: Json) -> None:
    may = ("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy", "minReadySeconds")
    if any(spec.get(key) != before.get(key) for key in {*spec, *before} if key not in may):
        named = "'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds'"
        raise invalid("StatefulSet", group, name, "spec", f"Forbidden: updates to statefulset spec for fields other than {named} are forbidden")


def _check_strategy(name: str, group: str, strategy: Json) -> None:
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") == "Recreate" and rolling is not None:
        why = "Forbidden: may not be specified when strategy `type` is 'Recreate'"
        raise invalid("Deployment", group, name, "spec.strategy.rollingUpdate", why)
    if rolling and all(str(rolling.get(key)) in ("0", "0%") for key in ("maxSurge", "maxUnavailable")):
        why = f"Invalid value: {rolling['maxUnavailable']}: may not be 0 when `maxSurge` is 0"
        raise invalid("Deployment", group, name, "spec.strategy.rollingUpdate.maxUnavailable", why)


def _check_containers(spec: Json, kind: str, name: str, group: str, at: str) -> None:
    if not spec.get("containers"):
        raise invalid(kind, group, name, f"{at}.containers", "Required value")
    for number, container in enumerate(spec["containers"]):
        for key in ("name", "image"):
            if not container.get(key):
                raise invalid(kind, group, name, f"{at}.containers[{number}].{key}", "Required value")
        for field, why in _problems(container, [row["name"] for row in spec.get("volumes") or []]):
            raise invalid(kind, group, name, f"{at}.containers[{number}].{field}", why)


def _problems(container: Json, volumes: list[str]) -> Iterator[tuple[str, str]]:
    """(field, why) of what cannot be in one container."""
    for number, row in enumerate(container.get("env") or []):
        if not row.get("name"):
            yield f"env[{number}].name", "Required value"
    for number, mount in enumerate(container.get("volumeMounts") or []):
        if mount.get("name") not in volumes:
            yield f"volumeMounts[{number}].name", f'Not found: "{mount.get("name")}"'
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        for key in ("failureThreshold", "periodSeconds", "timeoutSeconds", "initialDelaySeconds"):
            if (value := (container.get(kind) or {}).get(key, 0)) < 0:
                yield f"{kind}.{key}", f"Invalid value: {value}: must be greater than or equal to 0"
    yield from _sizes(container.get("resources") or {})


def _sizes(resources: Json) -> Iterator[tuple[str, str]]:
    limits = resources.get("limits") or {}
    for key, value in (resources.get("requests") or {}).items():
        try:
            if key in limits and quantity(value) > quantity(limits[key]):
                yield "resources.requests", f'Invalid value: "{value}": must be less than or equal to {key} limit of {limits[key]}'
        except ValueError:
            raise ApiError(422, "Invalid", f' "" is invalid: patch: Invalid value: quantities must match the regular expression: {value}') from None


def _check_pod_change(name: str, document: Json, before: Json) -> None:
    def fixed(pod: Json) -> Json:
        spec = {
            key: value for key, value in pod["spec"].items() if key not in ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "nodeName")
        }
        spec["containers"] = [{key: value for key, value in row.items() if key != "image"} for row in spec.get("containers") or []]
        return spec

    if fixed(document) != fixed(before):
        may = (
            "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)"
        )
        raise invalid("Pod", "", name, "spec", f"Forbidden: pod updates may not change fields other than {may}")
