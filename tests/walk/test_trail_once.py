"""What decides a state is written into the trail before it is kept: a process that is killed in between leaves one entry and not two, and none is lost."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.audit import Head
from bot.model import Case, Job, Request, State, TargetQuery
from tests.walk.world import ANA, JO, OPS, WEI, SmallWorld, Stage, planned


def killed_before_kept(stage: Stage, state: State) -> None:
    """The process ends right before the next Case in that state is kept; another one comes up."""
    save, killed = stage.store.save, [False]

    def ends(case: Case) -> Case:
        if case.state is state and not killed[0]:
            killed[0] = True
            raise KeyboardInterrupt
        return save(case)

    stage.store.save = ends  # type: ignore[method-assign]
    waiting: list[Job] = []
    put = stage.queue.put
    stage.queue.put = lambda job: (waiting.append(job), put(job))[1]  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        stage.queue.run_due()
    stage.boot()
    for job in waiting:  # those that had not ended stand in the real queue; what is done already does nothing
        stage.queue.put(job)


def pressed(stage: Stage, case: Case, verb: str) -> None:
    stage.press(JO if verb in ("apply", "undo") else WEI, stage.button(case, verb))


@pytest.mark.parametrize(
    ("state", "what", "verb"),
    [
        (State.PLANNING, "wanted", "apply"),
        (State.AWAITING_APPROVAL, "planned", "apply"),
        (State.APPROVED, "approved", "approve"),
        (State.EXECUTING, "begins", "approve"),
        (State.VERIFIED, "outcome", "approve"),
    ],
)
def test_an_entry_stands_once_although_the_process_was_killed_before_the_case_was_kept(tmp_path: Path, state: State, what: str, verb: str) -> None:
    stage = Stage(tmp_path)
    case = stage.ask() if verb == "apply" else planned(stage)
    press = stage.button(case, verb)
    stage.press(JO if verb == "apply" else WEI, press, key="p-once")
    killed_before_kept(stage, state)
    stage.press(JO if verb == "apply" else WEI, press, key="p-once")  # its job stands in the queue
    stage.queue.run_due()
    case = stage.now(case)
    assert (len(stage.events(what)), case.state) == (1, State.AWAITING_APPROVAL if verb == "apply" else State.VERIFIED)
    assert stage.audit.verify() == []


def test_what_is_planned_again_after_a_kill_is_called_as_the_trail_calls_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    case = stage.ask()
    pressed(stage, case, "apply")
    killed_before_kept(stage, State.AWAITING_APPROVAL)
    stage.clock.forward(minutes=40)
    stage.queue.run_due()
    operation = stage.now(case).operation
    assert operation is not None
    (entry,) = stage.events("planned")
    assert (entry["operation"], entry["plan"], entry["digest"]) == (operation.id, operation.remediation.id, operation.remediation.digest)
    assert operation.expires_at > stage.clock.now()


def test_a_plan_that_came_out_otherwise_after_the_kill_is_an_entry_of_its_own(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    case = stage.ask()
    pressed(stage, case, "apply")
    killed_before_kept(stage, State.AWAITING_APPROVAL)
    stage.world.value = 98304
    stage.queue.run_due()
    assert ["98304" in one["diff"] for one in stage.events("planned")] == [False, True]


def test_the_same_plan_wanted_again_is_an_entry_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    case = planned(stage)
    case = stage.click(WEI, case, "reject")
    case = stage.click(JO, case, "apply")
    assert [len(stage.events(what)) for what in ("wanted", "planned", "rejected")] == [2, 2, 1]


def test_the_outcome_that_is_posted_names_the_entry_of_the_killed_process(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    case = planned(stage)
    pressed(stage, case, "approve")
    killed_before_kept(stage, State.VERIFIED)
    stage.queue.run_due()
    operation = stage.now(case).operation
    entry = next(one for one in stage.audit.entries() if one["event"]["what"] == "outcome")
    assert operation is not None
    assert operation.audit_head == f"{entry['n']}:{entry['mac']}"


def test_a_stuck_rollout_stands_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld())
    stage.world.rollout = stage.world.rollout.__class__(1, 0, 0, False, stuck="never_ready")
    case = planned(stage)
    stage.click(WEI, case, "approve")
    stage.clock.forward(seconds=5)
    killed_before_kept(stage, State.STUCK)
    stage.later(case, seconds=6)
    stage.later(case, seconds=6)
    assert (len(stage.events("stuck")), stage.now(case).state) == (1, State.STUCK)


def test_a_clock_that_was_set_back_costs_no_entry(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    case = stage.ask()
    pressed(stage, case, "apply")
    killed_before_kept(stage, State.AWAITING_APPROVAL)
    stage.clock.time -= timedelta(hours=1)
    stage.queue.run_due()
    assert len(stage.events("planned")) >= 1


# ---------------------------------------------------------------- what is written after it is kept


def killed_before_it_is_told(stage: Stage, what: str) -> None:
    """The process ends right before that entry is written; the job whose lease is freed is taken up by another one."""
    append, name = stage.audit.append_once, {"diagnosed": "check", "check_failed": "check", "expired": "expire"}.get(what, "close")

    def ends(event: Any, *more: Any) -> Head:
        if event["what"] == what:
            raise KeyboardInterrupt
        return append(event, *more)

    stage.audit.append_once = ends  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        stage.queue.run_due()
    case = stage.store.recent()[0]
    stage.boot()
    stage.queue.put(Job(name, case.id))
    stage.queue.put(Job(name, case.id))
    stage.queue.run_due()


@pytest.mark.parametrize(("pod", "what"), [("chat-old", "diagnosed"), ("nobody", "check_failed")])
def test_what_a_check_came_to_is_told_by_the_next_process_and_once(tmp_path: Path, pod: str, what: str) -> None:
    stage = Stage(tmp_path)
    stage.cases.receive(asked(stage, pod))
    killed_before_it_is_told(stage, what)
    assert len(stage.events(what)) == 1
    assert stage.chat.shows("top").state is {"check_failed": State.CHECK_FAILED}.get(what, State.DIAGNOSED)


def asked(stage: Stage, pod: str) -> Request:
    return Request("r", ANA, TargetQuery(pod, "pod", pod, "llm"), stage.clock.now(), OPS)


def test_who_asked_stands_in_the_trail_also_when_the_process_ended_before_it_was_written(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    def ends(*_: Any) -> Head:
        raise KeyboardInterrupt

    stage.audit.append_once = ends  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        stage.cases.receive(asked(stage, "chat-old"))
    stage.boot()
    stage.cases.receive(asked(stage, "chat-old"))  # Slack sends it again
    stage.queue.run_due()
    assert [one["who"] for one in stage.events("asked")] == ["slack:UANA"]
    assert [entry["event"]["what"] for entry in stage.audit.entries()] == ["asked", "diagnosed"]


def test_that_an_approval_expired_is_told_by_the_next_process_and_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    planned(stage)
    stage.clock.forward(minutes=26)
    killed_before_it_is_told(stage, "expired")
    assert len(stage.events("expired")) == 1


def test_that_nobody_decided_is_told_by_the_next_process_and_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    case = stage.ask()
    stage.clock.forward(days=1, minutes=1)
    killed_before_it_is_told(stage, "closed")
    assert (len(stage.events("closed")), stage.now(case).state) == (1, State.CLOSED)
