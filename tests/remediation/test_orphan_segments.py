"""Shared memory of a node that nobody holds: previewed segment by segment, dropped once, never what the node did not prove."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bot.cases import Cases, Timings
from bot.cases.engine import real
from bot.clients.kubernetes_writer import KubernetesWriter
from bot.clients.ssh_hands import SshHands
from bot.errors import BadInput, Conflict, Temporary, Unsupported
from bot.evidence.locate import query
from bot.model import Certainty, Diagnosis, Request, State, StepKind, Text, Verdict
from bot.remediation import dry_run, execute_step, judge, observe, plan_undo
from bot.remediation.orphan_segments import MOST, read
from bot.sandbox.kubelet.machine import Segment, machine
from bot.sandbox.ssh_node import SshNode
from tests.clients.sshd import Settings, running_sshd
from tests.deploy.test_shm import NAMES, Node, node
from tests.remediation.place import CRASHES, Place
from tests.remediation.plans import handed_out, new_id, operation, planned, recommendation
from tests.remediation.shelf import NOW, deployment_shelf
from tests.remediation.test_kept_plans import kept
from tests.walk.world import ANA, JO, OPS, POLICY, WEI, Stage

__all__ = ["node"]
FREE = "file\t12\t17179869184\t17179869184\t1600000000.0000000000\t0\troot\t90000\tfree\tvllm_offload_0123abcd.mmap\n"
SYSV = "sysv\t7\t4194304\t4194304\t1600000000\t1000\tana\t90000\tfree\t4242\n"
USED = FREE.replace("\tfree\t", "\tused\t").replace("file\t12", "file\t13").replace("0123abcd", "9999abcd")


class Hands:
    """Hands that list what a test says and touch nothing."""

    def __init__(self, text: str, wrong: Exception | None = None) -> None:
        self.text, self.wrong = text, wrong

    def segments(self, node: str, addresses: Sequence[str]) -> str:
        if self.wrong is not None:
            raise self.wrong
        return self.text

    def drop(self, node: str, addresses: Sequence[str], words: Sequence[str], *, dry_run: bool) -> None:
        raise AssertionError("nothing is dropped while planning")

    def processes(self, node: str, addresses: Sequence[str]) -> str:
        raise AssertionError("not asked for")

    def stop(self, node: str, addresses: Sequence[str], pid: int, start: int) -> None:
        raise AssertionError("not asked for")


def test_the_preview_names_each_segment_and_that_there_is_no_way_back() -> None:
    plan = planned(deployment_shelf(), "drop_shared_memory", hands=Hands(SYSV + USED + FREE))
    assert plan.diff.splitlines()[1:] == ["- vllm_offload_0123abcd.mmap: 16 GiB, user root", "- SysV segment 7: 4 MiB, user ana"]
    assert plan.steps[0].kind is StepKind.DROP_SEGMENTS
    assert plan.steps[0].patch[0]["value"]["words"] == [
        "file:12:17179869184:33554432:1600000000.0000000000:0:vllm_offload_0123abcd.mmap",
        "sysv:7:4194304:1600000000:1000:4242",
    ]
    assert "cannot be undone" in plan.notes[0].en
    assert (plan.risk, plan.target.namespace, plan.before) == ("high", "", {})
    assert kept(plan).digest == plan.digest
    with pytest.raises(BadInput, match="cannot be brought back"):
        plan_undo(operation(plan), deployment_shelf(), new_id=new_id)


def test_a_later_look_at_the_same_segments_gives_the_same_digest() -> None:
    plans = [planned(deployment_shelf(), "drop_shared_memory", hands=Hands(text)) for text in (FREE, FREE.replace("90000", "99000"))]
    assert plans[0].digest == plans[1].digest
    other = planned(deployment_shelf(), "drop_shared_memory", hands=Hands(FREE.replace("file\t12", "file\t14")))
    assert other.digest != plans[0].digest


def test_no_more_than_can_be_read_and_the_largest_first() -> None:
    many = "".join(f"file\t{at}\t{at << 20}\t{at << 20}\t1.0000000000\t0\troot\t90000\tfree\tpsm_0000{at:04x}\n" for at in range(1, 60))
    words = planned(deployment_shelf(), "drop_shared_memory", hands=Hands(many)).steps[0].patch[0]["value"]["words"]
    assert [word.split(":")[1] for word in words] == [str(at) for at in range(59, 59 - MOST, -1)]


@pytest.mark.parametrize(
    ("hands", "words"),
    [
        (None, "ssh.stop_user"),
        (Hands(""), "Nothing worth dropping"),
        (Hands(USED), "1 are held by a process"),
        (Hands(FREE.replace("free", "young")), "1 changed within the hour"),
        (Hands(FREE.replace("17179869184", "4096")), "Nothing worth dropping"),
        (Hands("", Temporary("gpu-1: cannot tell who holds shared memory: not root")), "could not be told"),
    ],
)
def test_what_is_not_proved_is_handed_out(hands: Hands | None, words: str) -> None:
    found = handed_out(deployment_shelf(), "drop_shared_memory", hands=hands)
    assert words in found.reason.en
    assert "# on gpu-1" in found.paste


@pytest.mark.parametrize(
    "line",
    [
        FREE.replace("vllm_offload_0123abcd.mmap", "../../etc/passwd"),
        FREE.replace("vllm_offload_0123abcd.mmap", "psm_00001111;id"),
        FREE.replace("\tfree", "\tfree\tfree"),
        FREE.replace("file\t12", "file\t-12"),
        FREE.replace("file", "disk"),
        SYSV.replace("4242", "$(id)"),
        "free",
    ],
)
def test_a_line_that_is_not_exactly_of_the_scripts_form_is_no_segment(line: str) -> None:
    assert read(line) == ()


def test_a_users_name_cannot_turn_the_preview_around() -> None:
    assert read(FREE.replace("root", "ro\u202eot\x1b"))[0].user.isprintable()


@pytest.mark.sshd
def test_it_is_dropped_by_a_real_sshd_after_everything_was_looked_at_again(place: Place, node: Node, tmp_path: Path) -> None:
    target = place.crash_looping("Deployment", script=CRASHES)
    path = node.file(NAMES[5], 4 << 20)
    folder = tmp_path / "sshd"
    folder.mkdir()
    with running_sshd(folder, options=f'restrict,command="{node.stop}"') as sshd:
        (folder / "known_hosts").write_text(f"[{target.node}]:{sshd.port} {sshd.host_key}\n")
        hands = SshHands(sshd.settings())
        writer = KubernetesWriter("sandbox", place._client(tmp_path, "remediator"), hands)
        plan = planned(place.reader, "drop_shared_memory", target, hands=hands)
        assert NAMES[5] in plan.diff
        dry_run(plan, writer)
        assert path.exists()
        holder = node.hold(path)
        with pytest.raises(Conflict, match="somebody holds it"):
            execute_step(plan, 0, "op-1", writer)
        holder.kill()
        holder.wait()
        execute_step(kept(plan), 0, "op-1", writer)
        assert not path.exists()
        execute_step(plan, 0, "op-1", writer)
        with pytest.raises(Conflict):
            dry_run(plan, writer)
        with pytest.raises(Unsupported):
            dry_run(plan, KubernetesWriter("sandbox", place._client(tmp_path, "remediator")))
    outcome = judge(plan, None, None, observe(plan, place.reader), NOW)
    assert (outcome.verdict, "are gone" in outcome.says.en) == (Verdict.VERIFIED, True)


def test_the_sandbox_node_keeps_to_the_same_list(tmp_path: Path) -> None:
    there = machine("gpu-1")
    there.segments = [Segment(12, "psm_00001111", 64 << 20), Segment(13, "psm_00002222", 64 << 20, held=True)]
    with SshNode({"gpu-1": there}, tmp_path) as far:
        hands = SshHands(Settings(user="oombot", key=far.key_file, known_hosts=far.known_hosts, port=far.port))
        where = ("gpu-1", [there.address])
        found = read(hands.segments(*where))
        assert [(one.name, one.state) for one in found] == [("psm_00001111", "free"), ("psm_00002222", "used")]
        with pytest.raises(Conflict):
            hands.drop(*where, [one.word for one in found], dry_run=False)
        hands.drop(*where, [found[0].word], dry_run=True)
        hands.drop(*where, [found[0].word], dry_run=False)
        hands.drop(*where, [found[0].word], dry_run=False)
    assert [one.name for one in there.segments] == ["psm_00002222"]


def test_the_whole_way_from_the_question_to_the_outcome(place: Place, tmp_path: Path) -> None:
    """Asked, previewed, approved by a second person, dropped once, verified; no Undo is offered. Only the diagnosis is given."""
    target = place.crash_looping("Deployment", script=CRASHES)
    there = machine(target.node)
    there.segments = [Segment(12, "psm_00001111", 64 << 20), Segment(13, "psm_00002222", 64 << 20, held=True)]
    wanted = recommendation("drop_shared_memory", "", None)
    found = Diagnosis("shm_too_small", "communication", Certainty.CERTAIN, Text("full"), recommendations=(wanted,))
    with SshNode({target.node: there}, tmp_path) as far:
        hands = SshHands(Settings(user="oombot", key=far.key_file, known_hosts=far.known_hosts, port=far.port))
        stage = Stage(
            tmp_path,
            replace(POLICY, actions=("drop_shared_memory",), typed_from="never"),
            writers={"sandbox": KubernetesWriter("sandbox", place._client(tmp_path, "remediator"), hands)},
        )
        stage.cases = Cases(
            stage.store, stage.queue, {"sandbox": place.reader}, stage.writers, None, stage.chat, stage.people, stage.policy, None, stage.audit, stage.clock,
            engine=replace(real(hands), examine=lambda bundle, knowledge: found), timings=Timings(),
        )  # fmt: skip
        stage.cases.bind(stage.queue)
        case = stage.cases.receive(Request("r1", ANA, query(f"{target.namespace}/{target.pod}"), stage.clock.now(), OPS))
        stage.queue.run_due()
        case = stage.click(JO, case, "apply")
        assert (case.state, len(there.segments)) == (State.AWAITING_APPROVAL, 2)
        case = stage.click(WEI, case, "approve")
        for _ in range(3):
            case = stage.later(case, seconds=16)
    assert [one.name for one in there.segments] == ["psm_00002222"]
    assert case.operation is not None
    assert case.operation.outcome is not None
    assert (case.state, case.operation.outcome.verdict) == (State.VERIFIED, Verdict.VERIFIED)
    assert "undo" not in [button.verb for button in case.buttons]
    assert [entry["object"] for entry in stage.events("planned")] == [f"Node {target.node}"]
