"""Ends that another file than the usual one shows: a guest's kernel, a supervisor's word, a swarm's task, a counter of processes; and what a node does to a pod that lives."""

from typing import Any

import pytest

from bot.model import Certainty, Diagnosis
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import ENDED, container, event, killed, path, pod, status, terminated

STRANGER = path("c" * 64, "ffffffff-1111-2222-3333-444455556666")
GROUP = "/docker/" + "6" * 64
SEGFAULT = "[1031204.1] dask-worker[218]: segfault at 8 ip 00007f2b11c38a10 sp 00007f2ae3ffdb40 error 4 in libcuda.so.550.54[7f2b11a10000+1057000]\n"


def remedies(found: Diagnosis) -> list[str]:
    return [advice.id for advice in found.recommendations]


def test_kill_at_the_limit_of_a_program_that_a_shell_saw_killed_is_its_own() -> None:
    found = diagnose({"container.log": "/home # ./mem 520000\nKilled\n/home # \n", "kernel.log": killed(GROUP, GROUP, "mem")})
    assert (found.cause, remedies(found)[0]) == ("container_memory_limit", "memory_limit:raise")
    assert "bigger_node" not in remedies(found)


def test_program_that_a_shell_saw_killed_below_a_limit_is_a_child() -> None:
    found = diagnose({"container.log": "Killed\n", "args.txt": "docker run -m 512m x"})
    assert (found.cause, remedies(found)[0]) == ("child_killed_in_container", "memory_limit:raise")
    assert diagnose({"container.log": "Killed\n"}).cause != "child_killed_in_container"


OLD = "Jan 14 03:41:07 n1 kernel: Memory cgroup out of memory: Kill process 188 ({name}) score 1941 or sacrifice child\nJan 14 03:41:07 n1 kernel: Killed process 188 ({name}) total-vm:9kB, anon-rss:{held}kB, file-rss:0kB, shmem-rss:0kB\n"
QUIET = pod([container(limit="1Gi")], [status(restartCount=0)])


@pytest.mark.parametrize(("held", "cause"), [(1029288, "child_killed_in_container"), (400000, "unknown"), (2000000, "unknown")])
def test_kill_without_a_path_is_ours_where_it_filled_just_our_limit(held: int, cause: str) -> None:
    found = diagnose({"pod.json": QUIET, "kernel.log": OLD.format(name="java", held=held)})
    assert (found.cause, found.certainty is Certainty.CERTAIN) == (cause, False)
    assert "none" not in remedies(found)


def test_machine_that_took_somebody_else_is_told_of_beside_a_pod_that_runs() -> None:
    found = diagnose({"pod.json": QUIET, "kernel.log": killed(None, STRANGER, "packet_mmap")})
    assert (found.cause, found.certainty) == ("node_out_of_memory", Certainty.LIKELY)
    assert not {"memory_limit:raise", "none"} & set(remedies(found))


@pytest.mark.parametrize("extra", [{}, {"container.log": "distributed.nanny - WARNING - Worker process 218 was killed by signal 11\n"}])
def test_crash_in_the_drivers_library_calls_for_another_driver(extra: dict[str, str]) -> None:
    found = diagnose({"kernel.log": SEGFAULT, **extra})
    assert (found.cause, remedies(found)[0]) == ("segfault", "driver:change")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("Shard process was signaled to shutdown with signal 4 rank=0", "application_error"),
        ("distributed.nanny - WARNING - Worker process 218 was killed by signal 6", "abort"),
        ("distributed.nanny - WARNING - Worker process 218 was killed by signal 7", "shm_too_small"),
        ("distributed.nanny - WARNING - Worker process 218 was killed by signal 9", "unknown"),
        ("runtime/cgo: pthread_create failed: Resource temporarily unavailable\nSIGABRT: abort", "application_error"),
        ("set_mempolicy: Operation not permitted", "application_error"),
        ("flux.service: State 'stop-sigterm' timed out. Killing.", "grace_period_kill"),
        ('level=info msg="Container failed to exit within 10s of signal 15 - using the force"', "grace_period_kill"),
    ],
)
def test_supervisors_word_names_the_signal_or_the_refusal(line: str, cause: str) -> None:
    found = diagnose({"container.log": f"{line}\n"})
    assert found.cause == cause
    assert "memory_limit:raise" not in remedies(found)


