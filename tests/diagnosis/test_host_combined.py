"""Several files that seem to say different things: what a careful person would answer."""

from typing import Any

import pytest

from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import ENDED, container, event, killed, path, pod, status
from tests.diagnosis.test_host_verdicts import OOM, Scene, dead, events, gpu, probe, terminated

LOADING = (
    "INFO 01-14 09:22:04 [api_server.py:1] vLLM API server version 0.11.0\n"
    "INFO 01-14 09:22:09 [gpu_model_runner.py:1] Starting to load model m...\n"
    "Loading safetensors checkpoint shards:  40% Completed | 12/30 [05:00<07:00,  1.2s/it]\n"
)
SERVING = LOADING + "INFO:     Application startup complete.\n"
DEAD_ENGINE = SERVING + "ERROR 01-14 10:00:00 [core_client.py:1] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.\nINFO:     Shutting down\n"
WATCHDOG = "[rank1]:[E1130 09:12:01.0 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)\n"
XID = "[7.0] NVRM: Xid (PCI:0000:a1:00): 79, pid=1, name=python3, GPU has fallen off the bus.\n"
DRAIN = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}]}
PROXY = container("istio-proxy", "istio/proxyv2:1", "128Mi")
OLD_SIDECAR_KILL = status("istio-proxy", last=terminated(137, "OOMKilled", at="2026-01-13T09:31:07Z", container_id="d" * 64), container_id="e" * 64)
STOP = events(event("Killing", "Stopping container server", at="2026-01-14T09:30:37Z"))

