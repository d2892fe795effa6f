"""From Apply to verified and undone, and what each person on the way is told who may not."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.errors import Conflict, Forbidden, Rejected, Unreachable
from bot.model import Case, Conversation, Handout, Job, Person, Rollout, State, Text, Verdict
from tests.walk.world import ANA, DONE, FINE, JO, LI, OPS, OTHER, POLICY, SICK, WEI, SmallWorld, Stage, states


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def planned(stage: Stage) -> Case:
    return stage.click(JO, stage.ask(), "apply")


# ---------------------------------------------------------------- the whole round


def test_apply_approve_verify_undo(stage: Stage) -> None:
    case = stage.approved()
    assert case.state is State.VERIFIED
    assert (stage.world.value, stage.world.writes) == (57344, ["apply:0"])
    case = stage.click(JO, case, "undo")
    assert case.state is State.AWAITING_APPROVAL
    case = stage.click(WEI, case, "approve")
    assert case.state is State.UNDONE
    assert (stage.world.value, stage.world.writes) == (131072, ["apply:0", "undo:0"])
    way = [State.PLANNING, State.AWAITING_APPROVAL, State.APPROVED, State.EXECUTING, State.WATCHING, State.VERIFYING]
    assert states(case) == [State.RECEIVED, State.CHECKING, State.DIAGNOSED, *way, State.VERIFIED, *way, State.UNDONE]
    assert stage.audit.verify() == []


def test_the_thread_of_a_whole_round_has_each_message_once(stage: Stage) -> None:
    case = stage.click(WEI, stage.click(JO, stage.approved(), "undo"), "approve")
    first, second = case.operations[0], case.operation
    assert second is not None
    assert stage.chat.purposes() == [
        "top", "evidence", "recommendation", f"plan:{first.remediation.id}", f"outcome:{first.id}", f"plan:{second.remediation.id}", f"outcome:{second.id}",
    ]  # fmt: skip
    assert stage.chat.shows(f"outcome:{second.id}").state is State.UNDONE


def test_the_audit_trail_tells_who_asked_who_approved_and_what_was_sent(stage: Stage) -> None:
    stage.approved()
    assert [entry["event"]["what"] for entry in stage.audit.entries()] == [
        "asked", "diagnosed", "wanted", "planned", "approved", "begins", "sends", "sent", "outcome",
    ]  # fmt: skip
    planned_, approved, begins = (stage.events(what)[0] for what in ("planned", "approved", "begins"))
    assert stage.events("asked")[0]["who"] == "slack:UANA"
    assert (planned_["who"], approved["who"], begins["approved_by"]) == ("UJO", "UWEI", ["UWEI"])
    assert planned_["digest"] == approved["digest"] == begins["digest"]
    assert planned_["diff"] == "- 131072\n+ 57344\n"


def test_the_head_of_the_audit_trail_is_posted_with_the_outcome(stage: Stage) -> None:
    operation = stage.approved().operation
    assert operation is not None
    entry = next(entry for entry in stage.audit.entries() if entry["event"]["what"] == "outcome")
    assert operation.audit_head == f"{entry['n']}:{entry['mac']}"
    assert stage.chat.shows(f"outcome:{operation.id}").operation == operation


def test_steps_that_wait_for_the_rollout_are_sent_after_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=2, after_rollout=1, rollout=Rollout(1, 0, 0, False)))
    case = stage.approved()
    assert (case.state, stage.world.writes) == (State.WATCHING, ["apply:0"])
    stage.world.rollout = DONE
    case = stage.later(case, seconds=6)
    assert (case.state, stage.world.writes) == (State.VERIFIED, ["apply:0", "apply:1"])
    assert states(case)[-6:] == [State.EXECUTING, State.WATCHING, State.EXECUTING, State.WATCHING, State.VERIFYING, State.VERIFIED]


# ---------------------------------------------------------------- planning


def test_what_the_bot_does_not_do_is_handed_out(tmp_path: Path) -> None:
    handout = Handout("max_model_len:lower", Text("it stands in a shell string"), "--max-model-len 57344", "text")
    stage = Stage(tmp_path, world=SmallWorld(handout=handout))
    case = planned(stage)
    assert (case.state, case.handout) == (State.DIAGNOSED, handout)
    assert stage.chat.shows("note:1").handout == handout
    assert [button.verb for button in case.buttons] == ["apply", "retry"]


@pytest.mark.parametrize(
    ("policy", "key"),
    [
        (replace(POLICY, actions=()), "read_only"),
        (replace(POLICY, actions=("restart",)), "action_not_enabled"),
        (replace(POLICY, protected_namespaces=("llm",)), "protected_namespace"),
        (replace(POLICY, namespaces=("other",)), "namespace_not_changeable"),
        (replace(POLICY, highest_risk="low"), "risk_too_high"),
        (replace(POLICY, approvers=()), "no_approvers"),
    ],
)
def test_a_change_that_policy_forbids_is_refused_and_handed_out_as_a_diff(tmp_path: Path, policy: object, key: str) -> None:
    stage = Stage(tmp_path, policy)  # type: ignore[arg-type]
    case = planned(stage)
    assert case.state is State.DIAGNOSED
    assert case.trouble is not None
    assert case.trouble.key == key
    assert stage.chat.told(JO) == [key]
    assert case.handout is not None
    assert case.handout.paste == "- 131072\n+ 57344\n"
    assert stage.world.dry_runs == 0


def test_a_cluster_without_writing_credentials_is_said(tmp_path: Path) -> None:
    stage = Stage(tmp_path, writers={})
    case = planned(stage)
    assert (case.state, stage.chat.told(JO)) == (State.DIAGNOSED, ["no_writer"])


def test_apply_outside_the_channels_for_it_is_refused(stage: Stage) -> None:
    case = stage.ask()
    assert stage.click(JO, case, "apply", OTHER).state is State.DIAGNOSED
    assert stage.click(JO, case, "apply", Conversation("D1")).state is State.DIAGNOSED
    assert stage.chat.told(JO) == ["wrong_channel", "wrong_channel"]


@pytest.mark.parametrize("error", [Rejected("quota exceeded"), Forbidden("may not patch")])
def test_a_plan_whose_dry_run_is_refused_is_not_offered(stage: Stage, error: Exception) -> None:
    stage.world.fail["dry_run"] = [error]
    case = planned(stage)
    assert case.state is State.DIAGNOSED
    assert case.trouble is not None
    assert (case.trouble.key, case.trouble.parameters["reason"]) == ("dry_run_refused", str(error))


def test_a_cluster_that_does_not_answer_while_planning_is_said_in_the_end(stage: Stage) -> None:
    stage.world.fail["plan"] = [Unreachable("prod does not answer")] * 5
    case = planned(stage)
    for _ in range(5):
        case = stage.later(case, seconds=30)
    assert case.state is State.DIAGNOSED
    assert case.trouble is not None
    assert case.trouble.key == "temporarily_not"


# ---------------------------------------------------------------- who may approve


@pytest.mark.parametrize(("actor", "key"), [(ANA, "second_person_asked"), (JO, "second_person_applied")])
def test_who_asked_and_who_pressed_apply_may_not_approve(stage: Stage, actor: object, key: str) -> None:
    case = planned(stage)
    assert stage.click(actor, case, "approve").state is State.AWAITING_APPROVAL  # type: ignore[arg-type]
    assert stage.chat.told(actor) == [key]  # type: ignore[arg-type]
    assert stage.world.writes == []


def test_who_is_not_in_the_group_may_not_approve(stage: Stage) -> None:
    stage.people.groups["SONCALL"] = frozenset({"ULI"})
    assert stage.click(WEI, planned(stage), "approve").state is State.AWAITING_APPROVAL
    assert stage.chat.told(WEI) == ["not_approver"]


def test_an_approver_who_left_the_group_in_the_last_minute_may_not(stage: Stage) -> None:
    case = planned(stage)
    stage.press(WEI, stage.button(case, "approve"))
    stage.people.groups["SONCALL"] = frozenset()
    stage.queue.run_due()
    assert stage.now(case).state is State.AWAITING_APPROVAL
    assert stage.chat.told(WEI) == ["not_approver"]


def test_an_approver_who_left_the_group_before_the_first_write_stops_it(stage: Stage) -> None:
    case = planned(stage)
    leaves = [lambda: None, lambda: stage.people.groups.update(SONCALL=frozenset())]
    stage.world.on_call = lambda name: leaves.pop(0)() if name == "dry_run" and leaves and case else None
    leaves.pop(0)
    case = stage.click(WEI, case, "approve")
    assert case.state is State.DIAGNOSED
    assert case.trouble is not None
    assert case.trouble.key == "not_approver"
    assert stage.world.writes == []


@pytest.mark.parametrize(("field", "key"), [("is_guest", "guest"), ("is_bot", "bot_account"), ("is_stranger", "stranger"), ("is_deleted", "deleted_account")])
def test_whoever_is_no_colleague_may_press_nothing(stage: Stage, field: str, key: str) -> None:
    case = planned(stage)
    stage.people.people["UWEI"] = Person("UWEI", **{field: True})
    stage.click(WEI, case, "approve")
    assert stage.chat.told(WEI) == [key]
    assert stage.now(case).state is State.AWAITING_APPROVAL


def test_a_platform_that_does_not_say_who_is_in_the_group_means_no(stage: Stage) -> None:
    case = planned(stage)
    stage.press(WEI, stage.button(case, "approve"))
    stage.people.down = True
    for _ in range(6):
        stage.later(case, seconds=30)
    assert stage.now(case).state is State.AWAITING_APPROVAL
    assert stage.chat.told(WEI) == ["temporarily_not"]


def test_the_requester_with_a_second_account_may_not_approve(stage: Stage) -> None:
    stage.people.people["ULI"] = Person("ULI", "T1", "uana@x.example")
    assert stage.click(LI, planned(stage), "approve").state is State.AWAITING_APPROVAL
    assert stage.chat.told(LI) == ["second_person_asked"]


# ---------------------------------------------------------------- when, and on what


def test_second_click_is_told_who_was_first(stage: Stage) -> None:
    case = planned(stage)
    button = stage.button(case, "approve")
    stage.press(WEI, button)
    stage.press(LI, button)
    stage.queue.run_due()
    assert stage.now(case).state is State.VERIFIED
    assert stage.chat.told(WEI) == []
    (_, words), = stage.chat.whispers
    assert (words.key, words.parameters["who"], words.parameters["what"]) == ("already_decided", "UWEI", "approve")
    assert stage.world.writes == ["apply:0"]


def test_a_press_that_is_delivered_twice_has_its_effect_once_and_nobody_is_told(stage: Stage) -> None:
    case = planned(stage)
    button = stage.button(case, "approve")
    stage.press(WEI, button, key="same")
    stage.queue.run_due()
    stage.press(WEI, button, key="same")
    stage.queue.run_due()
    assert stage.now(case).state is State.VERIFIED
    assert stage.chat.whispers == []
    assert stage.world.writes == ["apply:0"]


def test_an_approval_that_nobody_gave_expires(stage: Stage) -> None:
    case = planned(stage)
    button = stage.button(case, "approve")
    case = stage.later(case, minutes=26)
    assert case.state is State.DIAGNOSED
    assert case.operations[-1].ended is not None
    assert case.operations[-1].ended.key == "expired"
    stage.press(WEI, button)
    stage.queue.run_due()
    assert stage.chat.told(WEI) == ["expired"]
    assert stage.world.writes == []


def test_a_click_after_expiry_is_refused_also_when_the_expiry_job_has_not_run(stage: Stage) -> None:
    case = planned(stage)
    stage.queue.jobs = [one for one in stage.queue.jobs if one[2].name != "expire"]
    stage.clock.forward(minutes=26)
    stage.click(WEI, case, "approve")
    assert stage.chat.told(WEI) == ["expired"]


def test_a_clock_set_back_does_not_lengthen_an_approval(stage: Stage) -> None:
    case = planned(stage)
    stage.clock.time -= timedelta(hours=1)
    stage.press(WEI, stage.button(case, "approve"))
    stage.clock.time += timedelta(0)
    stage.queue.run_due()
    assert stage.chat.told(WEI) == ["clock_moved"]


def test_an_object_that_was_changed_meanwhile_voids_the_plan_and_shows_by_whom(stage: Stage) -> None:
    case = planned(stage)
    stage.world.value, stage.world.changed_by = 4096, "argocd-application-controller"
    case = stage.click(WEI, case, "approve")
    assert case.state is State.DIAGNOSED
    assert [(one.path, one.before, one.now, one.who) for one in case.differences] == [("/value", 131072, 4096, "argocd-application-controller")]
    assert stage.chat.told(WEI) == ["changed"]
    assert stage.chat.shows("note:1").differences == case.differences
    assert stage.world.writes == []
    case = stage.click(LI, case, "preview_again")
    assert case.state is State.AWAITING_APPROVAL
    assert case.operation is not None
    assert case.operation.requested_by == LI
    assert stage.click(WEI, case, "approve").state is State.VERIFIED


def test_an_object_that_is_changed_between_approval_and_execution_is_left_alone(stage: Stage) -> None:
    case = planned(stage)
    looks = [0]

    def somebody(name: str) -> None:
        looks[0] += name == "differences"
        if looks[0] == 2:
            stage.world.value = 4096

    stage.world.on_call = somebody
    case = stage.click(WEI, case, "approve")
    assert (case.state, case.trouble and case.trouble.key, stage.world.writes) == (State.DIAGNOSED, "changed", [])
    assert stage.world.value == 4096


def test_an_approval_of_one_plan_does_not_approve_another(stage: Stage) -> None:
    case = planned(stage)
    old = stage.button(case, "approve")
    stage.click(JO, case, "reject", reason="wrong size")
    case = stage.click(JO, case, "apply")
    stage.press(WEI, old)
    stage.queue.run_due()
    assert stage.now(case).state is State.AWAITING_APPROVAL
    assert len(stage.chat.told(WEI)) == 1
    assert stage.world.writes == []


def test_a_kept_plan_that_is_not_the_one_that_was_shown_is_not_carried_out(stage: Stage) -> None:
    case = planned(stage)
    operation = case.operation
    assert operation is not None
    step = replace(operation.remediation.steps[0], patch=({"op": "replace", "path": "/value", "value": 666},))
    stage.store.save(replace(case, operation=replace(operation, remediation=replace(operation.remediation, steps=(step,)))))
    stage.click(WEI, case, "approve")
    assert stage.chat.told(WEI) == ["altered"]
    assert stage.world.writes == []


def test_a_guessed_button_is_not_known(stage: Stage) -> None:
    case = planned(stage)
    stage.press(WEI, replace(stage.button(case, "approve"), id="b-000000000000000000000000"))
    stage.queue.run_due()
    assert stage.chat.told(WEI) == ["no_button"]
    assert stage.now(case).state is State.AWAITING_APPROVAL


def test_a_click_in_another_channel_is_refused(stage: Stage) -> None:
    stage.click(WEI, planned(stage), "approve", OTHER)
    assert stage.chat.told(WEI) == ["wrong_channel"]


def test_reject_ends_the_plan_with_the_reason(stage: Stage) -> None:
    case = stage.click(WEI, planned(stage), "reject", reason="not today")
    assert case.state is State.DIAGNOSED
    assert case.operations[-1].ended is not None
    assert dict(case.operations[-1].ended.parameters) == {"who": "UWEI", "reason": "not today"}


def test_who_asked_for_the_plan_may_take_it_back_and_a_bystander_may_not_reject(stage: Stage) -> None:
    stage.people.groups["SONCALL"] = frozenset({"ULI"})
    case = planned(stage)
    assert stage.click(WEI, case, "reject").state is State.AWAITING_APPROVAL
    assert stage.chat.told(WEI) == ["not_approver"]
    assert stage.click(JO, case, "reject").state is State.DIAGNOSED


# ---------------------------------------------------------------- the kill switch


def test_the_kill_switch_stops_plans_approvals_and_execution(stage: Stage) -> None:
    case = planned(stage)
    stage.cases.freeze(ANA, True, OPS)
    assert stage.click(WEI, case, "approve").state is State.AWAITING_APPROVAL
    assert stage.chat.told(WEI) == ["frozen"]
    stage.boot()
    assert stage.cases.status().frozen == ("UANA", "2026-11-30T10:00:00+00:00")
    stage.cases.freeze(WEI, False, OPS)
    assert stage.click(WEI, case, "approve").state is State.VERIFIED


def test_writing_that_is_frozen_between_two_steps_stops_half_way_and_asks(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=2))
    case = planned(stage)
    stage.world.on_call = lambda name: stage.cases.freeze(ANA, True, OPS) if name == "after_write" else None
    case = stage.click(WEI, case, "approve")
    assert (case.state, case.trouble and case.trouble.key, stage.world.writes) == (State.STUCK, "frozen", ["apply:0"])


def test_only_an_approver_lets_writing_go_on(stage: Stage) -> None:
    stage.people.groups["SONCALL"] = frozenset({"UWEI"})
    stage.cases.freeze(ANA, True, OPS)
    with pytest.raises(Exception, match="not_unfreezer"):
        stage.cases.freeze(ANA, False, OPS)
    assert stage.cases.status().frozen is not None
    stage.cases.freeze(WEI, False, OPS)
    assert stage.cases.status().frozen is None


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
    assert (case.state, case.trouble and case.trouble.key) == (State.VERIFIED, "changed")
    assert case.differences == _Changed().differences


class _Changed(Conflict):
    def __init__(self) -> None:
        from bot.model import Difference

        super().__init__("/value was changed by kubectl after the preview")
        self.differences = (Difference("/value", 57344, 1, "kubectl"),)


# ---------------------------------------------------------------- time, and the end of a process


def test_a_case_that_nobody_touches_closes_when_undo_is_over(stage: Stage) -> None:
    case = stage.approved()
    case = stage.later(case, hours=23)
    assert case.state is State.VERIFIED
    case = stage.later(case, hours=2)
    assert (case.state, case.buttons) == (State.CLOSED, ())
    assert stage.cases.status().open == ()


STEPS = ["locate", "collect", "plan", "dry_run", "differences", "execute_step", "after_write", "observe"]


@pytest.mark.parametrize("direction", ["apply", "undo"])
@pytest.mark.parametrize("where", STEPS)
@pytest.mark.parametrize("which", [1, 2])
def test_a_process_killed_anywhere_goes_on_at_the_next_start_and_does_nothing_twice(tmp_path: Path, where: str, which: int, direction: str) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=2))
    case = stage.ask()
    if direction == "undo":
        stage.click(JO, case, "apply")
        case = stage.click(WEI, case, "approve")
    writes = len(stage.world.writes)
    calls, kills = [0], [0]

    def kill(name: str) -> None:
        calls[0] += name == {"plan": "plan_undo"}.get(where, where) if direction == "undo" else name == where
        if calls[0] == which and not kills[0]:
            kills[0] = 1
            raise KeyboardInterrupt

    stage.world.on_call = kill
    drive(stage, case, {"apply": "apply", "undo": "undo"}[direction])
    case = stage.now(case)
    assert case.state is {"apply": State.VERIFIED, "undo": State.UNDONE}[direction]
    assert stage.world.writes[writes:] == [f"{direction}:0", f"{direction}:1"]
    assert len(set(stage.chat.purposes())) == len(stage.chat.purposes())
    assert stage.audit.verify() == []


def drive(stage: Stage, case: Case, verb: str) -> None:
    """People go on pressing what they want until it is done; each kill is followed by a start."""

    def alive(act: Callable[[], object]) -> None:
        try:
            act()
        except KeyboardInterrupt:
            stage.boot()
            stage.queue.run_due()

    for actor, wanted in ((JO, verb), (WEI, "approve"), (WEI, "approve")):
        if any(button.verb == wanted for button in stage.now(case).buttons):
            alive(lambda actor=actor, wanted=wanted: stage.click(actor, case, wanted))
    for _ in range(3):
        alive(lambda: stage.later(case, seconds=16))


def test_the_new_process_is_what_is_examined(stage: Stage) -> None:
    stage.world.new_pod = FINE
    operation = stage.approved().operation
    assert operation is not None
    assert operation.outcome is not None
    assert operation.outcome.diagnosis == FINE


def test_of_two_who_approve_at_the_same_moment_one_wins_and_the_other_is_told(stage: Stage) -> None:
    case = planned(stage)
    mine = stage.button(case, "approve")
    faster = [True]

    def somebody_is_faster(name: str) -> None:
        if name == "dry_run" and faster.pop() if faster else False:
            stage.press(LI, mine)
            stage.queue.run_due()

    stage.world.on_call = somebody_is_faster
    stage.press(WEI, mine)
    stage.queue.run_due()
    operation = stage.now(case).operation
    assert operation is not None
    assert [approval.actor.id for approval in operation.approvals] == ["ULI"]
    assert (stage.chat.told(WEI), stage.chat.told(LI)) == (["already_decided"], [])
    assert stage.world.writes == ["apply:0"]


def test_an_expiry_job_that_runs_too_early_ends_nothing(stage: Stage) -> None:
    case = planned(stage)
    stage.queue.put(Job("expire", case.id))
    assert stage.later(case, minutes=1).state is State.AWAITING_APPROVAL
    assert stage.queue.names().count("expire") == 1
    assert stage.later(case, minutes=25).state is State.DIAGNOSED
