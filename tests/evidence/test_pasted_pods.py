"""A pod among other outputs is read where a command printed one pod, at its own lines, and never beside the pod's own file."""

import json

import pytest

from bot.evidence.node_readings import read
from tests.diagnosis.bundles import diagnose

DESCRIBED = """Name:             chat-0
Namespace:        llm
Containers:
  server:
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
    Restart Count:  5
    Limits:
      memory:  24Gi
"""
CUT = "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n"
STATUS = "chat-0\tEvicted\tThe node was low on resource: {}. Threshold quantity: 1Gi, available: 900Mi. Container server was using 9Gi, request is 0."
FREE = "$ free -g\n              total        used        free      shared  buff/cache   available\nMem:            503         110           9           1         384         390\n"
GONE = {"name": "chat-0", "status": {"reason": "Evicted", "message": "The node was low on resource: memory. "}}
OBJECT = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "chat-0"}, "spec": {"containers": []}, "status": GONE["status"]}


@pytest.mark.parametrize("command", ["kubectl describe pod chat-0", "kubectl -n llm describe pods/chat-0", "oc describe po chat-0 | head -40", ""])
def test_a_described_pod_keeps_its_lines(command: str) -> None:
    ahead = FREE + f"$ {command}\n" if command else ""
    found = {fact.name: fact for fact in read((ahead + DESCRIBED).encode(), "node_readings.txt").facts}
    assert found["pod.container.0.exit_code"].value == 137
    assert found["pod.container.0.memory_limit"].value == 24 * 2**30
    place = found["pod.container.0.exit_code"].place
    assert place is not None
    assert (ahead + DESCRIBED).split("\n")[(place.line or 0) - 1].strip() == "Exit Code:    137"


def test_what_a_filter_left_of_a_described_pod_is_read() -> None:
    found = diagnose({"node_readings.txt": f"$ kubectl describe pod chat-0 | grep -A2 'Last State'\n{CUT}"})
    assert found.cause == "container_memory_limit"


@pytest.mark.parametrize(("resource", "cause"), [("ephemeral-storage", "evicted_other"), ("memory", "evicted_for_memory"), ("pids", "evicted_other")])
@pytest.mark.parametrize("command", ["kubectl get pod chat-0 -o jsonpath='{.status.message}'", "kubectl -n llm get pod -n llm chat-0 -o yaml", "oc get pods/chat-0 -o wide"])
def test_the_sentence_of_a_status_names_what_was_short(resource: str, cause: str, command: str) -> None:
    assert diagnose({"node_readings.txt": f"$ {command}\n{STATUS.format(resource)}\n"}).cause == cause


def test_the_object_itself_is_read() -> None:
    assert diagnose({"node_readings.txt": f"$ kubectl get pod chat-0 -o json\n{json.dumps(OBJECT, indent=4)}\n"}).cause == "evicted_for_memory"


@pytest.mark.parametrize("command", ["kubectl get pods -A", "kubectl get pods -n llm", "kubectl describe node gpu-7", "kubectl logs chat-0", "ps aux"])
def test_lists_logs_and_other_objects_are_no_pod(command: str) -> None:
    text = f"$ {command}\n{STATUS.format('memory')}\n"
    assert not [fact for fact in read(text.encode(), "node_readings.txt").facts if fact.name.startswith("pod.")]


def test_the_pods_own_file_overrules_a_paste() -> None:
    pod = {**OBJECT, "status": {"phase": "Running"}}
    assert diagnose({"pod.json": pod, "node_readings.txt": f"$ kubectl describe pod other-1\n{DESCRIBED}"}).cause == "unknown"
