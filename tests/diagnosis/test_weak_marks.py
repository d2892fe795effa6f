"""Marks that prove little: counters without a kill, a runtime's word, a line in a server's log, a node's pressure. What may be said, and what may not."""

from typing import Any

import pytest

from bot.model import Certainty, Diagnosis
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import ID, OLD_ID, container, event, killed, path, pod, status, terminated
from tests.diagnosis.test_pastes import oom

V1 = "$ cat memory.limit_in_bytes\n34359738368\n$ cat memory.max_usage_in_bytes\n34359738368\n$ cat memory.failcnt\n48211\n"
CONTAINER_KILL = "Memory cgroup out of memory: Killed process 77 (python3) total-vm:9kB, anon-rss:5kB, file-rss:1kB, shmem-rss:0kB"
NODE_KILL = "Out of memory: Killed process 77 (python3) total-vm:9kB, anon-rss:5kB, file-rss:1kB, shmem-rss:0kB"
CARD_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 136.00 MiB. GPU 0 has a total capacity of 22.36 GiB of which 120.88 MiB is free. "
    "Of the allocated memory 21.10 GiB is allocated by PyTorch, and 41.20 MiB is reserved by PyTorch but unallocated.\n"
)


def remedies(found: Diagnosis) -> list[str]:
    return [advice.id for advice in found.recommendations]


def events(*items: dict[str, Any]) -> dict[str, Any]:
    return {"items": list(items)}


def node_event(reason: str, message: str) -> dict[str, Any]:
    return events(event(reason, message, kind="Node", name="node-1"))


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return pod([container()], [status(state=terminated(code, reason))])


# -- counters of a control group


def test_group_that_was_full_once_proves_no_kill() -> None:
    found = diagnose({"node_readings.txt": V1})
    assert (found.cause, found.recommendations) == ("unknown", ())
    assert "oom_kill" in found.summary.en
    assert {quote.line for quote in found.evidence} == {2, 4, 6}


def test_group_that_was_full_and_an_end_by_sigkill_are_possible_and_name_what_would_decide() -> None:
    found = diagnose({"node_readings.txt": V1, "pod.json": ended(137)})
    assert (found.cause, found.certainty) == ("container_memory_limit", Certainty.POSSIBLE)
    assert remedies(found)[0] == "host_memory_use:lower"
    assert "kernel.log" in {gap.source for gap in found.gaps}


def test_kill_counted_by_an_old_kernel_is_one_at_the_limit_where_that_was_hit() -> None:
    found = diagnose({"node_readings.txt": V1 + "$ cat memory.oom_control\noom_kill_disable 0\nunder_oom 0\noom_kill 2\n"})
    assert (found.cause, found.certainty) == ("child_killed_in_container", Certainty.LIKELY)


def test_processes_held_at_a_limit_hang_and_are_not_killed() -> None:
    found = diagnose({"node_readings.txt": "$ cat memory.oom_control\noom_kill_disable 1\nunder_oom 1\n"})
    assert found.cause == "container_memory_limit"
    assert "hangs" in found.summary.en


# -- a killer in user space


def test_unit_that_systemd_oomd_ended_is_named_with_its_reason() -> None:
    found = diagnose({"kernel.log": "Jan 14 09:31:07 node-1 systemd-oomd[812]: Killed /system.slice/chat.service due to memory pressure for /system.slice being 72.31% > 60.00%\n"})
    assert (found.cause, found.certainty) == ("node_out_of_memory", Certainty.LIKELY)
    assert "chat.service" in found.summary.en
    assert "72.31%" in found.summary.en


def test_killer_in_user_space_is_read_from_a_journal_among_other_outputs() -> None:
    text = "$ journalctl -b | grep -i oomd\nDec 18 19:34:56 node-1 systemd-oomd[840]: Killed /system.slice/chat.service due to memory pressure for /system.slice being 51.07% > 50.00%\n$ dmesg | grep -i oom\n$\n"
    found = diagnose({"node_readings.txt": text})
    assert (found.cause, found.evidence[0].source, found.evidence[0].line) == ("node_out_of_memory", "node_readings.txt", 2)


