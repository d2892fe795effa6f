"""One more replica, only where it would find a place and nobody puts the number back."""

from typing import Any

import pytest

from bot.errors import BadInput
from bot.remediation import differences, execute_step, plan_undo
from bot.remediation.scale import change
from bot.remediation.workload import Workload, ref_of
from tests.remediation.plans import handed_out, new_id, operation, planned
from tests.remediation.shelf import ShelfReader, deployment_shelf, workload


def shelf(*more: dict[str, Any], gpus: int = 2) -> ShelfReader:
    found = deployment_shelf(gpus=gpus, ready=True)
    for one in more:
        found.put({"apiVersion": "v1", "metadata": {"name": "x", "namespace": "llm"}, **one})
    return found


def quota(resource: str, hard: str, used: str) -> dict[str, Any]:
    return {"kind": "ResourceQuota", "spec": {}, "status": {"hard": {resource: hard}, "used": {resource: used}}}


def test_one_replica_is_added_nothing_restarts_and_undo_takes_it_away() -> None:
    here = shelf()
    plan = planned(here, "add_replicas")
    assert plan.diff == "@@ Deployment @@\n- replicas: 1\n+ replicas: 2"
    assert any("Nothing restarts. 1 more pod(s) take 1 more GPU(s)" in note.en for note in plan.notes)
    assert not any("restarts the pods" in note.en for note in plan.notes)
    execute_step(plan, 0, "op-1", here.writer())
    assert here.seen("Deployment", "chat")["spec"]["replicas"] == 2
    execute_step(plan_undo(operation(plan), here, new_id=new_id), 0, "op-2", here.writer())
    assert here.seen("Deployment", "chat")["spec"]["replicas"] == 1


@pytest.mark.parametrize(
    ("objects", "gpus", "words"),
    [
        ((), 1, "it would stay Pending"),
        ((quota("requests.nvidia.com/gpu", "1", "1"),), 2, "ResourceQuota x allows 1 of requests.nvidia.com/gpu"),
        ((quota("pods", "1", "1"),), 2, "of pods here and 1 are used"),
        (({"kind": "HorizontalPodAutoscaler", "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "chat"}, "maxReplicas": 4}},), 2, "would put it back"),
    ],
)
def test_what_would_not_hold_is_said_before_anything_is_written(objects: tuple[dict[str, Any], ...], gpus: int, words: str) -> None:
    found = handed_out(shelf(*objects, gpus=gpus), "add_replicas")
    assert words in found.reason.en
    assert found.paste == "kubectl -n llm scale deployment/chat --replicas=2\n"


def test_a_quota_with_room_does_not_hold_it_up() -> None:
    planned(shelf(quota("requests.nvidia.com/gpu", "4", "1")), "add_replicas")


def test_somebody_who_scaled_in_between_is_noticed() -> None:
    here = shelf()
    plan = planned(here, "add_replicas")
    here.edit("Deployment", "chat", lambda body: body["spec"].update(replicas=3))
    assert [one.path for one in differences(plan, here)] == ["/spec/replicas"]


@pytest.mark.parametrize("value", [0, 257, True, 2.5, "many"])
def test_only_a_sensible_number_is_written(value: Any) -> None:
    body = workload()
    with pytest.raises(BadInput):
        change(Workload(ref_of(body, "apps/v1", "Deployment"), body, 0), value, shelf())
