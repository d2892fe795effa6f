"""What the events say of the end, and of whose."""

from typing import Any

import pytest

from bot.facts import ABSENT, UNKNOWN
from tests.diagnosis.scenes import container, derived, event, pod, status, terminated

DEAD = pod([container()], [status(last=terminated(137))])
KILLED = event("Killing", "Container server failed liveness probe, will be restarted")


def test_probe_kill_is_taken_from_the_killing_event_and_fits_the_end() -> None:
    facts = derived(DEAD, [event("Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 503", count=3), KILLED])
    names = ("events.probe_kill", "events.probe_answer", "events.probe_failures", "termination.after_probe_kill_s", "termination.fits_probe_kill")
    assert [facts.get(name) for name in names] == ["liveness", "http-503", 3, 30, True]


def test_probe_kill_long_before_the_end_does_not_fit_it() -> None:
    facts = derived(DEAD, [event("Killing", "Container server failed startup probe, will be restarted", at="2026-01-14T08:00:00Z")])
    assert facts.get("termination.fits_probe_kill") is False


def test_probe_kill_of_another_container_is_left_out() -> None:
    facts = derived(DEAD, [event("Killing", "Container proxy failed liveness probe, will be restarted", of="proxy")])
    assert "events.probe_kill" not in facts


def test_event_of_another_pod_is_left_out() -> None:
    other = event("Killing", "Container server failed liveness probe, will be restarted", name="chat-1")
    other["involvedObject"]["uid"] = "ffffffff-0000-0000-0000-000000000000"
    assert "events.probe_kill" not in derived(DEAD, [other])


def test_event_of_another_node_is_left_out() -> None:
    system = event("SystemOOM", "System OOM encountered, victim process: python3, pid: 4", kind="Node", name="node-2")
    assert "events.system_oom" not in derived(DEAD, [system])
    system["involvedObject"]["name"] = "node-1"
    assert derived(DEAD, [system]).get("events.system_oom") is True


def test_refused_connection_and_timeout_are_told_apart() -> None:
    answers = []
    for text in ("connect: connection refused", "context deadline exceeded (Client.Timeout exceeded)", "timeout: health rpc did not complete within 1s", ""):
        answers.append(derived(DEAD, [event("Unhealthy", f"Startup probe failed: {text}")]).get("events.probe_answer"))
    assert answers == ["refused", "timeout", "timeout", "empty"]


def test_probe_that_cannot_be_asked_is_told_from_one_that_is_answered() -> None:
    run = "OCI runtime exec failed: exec failed: unable to start container process: "
    answers = []
    for text in (run + 'exec: "pgrep": executable file not found in $PATH: unknown', run + "error executing setns process: exit status 1: unknown",
                 "cat: /tmp/alive: No such file or directory", 'malformed HTTP response "\\x15\\x03\\x01"', "http: server gave HTTP response to HTTPS client",
                 "bash: line 1: wget: command not found", "/bin/sh: curl: not found", "model m: not found in the catalog of this server"):  # fmt: skip
        answers.append(derived(DEAD, [event("Unhealthy", f"Liveness probe failed: {text}")]).get("events.probe_answer"))
    assert answers == ["no-command", "other", "other", "protocol", "protocol", "no-command", "no-command", "other"]


def test_end_of_the_grace_period_is_seen_from_the_stop() -> None:
    facts = derived(DEAD, [event("Killing", "Stopping container server", at="2026-01-14T09:30:37Z")])
    assert (facts.get("termination.after_stop_s"), facts.get("termination.at_grace_end"), facts.get("termination.by")) == (30, True, "delete")


@pytest.mark.parametrize(("sleep", "seen"), [("999999", True), ("5", False)])
def test_hook_that_uses_up_the_grace_period_may_be_followed_by_another_one(sleep: str, seen: bool) -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", f"sleep {sleep}"]}}}
    the_pod = pod([container(lifecycle=hook)], [status(last=terminated(137))], metadata={"deletionTimestamp": "2026-01-14T09:30:37Z"})
    stop = event("Killing", "Stopping container server", at="2026-01-14T09:30:07Z")
    for facts in (derived(the_pod, [stop]), derived(the_pod)):
        assert facts.get("termination.at_grace_end") is seen


def test_end_of_the_grace_period_is_seen_from_the_deletion_without_events() -> None:
    facts = derived(pod([container()], [status(last=terminated(137))], metadata={"deletionTimestamp": "2026-01-14T09:31:07Z"}))
    assert (facts.get("termination.at_grace_end"), facts.get("termination.by")) == (True, "delete")


