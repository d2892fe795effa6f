"""Who may look at, change and approve what, where, and until when. Pure: data from the settings in, `Refused(key, parameters)` or nothing out.

Rules: an empty list means nobody; read-only is the default; what is not allowed is refused; guests, bots and people of
another organisation get nothing. Who is in a group is asked by `bot/cases` (fresh) and handed in.

Keys of the refusals (`playbooks/messages/<language>/<key>.j2`) and their parameters:

    who asks      bot_account, deleted_account, guest, stranger             (none)
                  unknown_person        reason: what the chat platform said
    where         direct_message        (none): not in a direct message
                  channel_not_allowed   channel
                  wrong_channel         channel: the button belongs to another conversation
                  namespace_not_readable  namespace, cluster
    what          read_only             (none): no action is enabled
                  action_not_enabled    action
                  protected_namespace   namespace
                  namespace_not_changeable  namespace
                  risk_too_high         risk, highest
                  no_approvers          namespace, cluster: nobody is configured who could approve
                  frozen                who, at: the kill switch is on
    approval      not_approver          who: ids of the groups and people who may
                  second_person_asked   (none): who asked for the check may not approve
                  second_person_applied  (none): who pressed Apply or chose the size may not approve
                  expired               at
                  clock_moved           (none): the clock is before the time of the request
    switch        not_unfreezer         (none): only an approver turns writing on again
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from bot.errors import Refused
from bot.model import Actor, Case, Conversation, Operation, Person, Remediation, Target

RISKS = ("low", "medium", "high")
CLOCK_SLACK = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Reach:
    """Clusters and namespaces by shell patterns, as `*` and `team-*`."""

    clusters: tuple[str, ...] = ("*",)
    namespaces: tuple[str, ...] = ("*",)

    def covers(self, cluster: str | None, namespace: str | None) -> bool:
        """None stands for "not known yet": then it is covered when anything is."""
        return _fits(self.clusters, cluster) and _fits(self.namespaces, namespace)


@dataclass(frozen=True, slots=True)
class ReadRule:
    """In one of these channels everybody (who is no guest, bot or stranger), and one of these people everywhere but in direct messages of others, may look at the reach."""

    channels: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    reach: Reach = Reach()


@dataclass(frozen=True, slots=True)
class ApproverRule:
    """Members of these groups and these people may approve changes in the reach."""

    groups: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    reach: Reach = Reach()


@dataclass(frozen=True, slots=True)
class Policy:
    """All rules. The default allows nothing."""

    read: tuple[ReadRule, ...] = ()
    actions: tuple[str, ...] = ()
    approvers: tuple[ApproverRule, ...] = ()
    approval_channels: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ("*",)
    protected_namespaces: tuple[str, ...] = ("kube-*", "openshift-*")
    second_person: bool = True
    low_risk_alone: bool = False
    undo_alone: bool = False
    highest_risk: str = "high"
    approval_ttl: timedelta = field(default=timedelta(minutes=25))

    # -------------------------------------------------------- people

    @staticmethod
    def check_person(person: Person) -> None:
        """Refuses whoever may do nothing here at all."""
        for refused, key in (
            (person.is_deleted, "deleted_account"),
            (person.is_bot, "bot_account"),
            (person.is_stranger, "stranger"),
            (person.is_guest, "guest"),
        ):
            if refused:
                raise Refused(key)

    # -------------------------------------------------------- reading

    def check_asking(self, actor: Actor, conversation: Conversation | None) -> None:
        """Refuses a place or person that may look at nothing. A terminal is not asked: whoever sits there has the credentials anyway."""
        if conversation is None or actor.origin == "terminal":
            return
        if not self._read_rules(actor, conversation):
            raise Refused("direct_message") if _direct(conversation) else Refused("channel_not_allowed", {"channel": conversation.channel})

    def may_read(self, actor: Actor, conversation: Conversation | None, cluster: str | None, namespace: str | None) -> bool:
        """Whether they may look there. A node (namespace "") is of no namespace and needs a rule for all of them."""
        if conversation is None or actor.origin == "terminal":
            return True
        return any(rule.reach.covers(cluster, namespace) for rule in self._read_rules(actor, conversation))

    def check_reading(self, actor: Actor, conversation: Conversation | None, cluster: str | None, namespace: str | None) -> None:
        if not self.may_read(actor, conversation, cluster, namespace):
            raise Refused("namespace_not_readable", {"namespace": namespace or "", "cluster": cluster or ""})

    def _read_rules(self, actor: Actor, conversation: Conversation) -> list[ReadRule]:
        return [rule for rule in self.read if conversation.channel in rule.channels or actor.id in rule.people]

    # -------------------------------------------------------- changing

    def check_place(self, conversation: Conversation) -> None:
        """Refuses buttons that change something outside the channels for it; a direct message is never one."""
        if _direct(conversation):
            raise Refused("direct_message")
        if conversation.channel not in self.approval_channels:
            raise Refused("channel_not_allowed", {"channel": conversation.channel})

    def check_change(self, remediation: Remediation, frozen: tuple[str, str] | None) -> None:
        """Refuses a plan that nobody may carry out here: read-only, frozen, protected, too risky, no approver. `frozen` is (who, at)."""
        self.check_frozen(frozen)
        target = remediation.target
        namespace = remediation.object.namespace or target.namespace
        if not self.actions:
            raise Refused("read_only")
        if remediation.action not in self.actions:
            raise Refused("action_not_enabled", {"action": remediation.action})
        if _fits(self.protected_namespaces, namespace):
            raise Refused("protected_namespace", {"namespace": namespace})
        if not _fits(self.namespaces, namespace):
            raise Refused("namespace_not_changeable", {"namespace": namespace})
        if _risk(remediation.risk) > _risk(self.highest_risk):
            raise Refused("risk_too_high", {"risk": remediation.risk, "highest": self.highest_risk})
        if not any(rule.groups or rule.people for rule in self.approver_rules(target)):
            raise Refused("no_approvers", {"namespace": namespace, "cluster": target.cluster})

    @staticmethod
    def check_frozen(frozen: tuple[str, str] | None) -> None:
        if frozen:
            raise Refused("frozen", {"who": frozen[0], "at": frozen[1]})

    # -------------------------------------------------------- approving

    def approver_rules(self, target: Target) -> list[ApproverRule]:
        return [rule for rule in self.approvers if rule.reach.covers(target.cluster, target.namespace)]

    def named_approvers(self, target: Target) -> tuple[str, ...]:
        """Ids of the groups and people who may approve, for showing."""
        return tuple(dict.fromkeys(name for rule in self.approver_rules(target) for name in (*rule.groups, *rule.people)))

    def is_approver(self, person_id: str, rules: Iterable[ApproverRule], members: Callable[[str], frozenset[str]]) -> bool:
        """`members` gives the fresh members of a group; its errors pass through, so that a silent platform means no."""
        rules = list(rules)
        return any(person_id in rule.people for rule in rules) or any(person_id in members(group) for rule in rules for group in rule.groups)

    def check_approval(self, case: Case, operation: Operation, person: Person, *, approver: bool, involved: Iterable[Person], frozen: tuple[str, str] | None, now: datetime) -> None:
        """All that decides whether this person's approval of this plan counts now. `involved`: who asked, as a Person, so that a second account with the same address is found."""
        self.check_person(person)
        self.check_change(operation.remediation, frozen)
        self.check_time(operation, now)
        if not approver:
            raise Refused("not_approver", {"who": ", ".join(self.named_approvers(operation.remediation.target))})
        if self.needs_second_person(operation):
            self._check_second_person(case, operation, person, {other.id: other for other in involved})

    def check_time(self, operation: Operation, now: datetime) -> None:
        """An approval that is given or used too late counts for nothing, and neither does one from before the plan."""
        if now >= operation.expires_at:
            raise Refused("expired", {"at": operation.expires_at.isoformat()})
        if now < operation.requested_at - CLOCK_SLACK:
            raise Refused("clock_moved")

    def needs_second_person(self, operation: Operation) -> bool:
        remediation = operation.remediation
        alone = (remediation.risk == "low" and self.low_risk_alone) or (remediation.direction == "undo" and self.undo_alone)
        return self.second_person and not alone

    @staticmethod
    def _check_second_person(case: Case, operation: Operation, person: Person, involved: dict[str, Person]) -> None:
        """An undo asks only who pressed Undo to find somebody else: whoever asked for the check may well approve taking it back."""
        applied = operation.requested_by.id
        if _same(person, involved.get(applied, Person(applied))):
            raise Refused("second_person_applied")
        if operation.remediation.direction != "undo":
            for asker in askers(case):
                if _same(person, involved.get(asker, Person(asker))):
                    raise Refused("second_person_asked")


def askers(case: Case) -> tuple[str, ...]:
    """Ids of the people who asked for this check or asked again. An alert has none."""
    asked = [case.request.actor.id] if case.request.alert is None else []
    return tuple(dict.fromkeys([*asked, *case.asked_again]))


def _same(one: Person, other: Person) -> bool:
    """One human: the same account, or two accounts with one address."""
    return one.id == other.id or bool(one.email and one.email.casefold() == other.email.casefold())


def _fits(patterns: tuple[str, ...], name: str | None) -> bool:
    return bool(patterns) if name is None else any(fnmatchcase(name, pattern) for pattern in patterns)


def _risk(risk: str) -> int:
    """A risk that we do not know is above all others."""
    return RISKS.index(risk) if risk in RISKS else len(RISKS)


def _direct(conversation: Conversation) -> bool:
    return conversation.channel.startswith("D")
