"""A verified change is watched for a while: a new kill or restart, or somebody who changes it back, turns it into "verified, but". The job "aftercare".

A chain of short looks. It takes the count of restarts as it finds it in its first look; while an undo is being planned it waits.
"""

from collections.abc import Sequence
from dataclasses import replace

from bot.cases import rollout
from bot.cases.buttons import started, with_buttons
from bot.cases.changed import changed_words
from bot.cases.desk import Desk
from bot.lifecycle import BOT, END, move
from bot.model import Case, Diagnosis, Difference, Life, Operation, Outcome, Rollout, State, Text, Verdict


def aftercare(desk: Desk, case_id: str) -> None:
    case, now = desk.get(case_id), desk.clock.now()
    operation = started(case)
    if operation is None or not due(operation) or case.state in END:
        return
    if case.state is not State.VERIFIED or operation != case.operation:
        desk.put("aftercare", case_id, after=desk.timings.aftercare_interval)
        return
    plan = operation.remediation
    reader = desk.reader(plan.target)
    changed = desk.engine.standing(operation, reader)
    if changed:
        _turned(desk, case, operation, changed_words(changed), differences=changed)
        return
    look = desk.engine.observe(plan, reader, operation.there)
    lives = desk.engine.lives(plan, look.new_pods, reader)
    hurt = None if operation.lives is None else _hurt(operation.lives, lives)
    if hurt is not None:
        _turned(desk, case, operation, _ended(hurt), rollout.look(desk, plan, replace(look, new_pods=(hurt.pod,))), look)
    elif operation.aftercare_until is not None and now >= operation.aftercare_until and operation.lives is not None:
        _quiet(desk, case, operation, look)
    else:
        desk.change(case_id, lambda newest: _counted(newest, operation, lives))
        desk.put("aftercare", case_id, after=desk.timings.aftercare_interval)


def due(operation: Operation) -> bool:
    """Whether an operation is still to be looked after."""
    return operation.aftercare_until is not None and operation.aftermath is None


def _hurt(before: Sequence[Life], now: Sequence[Life]) -> Life | None:
    """A process that ended since: in a pod that was there, or in one that was made since."""
    counted = {one.uid: one.restarts for one in before}
    return next((one for one in now if one.failed or one.restarts > counted.get(one.uid, 0)), None)


def _ended(life: Life) -> Text:
    how, how_zh = (f" ({life.ended})", f"（{life.ended}）") if life.ended else ("", "")
    return Text(f"The process in {life.pod} ended again{how}.", f"{life.pod} 中的进程再次终止{how_zh}。")


def _counted(case: Case, operation: Operation, lives: tuple[Life, ...]) -> Case:
    """The first count stands; pods that were made since are added as they were first seen, not restarted."""
    if case.state is not State.VERIFIED or case.operation is None or case.operation.id != operation.id or case.operation.lives is not None:
        return case
    return replace(case, operation=replace(case.operation, lives=lives))


def _turned(
    desk: Desk, case: Case, operation: Operation, says: Text, diagnosis: Diagnosis | None = None, look: Rollout | None = None, differences: Sequence[Difference] = ()
) -> None:
    """Verified, but."""
    head = desk.note_once("aftermath", case, operation=operation.id, says=says.en, cause=diagnosis.cause if diagnosis else "")
    aftermath = Outcome(Verdict.FAILED, says, desk.clock.now(), diagnosis)

    def decide(newest: Case) -> Case:
        current = newest.operation
        if newest.state is not State.VERIFIED or current is None or current.id != operation.id:
            return newest
        ended = replace(current, aftermath=aftermath, audit_head=head, rollout=look or current.rollout)
        moved = replace(move(newest, State.VERIFICATION_FAILED, BOT, "it did not last", desk.clock.now()), operation=ended)
        noted = replace(moved, differences=tuple(differences), trouble=None, handout=None, notes=moved.notes + 1) if differences else moved
        return with_buttons(noted)

    kept = desk.change(case.id, decide)
    desk.put("close", case.id, after=desk.timings.undo_window)
    desk.announce(kept)


def lost(desk: Desk, case_id: str, reason: str) -> None:
    """It cannot be looked at any more: said, so that nobody relies on a watch that has ended."""
    case = desk.get(case_id)
    operation = started(case)
    if operation is not None and due(operation):
        says = Text(f"From then on it could not be watched: {reason}.", f"此后无法继续观察：{reason}。")
        _ended_quietly(desk, case, operation, Outcome(Verdict.NOT_VERIFIABLE, says, desk.clock.now()))


def _quiet(desk: Desk, case: Case, operation: Operation, look: Rollout) -> None:
    """Nothing ended. What the metrics say goes with it; one that is no better leaves open whether the change did what it was for."""
    now, begun = desk.clock.now(), operation.outcome.at if operation.outcome else desk.clock.now()
    cause = case.diagnosis.cause if case.diagnosis else ""
    after = desk.engine.measure(operation.remediation, cause, look.new_pods, now, now - begun) if operation.measured else ()
    compared = desk.engine.compare(operation.measured, after)
    desk.note_once("lasted", case, operation=operation.id, metrics=compared.says.en)
    says = Text(f"No new kill or restart. {compared.says.en}".rstrip(), f"没有新的终止或重启。{compared.says.zh}")
    _ended_quietly(desk, case, operation, Outcome(Verdict.NOT_VERIFIABLE if compared.better is False else Verdict.VERIFIED, says, now))


def _ended_quietly(desk: Desk, case: Case, operation: Operation, aftermath: Outcome) -> None:
    """The state stays; the thread says how the watch ended."""

    def decide(newest: Case) -> Case:
        current = newest.operation
        if newest.state is not State.VERIFIED or current is None or current.id != operation.id:
            return newest
        return replace(newest, operation=replace(current, aftermath=aftermath))

    desk.announce(desk.change(case.id, decide))
