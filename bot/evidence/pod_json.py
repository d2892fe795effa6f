"""`pod.json` (kubectl get pod -o json): what the pod asked for, what became of each of its containers, what the control plane said of it.

Facts: `pod.<name>` for the pod, `pod.container.<n>.<name>` for its containers in the order init, main, ephemeral. Which of
them is the incident is not decided here (`bot/diagnosis/host_container.py` does), and nothing is read from elsewhere.
"""

import re
from collections.abc import Callable

from bot.evidence.document import Document, Node
from bot.evidence.reading import Reading
from bot.evidence.server import fill
from bot.model import Fact, Gap, Value
from bot.units import quantity

MAX_CONTAINERS = 40
NO_WORDS = "PodScheduled is False"  # of a condition that came without a message
_SHM = "/dev/" + "shm"  # a mount point to look for; nothing is written there

_Add = Callable[[str, Value | None, Node], None]

_SERVER = re.compile(
    r"vllm|sglang|text-generation|tritonserver|trtllm|tensorrt.?llm|lmdeploy|llama\.cpp|huggingfaceserver|/tgi\b|aphrodite|ray-llm", re.IGNORECASE
)
_SIDECAR = re.compile(
    r"istio|envoy|linkerd|telegraf|fluent|filebeat|vector\b|promtail|otel|opentelemetry|queue-proxy|sidecar|exporter|vault|sql-?proxy|oauth2?-proxy|kube-rbac-proxy|"
    r"jaeger|datadog|newrelic|statsd|consul|dapr|cloudwatch|reloader|log-?(?:agent|tail|ship|collector|router)|metrics-|autoscaler|dcgm|pause\b|nginx-proxy|proxyv2|argoexec|tekton.{0,20}entrypoint",
    re.IGNORECASE,
)
_GPU = re.compile(r"(?:^|[./])(?:gpu(?:\.shared)?|mig-[0-9a-z.]+|ATOM|npu|hpu|gaudi|neuron|neuroncore|xpu|i915|Ascend\w*)$", re.IGNORECASE)
_WAITS = re.compile(r"^(?:\S*/?(?:ba|da)?sh\s+-\w*c\s+)?(?:exec\s+)?(?:\S*/)?(?:sleep\s+(?:\d{1,15}\w?|infinity)|tail\s+-[fF]\s+/dev/null|pause)\s*$")  # it answers nobody
_LIGHT = re.compile(r"router|gateway|proxy|litellm|nginx|haproxy|redis|ray-head|\bhead\b|controller|operator|scheduler|dashboard|frontend", re.IGNORECASE)
_DRIVER = re.compile(r"device-plugin|dcgm|gpu-operator|nvidia-driver", re.IGNORECASE)


def read(data: bytes, source: str) -> Reading:
    """Facts of the pod; when several pods are listed, of the one that looks worst."""
    document = Document(data, source)
    pod = _pick(document.root)
    gaps = () if document.complete else (Gap(source, "damaged or cut", "what the pod asked for and how its containers ended"),)
    if not pod.at("metadata") and not pod.at("spec") and not pod.at("status"):
        return Reading(gaps=gaps or (Gap(source, "no pod in it", "what the pod asked for and how its containers ended"),))
    facts = _Facts(document)
    _pod(pod, facts)
    _verdicts(pod, facts)
    for index, (kind, spec, status) in enumerate(_containers(pod)[:MAX_CONTAINERS]):
        _container(index, kind, spec, status, pod, facts)
    facts.add("pod.looked", True, pod.at("metadata", "name"))
    return Reading(tuple(facts.found), ("pod.",) if document.complete else (), gaps)


