"""Commands on nodes, against a real OpenSSH server."""

import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bot.clients.ssh import SshShell, SshShells, far_line, known_hosts
from bot.errors import Forbidden, HostKeyUnknown, NotFound, TimedOut, Unreachable, Unsupported
from tests.clients.sshd import Settings, Sshd, make_key, running_sshd, sign

pytestmark = pytest.mark.sshd

ALLOWED = {
    ("echo", "a b", "$(touch /tmp/oombot-never)", "*"),
    ("sh", "-c", "echo out; echo err >&2; exit 3"),
    ("head", "-c", "10485760", "/dev/zero"),
    ("sh", "-c", "head -c 10485760 /dev/zero >&2; head -c 10485760 /dev/zero"),
    ("sleep", "30"),
    ("printf", r"\377\n"),
    ("oombot-has-no-such-program",),
    ("uptime",),
}


def allowed(argv: Sequence[str]) -> bool:
    return tuple(argv) in ALLOWED


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    with running_sshd(tmp_path) as server:
        yield server


def open_shell(sshd: Sshd, **changes: object) -> SshShell:
    return SshShells(sshd.settings(**changes), allowed).open("gpu-node-7", ["127.0.0.1"])


def test_output_error_and_status_come_back(sshd: Sshd) -> None:
    shell = open_shell(sshd)
    output = shell.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (output.stdout, output.stderr, output.status, output.cut) == (b"out\n", b"err\n", 3, False)
    shell.close()


def test_words_reach_the_program_as_they_are_and_no_shell_expands_them(sshd: Sshd) -> None:
    Path("/tmp/oombot-never").unlink(missing_ok=True)
    shell = open_shell(sshd)
    assert shell.run(["echo", "a b", "$(touch /tmp/oombot-never)", "*"]).stdout == b"a b $(touch /tmp/oombot-never) *\n"
    assert not Path("/tmp/oombot-never").exists()
    shell.close()


def test_bytes_that_are_no_text_come_back_as_bytes(sshd: Sshd) -> None:
    shell = open_shell(sshd)
    assert shell.run(["printf", r"\377\n"]).stdout == b"\xff\n"
    shell.close()


def test_command_that_nobody_allowed_is_refused_before_it_is_sent(sshd: Sshd) -> None:
    shell = open_shell(sshd)
    with pytest.raises(Forbidden, match="not an allowed command: rm"):
        shell.run(["rm", "-rf", "/tmp/oombot-never"])
    shell.close()


def test_ten_megabytes_are_capped(sshd: Sshd) -> None:
    shell = open_shell(sshd)
    start = time.monotonic()
    output = shell.run(["head", "-c", "10485760", "/dev/zero"], limit_bytes=256 * 1024)
    assert (len(output.stdout), output.cut) == (256 * 1024, True)
    assert time.monotonic() - start < 5
    assert shell.run(["uptime"]).status == 0, "the connection is still good"
    shell.close()


def test_ten_megabytes_on_both_streams_do_not_block(sshd: Sshd) -> None:
    shell = open_shell(sshd)
    output = shell.run(["sh", "-c", "head -c 10485760 /dev/zero >&2; head -c 10485760 /dev/zero"], limit_bytes=32 << 20, timeout_s=20)
    assert (len(output.stdout), len(output.stderr), output.status) == (10485760, 10485760, 0)
    shell.close()


def test_command_that_never_ends_is_ended_on_the_far_side(sshd: Sshd) -> None:
    shell = open_shell(sshd)
    start = time.monotonic()
    with pytest.raises(TimedOut, match="sleep did not end"):
        shell.run(["sleep", "30"], timeout_s=1)
    assert time.monotonic() - start < 5
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert "sleep 30" not in processes
    shell.close()


def test_missing_program_is_said_to_be_missing(sshd: Sshd) -> None:
    shell = open_shell(sshd)
    with pytest.raises(NotFound, match="has no oombot-has-no-such-program"):
        shell.run(["oombot-has-no-such-program"])
    shell.close()


def test_unknown_host_key_is_refused_and_says_how_to_add_it(sshd: Sshd) -> None:
    sshd.known_hosts(text="")
    with pytest.raises(HostKeyUnknown) as refused:
        open_shell(sshd)
    assert f"ssh-keyscan -t ed25519 -p {sshd.port} 127.0.0.1" in str(refused.value)
    assert "docs/nodes.md" in str(refused.value)
    assert sshd.settings().known_hosts.read_text() == "", "nothing is ever added"


