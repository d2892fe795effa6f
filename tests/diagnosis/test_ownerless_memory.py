"""Shared memory of a node that nobody holds: where it weighs, dropping it is recommended, and where a pod has a /dev/shm of its own it is not."""

from typing import Any

import pytest

from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import container, derived, killed, path, pod, status, terminated

FULL = "Filesystem 1K-blocks Used Available Use% Mounted on\ntmpfs 67108864 67108864 0 100% /dev/shm\n"
LOG = "OSError: [Errno 28] No space left on device: '/psm_0a1b2c3d'\n"
GIB = 1 << 30


def listed(free: int) -> str:
    return f"$ sudo -n /usr/local/libexec/oombot-shm segments\nsum\tfree\t3\t{free}\nsum\tused\t1\t4194304\n"


def crashed(**more: Any) -> dict[str, Any]:
    return pod([container()], [status(state={"waiting": {"reason": "CrashLoopBackOff"}}, last=terminated(1), restartCount=2, ready=False)], spec=more)


def remedies(files: dict[str, Any]) -> tuple[str, list[str]]:
    found = diagnose(files)
    return found.cause, [one.id for one in found.recommendations]


def test_a_full_shm_of_the_node_that_nobody_holds_is_to_be_dropped() -> None:
    cause, found = remedies({"pod.json": crashed(hostIPC=True), "previous.log": LOG, "node_readings.txt": FULL + listed(40 * GIB)})
    assert (cause, "drop_shared_memory" in found) == ("shm_too_small", True)


@pytest.mark.parametrize(
    ("spec", "free"),
    [({"hostIPC": True}, GIB), ({}, 40 * GIB)],
    ids=["little of it is ownerless", "the pod has a /dev/shm of its own"],
)
def test_otherwise_it_is_not(spec: dict[str, Any], free: int) -> None:
    cause, found = remedies({"pod.json": crashed(**spec), "previous.log": LOG, "node_readings.txt": FULL + listed(free)})
    assert (cause, "drop_shared_memory" in found) == ("shm_too_small", False)


def test_a_node_out_of_memory_whose_memory_nobody_holds_gets_it_back() -> None:
    free = "               total        used        free      shared  buff/cache   available\nMem:      268435456   200000000    1000000   100000000    2000000     1000000\n"
    files = {"pod.json": crashed(), "kernel.log": killed(None, path())}
    assert "drop_shared_memory" in remedies({**files, "node_readings.txt": free + listed(64 * GIB)})[1]
    assert "drop_shared_memory" not in remedies({**files, "node_readings.txt": free + listed(GIB)})[1]


@pytest.mark.parametrize(
    ("mount", "spec", "volume"),
    [
        ({}, {"hostIPC": True}, "node"),
        ({"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}, {"volumes": [{"name": "shm", "hostPath": {"path": "/dev/shm"}}]}, "node"),
        (
            {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]},
            {"hostIPC": True, "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]},
            "memory",
        ),
        ({}, {"hostIPC": False}, "default"),
    ],
)
def test_which_shm_a_container_has(mount: dict[str, Any], spec: dict[str, Any], volume: str) -> None:
    facts = derived(pod([container(**mount)], [status()], spec=spec))
    assert facts.get("container.shm_volume") == volume
    assert facts.get("shm.small") is (volume == "default")
