"""What the product says of incidents on a host: one scene for each way in which a container, a node or a driver ends a server.

A scene is (files, accepted causes, the first remedy or ""); advice for the card is never given for host memory.
"""

from typing import Any

import pytest

from bot.model import Certainty
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import ENDED, ID, container, event, killed, path, pod, status, terminated

Scene = tuple[dict[str, Any], str, str]


def gpu(limit: str | None = "32Gi", **more: Any) -> dict[str, Any]:
    spec = container(limit=limit, **more)
    spec["resources"].setdefault("limits", {})["nvidia.com/gpu"] = "1"
    return spec


def dead(code: int = 137, reason: str = "OOMKilled", **more: Any) -> list[dict[str, Any]]:
    return [status(state={"waiting": {"reason": "CrashLoopBackOff"}}, last=terminated(code, reason, **more), restartCount=4, ready=False)]


def events(*items: dict[str, Any]) -> dict[str, Any]:
    return {"items": list(items)}


def failed(reason: str, message: str) -> dict[str, Any]:
    return pod([gpu(request="8Gi")], [], status={"phase": "Failed", "reason": reason, "message": message})


def ended(code: int, reason: str = "Error", **metadata: Any) -> dict[str, Any]:
    return pod([gpu(command=["vllm", "serve", "m"])], [status(state=terminated(code, reason))], metadata=metadata)


def init(code: int, reason: str) -> dict[str, Any]:
    """The server waits for an init container that fails."""
    waiting = status(state={"waiting": {"reason": "PodInitializing"}}, restartCount=0)
    failing = status("storage-initializer", {"waiting": {"reason": "CrashLoopBackOff"}}, terminated(code, reason))
    return pod([gpu()], [waiting], spec={"initContainers": [container("storage-initializer", "kserve/si:1", "1Gi")]}, status={"initContainerStatuses": [failing]})


def probe(kind: str, answer: str) -> dict[str, Any]:
    return events(event("Unhealthy", f"{kind} probe failed: {answer}", count=4), event("Killing", f"Container server failed {kind.lower()} probe, will be restarted"))


def node_event(reason: str, message: str) -> dict[str, Any]:
    return events(event(reason, message, kind="Node", name="node-1"))


STOP = events(event("Killing", "Stopping container server", at="2026-01-14T09:30:37Z"))
STOPPED_NOW = events(event("Killing", "Stopping container server", at=ENDED))
DELETED = {"deletionTimestamp": ENDED}
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 136.00 MiB. GPU 0 has a total capacity of 22.36 GiB of which 120.88 MiB is free. "
    "Including non-PyTorch memory, this process has 22.24 GiB memory in use. Of the allocated memory 21.10 GiB is allocated by PyTorch, and 41.20 MiB is reserved by PyTorch but unallocated.\n"
)
SIDECAR = [gpu(), container("queue-proxy", "knative/queue:1", "500Mi")]
KILLED_SIDECAR = [status(), status("queue-proxy", last=terminated(137, "OOMKilled", container_id="e" * 64), container_id="d" * 64)]
READY = [status(restartCount=0)]
V2 = "# cat /sys/fs/cgroup/memory.current\n34000000000\n# cat /sys/fs/cgroup/memory.stat\nanon 4000000000\nfile 30000000000\nshmem 0\n# cat /sys/fs/cgroup/memory.events\noom 0\noom_kill 0\n"
V1 = "# cat /sys/fs/cgroup/memory/memory.usage_in_bytes\n34000000000\n# cat /sys/fs/cgroup/memory/memory.stat\ncache 30000000000\nrss 4000000000\n"
DF = "Filesystem Size Used Avail Use% Mounted on\nshm 64M 64M 0 100% /dev/shm\n"
CONDITION = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "preempted"}]}
PENDING = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/5 nodes are available: 3 Insufficient memory."}]}
TOOLKIT = "OCI runtime create failed: nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown"

