"""An approved plan is carried out: steps that fail, rollouts that do not come through, and whether it worked."""

from pathlib import Path

import pytest

from bot.errors import Conflict, Forbidden, Permanent, Rejected, Unreachable
from bot.model import Case, Job, Rollout, State, Verdict
from tests.walk.world import DONE, FINE, JO, LI, SICK, WEI, SmallWorld, Stage, planned

# ---------------------------------------------------------------- execution that fails


def test_a_first_step_that_the_cluster_refuses_leaves_everything_as_it_was(stage: Stage) -> None:
    stage.world.fail["execute_step"] = [Rejected("denied by a webhook")]
    case = stage.approved()
    assert case.state is State.DIAGNOSED
    assert case.trouble is not None
    assert (case.trouble.key, case.trouble.parameters["reason"]) == ("step_refused", "denied by a webhook")
    assert [button.verb for button in case.buttons] == ["apply", "retry"]


def test_a_later_step_that_the_cluster_refuses_ends_stuck_with_the_choice(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=2))
    stage.world.on_call = lambda name: stage.world.fail.update(execute_step=[Conflict("changed")]) if name == "after_write" else None
    case = stage.approved()
    assert (case.state, [button.verb for button in case.buttons]) == (State.STUCK, ["wait", "undo", "leave"])


def test_a_write_whose_answer_was_lost_is_not_done_twice(stage: Stage) -> None:
    stage.world.fail["after_write"] = [Unreachable("the connection broke")]
    case = stage.approved()
    case = stage.later(case, seconds=5)
    assert (case.state, stage.world.writes) == (State.VERIFIED, ["apply:0"])


def test_a_write_that_fails_each_time_ends_stuck_since_nobody_knows(stage: Stage) -> None:
    stage.world.fail["execute_step"] = [Unreachable("no answer")] * 9
    case = stage.approved()
    for _ in range(6):
        case = stage.later(case, seconds=30)
    assert (case.state, case.trouble and case.trouble.key) == (State.STUCK, "step_refused")


def test_a_refusal_after_a_write_whose_answer_was_lost_is_not_called_nothing_done(stage: Stage) -> None:
    stage.world.fail["after_write"] = [Unreachable("the connection broke")]
    stage.world.on_call = lambda name: stage.world.fail.update(execute_step=[Forbidden("the token has expired")]) if name == "after_write" else None
    case = stage.later(stage.approved(), seconds=5)
    assert (case.state, stage.world.writes, [button.verb for button in case.buttons]) == (State.STUCK, ["apply:0"], ["wait", "undo", "leave"])
    case = stage.click(WEI, case, "wait")
    assert (case.state, stage.world.writes) == (State.VERIFIED, ["apply:0"])


def test_what_came_back_and_was_no_answer_of_the_servers_is_not_called_nothing_done(stage: Stage) -> None:
    stage.world.fail["after_write"] = [Permanent("the answer is not JSON")]
    case = stage.approved()
    assert (case.state, stage.world.writes, [button.verb for button in case.buttons]) == (State.STUCK, ["apply:0"], ["wait", "undo", "leave"])


def test_a_refusal_after_a_try_that_did_not_arrive_leaves_everything_as_it_was(stage: Stage) -> None:
    stage.world.fail["execute_step"] = [Unreachable("no answer"), Forbidden("the token has expired")]
    case = stage.later(stage.approved(), seconds=5)
    assert (case.state, stage.world.writes, [button.verb for button in case.buttons]) == (State.DIAGNOSED, [], ["apply", "retry"])


def test_where_nobody_can_look_whether_an_earlier_try_arrived_it_is_not_called_nothing_done(stage: Stage) -> None:
    stage.world.fail["execute_step"] = [Unreachable("no answer"), Forbidden("the token has expired")]
    stage.world.fail["carried_out"] = [Unreachable("no answer")] * 2
    case = stage.later(stage.approved(), seconds=5)
    assert (case.state, case.trouble and case.trouble.key) == (State.STUCK, "step_refused")


# ---------------------------------------------------------------- the rollout


