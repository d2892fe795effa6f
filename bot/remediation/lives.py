"""How often the server's process in each pod has ended, for watching a change after it was verified. Reads only."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bot.errors import NotFound
from bot.model import Life, Remediation
from bot.ports import ClusterReader
from bot.remediation import endpoint
from bot.remediation.paste import clean
from bot.remediation.shape import ENDPOINT
from bot.remediation.workload import metadata

SAID = 200  # characters of the cluster's words that are kept


def lives(remediation: Remediation, pods: Sequence[str], reader: ClusterReader) -> tuple[Life, ...]:
    """One a pod that is there; one that is gone by now is left out (it was scaled in, or replaced by another)."""
    if remediation.object.kind == ENDPOINT:
        return endpoint.life(remediation, reader)
    found = []
    for name in pods:
        try:
            pod = reader.get("v1", "Pod", remediation.target.namespace, name)
        except NotFound:
            continue
        found.append(_life(pod, remediation.target.container))
    return tuple(found)


def _life(pod: Mapping[str, Any], container: str) -> Life:
    status = pod.get("status") or {}
    containers = [one for one in status.get("containerStatuses") or [] if not container or one.get("name") == container]
    failed = status.get("phase") == "Failed"
    ended = _evicted(status) if failed and status.get("reason") else _ended(containers)
    return Life(
        str(metadata(pod)["name"]), str(metadata(pod).get("uid", "")), sum(int(one.get("restartCount", 0)) for one in containers), clean(ended)[:SAID], failed
    )


def _evicted(status: Mapping[str, Any]) -> str:
    return f"{status['reason']}: {status.get('message', '')}"


def _ended(containers: Iterable[Mapping[str, Any]]) -> str:
    for one in containers:
        end = (one.get("lastState") or {}).get("terminated") or (one.get("state") or {}).get("terminated")
        if end:
            return f"{end.get('reason', 'Error')}, exit code {end.get('exitCode')}"
    return ""
