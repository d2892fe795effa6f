"""Action restart: starts all pods of a workload anew, as `kubectl rollout restart` does it, by an annotation of the pod template.

What must hold afterwards: the new pods become ready. There is no undo, since nothing but the annotation changes.
"""

from datetime import datetime

from bot.model import Text
from bot.remediation.canonical import RESTARTED_AT
from bot.remediation.change import Change, Elsewhere, put
from bot.remediation.pointer import join
from bot.remediation.workload import Workload

NAME = "restart"


def change(workload: Workload, now: datetime) -> Change | Elsewhere:
    """The edit of the annotation; `now` is the only thing in it that planning again would change."""
    annotations = workload.shape.annotations
    if not annotations:
        reason = Text(f"{workload.ref} hands no annotation on to its pods, so they are deleted to start them anew.", f"{workload.ref} 不向 Pod 传递注解，只能删除 Pod 来重启。")
        return Elsewhere(reason, f"kubectl -n {workload.ref.namespace} delete pod -l app.kubernetes.io/name={workload.ref.name}\n", "sh")
    edit = put(workload.body, annotations + join(RESTARTED_AT), now.isoformat(timespec="seconds"))
    note = Text("A restart itself changes nothing that could be put back.", "重启本身没有可还原的内容。")
    return Change((edit,), (note,), undoable=False)