def test_kernel_log_rules_over_a_paste_of_it() -> None:
    group = "/system.slice/docker-" + "e" * 64 + ".scope"
    found = diagnose({"kernel.log": killed(group, group, "python3"), "node_readings.txt": "$ dmesg\n" + killed(None, "/x", "java")})
    assert (found.cause, found.evidence[0].source) == ("container_memory_limit", "kernel.log")


def test_quiet_paste_of_a_filtered_kernel_log_is_no_look_at_it() -> None:
    found = diagnose({"pod.json": ended(137), "node_readings.txt": "$ dmesg | grep -i oom\n$ free -g\n              total        used        free\nMem:            503         100         400\n"})
    assert "kernel.log" in {gap.source for gap in found.gaps}


def test_earlyooms_reason_is_what_it_saw_before() -> None:
    text = (
        "Aug 04 10:39:10 node-1 earlyoom[845]: mem avail:   402 of 30236 MiB ( 1.33%), swap free:  501 of 5119 MiB ( 9.79%)\n"
        'Aug 04 10:39:10 node-1 earlyoom[845]: sending SIGTERM to process 77 uid 1000 "python3": oom_score 1282, VmRSS 29931 MiB\n'
    )
    assert "402 of 30236 MiB" in diagnose({"kernel.log": text}).summary.en


# -- a volume in memory that is too full


@pytest.mark.parametrize(
    ("volume", "the_pod", "first"),
    [
        ("dshm", None, "shm_size:raise"),
        ("cache", None, "ephemeral_storage:raise"),
        ("scratch", {"volumes": [{"name": "scratch", "emptyDir": {"medium": "Memory"}}]}, "shm_size:raise"),
        ("dshm", {"volumes": [{"name": "dshm", "emptyDir": {}}]}, "ephemeral_storage:raise"),
    ],
)
def test_full_volume_gets_what_its_medium_needs(volume: str, the_pod: dict[str, Any] | None, first: str) -> None:
    files: dict[str, Any] = {"events.json": events(event("Evicted", f'Usage of EmptyDir volume "{volume}" exceeds the limit "2Gi". '))}
    if the_pod is not None:
        files["pod.json"] = pod(spec=the_pod)
    found = diagnose(files)
    assert (found.cause, remedies(found)[0]) == ("evicted_other", first)


def test_files_in_memory_that_fill_the_limit_call_for_a_new_pod() -> None:
    text = "# cat memory.stat\nanon 311296\nfile 34000000000\nshmem 34000000000\n"
    found = diagnose({"pod.json": pod([container()], [status(last=terminated(137, "OOMKilled"))]), "node_readings.txt": text})
    assert (found.cause, remedies(found)[0]) == ("container_memory_limit", "restart")
    assert "shm_size" in {item.remedy for item in found.will_not_help}


# -- a runtime's word


def oom_event(container_id: str) -> str:
    return f'time="2026-01-14T09:31:07Z" level=info msg="TaskOOM event container_id:\\"{container_id}\\""\n'


def test_runtime_that_saw_a_kill_in_a_container_which_ended_by_sigkill_is_likely_its_limit() -> None:
    found = diagnose({"pod.json": ended(137), "node_readings.txt": oom_event(OLD_ID)})
    assert (found.cause, found.certainty) == ("container_memory_limit", Certainty.LIKELY)


def test_runtime_that_saw_a_kill_in_a_container_which_runs_on_is_a_child() -> None:
    found = diagnose({"pod.json": pod(), "node_readings.txt": oom_event(ID)})
    assert (found.cause, found.certainty) == ("child_killed_in_container", Certainty.LIKELY)


def test_runtimes_word_on_another_container_says_nothing_of_this_one() -> None:
    assert diagnose({"pod.json": ended(137), "node_readings.txt": oom_event("c" * 64)}).cause == "unknown"


