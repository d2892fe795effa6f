"""Why a pod finds no node, in the scheduler's words."""

from typing import Any

from bot.sandbox.kubelet.machine import machine
from bot.sandbox.kubelet.scheduler import place


def _pod(gpus: int = 1, node: str = "", phase: str = "Pending", **spec: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    found: dict[str, Any] = {"containers": [{"name": "server", "resources": {"limits": limits, "requests": limits}}], **spec}
    return {"metadata": {"name": "p"}, "spec": found | ({"nodeName": node} if node else {}), "status": {"phase": phase}}


NODES = [machine("a").node(), machine("b").node()]


def test_a_free_gpu_is_taken() -> None:
    assert place(_pod(), NODES, [_pod(node="a")]) == ("b", "")


def test_no_free_gpu_anywhere() -> None:
    node, why = place(_pod(), NODES, [_pod(node="a"), _pod(node="b")])
    assert node is None
    assert why == (
        "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )


def test_reasons_are_counted_by_node() -> None:
    node, why = place(_pod(nodeSelector={"kubernetes.io/hostname": "a"}), NODES, [_pod(node="a")])
    assert node is None
    assert "1 Insufficient nvidia.com/gpu, 1 node(s) didn't match Pod's node affinity/selector" in why
    assert "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling" in why


def test_a_pod_that_has_ended_holds_nothing() -> None:
    assert place(_pod(), NODES[:1], [_pod(node="a", phase="Failed")]) == ("a", "")


def test_a_taint_needs_a_toleration() -> None:
    tainted = machine("c")
    tainted.taints.append({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"})
    assert "1 node(s) had untolerated taint(s) {nvidia.com/gpu: present}" in place(_pod(), [tainted.node()], [])[1]
    assert place(_pod(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}]), [tainted.node()], []) == ("c", "")


def test_a_cordoned_node_takes_nothing() -> None:
    cordoned = machine("c").node()
    cordoned["spec"]["unschedulable"] = True
    assert "1 node(s) were unschedulable" in place(_pod(), [cordoned], [])[1]


def test_memory_counts_too() -> None:
    pod = _pod(0)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"memory": "300Gi"}}
    assert "Insufficient memory" in place(pod, NODES[:1], [])[1]


def test_without_nodes_the_scheduler_says_so() -> None:
    assert place(_pod(), [], []) == (None, "no nodes available to schedule pods")
