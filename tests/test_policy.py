"""Each refusal of the policy, with its key, and that nothing else is refused."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bot.errors import Refused
from bot.model import (
    Actor,
    Alert,
    Bound,
    Case,
    Conversation,
    Expectation,
    ObjectRef,
    Operation,
    Person,
    Remediation,
    Request,
    State,
    Target,
    TargetQuery,
)
from bot.policy import ApproverRule, Policy, Reach, ReadRule, askers

NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
ANA, JO, WEI = Person("UANA", "T1", "ana@x.example"), Person("UJO", "T1", "jo@x.example"), Person("UWEI", "T1", "wei@x.example")
OPS = Conversation("COPS")
TARGET = Target("prod", "llm", "chat-0")
DEPLOYMENT = ObjectRef("apps/v1", "Deployment", "llm", "chat", "uid-1")
PLAN = Remediation("r1", "restart", "apply", "restart", TARGET, DEPLOYMENT, (), Bound("c", "o", "t"), "", (), "medium", Expectation(), {}, "digest")
OPERATION = Operation("o1", PLAN, Actor("UJO", "slack"), NOW, NOW + timedelta(minutes=25))
CASE = Case("c1", 1, State.AWAITING_APPROVAL, Request("k", Actor("UANA", "slack"), TargetQuery("x"), NOW, OPS), NOW, NOW, operation=OPERATION)
POLICY = Policy(
    read=(ReadRule(channels=("COPS",)),), actions=("restart",), approvers=(ApproverRule(groups=("SONCALL",), people=("UWEI",)),), approval_channels=("COPS",),
)
OPEN: tuple[str, str] | None = None


def refusal(call: Callable[[], object]) -> tuple[str, dict[str, str]]:
    with pytest.raises(Refused) as refused:
        call()
    return refused.value.key, refused.value.parameters


def approve(policy: Policy = POLICY, case: Case = CASE, operation: Operation = OPERATION, person: Person = WEI, *, approver: bool = True,
            involved: tuple[Person, ...] = (ANA, JO), frozen: tuple[str, str] | None = OPEN, now: datetime = NOW) -> None:
    policy.check_approval(case, operation, person, approver=approver, involved=involved, frozen=frozen, now=now)


# ---------------------------------------------------------------- people and places


@pytest.mark.parametrize(("field", "key"), [("is_bot", "bot_account"), ("is_guest", "guest"), ("is_stranger", "stranger"), ("is_deleted", "deleted_account")])
def test_whoever_is_no_colleague_is_refused(field: str, key: str) -> None:
    person = Person("U9", **{field: True})
    assert refusal(lambda: Policy.check_person(person))[0] == key
    assert refusal(lambda: approve(person=person))[0] == key


def test_a_colleague_is_not_refused() -> None:
    Policy.check_person(ANA)


def test_an_empty_policy_lets_nobody_ask() -> None:
    assert refusal(lambda: Policy().check_asking(Actor("UANA", "slack"), OPS)) == ("channel_not_allowed", {"channel": "COPS"})


def test_a_direct_message_is_refused_unless_a_rule_names_the_person() -> None:
    private = Conversation("D123")
    assert refusal(lambda: POLICY.check_asking(Actor("UANA", "slack"), private))[0] == "direct_message"
    Policy(read=(ReadRule(people=("UANA",)),)).check_asking(Actor("UANA", "slack"), private)


def test_a_terminal_needs_no_channel() -> None:
    Policy().check_asking(Actor("root", "terminal"), None)
    Policy().check_reading(Actor("root", "terminal"), None, "prod", "llm")


def test_a_channel_looks_only_at_its_own_namespaces() -> None:
    policy = Policy(read=(ReadRule(channels=("COPS",), reach=Reach(("prod",), ("llm", "team-*"))),))
    actor = Actor("UANA", "slack")
    policy.check_reading(actor, OPS, "prod", "team-a")
    policy.check_reading(actor, OPS, None, None)
    assert refusal(lambda: policy.check_reading(actor, OPS, "prod", "billing")) == ("namespace_not_readable", {"namespace": "billing", "cluster": "prod"})
    assert not policy.may_read(actor, OPS, "stage", "llm")
    assert not policy.may_read(actor, OPS, "prod", "")  # a node shows all namespaces


def test_approvals_are_refused_in_direct_messages_and_other_channels() -> None:
    POLICY.check_place(OPS)
    assert refusal(lambda: POLICY.check_place(Conversation("D1")))[0] == "direct_message"
    assert refusal(lambda: POLICY.check_place(Conversation("COTHER"))) == ("channel_not_allowed", {"channel": "COTHER"})


# ---------------------------------------------------------------- what may be changed


def test_read_only_is_the_default() -> None:
    assert refusal(lambda: Policy().check_change(PLAN, OPEN))[0] == "read_only"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (replace(POLICY, actions=("set_engine_argument",)), ("action_not_enabled", {"action": "restart"})),
        (replace(POLICY, protected_namespaces=("ll*",)), ("protected_namespace", {"namespace": "llm"})),
        (replace(POLICY, namespaces=("team-*",)), ("namespace_not_changeable", {"namespace": "llm"})),
        (replace(POLICY, highest_risk="low"), ("risk_too_high", {"risk": "medium", "highest": "low"})),
        (replace(POLICY, approvers=()), ("no_approvers", {"namespace": "llm", "cluster": "prod"})),
        (replace(POLICY, approvers=(ApproverRule(),)), ("no_approvers", {"namespace": "llm", "cluster": "prod"})),
        (replace(POLICY, approvers=(ApproverRule(people=("UWEI",), reach=Reach(("stage",))),)), ("no_approvers", {"namespace": "llm", "cluster": "prod"})),
    ],
)
def test_a_change_that_policy_does_not_allow_is_refused_at_plan_and_at_approval(policy: Policy, expected: tuple[str, dict[str, str]]) -> None:
    assert refusal(lambda: policy.check_change(PLAN, OPEN)) == expected
    assert refusal(lambda: approve(policy)) == expected


def test_the_kill_switch_stops_every_change() -> None:
    assert refusal(lambda: POLICY.check_change(PLAN, ("UANA", "10:00"))) == ("frozen", {"who": "UANA", "at": "10:00"})
    assert refusal(lambda: approve(frozen=("UANA", "10:00")))[0] == "frozen"


def test_a_risk_that_nobody_knows_is_above_all_others() -> None:
    assert refusal(lambda: POLICY.check_change(replace(PLAN, risk="harmless"), OPEN))[0] == "risk_too_high"


# ---------------------------------------------------------------- who may approve


def members(group: str) -> frozenset[str]:
    return frozenset({"UWEI", "ULI"}) if group == "SONCALL" else frozenset()


def test_members_of_the_group_and_named_people_are_approvers_and_nobody_else() -> None:
    rules = POLICY.approver_rules(TARGET)
    assert POLICY.is_approver("ULI", rules, members)
    assert POLICY.is_approver("UWEI", rules, lambda _group: frozenset())
    assert not POLICY.is_approver("UANA", rules, members)


def test_an_empty_list_of_approvers_means_nobody() -> None:
    assert not POLICY.is_approver("UWEI", [ApproverRule()], members)
    assert not POLICY.is_approver("UWEI", [], members)


def test_an_approver_who_is_a_second_person_may_approve() -> None:
    approve()


def test_who_is_no_approver_is_told_who_is() -> None:
    assert refusal(lambda: approve(approver=False)) == ("not_approver", {"who": "SONCALL, UWEI"})


def test_who_asked_for_the_check_may_not_approve() -> None:
    assert refusal(lambda: approve(person=ANA))[0] == "second_person_asked"


def test_who_pressed_try_again_asked_for_the_check_too() -> None:
    assert refusal(lambda: approve(case=replace(CASE, asked_again=("UWEI",))))[0] == "second_person_asked"


def test_who_pressed_apply_may_not_approve() -> None:
    assert refusal(lambda: approve(person=JO))[0] == "second_person_applied"


def test_a_second_account_with_the_same_address_is_the_same_person() -> None:
    assert refusal(lambda: approve(person=Person("UANA2", "T1", "Ana@x.example")))[0] == "second_person_asked"
    assert refusal(lambda: approve(person=Person("UJO2", "T1", "JO@x.example")))[0] == "second_person_applied"


def test_two_accounts_without_an_address_are_two_people() -> None:
    approve(person=Person("UWEI"), involved=(Person("UANA"), Person("UJO")))


def test_an_alert_has_no_requester_and_apply_names_one() -> None:
    case = replace(CASE, request=replace(CASE.request, actor=Actor("UWEI", "pagerduty"), alert=Alert("k", "pagerduty", "t")))
    assert askers(case) == ()
    approve(case=case)
    assert refusal(lambda: approve(case=case, person=JO))[0] == "second_person_applied"


@pytest.mark.parametrize(("risk", "alone"), [("low", True), ("medium", False), ("high", False)])
def test_policy_may_lift_the_second_person_for_low_risk_only(risk: str, alone: bool) -> None:
    policy = replace(POLICY, low_risk_alone=True)
    operation = replace(OPERATION, remediation=replace(PLAN, risk=risk))
    if alone:
        approve(policy, operation=operation, person=JO)
    else:
        assert refusal(lambda: approve(policy, operation=operation, person=JO))[0] == "second_person_applied"


def test_an_undo_needs_somebody_else_than_who_pressed_undo() -> None:
    undo = replace(OPERATION, remediation=replace(PLAN, direction="undo"))
    assert refusal(lambda: approve(operation=undo, person=JO))[0] == "second_person_applied"
    approve(operation=undo, person=ANA)
    approve(replace(POLICY, undo_alone=True), operation=undo, person=JO)


def test_an_approval_ends_at_its_time() -> None:
    approve(now=OPERATION.expires_at - timedelta(seconds=1))
    assert refusal(lambda: approve(now=OPERATION.expires_at)) == ("expired", {"at": OPERATION.expires_at.isoformat()})


def test_a_clock_set_back_is_noticed() -> None:
    assert refusal(lambda: approve(now=NOW - timedelta(minutes=5)))[0] == "clock_moved"
