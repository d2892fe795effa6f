"""The node's list of shared memory that nobody holds, and what drops it: real files on a tmpfs, real SysV segments, real processes, a real shell."""

import contextlib
import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.clients.ssh import far_line
from bot.clients.ssh_hands import SshHands, allowed
from bot.errors import Conflict, Forbidden, Rejected, Temporary
from tests.clients.sshd import running_sshd
from tests.needs import need

SCRIPT = Path(__file__).parents[2] / "deploy" / "node" / "oombot-shm"
STOP = SCRIPT.with_name("oombot-stop")
TMPFS = Path("/dev") / "shm"
# By libc itself: Python's mmap keeps a copy of the descriptor, and then nothing would be told by the maps alone.
MAP = "import ctypes,os,sys,time; c=ctypes.CDLL(None); c.mmap.restype=ctypes.c_void_p; f=os.open(sys.argv[1],os.O_RDWR); n=os.fstat(f).st_size; "
MAP += "sys.argv[2]=='mapped' and (c.mmap(None,ctypes.c_size_t(n),3,1,f,ctypes.c_long(0)), os.close(f)); "
HOLD = MAP + "print(flush=True); time.sleep(600)"
OLD = 1_600_000_000


class Node:
    """A folder on a tmpfs in the place of /dev/shm, the /proc that the script sees, and processes that hold things."""

    def __init__(self, folder: Path, shm: Path) -> None:
        self.folder, self.shm = folder, shm
        self.proc = folder / "proc"
        self.proc.mkdir()
        for name in ("self", "sysvipc"):
            (self.proc / name).symlink_to(f"/proc/{name}")
        self.processes = [subprocess.Popen(["sleep", "600"])]
        self.seen(self.processes[0].pid)
        self.script = folder / "shm"
        self.stop = folder / "stop"
        self.write()

    def write(self, age_s: int = 0, *changes: tuple[str, str]) -> None:
        """The script for this place; ctime cannot be set, so the age is the test's."""
        text = SCRIPT.read_text().replace("PROC=/proc\n", f"PROC={self.proc}\n").replace("SHM=/dev/shm\n", f"SHM={self.shm}\n")
        text = text.replace("AGE_S=3600", f"AGE_S={age_s}")
        for name, first in (("pid", "4026531836"), ("ipc", "4026531839")):
            text = text.replace(f"{name}:[{first}]", os.readlink(f"/proc/self/ns/{name}"))
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        self.script.write_text(text)
        self.stop.write_text(STOP.read_text().replace("SHM_SCRIPT=/usr/local/libexec/oombot-shm\n", f"SHM_SCRIPT={self.script}\n"))
        for one in (self.script, self.stop):
            one.chmod(0o755)

    def seen(self, pid: int) -> None:
        (self.proc / str(pid)).symlink_to(f"/proc/{pid}")

    def file(self, name: str, size: int = 2 << 20) -> Path:
        path = self.shm / name
        path.write_bytes(b"x" * size)
        os.utime(path, (OLD, OLD))
        return path

    def hold(self, path: Path, how: str = "mapped") -> "subprocess.Popen[str]":
        process = subprocess.Popen(["python3", "-c", HOLD, str(path), how], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        self.processes.append(process)  # type: ignore[arg-type]
        self.seen(process.pid)
        return process

    def ask(self, *argv: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(["sh", str(self.script), *argv], capture_output=True, text=True, timeout=60, check=False)

    def rows(self) -> dict[str, list[str]]:
        answer = self.ask("segments")
        assert answer.returncode == 0, answer.stderr
        return {line.split("\t")[9]: line.split("\t") for line in answer.stdout.splitlines() if not line.startswith("sum")}

    def states(self) -> dict[str, str]:
        return {name: row[8] for name, row in self.rows().items() if row[0] == "file"}

    def word(self, name: str) -> str:
        _, inode, size, held, changed, uid, _, _, _, _ = self.rows()[name]
        return f"file:{inode}:{size}:{int(held) // 512}:{changed}:{uid}:{name}"

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    need(os.geteuid() == 0 and TMPFS.is_dir(), "needs root and a tmpfs")
    with tempfile.TemporaryDirectory(prefix="oombot-test-", dir=TMPFS) as shm:
        found = Node(tmp_path, Path(shm))
        try:
            yield found
        finally:
            found.end()


NAMES = [
    "psm_0a1b2c3d",
    "torch_4242_1007108915_12",
    "nccl-Ab3dEf",
    "sem.mp-ab_cd123",
    "sem.loky-77-ab_cd123",
    "vllm_offload_2510ed76-7d9e-4474-a959-ed83bc66582c.mmap",
]


@pytest.mark.parametrize("name", NAMES)
def test_what_a_dead_server_left_is_free_and_goes(node: Node, name: str) -> None:
    path = node.file(name)
    assert node.states() == {name: "free"}
    answer = node.ask("drop", node.word(name))
    assert (answer.stdout, answer.returncode) == ("dropped 1 of 1\n", 0)
    assert list(node.shm.iterdir()) == []
    assert not path.exists()


@pytest.mark.parametrize("how", ["mapped", "open"])
def test_what_a_process_has_mapped_or_open_is_never_touched(node: Node, how: str) -> None:
    path, other = node.file(NAMES[0]), node.file(NAMES[2])
    words = [node.word(NAMES[0]), node.word(NAMES[2])]
    node.hold(path, how)
    assert node.states() == {NAMES[0]: "used", NAMES[2]: "free"}
    answer = node.ask("drop", *words)
    assert answer.returncode == 3
    assert "somebody holds it" in answer.stderr
    assert path.exists(), "the one that is held"
    assert other.exists(), "all or none"


def test_what_only_another_mount_namespace_shows_is_seen_as_well(node: Node, tmp_path: Path) -> None:
    path, elsewhere = node.file(NAMES[0]), tmp_path / "elsewhere"
    elsewhere.touch()
    hold = f'mount --bind {path} {elsewhere} && exec python3 -c "{HOLD}" {elsewhere} mapped'
    process = subprocess.Popen(["unshare", "--mount", "sh", "-c", hold], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    node.processes.append(process)  # type: ignore[arg-type]
    assert process.stdout is not None
    need(process.stdout.readline() == "\n", "needs mount namespaces")
    node.seen(process.pid)
    assert node.states() == {NAMES[0]: "used"}


def test_a_thread_whose_leader_has_ended_still_holds_what_it_has_mapped(node: Node) -> None:
    path = node.file(NAMES[0])
    code = MAP + "import threading; threading.Thread(target=time.sleep, args=(600,)).start(); print(flush=True); time.sleep(0.2); c.syscall(60, 0)"
    need(os.uname().machine == "x86_64", "the number of exit is the architecture's")
    process = subprocess.Popen(["python3", "-c", code, str(path), "mapped"], stdout=subprocess.PIPE, text=True)
    node.processes.append(process)  # type: ignore[arg-type]
    assert process.stdout is not None
    process.stdout.readline()
    node.seen(process.pid)
    stat = Path(f"/proc/{process.pid}/stat")
    for _ in range(100):
        if stat.read_text().rpartition(") ")[2].startswith("Z"):
            break
        time.sleep(0.05)
    assert Path(f"/proc/{process.pid}/maps").read_text() == "", "what makes this hard"
    assert node.states() == {NAMES[0]: "used"}


def test_a_process_that_cannot_be_looked_at_makes_everything_unknown(node: Node) -> None:
    path = node.file(NAMES[0])
    word = node.word(NAMES[0])
    (node.proc / "77" / "task" / "77").mkdir(parents=True)
    (node.proc / "77" / "task" / "77" / "fd").symlink_to("fd")
    for argv in (["segments"], ["check", word], ["drop", word]):
        answer = node.ask(*argv)
        assert (answer.stdout, answer.returncode) == ("", 7), argv
        assert "cannot tell who holds" in answer.stderr
    assert path.exists()


@pytest.mark.parametrize("kind", ["pid", "ipc"])
def test_from_inside_another_namespace_nothing_can_be_told(node: Node, kind: str) -> None:
    node.file(NAMES[0])
    node.write(0, (os.readlink(f"/proc/self/ns/{kind}"), f"{kind}:[1]"))
    assert node.ask("segments").returncode == 7


@pytest.mark.parametrize("what", ["size", "time", "inode", "name"])
def test_what_changed_since_it_was_listed_stays(node: Node, what: str) -> None:
    path = node.file(NAMES[0])
    word = node.word(NAMES[0])
    if what == "size":
        path.write_bytes(b"y" * (1 << 20))
        os.utime(path, (OLD, OLD))
    elif what == "time":
        os.utime(path, (OLD, OLD + 1))
    elif what == "inode":
        path.unlink()
        node.file("psm_ffffffff")
        node.file(NAMES[0])
    else:
        path.unlink()
        path.symlink_to("/etc/passwd")
    assert node.ask("check", word).returncode == 3
    assert node.ask("drop", word).returncode == 3
    assert path.is_symlink() or path.exists()


@pytest.mark.parametrize("trick", ["held", "swapped"])
def test_what_changes_between_the_look_and_the_end_is_put_back(node: Node, trick: str) -> None:
    """The moment after everything was found to be free: somebody opens it, or puts another file in its place."""
    path = node.file(NAMES[0])
    other = node.file(NAMES[2])
    words = [node.word(NAMES[0]), node.word(NAMES[2])]
    if trick == "held":
        code = f"sh -c 'exec sleep 600 <{path}' >/dev/null 2>&1 & ln -s /proc/$! {node.proc}/; sleep 0.3"
    else:
        code = f"rm {path}; cp /etc/passwd {path}"
    node.write(0, ("    shelf=$(mktemp -d", f"    {code}\n    shelf=$(mktemp -d"))
    answer = node.ask("drop", *words)
    assert answer.returncode == 3, answer.stderr
    assert path.stat().st_size == (2 << 20 if trick == "held" else Path("/etc/passwd").stat().st_size)
    assert other.exists()
    assert sorted(one.name for one in node.shm.iterdir()) == sorted([NAMES[0], NAMES[2]]), "no folder of ours stays"
    for link in node.proc.iterdir():
        if link.name.isdigit() and int(link.name) not in [one.pid for one in node.processes]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(link.name), 9)


def test_what_a_killed_run_left_on_its_shelf_is_put_back_by_the_next(node: Node) -> None:
    shelf = node.shm / ".oombot-abc123"
    shelf.mkdir()
    (shelf / NAMES[1]).write_bytes(b"x")
    node.file(NAMES[0])
    assert node.ask("drop", node.word(NAMES[0])).returncode == 0
    assert [one.name for one in node.shm.iterdir()] == [NAMES[1]]


def test_done_again_after_a_lost_answer_nothing_happens(node: Node) -> None:
    node.file(NAMES[0])
    word = node.word(NAMES[0])
    assert node.ask("drop", word).returncode == 0
    assert (node.ask("drop", word).stdout, node.ask("check", word).returncode) == ("dropped 0 of 1\n", 3)


def test_what_is_young_or_has_a_second_name_is_not_free(node: Node) -> None:
    linked = node.file(NAMES[0])
    os.link(linked, node.shm / "another name")
    assert node.states() == {NAMES[0]: "linked"}
    node.file(NAMES[2])
    node.write(3600)
    assert node.states()[NAMES[2]] == "young"


@pytest.mark.parametrize(
    "name",
    ["data.bin", "psm_0a1b2c3d\nx", "psm_0A1B2C3D", "sem.my-app", "psm_0a1b2c3d;id", "vllm_offload_$(id)abcdefg.mmap", "..psm_0a1b2c3d", "cuda.shm.0.1.2"],
)
def test_names_that_no_library_makes_at_random_are_neither_shown_nor_touched(node: Node, name: str) -> None:
    path = node.file(name)
    assert node.states() == {}
    assert node.ask("drop", f"file:{path.stat().st_ino}:1:1:1.0:0:{name}").returncode == 126
    assert path.exists()


def test_folders_links_and_pipes_of_such_a_name_are_left_alone(node: Node) -> None:
    (node.shm / NAMES[0]).mkdir()
    (node.shm / NAMES[1]).symlink_to("/etc/passwd")
    os.mkfifo(node.shm / NAMES[2])
    assert node.states() == {}


@pytest.mark.parametrize(
    "argv",
    [
        [], ["list"], ["segments", "x"], ["drop"], ["drop", "x"], ["drop", "file:1:1:1:1.0:0:../psm_0a1b2c3d"], ["drop", "file:1:1:1:1.0:0:psm_0a1b2c3d x"],
        ["drop", "sysv:1:2:3:4:5 "], ["drop", "sysv:1:2:3:4:5\nx"],
        ["drop", "file:01:1:1:1.0:0:psm_0a1b2c3d"], ["drop", "sysv:1:2:3:4"], ["drop", "-x"], ["drop", "sysv:1:2:3:4:5\n"], ["drop", *["sysv:1:2:3:4:5"] * 41],
    ],
)  # fmt: skip
def test_anything_else_is_refused(node: Node, argv: list[str]) -> None:
    assert node.ask(*argv).returncode == 126


def sysv(key: int = 0) -> int:
    """A SysV segment whose creator ends at once."""
    code = f"import ctypes; c=ctypes.CDLL(None); print(c.shmget({key}, 1 << 21, 0o1600))"
    return int(subprocess.run(["python3", "-c", code], capture_output=True, text=True, check=True).stdout)


def test_a_sysv_segment_of_a_dead_creator_goes_and_one_with_a_key_or_an_owner_stays(node: Node) -> None:
    dead, keyed = sysv(), sysv(0x6F6F0000 + os.getpid() % 65536)
    own = ctypes.CDLL(None).shmget(0, 1 << 21, 0o1600)
    node.seen(os.getpid())
    try:
        states = {line.split("\t")[1]: line.split("\t") for line in node.ask("segments").stdout.splitlines() if line.startswith("sysv")}
        assert [states[str(one)][8] for one in (dead, keyed, own)] == ["free", "keyed", "used"]
        words = {one: ":".join(["sysv", str(one), *(states[str(one)][at] for at in (2, 4, 5, 9))]) for one in (dead, keyed, own)}
        for one in (keyed, own):
            assert node.ask("drop", words[one], words[dead]).returncode == 3
        assert node.ask("drop", words[dead]).returncode == 0
        left = {line.split("\t")[1] for line in node.ask("segments").stdout.splitlines() if line.startswith("sysv")}
        assert {str(dead), str(keyed), str(own)} & left == {str(keyed), str(own)}
        assert node.ask("drop", words[dead]).stdout == "dropped 0 of 1\n"
    finally:
        for one in (dead, keyed, own):
            subprocess.run(["ipcrm", "-m", str(one)], capture_output=True, check=False)


def test_the_sums_count_what_is_not_listed_as_well(node: Node) -> None:
    for at in range(4):
        node.file(f"psm_0a1b2c3{at}", 4096)
    node.write(0, ("SHOWN=500", "SHOWN=1"))
    lines = node.ask("segments").stdout.splitlines()
    assert len([line for line in lines if line.startswith("file")]) <= 1
    assert int(next(line for line in lines if line.startswith("sum\tfree")).split("\t")[2]) >= 4


def test_the_client_sends_nothing_but_verbs_and_words_without_anything_for_a_shell() -> None:
    word = f"file:12:2097152:4096:1600000000.0000000000:0:{NAMES[5]}"
    assert allowed(["drop", word, "sysv:1:2:3:4:5"])
    assert far_line(["drop", word], 45) == f"env LC_ALL=C timeout -k 2 45 drop {word}", "no quotes, since the script takes the line apart at its blanks"
    for argv in (
        ["drop"],
        ["drop", "x"],
        ["drop", word + ";id"],
        ["drop", word + " x"],
        ["check", word.replace("vllm", "../vllm")],
        ["segments", "x"],
        ["drop", word + "\n"],
        ["drop"] + [word] * 41,
    ):
        assert not allowed(argv)


@pytest.mark.sshd
def test_a_real_sshd_runs_it_behind_the_same_forced_command_as_the_stop(node: Node, tmp_path: Path) -> None:
    folder = tmp_path / "sshd"
    folder.mkdir()
    path = node.file(NAMES[0])
    word = node.word(NAMES[0])
    with running_sshd(folder, options=f'restrict,command="{node.stop}"') as sshd:
        hands = SshHands(sshd.settings())
        where = ("node", ["127.0.0.1"])
        assert f"free\t{NAMES[0]}" in hands.segments(*where)
        hands.drop(*where, [word], dry_run=True)
        assert path.exists()
        holder = node.hold(path)
        with pytest.raises(Conflict, match="somebody holds it"):
            hands.drop(*where, [word], dry_run=False)
        holder.kill()
        holder.wait()
        hands.drop(*where, [word], dry_run=False)
        assert not path.exists()
        hands.drop(*where, [word], dry_run=False)
        with pytest.raises(Forbidden):
            hands.drop(*where, ["file:1:1:1:1.0:0:/etc/passwd"], dry_run=False)
        node.write(0, (os.readlink("/proc/self/ns/pid"), "pid:[1]"))
        with pytest.raises(Temporary, match="cannot tell"):
            hands.segments(*where)
        node.script.unlink()
        with pytest.raises(Rejected, match="not an allowed command"):
            hands.segments(*where)
