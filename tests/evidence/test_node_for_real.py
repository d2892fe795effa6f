"""The node's commands, run by a real sshd with the real programs of this machine, as far as it has them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.clients.ssh import SshShell, SshShells
from bot.errors import NotFound
from bot.evidence import commands, node_readings
from bot.evidence.collect import collect
from bot.evidence.commands.command import Command, Place
from bot.model import Bundle, Target
from tests.clients.sshd import Sshd, running_sshd
from tests.evidence import world
from tests.evidence.world import FakeCluster, Lines, Noon

pytestmark = pytest.mark.sshd

PARAMETERS = {"pod_uid_glob": "0b7c5c9e?1111?4222?8333?0123456789ab", "container_id": "ab" * 32}


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running_sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(scope="module")
def shell(sshd: Sshd) -> Iterator[SshShell]:
    opened = SshShells(sshd.settings(), commands.on_node).open("here", ["127.0.0.1"])
    yield opened
    opened.close()


@pytest.mark.parametrize("command", [command for command in commands.ALLOWED if command.place is Place.NODE], ids=str)
def test_real_program_understands_its_words(shell: SshShell, command: Command) -> None:
    try:
        output = shell.run(command.filled(PARAMETERS), timeout_s=command.timeout_s, limit_bytes=command.limit_bytes)
    except NotFound:
        return  # this machine lacks it, which is what a node without it is told of, too
    complaint = output.stderr.decode("utf-8", "replace").lower()
    assert not any(
        word in complaint for word in ("unrecognized", "invalid option", "unknown option", "usage:", "failed to parse", "predicate", "paths must precede")
    )


def read(bundle: Bundle, name: str) -> bytes:
    with bundle.files[name].open() as stream:
        return stream.read()


def test_memory_of_this_machine_reaches_the_bundle_as_facts(sshd: Sshd) -> None:
    cluster = FakeCluster(objects=[world.node("here", "127.0.0.1")])
    bundle = collect(Target("one", "", "", node="here"), cluster, SshShells(sshd.settings(), commands.on_node), Lines(), clock=Noon())
    facts = {fact.name: fact.value for fact in node_readings.read(read(bundle, "node_readings.txt"), "node_readings.txt").facts}
    total = int(next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal")).split()[1]) * 1024
    assert any(value == total for name, value in facts.items() if name.startswith("node.memory_total"))
    assert b"node_boot_time" in read(bundle, "bundle.json")


def test_node_whose_key_is_unknown_leaves_three_gaps_and_no_file(sshd: Sshd, tmp_path: Path) -> None:
    empty = tmp_path / "known_hosts"
    empty.write_text("")
    cluster = FakeCluster(objects=[world.node("here", "127.0.0.1")])
    bundle = collect(Target("one", "", "", node="here"), cluster, SshShells(sshd.settings(known_hosts=empty), commands.on_node), Lines(), clock=Noon())
    assert {gap.source for gap in bundle.gaps if "ssh-keyscan" in gap.reason} == {"kernel.log", "nvidia-smi.txt", "node_readings.txt"}
    assert not {"kernel.log", "nvidia-smi.txt", "node_readings.txt"} & set(bundle.files)