def test_stop_that_systemd_had_to_force_is_read_from_its_journal() -> None:
    text = "$ journalctl -u chat\nFeb 24 10:32:41 n1 systemd[1]: Stopping chat...\nFeb 24 10:34:11 n1 systemd[1]: chat.service: State 'stop-sigterm' timed out. Killing.\n"
    found = diagnose({"node_readings.txt": text})
    assert (found.cause, remedies(found)[0]) == ("grace_period_kill", "grace_period:raise")


def test_task_that_a_swarm_called_unhealthy_was_ended_for_its_check() -> None:
    found = diagnose({"node_readings.txt": '{"State":"failed","Err":"task: non-zero exit (137): dockerexec: unhealthy container","ContainerStatus":{"ExitCode":137}}\n'})
    assert (found.cause, remedies(found)[0]) == ("probe_kill", "probe:relax")


def test_limit_of_processes_is_no_limit_of_memory() -> None:
    found = diagnose({"node_readings.txt": "$ cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.events\n200\nmax 44\n"})
    assert found.cause == "application_error"
    assert "44" in found.summary.en
    memory = diagnose({"node_readings.txt": "$ cat /sys/fs/cgroup/memory.events\nlow 0\nhigh 0\nmax 44\noom 0\noom_kill 0\n"})
    assert memory.cause != "application_error"


def test_counter_of_processes_hides_no_error_of_the_server() -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 136.00 MiB. GPU 0 has a total capacity of 22.36 GiB of which 120.88 MiB is free.\n"
    assert diagnose({"container.log": oom, "node_readings.txt": "$ cat pids.events\nmax 3\n"}).family == "device_memory"


LOST: dict[str, dict[str, Any]] = {
    "shut down": {"pod.json": pod([container()], [status(state=terminated(137))], status={"phase": "Failed", "reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."})},
    "unreachable": {"pod.json": pod(metadata={"deletionTimestamp": ENDED}, status={"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "Taint manager: deleting"}]})},
    "not ready": {"pod.json": pod([container()], [status(ready=False)]), "events.json": {"items": [event("NodeNotReady", "Node is not ready")]}},
    "preempted": {"events.json": {"items": [event("Preempted", "Preempted by pod x on node node-1")]}},
}  # fmt: skip


@pytest.mark.parametrize("name", LOST)
def test_lost_pod_is_made_again_and_nobody_is_told_that_nothing_is_to_do(name: str) -> None:
    found = diagnose(LOST[name])
    assert found.cause == "node_lost"
    assert "restart" in remedies(found)
    assert "none" not in remedies(found)


def test_controller_of_the_machine_that_ends_a_pod_is_read_with_the_pods_group() -> None:
    uid = "77f06c5c-4593-43e9-b970-987f6ecb825b"
    line = f'user: warning: [2026-01-12T20:27:31.9Z]: [talos] Sending SIGKILL to cgroup {{"component": "controller-runtime", "controller": "runtime.OOMController", "cgroup": "/sys/fs/cgroup/kubepods/burstable/pod{uid}"}}\n'
    found = diagnose({"node_readings.txt": f"$ dmesg | tail -5\n{line}{line}"})
    assert (found.cause, found.certainty) == ("node_out_of_memory", Certainty.LIKELY)
    assert uid in found.summary.en


def test_kill_hours_before_a_unit_ended_is_none_of_that_unit() -> None:
    kernel = killed(GROUP, GROUP, "php").replace("[1.", "[Mon Aug 31 18:23:18 2015] [1.")
    unit = "$ systemctl status chat\n   Active: failed (Result: signal) since Tue 2015-09-01 00:12:41 CEST; 8h ago\n Main PID: 1091 (code=killed, signal=KILL)\n"
    found = diagnose({"kernel.log": kernel, "node_readings.txt": unit})
    assert (found.cause, found.recommendations) == ("unknown", ())
    at_that_time = unit.replace("Tue 2015-09-01 00:12:41", "Mon 2015-08-31 18:23:20")
    assert diagnose({"kernel.log": kernel, "node_readings.txt": at_that_time}).family == "host_memory"


def test_kill_before_the_newest_start_is_told_and_proves_nothing() -> None:
    log = "2026-02-14 11:20:18,116 INFO exited: worker (terminated by SIGKILL; not expected)\n2026-02-14 11:20:19,119 INFO spawned: 'worker' with pid 440\n"
    found = diagnose({"container.log": log})
    assert (found.cause, found.recommendations) == ("unknown", ())
    assert "SIGKILL" in found.summary.en
