"""The incidents that stand ready in the demo: what runs, on which node, what somebody would type, and which alert rings. Data only.

Each pod has a node of its own, as a small fleet with pinned models has; the arithmetic of a start is `bot/sandbox/vllm`, so a wrong fix does not help here either.
"""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.sandbox.kubelet.history import History
from bot.sandbox.kubelet.machine import GpuProcess, Machine, machine
from bot.units import GIB

NAMESPACE = "llm"
Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Incident:
    """`command` is what somebody types after `/oom `; `alert` is the title of its page, empty where none rings."""

    name: str
    says: str
    node: Machine
    manifest: Manifest
    restarts: int
    alert: str = ""

    @property
    def command(self) -> str:
        kind = {"StatefulSet": "sts"}.get(self.manifest["kind"], "deploy")
        return f"check {kind}/{self.name} -n {NAMESPACE}"

    @property
    def history(self) -> History | None:
        return History(restarts=self.restarts) if self.restarts else None


def _workload(
    kind: str,
    name: str,
    args: list[str],
    *,
    version: str,
    memory: str = "96Gi",
    env: Mapping[str, str] | None = None,
    probes: Mapping[str, Any] | None = None,
    grace: int = 30,
) -> Manifest:
    """A Deployment or StatefulSet of one replica with one GPU, pinned to the node of the same name."""
    container: Manifest = {
        "name": "server",
        "image": f"vllm/vllm-openai:v{version}",
        "args": args,
        "ports": [{"name": "http", "containerPort": 8000}],
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
        "resources": {"requests": {"cpu": "8", "memory": memory, "nvidia.com/gpu": "1"}, "limits": {"memory": memory, "nvidia.com/gpu": "1"}},
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 5, "failureThreshold": 3},
        **(probes or {}),
    }
    labels = {"app": name}
    spec: Manifest = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [container], "nodeSelector": {"pool": name}, "terminationGracePeriodSeconds": grace},
        },
    }
    if kind == "StatefulSet":
        spec["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}, "spec": spec}


def _node(name: str, card: str, memory_gib: int = 256) -> Machine:
    return machine(f"gpu-{name}", card=card, memory_gib=memory_gib, labels={"pool": name})


def with_addresses(nodes: Sequence[Machine]) -> None:
    """Gives each node a loopback address of its own (127.0.0.2, ...), so that SSH tells them apart. Where the system has 127.0.0.1 only (macOS), all keep it."""
    try:
        with socket.socket() as trial:
            trial.bind(("127.0.0.2", 0))
    except OSError:
        return
    for number, node in enumerate(nodes, 2):
        node.address = f"127.0.0.{number}"


def incidents() -> tuple[Incident, ...]:
    """Fresh ones, since nodes have a state."""
    stray = _node("draft", "NVIDIA L4")
    stray.gpus[0].strays.append(GpuProcess(48112, "python3", round(9.6 * GIB)))
    startup = {"startupProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10, "failureThreshold": 60}}
    return (
        Incident(
            "chat", "Will not start since its context was raised to 131,072 tokens.", _node("chat", "NVIDIA L40S"),
            _workload("Deployment", "chat", ["--model", "/models/chat-32b-w6", "--max-model-len=131072", "--gpu-memory-utilization", "0.90"], version="0.11.0"),
            restarts=14, alert="VllmPodCrashLooping: llm/chat",
        ),
        Incident(
            "assist", "A StatefulSet that finds no room for its cache.", _node("assist", "NVIDIA L4"),
            _workload("StatefulSet", "assist", ["--model=/models/chat-9b", "--gpu-memory-utilization=0.88"], version="0.11.0"),
            restarts=6, alert="VllmPodCrashLooping: llm/assist",
        ),
        Incident(
            "moe", "Loads, then dies while it captures CUDA graphs.", _node("moe", "NVIDIA L40S"),
            _workload("Deployment", "moe", ["--model", "/models/moe-30b", "--gpu-memory-utilization", "0.97"], version="0.11.0"),
            restarts=4,
        ),
        Incident(
            "embed", "Exit 137, again and again.", _node("embed", "NVIDIA L40S"),
            _workload("Deployment", "embed", ["--model", "/models/embed-7b"], version="0.11.0", memory="24Gi"),
            restarts=9, alert="KubePodCrashLooping: llm/embed",
        ),
        Incident(
            "rerank", "Exit 137 too, and it is not memory.", _node("rerank", "NVIDIA L40S"),
            _workload("Deployment", "rerank", ["--model", "/models/rerank-24b"], version="0.11.0", probes=startup),
            restarts=3,
        ),
        Incident(
            "code", "Starts well, dies under long prompts.", _node("code", "NVIDIA L40S"),
            _workload("Deployment", "code", ["--model", "/models/code-14b", "--gpu-memory-utilization=0.95"], version="0.11.0"),
            restarts=2,
        ),
        Incident(
            "giant", "A 70B model on one card.", _node("giant", "NVIDIA L40S"),
            _workload("Deployment", "giant", ["--model", "/models/chat-70b"], version="0.13.0"),
            restarts=5,
        ),
        Incident(
            "draft", "Refused at the start-up check: somebody else is on its GPU.", stray,
            _workload("Deployment", "draft", ["--model", "/models/small-1b", "--gpu-memory-utilization", "0.85"], version="0.11.0"),
            restarts=7,
        ),
        Incident(
            "small", "Nothing is wrong with this one.", _node("small", "NVIDIA L4"),
            _workload("Deployment", "small", ["--model", "/models/small-1b", "--gpu-memory-utilization", "0.60"], version="0.11.0"),
            restarts=0,
        ),
    )  # fmt: skip
