"""Exit codes 0, 1, 134, 135, 137, 139 and 143, each with each proof that decides it: the runtime's reason, the kernel's record, the events around the end.

Three tables: what a code says beside which event when nothing speaks of memory; what OOMKilled adds; and what the kernel's record overrules.
"""

from typing import Any

import pytest

from bot.model import Certainty, Diagnosis
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import ENDED, container, event, killed, path, pod, status, terminated

CODES = (0, 1, 134, 135, 137, 139, 143)
STRANGER = path("c" * 64, "ffffffff-1111-2222-3333-444455556666")
KERNEL = {
    "unread": None,
    "quiet": "[1.0] usb 1-1: new device\n",
    "limit": killed(path(), path(), "python3"),
    "machine": killed(None, path(), "python3"),
    "all pods": killed("/kubepods.slice", path(), "python3"),
    "another pod": killed(STRANGER, STRANGER, "python3"),
    "machine took another pod": killed(None, STRANGER, "java"),
}
EVENTS: dict[str, list[dict[str, Any]] | None] = {
    "none": None,
    "liveness": [event("Unhealthy", "Liveness probe failed: context deadline exceeded", count=3), event("Killing", "Container server failed liveness probe, will be restarted")],
    "startup": [event("Unhealthy", "Startup probe failed: connection refused", count=30), event("Killing", "Container server failed startup probe, will be restarted")],
    "stop": [event("Killing", "Stopping container server")],  # 30 s before the end, which is the grace period
    "quick stop": [event("Killing", "Stopping container server", at="2026-01-14T09:31:05Z")],
    "node not ready": [event("NodeNotReady", "Node is not ready")],
}


def scene(code: int, reason: str, kernel: str = "unread", events: str = "none") -> Diagnosis:
    spec = container(command=["vllm", "serve", "m"])
    spec["resources"]["limits"]["nvidia.com/gpu"] = "1"
    stopped = "stop" in events
    told = status(state=terminated(code, reason)) if stopped else status(state={"waiting": {"reason": "CrashLoopBackOff"}}, last=terminated(code, reason), restartCount=4, ready=False)
    files: dict[str, Any] = {"pod.json": pod([spec], [told], metadata={"deletionTimestamp": ENDED} if stopped else {})}
    if KERNEL[kernel]:
        files["kernel.log"] = KERNEL[kernel]
    if EVENTS[events]:
        files["events.json"] = {"items": EVENTS[events]}
    return diagnose(files)


def plain(code: int) -> str:
    return "Completed" if code == 0 else "Error"


# code -> cause by event, where nothing speaks of memory
BY_EVENT = {
    0: {"none": "unknown", "liveness": "probe_kill", "startup": "probe_kill", "stop": "normal_termination", "quick stop": "normal_termination", "node not ready": "node_lost"},
    1: {"none": "unknown", "liveness": "probe_kill", "startup": "probe_kill", "stop": "normal_termination", "quick stop": "normal_termination", "node not ready": "node_lost"},
    134: {"none": "abort", "liveness": "probe_kill", "startup": "probe_kill", "stop": "abort", "quick stop": "abort", "node not ready": "abort"},
    135: dict.fromkeys(EVENTS, "shm_too_small"),
    137: {"none": "unknown", "liveness": "probe_kill", "startup": "probe_kill", "stop": "grace_period_kill", "quick stop": "unknown", "node not ready": "node_lost"},
    139: {"none": "segfault", "liveness": "probe_kill", "startup": "probe_kill", "stop": "segfault", "quick stop": "segfault", "node not ready": "segfault"},
    143: {"none": "unknown", "liveness": "probe_kill", "startup": "probe_kill", "stop": "normal_termination", "quick stop": "normal_termination", "node not ready": "node_lost"},
}  # fmt: skip


@pytest.mark.parametrize("kernel", ["unread", "quiet", "another pod"])
@pytest.mark.parametrize(("code", "events"), [(code, events) for code in CODES for events in EVENTS])
def test_code_without_memory_is_decided_by_the_events(code: int, events: str, kernel: str) -> None:
    found = scene(code, plain(code), kernel, events)
    assert found.cause == BY_EVENT[code][events]
    assert not {"memory_limit:raise", "memory_limit:set"} & {advice.id for advice in found.recommendations}


