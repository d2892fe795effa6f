"""The rules as people meet them in Slack, on whole journeys: two approvers, windows, dated freezes, quotas, a rejection with its reason."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, time
from typing import Any

import pytest

from bot.change_times import Freeze, Quota, Window
from bot.model import State
from bot.sandbox.slack.fake import PEOPLE
from bot.sandbox.slack.workspace import Group, Member
from tests.walk.slack_stage import POLICY, SlackStage

Make = Callable[..., SlackStage]
LI = {"people": (*PEOPLE, Member("U08LI", "Li", email="li@example.com")), "groups": (Group("S01ONCALL", "gpu-oncall", ("U02JO", "U03WEI", "U08LI")),)}
TWO = replace(POLICY, approvers=(replace(POLICY.approvers[0], count=2),))
MORNING = replace(POLICY, windows=(Window(start=time(9), end=time(11)),))  # the stage begins at ten o'clock
NOON = "<!date^1796112000^{date_short_pretty} {time}|2026-12-01 08:00 UTC>"


def asked(workspace: Make, policy: Any = POLICY, **more: Any) -> SlackStage:
    stage = workspace(policy, **LI, **more)
    stage.typed("Ana", "check llm/chat-old")
    return stage


def plan_of(stage: SlackStage) -> str:
    return next(each for each in reversed(stage.thread()) if each.startswith("*Preview"))


# ---------------------------------------------------------------- two people


def test_two_approve_and_each_step_of_it_is_read_in_the_thread(workspace: Make) -> None:
    stage = asked(workspace, TWO)
    stage.click("Jo", "apply")
    assert "Needs 2 of <!subteam^S01ONCALL>, not <@U02JO>, <@U01ANA>." in plan_of(stage)
    stage.click("Li", "approve")
    assert "Approved so far by <@U08LI>: 1 of 2; 1 more needed." in plan_of(stage)
    assert "[Approve] [Reject...]" in plan_of(stage)
    assert "State: waiting for approval until" in stage.top()
    stage.click("Li", "approve")
    assert stage.told("Li") == "Your approval is counted already (as <@U08LI>). It takes another person."
    assert (stage.case.state, stage.world.writes) == (State.AWAITING_APPROVAL, [])
    stage.click("Wei", "approve")
    assert "Approved by <@U08LI>, <@U03WEI> at" in plan_of(stage)
    assert (stage.case.state, stage.world.writes) == (State.VERIFIED, ["apply:0"])


def test_one_of_two_approvals_expires_with_the_plan(workspace: Make) -> None:
    stage = asked(workspace, TWO)
    stage.click("Jo", "apply")
    stage.click("Li", "approve")
    stage.later(minutes=26)
    assert "*Not carried out.* Too late: the approval expired at" in plan_of(stage)
    stage.click("Jo", "apply")
    stage.click("Wei", "approve")
    assert "Approved so far by <@U03WEI>: 1 of 2" in plan_of(stage)
    assert stage.world.writes == []


def test_of_two_who_were_needed_one_may_reject_what_the_other_approved(workspace: Make) -> None:
    stage = asked(workspace, TWO)
    stage.click("Jo", "apply")
    stage.click("Li", "approve")
    stage.submit("Wei", stage.ask_back("Wei", "reject"), reason="wait for the release")
    assert "*Not carried out.* Rejected by <@U03WEI>: wait for the release" in plan_of(stage)
    assert (stage.case.state, stage.world.writes) == (State.DIAGNOSED, [])


# ---------------------------------------------------------------- windows, freezes, quotas


def test_outside_of_the_window_the_patch_is_shown_with_when_it_opens(workspace: Make) -> None:
    stage = asked(workspace, MORNING)
    stage.later(hours=2)
    stage.click("Jo", "apply")
    said = "Refused: outside of the change window. It opens <!date^1796115600^{date_short_pretty} {time}|2026-12-01 09:00 UTC>."
    assert stage.told("Jo") == said
    assert stage.last().splitlines()[0] == said
    assert "- 131072" in stage.last()
    assert stage.case.state is State.DIAGNOSED
    stage.later(hours=21)
    stage.click("Jo", "apply")
    stage.click("Wei", "approve")
    assert stage.case.state is State.VERIFIED


def test_a_window_that_closes_while_the_plan_waits_keeps_it_waiting_and_says_so(workspace: Make) -> None:
    stage = asked(workspace, MORNING)
    stage.later(minutes=50)
    stage.click("Jo", "apply")
    stage.later(minutes=12)
    stage.click("Li", "approve")
    assert stage.told("Li").startswith("Refused: outside of the change window. It opens <!date^1796115600^")
    assert (stage.case.state, stage.world.writes) == (State.AWAITING_APPROVAL, [])


def test_a_window_that_closes_between_the_click_and_the_first_write_is_told_in_the_thread(workspace: Make) -> None:
    stage = asked(workspace, MORNING)
    stage.later(minutes=59)
    stage.click("Jo", "apply")
    stage.world.on_call = lambda name: stage.clock.forward(minutes=2) if name == "dry_run" else None
    stage.click("Li", "approve")
    assert "*Not carried out.* Outside of the change window. It opens" in plan_of(stage)
    assert (stage.case.state, stage.world.writes) == (State.DIAGNOSED, [])


def test_undo_is_possible_outside_of_the_window(workspace: Make) -> None:
    stage = asked(workspace, MORNING)
    stage.click("Jo", "apply")
    stage.click("Li", "approve")
    stage.later(hours=3)
    stage.click("Jo", "undo")
    stage.click("Li", "approve")
    assert stage.case.state is State.UNDONE


def test_a_dated_freeze_says_why_and_until_when(workspace: Make) -> None:
    freeze = Freeze(datetime(2026, 11, 30, tzinfo=UTC), datetime(2026, 12, 1, 8, tzinfo=UTC), "release week")
    stage = asked(workspace, replace(POLICY, freezes=(freeze,)))
    stage.click("Jo", "apply")
    assert stage.told("Jo") == f"Refused: changes are frozen by the calendar (release week). Possible again from {NOON}."


@pytest.mark.parametrize(("policy", "wait"), [(replace(POLICY, quotas=(Quota(1),)), 61)])
def test_a_used_quota_says_when_the_next_change_is_possible_and_then_it_is(workspace: Make, policy: Any, wait: int) -> None:
    stage = asked(workspace, policy)
    stage.click("Jo", "apply")
    stage.click("Li", "approve")
    stage.click("Jo", "undo")  # held up by no quota
    stage.click("Li", "approve")
    assert stage.case.state is State.UNDONE
    stage.later(minutes=5)
    stage.typed("Ana", "check llm/chat-old")
    stage.click("Jo", "apply")
    assert stage.told("Jo").startswith("Refused: 1 change(s) an hour are allowed in prod/llm, and as many were begun within the last hour. The next is possible from")
    stage.later(minutes=wait)
    stage.click("Jo", "apply")
    stage.click("Li", "approve")
    assert (stage.case.state, stage.world.writes) == (State.VERIFIED, ["apply:0", "undo:0", "apply:0"])


# ---------------------------------------------------------------- rejected


def test_a_rejection_stands_with_its_reason_where_the_plan_was_and_at_the_end(workspace: Make) -> None:
    stage = asked(workspace)
    stage.click("Jo", "apply")
    stage.submit("Li", stage.ask_back("Li", "reject"), reason="<!channel> the *launch* is at noon, ask @Jo & me")
    shown = "Rejected by <@U08LI>: <!channel> the *launch* is at noon, ask @Jo & me"  # as a reader sees it, escaped on the wire
    assert stage.last() == shown
    assert f"*Not carried out.* {shown}" in plan_of(stage)
    assert "[Approve" not in "\n".join(stage.thread())
    assert not any("channel" in message.pings for message in stage.slack.messages("C01ONCALL"))
    kept = next(entry["event"] for entry in stage.audit.entries() if entry["event"]["what"] == "rejected")
    assert (kept["who"], kept["reason"].endswith("ask @Jo & me")) == ("U08LI", True)


def test_who_wanted_the_plan_may_take_it_back_and_a_bystander_may_not(workspace: Make) -> None:
    stage = asked(workspace)
    stage.click("Jo", "apply")
    stage.submit("Ana", stage.ask_back("Ana", "reject"), reason="I do not like it")
    assert stage.told("Ana") == "Refused: you may not approve or reject this. Who may: <!subteam^S01ONCALL>."
    assert stage.case.state is State.AWAITING_APPROVAL
    stage.submit("Jo", stage.ask_back("Jo", "reject"), reason="a mistake of mine")
    assert (stage.case.state, stage.last()) == (State.DIAGNOSED, "Rejected by <@U02JO>: a mistake of mine")


def test_a_rejection_comes_too_late_for_what_is_approved(workspace: Make) -> None:
    stage = asked(workspace)
    stage.click("Jo", "apply")
    view = stage.ask_back("Wei", "reject")
    stage.click("Li", "approve")
    stage.submit("Wei", view, reason="no")
    assert "<@U08LI> 已于" in stage.told("Wei")
    assert (stage.case.state, stage.world.writes) == (State.VERIFIED, ["apply:0"])
