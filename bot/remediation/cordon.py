"""Action cordon_node: no new pod comes to a node with a faulty card. Undo lets pods in again.

Draining moves other people's pods, so it is handed over as a command, with what runs there now. A node belongs to no namespace: the plan's target says so,
so that policy asks for somebody who may change all of them.
"""

from collections import Counter
from dataclasses import replace

from bot.errors import WorldError
from bot.model import Target, Text
from bot.ports import ClusterReader
from bot.remediation.change import Change, Edit, Elsewhere
from bot.remediation.pointer import MISSING, get
from bot.remediation.shape import NODE
from bot.remediation.workload import Workload, metadata, ref_of

NAME = "cordon_node"
POINTER = "/spec/unschedulable"
SHOWN = 6


def fetch(target: Target, reader: ClusterReader) -> tuple[Target, Workload]:
    """The node of a target and the target that a plan for it has. Raises NotFound, Forbidden."""
    body = reader.get("v1", "Node", "", target.node)
    return replace(target, namespace="", pod="", pod_uid="", container="", workload=None), Workload(ref_of(body, "v1", "Node"), body, 0, NODE)


def change(workload: Workload, reader: ClusterReader) -> Change | Elsewhere:
    """The edit of `spec.unschedulable`."""
    now = get(workload.body, POINTER)
    drain = f"kubectl drain {workload.ref.name} --ignore-daemonsets --delete-emptydir-data\n"
    if now is True:
        return Elsewhere(
            Text(
                f"{workload.ref} takes no new pods already. What runs there still runs; to move it:",
                f"{workload.ref} 已经停止调度；其上的 Pod 仍在运行。迁移命令：",
            ),
            drain,
            "sh",
        )
    notes = (
        Text("Nothing is stopped: pods that run there go on. Undo lets new pods in again.", "不会停止任何 Pod：已有的继续运行。撤销会恢复调度。"),
        *_pods(workload, reader),
        Text(f"To move them afterwards, after asking their owners: {drain.strip()}", f"之后迁移（先与其负责人沟通）：{drain.strip()}"),
    )
    return Change((Edit(POINTER, MISSING if now is MISSING else now, True),), notes)


def _pods(workload: Workload, reader: ClusterReader) -> tuple[Text, ...]:
    try:
        found = reader.list("v1", "Pod", field_selector=f"spec.nodeName={workload.ref.name}", limit=1000)
    except WorldError:
        return ()
    running = [pod for pod in found if (pod.get("status") or {}).get("phase") in ("Running", "Pending")]
    counts = Counter(str(metadata(pod).get("namespace", "")) for pod in running)
    most = ", ".join(f"{namespace} ({count})" for namespace, count in counts.most_common(SHOWN))
    return (Text(f"{len(running)} pod(s) run on it: {most}.", f"其上运行 {len(running)} 个 Pod：{most}。"),) if running else ()
