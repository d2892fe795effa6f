"""A Kubernetes cluster on loopback that runs nothing: a real HTTP API, controllers, a scheduler, kubelets that play containers."""

from bot.sandbox.cluster.simulated import SimulatedCluster

__all__ = ["SimulatedCluster"]
