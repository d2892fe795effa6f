"""Which end of which container is the incident, and what an answer may not claim beside it: no certainty against the container's own end, nothing of a
node's trouble before it started, no helper for a server that died by itself."""

from typing import Any

import pytest

from bot.model import Certainty, Diagnosis
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import ENDED, container, event, killed, path, pod, status, terminated
from tests.diagnosis.test_host_verdicts import OOM, dead, events, gpu

LOADING = 'ERROR 01-14 09:31:03 [core.py:708]   File "/opt/vllm/v1/worker/gpu_model_runner.py", line 2600, in load_model\n'
PROXY = container("proxy", "envoyproxy/envoy:v1", "64Mi", "64Mi")
PROXY_ID = "c" * 64
YESTERDAY, LATER = "2026-01-13T05:00:00Z", "2026-01-14T12:00:00Z"
READINESS = {"readinessProbe": {"httpGet": {"path": "/health", "port": 8000}}}


def node(pressure: str) -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "MemoryPressure", "status": pressure, "message": "kubelet"}]}}


def sure(found: Diagnosis) -> tuple[str, str]:
    return found.cause, found.certainty.value


def of_node(reason: str, at: str) -> dict[str, Any]:
    return events(event(reason, "Node node-1 has been rebooted, boot id: x", at=at, kind="Node", name="node-1"))


@pytest.mark.parametrize("reason", ["Error", "OOMKilled"])
def test_a_full_card_is_not_certain_where_the_runtime_saw_a_memory_kill(reason: str) -> None:
    found = diagnose({"pod.json": pod([gpu()], dead(137, reason)), "previous.log": LOADING + OOM})
    assert sure(found) == ("weights_too_large", "likely" if reason == "OOMKilled" else "certain")


@pytest.mark.parametrize("probe", [READINESS, {}], ids=["found ready by a probe", "ready for want of a probe"])
def test_a_step_that_the_next_start_came_past_is_not_certainly_too_large(probe: dict[str, Any]) -> None:
    found = diagnose({"pod.json": pod([gpu(**probe)], [status(last=terminated(1))]), "previous.log": LOADING + OOM})
    assert found.certainty is (Certainty.LIKELY if probe else Certainty.CERTAIN)
    assert any("next start" in quote.says.en for quote in found.against) is bool(probe)


@pytest.mark.parametrize("at", [YESTERDAY, LATER])
def test_a_reboot_of_the_node_at_another_time_ended_nothing(at: str) -> None:
    assert diagnose({"pod.json": pod([gpu()], dead(137, "Error")), "events.json": of_node("Rebooted", at)}).cause == "unknown"


def test_a_reboot_at_the_end_is_the_end_unless_the_runtime_saw_a_memory_kill() -> None:
    assert diagnose({"pod.json": pod([gpu()], dead(137, "Error")), "events.json": of_node("Rebooted", ENDED)}).cause == "node_lost"
    assert diagnose({"pod.json": pod([gpu()], dead()), "events.json": of_node("Rebooted", ENDED)}).cause == "container_memory_limit"


def test_a_probe_that_failed_before_the_container_started_did_not_end_it() -> None:
    failing = events(event("Unhealthy", "Liveness probe failed: timeout", at=YESTERDAY))
    assert diagnose({"pod.json": pod([gpu()], dead(137, "Error")), "events.json": failing}).cause == "unknown"


def test_a_killed_child_of_a_helper_does_not_explain_a_server_that_was_killed_too() -> None:
    both = [*dead(137, "Error"), status("proxy", container_id=PROXY_ID)]
    kernel = killed(path(PROXY_ID), path(PROXY_ID), "envoy")
    found = diagnose({"pod.json": pod([gpu(), PROXY], both), "kernel.log": kernel})
    assert found.cause == "unknown"
    assert "no memory kill of it" in found.summary.en
    fine = [status(restartCount=0), status("proxy", last=terminated(137, "OOMKilled", container_id=PROXY_ID), ready=False)]
    assert diagnose({"pod.json": pod([gpu(), PROXY], fine), "kernel.log": kernel}).cause == "sidecar_memory"


