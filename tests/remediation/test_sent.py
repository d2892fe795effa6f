"""A plan of several writes that stops half-way: what was sent is known, and the undo is of that and of nothing else."""

from dataclasses import replace

import pytest

from bot.errors import Conflict
from bot.model import Operation
from bot.remediation import Changed, dry_run, execute_step, observe, plan_undo
from bot.remediation.sent import carried_out
from tests.remediation.plans import new_id, operation, planned
from tests.remediation.shelf import ShelfReader, deployment_shelf
from tests.remediation.test_sources import CONFIG, mounted


def stopped(here: ShelfReader, sent: int, *, sending: int | None = None) -> Operation:
    """A plan that patches a ConfigMap and then the Deployment, of which `sent` steps were carried out."""
    done = replace(operation(planned(here)), next_step=sent, sending=sending)
    for index in range(sent):
        execute_step(done.remediation, index, done.id, here.writer())
    return done


def undone(here: ShelfReader, done: Operation) -> None:
    undo = plan_undo(carried_out(done, here), here, new_id=new_id)
    dry_run(undo, here.writer())
    for index, step in enumerate(undo.steps):
        if step.after_rollout:
            here.edit("Deployment", "chat", lambda body: body["status"].update(updatedReplicas=1, replicas=1))
        execute_step(undo, index, "op-2", here.writer())


def test_a_plan_that_stopped_after_its_first_patch_has_that_patch_taken_back_alone() -> None:
    here = mounted()
    before = here.seen("ConfigMap", "chat-config")["data"], here.seen("Deployment", "chat")["spec"]
    done = stopped(here, 1)
    assert here.seen("ConfigMap", "chat-config")["data"]["serve.yaml"] != CONFIG
    undone(here, done)
    assert (here.seen("ConfigMap", "chat-config")["data"], here.seen("Deployment", "chat")["spec"]) == before
    assert here.sent == [("patch", "chat-config"), ("patch", "chat-config")]


def test_a_plan_that_went_through_is_undone_whole() -> None:
    here = mounted()
    before = here.seen("ConfigMap", "chat-config")["data"], here.seen("Deployment", "chat")["spec"]["template"]
    undone(here, stopped(here, 2))
    assert (here.seen("ConfigMap", "chat-config")["data"], here.seen("Deployment", "chat")["spec"]["template"]) == before


def test_a_step_that_was_being_sent_counts_when_its_mark_is_on_the_object() -> None:
    here = mounted()
    done = stopped(here, 1, sending=1)
    assert carried_out(done, here).next_step == 1
    execute_step(done.remediation, 1, done.id, here.writer())
    assert carried_out(done, here) == done


def test_the_mark_of_another_operation_does_not_count() -> None:
    here = mounted()
    done = stopped(here, 0, sending=0)
    execute_step(done.remediation, 0, "op-of-somebody-else", here.writer())
    assert carried_out(done, here).remediation.steps == ()


def test_a_plan_of_which_nothing_arrived_has_nothing_to_take_back() -> None:
    here = deployment_shelf()
    assert carried_out(stopped(here, 0, sending=0), here).remediation.steps == ()


def test_what_somebody_changed_since_in_the_half_that_was_sent_is_not_overwritten() -> None:
    here = mounted()
    done = stopped(here, 1)
    here.edit("ConfigMap", "chat-config", lambda body: body["data"].update({"serve.yaml": "max-model-len: 1\n"}))
    with pytest.raises(Changed):
        plan_undo(carried_out(done, here), here, new_id=new_id)


def test_a_half_that_is_taken_back_is_watched_like_any_other_undo() -> None:
    here = mounted()
    done = stopped(here, 1)
    undo = plan_undo(carried_out(done, here), here, new_id=new_id)
    here.edit("Deployment", "chat", lambda body: body["metadata"]["annotations"].update({"deployment.kubernetes.io/revision": "1"}))
    assert observe(undo, here).done


def test_the_first_patch_stands_when_the_second_is_refused() -> None:
    here = mounted()
    done = stopped(here, 1)
    here.edit("Deployment", "chat", lambda body: body["metadata"].update(uid="another"))
    with pytest.raises(Conflict):
        execute_step(done.remediation, 1, done.id, here.writer())
    assert here.sent == [("patch", "chat-config")]


# ---------------------------------------------------------------- an undo that stops half-way


def half_undone(here: ShelfReader, done: Operation, sent: int) -> Operation:
    """The undo of an operation, of which `sent` steps were carried out."""
    undo = Operation("op-2", plan_undo(carried_out(done, here), here, new_id=new_id), done.requested_by, done.requested_at, done.expires_at, next_step=sent)
    for index in range(sent):
        execute_step(undo.remediation, index, undo.id, here.writer())
    return undo


def test_the_rest_of_an_undo_that_stopped_half_way_is_undone_alone() -> None:
    here = mounted()
    before = here.seen("ConfigMap", "chat-config")["data"], here.seen("Deployment", "chat")["spec"]
    done = stopped(here, 2)
    half = half_undone(here, done, 1)
    assert here.seen("ConfigMap", "chat-config")["data"] == before[0]
    here.sent.clear()
    rest = plan_undo(carried_out(done, here, [half]), here, new_id=new_id)
    assert {step.object.kind for step in rest.steps} == {"Deployment"}
    dry_run(rest, here.writer())
    for index, step in enumerate(rest.steps):
        if step.after_rollout:
            here.edit("Deployment", "chat", lambda body: body["status"].update(updatedReplicas=1, replicas=1))
        execute_step(rest, index, "op-3", here.writer())
    assert (here.seen("ConfigMap", "chat-config")["data"], here.seen("Deployment", "chat")["spec"]) == before
    assert ("patch", "chat-config") not in here.sent


def test_a_strategy_that_an_undo_did_not_get_to_is_put_back_alone() -> None:
    here = deployment_shelf()
    before = here.seen("Deployment", "chat")["spec"]
    done = stopped(here, 1)
    half = half_undone(here, done, 1)
    assert [step.after_rollout for step in half.remediation.steps] == [False, True]
    rest = plan_undo(carried_out(done, here, [half]), here, new_id=new_id)
    assert len(rest.steps) == 1
    assert all(str(one["path"]).startswith(("/spec/strategy", "/metadata")) for one in rest.steps[0].patch)
    execute_step(rest, 0, "op-3", here.writer())
    assert here.seen("Deployment", "chat")["spec"] == before


def test_a_step_of_an_undo_whose_answer_was_lost_counts_as_put_back() -> None:
    here = mounted()
    done = stopped(here, 2)
    half = replace(half_undone(here, done, 1), next_step=0, sending=0)
    assert {step.object.kind for step in plan_undo(carried_out(done, here, [half]), here, new_id=new_id).steps} == {"Deployment"}


def test_of_an_undo_that_was_sent_whole_nothing_stands() -> None:
    here = deployment_shelf()
    done = stopped(here, 1)
    undo = half_undone(here, done, 1)
    here.edit("Deployment", "chat", lambda body: body["status"].update(updatedReplicas=1, replicas=1))
    execute_step(undo.remediation, 1, undo.id, here.writer())
    assert carried_out(done, here, [replace(undo, next_step=2)]).remediation.steps == ()


def test_what_somebody_changed_after_an_undo_stopped_half_way_is_not_overwritten() -> None:
    here = mounted()
    done = stopped(here, 2)
    half = half_undone(here, done, 1)
    here.edit("Deployment", "chat", lambda body: body["spec"]["template"]["spec"]["containers"][0].update(image="another"))
    with pytest.raises(Changed):
        plan_undo(carried_out(done, here, [half]), here, new_id=new_id)