SCENES: dict[str, Scene] = {
    # the container's own limit
    "killed at the limit": ({"pod.json": pod([gpu("8Gi")], dead())}, "container_memory_limit", "memory_limit:raise"),
    "reason lost, kernel knows": ({"pod.json": pod([gpu()], dead(137, "Error")), "kernel.log": killed(path(), path(), group=True)}, "container_memory_limit", "memory_limit:raise"),
    "killed while its probe failed": ({"pod.json": pod([gpu()], dead()), "events.json": probe("Liveness", "x")}, "container_memory_limit", "memory_limit:raise"),
    "with the GPU's follower fault": (
        {"pod.json": pod([gpu()], dead()), "kernel.log": killed(path(), path()) + "[6.0] NVRM: Xid (PCI:0000:17:00): 45, pid=811, name=x, Ch 18\n"},
        "container_memory_limit", "memory_limit:raise",
    ),
    "Ray's head with a small limit": (
        {"pod.json": pod([container("ray-head", "rayproject/ray:2.46.0", "2G")], [status("ray-head", restartCount=99)]), "kernel.log": killed(path(ID), path(ID), "gcs_server", group=True)},
        "container_memory_limit", "memory_limit:raise",
    ),
    "Ray's head with a huge limit": ({"pod.json": pod([container("ray-head", "rayproject/ray:2.46.0", "40Gi")], [status("ray-head", last=terminated(137, "OOMKilled"))])}, "container_memory_limit", "application:fix"),
    "docker says so": ({"node_readings.txt": '"OOMKilled": true,\n"ExitCode": 137,\n'}, "container_memory_limit", "host_memory_use:lower"),
    "docker says so, and the limit": ({"node_readings.txt": '"OOMKilled": true,\n"ExitCode": 137,\n"Memory": 8589934592,\n'}, "container_memory_limit", "memory_limit:raise"),
    "a batch system's limit": ({"kernel.log": killed("/system.slice/slurmstepd.scope/job_1", "/system.slice/slurmstepd.scope/job_1/step_0", "python3")}, "container_memory_limit", "memory_limit:raise"),
    # a child
    "OOMKilled with exit code 1": ({"pod.json": pod([gpu()], dead(1))}, "child_killed_in_container", "memory_limit:raise"),
    "child killed, container runs": ({"pod.json": pod([gpu()], [status(container_id=ID)]), "kernel.log": killed(path(ID), path(ID))}, "child_killed_in_container", "memory_limit:raise"),
    # the node
    "OOMKilled without a limit": ({"pod.json": pod([gpu(None)], dead())}, "node_out_of_memory", "memory_limit:set"),
    "OOMKilled by a global kill": ({"pod.json": pod([gpu()], dead()), "kernel.log": killed(None, path())}, "node_out_of_memory", ""),
    "OOMKilled by the limit of all pods": ({"pod.json": pod([gpu(request="8Gi")], dead()), "kernel.log": killed("/kubepods", path())}, "node_out_of_memory", "memory_request:raise"),
    "the node says SystemOOM": ({"pod.json": pod([gpu()], dead()), "events.json": node_event("SystemOOM", "System OOM encountered, victim process: python3, pid: 4")}, "node_out_of_memory", ""),
    "mapping refused": ({"container.log": "RuntimeError: unable to mmap 99 bytes from file </m/a.safetensors>: Cannot allocate memory (12)\n"}, "node_out_of_memory", "host_memory_use:lower"),
    "systemd-oomd": ({"kernel.log": "Nov 30 09:12:01 d systemd-oomd[1]: Killed /user.slice/a.scope due to memory used (3) / total (3) and swap used (3) / total (4)\n"}, "node_out_of_memory", "host_memory_use:lower"),
    # eviction
    "evicted for memory": ({"pod.json": failed("Evicted", "The node was low on resource: memory. Threshold quantity: 100Mi, available: 60Mi. ")}, "evicted_for_memory", "memory_request:raise"),
    "refused under memory pressure": ({"pod.json": failed("Evicted", "Pod was rejected: The node had condition: [MemoryPressure]. ")}, "evicted_for_memory", "memory_request:raise"),
    "evicted, event only": ({"events.json": events(event("Evicted", "The node was low on resource: memory. "))}, "evicted_for_memory", "memory_request:raise"),
    "evicted for its own disk use": ({"pod.json": failed("Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 10Gi. ")}, "evicted_other", "ephemeral_storage:raise"),
    "evicted for processes": ({"pod.json": failed("Evicted", "The node was low on resource: pids. ")}, "evicted_other", "application:fix"),
    # other containers
    "init container at its limit": ({"pod.json": init(137, "OOMKilled")}, "init_container_memory", "init_container_memory:raise"),
    "init container, kernel knows": ({"pod.json": init(137, "Error"), "kernel.log": killed(path(), path(), "python")}, "init_container_memory", "init_container_memory:raise"),
    "helper at its limit": ({"pod.json": pod(SIDECAR, KILLED_SIDECAR), "kernel.log": killed(path("e" * 64), path("e" * 64), "queue")}, "sidecar_memory", "sidecar_memory:raise"),
    # probes
    "start-up probe": ({"pod.json": pod([gpu()], dead(137, "Error")), "events.json": probe("Startup", "connect: connection refused")}, "probe_kill", "probe:relax"),
    "liveness answers 503": ({"pod.json": pod([gpu()], dead(0, "Completed")), "events.json": probe("Liveness", "HTTP probe failed with statuscode: 503")}, "probe_kill", "application:fix"),
    "liveness asks the wrong path": ({"pod.json": pod([gpu()], dead(143, "Error")), "events.json": probe("Liveness", "HTTP probe failed with statuscode: 404")}, "probe_kill", "probe:fix"),
    "liveness command times out": ({"pod.json": pod([gpu(None)], dead(137, "Error")), "events.json": probe("Liveness", 'command "bash" timed out')}, "probe_kill", "probe:relax"),
    "probe kill that hides a full card": (
        {"pod.json": pod([gpu()], dead(143, "Error")), "events.json": probe("Liveness", "x"), "previous.log": OOM}, "gpu_oom runtime_burst weights_too_large profile_run_peak", "",
    ),
    # stops
    "deleted, 143": ({"pod.json": ended(143, **DELETED), "events.json": STOP}, "normal_termination", "none"),
    "deleted, OOMKilled of an older child": ({"pod.json": ended(0, "OOMKilled", **DELETED), "events.json": STOP}, "normal_termination", "none"),
    "killed at the end of its grace period": ({"pod.json": ended(137, **DELETED), "events.json": STOP}, "grace_period_kill", "grace_period:raise"),
    "given no time to stop": (
        {"pod.json": pod([gpu()], [status(state=terminated(137))], metadata=DELETED, spec={"terminationGracePeriodSeconds": 0}), "events.json": STOPPED_NOW},
        "grace_period_kill", "grace_period:raise",
    ),
    "deleted by force": ({"pod.json": ended(137, **DELETED, deletionGracePeriodSeconds=0), "events.json": STOPPED_NOW}, "grace_period_kill", "none"),
    "helper that does not hear the stop": (
        {"pod.json": pod([gpu(), container("geo-refresh", "tools/geo:1", "64Mi")], [status(state=terminated(0, "Completed")), status("geo-refresh", state=terminated(137))], metadata=DELETED)},
        "grace_period_kill", "entrypoint:propagate_child_exit",
    ),
    # the node goes
    "preempted": ({"pod.json": pod([gpu()], [status(state=terminated(137))], metadata=DELETED, status=CONDITION)}, "node_lost", ""),
    "nobody saw it end": ({"pod.json": pod([gpu()], [status(state=terminated(137, "ContainerStatusUnknown", at="0001-01-01T00:00:00Z"))])}, "node_lost", "restart"),
    "runtime lost it": ({"pod.json": pod([gpu()], [status(last=terminated(255, "Unknown"))])}, "node_lost", "restart"),
    "node does not answer": ({"pod.json": pod([gpu()], [status(ready=False)]), "events.json": events(event("NodeNotReady", "Node is not ready"))}, "node_lost", "restart"),
    # never ran
    "no node for it": ({"pod.json": pod([gpu()], [], status=PENDING)}, "unschedulable", "scheduling:fix"),
    "no free GPU at admission": ({"pod.json": failed("OutOfnvidia.com/gpu", "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu")}, "unschedulable", "scheduling:fix"),
    "too few GPUs in Ray": ({"ray_status.txt": "======== Autoscaler status: x ========\nUsage:\n 0.0/2.0 GPU\n\nDemands:\n {'GPU': 1.0} * 4 (PACK): 1+ pending placement groups\n"}, "unschedulable", "ray_resources:fix"),
    "image not found": ({"pod.json": pod([gpu()], [status(state={"waiting": {"reason": "ImagePullBackOff", "message": "Back-off"}})])}, "application_error", "application:fix"),
    "program not found": ({"pod.json": pod([gpu()], dead(128, "StartError"))}, "application_error", "application:fix"),
    # shared memory
    "SIGBUS with a full /dev/shm": ({"pod.json": pod([gpu()], dead(135, "Error")), "node_readings.txt": DF}, "shm_too_small", "shm_size:raise"),
    "no space for a segment": ({"container.log": "OSError: [Errno 28] No space left on device: '/psm_5f1c2a90'\n"}, "shm_too_small", "shm_size:raise"),
    "no space on a disk": ({"container.log": "OSError: [Errno 28] No space left on device: '/root/.cache/hub/tmp1'\n"}, "application_error", "ephemeral_storage:raise"),
    # crashes
    "139": ({"pod.json": pod([gpu()], dead(139, "Error"))}, "segfault", "vllm_version:change"),
    "134": ({"pod.json": pod([gpu()], dead(134, "Error"))}, "abort", "vllm_version:change"),
    # GPUs
    "fallen off the bus": ({"kernel.log": "[7.0] NVRM: Xid (PCI:0000:a1:00): 79, pid=1, name=python3, GPU has fallen off the bus.\n"}, "gpu_fault", "drain_node"),
    "driver replaced": ({"nvidia-smi.txt": "Failed to initialize NVML: Driver/library version mismatch\n"}, "gpu_fault", "drain_node"),
    "toolkit cannot hand over the GPU": ({"pod.json": pod([gpu()], [status(state={"waiting": {"reason": "RunContainerError", "message": TOOLKIT}})])}, "gpu_fault", "driver:change"),
    # Ray
    "Ray's monitor under a pod limit": (
        {"pod.json": pod([container("ray-head", "rayproject/ray:2.9", "4Gi")], [status("ray-head")]), "container.log": "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"},
        "ray_memory_monitor", "memory_limit:raise",
    ),
    "Ray's store is full": ({"container.log": "ray.exceptions.ObjectStoreFullError: Failed to put object ff in object store because it is full.\n"}, "ray_object_store", "ray_object_store:raise"),
    # nothing failed
    "page cache, v2": ({"pod.json": pod([gpu()], READY), "node_readings.txt": V2}, "healthy", "none"),
    "page cache, v1": ({"pod.json": pod([gpu()], READY), "node_readings.txt": V1}, "healthy", "none"),
    "held back by its CPU limit": ({"pod.json": pod([gpu()], READY), "node_readings.txt": "nr_periods 1000\nnr_throttled 700\n"}, "cpu_throttling", "cpu_limit:remove"),
    # honest
    "137 and nothing else": ({"pod.json": pod([gpu()], dead(137, "Error"))}, "unknown", ""),
    "137 and a quiet kernel": ({"pod.json": pod([gpu()], dead(137, "Error")), "kernel.log": "[1.0] usb 1-1\n"}, "unknown", ""),
    "Ray's list of guesses": ({"container.log": "The actor is dead because its worker process has died. Worker exit detail: Worker unexpectedly exits with a connection error code 2.\n"}, "unknown", ""),
    "gunicorn's guess": ({"container.log": "[2026-01-14 00:48:32 +0000] [17] [ERROR] Worker (pid:21) was sent SIGKILL! Perhaps out of memory?\n"}, "unknown", ""),
}  # fmt: skip

