"""`node.json` (kubectl get node -o json): whether the node is well, what it has to give, since when it runs.

Facts: `node.<name>`. Pressure is as the kubelet sees it now, which may be after the incident.
"""

from bot.evidence.document import Document, Node
from bot.evidence.kubelet_journal import runtime_trouble
from bot.evidence.reading import Reading
from bot.model import Fact, Gap, Value

_CONDITIONS = {"MemoryPressure": "memory_pressure", "DiskPressure": "disk_pressure", "PIDPressure": "pid_pressure"}
_WOULD_TELL = "whether the node was ready, under pressure or out of GPUs"


def read(data: bytes, source: str) -> Reading:
    """Facts of the node."""
    document = Document(data, source)
    node = next((item for item in document.root.each("items") if item.at("status")), document.root)
    gaps = () if document.complete else (Gap(source, "damaged or cut", _WOULD_TELL),)
    found: list[Fact] = []

    def add(name: str, value: Value | None, where: Node) -> None:
        if value not in (None, ""):
            found.append(Fact(f"node.{name}", value, document.place(where)))

    add("name", node.text("metadata", "name"), node.at("metadata", "name"))
    for condition in node.each("status", "conditions"):
        kind, status = condition.text("type"), condition.text("status")
        where = condition.at("message") or condition.at("type")
        if kind == "Ready":
            add("ready", status == "True", where)
            add("ready_reason", condition.text("reason"), where)
            add("runtime_trouble", runtime_trouble(condition.text("message")) or None, condition.at("message"))
        elif kind in _CONDITIONS:
            add(_CONDITIONS[kind], status == "True", where)
    add("cordoned", node.flag("spec", "unschedulable"), node.at("spec", "unschedulable"))
    for taint in node.each("spec", "taints"):
        if taint.text("key") in ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready", "node.kubernetes.io/out-of-service"):
            add("unreachable", True, taint.at("key"))
    for group in ("capacity", "allocatable"):
        add(f"memory_{group}_bytes", node.size("status", group, "memory"), node.at("status", group, "memory"))
        gpus = next((value for key, value in node.items("status", group) if key.endswith("/gpu")), Node())
        add(f"gpus_{group}", gpus.integer(), gpus)
    if not found:
        return Reading(gaps=gaps or (Gap(source, "no node in it", _WOULD_TELL),))
    return Reading(tuple(found), (), gaps)
