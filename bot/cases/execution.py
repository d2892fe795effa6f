"""An approved plan is carried out: the job "execute". All checks again, then the steps, each kept before and after it is sent.

A killed process goes on with the step that was being sent; the operation's id on the object says whether it arrived. Nothing is sent when writing is frozen.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from bot.cases.approval import check_again, check_rules, check_whole, differences_of
from bot.cases.buttons import taken_back, with_buttons
from bot.cases.changed import voids
from bot.cases.desk import Desk
from bot.cases.ending import back
from bot.errors import Permanent, Refused, Temporary, WorldError
from bot.lifecycle import BOT, move
from bot.model import Case, Difference, Measured, Operation, State, StepKind, Words, Written

LONGEST = 400  # characters of a server's words that are kept
MARKED = (StepKind.PATCH, StepKind.CREATE)  # steps that leave the operation's mark
BEFORE = timedelta(hours=1)  # what the metrics were in that time is compared with what they are after the change


def execute(desk: Desk, case_id: str) -> None:
    case = desk.get(case_id)
    if case.state is State.APPROVED:
        case = _begin(desk, case)
    elif case.state is State.EXECUTING and not _may_begin(desk, case):
        return
    if case.state is not State.EXECUTING or case.operation is None:
        return
    operation: Operation | None = case.operation
    if _due(case.operation):
        operation = _step(desk, case_id, case.operation)
    if operation is not None and _due(operation):
        desk.put("execute", case_id)  # each step is a job, so that one which makes headway is never taken for one that takes its process down each time
    elif operation is not None:
        _watch(desk, case_id)


def _begin(desk: Desk, case: Case) -> Case:
    """The second look, right before the first write."""
    operation = case.operation
    why: Words | None = None
    refusal: Permanent | None = None
    changed: tuple[Difference, ...] = ()
    there: tuple[str, ...] = ()
    if operation is None or not operation.approvals:
        raise Permanent(f"case {case.id} has nothing approved")
    try:
        check_again(desk, case, operation)
        there = _there(desk, case, operation)
        desk.record_act(operation)
    except Refused as refused:
        why = Words(refused.key, refused.parameters)
    except Permanent as wrong:
        refusal, changed = wrong, differences_of(wrong)
        why = voids(changed) if changed else Words("dry_run_refused", {"reason": str(wrong)})
    if why is not None:
        return _nothing_done(desk, case, why, changed, still=State.APPROVED, wrong=refusal)
    measured = _measured(desk, case, operation)
    now = desk.clock.now()
    approvers = [one.actor.id for one in operation.approvals]
    desk.note_once("begins", case, loose=("measured",), operation=operation.id, digest=operation.remediation.digest, approved_by=approvers, asked_by=operation.requested_by.id,
              measured={one.metric: one.value for one in measured})  # fmt: skip

    def decide(newest: Case) -> Case:
        if newest.state is not State.APPROVED or newest.operation is None:
            return newest
        return replace(move(newest, State.EXECUTING, BOT, "all checks passed again", now), operation=replace(newest.operation, started_at=now, there=there, measured=measured), trouble=None)

    kept = desk.change(case.id, decide)
    desk.announce(kept)
    return kept


def _may_begin(desk: Desk, case: Case) -> bool:
    """Whether a killed process, or a try that failed, may be followed by another one: as long as nothing arrived, by the rules as they are now. What has begun is
    brought to its end; whether the object is still what it was, is looked at right before the patch."""
    operation = case.operation
    if operation is None or operation.next_step > 0 or _arrived(desk, operation):
        return True
    try:
        check_rules(desk, case, operation)
    except Refused as refused:
        _refused(desk, case, 0, operation.sending is None, Words(refused.key, refused.parameters))
        return False
    return True


def _arrived(desk: Desk, operation: Operation) -> bool:
    """Whether the step that was being sent is known to be there."""
    if operation.sending is None:
        return False
    try:
        return len(_sent(desk, operation).remediation.steps) > operation.next_step
    except WorldError:
        return False


def _sent(desk: Desk, operation: Operation) -> Operation:
    """What of it was sent, with the step that may have been on its way when nobody heard of it any more."""
    return desk.engine.carried_out(replace(operation, sending=operation.next_step), desk.reader(operation.remediation.target), ())


def _there(desk: Desk, case: Case, operation: Operation) -> tuple[str, ...]:
    """The pods that the rollout replaces. Those from before the change that an undo takes back are of the template that it restores, so they stay."""
    plan = operation.remediation
    done = taken_back(case) if plan.direction == "undo" else None
    return tuple(uid for uid in desk.engine.pods_there(plan, desk.reader(plan.target)) if done is None or uid not in done.there)


def _measured(desk: Desk, case: Case, operation: Operation) -> tuple[Measured, ...]:
    """What was bad until now, for the comparison after the change."""
    pod, cause = operation.remediation.target.pod, case.diagnosis.cause if case.diagnosis else ""
    return desk.engine.measure(operation.remediation, cause, [pod] if pod else [], desk.clock.now(), BEFORE)


def _due(operation: Operation) -> bool:
    """Whether the next step may be sent now: one that waits for the rollout is sent when that is through."""
    steps = operation.remediation.steps
    if operation.next_step >= len(steps):
        return False
    return not steps[operation.next_step].after_rollout or (operation.rollout is not None and operation.rollout.done)


def _step(desk: Desk, case_id: str, operation: Operation) -> Operation | None:
    """Sends one step and keeps that; None when the Case went elsewhere."""
    index, case = operation.next_step, desk.get(case_id)
    try:
        desk.policy.check_frozen(desk.frozen())
        check_whole(desk, operation)
        writer = desk.writer(operation.remediation.target)
    except Refused as refused:
        _refused(desk, case, index, operation.sending is None, Words(refused.key, refused.parameters))
        return None
    case = _keep(desk, case_id, operation.id, sending=index, next_step=index)
    desk.note("sends", case, operation=operation.id, step=index, object=str(operation.remediation.steps[index].object))
    try:
        written = desk.engine.execute_step(operation.remediation, index, operation.id, writer)
    except Permanent as wrong:
        _refused(desk, case, index, not _may_stand(desk, operation, wrong), Words("step_refused", {"step": str(index + 1), "reason": str(wrong)}), wrong)
        return None
    except Temporary as wrong:  # whether it arrived, the next try finds out; that this one was made is kept as well
        desk.note("try_failed", case, operation=operation.id, step=index, reason=str(wrong)[:LONGEST], **_answer(wrong))
        raise
    desk.note("sent", case, operation=operation.id, step=index, **_came_back(written))
    kept = _keep(desk, case_id, operation.id, sending=None, next_step=index + 1)
    return kept.operation if kept.state is State.EXECUTING else None


def _may_stand(desk: Desk, operation: Operation, wrong: Permanent) -> bool:
    """Whether the step that was refused may have arrived all the same: by an earlier try whose answer never came, or because what came back was no answer of the
    server's. Its mark tells, where it can be read; what leaves no mark may have when it was tried before."""
    index, tried = operation.next_step, operation.sending is not None
    if not tried and wrong.status:
        return False
    if operation.remediation.steps[index].kind not in MARKED:
        return tried
    try:
        return len(_sent(desk, operation).remediation.steps) > index
    except WorldError:
        return True