CARD = {"gpu_memory_utilization:lower", "gpu_memory_utilization:raise", "max_model_len:lower", "kv_cache_dtype:fp8", "expandable_segments:enable", "bigger_gpu"}
HOST = {"memory_limit:raise", "memory_limit:set", "memory_request:raise", "shm_size:raise"}


@pytest.mark.parametrize("name", SCENES)
def test_scene_gets_its_cause_and_first_remedy(name: str) -> None:
    files, causes, remedy = SCENES[name]
    found = diagnose(files)
    assert found.cause in causes.split()
    if remedy:
        assert [advice.id for advice in found.recommendations][:1] == [remedy]


@pytest.mark.parametrize("name", SCENES)
def test_no_scene_gets_advice_for_the_wrong_kind_of_memory(name: str) -> None:
    found = diagnose(SCENES[name][0])
    given = {advice.id for advice in found.recommendations}
    assert not given & (CARD if found.family in ("host_memory", "not_memory") else HOST if found.family == "device_memory" else set())


@pytest.mark.parametrize("name", SCENES)
def test_every_answer_but_unknown_brings_its_proof(name: str) -> None:
    found = diagnose(SCENES[name][0])
    assert found.cause == "unknown" or found.evidence


@pytest.mark.parametrize("name", [name for name, scene in SCENES.items() if len(scene[0]) > 1])
def test_answer_without_one_of_the_files_is_never_wrong_and_certain(name: str) -> None:
    files, causes, _ = SCENES[name]
    for left_out in files:
        found = diagnose({file: content for file, content in files.items() if file != left_out})
        assert found.cause in (*causes.split(), "unknown") or found.certainty is not Certainty.CERTAIN


