"""What the events say of the end, and of whose."""

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
    for text in ("connect: connection refused", "context deadline exceeded (Client.Timeout exceeded)", 'command "x" timed out', ""):
        answers.append(derived(DEAD, [event("Unhealthy", f"Startup probe failed: {text}")]).get("events.probe_answer"))
    assert answers == ["refused", "timeout", "timeout", "empty"]


def test_end_of_the_grace_period_is_seen_from_the_stop() -> None:
    facts = derived(DEAD, [event("Killing", "Stopping container server", at="2026-01-14T09:30:37Z")])
    assert (facts.get("termination.after_stop_s"), facts.get("termination.at_grace_end"), facts.get("termination.by")) == (30, True, "delete")


def test_end_of_the_grace_period_is_seen_from_the_deletion_without_events() -> None:
    facts = derived(pod([container()], [status(last=terminated(137))], metadata={"deletionTimestamp": "2026-01-14T09:31:07Z"}))
    assert (facts.get("termination.at_grace_end"), facts.get("termination.by")) == (True, "delete")


def test_drain_is_named_by_the_condition() -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
    assert derived(pod(status={"conditions": [condition]})).get("termination.by") == "drain"


def test_node_shutdown_comes_before_the_deletion_that_follows() -> None:
    shut = {"reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."}
    assert derived(pod(metadata={"deletionTimestamp": "2026-01-14T09:31:07Z"}, status=shut)).get("termination.by") == "shutdown"


def test_scheduling_failure_says_what_is_lacking() -> None:
    facts = derived(events=[event("FailedScheduling", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")])
    assert facts.get("events.unschedulable") == "gpu"


def test_detector_event_tells_a_limit_from_the_whole_node() -> None:
    kinds = []
    for message in ("Memory cgroup out of memory: Killed process 7 (x)", "Out of memory: Killed process 7 (x)"):
        kinds.append(derived(DEAD, [event("OOMKilling", message, kind="Node", name="node-1")]).get("events.kernel_kill"))
    assert kinds == ["memcg", "global"]
