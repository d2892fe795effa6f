"""Logs among other outputs: read where a command printed a log or none is named, and nowhere else."""

import pytest

from bot.evidence.pasted_logs import facts

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