def test_kill_of_a_stranger_in_its_own_group_is_not_taken_for_the_server_whose_log_is_there() -> None:
    group = "/docker/" + "d" * 64
    found = diagnose({"container.log": OOM, "kernel.log": killed(group, group, "nginx")})
    assert found.family == "device_memory"


def test_error_that_stands_only_in_the_termination_message_is_read() -> None:
    last = terminated(1)
    last["terminated"]["message"] = f'Traceback (most recent call last):\n  File "a.py", line 1\n{OOM}'
    found = diagnose({"pod.json": pod([gpu()], [status(last=last)])})
    assert found.family == "device_memory"
    assert "pod.json" in {quote.source for quote in found.evidence}


def test_error_inside_serve_status_is_read() -> None:
    text = "applications:\n  llm:\n    status: DEPLOY_FAILED\n    message: 'The deployment failed to start 3 times in a row. Error: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 22.36 GiB of which 1.00 GiB is free.'\n"
    assert diagnose({"ray_status.txt": text}).family == "device_memory"


@pytest.mark.parametrize("name", SCENES)
def test_what_is_not_certain_says_of_no_remedy_that_surely_no_memory_ran_out(name: str) -> None:
    found = diagnose(SCENES[name][0])
    if found.certainty is not Certainty.CERTAIN:
        assert not [item for item in found.will_not_help if item.why.en == "No memory ran out here."]