def test_changed_host_key_is_refused(sshd: Sshd, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other").with_suffix(".pub").read_text()
    sshd.known_hosts(text=f"[127.0.0.1]:{sshd.port} {other}")
    with pytest.raises(HostKeyUnknown, match="is not the one in"):
        open_shell(sshd)


def test_revoked_host_key_is_refused(sshd: Sshd) -> None:
    sshd.known_hosts(text=f"[127.0.0.1]:{sshd.port} {sshd.host_key}\n@revoked * {sshd.host_key}\n")
    with pytest.raises(HostKeyUnknown):
        open_shell(sshd)


def test_lines_of_authorities_and_broken_lines_are_left_out(sshd: Sshd) -> None:
    sshd.known_hosts(text=f"@cert-authority *.example.com {sshd.host_key}\nnonsense\n# remark\n[gpu-node-7]:{sshd.port} {sshd.host_key}\n")
    open_shell(sshd).close()  # known by the node's name, reached by its address


def test_hashed_known_hosts_lines_work(sshd: Sshd) -> None:
    path = sshd.known_hosts()
    subprocess.run(["ssh-keygen", "-H", "-f", str(path)], check=True, capture_output=True)
    assert path.read_text().startswith("|1|")
    open_shell(sshd).close()


def test_wrong_key_is_told_as_such(sshd: Sshd, tmp_path: Path) -> None:
    with pytest.raises(Forbidden, match="does not accept the key of 'root'"):
        open_shell(sshd, key=make_key(tmp_path / "stranger"))


def test_user_certificate_opens_the_door(tmp_path: Path) -> None:
    ca = make_key(tmp_path / "ca")
    with running_sshd(tmp_path, extra=f"TrustedUserCAKeys {ca}.pub") as sshd:
        key = make_key(tmp_path / "bot")
        with pytest.raises(Forbidden):
            open_shell(sshd, key=key)
        certificate = sign(ca, tmp_path / "bot.pub", "root", "-V", "+5m")
        shell = open_shell(sshd, key=key, certificate=certificate)
        assert shell.run(["uptime"]).status == 0
        shell.close()


def test_agent_holds_the_key(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    socket_path = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket_path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not socket_path.exists():
            time.sleep(0.02)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket_path))
        with pytest.raises(Unsupported, match="the agent holds none"):
            open_shell(sshd, key=None)
        subprocess.run(["ssh-add", "-q", str(tmp_path / "user_key")], check=True)
        open_shell(sshd, key=None).close()
        open_shell(sshd, key=make_key(tmp_path / "stranger"), agent=True).close()
        with pytest.raises(Forbidden):
            open_shell(sshd, key=tmp_path / "stranger", agent=False)
    finally:
        agent.terminate()
        agent.wait(10)


def test_expired_certificate_does_not(tmp_path: Path) -> None:
    ca = make_key(tmp_path / "ca")
    with running_sshd(tmp_path, extra=f"TrustedUserCAKeys {ca}.pub") as sshd:
        key = make_key(tmp_path / "bot")
        certificate = sign(ca, tmp_path / "bot.pub", "root", "-V", "20200101:20200102")
        with pytest.raises(Forbidden):
            open_shell(sshd, key=key, certificate=certificate)


def test_forced_command_sees_the_line_that_we_promise(tmp_path: Path) -> None:
    with running_sshd(tmp_path, options='restrict,command="echo \\"$SSH_ORIGINAL_COMMAND\\""') as sshd:
        shell = open_shell(sshd)
        assert shell.run(["uptime"], timeout_s=10).stdout.decode().strip() == far_line(["uptime"], 10) == "env LC_ALL=C timeout -k 2 10 uptime"
        shell.close()


def test_server_with_weak_algorithms_only_is_refused(tmp_path: Path) -> None:
    with running_sshd(tmp_path, extra="Ciphers aes128-cbc\nMACs hmac-sha1") as sshd, pytest.raises((Unsupported, Unreachable)):
        open_shell(sshd)


def test_nobody_listening_is_unreachable(sshd: Sshd) -> None:
    settings = sshd.settings(port=1)
    sshd.known_hosts(text=f"[127.0.0.1]:1 {sshd.host_key}\n")
    with pytest.raises(Unreachable, match="no SSH connection to gpu-node-7"):
        SshShells(settings, allowed).open("gpu-node-7", ["127.0.0.1"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [(Settings(user=""), "no SSH access is configured"), (Settings(), "no known hosts file"), (Settings(known_hosts=Path("/nowhere/x")), "cannot be read")],
)
def test_missing_settings_say_what_is_missing(settings: Settings, words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        SshShells(settings, allowed).open("node", ["127.0.0.1"])


def test_known_hosts_file_with_odd_bytes_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_bytes(b"\xff\xfe\x00 ssh-ed25519 !!!\nhost ssh-ed25519 AAAA\n")
    assert len(known_hosts(path)) == 0