@pytest.mark.parametrize("reason", ["unschedulable", "never_ready", "paused"])
def test_a_rollout_that_cannot_go_on_ends_stuck_with_the_choice(stage: Stage, reason: str) -> None:
    stage.world.rollout = Rollout(1, 1, 0, False, reason, "0/3 nodes", ("chat-new",))
    case = stage.approved()
    assert case.state is State.WATCHING  # seen once
    case = stage.later(case, seconds=6)
    assert (case.state, [button.verb for button in case.buttons]) == (State.STUCK, ["wait", "undo", "leave"])
    assert case.operation is not None
    assert case.operation.rollout == stage.world.rollout


def test_a_rollout_that_takes_too_long_ends_stuck(stage: Stage) -> None:
    stage.world.rollout = Rollout(2, 1, 1, False)
    case = stage.approved()
    case = stage.later(case, minutes=31)
    assert (case.state, case.trouble and case.trouble.key) == (State.STUCK, "took_too_long")


def test_a_rollout_is_watched_past_the_time_for_it_while_its_pods_probe_allows_the_start(stage: Stage) -> None:
    stage.world.rollout = Rollout(2, 1, 1, False, starting=True)
    case = stage.later(stage.approved(), minutes=31)
    assert case.state is State.WATCHING
    stage.world.rollout = Rollout(2, 1, 1, False)
    assert stage.later(case, seconds=6).state is State.STUCK


def test_pods_that_are_made_anew_for_ever_are_not_watched_for_ever(stage: Stage) -> None:
    stage.world.rollout = Rollout(2, 1, 1, False, starting=True)
    case = stage.later(stage.approved(), minutes=5 * 60)
    assert case.state is State.WATCHING
    assert stage.later(case, minutes=2 * 60).state is State.STUCK


def stuck(stage: Stage) -> Case:
    stage.world.rollout = Rollout(1, 1, 0, False, "unschedulable")
    return stage.later(stage.approved(), seconds=6)


def test_wait_watches_on_and_the_rollout_may_still_come_through(stage: Stage) -> None:
    case = stuck(stage)
    stage.world.rollout = DONE
    assert stage.click(LI, case, "wait").state is State.VERIFIED


def test_leave_ends_it_and_undo_is_still_offered(stage: Stage) -> None:
    case = stage.click(LI, stuck(stage), "leave")
    assert (case.state, [button.verb for button in case.buttons]) == (State.LEFT, ["undo"])


def test_undo_of_a_stuck_rollout(stage: Stage) -> None:
    case = stage.click(LI, stuck(stage), "undo")
    assert case.state is State.AWAITING_APPROVAL
    stage.world.rollout = DONE
    assert stage.click(WEI, case, "approve").state is State.UNDONE
    assert stage.world.value == 131072


def test_an_undo_that_was_rejected_leaves_the_choice_as_it_was(stage: Stage) -> None:
    case = stage.click(WEI, stage.click(LI, stuck(stage), "undo"), "reject")
    assert (case.state, [button.verb for button in case.buttons]) == (State.STUCK, ["wait", "undo", "leave"])
    assert case.operation is not None
    assert case.operation.remediation.direction == "apply"


def test_a_cluster_that_does_not_answer_while_watching_ends_stuck_with_the_reason(stage: Stage) -> None:
    stage.world.fail["observe"] = [Unreachable("no answer")] * 9
    case = stage.approved()
    for _ in range(6):
        case = stage.later(case, seconds=30)
    assert (case.state, case.trouble and case.trouble.key) == (State.STUCK, "cannot_watch")


# ---------------------------------------------------------------- verification


def test_a_new_process_that_crashes_is_diagnosed_and_undo_is_offered(stage: Stage) -> None:
    stage.world.rollout = Rollout(1, 1, 0, False, "crash_looping", "exit 1", ("chat-new",))
    stage.world.new_pod = SICK
    case = stage.later(stage.approved(), seconds=6)
    assert (case.state, [button.verb for button in case.buttons]) == (State.VERIFICATION_FAILED, ["undo", "leave"])
    assert case.operation is not None
    assert case.operation.outcome is not None
    assert case.operation.outcome.diagnosis == SICK


def test_what_cannot_be_verified_yet_is_looked_at_again_until_the_time_is_over(stage: Stage) -> None:
    stage.world.verdict = Verdict.NOT_VERIFIABLE
    case = stage.approved()
    assert case.state is State.VERIFYING
    stage.world.verdict = None
    assert stage.later(case, seconds=16).state is State.VERIFIED


