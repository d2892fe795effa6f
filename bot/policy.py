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
                  nobody_left           who, left, needed: besides who asked and who presses, too few could approve
                  kept_elsewhere        keeper, object: Argo CD, Flux, Helm or an operator keeps it, and the policy lets it be changed there alone
                  frozen                who, at: the kill switch is on
    hour          dated_freeze          reason, opens (empty: not by these rules)
                  outside_window        opens (empty: not by these rules)
                  quota_used            most, place, opens
    approval      not_approver          who: ids of the groups and people who may
                  already_approved      who: the account whose approval counts already (theirs, or another one of the same person)
                  no_address            (none): the platform gives no e-mail address, so nobody knows whose second account it is
                  no_address_of         who: the same of who asked or pressed Apply, so nobody knows whether the approver is that person
                  approval_lapsed       who, lapsed (a key of this list): an approval does not count any more at execution
                  approvals_missing     have, needed
                  name_not_typed        name: whoever approves a plan of this risk types the name of what is changed
                  second_person_asked   (none): who asked for the check may not approve
                  second_person_applied  (none): who pressed Apply or chose the size may not approve
                  expired               at
                  clock_moved           (none): the clock is before the time of the request
    switch        not_unfreezer         (none): only an approver turns writing on again
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bot.change_times import HOUR, Freeze, Quota, Window, closed
from bot.errors import Refused
from bot.model import Act, Actor, Case, Conversation, Operation, Person, Remediation, Target
from bot.reach import EVERYWHERE, Reach, fits

__all__ = ["ApproverRule", "Freeze", "Policy", "Quota", "Reach", "ReadRule", "Window", "askers"]

RISKS = ("low", "medium", "high")
CLOCK_SLACK = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class ReadRule:
    """In one of these channels everybody (who is no guest, bot or stranger), and one of these people everywhere but in direct messages of others, may look at the reach."""

    channels: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    reach: Reach = EVERYWHERE


