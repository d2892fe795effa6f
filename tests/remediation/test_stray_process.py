"""A process outside of every pod that holds a GPU's memory: previewed with all that tells it from others, stopped once, never guessed."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from bot.clients.kubernetes_writer import KubernetesWriter
from bot.clients.ssh_hands import SshHands
from bot.errors import BadInput, Conflict, Unreachable
from bot.model import Verdict
from bot.remediation import dry_run, execute_step, judge, observe, plan_undo
from bot.remediation.stray_process import read
from tests.clients.sshd import running_sshd
from tests.deploy.test_stop import CONTAINERS, STRAY, Node
from tests.remediation.place import CRASHES, Place
from tests.remediation.plans import handed_out, new_id, operation, planned
from tests.remediation.shelf import NOW, deployment_shelf
from tests.remediation.test_kept_plans import kept

LINE = "4242\t987654\t1000\tana\t30000 MiB\tGPU-1\t0::/user.slice/user-1000.slice/session-3.scope,\tpython train.py --token hf_abcdefghijklmnopqrstuvwxyz012345\n"
IN_POD = "17\t5\t0\troot\t9000 MiB\tGPU-1\t0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-ab.scope,\tvllm serve llama\n"


class Hands:
    """Hands that list what a test says and stop nothing."""

    def __init__(self, text: str, wrong: Exception | None = None) -> None:
        self.text, self.wrong = text, wrong

    def processes(self, node: str, addresses: Sequence[str]) -> str:
        if self.wrong is not None:
            raise self.wrong
        return self.text

    def stop(self, node: str, addresses: Sequence[str], pid: int, start: int) -> None:
        raise AssertionError("nothing is stopped while planning")


def test_the_preview_names_pid_user_command_and_memory_and_that_there_is_no_way_back() -> None:
    plan = planned(deployment_shelf(), "free_gpu_process", hands=Hands(IN_POD + LINE))
    assert "pid 4242, user ana, 30000 MiB on GPU-1: python train.py" in plan.diff
    assert "hf_abc" not in plan.diff
    assert "cannot be undone" in plan.notes[0].en
    assert (plan.risk, plan.target.namespace, plan.steps[0].patch[0]["value"]["start"]) == ("high", "", 987654)
    assert kept(plan).digest == plan.digest
    with pytest.raises(BadInput, match="cannot be started again"):
        plan_undo(operation(plan), deployment_shelf(), new_id=new_id)


@pytest.mark.parametrize(
    ("hands", "words"),
    [
        (None, "ssh.stop_user"),
        (Hands(IN_POD), "none is proved to be stray"),
        (Hands(""), "none is proved to be stray"),
        (Hands(LINE.replace("0::/user.slice/user-1000.slice/session-3.scope,", "0::/,")), "none is proved to be stray"),
        (Hands(LINE + LINE.replace("4242", "4243")), "for people to say"),
        (Hands("", Unreachable("gpu-1 does not answer")), "could not be read (gpu-1 does not answer)"),
    ],
)
def test_what_is_not_proved_is_handed_out(hands: Hands | None, words: str) -> None:
    found = handed_out(deployment_shelf(), "free_gpu_process", hands=hands)
    assert words in found.reason.en
    assert "# on gpu-1" in found.paste


@pytest.mark.parametrize("group", CONTAINERS)
def test_the_planner_and_the_node_agree_on_what_a_container_is(group: str) -> None:
    found = read(LINE.replace("0::/user.slice/user-1000.slice/session-3.scope,", group.replace("\n", ",")))
    assert not found[0].is_stray
    assert read(LINE)[0].is_stray


def test_a_command_line_cannot_forge_a_second_process_or_hide_its_end() -> None:
    forged = LINE.replace("python train.py", "x\u202e\x1b[2K python")
    assert read(forged)[0].command.isprintable()
    assert read("17\t5\tjust three\n") == ()


@pytest.mark.sshd
def test_it_is_stopped_by_a_real_sshd_after_everything_was_looked_at_again(place: Place, tmp_path: Path) -> None:
    target = place.crash_looping("Deployment", script=CRASHES)
    node = Node(tmp_path, ["sleep", "600"])
    folder = tmp_path / "sshd"
    folder.mkdir()
    with running_sshd(folder, options=f'restrict,command="{node.script}"') as sshd:
        (folder / "known_hosts").write_text(f"[{target.node}]:{sshd.port} {sshd.host_key}\n")
        hands = SshHands(sshd.settings())
        writer = KubernetesWriter("sandbox", place._client(tmp_path, "remediator"), hands)
        plan = planned(place.reader, "free_gpu_process", target, hands=hands)
        assert f"pid {node.pid}" in plan.diff
        dry_run(plan, writer)
        assert node.lives()
        node.group(CONTAINERS[0])
        with pytest.raises(Conflict, match="belongs to a container"):
            execute_step(plan, 0, "op-1", writer)
        node.group(STRAY)
        execute_step(kept(plan), 0, "op-1", writer)
        assert not node.lives()
        execute_step(plan, 0, "op-1", writer)
        with pytest.raises(Conflict):
            dry_run(plan, writer)
    assert judge(plan, None, None, observe(plan, place.reader), NOW).verdict is Verdict.VERIFIED
