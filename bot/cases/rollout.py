"""The rollout is looked at, then the new process: the jobs "watch" and "verify", chains of short looks, none longer than a collection of evidence."""

from dataclasses import replace
from datetime import datetime, timedelta

from bot.cases.buttons import with_buttons
from bot.cases.changed import changed_words
from bot.cases.check import Frames, diagnose
from bot.cases.desk import Desk
from bot.cases.execution import stuck
from bot.errors import Permanent, UserError
from bot.lifecycle import BOT, move
from bot.model import Case, Diagnosis, Operation, Outcome, Remediation, Rollout, State, TargetQuery, Verdict, Words

SHOWS_ITSELF = "crash_looping"  # then the new process says best what is wrong with it
LONGEST_START = timedelta(hours=6)  # beyond the time to watch: a pod that is evicted and made anew is given the time of its probes each time, without end


def watch(desk: Desk, case_id: str) -> None:
    """One look. A reason to be stuck counts when it stands twice in a row."""
    case, now = desk.get(case_id), desk.clock.now()
    operation = case.operation
    if case.state is not State.WATCHING or operation is None:
        return
    plan, before = operation.remediation, operation.rollout
    changed = desk.engine.standing(operation, desk.reader(plan.target))
    if changed:
        desk.note_once("reverted", case, operation=operation.id, differences=[[one.path, one.before, one.now, one.who] for one in changed])
        stuck(desk, case_id, Words("reverted", {"by": changed[0].who, "path": changed[0].path}), changed)
        return
    rollout = desk.engine.observe(plan, desk.reader(plan.target), operation.there)
    case = desk.change(case_id, lambda newest: _seen(newest, operation, rollout))
    if rollout.done:
        _through(desk, case, now)
    elif rollout.stuck and before is not None and before.stuck == rollout.stuck:
        if rollout.stuck == SHOWS_ITSELF and plan.direction == "apply" and rollout.new_pods:
            _to_verify(desk, case_id, now)
        else:
            desk.note_once("stuck", case, operation=operation.id, reason=rollout.stuck, detail=rollout.detail)
            stuck(desk, case_id, None)
    elif operation.watch_until is not None and now >= operation.watch_until + (LONGEST_START if rollout.starting else timedelta()):
        desk.note_once("stuck", case, operation=operation.id, reason="took_too_long", detail=rollout.detail)
        stuck(desk, case_id, Words("took_too_long", {"ready": str(rollout.ready), "wanted": str(rollout.wanted)}))
    else:
        desk.announce(case)
        desk.put("watch", case_id, after=desk.timings.watch_interval)


def _seen(case: Case, operation: Operation, rollout: Rollout) -> Case:
    if case.state not in (State.WATCHING, State.VERIFYING) or case.operation is None or case.operation.id != operation.id:
        return case
    return replace(case, operation=replace(case.operation, rollout=rollout))


def _through(desk: Desk, case: Case, now: datetime) -> None:
    """The rollout is done: the steps that were kept for then, or the verification."""
    operation = case.operation
    if operation is None or operation.next_step >= len(operation.remediation.steps):
        _to_verify(desk, case.id, now)
        return
    kept = desk.change(case.id, lambda newest: move(newest, State.EXECUTING, BOT, "the rollout is through", now) if newest.state is State.WATCHING else newest)
    desk.put("execute", case.id)
    desk.announce(kept)


def _to_verify(desk: Desk, case_id: str, now: datetime) -> None:
    def decide(case: Case) -> Case:
        if case.state is not State.WATCHING or case.operation is None:
            return case
        until = now + desk.timings.verification_window
        return replace(move(case, State.VERIFYING, BOT, "the rollout is done", now), operation=replace(case.operation, watch_until=until))

    kept = desk.change(case_id, decide)
    if kept.state is State.VERIFYING:
        desk.put("verify", case_id)
    desk.announce(kept)


