"""A node is closed for new pods and opened again; draining is handed over."""

from datetime import UTC, datetime

import pytest

from bot.errors import Refused
from bot.model import Rollout, Target, Verdict
from bot.policy import ApproverRule, Policy, Reach
from bot.remediation import judge, observe, plan_undo
from tests.remediation.place import CRASHES, Place
from tests.remediation.plans import handed_out, new_id, operation, planned
from tests.remediation.shelf import deployment_shelf


def test_the_plan_is_for_the_node_and_names_what_runs_there() -> None:
    plan = planned(deployment_shelf(), "drain_node")
    assert (plan.action, str(plan.object), str(plan.target)) == ("cordon_node", "Node gpu-1", "node/gpu-1")
    assert plan.target.namespace == ""
    assert plan.diff == "@@ Node @@\n+ unschedulable: true"
    said = "\n".join(note.en for note in plan.notes)
    assert "1 pod(s) run on it: llm (1)." in said
    assert "kubectl drain gpu-1 --ignore-daemonsets" in said


def test_a_node_that_is_closed_already_leads_to_the_drain() -> None:
    shelf = deployment_shelf()
    shelf.edit("Node", "gpu-1", lambda body: body["spec"].update(unschedulable=True), namespace="")
    assert handed_out(shelf, "drain_node").paste.startswith("kubectl drain gpu-1")


def test_who_may_approve_in_one_namespace_may_not_close_a_node_of_all() -> None:
    plan = planned(deployment_shelf(), "drain_node")
    here = Policy(actions=("cordon_node",), approvers=(ApproverRule(people=("U1",), reach=Reach(namespaces=("llm",))),))
    with pytest.raises(Refused, match="no_approvers"):
        here.check_change(plan, None)
    Policy(actions=("cordon_node",), approvers=(ApproverRule(people=("U1",)),)).check_change(plan, None)


def test_without_a_node_nothing_is_planned() -> None:
    assert "not known" in handed_out(deployment_shelf(), "drain_node", Target("shelf", "llm", "chat-r1-x")).reason.en


def test_a_node_is_closed_and_opened_again_on_a_cluster(place: Place) -> None:
    target = place.crash_looping("Deployment", script=CRASHES)
    before = place.reader.get("v1", "Node", "", target.node)["spec"]
    plan = place.planned("drain_node", target)
    done = place.carry_out(plan, "op-1")
    assert place.reader.get("v1", "Node", "", target.node)["spec"]["unschedulable"] is True
    assert judge(plan, None, None, done, datetime.now(UTC)).verdict is Verdict.VERIFIED
    undo = plan_undo(operation(plan), place.reader, new_id=new_id)
    assert judge(undo, None, None, place.carry_out(undo, "op-2"), datetime.now(UTC)).verdict is Verdict.UNDONE
    after = place.reader.get("v1", "Node", "", target.node)["spec"]
    assert {key: value for key, value in after.items() if key != "taints"} == {key: value for key, value in before.items() if key != "taints"}


def test_a_node_that_somebody_opened_again_is_not_called_closed(place: Place) -> None:
    target = place.crash_looping("Deployment", script=CRASHES)
    plan = place.planned("drain_node", target)
    assert observe(plan, place.reader) == Rollout(1, 0, 0, done=False)
