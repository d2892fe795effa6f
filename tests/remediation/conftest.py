"""`place`: each test that asks for it runs on the simulated cluster and on the real control plane."""

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
from tests.contracts.lane import Cluster
from tests.remediation.place import Place

_NUMBERS = itertools.count(1)


@cache
def simulated_cluster() -> SimulatedCluster:
    cluster = SimulatedCluster([machine("gpu-node-1")], scale=60.0, rbac=access.manifests())
    cluster.start()
    return cluster


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.cluster)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    cluster = simulated_cluster() if request.param == "simulated" else real_cluster()
    found = Place(cast(Cluster, cluster), f"remediation-{next(_NUMBERS)}", tmp_path)
    yield found
    found.clean()
