"""A job that could not be queued (a locked database, a full disk) is found missing while the process lives, and nothing is done twice for it."""

from pathlib import Path

import pytest

from bot.errors import Permanent, StoreError, Unreachable
from bot.model import Case, Job, State
from tests.walk.world import JO, WEI, SmallWorld, Stage, planned


def lose(stage: Stage, name: str, times: int = 1) -> None:
    """So many times a job of that name cannot be queued."""
    put, left = stage.queue.put, [times]

    def failing(job: Job) -> None:
        if job.name == name and left[0]:
            left[0] -= 1
            raise StoreError("the database is locked")
        put(job)

    stage.queue.put = failing  # type: ignore[method-assign]


def soon(stage: Stage, case: Case) -> Case:
    """A few minutes pass in the same process."""
    for _ in range(8):
        case = stage.later(case, seconds=31)
    return case


@pytest.mark.parametrize("name", ["execute", "watch", "verify", "announce"])
def test_a_job_that_could_not_be_queued_is_found_and_every_step_is_done_once(tmp_path: Path, name: str) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=2, after_rollout=1))
    case = planned(stage)
    lose(stage, name)
    stage.click(WEI, case, "approve")
    case = soon(stage, case)
    assert (case.state, stage.world.writes) == (State.VERIFIED, ["apply:0", "apply:1"])
    assert stage.chat.shows("top").state is State.VERIFIED


def test_a_plan_that_could_not_be_queued_is_made(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    case = stage.ask()
    lose(stage, "plan")
    stage.click(JO, case, "apply")
    case = soon(stage, case)
    assert (case.state, len(stage.events("planned"))) == (State.AWAITING_APPROVAL, 1)


def test_an_approval_whose_end_could_not_be_queued_ends_in_its_time(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    case = stage.ask()
    lose(stage, "expire")
    case = stage.click(JO, case, "apply")
    case = soon(stage, case)
    assert case.state is State.AWAITING_APPROVAL
    assert stage.later(case, minutes=25).state is State.DIAGNOSED


def test_a_check_that_could_not_be_queued_is_made(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    lose(stage, "check")
    with pytest.raises(StoreError):
        stage.ask()
    case = stage.store.recent()[0]
    assert soon(stage, case).state is State.DIAGNOSED


def test_an_answer_that_could_not_be_announced_is_shown(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    lose(stage, "announce", times=2)
    case = stage.ask()
    case = soon(stage, case)
    assert (case.state, stage.chat.shows("top").state) == (State.DIAGNOSED, State.DIAGNOSED)


def test_a_job_that_waits_for_its_next_try_is_not_put_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.world.fail["locate"] = [Unreachable("no answer")] * 9
    case = stage.ask()
    case = soon(stage, case)
    assert (case.state, stage.queue.ran.count("check")) == (State.CHECK_FAILED, 5)


def test_a_look_that_failed_for_good_is_not_the_last(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    case = planned(stage)
    found = stage.store.open_cases
    stage.store.open_cases = lambda: (_ for _ in ()).throw(Permanent("not now"))  # type: ignore[method-assign]
    soon(stage, case)
    stage.store.open_cases = found  # type: ignore[method-assign]
    lose(stage, "execute")
    stage.click(WEI, case, "approve")
    assert soon(stage, case).state is State.VERIFIED


def test_where_nothing_is_missing_a_look_puts_nothing_and_the_thread_is_not_rewritten(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    case = stage.ask()
    stage.queue.ran.clear()
    soon(stage, case)
    assert set(stage.queue.ran) == {"sweep"}
