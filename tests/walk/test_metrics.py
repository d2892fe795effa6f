"""What the metrics say of a change: asked right before the first write and when the watch is over, and said with the outcome. They decide nothing alone."""

from datetime import timedelta
from pathlib import Path

import pytest

from bot.model import Quote, State, Text, Verdict
from tests.walk.test_aftercare import said
from tests.walk.world import SICK, SmallWorld, Stage


def test_a_metric_that_was_bad_and_is_better_is_said_when_the_watch_is_over(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(throttled=[0.41, 0.02]))
    case = stage.later(stage.approved(), minutes=31)
    assert case.operation is not None
    assert case.operation.aftermath is not None
    assert (case.state, case.operation.aftermath.verdict) == (State.VERIFIED, Verdict.VERIFIED)
    assert "No new kill or restart. CPU periods in which it was throttled: 41 % before, 2 % after." in said(stage, case)
    assert "修改前 41%，修改后 2%" in said(stage, case, "zh")


def test_it_is_asked_of_the_old_pod_before_the_first_write_and_of_the_new_one_afterwards(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(throttled=[0.41, 0.02]))
    order: list[str] = []
    stage.world.on_call = order.append
    case = stage.later(stage.approved(), minutes=31)
    assert order.index("measure") < order.index("execute_step")
    assert case.operation is not None
    assert case.operation.outcome is not None
    assert case.operation.aftermath is not None
    assert stage.world.asked_of == [(("chat-old",), timedelta(hours=1)), (("chat-new",), case.operation.aftermath.at - case.operation.outcome.at)]


def test_a_metric_that_is_no_better_leaves_open_whether_it_worked(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(throttled=[0.41, 0.4]))
    case = stage.later(stage.approved(), minutes=31)
    assert case.operation is not None
    assert case.operation.aftermath is not None
    assert (case.state, case.operation.aftermath.verdict) == (State.VERIFIED, Verdict.NOT_VERIFIABLE)
    assert "40 % after, which is no better." in said(stage, case)


def test_a_metric_that_is_better_makes_no_verified_of_a_failure(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(throttled=[0.41, 0.0], new_pod=SICK))
    case = stage.later(stage.approved(), minutes=31)
    assert case.state is State.VERIFICATION_FAILED
    assert stage.world.throttled == [0.0]  # nobody even asked


@pytest.mark.parametrize(("throttled", "words"), [([], ""), ([0.01, 0.01], ""), ([None, 0.01], "not verifiable by this metric, because before the change")])
def test_where_there_is_nothing_to_compare_the_outcome_stands_by_itself(tmp_path: Path, throttled: list[float | None], words: str) -> None:
    stage = Stage(tmp_path, world=SmallWorld(throttled=throttled))
    case = stage.later(stage.approved(), minutes=31)
    assert case.operation is not None
    assert case.operation.aftermath is not None
    assert case.operation.aftermath.verdict is Verdict.VERIFIED
    assert words in said(stage, case)
    assert "before, " not in said(stage, case)


def test_both_readings_stand_in_the_audit_trail(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(throttled=[0.41, 0.02]))
    stage.later(stage.approved(), minutes=31)
    assert stage.events("begins")[0]["measured"] == {"cpu_throttled": 0.41}
    assert "2 % after" in stage.events("lasted")[0]["metrics"]


def test_what_the_metrics_say_at_the_check_stands_among_the_evidence_and_decides_nothing(tmp_path: Path) -> None:
    quote = Quote("prometheus", None, "cpu_throttled 0.41", Text("CPU periods in which it was throttled in the last 60 min: 41 %", "CPU 被限流"))
    stage = Stage(tmp_path, world=SmallWorld(read=(quote, quote, quote)))
    case = stage.ask()
    assert case.diagnosis is not None
    assert (case.diagnosis.cause, case.diagnosis.certainty, case.diagnosis.recommendations) == (SICK.cause, SICK.certainty, SICK.recommendations)
    assert [one.quote for one in case.diagnosis.evidence] == ["cpu_throttled 0.41"] * 2
