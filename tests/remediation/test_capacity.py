"""Whether one more pod finds a place, in the ways that matter for GPUs."""

from typing import Any

import pytest

from bot.remediation.capacity import compute, requests, takes
from tests.remediation.plans import planned
from tests.remediation.shelf import container, deployment_shelf, node, pod, replica_set

GPU = {"containers": [container()]}


def labelled(**labels: str) -> dict[str, Any]:
    body = node("a")
    body["metadata"]["labels"] = labels
    return body


def affinity(key: str, operator: str, *values: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}]
    return {**GPU, "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}


@pytest.mark.parametrize(
    ("operator", "values", "labels", "fits"),
    [
        ("In", ("l40s",), {"gpu": "l40s"}, True),
        ("In", ("l40s",), {}, False),
        ("NotIn", ("l40s",), {"gpu": "l40s"}, False),
        ("NotIn", ("l40s",), {}, True),
        ("Exists", (), {"gpu": "x"}, True),
        ("DoesNotExist", (), {"gpu": "x"}, False),
        ("Gt", ("40",), {"gpu": "48"}, True),
        ("Lt", ("40",), {"gpu": "48"}, False),
        ("Gt", ("40",), {"gpu": "many"}, False),
    ],
)
def test_required_affinity_is_respected(operator: str, values: tuple[str, ...], labels: dict[str, str], fits: bool) -> None:
    assert takes(labelled(**labels), affinity("gpu", operator, *values)) is fits


@pytest.mark.parametrize(
    ("tolerations", "fits"),
    [
        ([], False),
        ([{"key": "nvidia.com/gpu", "operator": "Exists"}], True),
        ([{"operator": "Exists"}], True),
        ([{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}], True),
        ([{"key": "nvidia.com/gpu", "value": "absent"}], False),
        ([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}], False),
    ],
)
def test_taints_are_respected(tolerations: list[dict[str, str]], fits: bool) -> None:
    body = node()
    body["spec"]["taints"] = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, {"key": "soft", "effect": "PreferNoSchedule"}]
    assert takes(body, {**GPU, "tolerations": tolerations}) is fits


def test_a_node_that_is_not_ready_does_not_count() -> None:
    body = node()
    body["status"]["conditions"][0]["status"] = "Unknown"
    assert not takes(body, GPU)


def test_a_pod_counts_its_containers_or_its_largest_init_container() -> None:
    def of(memory: str, **more: Any) -> dict[str, Any]:
        return {"resources": {"requests": {"memory": memory}}, **more}

    plain = {"containers": [of("2Gi"), of("3Gi")]}
    assert requests(plain)["memory"] == 5 * 2**30
    assert requests({**plain, "initContainers": [of("8Gi"), of("1Gi")]})["memory"] == 8 * 2**30
    assert requests({**plain, "initContainers": [of("1Gi", restartPolicy="Always")]})["memory"] == 6 * 2**30


def test_mig_slices_are_told_from_whole_cards() -> None:
    sliced = container(resources={"limits": {"nvidia.com/mig-1g.10gb": "1"}})
    assert compute({"containers": [sliced]}, [node(gpus=8)], []).fits is False
    body = node()
    body["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] = "2"
    assert compute({"containers": [sliced]}, [body], []).fits is True


def test_memory_that_is_missing_is_seen_though_a_gpu_is_free() -> None:
    big = container(resources={"limits": {"nvidia.com/gpu": "1"}, "requests": {"memory": "300Gi"}})
    found = compute({"containers": [big]}, [node(gpus=2)], [pod("p", replica_set())])
    assert (found.fits, found.free_gpus) == (False, 1)


@pytest.mark.parametrize(("gpus", "missing", "fits"), [(1, 0, True), (1, 1, False), (2, 1, True), (2, 2, False), (0, 0, False)])
def test_a_place_that_a_missing_pod_would_take_is_none(gpus: int, missing: int, fits: bool) -> None:
    assert compute(GPU, [node("a", gpus=gpus)], [], missing).fits is fits


def test_missing_pods_may_go_to_other_nodes() -> None:
    assert compute(GPU, [node("a"), node("b")], [], 1).fits
    assert not compute(GPU, [node("a"), node("b")], [pod("x", replica_set(), node="b")], 1).fits


def test_a_change_counts_the_place_of_its_own_missing_pod_as_taken() -> None:
    """The old template's pod would come back first and hold the only GPU: the new one, started beside it, would wait for ever."""
    here = deployment_shelf(gpus=1)
    here.drop("Pod", "chat-r1-x")
    plan = planned(here)
    assert any(pointer.startswith("/spec/strategy") for pointer in plan.before)
    assert any("1 of the pods that it should have is not placed yet, and would take what is free" in note.en for note in plan.notes)
    roomy = deployment_shelf(gpus=2)
    roomy.drop("Pod", "chat-r1-x")
    assert not any(pointer.startswith("/spec/strategy") for pointer in planned(roomy).before)