def test_a_pod_that_is_not_ready_for_a_moment_is_not_called_failed(stage: Stage) -> None:
    stage.world.verdict = Verdict.NOT_VERIFIABLE
    case = stage.approved()
    stage.world.rollout, stage.world.verdict = Rollout(1, 1, 0, False, new_pods=("chat-new",)), Verdict.FAILED
    assert stage.later(case, seconds=16).state is State.VERIFYING
    stage.world.rollout, stage.world.verdict = DONE, None
    assert stage.later(case, seconds=16).state is State.VERIFIED


def test_a_pod_that_does_not_get_ready_again_is_called_failed_in_the_end(stage: Stage) -> None:
    stage.world.verdict = Verdict.NOT_VERIFIABLE
    case = stage.approved()
    stage.world.rollout, stage.world.verdict = Rollout(1, 1, 0, False, new_pods=("chat-new",)), Verdict.FAILED
    assert stage.later(case, minutes=16).state is State.VERIFICATION_FAILED


def test_what_could_not_be_verified_in_time_is_said(stage: Stage) -> None:
    stage.world.verdict = Verdict.NOT_VERIFIABLE
    case = stage.later(stage.approved(), minutes=16)
    assert (case.state, [button.verb for button in case.buttons]) == (State.NOT_VERIFIABLE, ["undo", "leave"])


def test_an_undo_of_what_somebody_changed_since_is_not_planned(stage: Stage) -> None:
    case = stage.approved()
    stage.world.fail["plan_undo"] = [_Changed()]
    case = stage.click(JO, case, "undo")
    assert (case.state, case.trouble and case.trouble.key) == (State.VERIFIED, "changed_since")
    assert case.differences == _Changed().differences


class _Changed(Conflict):
    def __init__(self) -> None:
        from bot.model import Difference

        super().__init__("/value was changed by kubectl after the preview")
        self.differences = (Difference("/value", 57344, 1, "kubectl"),)


def test_the_new_process_is_what_is_examined(stage: Stage) -> None:
    stage.world.new_pod = FINE
    operation = stage.approved().operation
    assert operation is not None
    assert operation.outcome is not None
    assert operation.outcome.diagnosis == FINE


# ---------------------------------------------------------------- two workers


def beside(stage: Stage, case: Case, call: str, nth: int) -> None:
    """Another worker has the same job (a lease expired though its worker lived), and runs it whole at the nth such call of the first."""
    seen = [0]

    def other(name: str) -> None:
        seen[0] += name == call
        if name == call and seen[0] == nth:
            stage.world.on_call = lambda _name: None
            stage.queue.put(Job("execute", case.id))
            stage.queue.run_due()

    stage.world.on_call = other


@pytest.mark.parametrize(("call", "nth"), [("differences", 2), ("dry_run", 3), ("execute_step", 1), ("execute_step", 2)])
def test_what_another_worker_of_the_same_plan_did_meanwhile_is_no_change_by_somebody_else(tmp_path: Path, call: str, nth: int) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=2))
    case = planned(stage)
    beside(stage, case, call, nth)
    case = stage.click(WEI, case, "approve")
    assert (case.state, case.trouble, stage.world.writes) == (State.VERIFIED, None, ["apply:0", "apply:1"])
    assert stage.events("not_carried_out") == []


def test_a_refusal_of_a_step_that_another_worker_has_sent_does_not_stop_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=2))
    case = planned(stage)
    beside(stage, case, "execute_step", 2)
    real = stage.world.on_call

    def refused(name: str) -> None:
        real(name)
        if name == "execute_step" and len(stage.world.writes) == 2:
            raise Conflict("a test does not hold")

    stage.world.on_call = refused
    assert stage.click(WEI, case, "approve").state is State.VERIFIED


def test_the_pods_that_are_there_before_the_first_write_are_not_the_new_ones(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(pods=[("a", "b"), ("b", "c")]))
    case = stage.approved()
    assert set(stage.world.left_out) == {("a", "b")}
    stage.world.left_out.clear()
    stage.click(JO, case, "undo")
    stage.click(WEI, case, "approve")
    assert set(stage.world.left_out) == {("c",)}  # b is of the template that comes back, so it stays