@pytest.mark.parametrize(
    ("command", "waits"),
    [
        (["sleep", "infinity"], True), (["/bin/bash", "-c", "sleep 200000"], True), (["tail", "-f", "/dev/null"], True), (["sh", "-c", "sleep 5 && vllm serve /m"], False),
        (["vllm", "serve", "/models/sleep"], False),
    ],
)  # fmt: skip
def test_program_that_only_waits_is_no_server_that_needs_more_time(command: list[str], waits: bool) -> None:
    facts = derived(pod([container(command=command)], [status(last=terminated(137))], metadata={"deletionTimestamp": "2026-01-14T09:31:07Z"}))
    assert (facts.get("container.waits_only") is True, facts.get("termination.of_helper")) == (waits, waits)


def test_drain_is_named_by_the_condition() -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
    assert derived(pod(status={"conditions": [condition]})).get("termination.by") == "drain"


def test_node_shutdown_comes_before_the_deletion_that_follows() -> None:
    shut = {"reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."}
    assert derived(pod(metadata={"deletionTimestamp": "2026-01-14T09:31:07Z"}, status=shut)).get("termination.by") == "shutdown"


@pytest.mark.parametrize("reason", ["SpotInterrupted", "SpotInterruption", "PreemptScheduled"])
def test_node_that_the_cloud_takes_back_comes_before_the_drain_that_follows(reason: str) -> None:
    drained = {**event("Evicted", "Evicted pod"), "source": {"component": "karpenter"}, "reportingComponent": "karpenter"}
    facts = derived(DEAD, [event(reason, "", kind="Node", name="node-1"), drained])
    assert (facts.get("events.interrupted"), facts.get("termination.by")) == (True, "shutdown")


def test_interruption_of_another_node_is_nothing_to_this_pod() -> None:
    facts = derived(DEAD, [event("SpotInterrupted", "", kind="Node", name="node-9"), event("SpotInterrupted", "", kind="NodeClaim", name="general-x7")])
    assert facts.get("events.interrupted") is not True


