"""The walk of a check: from a request to a diagnosed Case. Runs as the job "check"; run twice, it goes on where the Case stands."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from bot.cases.buttons import with_buttons
from bot.cases.desk import Desk
from bot.cases.offering import only_shown
from bot.errors import BadInput, Permanent, Refused, StoreError, TargetAmbiguous, TargetNotFound
from bot.lifecycle import BOT, move
from bot.model import Actor, Case, Diagnosis, ProgressLine, Request, State, Target, Words
from bot.ports import Clock, ClusterReader

log = logging.getLogger(__name__)
READ_OVER, QUOTED_FIRST, MOST_READINGS = timedelta(hours=1), 2, 2  # metrics: over which time, behind how many lines, how many
UNHURRIED = timedelta(seconds=1.5)  # between two rewrites of the progress message


def check(desk: Desk, case_id: str) -> None:
    """EXAMPLES: six lines. What cannot be found or read for good ends in CHECK_FAILED with its reason; what may be tried again raises Temporary."""
    case = _begin(desk, case_id)
    if case is None:
        _tell_end(desk, desk.get(case_id))  # by a process that was killed before it had that told
        return
    try:
        request = _complete(desk, case)
        target = find(desk, request)
        diagnosis = _with_readings(desk, target, diagnose(desk, target, Frames(desk, case_id, desk.clock)))
        by_hand = only_shown(desk, target, diagnosis)
    except (Refused, TargetNotFound, TargetAmbiguous, BadInput, Permanent) as wrong:
        failed(desk, case_id, trouble_of(wrong, desk.get(case_id).request))
        return
    _tell_end(desk, desk.change(case_id, lambda case: _diagnosed(case, target, diagnosis, by_hand, desk.clock.now())))


def _tell_end(desk: Desk, case: Case) -> None:
    """What a check came to, in the trail and in the thread. What is told already is not told again."""
    if not case.history or case.history[-1].from_state is not State.CHECKING:
        return
    found = case.diagnosis
    if case.state is State.DIAGNOSED and found is not None:
        desk.note_once("diagnosed", case, cause=found.cause, certainty=found.certainty.value, recommendations=[one.id for one in found.recommendations])
    elif case.state is State.CHECK_FAILED and case.trouble is not None:
        desk.note_once("check_failed", case, key=case.trouble.key)
    desk.put("close", case.id, at=case.history[-1].at + desk.timings.undo_window)
    desk.announce(case)


def diagnose(desk: Desk, target: Target, progress: "Frames") -> Diagnosis:
    """Collects and examines; also what verification does with the new pod."""
    bundle = desk.engine.collect(target, desk.reader(target), desk.shells, progress, clock=desk.clock, budget_s=desk.timings.collect_budget_s)
    return desk.engine.examine(bundle, desk.knowledge)


def _with_readings(desk: Desk, target: Target, diagnosis: Diagnosis) -> Diagnosis:
    """With what the metrics say, behind the first words of the proof. They are shown; they decide nothing, so that the evidence alone gives the same answer."""
    found = desk.engine.readings(target, diagnosis, desk.clock.now(), READ_OVER)
    first, rest = diagnosis.evidence[:QUOTED_FIRST], diagnosis.evidence[QUOTED_FIRST:]
    return replace(diagnosis, evidence=(*first, *found[:MOST_READINGS], *rest)) if found else diagnosis


def _begin(desk: Desk, case_id: str) -> Case | None:
    """Whoever asks is looked at before anything else; None when there is nothing to do (any more)."""
    case = desk.get(case_id)
    if case.state is State.RECEIVED:
        note_asked(desk, case)
        try:
            _check_who(desk, case.request)
        except Refused as refused:
            _turn_away(desk, case, refused)
            return None
        case = desk.change(case_id, lambda case: move(case, State.CHECKING, BOT, "the check begins", desk.clock.now()) if case.state is State.RECEIVED else case)
        desk.announce(case)
    return case if case.state is State.CHECKING else None


def _check_who(desk: Desk, request: Request) -> None:
    desk.policy.check_asking(request.actor, request.conversation)
    if request.actor.origin == "slack":
        desk.policy.check_person(desk.person(request.actor.id))


def _turn_away(desk: Desk, case: Case, refused: Refused) -> None:
    desk.note("refused", case, who=request_by(case.request), verb="check", key=refused.key)
    if case.request.conversation is not None:
        desk.tell(case.request.actor, case.request.conversation, Words(refused.key, refused.parameters))
    trouble = Words(refused.key, refused.parameters)
    desk.change(case.id, lambda case: replace(move(case, State.CLOSED, BOT, refused.key, desk.clock.now()), trouble=trouble) if case.state is State.RECEIVED else case)


def note_asked(desk: Desk, case: Case) -> None:
    """Who wants it: written when it is received, and where the process ended before that by the next one."""
    desk.note_once("asked", case, who=request_by(case.request), alert=case.request.alert.key if case.request.alert else "")


def request_by(request: Request) -> str:
    return by(request.actor)


def by(actor: Actor) -> str:
    return f"{actor.origin}:{actor.id}"


def _complete(desk: Desk, case: Case) -> Request:
    """An alert whose details are elsewhere gets them once; they are kept with the Case."""
    if desk.complete is None or case.request.alert is None:
        return case.request
    completed = desk.complete(case.request)
    return desk.change(case.id, lambda case: replace(case, request=completed) if case.request != completed else case).request


def find(desk: Desk, request: Request) -> Target:
    """The one target, among what whoever asks may see: names that they may not read are neither found nor suggested."""
    query, actor, conversation = request.query, request.actor, request.conversation
    check_reading(desk, request)
    if query.kind == "unknown":
        raise TargetNotFound(query.text)
    readers = {name: reader for name, reader in desk.readers.items() if desk.policy.may_read(actor, conversation, name, query.namespace)}
    if not readers:
        raise Refused("namespace_not_readable", {"namespace": query.namespace or "", "cluster": query.cluster or ""})

    def seen(name: str) -> bool:
        namespace, cluster = _place_of(name)
        return desk.policy.may_read(actor, conversation, cluster, namespace)

    try:
        target = desk.engine.locate(query, readers)
    except TargetNotFound as wrong:
        raise TargetNotFound(str(wrong), [name for name in wrong.nearest if seen(name)]) from wrong
    except TargetAmbiguous as wrong:
        target = _only_visible(desk, request, readers, wrong, seen)
    if query.namespace is None and query.name not in (target.pod, target.node) and not desk.policy.may_read(actor, conversation, target.cluster, target.namespace):
        raise TargetNotFound(query.text)  # a prefix must not show what stands where they may not look
    desk.policy.check_reading(actor, conversation, target.cluster, target.namespace)
    return target


def check_reading(desk: Desk, request: Request) -> None:
    """Refuses what is already known to lie where whoever asks may not look. A cluster may be named by its beginning: then it is not known yet."""
    query = request.query
    cluster = query.cluster if query.cluster in desk.readers else None
    desk.policy.check_reading(request.actor, request.conversation, cluster, query.namespace)


def _only_visible(desk: Desk, request: Request, readers: Mapping[str, ClusterReader], wrong: TargetAmbiguous, seen: Callable[[str], bool]) -> Target:
    """Several match. When they may see just one of them, that is the one they mean."""
    visible = [name for name in wrong.candidates if seen(name)]
    if not visible:
        raise TargetNotFound(request.query.text) from wrong
    namespace, cluster = _place_of(visible[0])
    if len(visible) == 1 and len(visible) < len(wrong.candidates) and namespace:
        return desk.engine.locate(replace(request.query, namespace=namespace, cluster=cluster or request.query.cluster), readers)
    raise TargetAmbiguous(str(wrong) if len(visible) == len(wrong.candidates) else request.query.text, visible) from wrong


_NAMED = re.compile(r"(?:(?P<namespace>[^/\s]+)/)?[^/\s]+(?: \(cluster (?P<cluster>[^)]+)\))?\Z")


def _place_of(name: str) -> tuple[str | None, str | None]:
    """Namespace and cluster of a listed name, `ns/pod (cluster prod)` as `evidence/locate` writes it; a node is of the namespace ""."""
    found = _NAMED.match(name)
    return (found["namespace"] or "", found["cluster"]) if found else ("", None)


def trouble_of(wrong: Exception, request: Request) -> Words:
    """Why a check failed, as words for people."""
    what = request.query.text
    if isinstance(wrong, Refused):
        return Words(wrong.key, wrong.parameters)
    if isinstance(wrong, TargetAmbiguous):
        return Words("target_ambiguous", {"target": what, "candidates": "\n".join(wrong.candidates)})
    if isinstance(wrong, TargetNotFound):
        if request.query.kind == "unknown":
            return Words("alert_names_nothing", {"title": request.alert.title if request.alert else "", "looked_for": what})
        return Words("target_not_found", {"target": what, "nearest": ", ".join(wrong.nearest)})
    if isinstance(wrong, BadInput):
        return Words("wrong_input", {"what": str(wrong)})
    return Words("cannot_look", {"target": what, "reason": str(wrong)})


def failed(desk: Desk, case_id: str, trouble: Words) -> None:
    def decide(case: Case) -> Case:
        now = desk.clock.now()
        if case.state is State.RECEIVED:
            case = move(case, State.CHECKING, BOT, "the check begins", now)
        if case.state is not State.CHECKING:
            return case
        return with_buttons(replace(move(case, State.CHECK_FAILED, BOT, trouble.key, now), trouble=trouble))

    _tell_end(desk, desk.change(case_id, decide))


def _diagnosed(case: Case, target: Target, diagnosis: Diagnosis, by_hand: tuple[int, ...], now: datetime) -> Case:
    if case.state is not State.CHECKING:
        return case
    return with_buttons(replace(move(case, State.DIAGNOSED, BOT, diagnosis.cause, now), target=target, diagnosis=diagnosis, by_hand=by_hand, trouble=None))


class Frames:
    """Progress as a display shows it: every line is kept, the thread is rewritten now and then. `case_id` None: nobody looks."""

    def __init__(self, desk: Desk, case_id: str | None, clock: Clock) -> None:
        self._desk, self._case_id, self._clock = desk, case_id, clock
        self._lines: dict[str, ProgressLine] = {}
        self._shown: datetime | None = None

    def report(self, line: ProgressLine) -> None:
        self._lines[line.name] = line
        now = self._clock.now()
        if self._case_id is None or (self._shown is not None and now - self._shown < UNHURRIED):
            return
        self._shown = now
        lines = tuple(self._lines.copy().values())
        try:
            self._desk.announce(self._desk.change(self._case_id, lambda case: replace(case, progress=lines) if case.state is State.CHECKING else case))
        except StoreError as wrong:  # a frame that is not shown is no reason to stop looking
            log.warning("progress of case %s: %s", self._case_id, wrong)
