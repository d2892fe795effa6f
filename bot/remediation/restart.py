"""Action restart: starts all pods of a workload anew, as `kubectl rollout restart` does it, by an annotation of the pod template.

What must hold afterwards: the new pods become ready. There is no undo, since nothing but the annotation changes.
"""

from datetime import datetime

from bot.model import Text
from bot.remediation.canonical import RESTARTED_AT
from bot.remediation.change import Change, Edit
from bot.remediation.pointer import MISSING, get, join
from bot.remediation.workload import Workload

NAME = "restart"


def change(workload: Workload, now: datetime) -> Change:
    """The edit of the annotation; `now` is the only thing in it that planning again would change."""
    annotations = join("spec", "template", "metadata", "annotations")
    path = annotations + join(RESTARTED_AT)
    stamp = now.isoformat(timespec="seconds")
    bare = get(workload.body, annotations) is MISSING
    edit = Edit(annotations, MISSING, {RESTARTED_AT: stamp}) if bare else Edit(path, get(workload.body, path), stamp)
    note = Text("A restart itself changes nothing that could be put back.", "重启本身没有可还原的内容。")
    return Change((edit,), (note,), undoable=False)
