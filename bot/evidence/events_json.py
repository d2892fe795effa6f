"""`events.json` (kubectl get events -o json, or one object's): what kubelet, scheduler and controllers did and when.

Facts: `events.<n>.<name>` for the events that can explain an end (at most 200, the newest first), and `events.looked`.
Which of them belong to the incident is decided by `bot/diagnosis/host_events.py`. Events expire after an hour by default,
so that their absence is weak.
"""

import re

from bot.evidence.document import Document, Node, shorten
from bot.evidence.kernel_kills import kernel_message, killed_bytes
from bot.evidence.pod_json import eviction, passed
from bot.evidence.reading import Reading
from bot.model import Fact, Gap, Value

MAX_EVENTS = 200

_PROBE = re.compile(r"(Startup|Liveness|Readiness) probe failed", re.IGNORECASE)
_PROBE_ERRORED = re.compile(r"(?:Startup|Liveness|Readiness) probe errored", re.IGNORECASE)
_PROBE_KILL = re.compile(  # the last two are of kubelets before 1.14: only a liveness probe ended a container then
    r"failed (startup|liveness) probe, will be restarted|failed (liveness) probe\.\. Container will be killed|is un(healthy), it will be killed and re-?created", re.IGNORECASE
)
_CONTAINER = re.compile(r"\{([^{}]{1,253})\}")
_VICTIM = re.compile(r"(?:Killed process \d{1,9}(?:, UID \d{1,9},)? \(|victim process: )([^,)]{1,64})")
_CGROUP_REFUSED = re.compile(r"mkdir /sys/fs/cgroup/\S{1,400}: (?:cannot allocate memory|no space left on device)")
_VOLUME = re.compile(r'Usage of EmptyDir volume "([^"]{1,80})"')
_GO_TERMINATED = re.compile(r"ContainerStateTerminated\{ExitCode:(\d{1,3}),Signal:\d{1,3},Reason:(\w{0,40}),")  # as KubeRay quotes it
_IMAGE = re.compile(r"ErrImagePull|ImagePullBackOff|ErrImageNeverPull|InvalidImageName|ErrImagePullBackOff|[Ff]ailed to (?:pull|apply default image tag)|pulling image|pull image|inspect image")
_QUEUED = re.compile(r"couldn't assign flavors|insufficient (?:unused )?quota")
_INSUFFICIENT = re.compile(r"\b(\d{1,6}) Insufficient (memory|cpu)\b")
# A problem detector (NVSentinel, a rule of node-problem-detector) that gives the fault's number or asks for something; "NONE" asks for nothing.
_GPU_FAULT = re.compile(r"(?:\bXID\b.{0,40}?\b|ErrorCode:)(?:46|48|62|64|74|79|95|119|120|140|143)\b|\bDCGM_FR_\w+.{0,300}Recommended Action=(?!NONE)[A-Z]|has fallen off the bus", re.IGNORECASE)
_NO_GPU = re.compile(r"Insufficient \S*(?:gpu|mig-|npu|ATOM|neuron)", re.IGNORECASE)

# reason -> what kind of event it is for us; the rest is left alone
_REASONS = {
    "Killing": "stopping", "Evicted": "evicted", "FailedScheduling": "unschedulable", "Preempted": "preempted", "Preempting": "preempted",
    "TaintManagerEviction": "taint-eviction", "NodeNotReady": "node-not-ready", "NodeNotSchedulable": "drain", "SystemOOM": "system-oom", "OOMKilling": "kernel-kill",
    "BackOff": "back-off", "EvictionThresholdMet": "node-pressure", "NodeHasInsufficientMemory": "node-pressure", "NodeHasDiskPressure": "disk-pressure",
    "ExceededGracePeriod": "grace-exceeded", "UnexpectedAdmissionError": "rejected", "TopologyAffinityError": "rejected", "Rebooted": "node-rebooted", "NodeShutdown": "node-shutdown", "Shutdown": "node-shutdown",
    "DeletingNode": "node-lost", "RemovingNode": "node-lost", "TerminationStart": "node-shutdown", "Deleted": "deleted", "SuccessfulDelete": "deleted",
    "FailedMount": "mount", "FailedAttachVolume": "mount", "FailedCreatePodSandBox": "sandbox", "InspectFailed": "image", "RecreateGroup": "group-restart",
    "DeletedWorkerPod": "deleted", "DeletedHeadPod": "deleted", "ScalingReplicaSet": "rollout", "ContainerGCFailed": "other", "NodeNotHealthy": "node-not-ready",
    "Drain": "drain", "DrainScheduled": "drain", "ScaleDown": "drain", "SpotInterruption": "interrupted", "PreemptScheduled": "interrupted",
    "Scheduled": "scheduled", "NotTriggerScaleUp": "no-scale-up", "FailedScaleUp": "no-scale-up", "TriggeredScaleUp": "scale-up", "Nominated": "scale-up", "FailedCreate": "create-failed", "FailedToCreateHeadPod": "create-failed", "FailedToCreateWorkerPod": "create-failed", "OutOfDisk": "disk-pressure", "FreeDiskSpaceFailed": "disk-pressure", "ImageGCFailed": "disk-pressure", "XIDError": "gpu-fault", "ResizeInfeasible": "resize-refused", "ResizeDeferred": "resize-refused", "ResizeError": "resize-refused",
    "KernelOops": "kernel-fault", "TaskHung": "kernel-fault", "CordonStarting": "drain", "RebalanceRecommendation": "node-shutdown",
    "SpotInterrupted": "interrupted", "InstanceSpotInterrupted": "interrupted", "MachineSpotInterrupted": "interrupted", "TerminatingOnInterruption": "interrupted",
    "InstanceStopping": "node-shutdown", "InstanceTerminating": "node-shutdown", "MachineTerminating": "node-shutdown", "ScheduledEvent": "node-shutdown",
    "SQSTermination": "node-shutdown", "TerminateScheduled": "node-shutdown", "RebootScheduled": "node-shutdown", "RedeployScheduled": "node-shutdown",
    "DisruptionTerminating": "drain", "TerminationGracePeriodExpiring": "drain", "CordonAndDrain": "drain",
}  # fmt: skip


