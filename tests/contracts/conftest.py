"""Each test of this folder runs on both clusters, in a namespace and on a node (one GPU) of its own."""

import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import cast

import pytest

from bot.sandbox.cluster import SimulatedCluster
from bot.sandbox.kubelet.machine import machine
from tests.cluster import access
from tests.cluster.shared import real_cluster
from tests.contracts.lane import Cluster, Lane

_NUMBERS = itertools.count(1)


@cache
def simulated_cluster() -> SimulatedCluster:
    cluster = SimulatedCluster([machine("gpu-node-1")], scale=20.0, rbac=access.manifests())
    cluster.start()
    return cluster


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.cluster)])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return cast(Cluster, simulated_cluster() if request.param == "simulated" else real_cluster())


@pytest.fixture
def lane(cluster: Cluster, tmp_path: Path) -> Iterator[Lane]:
    name = f"lane-{next(_NUMBERS)}"
    cluster.add_machine(machine(f"node-{name}", labels={"pool": name}))
    cluster.namespace(name)
    lane = Lane(cluster, name, tmp_path)
    yield lane
    lane.clean()
