"""Starts, ends, restarts and probes of one container, with a clock of the test's own."""

from typing import Any

from bot.sandbox.kubelet.container import Container, back_off
from bot.sandbox.kubelet.play import Place, scripted
from bot.sandbox.kubelet.pod import shape

PROBE = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10, "failureThreshold": 6}
ADDRESS = "10.42.0.5"


def _container(script: dict[str, Any], *, policy: str = "Always", grace: float = 30, **spec: Any) -> Container:
    return Container({"name": "server", "image": "x:1", **spec}, scripted(script), scale=1.0, restart_policy=policy, grace=grace)


def test_the_first_restart_comes_at_once_and_the_next_ones_later_and_later() -> None:
    assert [back_off(number) for number in range(8)] == [1, 10, 20, 40, 80, 160, 300, 300]


def test_a_container_that_ends_waits_and_starts_again() -> None:
    container = _container({"exit_code": 3, "exit_after": 5})
    assert container.due(0)
    container.start(0, Place())
    container.advance(4, ADDRESS)
    assert container.run is not None
    assert container.run.running
    container.advance(6, ADDRESS)
    assert not container.run.running
    assert not container.due(5.5)
    assert container.due(6.1)
    container.start(6.1, Place())
    assert container.restarts == 1
    assert container.status(7, shape, "p")["lastState"]["terminated"]["exitCode"] == 3


def test_in_the_back_off_the_last_state_is_the_run_that_ended() -> None:
    container = _container({"exit_code": 3, "exit_after": 5})
    container.start(0, Place())
    container.advance(6, ADDRESS)
    container.start(7, Place())
    container.advance(20, ADDRESS)
    container.due(20)
    row = container.status(20, shape, "chat-0_llm(uid)")
    assert row["state"]["waiting"] == {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container=server pod=chat-0_llm(uid)"}
    assert row["lastState"]["terminated"]["finishedAt"] == "1970-01-01T00:00:12Z"


def test_a_pod_that_must_not_restart_stays_ended() -> None:
    container = _container({"exit_code": 3, "exit_after": 5}, policy="Never")
    container.start(0, Place())
    container.advance(6, ADDRESS)
    assert not container.due(1000)
    assert container.status(1000, shape, "p")["state"]["terminated"]["exitCode"] == 3


def test_a_start_up_probe_that_gives_up_kills_after_the_grace_period() -> None:
    container = _container({"ready_after": 100}, startupProbe=PROBE)
    container.start(0, Place())
    told = container.advance(95, ADDRESS)
    assert container.run is not None
    assert container.run.end is not None
    assert (container.run.end.exit_code, container.run.end.reason, container.run.ended) == (137, "Error", 90.0)
    assert [each.reason for each in told] == ["Unhealthy"] * 6 + ["Killing"]
    assert told[0].message == 'Startup probe failed: Get "http://10.42.0.5:8000/health": dial tcp 10.42.0.5:8000: connect: connection refused'
    assert told[-1].message == "Container server failed startup probe, will be restarted"


def test_a_server_that_is_ready_in_time_is_left_alone_by_its_probe() -> None:
    container = _container({"ready_after": 55}, startupProbe=PROBE)
    container.start(0, Place())
    told = container.advance(500, ADDRESS)
    assert container.run is not None
    assert container.run.running
    assert [each.reason for each in told] == ["Unhealthy"] * 5


def test_a_container_has_started_once_its_start_up_probe_was_answered() -> None:
    slow, bare = _container({"ready_after": 55}, startupProbe=PROBE), _container({"ready_after": 55})
    for container in (slow, bare):
        container.start(0, Place())
    assert [one.status(50, shape, "p")["started"] for one in (slow, bare)] == [False, True]
    assert slow.status(60, shape, "p")["started"]


def test_a_liveness_probe_alone_kills_a_slow_start_too() -> None:
    container = _container({"ready_after": 100}, livenessProbe={**PROBE, "failureThreshold": 3})
    container.start(0, Place())
    container.advance(61, ADDRESS)
    assert container.run is not None
    assert container.run.ended == 60.0


def test_without_probes_a_container_is_ready_as_soon_as_it_runs() -> None:
    container = _container({"ready_after": 100})
    container.start(0, Place())
    assert container.ready(1)
    probed = _container({"ready_after": 100}, readinessProbe=PROBE)
    probed.start(0, Place())
    assert not probed.ready(99)
    assert probed.ready(101)


def test_one_that_listens_leaves_with_zero_and_one_that_does_not_is_killed() -> None:
    listens, deaf = _container({"leaves_after": 2}), _container({"leaves_after": None}, grace=10)
    for container in (listens, deaf):
        container.start(0, Place())
        container.stop(100, 101)
        assert container.run is not None
        assert container.run.running
    listens.stop(100, 103)
    deaf.stop(100, 111)
    assert listens.run is not None
    assert deaf.run is not None
    assert listens.run.end is not None
    assert deaf.run.end is not None
    assert (listens.run.end.exit_code, listens.run.ended) == (0, 102.0)
    assert (deaf.run.end.exit_code, deaf.run.ended) == (137, 110.0)


def test_the_log_shows_what_has_been_printed_so_far() -> None:
    container = _container({"log": ["one", "two", "three"], "exit_code": 1, "exit_after": 8})
    container.start(100, Place())
    assert container.run is not None
    assert [text for _, text in container.run.log(103)] == ["one", "two"]
    container.advance(200, ADDRESS)
    assert container.run.log(1000)[-1] == (104.0, "three")


def test_a_faster_clock_shortens_everything() -> None:
    container = Container({"name": "server"}, scripted({"exit_code": 1, "exit_after": 100}), scale=50.0, restart_policy="Always", grace=30)
    container.start(0, Place())
    container.advance(2.1, ADDRESS)
    assert container.run is not None
    assert container.run.ended == 2.0
