"""Reads the object that a plan changes, and says where in it the server may stand. Reads only."""

from bot.errors import NotFound, Permanent, WorldError
from bot.model import Target
from bot.ports import ClusterReader
from bot.remediation import kinds
from bot.remediation.workload import SUPPORTED, Shape, Workload, container_index, metadata, ref_of


def is_supported(target: Target) -> bool:
    """Whether the bot knows how to change the object that a person edits for this target."""
    root = target.workload
    return root is not None and (root.kind in SUPPORTED or kinds.is_known(root.kind, root.api_version))


def fetch(target: Target, reader: ClusterReader) -> list[Workload]:
    """The target's workload, once for each place where its engine may be started, the pod's own template first.

    Raises NotFound when it is another object than the one that was found, Permanent when its container is not there.
    """
    seen = target.workload
    if seen is None or not is_supported(target):
        raise Permanent(f"{target} does not belong to a workload that the bot changes")
    version = SUPPORTED.get(seen.kind, seen.api_version)
    body = reader.get(version, seen.kind, seen.namespace, seen.name)
    ref = ref_of(body, version, seen.kind)
    if seen.uid and ref.uid != seen.uid:
        raise NotFound(f"{seen} was deleted and made anew since the check; check again")
    if seen.kind in SUPPORTED:
        index = container_index(body, target.container)
        found = [] if index is None else [(index, Shape())]
    else:
        found = kinds.choices(body, seen.kind, _labels(target, reader), target.container)
    if not found:
        raise Permanent(f"{seen} has no container {target.container!r} in its pod template" if target.container else f"{seen}: name the server's container")
    return [Workload(ref, body, index, shape) for index, shape in found]


def _labels(target: Target, reader: ClusterReader) -> dict[str, str]:
    """The pod's labels, which say of which part of the workload it is; none when it is gone by now."""
    try:
        return dict(metadata(reader.get("v1", "Pod", target.namespace, target.pod)).get("labels") or {}) if target.pod else {}
    except WorldError:
        return {}
