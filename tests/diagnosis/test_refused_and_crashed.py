"""Host-side failures that are easily taken for a lack of memory: refused allocations, crashes that only the kernel saw, a throttled server, NCCL's segments."""

import pytest

from bot.model import Certainty, Diagnosis
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import container, event, pod, status, terminated

BAD_ALLOC = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
SEGMENT = "[0] misc/shmutils.cc:114 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-Ab12cd (size 9637888)\n"
UNHANDLED = "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:275, unhandled system error, NCCL version 2.21.5\n"
SMALL = "$ df -h /dev/shm\nFilesystem      Size  Used Avail Use% Mounted on\nshm              64M   10M   54M  16% /dev/shm\n"
LARGE = SMALL.replace("64M", "64G").replace("54M", "63G")
CRASH = "Mar  6 10:37:50 node-1 kernel: [82533.8] python3[161]: segfault at 21 ip 00007fac sp 00007f9d error 4 in {library}[7fac6f1cf000+cf9000]\n"


def remedies(found: Diagnosis) -> list[str]:
    return [advice.id for advice in found.recommendations]


def test_allocation_that_was_refused_in_a_container_with_a_limit_is_no_matter_of_that_limit() -> None:
    found = diagnose({"pod.json": pod([container(limit="2Gi")], [status(last=terminated(134), restartCount=9)]), "previous.log": BAD_ALLOC})
    assert (found.cause, remedies(found)[0]) == ("abort", "vllm_version:change")
    assert not {"memory_limit:raise", "bigger_node"} & set(remedies(found))
    assert "memory_limit" in {item.remedy for item in found.will_not_help}


def test_allocation_that_was_refused_without_a_pod_leaves_the_machine_open() -> None:
    found = diagnose({"container.log": BAD_ALLOC})
    assert (found.cause, "node_out_of_memory") == ("abort", found.runners_up[0].cause)


@pytest.mark.parametrize(("library", "remedy"), [("libcuda.so.570.86.15", "driver:change"), ("libnccl.so.2", "nccl:change"), ("libtorch_cpu.so", "vllm_version:change")])
def test_crash_that_only_the_kernel_saw_names_the_library(library: str, remedy: str) -> None:
    found = diagnose({"kernel.log": CRASH.format(library=library)})
    assert (found.cause, found.certainty, remedies(found)[0]) == ("segfault", Certainty.LIKELY, remedy)
    assert library in found.summary.en


def test_crash_of_another_program_is_no_fault_of_a_server_that_runs() -> None:
    assert diagnose({"kernel.log": CRASH.format(library="libc.so.6"), "pod.json": pod()}).cause != "segfault"


def test_throttled_server_that_answers_is_throttled() -> None:
    log = "INFO 07-20 09:12:11 [loggers.py:259] Engine 000: Avg prompt throughput: 310.4 tokens/s, Avg generation throughput: 61.2 tokens/s, Running: 14 reqs, Waiting: 0 reqs, GPU KV cache usage: 3.1%, Prefix cache hit rate: 12.0%\n"
    found = diagnose({"container.log": log, "pod.json": pod(statuses=[status(restartCount=0)]), "node_readings.txt": "nr_periods 9120\nnr_throttled 9084\n"})
    assert (found.cause, remedies(found)[0]) == ("cpu_throttling", "cpu_limit:remove")


@pytest.mark.parametrize(
    ("before", "node", "cause", "certainty"),
    [
        ("", SMALL, "shm_too_small", Certainty.CERTAIN),
        ("", "", "shm_too_small", Certainty.LIKELY),
        ("", LARGE, "nccl_failure", Certainty.POSSIBLE),
        ("NCCL WARN Error: failed to extend /dev/shm/nccl-Ab12cd to 9637892 bytes, error: No space left on device (28)\n", SMALL, "shm_too_small", Certainty.CERTAIN),
        ("[0] misc/shmutils.cc:103 NCCL WARN Cuda failure 'invalid argument'\n", SMALL, "nccl_failure", Certainty.LIKELY),
    ],
)
def test_segment_that_nccl_could_not_make_is_decided_by_the_line_before_it(before: str, node: str, cause: str, certainty: Certainty) -> None:
    files = {"container.log": before + SEGMENT + UNHANDLED}
    if node:
        files["node_readings.txt"] = node
    found = diagnose(files)
    assert (found.cause, found.certainty) == (cause, certainty)


def test_kind_of_call_that_nccl_names_tells_a_cuda_call_on_a_segment_from_room_for_it() -> None:
    cuda = UNHANDLED.replace("unhandled system error", "unhandled cuda error")
    assert diagnose({"container.log": SEGMENT + cuda, "node_readings.txt": SMALL}).cause == "nccl_failure"
    assert diagnose({"container.log": SEGMENT + UNHANDLED, "node_readings.txt": SMALL}).cause == "shm_too_small"


def test_small_shared_memory_stays_open_beside_a_cuda_error_of_nccl() -> None:
    log = "[0] misc/shmutils.cc:103 NCCL WARN Cuda failure 'invalid argument'\n" + SEGMENT + UNHANDLED
    assert "shm_too_small" in {rival.cause for rival in diagnose({"container.log": log, "node_readings.txt": SMALL}).runners_up}