@dataclass(frozen=True, slots=True)
class ApproverRule:
    """Members of these groups and these people may approve these actions in the reach, and it takes `count` of them. Where several rules fit,
    whoever stands in one of them may approve, and the highest count holds."""

    groups: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    reach: Reach = EVERYWHERE
    actions: tuple[str, ...] = ("*",)
    count: int = 1


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
    typed_from: str = "high"  # "never": a click is always enough
    approval_ttl: timedelta = field(default=timedelta(minutes=25))
    windows: tuple[Window, ...] = ()
    freezes: tuple[Freeze, ...] = ()
    quotas: tuple[Quota, ...] = ()
    undo_any_time: bool = True
    identity: str = "account"
    gitops_in_place: bool = False

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
        target, (_, namespace) = remediation.target, place(remediation)
        if not self.actions:
            raise Refused("read_only")
        if remediation.action not in self.actions:
            raise Refused("action_not_enabled", {"action": remediation.action})
        if fits(self.protected_namespaces, namespace):
            raise Refused("protected_namespace", {"namespace": namespace})
        if not fits(self.namespaces, namespace):
            raise Refused("namespace_not_changeable", {"namespace": namespace})
        if _risk(remediation.risk) > _risk(self.highest_risk):
            raise Refused("risk_too_high", {"risk": remediation.risk, "highest": self.highest_risk})
        if not any(rule.groups or rule.people for rule in self.approver_rules(target, remediation.action)):
            raise Refused("no_approvers", {"namespace": namespace, "cluster": target.cluster})

    @staticmethod
    def check_frozen(frozen: tuple[str, str] | None) -> None:
        if frozen:
            raise Refused("frozen", {"who": frozen[0], "at": frozen[1]})

    # -------------------------------------------------------- when

    def check_when(self, remediation: Remediation, acts: Iterable[Act], now: datetime) -> None:
        """Refuses outside of the windows, in a dated freeze, and when the quota is used. `acts`: the changes begun in the last hour."""
        if remediation.direction == "undo" and self.undo_any_time:
            return
        cluster, namespace = place(remediation)
        windows = [one for one in self.windows if one.reach.covers(cluster, namespace)]
        freezes = [one for one in self.freezes if one.reach.covers(cluster, namespace)]
        shut = closed(windows, freezes, now)
        if shut is not None:
            opens = shut.opens.isoformat() if shut.opens else ""
            raise Refused("dated_freeze", {"reason": shut.freeze.reason, "opens": opens}) if shut.freeze else Refused("outside_window", {"opens": opens})
        self.check_quotas(remediation, acts, now)

    def check_quotas(self, remediation: Remediation, acts: Iterable[Act], now: datetime) -> None:
        """Refuses when as many changes as a quota allows were begun within the hour."""
        if remediation.direction == "undo" and self.undo_any_time:
            return
        (cluster, namespace), acts = place(remediation), list(acts)
        for quota in self.quotas:
            counted = quota.counted(acts, cluster, namespace, now) if quota.reach.covers(cluster, namespace) else []
            if quota.reach.covers(cluster, namespace) and len(counted) >= quota.most:
                opens = (counted[len(counted) - quota.most].at + HOUR).isoformat() if quota.most else ""
                raise Refused("quota_used", {"most": str(quota.most), "place": f"{cluster}/{namespace}", "opens": opens})

    # -------------------------------------------------------- approving

    def approver_rules(self, target: Target, action: str | None = None) -> list[ApproverRule]:
        """`action` None: those for any action."""
        return [rule for rule in self.approvers if rule.reach.covers(target.cluster, target.namespace) and fits(rule.actions, action)]

    def named_approvers(self, target: Target, action: str | None = None) -> tuple[str, ...]:
        """Ids of the groups and people who may approve, for showing."""
        return tuple(dict.fromkeys(name for rule in self.approver_rules(target, action) for name in (*rule.groups, *rule.people)))

    def needed(self, remediation: Remediation) -> int:
        """How many different people have to approve."""
        rules = self.approver_rules(remediation.target, remediation.action)
        return 1 if self._alone(remediation) else max((rule.count for rule in rules), default=1)

    def check_enough_left(self, remediation: Remediation, may: frozenset[str], involved: Iterable[str]) -> None:
        """Refuses a plan that would only wait for its end: all who `may` approve are involved themselves. It goes by accounts; who is who is asked at the click."""
        left = len(may - frozenset(involved)) if self.second_person and not self._alone(remediation) else len(may)
        if left < self.needed(remediation):
            who = ", ".join(self.named_approvers(remediation.target, remediation.action))
            raise Refused("nobody_left", {"who": who, "left": str(left), "needed": str(self.needed(remediation))})

    def must_type(self, remediation: Remediation) -> str:
        """The name that whoever approves has to type, or "" where a click is enough."""
        return remediation.object.name if self.typed_from in RISKS and _risk(remediation.risk) >= _risk(self.typed_from) else ""

    def check_typed(self, operation: Operation, typed: str) -> None:
        """Refuses an approval without the name that the plan, or the rules as they are now, want typed."""
        name = operation.must_type or self.must_type(operation.remediation)
        if name and typed.strip() != name:
            raise Refused("name_not_typed", {"name": name})

    def is_approver(self, person_id: str, rules: Iterable[ApproverRule], members: Callable[[str], frozenset[str]]) -> bool:
        """`members` gives the fresh members of a group; its errors pass through, so that a silent platform means no."""
        rules = list(rules)
        return any(person_id in rule.people for rule in rules) or any(person_id in members(group) for rule in rules for group in rule.groups)

    def check_approval(
        self, case: Case, operation: Operation, person: Person, *, approver: bool, involved: Iterable[Person], frozen: tuple[str, str] | None, now: datetime,
        earlier: Iterable[Person] = (),
    ) -> None:  # fmt: skip
        """All but the hour that decides whether this person's approval of this plan counts now. `involved`: who asked, as a Person, so that a second account
        with the same address is found; `earlier`: whose approvals count already."""
        self.check_person(person)
        self.check_change(operation.remediation, frozen)
        self.check_time(operation, now)
        if not approver:
            raise Refused("not_approver", {"who": ", ".join(self.named_approvers(operation.remediation.target, operation.remediation.action))})
        if self.identity == "email" and not person.email:
            raise Refused("no_address")
        if self.needs_second_person(operation):
            self._check_second_person(case, operation, person, {other.id: other for other in involved})
        for other in earlier:
            if _same(person, other):
                raise Refused("already_approved", {"who": other.id})

    def check_enough(self, operation: Operation) -> None:
        """Right before the first write, with approvals that were each checked again: are they as many as the rules want now?"""
        have, needed = len(operation.approvals), max(operation.needed, self.needed(operation.remediation))
        if have < needed:
            raise Refused("approvals_missing", {"have": str(have), "needed": str(needed)})

    def check_time(self, operation: Operation, now: datetime) -> None:
        """An approval that is given or used too late counts for nothing, and neither does one from before the plan."""
        if now >= operation.expires_at:
            raise Refused("expired", {"at": operation.expires_at.isoformat()})
        if now < operation.requested_at - CLOCK_SLACK:
            raise Refused("clock_moved")

    def needs_second_person(self, operation: Operation) -> bool:
        return self.second_person and not self._alone(operation.remediation)

    def _alone(self, remediation: Remediation) -> bool:
        return (remediation.risk == "low" and self.low_risk_alone) or (remediation.direction == "undo" and self.undo_alone)

    def _check_second_person(self, case: Case, operation: Operation, person: Person, involved: dict[str, Person]) -> None:
        """An undo asks only who pressed Undo to find somebody else: whoever asked for the check may well approve taking it back."""
        first = [] if operation.remediation.direction == "undo" else [(asker, "second_person_asked") for asker in askers(case)]
        for other, key in ((operation.requested_by.id, "second_person_applied"), *first):
            known = involved.get(other, Person(other))
            if _same(person, known):
                raise Refused(key)
            if self.identity == "email" and not known.email:
                raise Refused("no_address_of", {"who": other})


def askers(case: Case) -> tuple[str, ...]:
    """Ids of the people who asked for this check or asked again. An alert has none."""
    asked = [case.request.actor.id] if case.request.alert is None else []
    return tuple(dict.fromkeys([*asked, *case.asked_again]))


def _same(one: Person, other: Person) -> bool:
    """One human: the same account, or two accounts with one address."""
    return one.id == other.id or bool(one.email and _address(one.email) == _address(other.email))


def _address(email: str) -> str:
    """The mailbox: `Ana+slack2@x.example` arrives where `ana@x.example` does."""
    local, _, domain = email.casefold().rpartition("@")
    return f"{local.partition('+')[0]}@{domain}"


def place(remediation: Remediation) -> tuple[str, str]:
    """Cluster and namespace in which a plan changes something."""
    return remediation.target.cluster, remediation.object.namespace or remediation.target.namespace


def _risk(risk: str) -> int:
    """A risk that we do not know is above all others."""
    return RISKS.index(risk) if risk in RISKS else len(RISKS)


def _direct(conversation: Conversation) -> bool:
    return conversation.channel.startswith("D")
