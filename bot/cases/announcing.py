"""The thread shows the Case as it is: the job "announce". It posts what is missing and rewrites what changed, so that it may run any number of times.

That a post is about to be sent is kept first (an empty id in `case.posts`): after a kill the chat looks for it before it posts again. Which messages
there are, is decided here; how they look, by the chat.
"""

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from bot.cases.aftercare import due
from bot.cases.desk import Desk
from bot.errors import NotFound, Permanent
from bot.model import Case, Operation, State

STEP_S = 15  # how often a running time is rewritten, seconds
# What people wait for is rewritten now and then although nothing changed, since only then is it noticed that somebody deleted its message: often in the first hour, then seldom.
OFTEN, SELDOM, FIRST = timedelta(minutes=5), timedelta(hours=1), timedelta(hours=1)
LOOKED_AT = (State.AWAITING_APPROVAL, State.APPROVED, State.EXECUTING, State.WATCHING, State.VERIFYING, State.STUCK)
log = logging.getLogger(__name__)


def announce(desk: Desk, case_id: str) -> None:
    """Raises Temporary when the chat is down: the queue tries again."""
    case = desk.get(case_id)
    if case.request.conversation is None:
        return
    for purpose, print_ in _prints(case, desk.clock.now()):
        if case.announced.get(purpose) in (print_, _failed(print_)):
            continue
        try:
            case = _show(desk, case, purpose, print_)
        except Permanent as wrong:
            log.warning("case %s: the message %s cannot be shown: %s", case_id, purpose, wrong)
            desk.note("not_shown", case, purpose=purpose, reason=str(wrong))
            case = _keep(desk, case_id, purpose, None, _failed(print_))
            if purpose == "top":
                return


def is_shown(case: Case, now: datetime) -> bool:
    """Whether the thread shows all of the Case, as far as it can be shown."""
    if case.request.conversation is None:
        return True
    prints = _prints(case, now)
    if case.announced.get("top") == _failed(dict(prints)["top"]):
        return True
    return all(case.announced.get(purpose) in (print_, _failed(print_)) for purpose, print_ in prints)


def _prints(case: Case, now: datetime) -> list[tuple[str, str]]:
    return [(purpose, _fingerprint(shows)) for purpose, shows in _messages(case, _looks(case, now))]


def _looks(case: Case, now: datetime) -> int:
    """How many times it was due to be looked at since the Case came into its state. A verified change is watched for a while, too."""
    watched = case.state is State.VERIFIED and case.operation is not None and due(case.operation)
    if not case.history or not (watched or case.state in LOOKED_AT):
        return 0
    passed = max(now - case.history[-1].at, timedelta())
    return min(passed, FIRST) // OFTEN + max(passed - FIRST, timedelta()) // SELDOM


def _failed(print_: str) -> str:
    return f"failed:{print_}"


def _show(desk: Desk, case: Case, purpose: str, print_: str) -> Case:
    message = case.posts.get(purpose)
    if message:
        try:
            if not purpose.startswith("note:"):  # a note says what was so at its time
                desk.chat.update(case, purpose, message)
            return _keep(desk, case.id, purpose, None, print_)
        except NotFound as gone:  # deleted, or too old to be rewritten: people still have to see how things stand
            log.info("case %s: the message %s is posted anew: %s", case.id, purpose, gone)
    if message != "":
        _keep(desk, case.id, purpose, "", None)
    try:
        posted = desk.chat.post(case, purpose)
    except NotFound:
        case = _without_thread(desk, case, purpose)
        posted = desk.chat.post(case, purpose)
    return _keep(desk, case.id, purpose, posted, print_)


def _without_thread(desk: Desk, case: Case, purpose: str) -> Case:
    """The Case where a new thread can begin, when the one that it was told in is gone; for what stands in the thread, with its first message posted anew."""
    place = case.request.conversation
    if place is None or (place.thread is None and purpose == "top"):
        raise NotFound("neither the thread nor the channel is there")
    case = desk.change(case.id, lambda now: replace(now, request=replace(now.request, conversation=replace(place, thread=None))), touched=False)
    return case if purpose == "top" else _keep(desk, case.id, "top", desk.chat.post(replace(case, posts={name: ts for name, ts in case.posts.items() if name != "top"}), "top"), None)


def _keep(desk: Desk, case_id: str, purpose: str, message: str | None, print_: str | None) -> Case:
    def decide(case: Case) -> Case:
        posts = {**case.posts, purpose: message} if message is not None else case.posts
        announced = {**case.announced, purpose: print_} if print_ is not None else case.announced
        return replace(case, posts=posts, announced=announced)

    return desk.change(case_id, decide, touched=False)


def _messages(case: Case, looks: int) -> Iterator[tuple[str, Any]]:
    """Purpose and what its message shows, in the order of the thread. `looks`: those that were due in this state."""
    current = case.operation
    yield "top", (looks, case.state, case.progress, case.diagnosis, case.target, case.trouble, case.buttons, current.expires_at if current else None)
    if case.diagnosis is not None and case.state is not State.CHECKING:
        yield "evidence", case.diagnosis
        yield "recommendation", (case.diagnosis, [one for one in case.buttons if one.verb in ("apply", "show")])
    for operation in sorted((*case.operations, *((current,) if current else ())), key=lambda one: (one.requested_at, one.id)):
        yield from _of_operation(case, operation, looks, now=operation is current)
    if case.notes:
        yield f"note:{case.notes}", case.notes


def _of_operation(case: Case, operation: Operation, looks: int, *, now: bool) -> Iterator[tuple[str, Any]]:
    live = (looks, case.state, case.trouble, case.buttons) if now else ()
    yield f"plan:{operation.remediation.id}", (operation.approvals, operation.ended, operation.started_at, live)
    if operation.started_at is not None or case.posts.get(f"outcome:{operation.id}"):  # one whose first step was refused has not begun after all
        running = now and operation.outcome is None
        elapsed = int((case.updated_at - operation.started_at).total_seconds() // STEP_S) if running and operation.started_at else 0
        yield f"outcome:{operation.id}", (operation.started_at, operation.ended, operation.next_step, operation.rollout, operation.outcome, operation.watch_until, operation.aftercare_until, operation.aftermath, live, elapsed)


def _fingerprint(shows: Any) -> str:
    return hashlib.sha256(repr(shows).encode("utf-8", "backslashreplace")).hexdigest()[:16]