def test_runtimes_word_alone_is_possible() -> None:
    found = diagnose({"node_readings.txt": oom_event(OLD_ID)})
    assert (found.cause, found.certainty, remedies(found)[0]) == ("container_memory_limit", Certainty.POSSIBLE, "host_memory_use:lower")


# -- lines in a server's log


@pytest.mark.parametrize(
    "line",
    [
        CONTAINER_KILL,
        NODE_KILL,
        "chat.service: Failed with result 'oom-kill'.",
        "systemd-oomd[8]: Killed /system.slice/chat.service due to memory used (3) / total (3)",
        "2026-01-14T09:31:07Z container oom 3f21ab90c4d5 (image=vllm, name=chat)",
    ],
)
def test_line_in_a_servers_log_proves_no_kill(line: str) -> None:
    found = diagnose({"container.log": f"INFO 01-14 09:00:00 Received request cmpl-1: prompt: 'Explain this:\n{line}\nThanks', params: None\n"})
    assert found.certainty is Certainty.POSSIBLE
    assert not {"memory_limit:raise", "memory_limit:set"} & set(remedies(found))
    assert "kernel.log" in {gap.source for gap in found.gaps}


@pytest.mark.parametrize("line", [CONTAINER_KILL, NODE_KILL])
def test_line_in_a_servers_log_hides_no_error_of_the_server(line: str) -> None:
    found = diagnose({"container.log": f"prompt: 'Explain this:\n{line}\nThanks'\n{CARD_OOM}"})
    assert found.family == "device_memory"


# -- a child, by the kernel's record alone


def test_engine_that_was_taken_alone_is_a_child_of_a_container_that_lives_on() -> None:
    group = "/system.slice/docker-" + "e" * 64 + ".scope"
    found = diagnose({"kernel.log": killed(group, group, "VLLM::EngineCor")})
    assert (found.cause, found.certainty) == ("child_killed_in_container", Certainty.LIKELY)


@pytest.mark.parametrize(("pid", "cause"), [(811, "child_killed_in_container"), (700, "container_memory_limit")])
def test_task_table_tells_the_first_process_from_a_child(pid: int, cause: str) -> None:
    group = "/system.slice/docker-" + "e" * 64 + ".scope"
    table = "[1.15] Tasks state (memory values in pages):\n[1.15] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name\n"
    rows = "".join(f"[1.15] [{one:7d}]     0 {one:5d}  9000000  8000000  1000000        0             0 python3\n" for one in (700, 811))
    head, verdict = killed(group, group, "python3", pid).split("[1.2]", 1)
    assert diagnose({"kernel.log": f"{head}{table}{rows}[1.2]{verdict}"}).cause == cause


def test_group_kill_and_a_kill_with_others_beside_it_are_no_child() -> None:
    lines = "".join(f"[1.3] Memory cgroup out of memory: Killed process {pid} ({name}) total-vm:9kB, anon-rss:{pid}kB\n" for pid, name in ((9, "VLLM::EngineCor"), (7, "VLLM::Worker_TP")))
    for log in (lines, killed(path(), path(), group=True)):
        assert diagnose({"kernel.log": log}).cause == "container_memory_limit"


# -- Ray: what waits beside free GPUs

RAY = "======== Autoscaler status: x ========\nUsage:\n {used}/16.0 GPU\n 4.0/128.0 CPU\n{more}\nDemands:\n {demand}: 1+ pending placement groups\n"


@pytest.mark.parametrize(
    ("demand", "more", "named"),
    [
        ("{'GPU': 1.0, 'node:10.1.2.3': 0.001} * 1, {'GPU': 1.0} * 7 (PACK)", "", "node:10.1.2.3"),
        ("{'accelerator_type:A100': 0.001, 'GPU': 1.0} * 4 (PACK)", " 0.0/2.0 accelerator_type:L4\n", "accelerator_type:A100"),
        ("{'GPU': 1.0, 'CPU': 40.0} * 4 (PACK)", "", "CPU"),
    ],
)
def test_what_is_lacking_beside_free_gpus_is_named(demand: str, more: str, named: str) -> None:
    found = diagnose({"ray_status.txt": RAY.format(used="0.0", more=more, demand=demand)})
    assert (found.cause, found.certainty, remedies(found)[0]) == ("unschedulable", Certainty.LIKELY, "ray_resources:fix")
    assert named in found.summary.en


