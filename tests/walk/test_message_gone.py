"""The thread shows the state also when a message of it is gone, cannot be rewritten, or Slack wants fewer calls."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from bot.model import State
from tests.walk.slack_stage import CHANNEL, SlackStage
from tests.walk.world import DONE

Make = Callable[..., SlackStage]


def delete(stage: SlackStage, beginning: str) -> None:
    """A person with the right to do so deletes a message."""
    for message in [each for each in stage.slack.messages(CHANNEL) if each.shown.startswith(beginning)]:
        stage.slack.workspace.all_messages.remove(message)


def under(stage: SlackStage, shown: str) -> list[str]:
    """The messages of the thread that begins with `shown`."""
    top = next(each for each in stage.slack.messages(CHANNEL) if each.shown.startswith(shown))
    return [each.shown for each in stage.slack.thread(CHANNEL, top.ts)]


def test_a_deleted_summary_is_posted_anew_and_what_comes_stands_under_it(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    delete(stage, "*llm/chat-old")
    stage.click("Wei", "approve")
    assert stage.case.state is State.VERIFIED
    new = under(stage, "*llm/chat-old")
    assert "State: verified." in new[0]
    assert "*Verified at" in new[-1]


def test_a_deleted_plan_is_posted_anew_with_its_outcome(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    delete(stage, "*Preview")
    stage.later(minutes=26)
    assert len([each for each in stage.thread() if each.startswith("*Preview")]) == 1
    assert "*Not carried out.* Too late: the approval expired" in next(each for each in stage.thread() if each.startswith("*Preview"))


def test_a_plan_that_waits_and_was_deleted_stands_there_again_soon_with_its_buttons(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    delete(stage, "*Preview")
    stage.later(minutes=6)
    assert [each for each in stage.thread() if each.startswith("*Preview")] != []
    stage.click("Wei", "approve")
    assert stage.case.state is State.VERIFIED
    assert len([each for each in stage.thread() if each.startswith("*Preview")]) == 1


def test_a_plan_that_was_decided_is_not_rewritten_any_more(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    stage.later(minutes=11)
    stage.click("Wei", "approve")
    stage.later(minutes=40)
    calls = len(stage.slack.calls("chat.update"))
    stage.later(minutes=40)
    assert (stage.case.state, len(stage.slack.calls("chat.update"))) == (State.VERIFIED, calls)


def halted(stage: SlackStage, state: State) -> None:
    """A change that is being watched, or whose rollout cannot go on."""
    stuck = "never_ready" if state is State.STUCK else ""
    stage.world.rollout = replace(DONE, done=False, stuck=stuck)
    stage.planned()
    stage.click("Wei", "approve")
    stage.later(seconds=5)
    assert stage.case.state is state


@pytest.mark.parametrize("beginning", ["*Preview", "*llm/chat-old"])
@pytest.mark.parametrize("state", [State.WATCHING, State.STUCK])
def test_a_deleted_message_of_what_runs_or_is_stuck_stands_there_again_soon(workspace: Make, state: State, beginning: str) -> None:
    stage = workspace()
    halted(stage, state)
    delete(stage, beginning)
    stage.later(minutes=6)
    stage.later(seconds=1)
    assert stage.case.state is state
    assert any(each.shown.startswith(beginning) for each in stage.slack.messages(CHANNEL))


def test_a_deleted_message_of_a_verified_change_that_is_watched_stands_there_again_soon(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    stage.click("Wei", "approve")
    delete(stage, "*llm/chat-old")
    stage.later(minutes=6)
    assert stage.case.state is State.VERIFIED
    assert "State: verified." in under(stage, "*llm/chat-old")[0]


def test_what_is_stuck_is_rewritten_often_at_first_then_seldom_and_ends_in_its_time(workspace: Make) -> None:
    stage = workspace()
    halted(stage, State.STUCK)

    def rewritten(minutes: int) -> int:
        before = len(stage.slack.calls("chat.update"))
        for _ in range(minutes):
            stage.later(minutes=1)
        return len(stage.slack.calls("chat.update")) - before

    first, later = rewritten(60), rewritten(180)
    assert (first, later) == (3 * 12, 3 * 3)  # the summary, the plan, the outcome
    for _ in range(24):
        stage.later(hours=1)
    assert stage.case.state is State.LEFT


def test_a_plan_whose_thread_is_gone_is_shown_under_a_new_summary(workspace: Make) -> None:
    stage = workspace()
    stage.typed("Ana", "check llm/chat-old")
    delete(stage, "*llm/chat-old")
    stage.slack.workspace.all_messages.clear()
    stage.press("Jo", "apply")
    new = under(stage, "*llm/chat-old")
    assert new[0].splitlines()[-1].startswith("State: waiting for approval until")
    assert any(each.startswith("*Preview") for each in new)


def test_a_question_that_was_deleted_leaves_its_answer_in_the_channel(workspace: Make) -> None:
    stage = workspace()
    ack = stage.slack.mention("Ana", CHANNEL, None, "check llm/chat-old")
    stage.until(lambda: "check" in stage.queue.names())
    stage.slack.workspace.all_messages.clear()
    stage.queue.run_due()
    assert ack.status == 200
    assert "State: waiting for a decision." in under(stage, "*llm/chat-old")[0]


@pytest.mark.parametrize("error", ["edit_window_closed", "cant_update_message", "message_not_found"])
def test_a_message_that_cannot_be_rewritten_is_followed_by_a_new_one(workspace: Make, error: str) -> None:
    stage = workspace()
    stage.planned()
    stage.slack.refuse("chat.update", error, times=2)  # the summary and the plan
    stage.later(minutes=26)
    assert [each.splitlines()[-1] for each in stage.thread() if each.startswith("*llm/chat-old")][-1] == "State: waiting for a decision."
    assert "*Not carried out.*" in [each for each in stage.thread() if each.startswith("*Preview")][-1]


def test_while_slack_wants_fewer_calls_nothing_is_lost_or_posted_twice(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    stage.slack.ratelimit("chat.update", times=3, retry_after=60)
    stage.slack.ratelimit("chat.postMessage", times=2, retry_after=60)
    stage.click("Wei", "approve")
    assert stage.case.state is State.VERIFIED
    for _ in range(8):
        stage.later(seconds=30)
    assert "State: verified." in stage.top()
    shown = [str(message.metadata) for message in stage.slack.messages(CHANNEL)]
    assert len(shown) == len(set(shown)) == 5


def test_a_channel_that_the_bot_was_removed_from_is_kept_as_not_shown(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    stage.slack.refuse("chat.update", "channel_not_found", times=9)
    stage.slack.refuse("chat.postMessage", "channel_not_found", times=9)
    stage.later(minutes=26)
    assert stage.case.state is State.DIAGNOSED
    kept = [entry["event"] for entry in stage.audit.entries() if entry["event"]["what"] == "not_shown"]
    assert {each["purpose"] for each in kept} >= {"top"}
