"""Words of single host logs: a kernel's report without its end, tables that cut words, limits of locking, a raylet that was given up, pinned memory that was done without."""

import pytest

from bot.diagnosis.words import show
from bot.terminal.text import change
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import container, derived, event, pod, status, terminated

INVOKED = "[  812.101] CPU 0/KVM invoked oom-killer: gfp_mask=0x15000c0(GFP_KERNEL_ACCOUNT), nodemask=(null), order=0, oom_score_adj=0\n[  812.102] CPU: 4 PID: 2443 Comm: CPU 0/KVM Not tainted 5.4.0\n"
TABLE = """+-------+---------+-------------------------------------------------------------------------------------------------------------------------+
| Model | Version | Status                                                                                                                  |
| chat  | 1       | UNAVAILABLE: Internal: Unable to initialize shared memory key '/chat_0_CPU_0' to requested size (67108864 bytes). If yo |
|       |         | u are running Triton inside docker, use '--shm-size' flag to control the shared memory region size. Error: No space le  |
|       |         | ft on device                                                                                                            |
+-------+---------+-------------------------------------------------------------------------------------------------------------------------+
error: creating server: Internal - failed to load all models
"""


def test_head_of_an_oom_report_says_that_memory_ran_out_and_not_whose() -> None:
    found = diagnose({"kernel.log": INVOKED})
    assert found.cause == "unknown"
    assert "OOM killer" in found.summary.en
    assert found.evidence
    assert next((gap.source, gap.reason) for gap in found.gaps if gap.matters) == ("kernel.log", "what was given of it does not say")
    whole = INVOKED + "[  812.103] Out of memory: Killed process 2443 (qemu) total-vm:9871204kB, anon-rss:8398012kB, file-rss:0kB, shmem-rss:0kB\n"
    assert diagnose({"kernel.log": whole}).cause == "node_out_of_memory"


def test_tritons_table_that_cuts_words_still_names_shared_memory() -> None:
    found = diagnose({"container.log": TABLE})
    assert found.cause == "shm_too_small"
    assert found.recommendations[0].id == "shm_size:raise"
    whole = "Internal: Unable to initialize shared memory key '/chat' to requested size (67108864 bytes). If you are running Triton inside docker, use '--shm-size'. Error: {}\n"
    assert diagnose({"container.log": whole.format("No space left on device")}).cause == "shm_too_small"
    assert diagnose({"container.log": whole.format("Permission denied")}).cause != "shm_too_small"


def test_limit_of_locked_memory_is_told_in_the_words_of_ucx_too() -> None:
    line = "[171.20] [node-3:81:0]  ib_iface.c:1230 UCX  ERROR mlx5_0: ibv_create_srq() failed: Cannot allocate memory : Please set max locked memory (ulimit -l) to 'unlimited' (current: 8192 kbytes)\n"
    found = diagnose({"container.log": line})
    assert [one.id for one in found.recommendations] == ["network:fix"]
    assert "ulimit -l" in found.summary.en


def test_raylet_that_was_given_up_is_a_node_lost_and_no_abort() -> None:
    for words in (
        "This node has beem marked as dead.",
        "[Timeout] Exiting because this node manager has mistakenly been marked as dead by the GCS: GCS failed to check the health.",
    ):
        log = f"[2026-01-14 12:46:52,789 C 149 149] (raylet) node_manager.cc:170: {words}\n*** StackTrace Information ***\n    ray::RayLog::~RayLog()\n"
        assert diagnose({"container.log": log}).cause == "node_lost"


def test_pinned_memory_that_was_done_without_is_no_failure() -> None:
    warning, end = "WARNING: failed to allocate 768.00 MB of pinned memory: out of memory\n", "llama_print_timings:       total time = 3182.11 ms\n"
    assert diagnose({"container.log": warning + end}).cause == "healthy"
    alone = diagnose({"container.log": warning})
    assert alone.cause == "unknown"
    assert "pinned" in alone.summary.en


def test_refused_allocation_outside_of_a_load_is_told_nothing_of_readers() -> None:
    refused = "RuntimeError: [enforce fail at alloc_cpu.cpp:73] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 116813856768 bytes. Error code 12 (Cannot allocate memory)\n"
    mapped = "RuntimeError: unable to mmap 23802932552 bytes from file <./m.safetensors>: Cannot allocate memory (12)\n"
    advised = [[one.id for one in diagnose({"container.log": log}).recommendations] for log in (refused, mapped)]
    assert ["load_format:change" in ids for ids in advised] == [False, True]


