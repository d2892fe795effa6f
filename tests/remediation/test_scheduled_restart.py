"""A CronJob that restarts a workload: made once, listed, and deleted by undo only while it is the one that was made."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from bot.errors import Conflict, Forbidden, NotFound, Rejected
from bot.model import Difference, ObjectRef, Verdict
from bot.remediation import differences, dry_run, execute_step, judge, observe, plan_undo
from bot.remediation.bound import Changed
from bot.remediation.standing import standing
from tests.remediation.place import CRASHES, Place
from tests.remediation.plans import handed_out, new_id, operation, planned
from tests.remediation.shelf import ShelfReader, deployment_shelf
from tests.remediation.test_kept_plans import kept

NAME = "oombot-restart-chat"


def made(shelf: ShelfReader) -> Any:
    plan = planned(shelf, "scheduled_restart")
    execute_step(plan, 0, "op-1", shelf.writer())
    return plan


def test_the_job_restarts_this_workload_as_an_account_of_its_own() -> None:
    shelf = deployment_shelf()
    plan = made(shelf)
    pod = shelf.seen("CronJob", NAME)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "oombot-restarter"
    assert pod["containers"][0]["args"] == ["-n", "llm", "rollout", "restart", "deployment/chat"]
    assert "+ schedule: 0 4 * * *" in plan.diff
    assert shelf.seen("CronJob", NAME)["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "oombot"}  # by which people list them


def test_after_a_crash_it_is_not_made_twice_and_another_of_that_name_is_left_alone() -> None:
    shelf = deployment_shelf()
    plan = made(shelf)
    execute_step(kept(plan), 0, "op-1", shelf.writer())
    assert shelf.sent == [("create", NAME)]
    with pytest.raises(Conflict):
        execute_step(plan, 0, "op-9", shelf.writer())
    assert "is there already" in handed_out(shelf, "scheduled_restart").reason.en


def test_undo_deletes_it_only_while_it_is_the_one_that_was_made() -> None:
    shelf = deployment_shelf()
    plan = made(shelf)
    with pytest.raises(Changed):
        plan_undo(operation(plan, "op-2"), shelf, new_id=new_id)
    shelf.edit("CronJob", NAME, lambda body: body["spec"].update(schedule="0 5 * * *"))
    with pytest.raises(Changed, match="/spec/schedule"):
        plan_undo(operation(plan), shelf, new_id=new_id)
    shelf.edit("CronJob", NAME, lambda body: body["spec"].update(schedule="0 4 * * *"))
    undo = plan_undo(operation(plan), shelf, new_id=new_id)
    execute_step(kept(undo), 0, "op-3", shelf.writer())
    execute_step(undo, 0, "op-3", shelf.writer())
    assert shelf.sent[-1] == ("delete", NAME)


def test_it_can_be_undone_after_the_workload_was_deployed_anew() -> None:
    shelf = deployment_shelf()
    plan = made(shelf)
    shelf.edit("Deployment", "chat", lambda body: body["spec"]["template"]["spec"]["containers"][0].update(image="vllm/vllm-openai:v0.12.0"))
    undo = plan_undo(operation(plan), shelf, new_id=new_id)
    assert differences(undo, shelf) == ()
    assert str(undo.object) == f"CronJob llm/{NAME}"
    shelf.edit("CronJob", NAME, lambda body: body["spec"]["jobTemplate"]["spec"].update(backoffLimit=1))
    assert [one.path for one in differences(undo, shelf)] == ["/spec/jobTemplate"]


def test_what_was_made_stands_until_it_is_gone_or_another() -> None:
    shelf = deployment_shelf()
    done = replace(operation(made(shelf)), next_step=1)
    assert standing(done, shelf) == ()
    assert [one.now for one in standing(replace(done, id="op-2"), shelf)] == ["op-1"]
    execute_step(plan_undo(done, shelf, new_id=new_id), 0, "op-3", shelf.writer())
    assert standing(done, shelf) == (Difference(f"CronJob llm/{NAME}", "op-1", None),)
    assert standing(replace(done, next_step=0), shelf) == ()  # not made yet


def test_it_is_made_and_deleted_on_a_cluster_by_the_remediators_account_alone(place: Place) -> None:
    target = place.crash_looping("Deployment", script=CRASHES)
    plan = place.planned("scheduled_restart", target)
    ref = plan.steps[0].object
    dry_run(plan, place.writer)
    assert not observe(plan, place.reader).done
    for _ in range(2):
        execute_step(plan, 0, "op-1", place.writer)
    assert judge(plan, None, None, observe(plan, place.reader), datetime.now(UTC)).verdict is Verdict.VERIFIED
    live = place.reader.get("batch/v1", "CronJob", place.namespace, NAME)
    undo = plan_undo(operation(plan), place.reader, new_id=new_id)
    with pytest.raises(Conflict):
        place.writer.delete_cron_job(ObjectRef("batch/v1", "CronJob", place.namespace, NAME, "another"), dry_run=False)
    dry_run(undo, place.writer)
    assert place.reader.get("batch/v1", "CronJob", place.namespace, NAME)["metadata"]["uid"] == live["metadata"]["uid"]
    execute_step(undo, 0, "op-2", place.writer)
    assert judge(undo, None, None, observe(undo, place.reader), datetime.now(UTC)).verdict is Verdict.UNDONE
    with pytest.raises(NotFound):
        place.reader.get("batch/v1", "CronJob", place.namespace, NAME)
    with pytest.raises(Rejected):
        place.writer.create_cron_job(ObjectRef("v1", "Pod", place.namespace, "x"), {"kind": "Pod"}, dry_run=False)
    with pytest.raises(Forbidden):
        place.reading_writer.create_cron_job(ref, plan.steps[0].patch[0]["value"], dry_run=False)
