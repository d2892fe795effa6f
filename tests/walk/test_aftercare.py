"""After "verified": a while of watching, and what turns it into "verified, but"; and what somebody else changes back meanwhile."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from bot.cases import Timings
from bot.errors import Conflict, NotFound, Unreachable
from bot.model import Case, Difference, Life, Rollout, State, Verdict
from handlers.slack import blocks
from handlers.slack.wording import say
from tests.walk.world import ANA, DONE, JO, LI, OPS, SICK, WEI, SmallWorld, Stage

ARGO = (Difference("/spec/template/spec/containers/0/args/1", "--max-model-len=57344", "--max-model-len=131072", "argocd-application-controller"),)


def said(stage: Stage, case: Case, language: str = "en") -> str:
    assert case.operation is not None
    purpose = f"outcome:{case.operation.id}"
    return str(blocks.message(stage.chat.shows(purpose), purpose, language))


def test_a_verified_change_is_watched_and_the_thread_says_until_when(stage: Stage) -> None:
    case = stage.approved()
    assert case.operation is not None
    assert case.operation.aftercare_until == stage.clock.now() + timedelta(minutes=30)
    assert "Watching until <!date^" in said(stage, case)
    case = stage.later(case, minutes=15)
    assert (case.state, case.operation and case.operation.aftermath) == (State.VERIFIED, None)


def test_when_nothing_happens_that_is_said_at_the_end(stage: Stage) -> None:
    case = stage.later(stage.approved(), minutes=31)
    assert case.operation is not None
    assert case.operation.aftermath is not None
    assert (case.state, case.operation.aftermath.verdict) == (State.VERIFIED, Verdict.VERIFIED)
    assert "No new kill or restart." in said(stage, case)
    assert "没有新的终止或重启。" in said(stage, case, "zh")
    assert "aftercare" not in stage.queue.names()


def test_a_new_kill_turns_verified_into_verified_but_with_a_diagnosis_and_undo(stage: Stage) -> None:
    case = stage.approved()
    stage.world.now_alive = (Life("chat-new", "uid-new", 1, "OOMKilled, exit code 137"),)
    stage.world.new_pod = SICK
    case = stage.later(case, seconds=40)
    assert (case.state, [button.verb for button in case.buttons]) == (State.VERIFICATION_FAILED, ["undo", "leave"])
    assert "*Verified, but at" in said(stage, case)
    assert "The process in chat-new ended again (OOMKilled, exit code 137)." in said(stage, case)
    assert "New diagnosis: it does not fit" in said(stage, case)
    assert "曾已验证，但" in said(stage, case, "zh")
    top = stage.chat.shows("top")
    assert "verified, but it did not last" in str(blocks.message(top, "top", "en"))
    assert stage.events("aftermath")[0]["cause"] == "context_exceeds_kv_cache"


def test_what_did_not_last_can_be_undone(stage: Stage) -> None:
    case = stage.approved()
    stage.world.now_alive = (Life("chat-new", "uid-new", 0, "Evicted: The node was low on resource: memory.", failed=True),)
    case = stage.later(case, seconds=40)
    assert stage.click(WEI, stage.click(JO, case, "undo"), "approve").state is State.UNDONE
    assert stage.world.value == 131072


def test_restarts_from_before_the_verification_do_not_count(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(now_alive=(Life("chat-new", "uid-new", 3, "Error, exit code 1"),)))
    assert stage.later(stage.approved(), minutes=31).state is State.VERIFIED


def test_a_pod_that_was_made_since_counts_from_none(stage: Stage) -> None:
    case = stage.approved()
    stage.world.now_alive = (Life("chat-other", "uid-other", 0),)
    assert stage.later(case, seconds=40).state is State.VERIFIED
    stage.world.now_alive = (Life("chat-other", "uid-other", 1, "OOMKilled, exit code 137"),)
    assert stage.later(case, seconds=40).state is State.VERIFICATION_FAILED


def test_it_goes_on_after_a_restart_of_the_bot(stage: Stage) -> None:
    case = stage.approved()
    stage.boot()
    stage.world.now_alive = (Life("chat-new", "uid-new", 1, "Error, exit code 1"),)
    stage.clock.forward(seconds=40)
    stage.queue.run_due()
    assert stage.now(case).state is State.VERIFICATION_FAILED


def test_an_undo_that_was_rejected_goes_back_to_being_watched(stage: Stage) -> None:
    case = stage.click(JO, stage.approved(), "undo")
    stage.world.now_alive = (Life("chat-new", "uid-new", 1, "Error, exit code 1"),)
    assert stage.later(case, seconds=40).state is State.AWAITING_APPROVAL
    case = stage.click(WEI, case, "reject", reason="not yet")
    assert case.state is State.VERIFIED
    assert stage.later(case, seconds=40).state is State.VERIFICATION_FAILED


def test_nothing_is_watched_where_the_time_for_it_is_none(tmp_path: Path) -> None:
    stage = Stage(tmp_path, timings=Timings(aftercare=timedelta(0)))
    case = stage.approved()
    assert "aftercare" not in stage.queue.names()
    assert "Watching until" not in said(stage, case)


# ---------------------------------------------------------------- somebody else changes it back


def test_gitops_that_reverts_while_the_rollout_is_watched_is_said_with_its_name(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(rollout=Rollout(1, 0, 0, False)))
    case = stage.approved()
    stage.world.reverted = ARGO
    case = stage.later(case, seconds=6)
    assert case.trouble is not None
    assert (case.state, case.trouble.key, case.differences) == (State.STUCK, "reverted", ARGO)
    assert "was changed by `argocd-application-controller` while the rollout was watched" in say(case.trouble, "en")
    assert "argocd-application-controller" in say(case.trouble, "zh")
    assert [button.verb for button in case.buttons] == ["wait", "undo", "leave", "preview_again"]
    assert stage.chat.shows("note:1").differences == ARGO


def test_gitops_that_reverts_before_it_is_verified_is_no_success(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(verdict=Verdict.NOT_VERIFIABLE))
    case = stage.approved()
    stage.world.reverted, stage.world.verdict = ARGO, None
    case = stage.later(case, seconds=16)
    assert case.state is State.VERIFICATION_FAILED
    assert "changed by argocd-application-controller afterwards" in said(stage, case)


def test_gitops_that_reverts_after_it_was_verified_is_said(stage: Stage) -> None:
    case = stage.approved()
    stage.world.reverted = ARGO
    case = stage.later(case, seconds=40)
    assert (case.state, case.differences) == (State.VERIFICATION_FAILED, ARGO)
    assert "*Verified, but at" in said(stage, case)


# ---------------------------------------------------------------- half-way


def half_way(tmp_path: Path, sent: int) -> tuple[Stage, Case]:
    """A plan of three patches of which `sent` were sent, when somebody froze all changes."""
    stage = Stage(tmp_path, world=SmallWorld(steps=3))
    stage.world.on_call = freezer(stage, sent)
    case = stage.approved()
    stage.cases.freeze(WEI, False, OPS)
    return stage, case


def freezer(stage: Stage, sent: int) -> Callable[[str], None]:
    """Somebody who freezes all changes once so many writes have arrived."""
    left = [sent]

    def freezes(name: str) -> None:
        left[0] -= name == "after_write"
        if name == "after_write" and not left[0]:
            stage.cases.freeze(ANA, True, OPS)

    return freezes


@pytest.mark.parametrize("sent", [1, 2])
def test_an_undo_after_a_stop_half_way_is_of_exactly_what_was_sent(tmp_path: Path, sent: int) -> None:
    stage, case = half_way(tmp_path, sent)
    assert (case.state, len(stage.world.writes)) == (State.STUCK, sent)
    stage.world.rollout = DONE
    assert stage.click(WEI, stage.click(LI, case, "undo"), "approve").state is State.UNDONE
    assert (stage.world.undone_steps, stage.world.value) == (sent, 131072)


def test_a_step_whose_answer_was_lost_counts_as_sent_when_its_mark_is_there(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=3))
    writes = [0]

    def breaks(name: str) -> None:
        writes[0] += name == "after_write"
        if name == "after_write" and writes[0] == 2:
            stage.world.fail["execute_step"] = [Conflict("denied")] * 2
            raise KeyboardInterrupt

    stage.world.on_call = breaks
    with pytest.raises(KeyboardInterrupt):
        stage.approved()
    stage.boot()
    stage.queue.run_due()
    case = stage.store.recent(1)[0]
    assert (case.state, case.operation and case.operation.next_step, stage.world.writes) == (State.STUCK, 1, ["apply:0", "apply:1"])
    assert case.operation is not None
    assert len(stage.world.carried_out(case.operation, None).remediation.steps) == 2


@pytest.mark.parametrize("sent", [1, 2])
def test_an_undo_that_stops_half_way_can_be_undone_for_the_rest(tmp_path: Path, sent: int) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=3))
    case = stage.click(JO, stage.approved(), "undo")
    stage.world.on_call = freezer(stage, sent)
    case = stage.click(WEI, case, "approve")
    assert (case.state, [button.verb for button in case.buttons]) == (State.STUCK, ["wait", "undo", "leave"])
    assert "Undo the rest" in said(stage, case)
    assert "撤销剩余部分" in said(stage, case, "zh")
    stage.cases.freeze(WEI, False, OPS)
    case = stage.click(LI, case, "undo")
    assert stage.world.undone_steps == 3 - sent
    assert stage.click(WEI, case, "approve").state is State.UNDONE


def test_an_undo_that_stops_half_way_goes_on_when_an_approver_says_so(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=3))
    case = stage.click(JO, stage.approved(), "undo")
    stage.world.on_call = freezer(stage, 1)
    case = stage.click(WEI, case, "approve")
    assert "Go on" in said(stage, case)
    assert "继续执行" in said(stage, case, "zh")
    stage.cases.freeze(WEI, False, OPS)
    assert stage.click(LI, case, "wait").state is State.UNDONE
    assert stage.world.writes[3:] == ["undo:0", "undo:1", "undo:2"]


@pytest.mark.parametrize("rollout", [DONE, Rollout(1, 1, 0, done=False, stuck="crash_looping")])
def test_a_change_that_stopped_half_way_goes_on_with_its_steps_whatever_the_pods_do(tmp_path: Path, rollout: Rollout) -> None:
    """Waiting for the pods would end it: they crash on, as long as the last patch was not sent."""
    stage, case = half_way(tmp_path, 1)
    stage.world.rollout = rollout
    stage.click(LI, case, "wait")
    assert stage.world.writes == ["apply:0", "apply:1", "apply:2"]
    assert stage.events("goes_on")[0] == {**stage.events("goes_on")[0], "who": "ULI", "step": 1}


def test_only_an_approver_lets_the_rest_be_sent_and_not_while_all_is_frozen(tmp_path: Path) -> None:
    stage, case = half_way(tmp_path, 1)
    stage.people.groups["SONCALL"] -= {"UANA"}
    assert stage.click(ANA, case, "wait").state is State.STUCK
    stage.cases.freeze(WEI, True, OPS)
    assert stage.click(LI, case, "wait").state is State.STUCK
    assert (stage.chat.told(ANA)[-1], stage.chat.told(LI)[-1]) == ("not_approver", "frozen")
    assert stage.world.writes == ["apply:0"]


def test_the_rest_is_not_sent_over_what_somebody_changed_of_the_first_half(tmp_path: Path) -> None:
    stage, case = half_way(tmp_path, 1)
    stage.world.reverted = ARGO
    case = stage.click(LI, case, "wait")
    assert (case.state, case.trouble and case.trouble.key, case.differences) == (State.STUCK, "reverted", ARGO)
    assert {"wait", "undo", "leave"} <= {button.verb for button in case.buttons}
    assert stage.world.writes == ["apply:0"]


def test_a_rollout_that_is_only_waited_for_needs_no_approver(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=2, after_rollout=1))
    stage.world.rollout = Rollout(1, 1, 0, done=False, stuck="unschedulable", detail="no GPU")
    case = stage.later(stage.approved(), seconds=20)
    assert (case.state, "Go on" in said(stage, case)) == (State.STUCK, False)
    stage.people.groups["SONCALL"] -= {"UANA"}
    stage.world.rollout = DONE
    stage.click(ANA, case, "wait")
    assert stage.world.writes == ["apply:0", "apply:1"]


def test_an_undo_that_stopped_half_way_and_was_left_can_be_ended_later(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=2))
    case = stage.click(JO, stage.approved(), "undo")
    stage.world.on_call = freezer(stage, 1)
    case = stage.click(LI, stage.click(WEI, case, "approve"), "leave")
    assert (case.state, [button.verb for button in case.buttons]) == (State.LEFT, ["undo"])
    stage.cases.freeze(WEI, False, OPS)
    case = stage.click(LI, case, "undo")
    assert stage.world.undone_steps == 1
    assert stage.click(WEI, case, "approve").state is State.UNDONE


def test_an_undo_that_was_sent_whole_and_is_stuck_is_not_undone_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=2))
    case = stage.click(JO, stage.approved(), "undo")
    stage.world.rollout = Rollout(1, 1, 0, done=False, stuck="unschedulable", detail="no GPU")
    case = stage.later(stage.click(WEI, case, "approve"), seconds=20)
    assert (case.state, [button.verb for button in case.buttons]) == (State.STUCK, ["wait", "leave"])


def test_where_nothing_was_sent_there_is_nothing_to_undo(stage: Stage) -> None:
    stage.world.fail["execute_step"] = [Unreachable("no answer")] * 9
    case = stage.approved()
    for _ in range(6):
        case = stage.later(case, seconds=30)
    assert case.state is State.STUCK
    case = stage.click(LI, case, "undo")
    assert (case.state, stage.chat.told(LI)) == (State.STUCK, ["nothing_to_undo"])




def test_a_watch_that_cannot_go_on_says_so(stage: Stage) -> None:
    case = stage.approved()
    stage.world.fail["standing"] = [NotFound("Deployment llm/chat is gone")]
    case = stage.later(case, seconds=40)
    assert (case.state, "aftercare" in stage.queue.names()) == (State.VERIFIED, False)
    assert "From then on it could not be watched: Deployment llm/chat is gone." in said(stage, case)
