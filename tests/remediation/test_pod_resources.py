"""Memory, CPU limit, shared memory, probes and grace period: what is written, what is refused and by whom, and that undo restores it."""

from typing import Any

import pytest

from bot.errors import BadInput
from bot.model import Handout, Remediation
from bot.remediation import execute_step, plan_undo
from bot.units import GIB
from tests.remediation.plans import handed_out, new_id, operation, planned, recommendation
from tests.remediation.shelf import ShelfReader, container, deployment_shelf, workload

LIMITED = {"limits": {"nvidia.com/gpu": "1", "memory": "32Gi", "cpu": "8"}, "requests": {"nvidia.com/gpu": "1", "memory": "24Gi", "cpu": "4"}}


def shelf(spec: dict[str, Any] | None = None, **fields: Any) -> ShelfReader:
    body = workload(containers=[container(**{"resources": LIMITED, **fields})])
    body["spec"]["template"]["spec"].update(spec or {})
    return deployment_shelf(gpus=2, body=body)


def rule(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "llm"}, "spec": spec}


def carried_out(place: ShelfReader, *wanted: Any) -> dict[str, Any]:
    """The template's pod spec after the plan; the plan is undone on the way out, which must restore everything."""
    before = place.seen("Deployment", "chat")["spec"]
    remediation: Remediation = planned(place, recommendation(*wanted))
    execute_step(remediation, 0, "op-1", place.writer())
    after: dict[str, Any] = place.seen("Deployment", "chat")["spec"]["template"]["spec"]
    execute_step(plan_undo(operation(remediation), place, new_id=new_id), 0, "op-2", place.writer())
    assert place.seen("Deployment", "chat")["spec"] == before
    return after


def refused(place: ShelfReader, *wanted: Any) -> Handout:
    return handed_out(place, recommendation(*wanted))


def test_a_memory_limit_is_raised_to_the_computed_size_rounded_up() -> None:
    assert carried_out(shelf(), "memory_limit", "raise", 47 * GIB + 1)["containers"][0]["resources"]["limits"]["memory"] == "48Gi"


def test_a_limit_where_there_is_none_is_set_with_what_it_stands_in() -> None:
    assert carried_out(shelf(resources=None), "memory_limit", "set", "48Gi")["containers"][0]["resources"] == {"limits": {"memory": "48Gi"}}


def test_a_limit_below_the_request_is_not_written() -> None:
    assert "may not exceed its limit" in refused(shelf(), "memory_limit", "lower", 16 * GIB).reason.en
    assert "may not exceed its limit" in refused(shelf(), "memory_request", "raise", 40 * GIB).reason.en


def test_a_raise_that_would_lower_is_not_written() -> None:
    assert "would not raise it" in refused(shelf(), "memory_limit", "raise", 28 * GIB).reason.en


def test_the_limit_range_that_forbids_the_size_is_named() -> None:
    place = shelf()
    place.put(rule("LimitRange", "small", limits=[{"type": "Container", "max": {"memory": "40Gi"}}]))
    found = refused(place, "memory_limit", "raise", 48 * GIB)
    assert "LimitRange small allows at most 40Gi" in found.reason.en
    assert "memory: 48Gi" in found.paste


@pytest.mark.parametrize("size", [1, 10**18, "much", True])
def test_a_size_outside_the_range_is_not_written(size: Any) -> None:
    with pytest.raises((BadInput, ValueError)):
        planned(shelf(), recommendation("memory_limit", "raise", size))


def test_the_cpu_limit_is_taken_off_and_the_request_stays() -> None:
    resources = carried_out(shelf(), "cpu_limit", "remove", None)["containers"][0]["resources"]
    assert resources == {"limits": {"nvidia.com/gpu": "1", "memory": "32Gi"}, "requests": LIMITED["requests"]}


def test_a_request_that_only_the_limit_implied_is_written_out() -> None:
    resources = carried_out(shelf(resources={"limits": {"cpu": "8"}}), "cpu_limit", "remove", None)["containers"][0]["resources"]
    assert resources == {"limits": {}, "requests": {"cpu": "8"}}


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (rule("ResourceQuota", "team", hard={"limits.cpu": "64"}), "ResourceQuota team counts CPU limits"),
        (rule("LimitRange", "defaults", limits=[{"type": "Container", "default": {"cpu": "1"}}]), "LimitRange defaults gives every container"),
    ],
)
def test_what_demands_a_cpu_limit_is_named(one: dict[str, Any], words: str) -> None:
    place = shelf()
    place.put(one)
    assert words in refused(place, "cpu_limit", "remove", None).reason.en


def test_shared_memory_gets_a_volume_of_its_own() -> None:
    spec = carried_out(shelf(), "shm_size", "raise", 8 * GIB)
    assert spec["volumes"] == [{"name": "oombot-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}]
    assert spec["containers"][0]["volumeMounts"] == [{"name": "oombot-shm", "mountPath": "/dev/shm"}]


def test_shared_memory_is_added_behind_other_volumes() -> None:
    place = shelf({"volumes": [{"name": "models", "hostPath": {"path": "/m"}}]}, volumeMounts=[{"name": "models", "mountPath": "/m"}])
    assert [one["name"] for one in carried_out(place, "shm_size", "raise", 8 * GIB)["volumes"]] == ["models", "oombot-shm"]


def test_a_limit_of_the_shared_memory_that_is_there_is_raised() -> None:
    place = shelf(
        {"volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]}, volumeMounts=[{"name": "dshm", "mountPath": "/dev/shm"}]
    )
    assert carried_out(place, "shm_size", "raise", 8 * GIB)["volumes"][0]["emptyDir"]["sizeLimit"] == "8Gi"
    assert "already has 1Gi" in refused(place, "shm_size", "raise", GIB).reason.en


def test_shared_memory_without_a_limit_is_not_limited() -> None:
    place = shelf({"volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]}, volumeMounts=[{"name": "dshm", "mountPath": "/dev/shm"}])
    assert "no size limit of its own" in refused(place, "shm_size", "raise", 8 * GIB).reason.en


def test_the_start_up_probe_is_given_more_tries() -> None:
    place = shelf(startupProbe={"failureThreshold": 60, "periodSeconds": 10}, livenessProbe={"failureThreshold": 3})
    after = carried_out(place, "probe", "relax", 110)["containers"][0]
    assert (after["startupProbe"]["failureThreshold"], after["livenessProbe"]["failureThreshold"]) == (110, 3)
    assert "gives up after 18:20" in " ".join(note.en for note in planned(place, recommendation("probe", "relax", 110)).notes)


def test_without_a_start_up_probe_the_liveness_probe_is_relaxed_and_without_any_it_is_said() -> None:
    assert carried_out(shelf(livenessProbe={"periodSeconds": 5}), "probe", "relax", 9)["containers"][0]["livenessProbe"] == {
        "periodSeconds": 5,
        "failureThreshold": 9,
    }
    assert "neither" in refused(shelf(), "probe", "relax", 9).reason.en


def test_the_grace_period_is_raised_and_never_lowered() -> None:
    assert carried_out(shelf({"terminationGracePeriodSeconds": 30}), "grace_period", "raise", 120)["terminationGracePeriodSeconds"] == 120
    assert "30 s already" in refused(shelf({"terminationGracePeriodSeconds": 30}), "grace_period", "raise", 20).reason.en
