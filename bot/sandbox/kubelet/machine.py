"""The state of one simulated node: its cards and who holds them, its memory, its kernel log."""

import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.ports import Json
from bot.sandbox.kubelet.play import Card
from bot.units import GIB

if TYPE_CHECKING:
    from bot.sandbox.kubelet.pod import PodWorker

LOCAL = "127.0.0.1"

# What CUDA reports as the total of a card, and what the board has (nvidia-smi's total).
CARDS = {
    "NVIDIA L4": (22.05, 23034),
    "NVIDIA A10G": (22.09, 23028),
    "NVIDIA L40S": (44.40, 46068),
    "NVIDIA A100-SXM4-40GB": (39.39, 40960),
    "NVIDIA A100-SXM4-80GB": (79.15, 81920),
    "NVIDIA H100 80GB HBM3": (79.10, 81559),
    "NVIDIA H200": (139.72, 143771),
}


@dataclass(slots=True)
class GpuProcess:
    pid: int
    name: str
    used_bytes: int


@dataclass(slots=True)
class Gpu:
    """One card. `strays` are processes that belong to no pod; `tenants` those of pods, by pod uid."""

    index: int
    name: str
    total_bytes: int
    board_mib: int
    uuid: str
    strays: list[GpuProcess] = field(default_factory=list)
    tenants: dict[str, GpuProcess] = field(default_factory=dict)

    def processes(self) -> list[GpuProcess]:
        return [process for process in [*self.strays, *self.tenants.values()] if process.used_bytes]

    def seen(self, uid: str) -> Card:
        """The card as a new process of that pod finds it."""
        others = [*self.strays, *(process for owner, process in self.tenants.items() if owner != uid)]
        return Card(self.name, self.total_bytes, tuple((process.pid, process.used_bytes) for process in others))


@dataclass(slots=True)
class Segment:
    """Shared memory of a node; `held`: a process has it open."""

    inode: int
    name: str
    size: int
    held: bool = False

    def word(self) -> str:
        """What binds it, as the node's script takes it."""
        return f"file:{self.inode}:{self.size}:{self.size // 512}:1767000000.0000000000:0:{self.name}"


@dataclass(slots=True)
class Machine:
    """One node. `kernel` holds (time, line) of its kernel log; `address` is where SSH and the kubelet are reached."""

    name: str
    gpus: list[Gpu] = field(default_factory=list)
    memory_bytes: int = 256 * GIB
    cpus: int = 32
    address: str = LOCAL
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[Json] = field(default_factory=list)
    booted: float = field(default_factory=lambda: time.time() - 12 * 86400.0)
    kernel: list[tuple[float, str]] = field(default_factory=list)
    used_bytes: int = 14 * GIB  # by what is no pod
    segments: list[Segment] = field(default_factory=list)
    granted: dict[str, list[int]] = field(default_factory=dict)  # pod uid -> indices of its cards
    pods: "dict[str, PodWorker]" = field(default_factory=dict)  # by uid: what is played here

    def grant(self, uid: str, count: int) -> list[int]:
        """The pod's cards, chosen once; fewer than `count` when they are taken."""
        if uid not in self.granted:
            taken = {index for indices in self.granted.values() for index in indices}
            self.granted[uid] = [gpu.index for gpu in self.gpus if gpu.index not in taken][:count]
        return self.granted[uid]

    def release(self, uid: str) -> None:
        self.granted.pop(uid, None)
        self.pods.pop(uid, None)
        for gpu in self.gpus:
            gpu.tenants.pop(uid, None)

    def node(self, kubelet_port: int | None = None) -> Json:
        """The Node object."""
        product = self.gpus[0].name.replace(" ", "-") if self.gpus else ""
        cards = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": str(len(self.gpus)), "nvidia.com/gpu.present": "true"} if self.gpus else {}
        labels = {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **cards, **self.labels}
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name, "labels": labels}, "spec": {"taints": self.taints} if self.taints else {},
                "status": self.node_status(kubelet_port)}  # fmt: skip

    def node_status(self, kubelet_port: int | None = None) -> Json:
        size = {"cpu": str(self.cpus), "memory": f"{self.memory_bytes // 1024}Ki", "pods": "110", "ephemeral-storage": "1800Gi"}
        size |= {"nvidia.com/gpu": str(len(self.gpus))} if self.gpus else {}
        good = {
            "MemoryPressure": "kubelet has sufficient memory available",
            "DiskPressure": "kubelet has no disk pressure",
            "PIDPressure": "kubelet has sufficient PID available",
        }
        reasons = {"MemoryPressure": "KubeletHasSufficientMemory", "DiskPressure": "KubeletHasNoDiskPressure", "PIDPressure": "KubeletHasSufficientPID"}
        booted = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.booted))
        beat = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        times = {"lastHeartbeatTime": beat, "lastTransitionTime": booted}
        conditions = [{"type": kind, "status": "False", "reason": reasons[kind], "message": words, **times} for kind, words in good.items()]
        conditions.append({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", **times})
        info = {"machineID": self.mark(32), "systemUUID": self.mark(32), "bootID": self.mark(32), "kernelVersion": "6.8.0-60-generic", "osImage": "Ubuntu 24.04.2 LTS",
                "containerRuntimeVersion": "containerd://2.1.4", "kubeletVersion": "v1.36.3", "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64"}  # fmt: skip
        found: Json = {"capacity": size, "allocatable": size, "conditions": conditions, "nodeInfo": info}
        found["addresses"] = [{"type": "InternalIP", "address": self.address}, {"type": "Hostname", "address": self.name}]
        if kubelet_port:
            found |= {"daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}}, "declaredFeatures": ["ExtendWebSocketsToKubelet"]}
        return found

    def mark(self, length: int) -> str:
        return hashlib.sha256(self.name.encode()).hexdigest()[:length]


def machine(
    name: str, *, gpus: int = 1, card: str = "NVIDIA L40S", memory_gib: int = 256, address: str = LOCAL, labels: dict[str, str] | None = None
) -> Machine:
    """A node with `gpus` equal cards of one of CARDS."""
    cuda_gib, board_mib = CARDS[card]
    cards = [Gpu(index, card, round(cuda_gib * GIB), board_mib, _uuid(f"{name}/{index}")) for index in range(gpus)]
    return Machine(name, cards, memory_gib * GIB, address=address, labels=dict(labels or {}))


def _uuid(seed: str) -> str:
    mark = hashlib.sha256(seed.encode()).hexdigest()
    return f"GPU-{mark[:8]}-{mark[8:12]}-{mark[12:16]}-{mark[16:20]}-{mark[20:32]}"