def test_store_without_another_mapping_is_full_and_one_at_its_capacity_may_only_wait() -> None:
    waits = "[2026-01-06 20:25:26,993 I 346 276] (raylet) store.cc:513: Plasma store at capacity\n"
    ends = "[2026-01-06 20:25:29,104 C 346 276] (raylet.exe) dlmalloc.cc:129:  Check failed: *handle != nullptr CreateFileMapping() failed. GetLastError() = 1455\n"
    assert (diagnose({"container.log": waits}).cause, diagnose({"container.log": waits}).certainty) == ("ray_object_store", Certainty.POSSIBLE)
    assert diagnose({"container.log": waits + ends}).cause == "ray_object_store"


@pytest.mark.parametrize(("required", "cache"), [(192, False), (61_440, True)])
def test_segment_that_the_server_refuses_to_make_calls_for_shared_memory_and_a_large_one_for_a_smaller_cache(required: int, cache: bool) -> None:
    found = diagnose({"container.log": f"(EngineCore pid=7) RuntimeError: Insufficient space in /dev/shm: {required} MiB required, 63 MiB free. Increase /dev/shm (e.g. --shm-size or --ipc=host).\n"})
    assert (found.cause, remedies(found)[0]) == ("shm_too_small", "shm_size:raise")
    assert ("host_memory_use:lower" in remedies(found)) is cache


@pytest.mark.parametrize(("counted", "cause"), [("18446744073702309888", "application_error"), ("17179869184", "gpu_oom")])
def test_share_of_a_card_that_counts_below_zero_is_no_full_card(counted: str, cause: str) -> None:
    found = diagnose({"container.log": f"[HAMI-core ERROR (pid:7 thread=139 allocator.c:53)]: Device 0 OOM {counted} / 16777216000\n"})
    assert found.cause == cause
    assert ("gpu_memory_utilization:lower" in remedies(found)) is (cause == "gpu_oom")


@pytest.mark.parametrize(("line", "remedy"), [("Illegal instruction     (core dumped)", "scheduling:fix"), ("Floating point exception     (core dumped)", "driver:change")])
def test_instruction_that_the_processor_lacks_is_no_matter_of_drivers(line: str, remedy: str) -> None:
    found = diagnose({"container.log": f"/start.sh: line 4:    31 {line} serve /m\n"})
    assert found.cause == "application_error"
    assert {"scheduling:fix", "driver:change"} & set(remedies(found)) == {remedy}


@pytest.mark.parametrize(("code", "cause"), [(2, "probe_kill"), (130, "probe_kill"), (143, "probe_kill"), (135, "shm_too_small")])
def test_start_up_probe_ends_a_program_whatever_code_it_answers_a_stop_with(code: int, cause: str) -> None:
    spec = container(startupProbe={"exec": {"command": ["/check.sh"]}, "periodSeconds": 3, "failureThreshold": 10})
    events = [
        event("Unhealthy", "Startup probe failed: Error: model list: file does not exist", at="2026-01-14T09:31:04Z", count=9),
        event("Killing", "Container server failed startup probe, will be restarted", at="2026-01-14T09:31:05Z"),
    ]
    the_pod = pod([spec], [status(last=terminated(code, started="2026-01-14T09:30:30Z"), ready=False)])
    found = diagnose({"pod.json": the_pod, "events.json": {"kind": "List", "items": events}})
    assert found.cause == cause
    assert cause != "probe_kill" or remedies(found)[:2] == ["probe:fix", "probe:relax"]


def test_replica_that_waits_for_processors_is_not_told_that_it_waits_for_cards() -> None:
    waits = "Deployment 'Ranker' in application 'shop' has 1 replicas that have taken more than 30s to be scheduled. This may be due to waiting for the cluster to auto-scale or for a runtime environment to be installed."
    found = diagnose({"container.log": f'WARNING 2026-01-14 09:04:33,560 controller 30 -- {waits} Resources required for each replica: {{"CPU": 4.0}}, total resources available: {{"CPU": 6.0}}.\n'})
    assert found.cause == "unschedulable"
    assert "fewer GPUs" not in " ".join(item.says.en for item in found.evidence)
    assert any('"CPU": 4.0' in item.quote for item in found.evidence)


@pytest.mark.parametrize("probe", ["liveness", "startup", "readiness"])
def test_probe_whose_command_is_not_there_is_repaired_and_not_given_more_time(probe: str) -> None:
    text = f'{probe.capitalize()} probe failed: OCI runtime exec failed: exec failed: unable to start container process: exec: "pgrep": executable file not found in $PATH: unknown'
    events = [event("Unhealthy", text, at="2026-01-14T09:31:04Z", count=9)]
    if probe != "readiness":
        events.append(event("Killing", f"Container server failed {probe} probe, will be restarted", at="2026-01-14T09:31:05Z"))
    ended = status(last=terminated(143)) if probe != "readiness" else status(ready=False, restartCount=0)
    found = diagnose({"pod.json": pod([container()], [ended]), "events.json": {"kind": "List", "items": events}})
    assert (found.cause, remedies(found)[0]) == ("probe_kill", "probe:fix")
    assert "probe:relax" not in remedies(found)