def test_a_server_that_is_ready_again_does_not_hide_a_helper_that_is_not() -> None:
    statuses = [status(last=terminated(1, at=YESTERDAY, started=YESTERDAY)), status("proxy", {"waiting": {"reason": "CrashLoopBackOff"}}, terminated(137, "OOMKilled"), ready=False)]
    assert diagnose({"pod.json": pod([gpu(), PROXY], statuses)}).cause == "sidecar_memory"


@pytest.mark.parametrize(("limit", "certainty"), [("64Mi", Certainty.LIKELY), (None, Certainty.POSSIBLE)])
def test_a_helper_is_killed_at_its_limit_only_where_it_has_one(limit: str | None, certainty: Certainty) -> None:
    proxy = container("proxy", "envoyproxy/envoy:v1", limit, "64Mi")
    found = diagnose({"pod.json": pod([gpu(), proxy], [status(restartCount=0), status("proxy", last=terminated(137, "OOMKilled"), ready=False)])})
    assert (found.cause, found.certainty) == ("sidecar_memory", certainty)
    assert "unknown" not in found.summary.en


@pytest.mark.parametrize("pressure", ["True", "False"])
def test_a_larger_limit_is_not_the_first_advice_on_a_node_that_is_short_itself(pressure: str) -> None:
    found = diagnose({"pod.json": pod([gpu()], dead()), "node.json": node(pressure)})
    short = pressure == "True"
    assert sure(found) == ("container_memory_limit", "possible" if short else "likely")
    assert (found.recommendations[0].remedy != "memory_limit") is short


def test_a_container_that_asks_for_its_whole_limit_is_not_told_to_ask_for_more() -> None:
    found = diagnose({"pod.json": pod([gpu("32Gi")], dead()), "kernel.log": killed(None, path())})
    assert found.cause == "node_out_of_memory"
    assert "memory_request" not in {each.remedy for each in found.recommendations}


def test_no_line_is_quoted_for_what_no_line_says() -> None:
    found = diagnose({"pod.json": pod([gpu()], dead()), "kernel.log": killed(path(), path())})
    assert found.cause == "container_memory_limit"
    assert not any("Nothing else" in quote.says.en for quote in found.evidence)


def test_the_share_beside_others_is_what_they_leave_at_most() -> None:
    text = "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 14.76 GiB total capacity; 4.37 GiB already allocated; 14.75 MiB free; 4.43 GiB reserved in total by PyTorch)\n"
    found = diagnose({"container.log": text})
    assert found.cause == "other_process_on_gpu"
    assert "unknown" not in found.summary.en
    assert {each.to_value for each in found.recommendations if each.remedy == "gpu_memory_utilization"} == {0.26}


def test_a_crash_below_nccl_is_not_called_nccl_s_own() -> None:
    stack = '!!!!!!! Segfault encountered !!!!!!!\n  File "/opt/share/limit.c", line 33, in read_limit\n  File "/build/nccl/src/init.cc", line 1852, in ncclCommInitRank\n'
    found = diagnose({"container.log": stack})
    assert found.cause == "segfault"
    assert "or in what NCCL called" in found.summary.en
    assert not any("instruction" in quote.says.en for quote in found.evidence)


def test_no_kill_at_a_limit_is_shown_is_not_said_beside_a_report_of_the_oom_killer_that_is_cut_off() -> None:
    lost = "W 1 43] retryable_grpc_client.cc:83: GCS has been unavailable for more than 60 seconds\n"
    alone = diagnose({"container.log": lost})
    assert ("memory_limit", "raise") in [(each.remedy, each.direction) for each in alone.will_not_help]
    head = "[91.007000] gcs_server invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=-997\n"
    beside = diagnose({"container.log": lost, "kernel.log": head})
    assert ("memory_limit", "raise") not in [(each.remedy, each.direction) for each in beside.will_not_help]
    assert [each.id for each in beside.recommendations] == ["host_memory_use:lower", "restart"]
