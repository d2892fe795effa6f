"""What every use-case has at hand: the ports, the policy, and the one way to change a Case (read, decide, compare-and-set, again when somebody was faster)."""

import logging
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from bot.cases import switch
from bot.cases.engine import Engine
from bot.change_times import HOUR
from bot.errors import Permanent, Refused, VersionConflict, WorldError
from bot.model import Act, Actor, Case, Conversation, Job, Operation, Person, Remediation, Request, Target, Words
from bot.policy import Policy, askers, place
from bot.ports import CaseStore, Chat, Clock, ClusterReader, ClusterWriter, JobQueue, People, Shells

TRIES = 30
log = logging.getLogger(__name__)


class Audit(Protocol):
    """`bot.audit.AuditTrail`: adds an event and gives the new head (its text is NUMBER:HASH)."""

    def append(self, event: Mapping[str, Any]) -> object: ...

    def append_once(self, event: Mapping[str, Any], since: datetime, loose: Collection[str] = ()) -> object: ...


@dataclass(frozen=True, slots=True)
class Timings:
    """How long things may take."""

    approval_ttl: timedelta = timedelta(minutes=25)
    collect_budget_s: float = 25
    watch_interval: timedelta = timedelta(seconds=5)
    watch_timeout: timedelta = timedelta(minutes=30)
    verification_window: timedelta = timedelta(minutes=15)
    verification_interval: timedelta = timedelta(seconds=15)
    aftercare: timedelta = timedelta(minutes=30)
    aftercare_interval: timedelta = timedelta(seconds=30)
    undo_window: timedelta = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Desk:
    """`complete` fills in what an alert came without (its details); None: it came with all there is."""

    store: CaseStore
    queue: JobQueue
    readers: Mapping[str, ClusterReader]
    writers: Mapping[str, ClusterWriter]
    shells: Shells | None
    chat: Chat
    people: People
    policy: Policy
    knowledge: Any
    audit: Audit
    clock: Clock
    timings: Timings
    engine: Engine
    complete: Callable[[Request], Request] | None = None

    # -------------------------------------------------------- the Case

    def get(self, case_id: str) -> Case:
        case = self.store.get(case_id)
        if case is None:
            raise Permanent(f"there is no case {case_id}")
        return case

    def change(self, case_id: str, decide: Callable[[Case], Case], *, touched: bool = True) -> Case:
        """Reads the Case, lets `decide` make the new one, keeps it; when somebody was faster, from the start. `decide` may raise, or give the Case as it is.
        `touched` False: what is kept is no news of the Case (where its messages are), so it stays as old as it was."""
        for _ in range(TRIES):
            case = self.get(case_id)
            decided = decide(case)
            if decided is case:
                return case
            try:
                return self.store.save(replace(decided, updated_at=self.clock.now()) if touched else decided)
            except VersionConflict:
                continue
        raise VersionConflict(f"case {case_id} is changed all the time")

    def put(self, name: str, case_id: str, *, after: timedelta | None = None, at: datetime | None = None, key: str | None = None) -> None:
        """A job for the Case; of one name and Case at most one waits."""
        when = at or (self.clock.now() + after if after else None)
        self.queue.put(Job(name, case_id, run_at=when, key=key or f"{name}:{case_id}"))

    def put_missing(self, name: str, case_id: str, *, at: datetime | None = None) -> bool:
        """The same, unless such a job waits or runs: one that failed keeps its pause and its count. Whether it was put."""
        return self.queue.put_missing(Job(name, case_id, run_at=at, key=f"{name}:{case_id}"))

    def announce(self, case: Case) -> None:
        """The thread shows the Case as it is now, sooner or later: a job, so that a chat that is down holds up nothing."""
        if case.request.conversation is not None:
            self.put("announce", case.id)

    def note(self, what: str, case: Case, **fields: Any) -> str:
        """Adds to the audit trail and gives its head."""
        return str(self.audit.append(_event(what, case, fields)))

    def note_once(self, what: str, case: Case, *, loose: Collection[str] = (), **fields: Any) -> str:
        """The same for what decides a state, and is written before that is kept: done again by the next process after a kill, it stands there once. `moves` (how many
        the Case had made) tells it from the same at another time; `loose` are fields that may differ between two tries."""
        since = case.history[-1].at if case.history else case.created_at
        return str(self.audit.append_once(_event(what, case, {**fields, "moves": len(case.history)}), since, loose))

    # -------------------------------------------------------- people

    def person(self, actor_id: str) -> Person:
        """Fresh, or refused: whoever the platform does not know may do nothing. A platform that does not answer raises Temporary."""
        try:
            return self.people.person(actor_id)
        except Permanent as wrong:
            raise Refused("unknown_person", {"reason": str(wrong)}) from wrong

    def is_approver(self, actor_id: str, remediation: Remediation) -> bool:
        try:
            return self.policy.is_approver(actor_id, self.policy.approver_rules(remediation.target, remediation.action), self.people.members)
        except Permanent as wrong:
            raise Refused("unknown_person", {"reason": str(wrong)}) from wrong

    def check_enough_left(self, case: Case, remediation: Remediation, applied: Actor) -> None:
        """Whether there are people who could still approve. While the platform does not say who is in a group, nobody is refused for that."""
        rules = self.policy.approver_rules(remediation.target, remediation.action)
        try:
            may = frozenset(one for rule in rules for one in (*rule.people, *(member for group in rule.groups for member in self.people.members(group))))
        except WorldError:
            return
        self.policy.check_enough_left(remediation, may, [applied.id, *(askers(case) if remediation.direction == "apply" else ())])

    def involved(self, case: Case, operation: Operation) -> tuple[Person, ...]:
        """Who asked and who pressed Apply, with their addresses. Somebody whom the platform does not know any more is known by id alone."""
        return tuple(self.known_or_bare(one) for one in dict.fromkeys([operation.requested_by.id, *askers(case)]))

    def known_or_bare(self, actor_id: str) -> Person:
        try:
            return self.people.person(actor_id)
        except Permanent:
            return Person(actor_id)

    def tell(self, actor: Actor, conversation: Conversation, words: Words) -> None:
        """Tells one person. A chat that refuses this for good (they left the channel) is logged; one that is down raises Temporary."""
        if actor.origin != "slack":
            return
        try:
            self.chat.whisper(actor, conversation, words)
        except Permanent as wrong:
            log.warning("%s could not be told %s: %s", actor.id, words.key, wrong)

    # -------------------------------------------------------- when, and the switch

    def check_when(self, remediation: Remediation, *, but_of: str = "") -> None:
        """Windows, dated freezes, quotas. `but_of`: the operation that is asked about; it is not counted against itself once it has begun."""
        now = self.clock.now()
        self.policy.check_when(remediation, [one for one in self.store.acts(now - HOUR) if one.id != but_of], now)

    def record_act(self, operation: Operation) -> None:
        """Counts a change that is begun; of two at once the second sees the first. Raises Refused."""
        now, (cluster, namespace) = self.clock.now(), place(operation.remediation)
        act = Act(operation.id, now, cluster, namespace)
        self.store.record_act(act, now - HOUR, lambda others: self.policy.check_quotas(operation.remediation, others, now))

    def frozen(self) -> tuple[str, str] | None:
        """Who stopped all writing, and when."""
        return switch.state(self.store)

    def reader(self, target: Target) -> ClusterReader:
        try:
            return self.readers[target.cluster]
        except KeyError:
            raise Permanent(f"the cluster {target.cluster} is not configured any more") from None

    def writer(self, target: Target) -> ClusterWriter:
        try:
            return self.writers[target.cluster]
        except KeyError:
            raise Refused("no_writer", {"cluster": target.cluster}) from None


def _event(what: str, case: Case, fields: Mapping[str, Any]) -> dict[str, Any]:
    target = str(case.target) if case.target else case.request.query.text
    return {"what": what, "case": case.id, "target": target, "cluster": case.target.cluster if case.target else "", **fields}


def new_id(prefix: str = "") -> str:
    """Unguessable, safe in an annotation, an URL and a button."""
    return prefix + secrets.token_hex(12)
