"""What only the simulated cluster has: pasts, loopback addresses, kubeconfigs; the rest is in tests/contracts."""

import calendar
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import yaml

from bot.ports import Json
from bot.sandbox.behaviours import Chooser
from bot.sandbox.cluster import SimulatedCluster
from bot.sandbox.kubelet.history import History
from bot.sandbox.kubelet.machine import machine

T = TypeVar("T")
STARTUP = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10, "failureThreshold": 60}


def _wait(look: Callable[[], T | None], within_s: float = 15) -> T:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.03)
    raise AssertionError(f"not within {within_s} s")


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster([machine("a"), machine("b")], scale=50.0) as found:
        yield found


def _server(name: str, *args: str, kind: str = "Deployment", memory: str = "64Gi", **container: Any) -> Json:
    server = {"name": "server", "image": "vllm/vllm-openai:v0.11.0", "args": list(args), "resources": {"limits": {"nvidia.com/gpu": "1", "memory": memory}},
              "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}}, **container}  # fmt: skip
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [server]}}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "llm"}, "spec": spec}


def _pod(cluster: SimulatedCluster, name: str) -> Json | None:
    return next((pod for pod in cluster.objects("v1", "Pod", "llm") if pod["metadata"]["labels"].get("app") == name), None)


def _row(cluster: SimulatedCluster, name: str) -> Json | None:
    pod = _pod(cluster, name)
    return next(iter((pod or {}).get("status", {}).get("containerStatuses", [])), None)


def test_a_wrong_argument_crashes_and_the_right_one_serves(cluster: SimulatedCluster) -> None:
    cluster.apply(_server("chat", "--model=/models/chat-32b-w6", "--max-model-len=131072"))
    crashed = _wait(lambda: row if (row := _row(cluster, "chat")) and row["restartCount"] else None)
    assert not crashed["ready"]
    cluster.apply(_server("chat", "--model=/models/chat-32b-w6", "--max-model-len=57344"))
    _wait(lambda: any(row["ready"] for pod in cluster.objects("v1", "Pod", "llm") for row in pod["status"].get("containerStatuses", [])))


def test_a_pod_may_be_born_with_a_past_at_real_speed(cluster: SimulatedCluster) -> None:
    cluster.apply(_server("rerank", "--model=/models/rerank-24b", startupProbe=STARTUP), history=History(restarts=3))
    row = _wait(lambda: _row(cluster, "rerank"))
    assert row["restartCount"] == 3
    assert row["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    ended = row["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "Error")
    assert _seconds(ended["finishedAt"]) - _seconds(ended["startedAt"]) == pytest.approx(630, abs=2), "the probe's ten minutes and the grace period"
    pod = _pod(cluster, "rerank")
    assert pod is not None
    assert time.time() - _seconds(pod["metadata"]["creationTimestamp"]) > 4 * 630
    (deployment,) = cluster.objects("apps/v1", "Deployment", "llm")
    assert deployment["metadata"]["creationTimestamp"] < pod["metadata"]["creationTimestamp"]
    events = [each for each in cluster.objects("v1", "Event", "llm") if each["reason"] == "Killing"]
    assert events[0]["message"] == "Container server failed startup probe, will be restarted"


def test_a_past_with_a_host_kill_stands_in_the_nodes_kernel_log(cluster: SimulatedCluster) -> None:
    cluster.apply(_server("embed", "--model=/models/embed-7b", memory="24Gi"), history=History(restarts=2))
    pod = _wait(lambda: pod if (pod := _pod(cluster, "embed")) and pod["status"].get("containerStatuses") else None)
    row = pod["status"]["containerStatuses"][0]
    assert row["lastState"]["terminated"]["reason"] == "OOMKilled"
    node = cluster.machines[pod["spec"]["nodeName"]]
    said = [text for _, text in node.kernel if text.startswith("oom-kill:")]
    assert pod["metadata"]["uid"].replace("-", "_") in said[-1]
    assert row["lastState"]["terminated"]["containerID"].removeprefix("containerd://") in said[-1]


def test_a_running_server_holds_its_card(cluster: SimulatedCluster) -> None:
    cluster.apply(_server("small", "--model=/models/small-1b"))
    _wait(lambda: (row := _row(cluster, "small")) and row["ready"])
    pod = _pod(cluster, "small")
    assert pod is not None
    (gpu,) = cluster.machines[pod["spec"]["nodeName"]].gpus
    held = sum(process.used_bytes for process in gpu.processes())
    assert 0.9 * gpu.total_bytes < held <= gpu.total_bytes
    cluster.delete("Deployment", "llm", "small", api_version="apps/v1")
    _wait(lambda: not gpu.processes())


def test_a_script_for_a_workload_plays_instead_of_the_server() -> None:
    chooser = Chooser(scripts={("worker", "server"): {"log": ["scripted"], "exit_code": 135, "exit_after": 5}})
    with SimulatedCluster(scale=50.0, chooser=chooser) as cluster:
        cluster.apply(_server("worker", "--model=/models/small-1b"))
        row = _wait(lambda: row if (row := _row(cluster, "worker")) and row["restartCount"] else None)
        pod = _pod(cluster, "worker")
        assert pod is not None
        assert cluster.kubelet.log("llm", pod["metadata"]["name"], "server", previous=True)[0][1] == "scripted"
        assert row["restartCount"] >= 1


def test_it_listens_on_loopback_only_and_with_tls(cluster: SimulatedCluster) -> None:
    assert cluster.url.startswith("https://127.0.0.1:")
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{cluster.url}/version")  # nobody has signed its certificate


def test_a_kubeconfig_is_for_its_owner_alone(cluster: SimulatedCluster, tmp_path: Path) -> None:
    path = cluster.kubeconfig(tmp_path / "reader", "reader")
    assert path.stat().st_mode & 0o077 == 0
    document = yaml.safe_load(path.read_text())
    assert document["clusters"][0]["cluster"]["server"] == cluster.url
    other = yaml.safe_load(cluster.kubeconfig(tmp_path / "writer", "remediator").read_text())
    assert document["users"][0]["user"]["token"] != other["users"][0]["user"]["token"]


def test_nodes_have_addresses_of_their_own(cluster: SimulatedCluster) -> None:
    addresses = [node["status"]["addresses"][0]["address"] for node in cluster.objects("v1", "Node")]
    assert len(set(addresses)) == len({address for address in addresses if address.startswith("127.")})


def test_two_clusters_are_two(cluster: SimulatedCluster) -> None:
    with SimulatedCluster() as other:
        assert other.uid != cluster.uid
        assert other.url != cluster.url


def _seconds(stamp: str) -> float:
    return calendar.timegm(time.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ"))
