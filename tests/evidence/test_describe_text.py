"""A described pod says what its object would: limits, ends, probes, volumes, events; each fact at its own line."""

from pathlib import Path

import pytest

from bot.evidence.bundle import open_path
from bot.evidence.describe_text import read
from tests.diagnosis.bundles import diagnose

TEXT = """Name:             chat-0
Namespace:        llm
Node:             gpu-7/10.0.0.7
Status:           Running
Controlled By:  ReplicaSet/chat
Init Containers:
  fetch:
    Image:         alpine:3
    State:          Terminated
      Reason:       Completed
      Exit Code:    0
      Started:      Mon, 04 May 2026 09:55:05 +0000
      Finished:     Mon, 04 May 2026 09:55:10 +0000
    Restart Count:  0
Containers:
  server:
    Container ID:  containerd://aa
    Image:         vllm/vllm-openai:v0.11.0
    Args:
      --model
      m
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       {reason}
      Exit Code:    137
      Started:      Mon, 04 May 2026 10:00:00 +0000
      Finished:     Mon, 04 May 2026 10:03:11 +0000
    Ready:          False
    Restart Count:  5
    Limits:
      memory:          24Gi
      nvidia.com/gpu:  2
    Liveness:     http-get http://:8000/health delay=60s timeout=2s period=10s #success=1 #failure=3
    Mounts:
      /dev/shm from dshm (rw)
Conditions:
  Type              Status
  Ready             False
Volumes:
  dshm:
    Type:       EmptyDir (a temporary directory that shares a pod's lifetime)
    Medium:     Memory
    SizeLimit:  8Gi
QoS Class:                   Burstable
Events:
  Type     Reason     Age                From     Message
  ----     ------     ----               ----     -------
  {event}
"""
PROBED = "Normal   Killing    25s (x3 over 8m)   kubelet  Container server failed liveness probe, will be restarted"
OOM = TEXT.format(reason="OOMKilled", event="Warning  BackOff    25s (x30 over 8m)  kubelet  Back-off restarting failed container server")


def test_described_pod_gives_the_facts_of_its_object() -> None:
    found = {fact.name: fact.value for fact in read(OOM.encode(), "describe.txt").facts}
    names = ("exit_code", "reason", "memory_limit", "gpus", "restarts", "lifetime_s", "liveness_timeout_s", "liveness_port", "shm_volume", "shm_limit")
    assert [found[f"pod.container.1.{name}"] for name in names] == [137, "OOMKilled", 24 * 2**30, 2, 5, 191, 2, "8000", "memory", 8 * 2**30]
    assert (found["pod.name"], found["pod.node"], found["pod.ready"], found["events.0.kind"], found["events.0.count"]) == ("chat-0", "gpu-7", False, "back-off", 30)


def test_each_fact_stands_at_the_line_that_says_it() -> None:
    lines = OOM.split("\n")
    places = {fact.name: fact.place for fact in read(OOM.encode(), "describe.txt").facts}
    for name, shown in (("exit_code", "Exit Code:    137"), ("memory_limit", "memory:          24Gi"), ("reason", "Reason:       OOMKilled")):
        place = places[f"pod.container.1.{name}"]
        assert place is not None
        assert (lines[(place.line or 0) - 1].strip(), place.quote) == (shown, shown)


@pytest.mark.parametrize(("reason", "event", "cause"), [("OOMKilled", "", "container_memory_limit"), ("Error", PROBED, "probe_kill"), ("Error", "", "unknown")])
def test_described_pod_is_diagnosed_as_its_object_is(reason: str, event: str, cause: str) -> None:
    found = diagnose({"describe.txt": TEXT.format(reason=reason, event=event)})
    assert found.cause == cause
    assert not {"pod.json", "events.json"} & {gap.source for gap in found.gaps}


def test_single_file_with_a_described_pod_is_known_by_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "paste.txt").write_text(OOM)
    assert list(open_path(str(tmp_path / "paste.txt")).files) == ["describe.txt"]


@pytest.mark.parametrize("text", ["", "Name: x\n", "Name:  x\nContainers:\n", "Name:  x\nContainers:\n  a:\n    Last State:  Terminated\n      Exit Code:  many\n      Started:  never\nEvents:  <none>\n"])
def test_torn_or_strange_text_is_calm(text: str) -> None:
    read(text.encode(), "describe.txt")


def test_object_overrules_the_description() -> None:
    found = diagnose({"describe.txt": OOM, "pod.json": {"kind": "Pod", "metadata": {"name": "chat-0"}, "spec": {"containers": [{"name": "server"}]}, "status": {"phase": "Pending"}}})
    assert found.cause != "container_memory_limit"


CUT_OUT = TEXT[TEXT.index("    State:          Waiting") : TEXT.index("    Liveness:")].format(reason="OOMKilled")


def test_states_that_were_cut_out_are_read_with_their_lines_and_nothing_is_taken_for_looked_at() -> None:
    reading = read(CUT_OUT.encode(), "describe.txt")
    found = {fact.name.removeprefix("pod.container.0."): fact for fact in reading.facts}
    assert (found["exit_code"].value, found["reason"].value, found["restarts"].value) == (137, "OOMKilled", 5)
    assert found["exit_code"].place is not None
    assert CUT_OUT.split("\n")[(found["exit_code"].place.line or 0) - 1].strip() == "Exit Code:    137"
    assert reading.looked == ()
    assert "name" not in found
    assert diagnose({"describe.txt": CUT_OUT}).cause == "container_memory_limit"


def test_scheduler_is_quoted_where_the_described_condition_has_no_words() -> None:
    pending = "Name:             chat-0\nNode:             <none>\nStatus:           Pending\nContainers:\n  server:\n    Image:         vllm/vllm-openai:v0.11.0\nConditions:\n  Type           Status\n  PodScheduled   False\n"
    words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    table = f"Events:\n  Type     Reason            Age   From               Message\n  ----     ------            ----  ----               -------\n  Warning  FailedScheduling  22s   default-scheduler  {words}\n"
    assert words in diagnose({"describe.txt": pending + table}).summary.en
    assert "PodScheduled is False" in diagnose({"describe.txt": pending}).summary.en


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("Name:             chat-0\nStatus:           Failed\nReason:           Evicted\nMessage:          The node was low on resource: ephemeral-storage. \n", "evicted_other"),
        ("Status:  Failed\nReason:  NodeShutdown\nMessage:  Pod was rejected as the node is shutting down.\n", "node_lost"),
        ("Events:\n  Type     Reason            Age  From               Message\n  ----     ------            ---- ----  -------\n  Warning  FailedScheduling  9s   default-scheduler  0/2 nodes are available: 2 Insufficient nvidia.com/gpu.\n", "unschedulable"),
        ("Type     Reason            Age  From               Message\nWarning  FailedScheduling  9s   default-scheduler  0/2 nodes are available: 2 Insufficient nvidia.com/gpu.\n", "unschedulable"),
    ],
)  # fmt: skip
def test_a_cut_out_of_a_described_pod_without_its_containers_is_read(text: str, cause: str) -> None:
    assert diagnose({"describe.txt": text}).cause == cause
    reading = read(text.encode(), "describe.txt")
    assert not reading.looked
    assert all(fact.place is None or fact.place.quote in text for fact in reading.facts)


def test_a_single_file_that_begins_with_the_table_of_events_is_known(tmp_path: Path) -> None:
    file = tmp_path / "pasted"
    file.write_text("Events:\n  Type     Reason  Age  From     Message\n  Warning  Failed  9s   kubelet  Error: secret \"hf\" not found\n")
    assert set(open_path(str(file)).files) == {"describe.txt"}
