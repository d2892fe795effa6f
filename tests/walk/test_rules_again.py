"""What is looked at once more between the click and the first write, and before the rest of a plan that stopped half-way: rules, people, hours, keepers."""

from dataclasses import replace
from datetime import time, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.change_times import Freeze, Quota, Window
from bot.errors import Rejected
from bot.model import Case, Job, State
from bot.policy import ApproverRule, Policy
from tests.walk.world import JO, POLICY, START, WEI, SmallWorld, Stage, planned

TWO = (ApproverRule(groups=("SONCALL",), count=2),)


def held(stage: Stage, case: Case) -> Case:
    """Wei approves, and the process ends before it carries anything out."""
    stage.press(WEI, stage.button(case, "approve"))
    stage.queue.register("execute", lambda job: None)
    stage.queue.run_due()
    assert stage.now(case).state is State.APPROVED
    return stage.now(case)


def next_process(stage: Stage, case: Case, policy: Policy) -> Case:
    """Another one comes up, with other rules."""
    stage.policy = policy
    stage.boot()
    stage.queue.run_due()
    return stage.now(case)


STRICTER: dict[str, dict[str, Any]] = {
    "action_not_enabled": {"actions": ("restart",)},
    "read_only": {"actions": ()},
    "protected_namespace": {"protected_namespaces": ("llm",)},
    "namespace_not_changeable": {"namespaces": ("pay",)},
    "risk_too_high": {"highest_risk": "low"},
    "no_approvers": {"approvers": ()},
    "channel_not_allowed": {"approval_channels": ("COTHER",)},
    "dated_freeze": {"freezes": (Freeze(START - timedelta(days=1), START + timedelta(days=1), "year end"),)},
    "outside_window": {"windows": (Window(start=time(20), end=time(21)),)},
    "quota_used": {"quotas": (Quota(0),)},
    "approvals_missing": {"approvers": TWO},
}


@pytest.mark.parametrize("key", STRICTER)
def test_each_rule_that_became_stricter_after_the_click_stops_it_before_the_first_write(tmp_path: Path, key: str) -> None:
    stage = Stage(tmp_path)
    case = next_process(stage, held(stage, planned(stage)), replace(POLICY, **STRICTER[key]))
    assert (case.state, case.trouble and case.trouble.key, stage.world.writes) == (State.DIAGNOSED, key, [])


def test_an_object_that_gitops_keeps_is_not_changed_when_the_rules_allow_it_no_more(tmp_path: Path) -> None:
    stage = Stage(tmp_path, replace(POLICY, gitops_in_place=True), SmallWorld(kept_by="Argo CD shop"))
    case = next_process(stage, held(stage, planned(stage)), POLICY)
    assert case.trouble is not None
    assert (case.state, case.trouble.key, stage.world.writes) == (State.DIAGNOSED, "kept_elsewhere", [])
    assert dict(case.trouble.parameters) == {"keeper": "Argo CD shop", "object": "Deployment llm/chat"}


