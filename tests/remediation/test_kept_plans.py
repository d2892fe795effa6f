"""A plan that was kept in the store and read again is the plan that was shown."""

from dataclasses import replace
from typing import Any

import pytest

from bot.model import Actor, Case, Remediation, Request, State, TargetQuery
from bot.remediation import digest_of, execute_step, plan_undo
from bot.store.codec import decode, encode
from bot.units import GIB
from tests.remediation.plans import PREDICTED, new_id, operation, planned, recommendation
from tests.remediation.shelf import NOW, deployment_shelf, stateful_shelf, target


def kept(remediation: Remediation) -> Remediation:
    request = Request("k", Actor("U1", "slack"), TargetQuery("llm/chat"), NOW)
    case = decode(encode(Case("c", 1, State.APPROVED, request, NOW, NOW, operation=operation(remediation))))
    assert case.operation is not None
    return case.operation.remediation


@pytest.mark.parametrize(
    "wanted",
    [
        recommendation(predicted=replace(PREDICTED, max_concurrency=1.0)),
        recommendation("gpu_memory_utilization", "lower", 0.85),
        recommendation("cudagraph_estimate", "disable", None),
        recommendation("cpu_offload", "raise", 4),
        recommendation("memory_limit", "raise", 48 * GIB),
        recommendation("shm_size", "raise", 8 * GIB),
        "restart",
    ],
)
def test_it_has_the_same_digest_and_can_be_carried_out_and_undone(wanted: Any) -> None:
    shelf = deployment_shelf()
    before = shelf.seen("Deployment", "chat")["spec"]["template"]
    remediation = planned(shelf, wanted)
    again = kept(remediation)
    assert digest_of(again) == remediation.digest
    execute_step(again, 0, "op-1", shelf.writer())
    undo = plan_undo(operation(again), shelf, new_id=new_id)
    assert digest_of(kept(undo)) == undo.digest
    execute_step(kept(undo), 0, "op-2", shelf.writer())
    if wanted != "restart":
        assert shelf.seen("Deployment", "chat")["spec"]["template"] == before


def test_an_altered_plan_has_another_digest() -> None:
    remediation = planned(stateful_shelf(), at=target("StatefulSet"))
    for altered in (
        replace(remediation, steps=remediation.steps[:1]),
        replace(remediation, diff="nothing to see"),
        replace(remediation, bound=replace(remediation.bound, object_uid="another")),
        replace(remediation, before={}),
        replace(remediation, steps=(replace(remediation.steps[0], patch=remediation.steps[0].patch[1:]), remediation.steps[1])),
    ):
        assert digest_of(altered) != remediation.digest
