"""The control plane is the real one, and its simulated nodes joined it."""

import pytest

from bot.sandbox.kubelet.machine import machine
from tests.cluster.shared import real_cluster

pytestmark = pytest.mark.cluster


def test_the_server_is_the_version_that_go_mod_names() -> None:
    version = real_cluster().client.get("/version").json()
    assert (version["gitVersion"], version["major"], version["minor"]) == ("v1.36.3", "1", "36")


def test_its_nodes_are_ready_and_have_gpus() -> None:
    node = next(each for each in real_cluster().objects("v1", "Node") if each["metadata"]["name"] == "gpu-node-1")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "1"
    assert any(row["type"] == "Ready" and row["status"] == "True" for row in node["status"]["conditions"])
    assert not node["spec"].get("taints")


def test_a_node_may_join_later() -> None:
    cluster = real_cluster()
    cluster.add_machine(machine("late", gpus=4, card="NVIDIA H100 80GB HBM3"))
    node = next(each for each in cluster.objects("v1", "Node") if each["metadata"]["name"] == "late")
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "4"


def test_nobody_gets_in_without_a_token() -> None:
    cluster = real_cluster()
    answer = cluster.client.get("/api/v1/pods", headers={"Authorization": "Bearer made-up"})
    assert answer.status_code == 401
