"""What a node and a container answer; read back by the bot's own readers where there is one."""

import pytest

from bot.evidence import commands as allow_list
from bot.evidence import kernel_log, nvidia_smi
from bot.evidence.commands.command import Place as Where
from bot.sandbox.kubelet import commands, kernel
from bot.sandbox.kubelet.machine import GpuProcess, Machine, machine
from bot.sandbox.kubelet.play import HostKill
from bot.units import GIB

UID, CONTAINER = "7c7828b1-c947-4d5c-8169-53d481f45a2a", "ab" * 32


@pytest.fixture
def node() -> Machine:
    found = machine("gpu-node-1", gpus=2)
    found.kernel += kernel.boot_lines(found.booted)
    found.gpus[1].strays.append(GpuProcess(48112, "python3", 9 * GIB))
    return found


def test_no_command_of_the_allow_list_is_unknown_to_a_node(node: Machine) -> None:
    """Some programs are missing on purpose: a real node often has no sar, and no Ray."""
    for command in allow_list.ALLOWED:
        if command.place is Where.NODE:
            found = commands.on_node(node, command.argv)
            assert found[2] == (127 if command.argv[0] == "sar" else 0), command


def test_a_stray_process_shows_in_every_view(node: Machine) -> None:
    table = commands.on_node(node, ["nvidia-smi"])[0].decode()
    assert "48112" in table
    assert "9216MiB" in table
    assert "   9220MiB /  46068MiB" in table
    apps = commands.on_node(node, ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader"])[0].decode()
    assert apps == "48112, 9216 MiB\n"
    memory = commands.on_node(node, ["nvidia-smi", "-q", "-d", "MEMORY", "-i", "1"])[0].decode()
    assert "Used                              : 9220 MiB" in memory


def test_the_bots_reader_finds_the_stray_process(node: Machine) -> None:
    argv = ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv"]
    data = b"".join(commands.on_node(node, words)[0] for words in (["nvidia-smi", "-L"], ["nvidia-smi"], ["nvidia-smi", "-q", "-d", "MEMORY"], argv))
    facts = {fact.name: fact.value for fact in nvidia_smi.read(data, "nvidia-smi.txt").facts}
    assert any("48112" in str(value) or value == 9 * GIB for value in facts.values()), facts


def test_total_reserved_used_and_free_add_up(node: Machine) -> None:
    rows = commands.on_node(node, ["nvidia-smi", "--query-gpu=memory.total,memory.reserved,memory.used,memory.free", "--format=csv,noheader,nounits"])[
        0
    ].decode()
    for row in rows.splitlines():
        total, reserved, used, free = map(int, row.split(", "))
        assert total == reserved + used + free


def test_the_bots_reader_finds_a_kill_in_each_form_of_the_kernel_log(node: Machine) -> None:
    scope = kernel.container_scope(UID, CONTAINER, "Burstable")
    node.kernel += kernel.kill(HostKill("VLLM::EngineCor", 24 * GIB, 24 * GIB), scope, node.booted + 1000)
    for argv in (["dmesg"], ["dmesg", "--time-format", "iso"], ["dmesg", "-T"], ["journalctl", "-k", "--no-pager", "-o", "short-iso"]):
        data = commands.on_node(node, argv)[0]
        values = [str(fact.value) for fact in kernel_log.read(data, "kernel.log").facts]
        assert any("VLLM::EngineCor" in value for value in values), argv


def test_a_kill_by_the_node_names_no_limit() -> None:
    scope = kernel.container_scope(UID, CONTAINER, "BestEffort")
    said = [text for _, text in kernel.kill(HostKill("python3", 200 * GIB, None), scope, 1000.0)]
    assert any("constraint=CONSTRAINT_NONE" in text and "global_oom" in text for text in said)
    assert any(text.startswith("Out of memory: Killed process") for text in said)
    assert not any("memory.oom.group" in text for text in said)


def test_the_cgroup_of_a_container_is_named_after_its_pod_and_class() -> None:
    assert kernel.container_scope(UID, CONTAINER, "Guaranteed") == (
        f"/kubepods.slice/kubepods-pod7c7828b1_c947_4d5c_8169_53d481f45a2a.slice/cri-containerd-{CONTAINER}.scope"
    )
    assert "/kubepods-besteffort.slice/kubepods-besteffort-pod7c78" in kernel.container_scope(UID, CONTAINER, "BestEffort")


def test_a_quiet_node_has_a_kernel_log_without_a_kill(node: Machine) -> None:
    data = commands.on_node(node, ["dmesg"])[0].decode()
    assert data.startswith("[    0.000000] Linux version 6.8.0")
    assert "oom" not in data


def test_free_prints_the_nodes_memory(node: Machine) -> None:
    row = commands.on_node(node, ["free", "-b"])[0].decode().splitlines()[1].split()
    assert row[0] == "Mem:"
    assert int(row[1]) == 256 * GIB


@pytest.mark.parametrize("argv", [["rm", "-rf", "/"], ["bash", "-c", "id"], ["nvidia-smi-reset"], ["../../bin/id"], ["python3"]])
def test_what_it_does_not_know_is_not_found(node: Machine, argv: list[str]) -> None:
    stdout, stderr, status = commands.on_node(node, argv)
    assert (stdout, status) == (b"", 127)
    assert b"command not found" in stderr
