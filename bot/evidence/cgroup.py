"""Control group paths: which pod and container a path names, and at which level of the tree it stands. Grammar only, nothing is opened."""

import re
from dataclasses import dataclass

_POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})(?![0-9a-f])")
_HEX = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_KUBEPODS = re.compile(r"kubepods(?:\.slice)?/?$")
_SYSTEM = re.compile(  # where a node keeps what is reserved for its own daemons (kube-reserved, system-reserved), and those daemons as units
    r"^/(?:podruntime|runtime|kubelet|kube-?reserved|system-?reserved|system)(?:\.slice)?/?$|/(?:kubelet|containerd|docker|crio|cri-docker|k3s(?:-agent)?|rke2-(?:server|agent))\.service$"
)
_QOS = re.compile(r"kubepods[-/](?:burstable|besteffort)(?:\.slice)?/?$")


@dataclass(frozen=True, slots=True)
class Cgroup:
    """`level`: container | pod | qos | kubepods | docker | system | unit | user | root | other. Ids are "" where the path names none."""

    path: str
    level: str
    pod_uid: str = ""
    container_id: str = ""


def parse(path: str) -> Cgroup:
    """Reads a path of either driver (cgroupfs, systemd), of containerd, CRI-O or docker, with any prefix before it."""
    path = path.strip()[:2048]
    pods, ids = _POD.findall(path), _HEX.findall(path)
    pod_uid = pods[-1].replace("_", "-") if pods else ""
    container = ids[-1] if ids else ""
    if pod_uid:
        return Cgroup(path, "container" if container else "pod", pod_uid, container)
    if container:
        return Cgroup(path, "docker", "", container)
    return Cgroup(path, _level(path))


def brief(path: str, most: int = 75) -> str:
    """A long path as a quote: its first part, "..." and what tells whose it is (from the pod on, else its end)."""
    pod = _POD.search(path)
    start = pod.start() if pod else max(0, len(path) - most)
    head = path.find("/", 1) + 1 or 1
    return path if start <= head + 3 and len(path) <= start + most else f"{path[:head]}...{path[start : start + most].rstrip('.')}" + ("..." if len(path) > start + most else "")


def _level(path: str) -> str:
    if path in ("", "/"):
        return "root"
    if _QOS.search(path):
        return "qos"
    if _KUBEPODS.search(path):
        return "kubepods"
    if _SYSTEM.search(path):
        return "system"
    if "/user.slice" in path:
        return "user"
    if path.endswith((".service", ".scope", ".slice")):
        return "unit"
    return "other"