@pytest.mark.parametrize(("stopped", "cause"), [("2026-01-14T09:31:03Z", "normal_termination"), ("2026-01-14T09:33:03Z", "unknown")])
def test_code_of_its_own_is_the_answer_to_a_stop_only_behind_it(stopped: str, cause: str) -> None:
    the_pod = pod([container()], [status(state=terminated(1), ready=False, restartCount=0)], metadata={"deletionTimestamp": stopped.replace(":03Z", ":33Z"), "deletionGracePeriodSeconds": 30})
    found = diagnose({"pod.json": the_pod, "events.json": {"kind": "List", "items": [event("Killing", "Stopping container server", at=stopped)]}})
    assert found.cause == cause


@pytest.mark.parametrize(
    ("hook", "to"),
    [
        ({"exec": {"command": ["sleep", "120"]}}, 150),
        ({"exec": {"command": ["/bin/sh", "-c", "touch /tmp/x && sleep 29"]}}, 60),
        ({"sleep": {"seconds": 60}}, 90),
        ({"exec": {"command": ["sh", "-c", "sleep 5"]}}, None),
        ({"httpGet": {"path": "/drain", "port": 8000}}, None),
    ],
)
def test_hook_that_sleeps_for_the_whole_grace_period_calls_for_a_longer_one(hook: dict[str, object], to: int | None) -> None:
    the_pod = pod([container(lifecycle={"preStop": hook})], [status(state=terminated(137), ready=False, restartCount=0)], metadata={"deletionTimestamp": "2026-01-14T09:31:07Z"})
    found = diagnose({"pod.json": the_pod, "events.json": {"kind": "List", "items": [event("Killing", "Stopping container server", at="2026-01-14T09:30:37Z")]}})
    assert found.cause == "grace_period_kill"
    assert ("hook sleeps" in found.summary.en) is (to is not None)
    assert to is None or (remedies(found)[0], found.recommendations[0].to_value) == ("grace_period:raise", to)


@pytest.mark.parametrize(("grace", "stopped", "first", "longer"), [(30, "09:30:37", "grace_period:raise", True), (300, "09:26:07", "application:fix", False)])
def test_program_that_does_not_stop_within_minutes_is_not_given_more(grace: int, stopped: str, first: str, longer: bool) -> None:
    the_pod = pod(
        [container()],
        [status(state=terminated(137), ready=False, restartCount=0)],
        metadata={"deletionTimestamp": "2026-01-14T09:31:07Z", "deletionGracePeriodSeconds": grace},
        spec={"terminationGracePeriodSeconds": grace},
    )
    found = diagnose({"pod.json": the_pod, "events.json": {"kind": "List", "items": [event("Killing", "Stopping container server", at=f"2026-01-14T{stopped}Z")]}})
    assert (found.cause, remedies(found)[0]) == ("grace_period_kill", first)
    assert ("grace_period:raise" in remedies(found)) is longer


def test_eviction_that_names_several_containers_is_about_the_one_that_used_most() -> None:
    message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 87608Ki. " + "".join(
        f"Container {name} was using {used}, request is {request}, has larger consumption of memory. "
        for name, used, request in (("metrics-proxy", "40960Ki", "16Mi"), ("server", "35651584Ki", "16Gi"))
    )
    specs = [container("metrics-proxy", "proxy:1", limit=None, request="16Mi"), container(limit=None, request="16Gi")]
    ended = [status("metrics-proxy", state=terminated(137), restartCount=0), status(state=terminated(0, "Completed"), restartCount=0)]
    found = diagnose({"pod.json": pod(specs, ended, status={"phase": "Failed", "reason": "Evicted", "message": message})})
    raised = found.recommendations[0]
    assert (found.cause, remedies(found)[0]) == ("evicted_for_memory", "memory_request:raise")
    assert (raised.from_value, raised.to_value) == ("16Gi", "44Gi")


@pytest.mark.parametrize(
    ("reason", "message", "lacks"),
    [
        ("Pending", "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed", "quota in its queue"),
        ("Unschedulable", "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; 0/3 nodes are unavailable: 3 Insufficient nvidia.com/gpu.", "GPUs"),
    ],
)
def test_queue_that_keeps_a_pod_back_is_named(reason: str, message: str, lacks: str) -> None:
    item = event(reason, message, kind="Workload" if reason == "Pending" else "PodGroup", name="chat")
    found = diagnose({"events.json": {"kind": "List", "items": [item]}})
    assert (found.cause, remedies(found)[0]) == ("unschedulable", "scheduling:fix")
    assert lacks in found.summary.en


def test_pod_that_is_queued_and_runs_meanwhile_is_not_called_unschedulable() -> None:
    item = event("Pending", "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed", kind="Workload", name="chat")
    found = diagnose({"pod.json": pod([container()], [status(restartCount=0)]), "events.json": {"kind": "List", "items": [item]}})
    assert found.cause != "unschedulable"