@pytest.mark.parametrize("kernel", ["unread", "quiet", "another pod"])
@pytest.mark.parametrize("events", ["none", "liveness", "startup", "node not ready"])
@pytest.mark.parametrize("code", CODES)
def test_oomkilled_is_a_child_but_for_137_and_never_certain_without_the_kernel(code: int, events: str, kernel: str) -> None:
    found = scene(code, "OOMKilled", kernel, events)
    assert found.cause == {137: "container_memory_limit", 135: "shm_too_small"}.get(code, "child_killed_in_container")
    assert found.certainty is not Certainty.CERTAIN


@pytest.mark.parametrize("code", [0, 143])
@pytest.mark.parametrize("events", ["stop", "quick stop"])
def test_oomkilled_of_an_older_child_does_not_hide_that_somebody_stopped_the_pod(code: int, events: str) -> None:
    assert scene(code, "OOMKilled", "unread", events).cause == "normal_termination"


@pytest.mark.parametrize("events", EVENTS)
@pytest.mark.parametrize("reason", ["OOMKilled", "plain"])
@pytest.mark.parametrize("code", CODES)
def test_kernels_record_of_this_container_overrules_reason_code_and_events(code: int, reason: str, events: str) -> None:
    said = plain(code) if reason == "plain" else reason
    at_limit, machine, all_pods = (scene(code, said, kernel, events) for kernel in ("limit", "machine", "all pods"))
    assert (at_limit.cause, at_limit.certainty) == ("container_memory_limit" if code == 137 else "child_killed_in_container", Certainty.CERTAIN)
    for found in (machine, all_pods):
        assert (found.cause, found.certainty) == ("node_out_of_memory", Certainty.CERTAIN)
        assert "memory_limit:raise" not in {advice.id for advice in found.recommendations}


@pytest.mark.parametrize("code", CODES)
def test_machine_that_ran_out_and_took_another_pod_is_likely_where_this_one_was_killed_too(code: int) -> None:
    found = scene(code, "OOMKilled", "machine took another pod")
    assert (found.cause, found.certainty) == ("node_out_of_memory", Certainty.LIKELY)
    ended_by_itself = scene(code, plain(code), "machine took another pod")
    assert (ended_by_itself.cause == "node_out_of_memory") is (code == 137)


@pytest.mark.parametrize("events", EVENTS)
@pytest.mark.parametrize("kernel", ["unread", "quiet", "another pod", "machine took another pod"])
def test_code_that_nobody_saw_is_invented_whatever_the_events_say(events: str, kernel: str) -> None:
    assert scene(137, "ContainerStatusUnknown", kernel, events).cause == "node_lost"


@pytest.mark.parametrize(
    ("code", "cause"),
    [(2, "unknown"), (9, "unknown"), (126, "application_error"), (127, "application_error"), (130, "unknown"), (141, "unknown"), (159, "application_error"), (255, "unknown")],
)
def test_other_codes_are_told_for_what_they_are_and_never_for_memory(code: int, cause: str) -> None:
    found = scene(code, "Error")
    assert found.cause == cause
    assert str(code) in found.summary.en
    assert not {"memory_limit:raise", "memory_limit:set"} & {advice.id for advice in found.recommendations}


@pytest.mark.parametrize("where", ["waiting", "terminated"])
def test_limit_too_small_to_start_the_container_is_raised(where: str) -> None:
    message = "failed to create containerd task: OCI runtime create failed: runc create failed: unable to start container process: container init was OOM-killed (memory limit too low?): unknown"
    last = terminated(128, "StartError")
    last["terminated"]["message"] = message
    told = status(state={"waiting": {"reason": "RunContainerError", "message": message}}, restartCount=0) if where == "waiting" else status(last=last)
    found = diagnose({"pod.json": pod([container(limit="4Mi")], [told])})
    assert (found.cause, [advice.id for advice in found.recommendations]) == ("container_memory_limit", ["memory_limit:raise"])
    assert any("container init was OOM-killed" in proof.quote for proof in found.evidence)


