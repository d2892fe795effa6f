"""A process that ends at any call of the walk is followed by another, which does nothing twice."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bot.model import Case, Job, State
from tests.walk.world import JO, WEI, SmallWorld, Stage

STEPS = ["locate", "collect", "plan", "dry_run", "differences", "execute_step", "after_write", "observe"]


@pytest.mark.parametrize("direction", ["apply", "undo"])
@pytest.mark.parametrize("where", STEPS)
@pytest.mark.parametrize("which", [1, 2])
def test_a_process_killed_anywhere_goes_on_at_the_next_start_and_does_nothing_twice(tmp_path: Path, where: str, which: int, direction: str) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=2))
    case = stage.ask()
    if direction == "undo":
        stage.click(JO, case, "apply")
        case = stage.click(WEI, case, "approve")
    writes = len(stage.world.writes)
    calls, kills = [0], [0]

    def kill(name: str) -> None:
        calls[0] += name == {"plan": "plan_undo"}.get(where, where) if direction == "undo" else name == where
        if calls[0] == which and not kills[0]:
            kills[0] = 1
            raise KeyboardInterrupt

    stage.world.on_call = kill
    drive(stage, case, {"apply": "apply", "undo": "undo"}[direction])
    case = stage.now(case)
    assert case.state is {"apply": State.VERIFIED, "undo": State.UNDONE}[direction]
    assert stage.world.writes[writes:] == [f"{direction}:0", f"{direction}:1"]
    assert len(set(stage.chat.purposes())) == len(stage.chat.purposes())
    assert stage.audit.verify() == []


def drive(stage: Stage, case: Case, verb: str) -> None:
    """People go on pressing what they want until it is done; each kill is followed by a start."""

    def alive(act: Callable[[], object]) -> None:
        try:
            act()
        except KeyboardInterrupt:
            stage.boot()
            stage.queue.run_due()

    for actor, wanted in ((JO, verb), (WEI, "approve"), (WEI, "approve")):
        if any(button.verb == wanted for button in stage.now(case).buttons):
            alive(lambda actor=actor, wanted=wanted: stage.click(actor, case, wanted))
    for _ in range(3):
        alive(lambda: stage.later(case, seconds=16))


def test_a_process_killed_right_after_the_end_was_kept_has_it_shown_by_the_next(tmp_path: Path) -> None:
    """The job whose work was done but for the announcement is taken up again; nothing else looks at an ended Case."""
    stage = Stage(tmp_path)
    case = stage.click(JO, stage.approved(), "undo")
    put = stage.queue.put

    def killed_before(job: Job) -> None:
        if job.name == "announce" and stage.now(case).state is State.UNDONE:
            raise KeyboardInterrupt
        put(job)

    stage.queue.put = killed_before  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        stage.click(WEI, case, "approve")
    assert stage.chat.shows("top").state is not State.UNDONE
    stage.boot()
    stage.queue.put(Job("verify", case.id))  # as its lease is freed
    stage.queue.run_due()
    assert stage.chat.shows("top").state is State.UNDONE


def test_each_step_is_a_job_so_that_one_which_makes_headway_is_not_given_up_for_its_kills(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=3))
    stage.approved()
    assert (stage.queue.ran.count("execute"), stage.world.writes) == (3, ["apply:0", "apply:1", "apply:2"])
