"""The node's second forced command: closed to all but its two verbs, and to every process that may be a container's. Real processes, a real sshd."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.clients.ssh import far_line
from bot.clients.ssh_hands import SshHands, allowed
from bot.errors import Conflict, Forbidden
from tests.clients.sshd import running_sshd

SCRIPT = Path(__file__).parents[2] / "deploy" / "node" / "oombot-stop"
STRAY = "0::/user.slice/user-1000.slice/session-3.scope\n"
CONTAINERS = [
    "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-ab.scope\n",
    "0::/system.slice/docker-ab.scope\n",
    "4:memory:/kubepods/besteffort/pod1/ab\n0::/\n",
    f"0::/custom/{'ab' * 32}\n",
    "0::/machine.slice/libpod-ab.scope\n",
    "0::/\n",
    "",
]


class Node:
    """A process, the /proc that the script sees of it, and an nvidia-smi that lists it."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self.process = subprocess.Popen(command)
        self.folder, self.pid = folder, self.process.pid
        self.proc = folder / "proc" / str(self.pid)
        self.proc.mkdir(parents=True)
        for name in ("stat", "cmdline"):
            (self.proc / name).symlink_to(f"/proc/{self.pid}/{name}")
        self.group(STRAY)
        self.on_gpu(self.pid)
        self.script = folder / "stop"
        text = SCRIPT.read_text().replace("PROC=/proc\n", f"PROC={folder}/proc\n").replace("PATH=/usr/sbin", f"PATH={folder}:/usr/sbin")
        self.script.write_text(text)
        self.script.chmod(0o755)

    @property
    def start(self) -> int:
        return int(Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()[19])

    def group(self, text: str) -> None:
        (self.proc / "cgroup").write_text(text)

    def on_gpu(self, pid: int) -> None:
        smi = self.folder / "nvidia-smi"
        smi.write_text(f'#!/bin/sh\ncase $1 in *used_memory*) echo "{pid}, 30000 MiB, GPU-1" ;; *) echo "{pid}" ;; esac\n')
        smi.chmod(0o755)

    def ask(self, command: str) -> "subprocess.CompletedProcess[str]":
        return self.raw(f"env LC_ALL=C timeout -k 2 30 {command}")

    def raw(self, line: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(["sh", str(self.script)], env={**os.environ, "SSH_ORIGINAL_COMMAND": line}, capture_output=True, text=True, timeout=40, check=False)

    def lives(self) -> bool:
        return self.process.poll() is None


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    found = Node(tmp_path, ["sleep", "600"])
    yield found
    found.process.kill()
    found.process.wait()


def test_a_stray_process_is_listed_with_what_an_approver_needs(node: Node) -> None:
    pid, start, _, user, memory, gpu, group, command = node.ask("list").stdout.rstrip("\n").split("\t")
    assert (int(pid), int(start), memory, gpu, command.strip()) == (node.pid, node.start, "30000 MiB", "GPU-1", "sleep 600")
    assert user == "root" or user
    assert group == STRAY.replace("\n", ",")


def test_it_is_stopped_while_it_is_still_that_one(node: Node) -> None:
    answer = node.ask(f"stop {node.pid} {node.start}")
    assert (answer.stdout, answer.returncode) == ("stopped by TERM\n", 0)
    assert not node.lives()
    assert node.ask(f"stop {node.pid} {1}").stdout == "gone\n"


def test_one_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    node = Node(tmp_path, ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"])
    time.sleep(0.3)
    assert node.ask(f"stop {node.pid} {node.start}").stdout == "stopped by KILL\n"
    node.process.wait()


@pytest.mark.parametrize("group", CONTAINERS)
def test_a_container_or_an_unknown_group_is_never_touched(node: Node, group: str) -> None:
    node.group(group)
    answer = node.ask(f"stop {node.pid} {node.start}")
    assert answer.returncode == 3
    assert "belongs to a container" in answer.stderr
    assert node.lives()


def test_another_process_of_the_same_number_is_never_touched(node: Node) -> None:
    assert node.ask(f"stop {node.pid} {node.start + 1}").stdout == "gone\n"
    assert node.lives()


def test_a_process_without_memory_of_a_gpu_is_never_touched(node: Node) -> None:
    node.on_gpu(node.pid * 10)
    assert node.ask(f"stop {node.pid} {node.start}").returncode == 4
    assert node.lives()


@pytest.mark.parametrize(
    "line",
    ["", "list", "env LC_ALL=C timeout -k 2 5 id", "env LC_ALL=C timeout -k 2 5 list x", "env LC_ALL=C timeout -k 2 500 list"]
    + [f"env LC_ALL=C timeout -k 2 5 stop {words}" for words in ("1", "{pid}", "{pid} {start} x", "-1 5", "{pid} $(id)", "{pid};id 5", "0{pid} {start}", "{pid}  {start}", "12345678901 5")],
)  # fmt: skip
def test_anything_else_is_refused(node: Node, line: str) -> None:
    assert node.raw(line.format(pid=node.pid, start=node.start)).returncode == 126
    assert node.lives()


def test_the_client_sends_nothing_but_the_two_verbs() -> None:
    assert allowed(["list"])
    assert allowed(["stop", "12", "34"])
    for argv in (["stop", "12"], ["stop", "12", "3;4"], ["stop", "-1", "4"], ["kill", "1", "2"], ["list", "x"], ["stop", "01", "4"], ["stop", "１", "4"]):
        assert not allowed(argv)
    assert far_line(["stop", "12", "34"], 30) == "env LC_ALL=C timeout -k 2 30 stop 12 34"


@pytest.mark.sshd
def test_a_real_sshd_runs_it_as_forced_command(node: Node, tmp_path: Path) -> None:
    folder = tmp_path / "sshd"
    folder.mkdir()
    with running_sshd(folder, options=f'restrict,command="{node.script}"') as sshd:
        hands = SshHands(sshd.settings())
        assert str(node.pid) in hands.processes("node", ["127.0.0.1"])
        node.group(CONTAINERS[0])
        with pytest.raises(Conflict, match="belongs to a container"):
            hands.stop("node", ["127.0.0.1"], node.pid, node.start)
        assert node.lives()
        node.group(STRAY)
        start = node.start
        hands.stop("node", ["127.0.0.1"], node.pid, start)
        assert not node.lives()
        hands.stop("node", ["127.0.0.1"], node.pid, start)
        with pytest.raises(Forbidden):
            hands._shells.open("node", ["127.0.0.1"]).run(["id"])
