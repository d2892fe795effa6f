"""A job was given up (it failed each time, or for good): the job "given_up" says so in the Case, so that nobody waits for what does not come."""

import logging
from dataclasses import replace

from bot.cases import aftercare, check, execution, rollout, sweeping
from bot.cases.desk import Desk
from bot.cases.ending import back
from bot.cases.pressed import press_of
from bot.model import Case, Job, Outcome, State, Text, Verdict, Words

log = logging.getLogger(__name__)


def given_up(desk: Desk, job: Job) -> None:
    name, reason = job.parameters["job"], job.parameters["error"]
    log.warning("case %s: gave up %s: %s", job.case_id, name, reason)
    if name == "press":
        pressed = press_of(job.parameters)
        desk.tell(pressed.actor, pressed.conversation, Words("temporarily_not", {"what": reason}))
        return
    if name == sweeping.NAME:
        sweeping.again(desk)
        return
    case = desk.store.get(job.case_id)
    if case is None:
        return
    desk.note("gave_up", case, job=name, reason=reason)
    if name == "check":
        check.failed(desk, case.id, Words("cannot_look", {"target": case.request.query.text, "reason": reason}))
    elif name in ("plan", "execute"):
        _not_carried_out(desk, case, reason)
    elif name == "aftercare":
        aftercare.lost(desk, case.id, reason)
    elif name == "watch":
        execution.stuck(desk, case.id, Words("cannot_watch", {"reason": reason}))
    elif name == "verify" and case.operation is not None:
        says = Text(f"Whether it worked cannot be verified: {reason}.", f"无法验证是否有效：{reason}。")
        rollout.conclude(desk, case.id, case.operation.id, Outcome(Verdict.NOT_VERIFIABLE, says, desk.clock.now()))


def _not_carried_out(desk: Desk, case: Case, reason: str) -> None:
    """Before the first write: nothing was done. After it, or when nobody knows: stuck."""
    operation = case.operation
    if case.state is State.EXECUTING and operation is not None and (operation.next_step > 0 or operation.sending is not None):
        execution.stuck(desk, case.id, Words("step_refused", {"step": str(operation.next_step + 1), "reason": reason}))
        return

    def decide(newest: Case) -> Case:
        if newest.state not in (State.PLANNING, State.APPROVED, State.EXECUTING):
            return newest
        planned = replace(newest.operation, started_at=None) if newest.operation and newest.state is not State.PLANNING else newest.operation
        return back(desk, replace(newest, operation=planned), Words("temporarily_not", {"what": reason}))

    desk.announce(desk.change(case.id, decide))
