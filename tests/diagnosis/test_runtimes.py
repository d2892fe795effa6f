"""What container runtimes, batch systems, shells and clouds say of an end, given as a log of its own: the cause that it proves and no surer one."""

import pytest

from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import event


@pytest.mark.parametrize(
    ("line", "cause", "first"),
    [
        ("docker: Error response from daemon: failed to create task for container: OCI runtime create failed: runc create failed: container init was OOM-killed (memory limit too low?): unknown.", "container_memory_limit", "memory_limit:raise"),
        ("docker: Error response from daemon: Minimum memory limit allowed is 6MB.", "container_memory_limit", "memory_limit:raise"),
        ('docker: Error response from daemon: failed to create task for container: error mounting "/models" to rootfs at "/models": no such file or directory: unknown', "application_error", "application:fix"),
        ("docker: Error response from daemon: toomanyrequests: You have reached your pull rate limit.", "application_error", "application:fix"),
        ("stderr: Auto-detected mode as 'legacy' nvidia-container-cli: device error: no-gpu-has-4096MiB-to-run: unknown device: unknown", "unschedulable", "scheduling:fix"),
        ("nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no such file or directory: unknown", "application_error", "scheduling:fix"),
        ("nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown", "gpu_fault", "driver:change"),
        ("failed to start shim: fork/exec /usr/bin/containerd-shim-runc-v2: cannot allocate memory: unknown", "node_out_of_memory", "host_memory_use:lower"),
        ("slurmstepd: error: Step 8821.0 exceeded memory limit (33000000 > 32000000), being killed", "container_memory_limit", "memory_limit:raise"),
        ("slurmstepd: error: *** JOB 8821 ON gpu-1 CANCELLED AT 2026-01-14T09:31:07 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***", "node_lost", "restart"),
        ("slurmstepd: error: *** JOB 8821 ON gpu-1 CANCELLED AT 2026-01-14T09:31:07 DUE TO PREEMPTION ***", "node_lost", "restart"),
        ("slurmstepd: error: *** JOB 8821 ON gpu-1 CANCELLED AT 2026-01-14T09:31:07 DUE TO TIME LIMIT ***", "normal_termination", "none"),
        ("srun: error: Unable to create step for job 8821: Memory required by task is not available", "unschedulable", "scheduling:fix"),
        ("The replica workerpool0-0 ran out-of-memory and exited with a non-zero status of 137.", "container_memory_limit", "host_memory_use:lower"),
        ("OSError: [WinError 1455] The paging file is too small for this operation to complete.", "node_out_of_memory", "host_memory_use:lower"),
        ("/start.sh: line 4:    31 Bad system call         (core dumped) vllm serve /m", "application_error", "application:fix"),
        ("fork/exec /usr/bin/nvidia-smi: resource temporarily unavailable", "application_error", "application:fix"),
        ("Error: OCI runtime error: crun: cannot set memory limit: writing file `memory.max`: Device or resource busy", "container_memory_limit", "memory_limit:raise"),
        ('exec: "vllm": executable file not found in $PATH', "application_error", "application:fix"),
        ("cuInit failed: CUDA_ERROR_SYSTEM_NOT_READY", "gpu_fault", "driver:change"),
        ("Failed to synchronize stream: CUDA_ERROR_ECC_UNCORRECTABLE", "gpu_fault", "drain_node"),
        ("Process finished with exit code 137 (interrupted by signal 9: SIGKILL)", "unknown", ""),
        ("The primary container for production variant AllTraffic did not pass the ping health check. Please check CloudWatch logs for this endpoint.", "unknown", ""),
    ],
)
def test_line_proves_its_cause(line: str, cause: str, first: str) -> None:
    found = diagnose({"container.log": line + "\n"})
    assert found.cause == cause
    assert next((each.id for each in found.recommendations), "") == first


@pytest.mark.parametrize(
    ("reason", "message", "cause", "first"),
    [
        ("FailedCreatePodSandBox", "Failed to create pod sandbox: OCI runtime create failed: runc create failed: container init was OOM-killed (memory limit too low?): unknown", "container_memory_limit", "memory_limit:raise"),
        ("FailedCreatePodSandBox", "Failed to create pod sandbox: failed to start shim: fork/exec /usr/bin/containerd-shim-runc-v2: cannot allocate memory: unknown", "node_out_of_memory", "host_memory_use:lower"),
        ("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached, 2 Insufficient nvidia.com/gpu", "unschedulable", "scheduling:fix"),
        ("FailedToCreateWorkerPod", "Failed to create worker Pod llm/w, pods is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8", "unschedulable", "scheduling:fix"),
        ("Failed", 'Failed to pull image "acme/chat:9": failed to extract layer: write /x: no space left on device', "application_error", "ephemeral_storage:raise"),
    ],
)
def test_event_proves_its_cause(reason: str, message: str, cause: str, first: str) -> None:
    found = diagnose({"events.json": {"items": [event(reason, message)]}})
    assert found.cause == cause
    assert next((each.id for each in found.recommendations), "") == first
