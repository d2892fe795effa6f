"""A new memory limit is shown beside what was seen in use and what the node has left, and compared again when it is verified."""

from dataclasses import replace
from typing import Any

import pytest

from bot.model import Certainty, Diagnosis, Phase, Remediation, Rollout, Text, Verdict
from bot.remediation import judge
from bot.remediation.host_memory import limit_written
from bot.units import GIB
from tests.remediation.plans import handed_out, planned, recommendation
from tests.remediation.shelf import NOW, ShelfReader, container, deployment_shelf, pod, replica_set, workload

RAISE = recommendation("memory_limit", "raise", 48 * GIB)


def seen(peak: int | None, **fields: Any) -> Diagnosis:
    return Diagnosis("container_memory_limit", "host_memory", Certainty.CERTAIN, Text("x"), host_peak_bytes=peak, **fields)


def shelf(**resources: Any) -> ShelfReader:
    limits = {"nvidia.com/gpu": "1", "memory": "32Gi"}
    return deployment_shelf(gpus=2, body=workload(containers=[container(resources={"limits": limits, "requests": {"memory": "24Gi"}, **resources})]))


def said(here: ShelfReader, peak: int | None, wanted: Any = RAISE) -> str:
    return " ".join(note.en for note in planned(here, wanted, diagnosis=seen(peak)).notes)


def test_use_up_to_the_limit_says_that_more_was_wanted() -> None:
    assert "It was seen to use all of its 32 GiB and wanted more; how much more, nobody knows. The new limit is 16 GiB above that." in said(shelf(), 32 * GIB - 4096)


def test_a_peak_below_the_limit_is_set_beside_the_new_one() -> None:
    assert "seen to use 20 GiB of host memory at most; the new limit leaves 28 GiB above that." in said(shelf(), 20 * GIB)


def test_a_limit_below_what_was_seen_is_warned_of() -> None:
    lower = recommendation("memory_limit", "lower", 28 * GIB)
    assert "more than the new limit of 28 GiB: expect it to be killed again." in said(shelf(), 30 * GIB, lower)


def test_nothing_is_said_of_a_peak_that_nobody_looked_at() -> None:
    assert "seen to use" not in said(shelf(), None)


def test_the_node_is_looked_at_without_the_workloads_own_pods() -> None:
    assert "Node gpu-1: 232 GiB of 256 GiB are asked for by nobody, enough" in said(shelf(), None)


def test_a_node_that_others_have_asked_for_may_run_out_itself() -> None:
    here = shelf()
    other = pod("other", replica_set(9), labels={"app": "other"})
    other["spec"]["containers"][0]["resources"] = {"requests": {"memory": "220Gi"}}
    here.put(other)
    assert "only 12 GiB of 256 GiB are asked for by nobody, and it may now use 24 GiB beyond its request: if it does, the node itself can run out of memory." in said(here, None)


def test_several_pods_of_the_workload_on_one_node_all_count() -> None:
    here = shelf()
    for number in range(4):
        here.put(pod(f"chat-r1-{number}", replica_set()))
    assert "Node gpu-1: 136 GiB of 256 GiB are asked for by nobody, enough" in said(here, None)  # five pods, 24 GiB asked for each
    here.put(pod("chat-r1-4", replica_set()))
    assert "only 112 GiB of 256 GiB are asked for by nobody, and it may now use 144 GiB beyond its request" in said(here, None)


def test_a_plan_without_a_memory_limit_says_nothing_of_host_memory() -> None:
    words = said(shelf(), 32 * GIB, recommendation())
    assert "host memory" not in words
    assert "asked for by nobody" not in words


@pytest.mark.parametrize("resources", [{"limits": {"memory": "32Gi"}}, {"limits": {"nvidia.com/gpu": "1"}}, {"limits": None}])
def test_the_limit_is_known_however_it_was_written(resources: dict[str, Any]) -> None:
    direction = "raise" if (resources["limits"] or {}).get("memory") else "set"
    plan = planned(shelf(**{key: value for key, value in resources.items() if value}), recommendation("memory_limit", direction, 48 * GIB))
    assert limit_written(plan) == 48 * GIB
    assert limit_written(planned(shelf())) is None


def outcome(plan: Remediation, before: int | None, after: int | None) -> str:
    found = judge(plan, seen(before), replace(seen(after), cause="healthy", reached=Phase.SERVING), Rollout(1, 1, 1, done=True), NOW)
    assert found.verdict is Verdict.VERIFIED
    return found.says.en


def test_what_the_new_process_uses_is_compared_when_it_is_verified() -> None:
    plan = planned(shelf(), RAISE, diagnosis=seen(32 * GIB, phase=Phase.SERVING))
    assert "Host memory so far: 30 GiB at most, of 48 GiB (the old process: 32 GiB)." in outcome(plan, 32 * GIB, 30 * GIB)
    assert "Host memory" not in outcome(plan, 32 * GIB, None)
    assert "old process: " not in outcome(plan, None, 30 * GIB)
    assert "Host memory" not in outcome(planned(shelf(), diagnosis=seen(32 * GIB, phase=Phase.SERVING)), 32 * GIB, 30 * GIB)


@pytest.mark.parametrize(
    ("hard", "used", "scoped", "forbidden"),
    [("40Gi", "32Gi", False, True), ("48Gi", "32Gi", False, False), ("40Gi", "32Gi", True, False), (None, None, False, False)],
)
def test_a_quota_that_the_new_limit_breaks_is_named_before_anything_is_written(hard: str | None, used: str | None, scoped: bool, forbidden: bool) -> None:
    here = shelf()
    amounts = {"hard": {"limits.memory": hard} if hard else {}, "used": {"limits.memory": used} if used else {}}
    spec = {"scopes": ["BestEffort"]} if scoped else {}
    here.put({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": "llm"}, "spec": spec, "status": amounts})
    if forbidden:
        assert "ResourceQuota team allows limits.memory 40Gi in this namespace, of which 32Gi are used: 16Gi more do not fit." in handed_out(here, RAISE).reason.en
    else:
        assert planned(here, RAISE).steps