def _came_back(written: Written) -> dict[str, Any]:
    """For the audit trail: what is known, by the names that the cluster's own audit log has for it."""
    known = {"uid": written.uid, "resourceVersion": written.resource_version, "generation": written.generation, "recognised": written.recognised}
    return {"object": written.object, **{name: value for name, value in known.items() if value}}


def _answer(wrong: Exception | None) -> dict[str, Any]:
    """The same for a refusal: the server's own answer, where one answered."""
    if not isinstance(wrong, WorldError) or not wrong.status:
        return {}
    return {"answer": {"status": wrong.status, "reason": wrong.reason[:LONGEST], "message": wrong.words[:LONGEST]}}


def _keep(desk: Desk, case_id: str, operation_id: str, *, sending: int | None, next_step: int) -> Case:
    def decide(case: Case) -> Case:
        if case.state is not State.EXECUTING or case.operation is None or case.operation.id != operation_id or case.operation.next_step > next_step:
            return case
        return replace(case, operation=replace(case.operation, sending=sending, next_step=next_step))

    return desk.change(case_id, decide)


def _refused(desk: Desk, case: Case, index: int, known: bool, why: Words, wrong: Exception | None = None) -> None:
    """A step was not done. The first one, known not to have arrived: nothing happened. Else it stops half-way, and people choose."""
    changed = differences_of(wrong) if wrong else ()
    if index == 0 and known:
        _nothing_done(desk, case, why, changed, still=State.EXECUTING, wrong=wrong)
        return
    newest = desk.get(case.id).operation
    if newest is not None and newest.next_step > index:
        return  # another worker has sent it meanwhile
    desk.note_once("step_refused", case, step=index, key=why.key, parameters=dict(why.parameters), **_answer(wrong))
    stuck(desk, case.id, why)


def _nothing_done(desk: Desk, case: Case, why: Words, changed: tuple[Difference, ...], *, still: State, wrong: Exception | None = None) -> Case:
    """Back, unless another worker (after a lease that expired) has begun meanwhile: then what we saw was its work, and it goes on."""
    newest = desk.get(case.id)
    if not _untouched(newest, case, still):
        return newest
    differences = [[one.path, one.before, one.now, one.who] for one in changed]
    desk.note_once("not_carried_out", case, key=why.key, parameters=dict(why.parameters), differences=differences, **_answer(wrong))

    def decide(newest: Case) -> Case:
        if not _untouched(newest, case, still) or newest.operation is None:
            return newest
        return back(desk, replace(newest, operation=replace(newest.operation, started_at=None)), why, differences=changed)

    kept = desk.change(case.id, decide)
    desk.announce(kept)
    return kept


def _untouched(newest: Case, case: Case, still: State) -> bool:
    """Whether nobody has taken the operation further than we saw it."""
    current = newest.operation
    return newest.state is still and current is not None and case.operation is not None and current.id == case.operation.id and current.next_step == 0


def stuck(desk: Desk, case_id: str, why: Words | None, changed: tuple[Difference, ...] = ()) -> Case:
    """The choice is people's: wait, undo, leave. `changed`: what somebody else did meanwhile, for the thread."""

    def decide(case: Case) -> Case:
        if case.state not in (State.EXECUTING, State.WATCHING):
            return case
        halted = replace(move(case, State.STUCK, BOT, why.key if why else "stuck", desk.clock.now()), trouble=why)
        return with_buttons(replace(halted, differences=changed, handout=None, notes=halted.notes + 1) if changed else halted)

    kept = desk.change(case_id, decide)
    if kept.state is State.STUCK:
        desk.put("close", case_id, after=desk.timings.undo_window)
    desk.announce(kept)
    return kept


def _watch(desk: Desk, case_id: str) -> None:
    now = desk.clock.now()

    def decide(case: Case) -> Case:
        if case.state is not State.EXECUTING or case.operation is None:
            return case
        return replace(move(case, State.WATCHING, BOT, "all steps are sent", now), operation=replace(case.operation, watch_until=now + desk.timings.watch_timeout))

    kept = desk.change(case_id, decide)
    if kept.state is State.WATCHING:
        desk.put("watch", case_id)
    desk.announce(kept)