def read(data: bytes, source: str) -> Reading:
    """The events that can explain an end, newest first."""
    document = Document(data, source)
    items = list(document.root.each("items")) or ([document.root] if document.root.at("reason") else [])
    gaps = () if document.complete else (Gap(source, "damaged or cut", "probe kills, evictions, drains and scheduling failures"),)
    if not items and not document.root.at("items"):
        return Reading(gaps=gaps or (Gap(source, "no events in it", "probe kills, evictions, drains and scheduling failures"),))
    told = [(event, kind) for event in items if (kind := _kind(event))]
    told.sort(key=lambda pair: _last(pair[0]) or 0, reverse=True)
    facts = [Fact("events.looked", True, document.place(document.root.at("items") or document.root))]
    newest = max((_last(event) or 0 for event in items), default=0)
    if newest:
        facts.append(Fact("events.newest_at", newest, facts[0].place))
    for index, (event, kind) in enumerate(told[:MAX_EVENTS]):
        facts += _event(index, kind, event, document)
    return Reading(tuple(facts), ("events.",) if document.complete else (), gaps)


def _kind(event: Node) -> str:
    """What an event is for us; "" for those that explain nothing."""
    reason, message = event.text("reason"), event.text("message")
    if _PROBE_KILL.search(message):
        return "probe-kill"
    if _CGROUP_REFUSED.search(message[:2000]):
        return "cgroup-refused"
    if reason in ("Unhealthy", "ProbeError", "ProbeWarning") and _PROBE.search(message):
        return "probe-failed"
    if reason == "Unhealthy" and _PROBE_ERRORED.search(message):  # prober/worker.go throws the result of a probe away that could not be made
        return "probe-errored"
    if reason == "FailedPostStartHook":
        return "hook-failed"
    if reason == "Killing" and message.startswith("FailedPostStartHook"):
        return ""
    if reason == "Killing" and "exceeded" in message and "grace" in message:
        return "grace-exceeded"
    if reason == "TaintManagerEviction" and message.startswith("Cancelling"):
        return "taint-cancelled"
    if reason == "Unschedulable" or (reason == "Pending" and _QUEUED.search(message)):  # Volcano and KAI; Kueue
        return "unschedulable"
    if message.startswith("Preempted to accommodate a workload"):  # Kueue
        return "preempted"
    if reason in ("Descheduled", "EvictedByVPA") or (reason == "Evicted" and _by(event) not in ("", "kubelet")):
        return "moved"
    if reason in ("Failed", "BackOff") and _IMAGE.search(message):
        return "image"
    if reason == "Failed":
        return "start-failed"
    if reason == "DeadlineExceeded" and event.text("involvedObject", "kind") == "Job":
        return "deadline"
    if reason.startswith("OutOf"):
        return "rejected"
    if event.text("involvedObject", "kind") == "Node" and _GPU_FAULT.search(message[:2000]):
        return "gpu-fault"
    if reason == "EvictionThresholdMet" and "memory" not in message:
        return "disk-pressure" if re.search(r"storage|fs\b|inodes", message) else "other"
    if "shutdown" in message.lower() and reason not in _REASONS:
        return "node-shutdown"
    return _REASONS.get(reason, "")


def _by(event: Node) -> str:
    """Who wrote it."""
    return event.text("source", "component") or event.text("reportingComponent")