def test_group_that_waits_beside_as_many_free_gpus_is_possibly_unschedulable() -> None:
    found = diagnose({"ray_status.txt": RAY.format(used="0.0", more="", demand="{'GPU': 8.0} * 2 (PACK)")})
    assert (found.cause, found.certainty) == ("unschedulable", Certainty.POSSIBLE)


def test_kind_of_card_that_is_free_is_not_lacking() -> None:
    found = diagnose({"ray_status.txt": RAY.format(used="0.0", more=" 0.0/2.0 accelerator_type:A100\n", demand="{'accelerator_type:A100': 0.001, 'GPU': 1.0} * 4 (PACK)")})
    assert found.certainty is Certainty.POSSIBLE


# -- who sent the signal


def test_worker_that_ended_by_sigterm_was_not_killed_for_memory() -> None:
    found = diagnose({"container.log": "ERROR 08-11 16:59:41 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 143 died, exit code: -15\n"})
    assert (found.cause, found.recommendations) == ("unknown", ())
    assert "SIGTERM" in found.summary.en


def test_word_of_an_older_gunicorn_about_signal_9_leaves_open_who_sent_it() -> None:
    found = diagnose({"container.log": "[2022-05-17 01:21:14 +0000] [14] [WARNING] Worker with pid 17 was terminated due to signal 9\n"})
    assert (found.cause, "SIGKILL" in found.summary.en) == ("unknown", True)


def test_a_worker_that_ran_out_on_the_card_before_it_fell_silent_failed_of_that() -> None:
    timeout = "[2025-06-01 10:03:00 +0000] [7] [CRITICAL] WORKER TIMEOUT (pid:9)\n[2025-06-01 10:03:01 +0000] [7] [ERROR] Worker (pid:9) was sent SIGKILL! Perhaps out of memory?\n"
    assert diagnose({"container.log": timeout}).cause == "application_error"
    found = diagnose({"container.log": oom() + timeout})
    assert found.cause == "gpu_oom"
    assert "gunicorn" not in found.summary.en


# -- a node under pressure, and who prepares a pod


@pytest.mark.parametrize(
    ("reason", "message", "cause"),
    [
        ("NodeHasInsufficientMemory", "Node node-1 status is now: NodeHasInsufficientMemory", "evicted_for_memory"),
        ("EvictionThresholdMet", "Attempting to reclaim memory", "evicted_for_memory"),
        ("EvictionThresholdMet", "Attempting to reclaim ephemeral-storage", "evicted_other"),
    ],
)
def test_pressure_of_a_node_is_a_possible_eviction_and_asks_for_the_pod(reason: str, message: str, cause: str) -> None:
    found = diagnose({"events.json": node_event(reason, message)})
    assert (found.cause, found.certainty) == (cause, Certainty.POSSIBLE)
    assert "pod.json" in {gap.source for gap in found.gaps}


def test_pod_that_was_not_evicted_under_pressure_may_have_been_taken_for_the_node() -> None:
    found = diagnose({"events.json": node_event("EvictionThresholdMet", "Attempting to reclaim memory"), "pod.json": ended(137)})
    assert (found.cause, found.certainty) == ("node_out_of_memory", Certainty.POSSIBLE)
    assert "memory_limit:raise" not in remedies(found)


def test_pod_that_runs_well_on_a_node_under_pressure_has_lost_nothing() -> None:
    found = diagnose({"events.json": node_event("EvictionThresholdMet", "Attempting to reclaim memory"), "pod.json": pod()})
    assert found.family not in ("host_memory", "device_memory")