SCENES: dict[str, Scene] = {
    "killed while loading": ({"pod.json": pod([gpu("16Gi")], dead()), "previous.log": LOADING}, "container_memory_limit", "memory_limit:raise"),
    "killed while loading, no limit": ({"pod.json": pod([gpu(None)], dead()), "previous.log": LOADING}, "node_out_of_memory", "memory_limit:set"),
    "reason lost while loading": (
        {"pod.json": pod([gpu("16Gi")], dead(137, "Error")), "previous.log": LOADING, "kernel.log": killed(path(), path(), "VLLM::Worker_TP")},
        "container_memory_limit", "memory_limit:raise",
    ),
    "whole group killed while serving": (
        {"pod.json": pod([gpu("16Gi")], dead()), "previous.log": SERVING, "kernel.log": killed(path(), path(), "VLLM::Worker_TP", group=True)}, "container_memory_limit", "memory_limit:raise",
    ),
    "engine killed, server left politely": (
        {"pod.json": pod([gpu("16Gi")], dead(0)), "previous.log": DEAD_ENGINE, "kernel.log": killed(path(), path(), "VLLM::EngineCor")}, "child_killed_in_container", "",
    ),
    "own counter says the node": ({"pod.json": pod([gpu()], dead()), "node_readings.txt": "# cat /sys/fs/cgroup/memory.events\noom 0\noom_kill 1\n"}, "node_out_of_memory", ""),
    "full card, and yesterday a helper was killed": (
        {"pod.json": pod([gpu(), PROXY], [*dead(1, "Error"), OLD_SIDECAR_KILL]), "previous.log": LOADING + OOM}, "weights_too_large gpu_oom profile_run_peak", "",
    ),
    "start-up probe ends a slow load": (
        {"pod.json": pod([gpu()], dead(137, "Error")), "previous.log": LOADING + "KeyboardInterrupt: terminated\n", "events.json": probe("Startup", "connect: connection refused")},
        "probe_kill", "probe:relax",
    ),
    "probe fails since the model is not found": (
        {
            "pod.json": pod([gpu()], dead(1, "Error")),
            "previous.log": "OSError: m is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'\n",
            "events.json": events(event("Unhealthy", "Startup probe failed: connection refused", count=9)),
        },
        "application_error", "",
    ),
    "drained, and killed when its time was over": (
        {"pod.json": pod([gpu(command=["vllm", "serve", "m"])], [status(state=terminated(137))], metadata={"deletionTimestamp": ENDED}, status=DRAIN), "events.json": STOP},
        "grace_period_kill", "",
    ),
    "collective hangs, since a card is gone": (
        {"pod.json": pod([gpu()], dead(134, "Error")), "kernel.log": XID, "previous.log": WATCHDOG + "terminate called after throwing an instance of 'c10::DistBackendError'\n"},
        "gpu_fault", "drain_node",
    ),
    "NCCL fails beside a full /dev/shm": (
        {
            "pod.json": pod([gpu()], dead(1, "Error")),
            "previous.log": "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\n",
            "node_readings.txt": "Filesystem Size Used Avail Use% Mounted on\nshm 64M 63M 1M 99% /dev/shm\n",
        },
        "shm_too_small", "shm_size:raise",
    ),
    "worker dies by SIGBUS": (
        {"pod.json": pod([gpu()], dead(1, "Error")), "previous.log": LOADING + "ERROR 01-14 [x.py:1] Worker proc VllmWorker-1 died unexpectedly (exit code: -7), shutting down executor.\n"},
        "shm_too_small", "shm_size:raise",
    ),
    "another pod's kill explains nothing here": (
        {"pod.json": pod([gpu()], dead(137, "Error")), "kernel.log": killed(path("c" * 64, "ffffffff-1111-2222-3333-444455556666"), path("c" * 64, "ffffffff-1111-2222-3333-444455556666"), "java")},
        "unknown", "",
    ),
    "system kill hours before an argument error": (
        {"pod.json": pod([gpu()], dead(1, "Error")), "previous.log": "vllm serve: error: unrecognized arguments: --x\n",
         "events.json": events(event("SystemOOM", "System OOM encountered, victim process: java, pid: 4", at="2026-01-14T06:00:00Z", kind="Node", name="node-1"))},
        "application_error", "application:fix",
    ),
    "system kill hours before a bare SIGKILL": (
        {"pod.json": pod([gpu()], dead(137, "Error")),
         "events.json": events(event("SystemOOM", "System OOM encountered, victim process: java, pid: 4", at="2026-01-14T06:00:00Z", kind="Node", name="node-1"))},
        "unknown", "",
    ),
    "detector's global kill at the end of a container with a limit": (
        {"pod.json": pod([gpu("200Gi")], dead()),
         "events.json": events(event("OOMKilling", "Out of memory: Killed process 4 (VLLM::Worker) total-vm:9kB", at=ENDED, kind="Node", name="node-1"))},
        "node_out_of_memory", "memory_request:raise",
    ),
    "limit above what the machine has": (
        {"pod.json": pod([gpu("1Ti")], dead()), "node_readings.txt": "# head -2 /proc/meminfo\nMemTotal:       131072000 kB\nMemFree:        90111222 kB\n"},
        "node_out_of_memory", "memory_limit:lower",
    ),
    "memory volume beyond its size": (
        {"pod.json": pod([gpu()], [status(state=terminated(137, "Error"))], spec={"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}}]},
                         status={"phase": "Failed", "reason": "Evicted", "message": 'Usage of EmptyDir volume "shm" exceeds the limit "2Gi". '})},
        "evicted_other", "shm_size:raise",
    ),
    "disk volume beyond its size": (
        {"pod.json": pod([gpu()], [status(state=terminated(137, "Error"))], spec={"volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "2Gi"}}]},
                         status={"phase": "Failed", "reason": "Evicted", "message": 'Usage of EmptyDir volume "scratch" exceeds the limit "2Gi". '})},
        "evicted_other", "ephemeral_storage:raise",
    ),
    "being deleted, still running": (
        {"pod.json": pod([gpu()], [status(restartCount=0)], metadata={"deletionTimestamp": "2026-01-14T10:00:00Z"})}, "normal_termination", "none",
    ),
    "broken memory page": (
        {"pod.json": pod([gpu()], dead(135, "Error")), "kernel.log": "[7.0] Memory failure: 0x3f41c02: Sending SIGBUS to python3:402 due to hardware memory corruption\n"},
        "abort", "drain_node",
    ),
    "readiness asks a path that is not there": (
        {"pod.json": pod([gpu()], [status(restartCount=0, ready=False)]), "container.log": SERVING,
         "events.json": events(event("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 404", count=40))},
        "probe_kill", "probe:fix",
    ),
    "volume cannot be attached": (
        {"pod.json": pod([gpu()], [status(state={"waiting": {"reason": "ContainerCreating"}}, restartCount=0, ready=False)], status={"phase": "Pending"}),
         "events.json": events(event("FailedMount", "MountVolume.SetUp failed for volume m"))},
        "application_error", "application:fix",
    ),
    "killed two weeks ago, ready ever since": (
        {"pod.json": pod([gpu()], [status(last=terminated(137, "OOMKilled"))]), "events.json": events(event("Pulled", "x"), event("BackOff", "Back-off 1", at="2026-01-28T09:00:00Z", of="other"))},
        "healthy", "none",
    ),
    "killed an hour ago, ready since": (
        {"pod.json": pod([gpu()], [status(last=terminated(137, "OOMKilled"))]), "events.json": events(event("BackOff", "Back-off 1", at="2026-01-14T10:31:00Z"))},
        "container_memory_limit", "memory_limit:raise",
    ),
    "lived as long as its start-up probe allows": (
        {"pod.json": pod([gpu(startupProbe={"httpGet": {"port": 8000}, "periodSeconds": 10, "failureThreshold": 186})], dead(143, "Error")), "previous.log": LOADING}, "probe_kill", "probe:relax",
    ),
    "stopped in order and started again in the same pod": (
        {"pod.json": pod([gpu(livenessProbe={"httpGet": {"port": 8000}})], [status(last=terminated(0, "Completed"))]), "previous.log": SERVING + "INFO:     Shutting down\nINFO:     Application shutdown complete.\n"},
        "probe_kill", "probe:relax",
    ),
    "the log before ends while it serves": ({"previous.log": SERVING}, "unknown", ""),
    "a stranger's kill beside the events of this pod": (
        {"events.json": probe("Liveness", "context deadline exceeded"), "kernel.log": killed(path("c" * 64, "ffffffff-1111-2222-3333-444455556666"), path("c" * 64, "ffffffff-1111-2222-3333-444455556666"), "pg_dump")},
        "probe_kill", "probe:relax",
    ),
    "a kill without a pod beside a log that explains itself": (
        {"previous.log": "vllm serve: error: unrecognized arguments: --x\n", "kernel.log": killed(path(), path())}, "application_error", "application:fix",
    ),
    "could not be scheduled at first, runs now": (
        {"pod.json": pod([gpu()], [status(restartCount=0)]), "events.json": events(event("FailedScheduling", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."))}, "healthy unknown", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENES)
def test_files_that_seem_to_disagree_get_the_careful_answer(name: str) -> None:
    files: dict[str, Any]
    files, causes, remedy = SCENES[name]
    found = diagnose(files)
    assert found.cause in causes.split()
    if remedy:
        assert [advice.id for advice in found.recommendations][:1] == [remedy]


def test_file_that_was_read_whole_is_not_named_as_missing() -> None:
    killed_child = "ERROR 01-14 [x.py:1] Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.\n"
    without = diagnose({"previous.log": LOADING + killed_child})
    assert {gap.source for gap in without.gaps if gap.reason == "not available"} == {"kernel.log", "pod.json"}
    with_pod = diagnose({"previous.log": LOADING + killed_child, "pod.json": pod([gpu(None)], dead(1, "Error"))})
    assert "pod.json" not in {gap.source for gap in with_pod.gaps}
    torn = diagnose({"previous.log": LOADING + killed_child, "pod.json": '{"kind": "Pod", "metadata": {"name": "chat-0"}, "spec": {"containers": [{"name": "ser'})
    assert "pod.json" in {gap.source for gap in torn.gaps}


def test_error_in_the_indented_text_of_serve_status_outranks_a_log_without_one() -> None:
    status_text = "applications:\n  llm:\n    status: DEPLOY_FAILED\n    message: |\n          Traceback (most recent call last):\n          TypeError: __init__() got an unexpected keyword argument 'x'\n"
    found = diagnose({"ray_status.txt": status_text, "container.log": "INFO 01-14 serve 1 -- Deployed app 'llm'\n"})
    assert found.cause == "application_error"
    assert [(quote.source, quote.line) for quote in found.evidence][:1] == [("ray_status.txt", 6)]


@pytest.mark.parametrize(("application", "cause"), [("RUNNING", "healthy"), ("DEPLOY_FAILED", "unknown")])
def test_serve_status_without_an_error_says_how_the_worst_application_is(application: str, cause: str) -> None:
    text = f"$ serve status\napplications:\n  a:\n    status: RUNNING\n    deployments:\n      d:\n        status: HEALTHY\n  b:\n    status: {application}\n    message: ''\n"
    found = diagnose({"ray_status.txt": text})
    assert found.cause == cause
    assert [(quote.source, quote.line) for quote in found.evidence][:1] == [("ray_status.txt", 9 if application != "RUNNING" else 4)]


@pytest.mark.parametrize(("minute", "cause"), [("09:31:05", "node_out_of_memory"), ("03:00:00", "unknown")])
def test_machine_that_ran_out_hours_before_is_no_reason_for_this_end(minute: str, cause: str) -> None:
    stranger = path("c" * 64, "ffffffff-1111-2222-3333-444455556666")
    kernel = killed(None, stranger, "java").replace("[1.", f"2026-01-14T{minute}+00:00 node-1 kernel: [1.")
    found = diagnose({"pod.json": pod([container()], [status(state=terminated(137))]), "kernel.log": kernel})
    assert found.cause == cause


@pytest.mark.parametrize(("minute", "cause"), [("10:00:00", "node_out_of_memory"), ("03:00:00", "healthy")])
def test_machine_that_ran_out_before_a_pod_started_is_no_matter_of_that_pod(minute: str, cause: str) -> None:
    stranger = path("c" * 64, "ffffffff-1111-2222-3333-444455556666")
    kernel = killed(None, stranger, "java").replace("[1.", f"2026-01-14T{minute}+00:00 node-1 kernel: [1.")
    found = diagnose({"pod.json": pod(statuses=[status(restartCount=0)]), "kernel.log": kernel})
    assert found.cause == cause


def test_machine_that_ran_out_hours_before_leaves_oomkilled_to_the_containers_limit() -> None:
    stranger = path("c" * 64, "ffffffff-1111-2222-3333-444455556666")
    kernel = killed(None, stranger, "java").replace("[1.", "2026-01-14T03:00:00+00:00 node-1 kernel: [1.")
    found = diagnose({"pod.json": pod([container()], [status(state=terminated(137, "OOMKilled"))]), "kernel.log": kernel})
    assert (found.cause, found.recommendations[0].id) == ("container_memory_limit", "memory_limit:raise")