def verify(desk: Desk, case_id: str) -> None:
    """One look at the new process. "Not verifiable" is only said when the time for it is over: until then the log may still show it."""
    case = desk.get(case_id)
    operation = case.operation
    if case.state is not State.VERIFYING or operation is None:
        desk.announce(case)  # a process that was killed right after the end was kept has not had it shown, and nothing looks at an ended Case again
        return
    plan = operation.remediation
    rollout = desk.engine.observe(plan, desk.reader(plan.target), operation.there)
    changed = desk.engine.standing(operation, desk.reader(plan.target))
    if changed:
        conclude(desk, case_id, operation.id, Outcome(Verdict.FAILED, changed_words(changed), desk.clock.now()), rollout)
        return
    if rollout.done or rollout.stuck == SHOWS_ITSELF or _over(desk, operation):
        outcome = desk.engine.judge(plan, case.diagnosis, look(desk, plan, rollout), rollout, desk.clock.now())
        if outcome.verdict is not Verdict.NOT_VERIFIABLE or _over(desk, operation):
            conclude(desk, case_id, operation.id, outcome, rollout)
            return
    desk.announce(desk.change(case_id, lambda newest: _seen(newest, operation, rollout)))  # a pod that is not ready at this very moment proves nothing yet
    desk.put("verify", case_id, after=desk.timings.verification_interval)


def _over(desk: Desk, operation: Operation) -> bool:
    return operation.watch_until is None or desk.clock.now() >= operation.watch_until


def look(desk: Desk, plan: Remediation, rollout: Rollout) -> Diagnosis | None:
    """The diagnosis of the newest pod; None when there is none to look at (an undo is judged by what was put back)."""
    target = plan.target
    alone = not target.pod and not target.node and target.workload is not None  # a serving endpoint: it has no pods, and is looked at itself
    if plan.direction == "undo" or not (alone or rollout.new_pods):
        return None
    try:
        if alone:
            return diagnose(desk, target, Frames(desk, None, desk.clock))
        pod = rollout.new_pods[0]
        query = TargetQuery(f"{target.namespace}/{pod}", "pod", pod, target.namespace, target.cluster, target.container or None)
        found = desk.engine.locate(query, {target.cluster: desk.reader(target)})
        return diagnose(desk, found, Frames(desk, None, desk.clock))
    except (UserError, Permanent):  # gone again, or not readable: the judge says that it could not be verified
        return None


def conclude(desk: Desk, case_id: str, operation_id: str, outcome: Outcome, rollout: Rollout | None = None) -> None:
    """The end of an operation, with the head of the audit trail, which is posted with it."""
    case = desk.get(case_id)
    if case.state is not State.VERIFYING or case.operation is None or case.operation.id != operation_id:
        return
    undo = case.operation.remediation.direction == "undo"
    state = _state_after(outcome.verdict, undo=undo)
    head = desk.note_once("outcome", case, operation=operation_id, verdict=outcome.verdict.value, state=state.value, says=outcome.says.en)

    def decide(newest: Case) -> Case:
        current = newest.operation
        if newest.state is not State.VERIFYING or current is None or current.id != operation_id:
            return newest
        after = desk.clock.now() + desk.timings.aftercare if state is State.VERIFIED and desk.timings.aftercare else None
        ended = replace(current, outcome=outcome, rollout=rollout or current.rollout, watch_until=None, audit_head=head, aftercare_until=after)
        return with_buttons(replace(move(newest, state, BOT, outcome.verdict.value, desk.clock.now()), operation=ended, trouble=None))

    kept = desk.change(case_id, decide)
    if kept.state is State.VERIFIED:
        desk.put("aftercare", case_id)
    if kept.state is not State.UNDONE:
        desk.put("close", case_id, after=desk.timings.undo_window)
    desk.announce(kept)


def _state_after(verdict: Verdict, *, undo: bool) -> State:
    if undo and verdict in (Verdict.VERIFIED, Verdict.UNDONE):
        return State.UNDONE
    return {
        Verdict.VERIFIED: State.VERIFIED,
        Verdict.UNDONE: State.UNDONE,
        Verdict.FAILED: State.VERIFICATION_FAILED,
        Verdict.NOT_VERIFIABLE: State.NOT_VERIFIABLE,
    }[verdict]
