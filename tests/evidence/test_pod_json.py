"""What a pod's object tells of itself and of each of its containers."""

import json
from typing import Any

import pytest

from bot.evidence.pod_json import eviction, read
from tests.diagnosis.scenes import container, pod, status, terminated


def facts(the_pod: dict[str, Any]) -> dict[str, Any]:
    return {fact.name: fact.value for fact in read(json.dumps(the_pod, indent=1).encode(), "pod.json").facts}


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("The node was low on resource: memory. Threshold quantity: 100Mi, available: 60Mi. ", "memory"),
        ("The node was low on resource: [MemoryPressure]. ", "memory"),
        ("Pod was rejected: The node had condition: [MemoryPressure]. ", "memory"),
        ("The node was low on resource: ephemeral-storage. Threshold quantity: 1, available: 9Ki. ", "ephemeral-storage"),
        ("Pod ephemeral local storage usage exceeds the total limit of containers 10Gi. ", "ephemeral-storage"),
        ('Container c exceeded its local ephemeral storage limit "1Gi". ', "ephemeral-storage"),
        ('Usage of EmptyDir volume "cache" exceeds the limit "1536Mi". ', "empty-dir"),
        ("The node was low on resource: pids. ", "pids"),
        ("The node was low on resource: inodes. ", "inodes"),
        ("moved elsewhere", "other"),
    ],
)
def test_eviction_says_what_was_short(message: str, kind: str) -> None:
    assert eviction(message) == kind


def test_current_end_comes_before_the_last_one() -> None:
    both = pod([container()], [status(state=terminated(1, container_id="c" * 64), last=terminated(137, "OOMKilled"))])
    found = facts(both)
    assert (found["pod.container.0.exit_code"], found["pod.container.0.end"], found["pod.container.0.ended_id"]) == (1, "current", "c" * 64)


def test_zero_times_of_an_unseen_end_are_no_times() -> None:
    found = facts(pod([container()], [status(state=terminated(137, "ContainerStatusUnknown", at="0001-01-01T00:00:00Z", started="0001-01-01T00:00:00Z"))]))
    assert not {"pod.container.0.finished_at", "pod.container.0.lifetime_s"} & set(found)


def test_probe_budget_is_delay_and_failures_times_period() -> None:
    found = facts(pod([container(startupProbe={"httpGet": {"port": 8000}, "initialDelaySeconds": 30, "periodSeconds": 10, "failureThreshold": 60})]))
    assert (found["pod.container.0.startup_budget_s"], found["pod.container.0.startup_probe"], found["pod.container.0.startup_port"]) == (630, "httpGet", "8000")


def test_memory_volume_at_dev_shm_has_its_size_and_others_do_not_count() -> None:
    mounted = container(volumeMounts=[{"name": "dshm", "mountPath": "/dev/shm"}])
    found = facts(pod([mounted], spec={"volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}]}))
    assert (found["pod.container.0.shm_volume"], found["pod.container.0.shm_limit"]) == ("memory", 16 * 2**30)
    elsewhere = facts(pod([mounted], spec={"volumes": [{"name": "dshm", "hostPath": {"path": "/dev/shm"}}]}))
    assert elsewhere["pod.container.0.shm_volume"] == "node"
    assert facts(pod())["pod.container.0.shm_volume"] == "default"


@pytest.mark.parametrize(
    ("reason", "message", "kind"),
    [
        ("OutOfnvidia.com/gpu", "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu", "resources"),
        ("UnexpectedAdmissionError", "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu", "devices-unhealthy"),
        ("UnexpectedAdmissionError", "Pod Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Unknown desc = error getting device handle for uuid: GPU is lost, which is unexpected", "device-fault"),
        ("UnexpectedAdmissionError", "Pod Allocate failed due to rpc error: code = Unavailable desc = connection error: desc = \"transport: error while dialing\", which is unexpected", "plugin-failed"),
        ("UnexpectedAdmissionError", "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0", "resources"),
        ("NodeShutdown", "Pod was rejected as the node is shutting down.", "node-shutdown"),
    ],
)
def test_admission_rejection_without_conditions_is_seen(reason: str, message: str, kind: str) -> None:
    rejected = pod(statuses=[], status={"phase": "Failed", "reason": reason, "message": message, "conditions": []})
    assert facts(rejected)["pod.rejected"] == kind


def test_limit_without_request_and_no_limit_are_told_apart() -> None:
    assert "pod.container.0.memory_limit" not in facts(pod([container(limit=None)]))
    assert facts(pod([container(request=None)]))["pod.container.0.memory_limit"] == 32 * 2**30


def test_accelerators_of_every_maker_are_counted() -> None:
    names = ["nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-3g.20gb", "habana.ai/gaudi", "nvidia.com/gpu.shared", "rebellions.ai/ATOM", "cpu"]
    counted = [name for name in names if "pod.container.0.gpus" in facts(pod([{"name": "a", "image": "b", "resources": {"limits": {name: "2"}}}]))]
    assert counted == ["nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-3g.20gb", "habana.ai/gaudi", "nvidia.com/gpu.shared", "rebellions.ai/ATOM"]


def test_facts_quote_the_line_that_they_stand_in() -> None:
    text = json.dumps(pod([container()], [status(last=terminated(137, "OOMKilled"))]), indent=1)
    reason = next(fact for fact in read(text.encode(), "pod.json").facts if fact.name == "pod.container.0.reason")
    assert reason.place is not None
    assert reason.place.line is not None
    assert text.split("\n")[reason.place.line - 1].strip() == reason.place.quote == '"reason": "OOMKilled",'


def test_limit_of_the_whole_pod_holds_for_a_container_without_one() -> None:
    whole = pod([container(limit=None)], spec={"resources": {"limits": {"memory": "48Gi"}}})
    assert facts(whole).get("pod.container.0.memory_limit") == 48 * 2**30
    own = pod([container(limit="8Gi")], spec={"resources": {"limits": {"memory": "48Gi"}}})
    assert facts(own).get("pod.container.0.memory_limit") == 8 * 2**30