def test_an_object_that_gitops_took_over_after_the_preview_is_refused_at_the_click(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    case = planned(stage)
    stage.world.kept_by = "Flux Kustomization flux/chat"
    case = stage.click(WEI, case, "approve")
    assert (case.state, stage.chat.told(WEI), stage.world.writes) == (State.AWAITING_APPROVAL, ["kept_elsewhere"], [])


def test_an_object_that_gitops_took_over_since_is_still_put_back(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    case = stage.approved()
    stage.world.kept_by = "Argo CD shop"
    stage.click(JO, case, "undo")
    assert stage.click(WEI, case, "approve").state is State.UNDONE


def killed_before_the_write(stage: Stage) -> Case:
    """A process that ends while it sends: the write has not arrived."""
    case = planned(stage)
    stage.press(WEI, stage.button(case, "approve"))

    def kill(name: str) -> None:
        if name == "execute_step":
            raise KeyboardInterrupt

    stage.world.on_call = kill
    with pytest.raises(KeyboardInterrupt):
        stage.queue.run_due()
    stage.world.on_call = lambda _name: None
    assert stage.now(case).state is State.EXECUTING
    return stage.now(case)


def killed_before_it_sent(stage: Stage) -> Case:
    """A process that ends right after it began, before it even kept that it sends."""
    case = planned(stage)
    stage.press(WEI, stage.button(case, "approve"))
    put = stage.queue.put

    def killed_before(job: Job) -> None:
        if job.name == "announce" and stage.now(case).state is State.EXECUTING:
            raise KeyboardInterrupt
        put(job)

    stage.queue.put = killed_before  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        stage.queue.run_due()
    return stage.now(case)


def test_what_was_approved_and_never_sent_comes_to_nothing_when_the_approval_has_expired(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    case = killed_before_it_sent(stage)
    stage.clock.forward(hours=8)
    case = next_process(stage, case, POLICY)
    assert (case.state, case.trouble and case.trouble.key, stage.world.writes) == (State.DIAGNOSED, "expired", [])


def test_a_process_that_comes_up_hours_after_a_killed_one_does_not_use_its_approval(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    case = killed_before_the_write(stage)
    stage.clock.forward(hours=8)
    case = next_process(stage, case, POLICY)
    assert (case.state, case.trouble and case.trouble.key, stage.world.writes) == (State.STUCK, "expired", [])


def test_a_process_that_follows_a_killed_one_asks_again_who_may_approve(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    case = killed_before_the_write(stage)
    stage.people.groups["SONCALL"] = frozenset({"ULI"})
    case = next_process(stage, case, POLICY)
    assert (case.state, case.trouble and case.trouble.key, stage.world.writes) == (State.STUCK, "approval_lapsed", [])


def test_a_change_that_has_begun_does_not_count_against_its_own_quota(tmp_path: Path) -> None:
    stage = Stage(tmp_path, replace(POLICY, quotas=(Quota(1),)))
    case = next_process(stage, killed_before_the_write(stage), stage.policy)
    assert (case.state, stage.world.writes) == (State.VERIFIED, ["apply:0"])


def test_what_arrived_before_the_process_was_killed_is_brought_to_its_end_after_the_approval_has_expired(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=2))
    case = planned(stage)
    stage.press(WEI, stage.button(case, "approve"))

    def kill(name: str) -> None:
        if name == "after_write":
            raise KeyboardInterrupt

    stage.world.on_call = kill
    with pytest.raises(KeyboardInterrupt):
        stage.queue.run_due()
    stage.world.on_call = lambda _name: None
    stage.clock.forward(hours=8)
    case = next_process(stage, case, POLICY)
    assert (case.state, stage.world.writes) == (State.VERIFIED, ["apply:0", "apply:1"])


def half_way(stage: Stage) -> Case:
    """The second step was refused."""
    stage.world.fail["execute_step"] = []
    case = planned(stage)
    calls = [0]

    def refuse(name: str) -> None:
        calls[0] += name == "execute_step"
        if name == "execute_step" and calls[0] == 2:
            raise Rejected("not now")

    stage.world.on_call = refuse
    case = stage.click(WEI, case, "approve")
    assert (case.state, stage.world.writes) == (State.STUCK, ["apply:0"])
    return case


@pytest.mark.parametrize("key", ["action_not_enabled", "protected_namespace", "risk_too_high", "dated_freeze"])
def test_the_rest_of_a_plan_is_not_sent_against_rules_that_became_stricter(tmp_path: Path, key: str) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=2))
    case = half_way(stage)
    stage.policy = replace(POLICY, **STRICTER[key])
    stage.boot()
    case = stage.click(WEI, case, "wait")
    assert (case.state, stage.chat.told(WEI), stage.world.writes) == (State.STUCK, [key], ["apply:0"])


def test_the_rest_of_a_plan_that_was_altered_in_the_store_is_not_sent(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(steps=2))
    case = half_way(stage)
    operation = case.operation
    assert operation is not None
    first, second = operation.remediation.steps
    forged = replace(operation.remediation, digest="digest-of-another", steps=(first, replace(second, patch=({"op": "replace", "path": "/value", "value": 1},))))
    stage.store.save(replace(case, operation=replace(operation, remediation=forged)))
    case = stage.click(WEI, case, "wait")
    assert (case.state, stage.chat.told(WEI), stage.world.writes) == (State.STUCK, ["altered"], ["apply:0"])
