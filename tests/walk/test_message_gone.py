"""The thread shows the state also when a message of it is gone, cannot be rewritten, or Slack wants fewer calls."""

from collections.abc import Callable

import pytest

from bot.model import State
from tests.walk.slack_stage import CHANNEL, SlackStage

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
    assert stage.queue.names().count("look") == 1
    stage.click("Wei", "approve")
    stage.later(minutes=40)
    calls = len(stage.slack.calls("chat.update"))
    stage.later(minutes=40)
    assert (stage.case.state, len(stage.slack.calls("chat.update"))) == (State.VERIFIED, calls)


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
    stage.until(lambda: stage.queue.jobs)
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
