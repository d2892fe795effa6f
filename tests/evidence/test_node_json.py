"""The node's own object, and what `collect` noted beside the evidence."""

import json

from bot.evidence import bundle_json, node_json

NODE = {
    "metadata": {"name": "gpu-7"},
    "spec": {"unschedulable": True, "taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]},
    "status": {
        "capacity": {"memory": "131072000Ki", "nvidia.com/gpu": "8"},
        "allocatable": {"memory": "128Gi", "nvidia.com/gpu": "7"},
        "conditions": [
            {"type": "MemoryPressure", "status": "True", "message": "kubelet has insufficient memory available"},
            {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."},
        ],
    },
}


def test_node_tells_its_health_and_what_it_has_to_give() -> None:
    facts = {fact.name: fact.value for fact in node_json.read(json.dumps(NODE, indent=1).encode(), "node.json").facts}
    assert facts == {
        "node.name": "gpu-7", "node.ready": False, "node.ready_reason": "NodeStatusUnknown", "node.memory_pressure": True, "node.cordoned": True, "node.unreachable": True,
        "node.memory_capacity_bytes": 131072000 * 1024, "node.memory_allocatable_bytes": 128 * 2**30, "node.gpus_capacity": 8, "node.gpus_allocatable": 7,
    }  # fmt: skip


def test_node_whose_runtime_does_not_answer_says_so() -> None:
    words = "[container runtime is down, PLEG is not healthy: pleg was last seen active 3m12.9s ago; threshold is 3m0s]"
    node = {"metadata": {"name": "gpu-7"}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": words}]}}
    facts = {fact.name: fact.value for fact in node_json.read(json.dumps(node).encode(), "node.json").facts}
    assert (facts["node.ready"], facts["node.runtime_trouble"]) == (False, "container runtime is down")


def test_something_else_is_a_gap() -> None:
    assert [gap.reason for gap in node_json.read(b"{}", "node.json").gaps] == ["no node in it"]
    assert [gap.reason for gap in node_json.read(b'{"metadata": {"name": "gpu', "node.json").gaps] == ["damaged or cut"]


def test_notes_of_collect_name_the_container_and_the_boot() -> None:
    text = json.dumps({"schema": 1, "server_container": "main", "node_boot_time": "2026-01-14T00:00:00+00:00"})
    assert {fact.name: fact.value for fact in bundle_json.read(text.encode(), "bundle.json").facts} == {"bundle.server_container": "main", "bundle.booted_at": 1768348800}
    assert bundle_json.read(b"[]", "bundle.json").facts == ()
