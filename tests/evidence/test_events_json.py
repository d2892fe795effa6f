"""Which events can explain an end, and what their messages say."""

import json
from typing import Any

import pytest

from bot.evidence.events_json import read
from tests.diagnosis.scenes import event


def facts(*events: dict[str, Any]) -> dict[str, Any]:
    return {fact.name: fact.value for fact in read(json.dumps({"items": list(events)}).encode(), "events.json").facts}


@pytest.mark.parametrize(
    ("reason", "message", "kind"),
    [
        ("Killing", "Container server failed startup probe, will be restarted", "probe-kill"),
        ("Killing", "Stopping container server", "stopping"),
        ("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503", "probe-failed"),
        ("Unhealthy", "Liveness probe errored: rpc error: code = DeadlineExceeded desc = failed to exec in container", "probe-errored"),
        ("Unhealthy", "Liveness probe errored and resulted in unknown state: rpc error: code = Unknown", "probe-errored"),
        ("Evicted", "The node was low on resource: memory. ", "evicted"),
        ("Preempted", "Preempted by pod 1f on node n", "preempted"),
        ("TaintManagerEviction", "Marking for deletion Pod llm/chat-0", "taint-eviction"),
        ("FailedScheduling", "0/3 nodes are available", "unschedulable"),
        ("UnexpectedAdmissionError", "Allocate failed", "rejected"),
        ("TaintManagerEviction", "Cancelling deletion of Pod llm/chat-0", "taint-cancelled"),
        ("Descheduled", "pod eviction from node-1 node by sigs.k8s.io/descheduler", "moved"),
        ("Stopped", "Preempted to accommodate a workload (UID: 1) due to prioritization in the ClusterQueue", "preempted"),
        ("SpotInterrupted", "Spot interruption warning was triggered", "interrupted"),
        ("TerminatingOnInterruption", "Interruption triggered termination for the Node", "interrupted"),
        ("InstanceTerminating", "Instance is terminating", "node-shutdown"),
        ("DisruptionTerminating", "Disrupting Node: Underutilized", "drain"),
        ("FailedCreatePodContainer", "unable to ensure pod container exists: mkdir /sys/fs/cgroup/memory/kubepods/burstable/pod1: cannot allocate memory", "cgroup-refused"),
        ("FailedCreatePodSandBox", "mkdir /sys/fs/cgroup/memory/kubepods/besteffort/pod1/2f: no space left on device: unknown", "cgroup-refused"),
        ("OutOfnvidia.com/gpu", "Node didn't have enough resource", "rejected"),
        ("Failed", "Error: failed to create containerd task", "start-failed"),
        ("Failed", 'Failed to pull image "x"', "image"),
        ("Failed", "Error: ImagePullBackOff", "image"),
        ("BackOff", 'Back-off pulling image "registry.example.com/chat:9"', "image"),
        ("BackOff", "Back-off restarting failed container chat in pod chat-0", "back-off"),
        ("Failed", 'Error: failed to create containerd task: exec: "/bin/weight-puller": no such file or directory', "start-failed"),
    ],
)
def test_reason_and_message_tell_the_kind(reason: str, message: str, kind: str) -> None:
    assert facts(event(reason, message))["events.0.kind"] == kind


def test_events_that_explain_nothing_are_left_alone() -> None:
    assert facts(event("Pulled", "Container image already present"), event("Created", "Created container"), event("Started", "Started container")) == {"events.looked": True, "events.newest_at": 1768383037}


def test_newest_comes_first_and_at_most_two_hundred_are_kept() -> None:
    many = [event("BackOff", f"Back-off {number}", at=f"2026-01-14T{number // 60:02d}:{number % 60:02d}:00Z") for number in range(300)]
    found = facts(*many)
    assert found["events.0.message"] == "Back-off 299"
    assert "events.200.kind" not in found


def test_time_of_a_new_style_event_is_read() -> None:
    fresh = {**event("FailedScheduling", "0/3 nodes"), "firstTimestamp": None, "lastTimestamp": None, "eventTime": "2026-01-14T09:20:00.482913Z", "count": None}
    assert facts(fresh)["events.0.last_at"] == 1768382400


def test_empty_list_is_a_look_and_something_else_is_a_gap() -> None:
    assert facts() == {"events.looked": True}
    assert [gap.reason for gap in read(b'{"kind": "Pod"}', "events.json").gaps] == ["no events in it"]


@pytest.mark.parametrize(("words", "lacks"), [("35 Insufficient cpu, 4 Insufficient memory", "cpu"), ("2 Insufficient cpu, 4 Insufficient memory", "memory"), ("1 Insufficient cpu", "cpu")])
def test_scheduler_lacks_what_more_nodes_lack(words: str, lacks: str) -> None:
    assert facts(event("FailedScheduling", f"0/41 nodes are available: {words}."))["events.0.lacks"] == lacks