def _last(event: Node) -> int | None:
    return event.seconds("lastTimestamp") or event.seconds("series", "lastObservedTime") or event.seconds("eventTime") or event.seconds("firstTimestamp")


def _event(index: int, kind: str, event: Node, document: Document) -> list[Fact]:
    message = event.at("message")
    found: dict[str, tuple[Value | None, Node]] = {
        "kind": (kind, message or event.at("reason")),
        "reason": (event.text("reason"), event.at("reason")),
        "message": (shorten(event.text("message"), 1000), message),
        "object": (event.text("involvedObject", "kind"), event.at("involvedObject", "kind")),
        "name": (event.text("involvedObject", "name"), event.at("involvedObject", "name")),
        "uid": (event.text("involvedObject", "uid"), event.at("involvedObject", "uid")),
        "container": (_container(event), event.at("involvedObject", "fieldPath")),
        "first_at": (event.seconds("firstTimestamp") or event.seconds("eventTime"), event.at("firstTimestamp")),
        "last_at": (_last(event), event.at("lastTimestamp")),
        "count": (event.integer("count") or event.integer("series", "count") or 1, event.at("count")),
        **_details(kind, event.text("message"), message),
    }
    return [Fact(f"events.{index}.{name}", value, document.place(node)) for name, (value, node) in found.items() if value not in (None, "")]


def _container(event: Node) -> str:
    found = _CONTAINER.search(event.text("involvedObject", "fieldPath"))
    return found[1] if found else ""


def _details(kind: str, text: str, message: Node) -> dict[str, tuple[Value | None, Node]]:
    """What the message says in its kind's own grammar."""
    text = text[:2000]
    if kind == "probe-kill":
        found = _PROBE_KILL.search(text)
        return {"probe": ("startup" if found and (found[1] or "").lower() == "startup" else "liveness", message)}
    if kind == "probe-failed":
        found = _PROBE.search(text)
        return {"probe": (found[1].lower() if found else "", message), "answer": (_answer(text), message)}
    if kind == "evicted":
        volume = _VOLUME.search(text)
        return {"resource": (eviction(text), message), "volume": (volume[1] if volume else "", message), "limit": (passed(text) if volume else None, message)}
    if kind in ("unschedulable", "no-scale-up"):
        return {"lacks": (_lacks(text), message)}
    if kind in ("kernel-kill", "system-oom"):
        victim = _VICTIM.search(text)
        told = {"scope": (kernel_message(text) if kind == "kernel-kill" else "", message), "victim": (victim[1] if victim else "", message)}
        return {**told, "victim_bytes": (killed_bytes(text), message)}
    if kind == "deleted" and (ended := _GO_TERMINATED.search(text)):
        return {"exit_code": (int(ended[1]), message), "end_reason": (ended[2], message)}
    return {}


def _answer(text: str) -> str:
    """What the probe got: no-command | protocol | refused | timeout | http-<code> | no-route | empty | other."""
    code = re.search(r"statuscode: ?(\d{3})", text)
    if code:
        return f"http-{code[1]}"
    for answer, pattern in (
        ("no-command", r'exec: "[^"]{1,300}": (?:executable file not found|stat .{1,300}no such file|permission denied)|exec format error|(?:^|: )\S{1,80}: (?:command )?not found\s*$'),
        ("protocol", r"malformed HTTP response|gave HTTP response to HTTPS client|does not look like a TLS handshake|does not implement the grpc health protocol"),
        ("refused", r"connection refused|failed to connect"),
        ("timeout", r"deadline exceeded|timed out|Client\.Timeout|i/o timeout|health rpc did not complete within"),
        ("no-route", r"no route to host|network is unreachable|no such host"),
        ("empty", r"probe failed: ?$"),
    ):
        if re.search(pattern, text, re.IGNORECASE):
            return answer
    return "other"


def _lacks(text: str) -> str:
    """What the scheduler did not find, of memory and processors what more nodes lack: queue-quota | gpu | memory | cpu | taint | affinity | volume | other."""
    on_most = max(_INSUFFICIENT.findall(text), key=lambda found: int(found[0]), default=("", ""))[1]
    for lacks, pattern in (
        ("queue-quota", _QUEUED),
        ("gpu", _NO_GPU),
        ("cpu" if on_most == "cpu" else "memory", re.compile(r"Insufficient memory|Insufficient hugepages")),
        ("cpu", re.compile(r"Insufficient cpu")),
        ("storage", re.compile(r"Insufficient ephemeral-storage")),
        ("volume", re.compile(r"volume|PersistentVolumeClaim", re.IGNORECASE)),
        ("affinity", re.compile(r"affinity|selector", re.IGNORECASE)),
        ("taint", re.compile(r"taint", re.IGNORECASE)),
    ):
        if pattern.search(text):
            return lacks
    return "other"
