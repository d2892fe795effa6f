"""The rules of the policy on the way from Apply to the first write: how many approve, when something may be changed, and how often."""

from dataclasses import replace
from datetime import datetime, time, timedelta
from pathlib import Path

import pytest

from bot.change_times import Freeze, Quota, Window
from bot.model import Case, Person, State
from bot.policy import ApproverRule, Policy
from handlers.slack import blocks
from handlers.slack.wording import say
from tests.walk.world import ANA, JO, LI, POLICY, START, WEI, Stage, planned

TWO = replace(POLICY, approvers=(ApproverRule(groups=("SONCALL",), count=2),))
MORNING = Window(start=time(9), end=time(11))  # START is ten o'clock


def refused(stage: Stage, case: Case, policy: Policy) -> Case:
    """Wei approves by a policy that was changed after the preview."""
    stage.policy = policy
    stage.boot()
    return stage.click(WEI, case, "approve")


# ---------------------------------------------------------------- how many


def test_two_of_the_group_have_to_approve(tmp_path: Path) -> None:
    stage = Stage(tmp_path, TWO)
    case = stage.click(WEI, planned(stage), "approve")
    assert (case.state, stage.world.writes) == (State.AWAITING_APPROVAL, [])
    case = stage.click(LI, case, "approve")
    assert (case.state, stage.world.writes) == (State.VERIFIED, ["apply:0"])
    assert stage.events("begins")[0]["approved_by"] == ["UWEI", "ULI"]


def test_the_thread_shows_who_has_approved_and_how_many_are_missing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, TWO)
    case = planned(stage)
    plan = f"plan:{case.operation.remediation.id}" if case.operation else ""
    assert "Needs 2 of <!subteam^SONCALL>" in str(blocks.message(stage.chat.shows(plan), plan, "en", ("SONCALL",)))
    stage.click(WEI, case, "approve")
    shown = str(blocks.message(stage.chat.shows(plan), plan, "en", ("SONCALL",)))
    assert "Approved so far by <@UWEI>: 1 of 2; 1 more needed." in shown
    assert "'Approve'" in shown
    assert "目前已批准：<@UWEI>（1/2），还需 1 人。" in str(blocks.message(stage.chat.shows(plan), plan, "zh", ("SONCALL",)))
    stage.click(LI, case, "approve")
    assert "Approved by <@UWEI>, <@ULI>" in str(blocks.message(stage.chat.shows(plan), plan, "en", ("SONCALL",)))


def test_one_person_counts_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path, TWO)
    case = stage.click(WEI, planned(stage), "approve")
    assert stage.click(WEI, case, "approve").state is State.AWAITING_APPROVAL
    assert stage.chat.told(WEI) == ["already_approved"]


def test_two_accounts_of_one_person_count_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path, TWO)
    case = stage.click(WEI, planned(stage), "approve")
    stage.people.people["ULI"] = Person("ULI", "T1", "UWEI+second@x.example")
    assert stage.click(LI, case, "approve").state is State.AWAITING_APPROVAL
    assert stage.chat.whispers[0][1].parameters == {"who": "UWEI"}
    assert stage.world.writes == []


def test_who_asked_and_who_applied_are_not_among_the_two(tmp_path: Path) -> None:
    stage = Stage(tmp_path, TWO)
    case = stage.click(WEI, planned(stage), "approve")
    stage.click(ANA, case, "approve")
    stage.click(JO, case, "approve")
    assert (stage.chat.told(ANA), stage.chat.told(JO), stage.world.writes) == (["second_person_asked"], ["second_person_applied"], [])


def test_the_first_of_two_who_leaves_the_group_before_the_first_write_stops_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, TWO)
    case = stage.click(WEI, planned(stage), "approve")
    stage.people.groups["SONCALL"] = frozenset({"ULI"})
    case = stage.click(LI, case, "approve")
    assert (case.state, case.trouble and case.trouble.key, stage.world.writes) == (State.DIAGNOSED, "approval_lapsed", [])


def test_rules_that_want_more_at_execution_than_at_the_click_stop_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    case = planned(stage)
    stage.press(WEI, stage.button(case, "approve"))
    hold = stage.queue.run_due
    stage.queue.register("execute", lambda job: None)
    hold()
    assert stage.now(case).state is State.APPROVED
    stage.policy = TWO
    stage.boot()
    stage.queue.run_due()
    case = stage.now(case)
    assert case.trouble is not None
    assert (case.state, case.trouble.key, dict(case.trouble.parameters)) == (State.DIAGNOSED, "approvals_missing", {"have": "1", "needed": "2"})
    assert stage.world.writes == []


def test_an_action_may_want_other_people_than_the_rest(tmp_path: Path) -> None:
    rules = (ApproverRule(people=("UWEI",), actions=("restart",)), ApproverRule(people=("ULI",), actions=("set_*",)))
    stage = Stage(tmp_path, replace(POLICY, approvers=rules))
    case = planned(stage)
    assert stage.click(WEI, case, "approve").state is State.AWAITING_APPROVAL
    assert stage.chat.whispers[0][1].parameters == {"who": "ULI"}
    assert stage.click(LI, case, "approve").state is State.VERIFIED


def test_where_identity_is_by_address_an_account_without_one_may_not_approve(tmp_path: Path) -> None:
    stage = Stage(tmp_path, replace(POLICY, identity="email"))
    case = planned(stage)
    stage.people.people["UWEI"] = Person("UWEI", "T1")
    assert stage.click(WEI, case, "approve").state is State.AWAITING_APPROVAL
    assert stage.chat.told(WEI) == ["no_address"]
    assert stage.click(LI, case, "approve").state is State.VERIFIED


