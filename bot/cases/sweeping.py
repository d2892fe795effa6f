"""What a killed process, a locked database or a full disk left without a job is picked up: at the start, and every minute by the job "sweep".

It puts the job that the state of each open Case makes due, unless one waits or runs, and has shown what the thread does not show yet. It decides nothing
about a Case: each job looks itself whether there is something to do, so that one too many does nothing.
"""

import logging
from datetime import datetime, timedelta

from bot.cases import aftercare, announcing
from bot.cases.buttons import started
from bot.cases.desk import Desk
from bot.model import Case, State

EVERY = timedelta(minutes=1)
NAME = "sweep"
DUE = {
    State.RECEIVED: "check",
    State.CHECKING: "check",
    State.PLANNING: "plan",
    State.AWAITING_APPROVAL: "expire",
    State.APPROVED: "execute",
    State.EXECUTING: "execute",
    State.WATCHING: "watch",
    State.VERIFYING: "verify",
}
log = logging.getLogger(__name__)


def sweep(desk: Desk) -> int:
    """Looks once, and again in a while. Gives how many Cases are open. Raises StoreError: then the queue tries again."""
    found = desk.store.open_cases()
    for case in found:
        _pick_up(desk, case)
    again(desk)
    return len(found)


def work(desk: Desk) -> None:
    """The job."""
    sweep(desk)


def again(desk: Desk) -> None:
    """The next look; one that failed for good must not be the last."""
    desk.put(NAME, "", after=EVERY)


def _pick_up(desk: Desk, case: Case) -> None:
    name, at = _due(desk, case)
    if desk.put_missing(name, case.id, at=at):
        log.info("case %s: its job %s was missing", case.id, name)
    operation = started(case)
    if operation is not None and aftercare.due(operation):
        desk.put_missing("aftercare", case.id)
    if not announcing.is_shown(case, desk.clock.now()):
        desk.put_missing("announce", case.id)


def _due(desk: Desk, case: Case) -> tuple[str, datetime | None]:
    if case.state not in DUE:
        return "close", case.updated_at + desk.timings.undo_window
    return DUE[case.state], case.operation.expires_at if case.state is State.AWAITING_APPROVAL and case.operation else None
