"""One real cluster for a whole test session, started at the first asking: use `real_cluster()` from a fixture of any folder."""

import atexit
from functools import cache

from bot.sandbox.kubelet.machine import machine
from tests.cluster.real_cluster import RealCluster


@cache
def real_cluster() -> RealCluster:
    """Skips the test (or fails in CI) when the control plane is not built. It has one node with one GPU; tests add others with labels of their own."""
    cluster = RealCluster([machine("gpu-node-1")], scale=20.0)
    cluster.start()
    atexit.register(cluster.stop)
    return cluster
