"""The allow-list: what is on it, and that nothing gets through beside it."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from bot.evidence import commands
from bot.evidence.commands import memory
from bot.evidence.commands.command import known_parameters
from bot.evidence.node_readings import read

UID = "0b7c5c9e?1111?4222?8333?0123456789ab"
HARMLESS_FIRST_WORDS = {"journalctl", "dmesg", "sudo", "nvidia-smi", "free", "cat", "sar", "find", "tail", "df", "ray"}


def test_every_command_is_a_reading_one() -> None:
    """Whoever adds a program to the list meets this line and thinks again."""
    assert {command.argv[0] for command in commands.ALLOWED} == HARMLESS_FIRST_WORDS
    as_root = {command.argv[2:] for command in commands.ALLOWED if command.argv[0] == "sudo"}
    assert as_root == {("dmesg", "--time-format", "iso"), ("/usr/local/libexec/oombot-shm", "segments")}
    forbidden = {
        "dmesg": {"-C", "-c", "--clear", "-n", "-D"},
        "nvidia-smi": {"-r", "-pm", "-mig", "-e", "-c", "-pl"},
        "find": {"-delete", "-ok", "-fprint", "sh"},
    }
    assert not any(set(command.argv) & words for command in commands.ALLOWED for name, words in forbidden.items() if command.argv[0] == name)


def test_no_command_stands_on_the_list_twice() -> None:
    assert len({(command.place, command.argv) for command in commands.ALLOWED}) == len(commands.ALLOWED)


def test_place_matters() -> None:
    assert commands.on_node(["dmesg"])
    assert not commands.in_pod(["dmesg"])
    assert commands.in_pod(["ray", "status"])
    assert not commands.on_node(["ray", "status"])


@pytest.mark.parametrize(
    "argv", [[], ["dmesg", "-C"], ["dmesg "], ["DMESG"], ["nvidia-smi", "-r"], ["sudo", "-n", "rm"], ["cat", "/etc/shadow"], ["journalctl", "-k"], ["free", ""]]
)
def test_anything_else_is_refused(argv: list[str]) -> None:
    assert not commands.on_node(argv)
    assert not commands.in_pod(argv)


def test_parameter_is_let_through_when_it_is_one() -> None:
    argv = memory.POD_GROUP.filled({"pod_uid_glob": UID})
    assert commands.on_node(argv)
    assert f"*pod{UID}.slice/[cm]*.*" in argv


@pytest.mark.parametrize("value", ["", "*", "..", f"{UID}/../..", f"{UID} -delete", f"{UID}\n", "-delete", UID.upper()])
def test_parameter_that_is_none_is_refused_twice(value: str) -> None:
    with pytest.raises(ValueError, match="may not be"):
        memory.POD_GROUP.filled({"pod_uid_glob": value})
    forged = tuple(word.replace("{pod_uid_glob}", value) for word in memory.POD_GROUP.argv)
    assert not commands.on_node(forged)
    assert known_parameters({"pod_uid_glob": value}) == {}


POD = UID.replace("?", "_")
HEX = "ab" * 32


def found_in(tree: Path, argv: Sequence[str]) -> str:
    """What the command prints where /sys/fs/cgroup is `tree`."""
    words = [str(tree) if word == "/sys/fs/cgroup" else word for word in argv]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.replace(str(tree), "")


def group(tree: Path, path: str, limit: str) -> None:
    (tree / path).mkdir(parents=True)
    for name, text in (("memory.max", limit), ("memory.events", "oom 1\noom_kill 2"), ("memory.pressure", "noise")):
        (tree / path / name).write_text(text + "\n")


@pytest.mark.parametrize(
    ("pod", "container"),
    [
        (f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD}.slice", f"cri-containerd-{HEX}.scope"),
        (f"kubepods/burstable/pod{UID.replace('?', '-')}", HEX),
        (f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{POD}.slice", f"crio-{HEX}.scope"),
    ],
    ids=["systemd", "cgroupfs", "prefixed"],
)
def test_control_groups_of_pod_and_container_are_found_apart(tmp_path: Path, pod: str, container: str) -> None:
    group(tmp_path, pod, "2000")
    group(tmp_path, f"{pod}/{container}", "1000")
    group(tmp_path, f"{pod}/cri-containerd-{'cd' * 32}.scope", "max")
    group(tmp_path, f"kubepods.slice/kubepods-pod{POD.replace('0', '1')}.slice", "3000")
    parameters = {"pod_uid_glob": UID, "container_id": HEX}
    of_container = found_in(tmp_path, memory.CONTAINER_CGROUP.filled(parameters))
    of_pod = found_in(tmp_path, memory.POD_GROUP.filled(parameters))
    assert "1000" in of_container
    assert "2000" not in of_container
    assert "2000" in of_pod
    assert "1000" not in of_pod
    assert "noise" not in of_pod + of_container
    facts = {fact.name: fact.value for fact in read(of_container.encode(), "node_readings.txt").facts}
    assert (facts["cgroup.limit_bytes"], facts["cgroup.event_oom_kill"]) == (1000, 2)
