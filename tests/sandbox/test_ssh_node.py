"""SSH to simulated nodes with the bot's own client, and with keys that should not get in."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko
import pytest

from bot.clients.ssh import SshShells
from bot.errors import Forbidden, HostKeyUnknown, NotFound
from bot.sandbox.kubelet.machine import Machine, machine
from bot.sandbox.loopback import loopback_addresses
from bot.sandbox.ssh_node import LONGEST, USER, SshNode, answer, unwrapped
from tests.needs import need


@dataclass(frozen=True)
class Access:
    key: Path | None
    known_hosts: Path | None
    port: int
    user: str = USER
    certificate: Path | None = None
    agent: bool = False


def _machines() -> dict[str, Machine]:
    first, second = loopback_addresses(2)
    need(first != second, "this system has one loopback address only: run the SSH node's tests on Linux")
    return {"a": machine("a", address=first), "b": machine("b", address=second)}


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[SshNode]:
    with SshNode(_machines(), tmp_path) as found:
        yield found


def _shells(nodes: SshNode, **changed: object) -> SshShells:
    fields = {"key": nodes.key_file, "known_hosts": nodes.known_hosts, "port": nodes.port, **changed}
    return SshShells(Access(**fields), lambda argv: True)  # type: ignore[arg-type]


def test_each_node_answers_for_itself(nodes: SshNode) -> None:
    for name, node in nodes.machines.items():
        shell = _shells(nodes).open(name, [node.address])
        assert shell.run(["hostname"]).stdout == f"{name}\n".encode()
        assert node.gpus[0].uuid.encode() in shell.run(["nvidia-smi", "-L"]).stdout
        shell.close()


def test_many_commands_over_one_connection_all_answer(nodes: SshNode) -> None:
    shell = _shells(nodes).open("a", [nodes.machines["a"].address])
    assert [shell.run(["hostname"]).status for _ in range(30)] == [0] * 30
    shell.close()


def test_a_program_that_is_not_there_is_not_found(nodes: SshNode) -> None:
    shell = _shells(nodes).open("a", [nodes.machines["a"].address])
    with pytest.raises(NotFound, match="a has no sar"):
        shell.run(["sar", "-r"])
    shell.close()


def test_a_node_of_an_unknown_key_is_not_talked_to(nodes: SshNode, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    with pytest.raises(HostKeyUnknown):
        _shells(nodes, known_hosts=empty).open("a", [nodes.machines["a"].address])


def test_the_key_of_another_node_is_not_that_of_this_one(nodes: SshNode, tmp_path: Path) -> None:
    swapped = tmp_path / "swapped"
    swapped.write_text(nodes.known_line("b", "a") + "\n")
    with pytest.raises(HostKeyUnknown):
        _shells(nodes, known_hosts=swapped).open("a", [nodes.machines["a"].address])


def test_a_strange_key_does_not_get_in(nodes: SshNode, tmp_path: Path) -> None:
    other = SshNode({"x": machine("x")}, _folder(tmp_path / "other"))
    with pytest.raises(Forbidden):
        _shells(nodes, key=other.key_file).open("a", [nodes.machines["a"].address])
    with pytest.raises(Forbidden):
        _shells(nodes, user="root").open("a", [nodes.machines["a"].address])


def test_there_is_no_shell_no_terminal_and_no_forwarding(nodes: SshNode) -> None:
    with paramiko.SSHClient() as client:
        client.load_host_keys(str(nodes.known_hosts))
        client.connect(nodes.machines["a"].address, nodes.port, USER, key_filename=str(nodes.key_file), look_for_keys=False, allow_agent=False)
        with pytest.raises(paramiko.SSHException):
            client.invoke_shell()
        transport = client.get_transport()
        assert transport is not None
        with pytest.raises(paramiko.ChannelException):
            transport.open_channel("direct-tcpip", ("127.0.0.1", 22), ("127.0.0.1", 1))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("env LC_ALL=C timeout -k 2 5 nvidia-smi -q -d MEMORY", ["nvidia-smi", "-q", "-d", "MEMORY"]),
        ("timeout --kill-after=2 5 free", ["free"]),
        ("free", ["free"]),
        ("env A=1 B=2 cat /proc/uptime", ["cat", "/proc/uptime"]),
    ],
)
def test_what_stands_before_a_command_is_taken_off(line: str, words: list[str]) -> None:
    assert unwrapped(line.split()) == words


@pytest.mark.parametrize(
    "line", [b"free; touch /tmp/oombot-was-here", b"$(touch /tmp/oombot-was-here)", b"free | sh", b"`id`", b"\xff\xfe", b"'unbalanced", b"a" * (LONGEST * 2)]
)
def test_a_hostile_line_is_words_and_nothing_more(line: bytes) -> None:
    stdout, _, status = answer(machine("a"), line)
    assert status in (0, 2, 127)
    assert b"uid=" not in stdout
    assert not Path("/tmp/oombot-was-here").exists()


def test_nodes_that_cannot_be_told_apart_do_not_answer(tmp_path: Path) -> None:
    same = {"a": machine("a"), "b": machine("b")}
    with SshNode(same, tmp_path) as nodes:
        assert nodes.settings()["user"] == ""


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
