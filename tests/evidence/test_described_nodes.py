"""A described node among other outputs tells how it is, at its own line; several nodes tell nothing of one."""

import pytest

from bot.evidence.node_readings import read
from tests.diagnosis.bundles import diagnose

ROW = "  {:<16} {:<8} Wed, 14 Jan 2026 07:47:26 +0300   Wed, 14 Jan 2026 07:48:07 +0300   {}   {}\n"
HEAD = "$ kubectl describe node gpu-7\nName:     gpu-7\nTaints:   <none>\nConditions:\n  Type   Status   LastHeartbeatTime   LastTransitionTime   Reason   Message\n  ----   ------   -----------------   ------------------   ------   -------\n"
SILENT = "Kubelet stopped posting node status."


def _node(ready: str, reason: str, message: str, pressure: str = "False") -> str:
    return (
        HEAD + ROW.format("MemoryPressure", pressure, "KubeletSays", "kubelet says so") + ROW.format("Ready", ready, reason, message) + "Capacity:\n cpu:   8\n"
    )


def test_node_whose_kubelet_is_silent_is_lost() -> None:
    text = _node("Unknown", "NodeStatusUnknown", SILENT, "Unknown")
    found = diagnose({"node_readings.txt": text})
    assert found.cause == "node_lost"
    quoted = next(one for one in found.evidence if one.line)
    assert "NodeStatusUnknown" in text.split("\n")[(quoted.line or 0) - 1]


def test_node_that_is_ready_is_not_lost() -> None:
    assert diagnose({"node_readings.txt": _node("True", "KubeletReady", "kubelet is posting ready status")}).cause != "node_lost"


def test_runtime_trouble_is_read_of_a_described_node_too() -> None:
    facts = {
        fact.name: fact.value for fact in read(_node("False", "KubeletNotReady", "PLEG is not healthy: pleg was last seen active 3m1s ago").encode(), "r").facts
    }
    assert facts["node.ready"] is False
    assert "PLEG" in str(facts["node.runtime_trouble"])


@pytest.mark.parametrize("times", [2, 3])
def test_several_nodes_tell_nothing_of_one(times: int) -> None:
    text = HEAD + (_node("Unknown", "NodeStatusUnknown", SILENT).removeprefix(HEAD)) * times
    assert not [fact for fact in read(text.encode(), "r").facts if fact.name.startswith("node.")]


def test_list_of_one_node_tells_how_it_is() -> None:
    head = "$ kubectl get nodes\nNAME    STATUS   ROLES    AGE   VERSION\n"
    row = "gpu-{}   {}   <none>   41d   v1.29.1\n"
    assert diagnose({"node_readings.txt": head + row.format(7, "NotReady")}).cause == "node_lost"
    for other in (row.format(7, "Ready"), row.format(7, "NotReady") + row.format(8, "Ready")):
        assert diagnose({"node_readings.txt": head + other}).cause != "node_lost"