class _Facts:
    """Collects facts with their places; None and "" are no facts."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.found: list[Fact] = []

    def add(self, name: str, value: Value | None, node: Node) -> None:
        if value is not None and value != "":
            self.found.append(Fact(name, value, self.document.place(node)))


def _pick(root: Node) -> Node:
    pods = [item for item in root.each("items") if item.at("spec") or item.at("status")]
    return max(pods, key=_trouble) if pods else root


def _trouble(pod: Node) -> int:
    """How bad a pod looks: a failed one before one with restarts before a quiet one."""
    restarts = sum(status.integer("restartCount") or 0 for status in pod.each("status", "containerStatuses"))
    return (pod.text("status", "phase") == "Failed") * 10_000 + (pod.text("status", "phase") == "Pending") * 5_000 + min(restarts, 4_999)


def _pod(pod: Node, facts: _Facts) -> None:
    for name, path in (
        ("name", ("metadata", "name")),
        ("namespace", ("metadata", "namespace")),
        ("uid", ("metadata", "uid")),
        ("node", ("spec", "nodeName")),
        ("restart_policy", ("spec", "restartPolicy")),
        ("phase", ("status", "phase")),
        ("reason", ("status", "reason")),
        ("message", ("status", "message")),
        ("qos", ("status", "qosClass")),
    ):
        facts.add(f"pod.{name}", pod.text(*path), pod.at(*path))
    static = pod.at("metadata", "annotations", "kubernetes.io/config.hash")
    facts.add("pod.config_hash", static.text(), static)
    facts.add("pod.deleted_at", pod.seconds("metadata", "deletionTimestamp"), pod.at("metadata", "deletionTimestamp"))
    facts.add("pod.delete_grace_s", pod.integer("metadata", "deletionGracePeriodSeconds"), pod.at("metadata", "deletionGracePeriodSeconds"))
    facts.add("pod.grace_s", pod.integer("spec", "terminationGracePeriodSeconds"), pod.at("spec", "terminationGracePeriodSeconds"))
    facts.add("pod.active_deadline_s", pod.integer("spec", "activeDeadlineSeconds"), pod.at("spec", "activeDeadlineSeconds"))
    memory = tuple(volume.text("name") for volume in pod.each("spec", "volumes") if volume.text("emptyDir", "medium") == "Memory")
    facts.add("pod.memory_volumes", memory[:40] or None, pod.at("spec", "volumes"))
    for owner in pod.each("metadata", "ownerReferences"):
        facts.add("pod.owner_kind", owner.text("kind"), owner.at("kind"))
        facts.add("pod.owner_name", owner.text("name"), owner.at("name"))
        break


_EVICTIONS = (  # what the kubelet writes, and what was short
    (re.compile(r"low on resource: ?\[?MemoryPressure|low on resource: ?memory|had condition: \[[^\]]*MemoryPressure", re.IGNORECASE), "memory"),
    (re.compile(r"on resource: ?ephemeral-storage|local storage usage exceeds|its local ephemeral storage|DiskPressure", re.IGNORECASE), "ephemeral-storage"),
    (re.compile(r"Usage of EmptyDir volume", re.IGNORECASE), "empty-dir"),
    (re.compile(r"low on resource: ?(?:pids?|process)|PIDPressure", re.IGNORECASE), "pids"),
    (re.compile(r"low on resource: ?inodes|inodes", re.IGNORECASE), "inodes"),
)


def eviction(message: str) -> str:
    """What was short when a kubelet evicted or rejected: memory | ephemeral-storage | empty-dir | pids | inodes | other."""
    head = message[:600]
    return next((kind for pattern, kind in _EVICTIONS if pattern.search(head)), "other")


def passed(message: str) -> int | None:
    """The limit that a volume went beyond, as the kubelet prints it."""
    found = re.search(r'exceeds the (?:total )?limit "?(\d{1,12}(?:\.\d{1,6})?(?:[KMGTP]i?|k)?)"?', message)
    return int(quantity(found[1])) if found else None


def _victim(message: str) -> tuple[str, str]:
    """The container that used most of what was short, and how much; the kubelet names each that is above its request."""
    named = re.findall(r"Container (\S{1,80}) was using (\d{1,18}(?:[KMGTPE]i?|k)?)\b", message)
    return max(named, key=lambda each: quantity(each[1]), default=("", ""))


def _verdicts(pod: Node, facts: _Facts) -> None:
    """What the control plane said: eviction, rejection, scheduling, disruption, readiness."""
    reason, message = pod.text("status", "reason"), pod.text("status", "message")
    if reason == "Evicted" or (reason != "Terminated" and "low on resource" in message):
        facts.add("pod.evicted", eviction(message), pod.at("status", "message") or pod.at("status", "reason"))
        volume = re.search(r'Usage of EmptyDir volume "([^"]{1,80})"', message)
        if volume:
            medium = next((each.text("emptyDir", "medium") for each in pod.each("spec", "volumes") if each.text("name") == volume[1]), "")
            facts.add("pod.evicted_medium", {"Memory": "memory"}.get(medium, "disk"), pod.at("status", "message"))
            facts.add("pod.evicted_limit_bytes", passed(message), pod.at("status", "message"))
        victim, used = _victim(message)
        facts.add("pod.evicted_container", victim, pod.at("status", "message"))
        facts.add("pod.evicted_use", used, pod.at("status", "message"))
    elif "was rejected" in message or reason in ("UnexpectedAdmissionError", "NodeAffinity", "NodeShutdown", "NodePorts") or reason.startswith("OutOf"):
        facts.add("pod.rejected", _rejection(reason, message), pod.at("status", "message") or pod.at("status", "reason"))
    if reason == "Terminated" or "node shutdown" in message:
        facts.add("pod.node_shutdown", True, pod.at("status", "message") or pod.at("status", "reason"))
    for condition in pod.each("status", "conditions"):
        kind, status, why = condition.text("type"), condition.text("status"), condition.text("reason")
        where = condition.at("message") or condition.at("reason") or condition.at("type")
        if kind == "DisruptionTarget" and status == "True":
            facts.add("pod.disruption", why or "unknown", where)
            facts.add("pod.disruption_message", condition.text("message"), where)
        elif kind == "PodScheduled" and status == "False":
            facts.add("pod.unschedulable", condition.text("message") or why or NO_WORDS, where)
        elif kind == "Ready":
            facts.add("pod.ready", status == "True", condition.at("status"))
            facts.add("pod.ready_reason", why, where)
        elif kind == "PodResizePending":
            facts.add("pod.resize_pending", why, where)


def _rejection(reason: str, message: str) -> str:
    text = f"{reason} {message}"
    if re.search(r"MemoryPressure|DiskPressure|PIDPressure|under pressure", text):
        return "pressure:" + eviction(message)
    if re.search(r"GPU is lost|Xid|device handle", text, re.IGNORECASE):
        return "device-fault"
    if re.search(r"unhealthy|no healthy devices", text, re.IGNORECASE):  # so the kubelet marks all of them while their plugin is not connected, too
        return "devices-unhealthy"
    if re.search(r"Allocate failed due to .{0,80}rpc (?:error|failed)", text):
        return "plugin-failed"
    if re.search(r"shutting down|NodeShutdown|shutdown", text, re.IGNORECASE):
        return "node-shutdown"
    if re.search(r"OutOf|UnexpectedAdmissionError|affinity|NodePorts|Allocate failed|insufficient|cannot allocate", text, re.IGNORECASE):
        return "resources"
    return "other"


def _containers(pod: Node) -> list[tuple[str, Node, Node]]:
    """(kind, spec, status) of every container; a status without a spec is kept too (a cut file)."""
    found = []
    for kind, specs, statuses in (
        ("init", "initContainers", "initContainerStatuses"),
        ("main", "containers", "containerStatuses"),
        ("ephemeral", "ephemeralContainers", "ephemeralContainerStatuses"),
    ):
        by_name = {status.text("name"): status for status in pod.each("status", statuses)}
        for spec in pod.each("spec", specs):
            native_sidecar = kind == "init" and spec.text("restartPolicy") == "Always"
            found.append(("sidecar" if native_sidecar else kind, spec, by_name.pop(spec.text("name"), Node())))
        found += [(kind, Node(None, status.line, {}), status) for status in by_name.values()]
    return found


def _container(index: int, kind: str, spec: Node, status: Node, pod: Node, facts: _Facts) -> None:
    def add(name: str, value: Value | None, node: Node) -> None:
        facts.add(f"pod.container.{index}.{name}", value, node)

    name = spec.at("name") or status.at("name")
    add("name", spec.text("name") or status.text("name") or "?", name)
    add("kind", kind, name)
    add("image", spec.text("image") or status.text("image"), spec.at("image") or status.at("image"))
    _resources(spec, status, pod, add)
    _looks(kind, spec, status, add)
    _probes(spec, add)
    _prestop(spec, add)
    _shm(spec, pod, add)
    _state(status, add)


def _resources(spec: Node, status: Node, pod: Node, add: _Add) -> None:
    """Limits as they are now (a resize changes the status, not the spec), else as asked for, else those of the whole pod."""
    for name, group, key in (
        ("memory_limit", "limits", "memory"),
        ("memory_request", "requests", "memory"),
        ("storage_limit", "limits", "ephemeral-storage"),
    ):
        node = status.at("resources", group, key) or spec.at("resources", group, key) or pod.at("spec", "resources", group, key)
        add(name, node.size(), node)
    for name, group in (("cpu_limit", "limits"), ("cpu_request", "requests")):
        node = status.at("resources", group, "cpu") or spec.at("resources", group, "cpu")
        cpu = node.amount()
        add(name, float(cpu) if cpu is not None and abs(cpu) < 10**6 else None, node)
    for key, node in [*spec.items("resources", "limits"), *spec.items("resources", "requests")]:
        if _GPU.search(key) and (node.integer() or 0) > 0:
            add("gpus", node.integer(), node)
            add("gpu_resource", key, node)
            break


def _words(spec: Node) -> str:
    environment = {pair.text("name"): pair.text("value") for pair in spec.each("env") if pair.text("value")}
    words = [fill(node.text(), environment) for key in ("command", "args") for node in spec.each(key)]
    return " ".join(words)[:8192]


def _looks(kind: str, spec: Node, status: Node, add: _Add) -> None:
    """What a container seems to be: `looks` is server | gpu | sidecar | driver | light | plain."""
    words = _words(spec)
    text = " ".join((spec.text("name") or status.text("name"), spec.text("image") or status.text("image")))
    gpu = any(_GPU.search(key) for group in ("limits", "requests") for key, _ in spec.items("resources", group))
    serves = _SERVER.search(words) or (_SERVER.search(text) and not _LIGHT.search(text))
    if _DRIVER.search(text):
        looks = "driver"
    elif kind == "sidecar" or (_SIDECAR.search(text) and not gpu and not _SERVER.search(words)):
        looks = "sidecar"
    elif serves and not (_LIGHT.search(text) and not gpu):
        looks = "server"
    elif gpu:
        looks = "gpu"
    elif _LIGHT.search(text) or re.search(r"ray start\s+--head", words):
        looks = "light"
    else:
        looks = "plain"
    node = spec.at("name") or status.at("name")
    add("looks", looks, node)
    add("words", words, spec.at("args") or spec.at("command"))
    env = tuple(f"{pair.text('name')}={pair.text('value')}"[:400] for pair in spec.each("env") if pair.text("name"))
    add("env", env[:100] or None, spec.at("env"))
    add("shell", _shell(spec, words), spec.at("command") or spec.at("args"))
    add("waits_only", True if _WAITS.search(words) else None, spec.at("command") or spec.at("args"))


def _shell(spec: Node, words: str) -> str:
    """How PID 1 starts the program: "exec" | "no-exec" behind a shell, "" without one. A shell that does not exec keeps signals and exit codes to itself;
    one that is given a single plain command execs it by itself."""
    head = " ".join(node.text() for node in spec.each("command")) or words[:200]
    if not re.search(r"(?:^|/)(?:ba|da|a|z|k)?sh\b|tini.*\bsh\b", head):
        return ""
    if re.search(r"(?:^|[\s;&'\"(])exec\s", words):
        return "exec"
    script = words.partition(" -c ")[2].strip().removeprefix("-- ")
    plain = script and not re.search(r"[;&|\n`]|\$\(|^(?:eval|source|\.|if|for|while|set|trap|ulimit)\b", script)
    return "exec" if plain else "no-exec"


def _probes(spec: Node, add: _Add) -> None:
    for name in ("startup", "liveness", "readiness"):
        probe = spec.at(f"{name}Probe")
        if not probe:
            continue
        kind = next((key for key, _ in probe.items() if key in ("httpGet", "tcpSocket", "exec", "grpc")), "")
        add(f"{name}_probe", kind or "set", probe)
        period, failures = probe.integer("periodSeconds") or 10, probe.integer("failureThreshold") or 3
        delay = probe.integer("initialDelaySeconds") or 0
        add(f"{name}_timeout_s", probe.integer("timeoutSeconds") or 1, probe.at("timeoutSeconds") or probe)
        add(f"{name}_period_s", period, probe.at("periodSeconds") or probe)
        add(f"{name}_failures", failures, probe.at("failureThreshold") or probe)
        add(f"{name}_budget_s", min(delay + period * failures, 10**9), probe.at("failureThreshold") or probe)
        port = probe.at("httpGet", "port") or probe.at("tcpSocket", "port")
        add(f"{name}_port", str(port.value) if port.value is not None else "", port)


def _prestop(spec: Node, add: _Add) -> None:
    """Seconds that the preStop hook sleeps, in its own words; they count into the grace period."""
    hook = spec.at("lifecycle", "preStop")
    slept = [int(found) for node in hook.each("exec", "command") for found in re.findall(r"\bsleep\s+(\d{1,6})\b", node.text())]
    words = " ".join(node.text() for node in hook.each("exec", "command"))
    slept += [int(found) for found in re.findall(r"^(?:\S*/)?sleep (\d{1,6})$", words)]
    add("prestop_s", hook.integer("sleep", "seconds") or max(slept, default=None), hook)


def _shm(spec: Node, pod: Node, add: _Add) -> None:
    """The memory volume at /dev/shm and its size; "default" without one (64 MiB by the runtime)."""
    volumes = {volume.text("name"): volume for volume in pod.each("spec", "volumes")}
    memory = [volume for volume in volumes.values() if volume.text("emptyDir", "medium") == "Memory"]
    for mount in spec.each("volumeMounts"):
        names = (mount.text("name"), mount.text("mountPath"))
        if _SHM not in names:
            continue
        # Some listings have the two keys exchanged; the volume is whichever names one.
        volume = next((volumes[name] for name in names if name in volumes), Node())
        add("shm_volume", "memory" if volume.text("emptyDir", "medium") == "Memory" else "node" if volume.text("hostPath", "path") == _SHM else "other", mount)
        add("shm_limit", volume.size("emptyDir", "sizeLimit"), volume.at("emptyDir", "sizeLimit"))
        break
    else:
        add("shm_volume", "node" if pod.flag("spec", "hostIPC") else "default", pod.at("spec", "hostIPC") or spec.at("name"))
    for volume in memory:
        add("memory_volume_limit", volume.size("emptyDir", "sizeLimit"), volume.at("emptyDir", "sizeLimit"))


def _state(status: Node, add: _Add) -> None:
    add("restarts", status.integer("restartCount"), status.at("restartCount"))
    add("ready", status.flag("ready"), status.at("ready"))
    add("started", status.flag("started"), status.at("started"))
    add("id", _id(status.text("containerID")), status.at("containerID"))
    for state in ("running", "waiting", "terminated"):
        if status.at("state", state).children is not None:
            add("state", state, status.at("state", state))
    add("waiting_reason", status.text("state", "waiting", "reason"), status.at("state", "waiting", "reason"))
    add("waiting_message", status.text("state", "waiting", "message"), status.at("state", "waiting", "message"))
    add("running_since", status.seconds("state", "running", "startedAt"), status.at("state", "running", "startedAt"))
    ended = status.at("state", "terminated") or status.at("lastState", "terminated")
    if ended.children is None:
        return
    add("end", "current" if status.at("state", "terminated") else "last", ended)
    add("exit_code", ended.integer("exitCode"), ended.at("exitCode"))
    add("signal", ended.integer("signal") or None, ended.at("signal"))
    add("reason", ended.text("reason"), ended.at("reason"))
    add("message", ended.text("message"), ended.at("message"))
    add("ended_id", _id(ended.text("containerID")), ended.at("containerID"))
    started, finished = ended.seconds("startedAt"), ended.seconds("finishedAt")
    add("started_at", started, ended.at("startedAt"))
    add("finished_at", finished, ended.at("finishedAt"))
    if started is not None and finished is not None:
        add("lifetime_s", max(0, finished - started), ended.at("finishedAt"))


def _id(text: str) -> str:
    """The container's id without the runtime's name."""
    return text.rpartition("//")[2]
