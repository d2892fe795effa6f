"""The node's forced command: in step with the allow-list, and closed to everything else. Run by a real shell, with stand-ins for the programs."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from bot.clients.ssh import far_line
from bot.evidence import commands
from bot.evidence.commands import memory
from bot.evidence.commands.command import Command, Place
from tests.clients.sshd import running_sshd

PROBE = Path(__file__).parents[2] / "deploy" / "node" / "oombot-probe"
PARAMETERS = {"pod_uid_glob": "0b7c5c9e?1111?4222?8333?0123456789ab", "container_id": "ab" * 32}
ON_NODE = [command for command in commands.ALLOWED if command.place is Place.NODE]


@pytest.fixture
def probe(tmp_path: Path) -> Path:
    """The script with a PATH of stand-ins that print their words, one a line."""
    for name in {command.argv[0] for command in ON_NODE}:
        stand_in = tmp_path / name
        stand_in.write_text(f'#!/bin/sh\nprintf "%s\\n" {name} "$@"\n')
        stand_in.chmod(0o755)
    script = tmp_path / "probe"
    text = PROBE.read_text().replace("SHM_SCRIPT=/usr/local/libexec/oombot-shm", f"SHM_SCRIPT={tmp_path}/sudo")
    script.write_text(text.replace("PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"PATH={tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin"))
    return script


def ask(probe: Path, line: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["sh", str(probe)], env={**os.environ, "SSH_ORIGINAL_COMMAND": line}, capture_output=True, text=True, timeout=20, check=False)


@pytest.mark.parametrize("command", ON_NODE, ids=str)
def test_every_command_of_the_allow_list_is_run_word_by_word(probe: Path, command: Command) -> None:
    argv = command.filled(PARAMETERS)
    answer = ask(probe, far_line(argv, command.timeout_s))
    assert answer.stdout.splitlines() == list(argv), answer.stderr
    assert answer.returncode == 0


def test_shared_memory_is_only_asked_for_where_its_script_is_installed(probe: Path) -> None:
    probe.write_text(probe.read_text().replace(f"SHM_SCRIPT={probe.parent}/sudo", f"SHM_SCRIPT={probe.parent}/none"))
    answer = ask(probe, far_line(memory.SEGMENTS.argv, 20))
    assert (answer.stdout, answer.returncode) == ("", 127)


def test_pod_uid_without_dashes_is_let_through(probe: Path) -> None:
    argv = memory.POD_GROUP.filled({"pod_uid_glob": "ab" * 16})
    assert ask(probe, far_line(argv, 5)).stdout.splitlines() == list(argv)


FIND = shlex.join(next(command for command in ON_NODE if "container_id" in command.holes).filled(PARAMETERS))


@pytest.mark.parametrize(
    "command",
    [
        "",
        "sh",
        "id",
        "dmesg -C",
        "dmesg; id",
        "dmesg\nid",
        "nvidia-smi -r",
        "cat /etc/shadow",
        "cat /proc/uptime /etc/shadow",
        "$(id)",
        "`id`",
        FIND.replace("tail", "rm"),
        FIND + " -delete",
        FIND.replace("ab" * 32, "ab" * 31 + "*'"),
        FIND.replace(PARAMETERS["pod_uid_glob"], "*" * 36),
        FIND.replace(PARAMETERS["pod_uid_glob"], "0b7c5c9e' -o -name shadow -path '*pod"),
        FIND.replace("/sys/fs/cgroup", "/"),
    ],
)
def test_anything_else_is_refused(probe: Path, command: str) -> None:
    answer = ask(probe, f"env LC_ALL=C timeout -k 2 5 {command}")
    assert (answer.stdout, answer.returncode) == ("", 126)


@pytest.mark.parametrize(
    "line", ["dmesg", "timeout 5 dmesg", "env LC_ALL=C timeout -k 2 5;id dmesg", "env LC_ALL=C timeout -k 2 500 dmesg", "env X=1 timeout -k 2 5 dmesg"]
)
def test_line_that_is_not_wrapped_as_promised_is_refused(probe: Path, line: str) -> None:
    assert ask(probe, line).returncode == 126


@pytest.mark.sshd
def test_real_sshd_runs_it_as_forced_command(tmp_path: Path) -> None:
    from bot.clients.ssh import SshShells
    from bot.errors import Forbidden

    with running_sshd(tmp_path, options=f'restrict,command="{PROBE}"') as sshd:
        shell = SshShells(sshd.settings(), lambda argv: True).open("node", ["127.0.0.1"])
        assert shell.run(["cat", "/proc/uptime"]).stdout.split()
        assert shell.run(["id"]).status == 126
        shell.close()
        with pytest.raises(Forbidden):
            SshShells(sshd.settings(), commands.on_node).open("node", ["127.0.0.1"]).run(["id"])
