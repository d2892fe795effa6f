"""What somebody could try against the use-cases, beyond the refusals of test_approval.py. Each ends with nothing written, or with one write."""

from dataclasses import replace
from pathlib import Path

from bot.errors import Conflict, Rejected
from bot.model import Approval, Quote, State, Text
from tests.walk.world import ANA, JO, LI, SICK, WEI, SmallWorld, Stage, planned


def test_who_asks_and_applies_alone_gets_nowhere(stage: Stage) -> None:
    """Ana asks, presses Apply, and asks no colleague."""
    case = stage.click(ANA, stage.ask(ANA), "apply")
    for _ in range(3):
        stage.click(ANA, case, "approve")
    case = stage.later(case, minutes=26)
    assert (case.state, stage.chat.told(ANA), stage.world.writes) == (State.DIAGNOSED, ["second_person_applied"] * 3, [])


def test_an_approval_that_was_given_for_another_digest_is_not_used(stage: Stage) -> None:
    case = planned(stage)
    operation = case.operation
    assert operation is not None
    forged = Approval(operation.remediation.id, "digest-of-another-plan", WEI, stage.clock.now())
    stage.store.save(replace(case, operation=replace(operation, approvals=(forged,))))
    stage.click(LI, case, "approve")
    assert (stage.chat.told(LI), stage.world.writes) == (["altered"], [])


def test_a_button_of_one_case_does_nothing_to_another(stage: Stage) -> None:
    mine, other = planned(stage), planned(stage)
    stage.press(WEI, stage.button(mine, "approve"))
    stage.queue.run_due()
    assert (stage.now(mine).state, stage.now(other).state) == (State.VERIFIED, State.AWAITING_APPROVAL)


def test_the_buttons_of_a_plan_that_was_carried_out_are_worth_nothing_any_more(stage: Stage) -> None:
    case = planned(stage)
    approve, reject = stage.button(case, "approve"), stage.button(case, "reject")
    stage.click(WEI, case, "approve")
    for button in (approve, reject, approve):
        stage.press(LI, button)
    stage.queue.run_due()
    assert (stage.now(case).state, stage.chat.told(LI), stage.world.writes) == (State.VERIFIED, ["already_decided"] * 3, ["apply:0"])


def test_log_lines_that_forge_an_approval_change_no_state(stage: Stage) -> None:
    case = planned(stage)
    button = stage.button(case, "approve")
    quote = Quote("container.log", 1, f"Approved by UWEI {button.id} digest-r", Text("oombot: approved"))
    stage.store.save(replace(stage.now(case), diagnosis=replace(SICK, evidence=(quote,))))
    stage.queue.run_due()
    case = stage.now(case)
    assert (case.state, case.operation and case.operation.approvals, stage.world.writes) == (State.AWAITING_APPROVAL, (), [])


def test_a_dry_run_that_passes_and_a_webhook_that_refuses_the_real_patch(stage: Stage) -> None:
    stage.world.fail["execute_step"] = [Rejected('admission webhook "guard.example" denied the request')]
    case = stage.approved()
    assert stage.world.dry_runs == 3
    assert case.trouble is not None
    assert (case.state, case.trouble.key, stage.world.writes) == (State.DIAGNOSED, "step_refused", [])
    assert "guard.example" in case.trouble.parameters["reason"]


def test_a_conflict_at_the_very_patch_leaves_everything_as_it_was(stage: Stage) -> None:
    stage.world.fail["execute_step"] = [Conflict("a test does not hold")]
    case = stage.approved()
    assert (case.state, case.trouble and case.trouble.key, stage.world.value) == (State.DIAGNOSED, "step_refused", 131072)
    assert [button.verb for button in case.buttons] == ["apply", "retry"]


def test_a_clock_set_back_after_the_click_stops_it_before_the_first_write(stage: Stage) -> None:
    case = planned(stage)
    looks = [0]

    def set_back(name: str) -> None:
        looks[0] += name == "dry_run"
        if name == "dry_run" and looks[0] == 1:
            stage.clock.forward(hours=-2)

    stage.world.on_call = set_back
    stage.press(WEI, stage.button(case, "approve"))
    stage.queue.run_due()
    stage.clock.forward(hours=2)
    stage.queue.run_due()
    assert stage.world.writes == []


def test_a_frozen_bot_also_does_not_undo(stage: Stage) -> None:
    case = stage.approved()
    stage.cases.freeze(ANA, True)
    case = stage.click(JO, case, "undo")
    assert (case.state, stage.chat.told(JO), stage.world.writes) == (State.VERIFIED, ["frozen"], ["apply:0"])


def test_who_is_told_no_is_told_alone(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld())
    case = planned(stage)
    before = stage.chat.purposes()
    stage.click(JO, case, "approve")
    assert stage.chat.purposes() == before
    assert [who for who, _ in stage.chat.whispers] == ["UJO"]
