"""What a whole thread says is so at its time: what was written is never called not carried out, and what somebody else did is told with who and where."""

from collections.abc import Callable

from bot.errors import Conflict
from bot.model import Difference, Rollout, State
from tests.walk.slack_stage import SlackStage, buttons
from tests.walk.world import SmallWorld

HALF = Rollout(2, 1, 1, False, stuck="unschedulable", detail="0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
ARGO = (Difference("/value", 57344, 131072, "argocd-application-controller"),)
Make = Callable[..., SlackStage]


class Changed(Conflict):
    """As remediation says it."""

    def __init__(self, *found: Difference) -> None:
        super().__init__("it was changed")
        self.differences = found


def stuck(workspace: Make, **more: object) -> SlackStage:
    stage = workspace(world=SmallWorld(rollout=HALF), **more)
    stage.planned()
    stage.click("Wei", "approve")
    stage.later(seconds=6)
    assert stage.case.state is State.STUCK
    return stage


def test_a_stuck_rollout_says_why_and_what_can_be_chosen_on_a_line_of_its_own(workspace: Make) -> None:
    lines = stuck(workspace).last().splitlines()
    assert lines[-3:] == [
        "*Stuck: no node takes the new pod.* 1 of 2 ready. 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
        "Wait longer, undo, or leave it as it is.",
        "[Wait] [Undo] [Leave as it is]",
    ]


def test_what_was_written_and_left_as_it_is_is_not_called_not_carried_out(workspace: Make) -> None:
    stage = stuck(workspace)
    stage.click("Ana", "leave")
    assert "Not carried out" not in "\n".join(stage.thread())
    assert "*Written, but not verified.* 1 of 1 write(s) were sent; 1 of 2 ready at the last look." in stage.last()
    assert "Left as it is by <@U01ANA> at " in stage.last()
    stage.later(days=2)
    assert stage.case.state is State.CLOSED
    assert "Left as it is by <@U01ANA> at " in stage.last()
    assert "Not carried out" not in "\n".join(stage.thread())


def test_what_nobody_decided_is_left_without_a_name(workspace: Make) -> None:
    stage = stuck(workspace, language="zh")
    stage.later(days=1, minutes=1)
    assert stage.case.state is State.LEFT
    assert "选择保持现状：已写入的内容保留。" in stage.last()
    assert "<@" not in stage.last().splitlines()[-2]


def test_a_stuck_rollout_that_is_taken_back_is_not_shown_as_rolling_out(workspace: Make) -> None:
    stage = stuck(workspace)
    outcome = len(stage.thread()) - 1
    stage.click("Jo", "undo")
    assert "*Written, but not verified.*" in stage.thread()[outcome]
    stage.world.rollout = Rollout(2, 2, 2, True)
    stage.click("Wei", "approve")
    assert stage.case.state is State.UNDONE
    assert "Rolling out" not in "\n".join(stage.thread())
    assert "*Written, but not verified.*" in stage.thread()[outcome]


def test_a_change_by_somebody_else_before_the_approval_is_shown_with_who_and_where(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    stage.world.value, stage.world.changed_by = 65536, "kubectl-edit"
    stage.click("Wei", "approve")
    assert stage.told("Wei") == "已拒绝：预览之后 `/value` 被 `kubectl-edit` 修改。没有执行任何操作。"
    assert stage.last().splitlines() == [
        "Refused: `/value` was changed by `kubectl-edit` after the preview. Nothing was done.", "*What differs*", "`/value`, changed by `kubectl-edit`",
        "- 131072", "+ 65536", "[Preview again]",
    ]  # fmt: skip
    assert "*Not carried out.* `/value` was changed by `kubectl-edit` after the preview." in stage.thread()[3]
    assert stage.world.writes == []


def test_after_somebody_elses_change_a_new_preview_needs_a_new_approval(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    old = stage.case.buttons[0].id
    stage.world.value = 65536
    stage.click("Wei", "approve")
    stage.click("Jo", "preview_again")
    assert (stage.case.state, stage.world.writes) == (State.AWAITING_APPROVAL, [])
    assert "- 65536" in stage.last()
    assert old not in [button.id for button in stage.case.buttons]
    stage.click("Wei", "approve")
    assert (stage.case.state, stage.world.writes) == (State.VERIFIED, ["apply:0"])


def test_a_field_managers_name_cannot_pose_as_a_person(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    stage.world.value, stage.world.changed_by = 1, "U01ANA"
    stage.click("Wei", "approve")
    assert "<@U01ANA>" not in stage.told("Wei") + stage.last()
    assert "changed by `U01ANA`" in stage.last()


def test_what_was_reverted_while_it_was_watched_is_not_called_not_done(workspace: Make) -> None:
    stage = workspace(world=SmallWorld(rollout=Rollout(1, 0, 0, False)))
    stage.planned()
    stage.click("Wei", "approve")
    stage.world.reverted = ARGO
    stage.later(seconds=6)
    assert "What was applied does not stand any more: `/value` was changed by `argocd-application-controller`" in stage.last()
    assert "Nothing was done" not in "\n".join(stage.thread()).lower()
    assert stage.last().splitlines()[3:6] == ["was: 131072", "the bot set: 57344", "is now: 131072"]


def test_an_undo_that_does_not_fit_shows_the_three_ways_and_no_button_that_leads_there_again(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    stage.click("Wei", "approve")
    stage.world.fail["plan_undo"] = [Changed(Difference("/value", 57344, 98304, "kubectl-edit"))]
    stage.click("Jo", "undo")
    assert stage.last().splitlines() == [
        "No undo: `/value` was changed by `kubectl-edit` since the bot changed it; undoing would overwrite that. Nothing was done.",
        "*What differs*", "`/value`, changed by `kubectl-edit`", "was: 131072", "the bot set: 57344", "is now: 98304",
    ]  # fmt: skip
    assert stage.verbs() == ["undo"]


def test_an_object_made_anew_is_said_in_words(workspace: Make) -> None:
    stage = workspace(language="zh")
    stage.planned()
    stage.world.fail["differences"] = [Changed(Difference("uid", "uid-1", "uid-2"))]
    stage.click("Wei", "approve")
    assert stage.told("Wei") == "已拒绝：预览之后 对象本身（同名重建） 被修改。没有执行任何操作。"


def test_a_first_step_that_was_refused_does_not_stay_shown_as_being_written(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    stage.world.on_call = lambda name: stage.queue.run_named("announce") if name == "execute_step" else None
    stage.world.fail["execute_step"] = [Conflict("a test does not hold")]
    stage.click("Wei", "approve")
    outcome = next(each for each in stage.thread() if "*Not carried out.*" in each and "Preview" not in each)
    assert "*Not carried out.* Step 1 was not carried out: a test does not hold" in outcome
    assert "Writing" not in "\n".join(stage.thread())


def test_of_two_who_click_at_once_one_wins_and_the_other_reads_who_was_first_and_with_what(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    message = next(each for each in stage.slack.messages("C01ONCALL") if "[Approve]" in each.shown)
    for who in ("Wei", "Jo"):  # both are delivered before either is looked at
        stage.slack.click(who, "C01ONCALL", message.ts, "Approve")
    stage.queue.run_due()
    assert (stage.case.state, stage.world.writes) == (State.VERIFIED, ["apply:0"])
    assert stage.told("Jo") == "<@U03WEI> was first at <!date^1796032800^{time}|10:00 UTC> (Approve); state: approved. Your click changed nothing."


def test_a_click_on_what_was_decided_long_ago_reads_the_same_in_chinese(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    message = next(each for each in stage.slack.messages("C01ONCALL") if "[Approve]" in each.shown)
    button = next(each for each in buttons(message) if each["text"]["text"] == "Approve")
    stage.click("Wei", "approve")
    stage.slack.press(stage.slack.workspace.person("Wei"), stage.slack.workspace.channel("C01ONCALL"), message, button)
    stage.queue.run_due()
    assert stage.told("Wei") == "<@U03WEI> 已于 <!date^1796032800^{time}|10:00 UTC> 先行处理（批准）；状态：已验证。你的点击没有生效。"