def test_probe_that_could_not_be_made_is_blamed_for_no_kill() -> None:
    item = {
        "reason": "Unhealthy",
        "type": "Warning",
        "message": "Liveness probe errored: rpc error: code = DeadlineExceeded",
        "count": 27,
        "lastTimestamp": "2026-01-14T12:15:52Z",
    }
    events = {"kind": "EventList", "items": [{"involvedObject": {"kind": "Pod", "name": "chat-0"}, **item}]}
    found = diagnose({"events.json": events})
    assert found.cause == "unknown"
    assert "counts for nothing" in found.summary.en


def test_stop_that_gunicorn_was_asked_for_is_a_stop() -> None:
    log = "[2026-01-14 10:00:00 +0000] [1] [INFO] Handling signal: term\n[2026-01-14 10:00:00 +0000] [8] [INFO] Worker exiting (pid: 8)\n[2026-01-14 10:00:01 +0000] [1] [ERROR] Worker (pid:8) was sent SIGTERM!\n"
    assert diagnose({"container.log": log}).cause == "normal_termination"
    assert "SIGTERM" in diagnose({"container.log": "/entrypoint.sh: line 28:    12 Terminated              python3 serve.py\n"}).summary.en


def test_disk_that_is_full_behind_a_full_object_store_is_given_room_first() -> None:
    log = "ray.exceptions.OutOfDiskError: Local disk is full\nThe object cannot be created because the local object store is full and the local disk's utilization is over capacity (95% by default).\n"
    assert diagnose({"container.log": log}).recommendations[0].id == "ephemeral_storage:raise"


def test_reading_of_a_full_machine_is_told_and_nothing_is_laid_to_it() -> None:
    free = "$ free -m\n               total        used        free      shared  buff/cache   available\nMem:           15843       15502         121          14         219         103\n"
    found = diagnose({"node_readings.txt": free})
    assert (found.cause, found.recommendations) == ("unknown", ())
    assert "memory is taken" in found.summary.en


def test_processor_that_was_held_is_told_of() -> None:
    for line in ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python3:409]", "INFO: task python3:409 blocked for more than 122 seconds."):
        assert "python3" in diagnose({"kernel.log": f"[  812.101] {line}\n"}).summary.en


def test_node_that_went_away_is_looked_after_where_only_its_event_is_there() -> None:
    item = {"reason": "NodeNotReady", "type": "Normal", "message": "Node gpu-7 status is now: NodeNotReady", "lastTimestamp": "2026-01-14T10:02:11Z"}
    found = diagnose({"events.json": {"kind": "EventList", "items": [{"involvedObject": {"kind": "Node", "name": "gpu-7"}, **item}]}})
    assert (found.cause, [one.id for one in found.recommendations]) == ("node_lost", ["drain_node"])


def test_crash_behind_a_refused_thread_is_the_refusals() -> None:
    log = "OpenBLAS blas_thread_init: pthread_create failed for thread 7 of 96: Resource temporarily unavailable\nSegmentation fault (core dumped)\n"
    assert diagnose({"container.log": log}).cause == "application_error"


def test_launchers_word_of_a_childs_own_code_is_read() -> None:
    line = "E0114 09:10:42.194000 84 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 2 (pid: 85) of binary: /usr/bin/python3\n"
    assert "code 1" in diagnose({"container.log": line}).summary.en


def test_tail_of_an_oom_report_and_a_bare_stop_are_told_without_a_verdict() -> None:
    reaped = diagnose({"kernel.log": "[  812.101] oom_reaper: reaped process 409 (python3), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB\n"})
    item = {"reason": "Killing", "type": "Normal", "message": "Stopping container server", "lastTimestamp": "2026-01-14T10:02:11Z"}
    stopped = diagnose({"events.json": {"kind": "EventList", "items": [{"involvedObject": {"kind": "Pod", "name": "chat-0"}, **item}]}})
    assert (reaped.cause, stopped.cause) == ("unknown", "unknown")
    assert "python3" in reaped.summary.en
    assert "told to stop" in stopped.summary.en


