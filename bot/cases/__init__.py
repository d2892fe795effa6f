"""The use-cases of a Case: receive, press, freeze, status, history; and the jobs that carry it on.

Handlers call `Cases` and read nouns. Each call keeps what came and puts a job; nothing long happens in it. The jobs are

    check     receive -> target -> evidence -> diagnosis         check.py
    press     a button: who, where, does it still count          press.py, pressed.py; approve and reject: approving.py; wait and leave: halted.py
    plan      Apply or Undo: plan, policy, dry run, or a patch   planning.py
    execute   all checks again, then the steps                   execution.py
    watch     one look at the rollout                            rollout.py
    verify    one look at the new process                        rollout.py
    aftercare one look at a verified change                      aftercare.py
    expire    an approval that nobody gave                       ending.py
    close     a Case that nobody touched                         ending.py
    announce  the thread shows the Case                          announcing.py
    sweep     open Cases whose job or message is missing         sweeping.py
    given_up  a job that failed each time                        trouble.py

Keys of messages that come from here (`Case.trouble`, `Operation.ended`, whispers), besides those of `bot/policy.py`:

    no_button           what
    already_decided     who, what (verb), at, state: another press was first
    not_now             state, wanted
    nothing_to_undo     (none)
    form_void           (none): the form was sent already, or is another person's
    no_writer           cluster: it has no writing credentials
    target_not_found    target, nearest (may be empty)
    target_ambiguous    target, candidates (one a line)
    alert_names_nothing  title, looked_for
    cannot_look         target, reason
    wrong_input         what
    changed             path, by, more (may be empty): the object is not what it was at the preview; `case.differences` has the details
    changed_since       path, by, more (may be empty): at Undo, it is not what the bot left
    altered             digest: the kept plan is not the one that was shown and approved
    plan_gone           what: the cluster says that the plan does not fit any more
    plan_refused        reason
    dry_run_refused     reason: in the cluster's words
    handed_out          remedy: `case.handout` has what to paste
    rejected            who, reason (may be empty)
    expired             at
    step_refused        step, reason
    took_too_long       ready, wanted
    cannot_watch        reason
    reverted            by (may be empty), path: somebody else changed what was applied
    temporarily_not     what
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bot.cases import aftercare, announcing, approving, check, ending, execution, planning, press, rollout, sweeping, switch, trouble
from bot.cases.desk import Audit, Desk, Timings, new_id
from bot.cases.engine import Engine, real
from bot.cases.pressed import job_of
from bot.errors import Permanent, Refused, Temporary
from bot.model import Actor, Button, Case, Conversation, Job, Press, Request, State, Words
from bot.policy import Policy
from bot.ports import CaseStore, Chat, Clock, ClusterReader, ClusterWriter, JobQueue, People, Shells

__all__ = ["Cases", "Engine", "Status", "Timings"]

WATCH_ATTEMPTS = 40  # a cluster that does not answer for a while must not end a watch
LOOK_BACK = 100  # Cases among which the last ones of somebody are looked for
CHAT_ATTEMPTS = 200  # with pauses of up to a minute: some three hours


@dataclass(frozen=True, slots=True)
class Status:
    """What stands open. `frozen` is (who, at)."""

    frozen: tuple[str, str] | None
    open: tuple[Case, ...]
    clusters: tuple[str, ...]


class Cases:
    """See the module. `complete` fills in the details of an alert that came without them (PagerDuty's are fetched by its API)."""

    def __init__(
        self, store: CaseStore, queue: JobQueue, readers: Mapping[str, ClusterReader], writers: Mapping[str, ClusterWriter], shells: Shells | None,
        chat: Chat, people: People, policy: Policy, knowledge: Any, audit: Audit, clock: Clock, *,
        timings: Timings | None = None, engine: Engine | None = None, complete: Callable[[Request], Request] | None = None,
    ) -> None:  # fmt: skip
        self._desk = Desk(
            store, queue, readers, writers, shells, chat, people, policy, knowledge, audit, clock, timings or Timings(), engine or real(), complete
        )

    # -------------------------------------------------------- what handlers call

    def receive(self, request: Request) -> Case:
        """Keeps the request and puts its check; what arrives twice is one Case. Raises Refused when it may not be asked from there at all."""
        desk = self._desk
        desk.policy.check_asking(request.actor, request.conversation)
        if request.alert is None:  # an alert gets its thread, which says so
            check.check_reading(desk, request)
        now = desk.clock.now()
        case, new = desk.store.create(Case(new_id("c-"), 0, State.RECEIVED, request, now, now), request.key)
        if new:
            check.note_asked(desk, case)
        if case.state is State.RECEIVED:
            desk.put("check", case.id)
        return case

    def press(self, pressed: Press) -> None:
        """Keeps the press; whether it counts is decided, and told, by its job. Raises Refused for a form whose name is not the right one."""
        case = self._desk.store.find_button(pressed.button_id)
        approving.check_form(self._desk, case, pressed)
        self._desk.queue.put(job_of(pressed, case.id if case else ""))

    def form(self, button_id: str, actor: Actor) -> tuple[Case, Button]:
        """What somebody has to see and type who approves by typing a name, and the id under which they send it. Raises Refused, StoreError."""
        return approving.form(self._desk, button_id, actor)

    def freeze(self, actor: Actor, on: bool, conversation: Conversation | None = None) -> None:
        """The kill switch: whoever may ask stops all writing at once; only an approver lets it go on. Raises Refused."""
        desk = self._desk
        try:
            self._check_switch(actor, conversation, on=on)
        except Refused as refused:
            desk.audit.append({"what": "refused", "who": check.by(actor), "verb": "freeze" if on else "unfreeze", "key": refused.key})
            raise
        desk.audit.append(switch.turn(desk.store, desk.clock, check.by(actor), on=on))

    def _check_switch(self, actor: Actor, conversation: Conversation | None, *, on: bool) -> None:
        if on:
            self._desk.policy.check_asking(actor, conversation)
            with suppress(Temporary):  # a platform that does not say who somebody is must not keep the switch from working
                self._check_colleague(actor)
        elif actor.origin != "terminal":
            self._check_unfreezer(actor)

    def _check_colleague(self, actor: Actor) -> None:
        if actor.origin == "slack":
            self._desk.policy.check_person(self._desk.person(actor.id))

    def _check_unfreezer(self, actor: Actor) -> None:
        desk = self._desk
        self._check_colleague(actor)
        try:
            approver = desk.policy.is_approver(actor.id, desk.policy.approvers, desk.people.members)
        except Permanent as wrong:
            raise Refused("unknown_person", {"reason": str(wrong)}) from wrong
        if not approver:
            raise Refused("not_unfreezer")

    def status(self, actor: Actor, conversation: Conversation | None) -> Status:
        """What they may look at from there. Raises Refused, Temporary."""
        desk = self._desk
        self._check_looking(actor, conversation)
        clusters = [name for name in sorted(desk.readers) if desk.policy.may_read(actor, conversation, name, None)]
        seen = tuple(case for case in desk.store.open_cases() if self._sees(actor, conversation, case))
        return Status(desk.frozen(), seen, tuple(clusters))

    def history(self, actor: Actor, conversation: Conversation | None, limit: int = 20) -> Sequence[Case]:
        """The last Cases that they may look at from there. Raises Refused, Temporary."""
        self._check_looking(actor, conversation)
        return [case for case in self._desk.store.recent(LOOK_BACK) if self._sees(actor, conversation, case)][:limit]

    def _check_looking(self, actor: Actor, conversation: Conversation | None) -> None:
        self._desk.policy.check_asking(actor, conversation)
        self._check_colleague(actor)

    def _sees(self, actor: Actor, conversation: Conversation | None, case: Case) -> bool:
        """Whose thread stands in the same channel, they have before them; else it is a matter of where its target is."""
        home = case.request.conversation
        if home is not None and conversation is not None and home.channel == conversation.channel:
            return True
        place = case.target or case.request.query
        unknown = place.namespace is None or place.cluster is None  # then only who may look everywhere may know of it
        return self._desk.policy.may_read(actor, conversation, "" if unknown else place.cluster, "" if unknown else place.namespace)

    def case(self, case_id: str) -> Case | None:
        return self._desk.store.get(case_id)

    # -------------------------------------------------------- what the composition root calls

    def bind(self, queue: JobQueue) -> None:
        """Registers the jobs."""
        of_case: dict[str, Callable[[Desk, str], None]] = {
            "check": check.check,
            "plan": planning.plan,
            "execute": execution.execute,
            "watch": rollout.watch,
            "verify": rollout.verify,
            "expire": ending.expire,
            "close": ending.close,
        }
        for name, work in of_case.items():
            queue.register(name, self._on_case(work), time_to_run_s=60)
        queue.register("aftercare", self._on_case(aftercare.aftercare), time_to_run_s=60, attempts=WATCH_ATTEMPTS)
        queue.register("announce", self._on_case(announcing.announce), time_to_run_s=60, attempts=CHAT_ATTEMPTS)
        queue.register("press", lambda job: press.press(self._desk, job), time_to_run_s=60)
        queue.register(sweeping.NAME, lambda job: sweeping.work(self._desk), time_to_run_s=60, attempts=CHAT_ATTEMPTS)
        queue.register("given_up", lambda job: trouble.given_up(self._desk, job), time_to_run_s=60)

    def _on_case(self, work: Callable[[Desk, str], None]) -> Callable[[Job], None]:
        return lambda job: work(self._desk, job.case_id)

    def resume(self) -> int:
        """Puts the job that is due for each open Case, and has shown what its thread does not show: what a killed process left is picked up; then that again every
        minute. Gives how many are open."""
        return sweeping.sweep(self._desk)

    def tell(self, actor: Actor, conversation: Conversation, refused: Refused) -> None:
        """Tells one person why something was refused."""
        self._desk.tell(actor, conversation, Words(refused.key, refused.parameters))
