"""Who may approve what and when, and what each person is told who may not; the kill switch."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.model import Job, Person, State
from tests.walk.world import ANA, JO, LI, OPS, OTHER, WEI, SmallWorld, Stage, planned

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
    assert (case.trouble.key, case.trouble.parameters) == ("approval_lapsed", {"who": "UWEI", "lapsed": "not_approver"})
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


# ---------------------------------------------------------------- the kill switch


def test_the_kill_switch_stops_plans_approvals_and_execution(stage: Stage) -> None:
    case = planned(stage)
    stage.cases.freeze(ANA, True, OPS)
    assert stage.click(WEI, case, "approve").state is State.AWAITING_APPROVAL
    assert stage.chat.told(WEI) == ["frozen"]
    stage.boot()
    assert stage.cases.status(ANA, OPS).frozen == ("UANA", "2026-11-30T10:00:00+00:00")
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
    assert stage.cases.status(ANA, OPS).frozen is not None
    stage.cases.freeze(WEI, False, OPS)
    assert stage.cases.status(ANA, OPS).frozen is None


def test_a_press_that_two_workers_handle_at_once_counts_once_and_nobody_is_told(stage: Stage) -> None:
    case = planned(stage)
    button, seen = stage.button(case, "approve"), [0]

    def other_worker(name: str) -> None:
        seen[0] += name == "dry_run"
        if name == "dry_run" and seen[0] == 1:
            stage.world.on_call = lambda _name: None
            stage.queue.jobs = []
            stage.press(WEI, button, key="one")
            stage.queue.run_due()

    stage.world.on_call = other_worker
    stage.press(WEI, button, key="one")
    stage.queue.run_due()
    operation = stage.now(case).operation
    assert operation is not None
    assert (len(operation.approvals), stage.chat.whispers, stage.world.writes) == (1, [], ["apply:0"])