@pytest.mark.parametrize(
    ("said", "first"),
    [
        ("initialization error: nvml error: insufficient permissions: unknown", "driver:change"),
        ("initialization error: nvml error: driver not loaded: unknown", "driver:change"),
        ("initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no such file or directory: unknown", "driver:change"),
        ("device error: GPU-5f1c2a90: unknown device", "drain_node"),
        ("detection error: nvml error: unknown error: unknown", "drain_node"),
    ],
)
def test_card_that_is_not_handed_over_is_the_drivers_matter_where_the_toolkit_says_so(said: str, first: str) -> None:
    message = f"failed to create containerd task: OCI runtime create failed: error running hook #0: exit status 1, stdout: , stderr: nvidia-container-cli: {said}"
    last = terminated(128, "StartError")
    last["terminated"]["message"] = message
    waits = status(state={"waiting": {"reason": "RunContainerError", "message": message}}, restartCount=0)
    bundles = ({"pod.json": pod([container()], [status(last=last)])}, {"pod.json": pod([container()], [waits])}, {"events.json": {"items": [event("Failed", f"Error: {message}")]}})
    for bundle in bundles:
        found = diagnose(bundle)
        assert (found.cause, found.recommendations[0].id) == ("gpu_fault", first), bundle


def test_hook_that_fails_after_the_start_is_no_stop_that_took_too_long() -> None:
    items = [event("FailedPostStartHook", "PostStartHook failed"), event("Killing", "FailedPostStartHook")]
    found = diagnose({"pod.json": pod([container()], [status(last=terminated(137))]), "events.json": {"items": items}})
    assert (found.cause, [advice.id for advice in found.recommendations]) == ("application_error", ["application:fix"])


def test_pod_that_is_not_ready_and_one_that_backs_off_are_told_so() -> None:
    quiet = {"pod.json": pod(statuses=[status(restartCount=0, ready=False)]), "events.json": {"items": [event("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503", count=40)]}}
    assert "readiness" in diagnose(quiet).summary.en
    backs_off = {"events.json": {"items": [event("BackOff", "Back-off restarting failed container server", count=30)]}}
    assert "BackOff" in diagnose(backs_off).summary.en
    assert diagnose(quiet).cause == diagnose(backs_off).cause == "unknown"


@pytest.mark.parametrize(
    ("reason", "message", "cause", "remedy"),
    [
        ("UnexpectedAdmissionError", "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected", "unschedulable", "scheduling:fix"),
        ("UnexpectedAdmissionError", "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected", "unschedulable", "scheduling:fix"),
        ("TopologyAffinityError", "Resources cannot be allocated with Topology locality", "unschedulable", "scheduling:fix"),
        ("OutOfcpu", "Node didn't have enough resource: cpu, requested: 4000, used: 63000, capacity: 64000", "unschedulable", "scheduling:fix"),
    ],
)
def test_pod_that_a_kubelet_refused_is_known_from_the_event_alone(reason: str, message: str, cause: str, remedy: str) -> None:
    found = diagnose({"events.json": {"items": [event(reason, message)]}})
    assert (found.cause, found.recommendations[0].id) == (cause, remedy)


def test_memory_volume_that_was_too_small_is_raised_from_what_the_event_says() -> None:
    found = diagnose({"events.json": {"items": [event("Evicted", 'Usage of EmptyDir volume "dshm" exceeds the limit "16Gi".')]}})
    assert (found.recommendations[0].id, found.recommendations[0].from_value, found.recommendations[0].to_value) == ("shm_size:raise", "16Gi", "32Gi")


def test_pod_evicted_for_process_ids_is_not_told_to_write_less() -> None:
    found = diagnose({"events.json": {"items": [event("Evicted", "The node had condition: [PIDPressure].")]}})
    assert "processes" in found.recommendations[0].why.en
