"""Where the risk is high, whoever approves types the name of what is changed: into a form that is theirs alone, for one plan, once."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bot.model import State
from bot.sandbox.slack.fake import GROUPS, PEOPLE
from bot.sandbox.slack.workspace import Group, Member, View
from tests.walk.slack_stage import POLICY, SlackStage, buttons

Make = Callable[..., SlackStage]
TYPED = replace(POLICY, typed_from="medium")  # the small world's plan is of medium risk
LI = {"people": (*PEOPLE, Member("U08LI", "Li", email="li@example.com")), "groups": (Group("S01ONCALL", "gpu-oncall", (*GROUPS[0].members, "U08LI")),)}


def waiting(workspace: Make, policy: Any = TYPED, **more: Any) -> SlackStage:
    stage = workspace(policy, **LI, **more)
    stage.planned()
    return stage


def resend(stage: SlackStage, who: str, view: View, name: str = "chat") -> None:
    """The same form once more, though it is closed on every screen."""
    stage.slack.workspace.views[view.id] = replace(view, user=stage.slack.workspace.person(who).id)
    stage.submit(who, view, name=name)
    stage.slack.workspace.views.pop(view.id, None)


def test_the_form_shows_the_plan_and_the_right_name_approves_it(workspace: Make) -> None:
    stage = waiting(workspace)
    assert "Whoever approves types `chat`." in stage.last()
    assert "[Approve...] [Reject...]" in stage.last()
    view = stage.ask_back("Li", "approve_by_name")
    text = str(view.body["blocks"])
    plan = stage.case.operation.remediation  # type: ignore[union-attr]
    assert ("+ 57344" in text, plan.digest[:12] in text, "Type chat to approve" in text) == (True, True, True)
    stage.submit("Li", view, name=" chat ")
    assert (stage.case.state, stage.world.writes) == (State.VERIFIED, ["apply:0"])
    approved = next(entry["event"] for entry in stage.audit.entries() if entry["event"]["what"] == "approved")
    assert (approved["who"], approved["typed"], approved["digest"]) == ("U08LI", " chat ", plan.digest)


def test_another_name_keeps_the_form_open_and_says_which_is_meant(workspace: Make) -> None:
    stage = waiting(workspace)
    view = stage.ask_back("Li", "approve_by_name")
    for name in ("", "Chat", "chat-old", "llm/chat"):
        stage.submit("Li", view, name=name)
        assert stage.slack.views("Li")[0].errors == {"name": "Refused: whoever approves a plan of this risk types the name of what is changed: chat"}
    assert (stage.case.state, stage.world.writes) == (State.AWAITING_APPROVAL, [])
    stage.submit("Li", view, name="chat")
    assert stage.case.state is State.VERIFIED


def test_a_click_without_the_form_approves_nothing(workspace: Make) -> None:
    stage = waiting(workspace)
    message = next(each for each in stage.slack.messages("C01ONCALL") if "[Approve...]" in each.shown)
    button = next(each for each in buttons(message) if "approve_by_name" in each["action_id"])
    forged = {**button, "action_id": button["action_id"].replace("approve_by_name", "approve")}
    stage.slack.press(stage.slack.workspace.person("Li"), stage.slack.workspace.channel("C01ONCALL"), message, forged)
    stage.queue.run_due()
    assert stage.told("Li") == "Refused: whoever approves a plan of this risk types the name of what is changed: chat"
    assert (stage.case.state, stage.world.writes) == (State.AWAITING_APPROVAL, [])


def test_a_form_whose_metadata_was_changed_to_the_buttons_id_approves_nothing(workspace: Make) -> None:
    stage = waiting(workspace)
    view = stage.ask_back("Li", "approve_by_name")
    button = next(one.id for one in stage.case.buttons if one.verb == "approve")
    view.body = {**view.body, "private_metadata": f"{button} C01ONCALL "}
    stage.submit("Li", view, name="chat")
    assert stage.told("Li").startswith("Refused: whoever approves a plan of this risk types")
    assert stage.world.writes == []


def test_a_form_of_another_case_approves_that_case_or_nothing(workspace: Make) -> None:
    stage = waiting(workspace)
    first = stage.case
    view = stage.ask_back("Li", "approve_by_name")
    stage.later(seconds=1)
    stage.planned()
    assert stage.case.id != first.id
    stage.submit("Li", view, name="chat")
    states = {case.id: case.state for case in stage.store.recent(2)}
    assert (states[first.id], states[stage.case.id]) == (State.VERIFIED, State.AWAITING_APPROVAL)


def test_the_form_of_a_plan_that_was_made_anew_is_void(workspace: Make) -> None:
    stage = waiting(workspace)
    view = stage.ask_back("Li", "approve_by_name")
    stage.submit("Wei", stage.ask_back("Wei", "reject"), reason="not now")
    stage.click("Jo", "apply")
    stage.submit("Li", view, name="chat")
    assert stage.told("Li") == "Refused: this form was sent already, or belongs to another person. Press Approve again."
    assert (stage.case.state, stage.world.writes) == (State.AWAITING_APPROVAL, [])


def test_another_persons_form_is_refused_to_whoever_sends_it(workspace: Make) -> None:
    stage = waiting(workspace)
    view = stage.ask_back("Jo", "approve_by_name")  # who pressed Apply may look, too
    resend(stage, "Li", view)
    assert (stage.case.state, stage.world.writes) == (State.AWAITING_APPROVAL, [])
    stage.submit("Li", stage.ask_back("Li", "approve_by_name"), name="chat")
    assert stage.case.state is State.VERIFIED


def test_a_form_that_is_sent_twice_counts_once(workspace: Make) -> None:
    stage = waiting(workspace, replace(TYPED, approvers=(replace(POLICY.approvers[0], count=2),)))
    view = stage.ask_back("Li", "approve_by_name")
    stage.submit("Li", view, name="chat")
    resend(stage, "Li", view)
    again = replace(view, id="V0OTHER")
    resend(stage, "Li", again)
    assert stage.told("Li").startswith("Refused: this form was sent already")
    assert len(stage.case.operation.approvals) == 1  # type: ignore[union-attr]
    stage.submit("Wei", stage.ask_back("Wei", "approve_by_name"), name="chat")
    assert (stage.case.state, stage.world.writes) == (State.VERIFIED, ["apply:0"])


def test_who_asked_and_who_is_no_approver_gain_nothing_by_typing(workspace: Make) -> None:
    stage = waiting(workspace)
    for who, refusal in (("Jo", "you pressed Apply"), ("Ana", "you may not approve or reject this"), ("Gil", "guests may not use oombot")):
        stage.submit(who, stage.ask_back(who, "approve_by_name"), name="chat")
        assert refusal in stage.told(who)
    assert stage.world.writes == []


def test_a_form_of_a_plan_that_is_over_is_not_opened(workspace: Make) -> None:
    stage = waiting(workspace)
    id_ = next(one for one in stage.case.buttons if one.verb == "approve")
    stage.later(minutes=26)
    message = stage.slack.messages("C01ONCALL")[3]
    stage.slack.press(stage.slack.workspace.person("Li"), stage.slack.workspace.channel("C01ONCALL"), message, {"action_id": f"oom.press.approve_by_name.{id_.id}", "value": id_.id})
    assert "the approval expired at" in stage.until(lambda: stage.slack.ephemerals("Li"))[-1]
    assert stage.slack.views("Li") == []


def test_an_object_that_was_changed_while_the_form_was_open_voids_the_plan(workspace: Make) -> None:
    stage = waiting(workspace)
    view = stage.ask_back("Li", "approve_by_name")
    stage.world.value = 1
    stage.submit("Li", view, name="chat")
    assert stage.told("Li") == "Refused: `/value` was changed after the preview. Nothing was done."
    assert stage.world.writes == []


def test_rules_that_want_a_name_at_execution_only_stop_an_approval_without_one(workspace: Make) -> None:
    stage = waiting(workspace, POLICY)
    assert "[Approve] [Reject...]" in stage.last()
    stage.queue.register("execute", lambda job: None)
    stage.click("Wei", "approve")
    stage.policy = TYPED
    stage.boot()
    stage.queue.run_due()
    assert (stage.case.state, stage.world.writes) == (State.DIAGNOSED, [])
    assert stage.last() == "The approval by <@U03WEI> does not count any more: the name was not typed. Nothing was done."


def test_the_form_speaks_the_language_of_who_opens_it(workspace: Make) -> None:
    view = waiting(workspace).ask_back("Wei", "approve_by_name")
    assert view.body["title"]["text"] == "批准此改动"
    assert view.body["blocks"][-1]["label"]["text"] == "输入 chat 以批准"