def test_scheduling_failure_says_what_is_lacking() -> None:
    facts = derived(events=[event("FailedScheduling", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")])
    assert facts.get("events.unschedulable") == "gpu"


def test_detector_event_tells_a_limit_from_the_whole_node() -> None:
    kinds = []
    for message in ("Memory cgroup out of memory: Killed process 7 (x)", "Out of memory: Killed process 7 (x)"):
        kinds.append(derived(DEAD, [event("OOMKilling", message, kind="Node", name="node-1")]).get("events.kernel_kill"))
    assert kinds == ["memcg", "global"]


@pytest.mark.parametrize(("sizes", "limit", "restarts", "fills"), [((30, 2), "32Gi", 0, True), ((8, 2), "32Gi", 0, False), ((30, 2), "32Gi", 1, ABSENT), ((30, 2), None, 0, ABSENT)])
def test_kills_at_a_limit_beside_a_container_that_runs_on_are_compared_with_its_limit(sizes: tuple[int, int], limit: str | None, restarts: int, fills: object) -> None:
    kills = [
        event("OOMKilling", f"Memory cgroup out of memory: Killed process {pid} (x) total-vm:9kB, anon-rss:{size * 2**20}kB, file-rss:1kB, shmem-rss:0kB", kind="Node", name="node-1")
        for pid, size in enumerate(sizes, 7)
    ]
    facts = derived(pod([container(limit=limit)], [status(restartCount=restarts)]), kills)
    assert facts.get("events.kills_fill_limit") == fills


def _node_kill(reason: str, victim: str, at: str, started: str = "2026-01-14T09:00:00Z") -> object:
    text = f"System OOM encountered, victim process: {victim}, pid: 4" if reason == "SystemOOM" else f"Out of memory: Killed process 4 ({victim}) total-vm:9kB"
    dead = pod([container()], [status(last=terminated(137, started=started))])
    name = "events.system_oom" if reason == "SystemOOM" else "events.kernel_kill"
    return derived(dead, [event(reason, text, at=at, kind="Node", name="node-1")]).get(name)


def test_kill_that_the_node_reports_hours_before_the_end_is_somebody_elses() -> None:
    assert _node_kill("SystemOOM", "java", "2026-01-14T06:30:00Z") is ABSENT
    assert _node_kill("OOMKilling", "chrome", "2026-01-14T09:10:00Z") is ABSENT


def test_kill_that_the_node_reports_at_the_end_counts_whoever_was_taken() -> None:
    assert _node_kill("SystemOOM", "java", "2026-01-14T09:31:08Z") is True
    assert _node_kill("OOMKilling", "chrome", "2026-01-14T09:30:40Z") == "global"


def test_engine_taken_while_the_container_ran_counts_though_the_end_came_later() -> None:
    assert _node_kill("SystemOOM", "VLLM::Worker_TP", "2026-01-14T09:10:00Z") is True
    assert _node_kill("SystemOOM", "VLLM::Worker_TP", "2026-01-14T09:10:00Z", started="2026-01-14T09:20:00Z") is ABSENT


def test_repeated_kill_counts_when_the_end_lies_between_its_first_and_last_time() -> None:
    repeated = {**event("SystemOOM", "System OOM encountered, victim process: java, pid: 4", at="2026-01-14T11:00:00Z", kind="Node", name="node-1"), "firstTimestamp": "2026-01-14T08:00:00Z"}
    assert derived(DEAD, [repeated]).get("events.system_oom") is True


def test_ready_pod_is_not_told_of_the_nodes_other_kills() -> None:
    quiet = pod([container()], [status(restartCount=0)], status={"conditions": [{"type": "Ready", "status": "True"}]})
    assert "events.system_oom" not in derived(quiet, [event("SystemOOM", "System OOM encountered, victim process: java, pid: 4", kind="Node", name="node-1")])


def test_taint_eviction_that_was_taken_back_ends_nobody() -> None:
    marked = event("TaintManagerEviction", "Marking for deletion Pod llm/chat-0", at="2026-01-14T09:20:00Z")
    back = event("TaintManagerEviction", "Cancelling deletion of Pod llm/chat-0", at="2026-01-14T09:21:00Z")
    assert derived(pod(), [marked]).get("termination.by") == "taint"
    assert "termination.by" not in derived(pod(), [marked, back])


def test_controller_that_moves_a_pod_is_a_drain_and_the_kubelet_that_evicts_is_not() -> None:
    moved = {**event("Evicted", "Evicted pod: Underutilized"), "source": {"component": "karpenter"}}
    kubelet = {**event("Evicted", "The node was low on resource: ephemeral-storage. "), "source": {"component": "kubelet"}}
    assert derived(DEAD, [moved]).get("termination.by") == "drain"
    assert derived(DEAD, [kubelet]).get("events.evicted") == "ephemeral-storage"


def test_event_of_a_replaced_pod_keeps_how_its_container_ended() -> None:
    text = "Deleted worker Pod ray/w-1; Pod status: Failed; Ray container terminated status: &ContainerStateTerminated{ExitCode:137,Signal:0,Reason:OOMKilled,Message:,StartedAt:x}"
    facts = derived(events=[event("DeletedWorkerPod", text, kind="RayCluster", name="rc")])
    assert [facts.get(name) for name in ("events.replaced_end", "container.exit_code", "container.reason")] == ["137 OOMKilled", 137, "OOMKilled"]
    assert facts.get("container.memory_limit_bytes") is UNKNOWN


def test_refusal_of_the_scheduler_before_it_found_a_node_is_over() -> None:
    refused = event("FailedScheduling", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", at="2026-01-14T09:00:00Z", of="")
    found = event("Scheduled", "Successfully assigned llm/chat-0 to node-1", at="2026-01-14T09:00:12Z", of="")
    assert "events.unschedulable" not in derived(events=[refused, found])
    assert derived(events=[refused]).get("events.unschedulable") == "gpu"
    other = {**found, "involvedObject": {"kind": "Pod", "name": "chat-1", "uid": "another"}}
    assert derived(events=[refused, other]).get("events.unschedulable") == "gpu"
    again = event("FailedScheduling", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", at="2026-01-14T10:00:00Z", of="")
    assert derived(events=[refused, found, again]).get("events.unschedulable") == "gpu"


REFUSED = event("FailedScheduling", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", at="2026-01-14T09:20:14Z", of="")
ASKED = event("TriggeredScaleUp", "pod triggered scale-up: [{gpu-pool 0->1 (max: 8)}]", at="2026-01-14T09:20:02Z", of="")


@pytest.mark.parametrize(
    ("beside", "comes"),
    [
        (event("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached", at="2026-01-14T09:19:02Z", of=""), True),
        (event("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached", at="2026-01-14T09:21:02Z", of=""), ABSENT),
        (event("FailedScaleUp", "Node scale up in zones a associated with this pod failed: out of resources.", at="2026-01-14T09:21:02Z", of=""), ABSENT),
        (event("FailedScheduling", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", at="2026-01-14T11:20:14Z", of=""), ABSENT),
        (event("Scheduled", "Successfully assigned llm/chat-0 to node-1", at="2026-01-14T09:24:12Z", of=""), ABSENT),
    ],
)
def test_node_that_an_autoscaler_asked_for_counts_until_it_is_refused_late_or_found(beside: dict[str, Any], comes: object) -> None:
    assert derived(events=[REFUSED, ASKED, beside]).get("events.scaling_up") == comes
