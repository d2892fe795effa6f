"""What the bot made and leaves working by itself (a scheduled restart) is listed, can be taken back as long as it stands, and its case ends when it does not."""

from collections.abc import Callable
from dataclasses import replace

from bot.errors import NotFound, TimedOut
from bot.model import Difference, ObjectRef, Remediation, State, StepKind
from tests.walk.slack_stage import SlackStage
from tests.walk.world import SmallWorld

Make = Callable[..., SlackStage]
CRON_JOB = ObjectRef("batch/v1", "CronJob", "llm", "oombot-restart-chat")
GONE = (Difference("CronJob llm/oombot-restart-chat", "o-1", None),)


class Scheduling(SmallWorld):
    """Its plan makes a CronJob; the undo deletes it."""

    def _plan(self, plan_id: str, direction: str, to: int) -> Remediation:
        made = super()._plan(plan_id, direction, to)
        kind = StepKind.CREATE if direction == "apply" else StepKind.DELETE
        return replace(made, steps=(replace(made.steps[0], kind=kind, object=CRON_JOB),))


def scheduled(workspace: Make, **more: object) -> SlackStage:
    stage = workspace(world=Scheduling(), **more)
    stage.planned()
    stage.click("Wei", "approve")
    assert stage.case.state is State.VERIFIED
    return stage


def test_status_lists_what_was_made_with_the_thread_in_which_it_is_undone(workspace: Make) -> None:
    stage = scheduled(workspace)
    top = stage.slack.messages("C01ONCALL")[0].ts.replace(".", "")
    thread = f"<https://sandbox.slack.com/archives/C01ONCALL/p{top}|thread>"
    lines = stage.typed("Ana", "status").splitlines()
    assert lines[0] == f"Made by oombot, until it is undone in its {thread}: CronJob llm/oombot-restart-chat."
    assert lines[1] == "Open cases: 1."
    assert lines[2].endswith(f"llm/chat-old: verified, context longer than the KV cache ({thread})")
    assert "由 oombot 创建，可在" in stage.typed("Wei", "status")


def test_it_stays_listed_and_can_be_undone_long_after(workspace: Make) -> None:
    stage = scheduled(workspace)
    for _ in range(9):
        stage.later(days=1, minutes=1)
    assert stage.case.state is State.VERIFIED
    stage.click("Jo", "undo")
    assert stage.case.state is State.AWAITING_APPROVAL  # by two people, as everything
    stage.click("Wei", "approve")
    assert stage.case.state is State.UNDONE
    assert "Made by oombot" not in stage.typed("Ana", "status")


def test_one_that_somebody_deleted_closes_its_case(workspace: Make) -> None:
    stage = scheduled(workspace)
    stage.later(minutes=31)
    stage.world.reverted = GONE
    stage.later(days=1, minutes=1)
    assert stage.case.state is State.CLOSED
    assert "Made by oombot" not in stage.typed("Ana", "status")


def test_a_cluster_that_does_not_answer_closes_nothing_and_one_that_denies_it_does(workspace: Make) -> None:
    stage = scheduled(workspace)
    stage.later(minutes=31)
    stage.world.fail["standing"] = [TimedOut("no answer")]
    stage.later(days=1, minutes=1)
    assert stage.case.state is State.VERIFIED
    stage.world.fail["standing"] = [NotFound("no such namespace")]
    stage.later(days=1, minutes=1)
    assert stage.case.state is State.CLOSED


def test_a_bot_that_starts_anew_still_lists_it(workspace: Make) -> None:
    stage = scheduled(workspace)
    stage.later(days=2)
    stage.boot()
    stage.queue.run_due()
    assert "CronJob llm/oombot-restart-chat" in stage.typed("Ana", "status")


def test_a_change_that_goes_on_by_itself_no_more_closes_as_ever(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    stage.click("Wei", "approve")
    stage.later(minutes=31)
    stage.later(days=1, minutes=1)
    assert stage.case.state is State.CLOSED


def test_without_an_address_a_case_is_listed_without_a_link(workspace: Make) -> None:
    stage = scheduled(workspace)
    stage.slack.break_before("auth.test", times=9)
    told = stage.typed("Ana", "status")
    assert "until it is undone in its thread: CronJob llm/oombot-restart-chat." in told
    assert "https" not in told