def test_what_a_kills_report_says_is_quoted_from_the_line_that_says_it() -> None:
    lines = [
        "[  812.101] CPU 0/KVM invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "[  812.102] memory: usage 8388608kB, limit 8388608kB, failcnt 12",
        "[  812.103] Memory cgroup stats for /docker/5b1f1d0c8a5d4a3c9e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d:",
        "[  812.104] anon 8053063680",
        "[  812.105] file 536870912",
        "[  812.106] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/docker/5b1f1d0c8a5d4a3c9e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d,task_memcg=/docker/5b1f1d0c8a5d4a3c9e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d,task=qemu,pid=2443,uid=0",
        "[  812.107] Memory cgroup out of memory: Killed process 2443 (qemu) total-vm:9871204kB, anon-rss:7864320kB, file-rss:0kB, shmem-rss:0kB",
    ]
    facts = derived(kernel="\n".join(lines) + "\n")
    said = {name: told.place.line for name in ("kernel.invoker", "kernel.cache_share") if (told := facts.fact(name)) is not None and told.place is not None}
    assert said == {"kernel.invoker": 1, "kernel.cache_share": 5}


@pytest.mark.parametrize(("seconds", "said"), [(39, "39 s"), (1106, "18 min"), (11206, "3.1 h"), (2599417, "30 days")])
def test_how_long_a_container_lived_is_told_in_a_unit_that_one_can_picture(seconds: int, said: str) -> None:
    assert show("container.lifetime_s", seconds) == said


@pytest.mark.parametrize(("restarts", "started", "grows"), [(15, "2026-01-14T06:20:00Z", True), (1, "2026-01-14T06:20:00Z", False), (15, "2026-01-14T09:30:00Z", False)])
def test_kills_again_and_again_after_hours_are_asked_for_what_grows(restarts: int, started: str, grows: bool) -> None:
    found = diagnose({"pod.json": pod([container()], [status(last=terminated(137, "OOMKilled", started=started), restartCount=restarts)])})
    assert found.cause == "container_memory_limit"
    assert found.recommendations[0].id == "memory_limit:raise"
    assert ("application:fix" in [advice.id for advice in found.recommendations]) is grows


def test_an_error_that_may_be_memory_of_the_card_is_not_said_to_be_no_failed_allocation() -> None:
    found = diagnose({"container.log": "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled cuda error, NCCL version 2.18.1\n"})
    assert "may be memory" in found.summary.en
    assert all("No allocation failed" not in item.why.en for item in found.will_not_help)


@pytest.mark.parametrize(("script", "said"), [("exec /srv/refresh --every 60", "tini"), ("/srv/prepare; /srv/refresh --every 60", "script")])
def test_program_that_was_executed_is_told_of_an_init_and_not_of_a_script(script: str, said: str) -> None:
    spec = container("geo-refresh", "tools/geo:1", "64Mi", command=["sh", "-c", script])
    deleted = {"deletionTimestamp": "2026-01-14T09:31:07Z"}
    scene = pod([container(), spec], [status(state=terminated(0, "Completed")), status("geo-refresh", state=terminated(137))], metadata=deleted)
    advice = next(each for each in diagnose({"pod.json": scene}).recommendations if each.id == "entrypoint:propagate_child_exit")
    assert advice.why is not None
    assert said in advice.why.en


def test_killed_child_is_answered_with_its_parents_end_and_not_with_signals() -> None:
    found = diagnose({"pod.json": pod([container()], [status(state=terminated(0, "OOMKilled"))])})
    assert found.cause == "child_killed_in_container"
    advice = next(each for each in found.recommendations if each.id == "entrypoint:propagate_child_exit")
    assert "signal" not in change(advice, "en")
    assert "信号" not in change(advice, "zh")


@pytest.mark.parametrize("scaling", [True, False])
def test_pod_that_an_autoscaler_has_promised_a_node_is_waited_for_first(scaling: bool) -> None:
    items = [event("FailedScheduling", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", of="")]
    items += [event("TriggeredScaleUp", "pod triggered scale-up: [{gpu-pool 0->1 (max: 8)}]", of="")] * scaling
    found = diagnose({"events.json": {"items": items}})
    assert (found.cause, found.recommendations[0].id) == ("unschedulable", "scheduling:fix")
    assert ("Wait first" in change(found.recommendations[0], "en")) == scaling


@pytest.mark.parametrize(("words", "volume"), [("pod has unbound immediate PersistentVolumeClaims", True), ("3 Insufficient nvidia.com/gpu", False)])
def test_pod_that_waits_for_a_volume_is_told_to_look_at_its_claim(words: str, volume: bool) -> None:
    found = diagnose({"events.json": {"items": [event("FailedScheduling", f"0/3 nodes are available: {words}.", of="")]}})
    assert [each.id for each in found.recommendations] == ["scheduling:fix"]
    assert ("describe pvc" in change(found.recommendations[0], "en")) == volume
