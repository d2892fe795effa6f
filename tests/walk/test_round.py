"""From Apply to verified and undone: the whole round, its thread, its trail, and the plan."""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.errors import Forbidden, NotFound, Rejected, Unreachable
from bot.model import Conversation, Handout, Person, Rollout, State, Text
from bot.policy import Policy
from tests.walk.world import DONE, JO, LI, OPS, OTHER, POLICY, WEI, SmallWorld, Stage, planned, states

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
    shown = stage.chat.shows(f"outcome:{operation.id}").operation
    assert shown is not None
    assert shown.audit_head == operation.audit_head


def test_steps_that_wait_for_the_rollout_are_sent_after_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=2, after_rollout=1, rollout=Rollout(1, 0, 0, False)))
    case = stage.approved()
    assert (case.state, stage.world.writes) == (State.WATCHING, ["apply:0"])
    stage.world.rollout = DONE
    case = stage.later(case, seconds=6)
    assert (case.state, stage.world.writes) == (State.VERIFIED, ["apply:0", "apply:1"])
    assert states(case)[-6:] == [State.EXECUTING, State.WATCHING, State.EXECUTING, State.WATCHING, State.VERIFYING, State.VERIFIED]


# ---------------------------------------------------------------- planning


def test_what_the_bot_only_shows_has_show_how_and_posts_it_at_once(tmp_path: Path) -> None:
    handout = Handout("max_model_len:lower", Text("it stands in a shell string"), "--max-model-len 57344", "text")
    stage = Stage(tmp_path, world=SmallWorld(handout=handout))
    case = stage.ask()
    assert [button.verb for button in case.buttons] == ["show", "retry"]
    case = stage.click(LI, case, "show")
    assert (case.state, case.handout, case.trouble) == (State.DIAGNOSED, handout, None)
    assert stage.chat.shows("note:1").handout == handout
    assert [button.verb for button in case.buttons] == ["show", "retry"]
    assert State.PLANNING not in states(case)


def test_what_turns_out_to_be_only_shown_after_apply_is_handed_out(stage: Stage) -> None:
    case = stage.ask()
    stage.world.handout = Handout("max_model_len:lower", Text("Argo CD keeps it"), "--max-model-len 57344", "text")
    case = stage.click(JO, case, "apply")
    assert (case.state, case.handout) == (State.DIAGNOSED, stage.world.handout)


def test_what_cannot_be_foreseen_is_offered_and_apply_says_why_not(stage: Stage) -> None:
    stage.world.fail["foresee"] = [Unreachable("no answer")]
    assert [button.verb for button in stage.ask().buttons] == ["apply", "retry"]


def test_show_how_that_cannot_be_made_is_told_to_who_pressed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(handout=Handout("max_model_len:lower", Text("x"), "x")))
    case = stage.ask()
    stage.world.fail["foresee"] = [NotFound("Deployment llm/chat is gone")]
    assert stage.click(LI, case, "show").handout is None
    assert stage.chat.told(LI) == ["plan_refused"]


def test_show_how_is_for_whoever_may_look_and_for_nobody_else(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(handout=Handout("max_model_len:lower", Text("x"), "x")))
    case = stage.ask()
    stage.people.people["ULI"] = Person("ULI", is_guest=True)
    assert stage.click(LI, case, "show").handout is None
    assert stage.click(WEI, case, "show", OTHER).handout is None
    assert (stage.chat.told(LI), stage.chat.told(WEI)) == (["guest"], ["wrong_channel"])


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
def test_a_change_that_policy_forbids_is_only_shown_with_the_reason(tmp_path: Path, policy: Policy, key: str) -> None:
    stage = Stage(tmp_path, policy)
    case = stage.click(JO, stage.ask(), "show")
    assert (case.state, case.trouble and case.trouble.key) == (State.DIAGNOSED, key)
    assert case.handout is not None
    assert case.handout.paste == "- 131072\n+ 57344\n"
    assert stage.world.dry_runs == 0


def test_a_change_that_policy_forbids_since_the_check_is_refused_and_handed_out_as_a_diff(stage: Stage) -> None:
    case = stage.ask()
    stage.policy = replace(POLICY, actions=("restart",))
    stage.boot()
    case = stage.click(JO, case, "apply")
    assert (case.state, case.trouble and case.trouble.key, stage.chat.told(JO)) == (State.DIAGNOSED, "action_not_enabled", ["action_not_enabled"])
    assert case.handout is not None
    assert case.handout.paste == "- 131072\n+ 57344\n"


def test_a_cluster_without_writing_credentials_is_said(tmp_path: Path) -> None:
    stage = Stage(tmp_path, writers={})
    case = stage.click(JO, stage.ask(), "show")
    assert (case.state, case.trouble and case.trouble.key) == (State.DIAGNOSED, "no_writer")


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


# ---------------------------------------------------------------- time


def test_a_case_that_nobody_touches_closes_when_undo_is_over(stage: Stage) -> None:
    case = stage.approved()
    stage.later(case, minutes=31)  # what is watched is touched
    case = stage.later(case, hours=23)
    assert case.state is State.VERIFIED
    case = stage.later(case, hours=2)
    assert (case.state, case.buttons) == (State.CLOSED, ())
    assert stage.cases.status(JO, OPS).open == ()


def test_a_slow_cluster_does_not_hold_up_the_answer_for_the_words_on_a_button(tmp_path: Path) -> None:
    handout = Handout("max_model_len:lower", Text("x"), "x")
    stage = Stage(tmp_path, world=SmallWorld(handout=handout, recommendations=3))
    stage.world.on_call = lambda name: stage.clock.forward(seconds=6) if name == "foresee" else None
    assert [button.verb for button in stage.ask().buttons] == ["show", "show", "apply", "retry"]
