"""Logs among other outputs: read where a command printed a log or none is named, and nowhere else."""

import pytest

from bot.evidence.pasted_logs import facts
from tests.diagnosis.bundles import diagnose

KILL = "Memory cgroup out of memory: Killed process 811 (VLLM::EngineCor) total-vm:9kB, anon-rss:5kB, file-rss:1kB, shmem-rss:0kB"


@pytest.mark.parametrize(
    "command", ["dmesg -T | tail", "sudo journalctl -k -b", "grep -i oom /var/log/syslog", "tail -n 50 /var/log/kern.log", "docker logs chat", "talosctl dmesg -n node-7"]
)
def test_kernel_lines_behind_a_command_that_prints_a_log_are_read_at_their_lines(command: str) -> None:
    found = {fact.name: fact for fact in facts(f"$ free -g\nMem: 1 1 1\n$ {command}\n{KILL}\n".encode(), "node_readings.txt")}
    assert found["kernel.kills"].value == 1
    assert found["kernel.kill.0.pid"].place is not None
    assert found["kernel.kill.0.pid"].place.line == 4


@pytest.mark.parametrize("command", ["ps aux", "top -b -n 1", "kubectl exec chat-0 -- ps -ef", "docker ps -a", "kubectl get pod chat-0 -o yaml", "cat /proc/811/cmdline"])
def test_words_that_a_process_may_choose_are_no_kernel_lines(command: str) -> None:
    assert not facts(f"$ {command}\nroot 811 1 0 02:10 ? 00:00:00 {KILL}\n".encode(), "node_readings.txt")


def test_lines_without_a_command_are_read() -> None:
    assert {fact.name for fact in facts(f"{KILL}\n".encode(), "x")} >= {"kernel.kills", "kernel.looked"}


RECLAIMED = (
    'I0203 04:05:06.1 70 eviction_manager.go:366] "Eviction manager: must evict pod(s) to reclaim" resourceName="{}"',
    'I0203 04:05:06.1 70 eviction_manager.go:350] "Eviction manager: attempting to reclaim" resourceName="{}"',
    "I0203 04:05:06.1 70 eviction_manager.go:351] eviction manager: must evict pod(s) to reclaim {}",
)


@pytest.mark.parametrize("line", RECLAIMED)
@pytest.mark.parametrize(("short", "name"), [("memory", "events.node_pressure"), ("ephemeral-storage", "events.disk_pressure"), ("pids", None)])
def test_a_kubelet_that_reclaims_tells_what_its_node_was_short_of(line: str, short: str, name: str | None) -> None:
    found = facts(f"$ journalctl -u kubelet\n{line.format(short)}\n".encode(), "node_readings.txt")
    assert [(fact.name, fact.place.line if fact.place else None) for fact in found] == ([(name, 2)] if name else [])
    assert not facts(f"$ ps aux\n{line.format(short)}\n".encode(), "node_readings.txt")


NOT_READY = (
    "I0203 22:02:03.1 70 kubelet_node_status.go:682] Node became not ready: {Type:Ready Status:False Reason:KubeletNotReady Message:PLEG is not healthy: pleg was last seen active 3m8.8s ago; threshold is 3m0s}",
    'I0203 22:02:03.1 70 setters.go:602] "Node became not ready" node="gpu-7" condition={"type":"Ready","status":"False","reason":"KubeletNotReady","message":"PLEG is not healthy: pleg was last seen active 3m8.8s ago; threshold is 3m0s"}',
)


@pytest.mark.parametrize("line", NOT_READY)
def test_a_kubelet_that_does_not_hear_from_its_runtime_says_that_the_node_is_not_ready(line: str) -> None:
    found = {fact.name: fact.value for fact in facts(f"$ journalctl -u kubelet\n{line}\n".encode(), "node_readings.txt")}
    assert found == {"node.runtime_trouble": "PLEG is not healthy: pleg was last seen active 3m8.8s ago", "events.node_not_ready": True}


def test_a_kubelet_that_has_just_started_is_in_no_trouble() -> None:
    line = "E0203 22:02:03.1 70 kubelet.go:2347] skipping pod synchronization - [container runtime status check may not have completed yet, PLEG is not healthy: pleg has yet to be successful]"
    assert not facts(f"$ journalctl -u kubelet\n{line}\n".encode(), "node_readings.txt")


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("aws ecs describe-tasks --cluster web --tasks 5f2c", "137\tapp\tOutOfMemoryError: Container killed due to memory usage"),
        ("docker run --memory 4 chat", "docker: Error response from daemon: Minimum memory limit allowed is 6MB."),
        ("srun --mem=32G python3 serve.py", "slurmstepd: error: Step 8821.0 exceeded memory limit (33000000 > 32000000), being killed"),
    ],
)
def test_what_a_starter_or_a_cloud_says_of_an_end_is_read_as_a_log_and_quoted_at_its_line(command: str, line: str) -> None:
    found = diagnose({"node_readings.txt": f"$ free -g\nMem: 64 1 63\n$ {command}\n{line}\n"})
    assert found.cause == "container_memory_limit"
    assert any(quote.line == 4 for quote in found.evidence)


def test_a_long_output_of_a_starter_is_no_verdict() -> None:
    log = "INFO loading\n" * 40 + "137\tapp\tOutOfMemoryError: Container killed due to memory usage"
    assert diagnose({"node_readings.txt": f"$ aws logs tail /ecs/chat\n{log}\n"}).cause == "unknown"