def test_a_rejection_ends_a_plan_that_one_has_approved(tmp_path: Path) -> None:
    stage = Stage(tmp_path, TWO)
    case = stage.click(LI, stage.click(WEI, planned(stage), "approve"), "reject", reason="no")
    assert (case.state, stage.world.writes) == (State.DIAGNOSED, [])


# ---------------------------------------------------------------- when

CLOSED = replace(POLICY, windows=(Window(start=time(11), end=time(12)),))
HOLIDAY = Freeze(START - timedelta(days=1), START + timedelta(days=20), "year end")
FREEZE = replace(POLICY, freezes=(HOLIDAY,))


@pytest.mark.parametrize(
    ("policy", "key", "en", "zh"),
    [
        (CLOSED, "outside_window", "It opens <!date^1796036400^{date_short_pretty} {time}|2026-11-30 11:00 UTC>.", "不在变更窗口内"),
        (FREEZE, "dated_freeze", "(year end). Possible again from <!date^1797760800^", "变更冻结期（year end）"),
    ],
)
def test_outside_of_its_hours_a_change_is_refused_with_when_it_opens(tmp_path: Path, policy: Policy, key: str, en: str, zh: str) -> None:
    stage = Stage(tmp_path, policy)
    case = planned(stage)
    assert (case.state, stage.chat.told(JO)) == (State.DIAGNOSED, [key])
    assert case.trouble is not None
    assert en in say(case.trouble, "en")
    assert zh in say(case.trouble, "zh")


@pytest.mark.parametrize("policy", [CLOSED, FREEZE])
def test_what_was_planned_in_time_is_not_approved_after_it(tmp_path: Path, policy: Policy) -> None:
    stage = Stage(tmp_path)
    case = refused(stage, planned(stage), policy)
    assert (case.state, len(stage.chat.told(WEI)), stage.world.writes) == (State.AWAITING_APPROVAL, 1, [])


def test_a_window_that_closes_between_click_and_execution_stops_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, replace(POLICY, windows=(MORNING,)))
    case = planned(stage)
    stage.clock.time = datetime(2026, 11, 30, 10, 59, 50, tzinfo=START.tzinfo)
    operation = case.operation
    assert operation is not None
    stage.store.save(replace(case, operation=replace(operation, requested_at=stage.clock.time, expires_at=stage.clock.time + timedelta(minutes=9))))
    dry_runs = [0]

    def time_goes_by(name: str) -> None:
        dry_runs[0] += name == "dry_run"
        if name == "dry_run" and dry_runs[0] == 1:
            stage.clock.forward(seconds=20)

    stage.world.on_call = time_goes_by
    case = stage.click(WEI, case, "approve")
    assert (case.state, case.trouble and case.trouble.key, stage.world.writes) == (State.DIAGNOSED, "outside_window", [])


def test_an_undo_is_not_held_up_by_hours_unless_the_policy_says_so(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    case = stage.approved()
    stage.policy = replace(FREEZE, undo_any_time=False)
    stage.boot()
    assert stage.click(JO, case, "undo").state is State.VERIFIED
    assert stage.chat.told(JO) == ["dated_freeze"]
    stage.policy = FREEZE
    stage.boot()
    assert stage.click(JO, case, "undo").state is State.AWAITING_APPROVAL


# ---------------------------------------------------------------- how often

ONE_AN_HOUR = replace(POLICY, quotas=(Quota(1),))


def test_a_quota_that_is_used_refuses_the_next_change_and_says_when(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ONE_AN_HOUR)
    assert stage.approved().state is State.VERIFIED
    stage.clock.forward(minutes=10)
    case = planned(stage)
    assert case.trouble is not None
    assert (case.state, case.trouble.key) == (State.DIAGNOSED, "quota_used")
    assert "1 change(s) an hour are allowed in prod/llm" in say(case.trouble, "en")
    assert "2026-11-30 11:00 UTC" in say(case.trouble, "en")
    stage.clock.forward(minutes=51)
    assert stage.click(JO, case, "apply").state is State.AWAITING_APPROVAL


def test_of_two_that_were_planned_in_time_the_second_is_stopped_at_the_click(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ONE_AN_HOUR)
    first, second = planned(stage), planned(stage)
    assert stage.click(WEI, first, "approve").state is State.VERIFIED
    stage.world.value = 131072
    assert stage.click(WEI, second, "approve").state is State.AWAITING_APPROVAL
    assert stage.chat.told(WEI) == ["quota_used"]
    assert stage.world.writes == ["apply:0"]


def test_of_two_that_are_executed_at_the_same_moment_one_is_over_the_quota(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ONE_AN_HOUR)
    first, second = planned(stage), planned(stage)
    stage.press(WEI, stage.button(first, "approve"))
    stage.press(WEI, stage.button(second, "approve"))
    stage.queue.run_due()
    assert sorted([stage.now(first).state.value, stage.now(second).state.value]) == ["diagnosed", "verified"]
    assert stage.world.writes == ["apply:0"]


def test_a_restart_in_the_middle_does_not_count_twice(tmp_path: Path) -> None:
    stage = Stage(tmp_path, replace(POLICY, quotas=(Quota(1),)))
    case = planned(stage)

    def dies(name: str) -> None:
        if name == "execute_step":
            stage.world.on_call = lambda _name: None
            raise KeyboardInterrupt

    stage.world.on_call = dies
    with pytest.raises(KeyboardInterrupt):
        stage.click(WEI, case, "approve")
    stage.boot()
    stage.queue.run_due()
    assert stage.now(case).state is State.VERIFIED
    assert len(stage.store.acts(START - timedelta(hours=1))) == 1
