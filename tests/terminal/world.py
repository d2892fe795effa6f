"""A simulated cluster with SSH nodes, and the `oombot.yaml` that leads to them: for the commands that look at live targets."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from bot.sandbox.cluster import SimulatedCluster
from bot.sandbox.kubelet.history import History
from bot.sandbox.kubelet.machine import machine
from bot.sandbox.ssh_node import SshNode

NAMESPACE = "llm"


def deployment(
    name: str, *args: str, image: str = "vllm/vllm-openai:v0.11.0", memory: str = "64Gi", script: str = "", replicas: int = 1, sidecar: bool = False
) -> str:
    """A Deployment of an inference server; `script` is what its container plays (bot/sandbox/behaviours.py)."""
    server = {
        "name": "server",
        "image": image,
        "args": list(args),
        "env": [{"name": "HF_TOKEN", "value": "hf_" + "q" * 30}],
        "resources": {"limits": {"nvidia.com/gpu": "1", "memory": memory}},
    }
    beside = [{"name": "istio-proxy", "image": "docker.io/istio/proxyv2:1.22"}] if sidecar else []
    notes = {"sandbox.oombot.io/script.server": script} if script else {}
    template = {"metadata": {"labels": {"app": name}, "annotations": notes}, "spec": {"containers": [*beside, server]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return yaml.safe_dump({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})


@dataclass(frozen=True)
class World:
    cluster: SimulatedCluster
    nodes: SshNode
    folder: Path

    @property
    def config(self) -> str:
        return str(self.folder / "oombot.yaml")

    def settings(self, **changes: object) -> str:
        """Writes `oombot.yaml`; `changes` replace its top-level keys."""
        values: dict[str, object] = {
            "clusters": [{"name": "sandbox", "read": {"kubeconfig": str(self.folder / "kubeconfig")}}],
            "ssh": {"user": "oombot", "key": str(self.nodes.key_file), "known_hosts": str(self.nodes.known_hosts), "port": self.nodes.port},
            **changes,
        }
        Path(self.config).write_text(yaml.safe_dump(values))
        return self.config

    def die(self, manifest: str, restarts: int = 3) -> str:
        """Applies a workload whose pods have failed already; gives the name of its pod once it waits for its restart."""
        self.cluster.apply(manifest, history=History(restarts))
        name = yaml.safe_load(manifest)["metadata"]["name"]
        for _ in range(200):
            for pod in self.cluster.objects("v1", "Pod", NAMESPACE):
                states = pod.get("status", {}).get("containerStatuses") or []
                if pod["metadata"]["name"].startswith(f"{name}-") and any(each.get("restartCount") or "terminated" in each["state"] for each in states):
                    return str(pod["metadata"]["name"])
            time.sleep(0.02)
        raise AssertionError(f"{name} did not die")


@contextlib.contextmanager
def running_world(folder: Path, cards: int = 6) -> Iterator[World]:
    """`cards`: GPUs of the one node. Time in the cluster stands almost still, so that what waits for a restart goes on waiting."""
    with SimulatedCluster([machine("gpu-node-1", gpus=cards)], scale=0.01) as cluster:
        cluster.kubeconfig(folder / "kubeconfig", "reader")
        nodes = SshNode(cluster.machines, folder)
        nodes.start()
        world = World(cluster, nodes, folder)
        world.settings()
        yield world
        nodes.stop()