@pytest.mark.parametrize("log", ["", "google.api_core.exceptions.Forbidden: 403 GET https://storage.example/b/models: no access\n", "botocore.exceptions.NoCredentialsError: Unable to locate credentials\n"])
def test_downloader_that_ends_by_itself_is_no_matter_of_memory(log: str) -> None:
    waiting = status(state={"waiting": {"reason": "PodInitializing"}}, restartCount=0)
    failing = status("storage-initializer", {"waiting": {"reason": "CrashLoopBackOff"}}, terminated(1))
    files: dict[str, Any] = {"pod.json": pod([container()], [waiting], spec={"initContainers": [container("storage-initializer", "kserve/si:1", "1Gi")]}, status={"initContainerStatuses": [failing]})}
    if log:
        files["logs/storage-initializer.previous.log"] = f'Traceback (most recent call last):\n  File "/storage/storage.py", line 77, in download\n{log}'
    found = diagnose(files)
    assert (found.cause, found.certainty) == ("application_error", Certainty.LIKELY if log else Certainty.POSSIBLE)
    assert "init_container_memory:raise" not in remedies(found)


def test_platforms_guess_about_a_killed_notebook_is_possible() -> None:
    found = diagnose({"container.log": "The Python process exited with exit code 137 (SIGKILL: Killed). This may have been caused by an OOM error.\n"})
    assert (found.cause, found.certainty) == ("node_out_of_memory", Certainty.POSSIBLE)


def test_no_limit_is_both_set_and_lowered() -> None:
    text = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
    found = diagnose({"container.log": text, "node_readings.txt": "$ cat memory.limit_in_bytes\n9223372036854771712\n", "pod.json": pod([container(limit=None)])})
    assert found.cause == "ray_memory_monitor"
    assert remedies(found)[0] == "memory_limit:set"
    assert "memory_limit:lower" not in remedies(found)


# -- what docker, systemd and a list of pods say


@pytest.mark.parametrize(
    ("code", "killed_for_memory", "cause"),
    [(137, "true", "container_memory_limit"), (0, "true", "child_killed_in_container"), (137, "false", "unknown"), (139, "false", "segfault"), (134, "false", "abort")],
)
def test_code_and_flag_of_docker_are_read_together(code: int, killed_for_memory: str, cause: str) -> None:
    found = diagnose({"node_readings.txt": f'$ docker inspect chat\n{{"Status":"exited","OOMKilled":{killed_for_memory},"ExitCode":{code}}}\n'})
    assert found.cause == cause
    assert killed_for_memory == "true" or "memory_limit:raise" not in remedies(found)


@pytest.mark.parametrize("file", ["node_readings.txt", "kernel.log"])
def test_units_end_for_memory_is_likely_the_machines(file: str) -> None:
    found = diagnose({file: "Jan 14 09:31:07 node-1 systemd[1]: chat.service: Failed with result 'oom-kill'.\n"})
    assert (found.cause, found.certainty) == ("node_out_of_memory", Certainty.LIKELY)


@pytest.mark.parametrize(("told", "cause"), [("OOMKilled", "container_memory_limit"), ("Init:OOMKilled", "init_container_memory"), ("CrashLoopBackOff", "unknown")])
def test_status_in_a_list_of_pods_is_possible_at_most(told: str, cause: str) -> None:
    found = diagnose({"node_readings.txt": f"$ kubectl get pods\nNAME     READY   STATUS      RESTARTS      AGE\nchat-0   0/1     {told}   4 (30s ago)   5m\n"})
    assert (found.cause, found.certainty) == (cause, Certainty.POSSIBLE)
    assert told in found.summary.en or cause != "unknown"


def test_events_of_a_file_rule_over_a_paste_of_events() -> None:
    table = "$ kubectl get events\nLAST SEEN   TYPE      REASON    OBJECT       MESSAGE\n5m   Warning   Evicted   pod/chat-0   The node was low on resource: ephemeral-storage.\n"
    given = {"events.json": events(event("Evicted", "The node was low on resource: memory. "))}
    assert diagnose({"node_readings.txt": table}).cause == "evicted_other"
    assert diagnose({"node_readings.txt": table, **given}).cause == "evicted_for_memory"
