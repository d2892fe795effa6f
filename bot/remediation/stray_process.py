"""Action stop_process: stops a process that holds memory of a node's GPU and belongs to no pod, over SSH. It cannot be undone, and the preview says so.

Only where exactly one such process is there: the control group must be known and be no container's. All of it is looked at again on the node
right before the signal (deploy/node/oombot-stop), with the start time, so that another process of the same number is never hit.
"""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

from bot.errors import WorldError
from bot.model import Bound, Expectation, Remediation, Step, StepKind, Target, Text
from bot.ports import ClusterReader, Json, NodeHands
from bot.remediation.assemble import Draft
from bot.remediation.canonical import digest_of, template_sha256
from bot.remediation.change import Elsewhere
from bot.remediation.paste import clean
from bot.remediation.workload import ref_of

NAME = "stop_process"
SHOWN = 160  # characters of a command line
_CONTAINER = re.compile(r"kubepods|containerd|crio|docker|libpod|lxc|garden|machine\.slice|buildkit|[0-9a-f]{64}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Process:
    """One line of the node's list. `start` is field 22 of /proc/<pid>/stat; `group` the control groups, by commas."""

    pid: int
    start: int
    user: str
    memory: str
    gpu: str
    group: str
    command: str

    @property
    def is_stray(self) -> bool:
        """Its control group is known, and no container's."""
        return self.group not in ("", "0::/,") and not _CONTAINER.search(self.group)

    def words(self) -> str:
        return f"pid {self.pid}, user {self.user}, {self.memory} on {self.gpu}: {self.command}"


def read(text: str) -> tuple[Process, ...]:
    """The list as the node's script prints it; lines that are not of its form are left out."""
    return tuple(found for line in text.splitlines() if (found := _process(line.split("\t"))))


def _process(fields: Sequence[str]) -> Process | None:
    if len(fields) != 8 or not (fields[0].isdigit() and fields[1].isdigit()):
        return None
    shown = [_CONTROL.sub(" ", clean(field)).strip()[:SHOWN] for field in fields]
    return Process(int(fields[0]), int(fields[1]), shown[3], shown[4], shown[5], fields[6], shown[7])


def plan(draft: Draft, target: Target, reader: ClusterReader, hands: NodeHands | None) -> Remediation | Elsewhere:
    """The plan for the one stray process of the target's node."""
    if hands is None:
        return _by_hand(
            target,
            Text(
                "The bot has no account that may stop a process (ssh.stop_user, deploy/node/install-stop.sh).",
                "机器人没有可以停止进程的账号（ssh.stop_user，deploy/node/install-stop.sh）。",
            ),
        )
    try:
        node = reader.get("v1", "Node", "", target.node)
        found = read(hands.processes(target.node, addresses(node)))
    except WorldError as wrong:
        return _by_hand(target, Text(f"The node's processes could not be read ({wrong}).", f"无法读取节点上的进程（{wrong}）。"))
    stray = [one for one in found if one.is_stray]
    if len(stray) == 1:
        return _planned(draft, target, node, stray[0], reader.uid())
    if not stray:
        return _by_hand(target, Text(
            f"Each of the {len(found)} process(es) that hold memory of a GPU on {target.node} belongs to a container, or its control group does not tell: none is proved to be stray.",
            f"{target.node} 上占用显存的 {len(found)} 个进程都属于容器，或 cgroup 无法证明其无主：没有可停止的进程。",
        ))  # fmt: skip
    listed = "; ".join(one.words() for one in stray)
    return _by_hand(
        target,
        Text(
            f"{len(stray)} processes outside of containers hold memory: {listed}. Which one is to go is for people to say.",
            f"有 {len(stray)} 个容器外的进程占用显存：{listed}。请人工决定停止哪一个。",
        ),
    )


def _planned(draft: Draft, target: Target, node: Json, one: Process, cluster_uid: str) -> Remediation:
    ref = ref_of(node, "v1", "Node")
    value = {"pid": one.pid, "start": one.start, "addresses": list(addresses(node))}
    says = Text(
        f"Stops process {one.pid} on {ref.name}: SIGTERM, SIGKILL after ten seconds.", f"停止 {ref.name} 上的进程 {one.pid}：先 SIGTERM，10 秒后 SIGKILL。"
    )
    plan = Remediation(
        id=draft.id, action=NAME, direction="apply", remedy=draft.remedy, target=dataclasses.replace(target, namespace="", pod="", pod_uid="", container="", workload=None),
        object=ref, steps=(Step(StepKind.STOP_PROCESS, ref, says, ({"op": "stop", "path": "", "value": value},)),),
        bound=Bound(cluster_uid, ref.uid, template_sha256(None), {}, "/spec/none", "/spec/none"), diff=f"@@ Node {ref.name} @@\n- {one.words()}", notes=_notes(one), risk="high",
        expects=Expectation(), before={},
    )  # fmt: skip
    return dataclasses.replace(plan, digest=digest_of(plan))


def _notes(one: Process) -> tuple[Text, ...]:
    return (
        Text(
            f"This cannot be undone: what the process has not saved is lost. Ask {one.user} first.",
            f"无法撤销：进程未保存的内容会丢失。请先与 {one.user} 确认。",
        ),
        Text(f"Its control group is no container's: {one.group.rstrip(',')[:SHOWN]}.", f"其 cgroup 不属于任何容器：{one.group.rstrip(',')[:SHOWN]}。"),
        Text(
            "Number, start time, control group and GPU are looked at again on the node right before the signal.",
            "发送信号前会在节点上再次核对 PID、启动时间、cgroup 和 GPU。",
        ),
    )


def _by_hand(target: Target, reason: Text) -> Elsewhere:
    paste = "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv\nps -o pid,lstart,user,cgroup,args -p PID\nsudo kill PID\n"
    return Elsewhere(reason, f"# on {target.node}\n{paste}", "sh")


def addresses(node: Json) -> tuple[str, ...]:
    """Where a node can be reached, the inner address first."""
    rows = (node.get("status") or {}).get("addresses") or []
    return tuple(str(row["address"]) for kind in ("InternalIP", "ExternalIP", "Hostname") for row in rows if row.get("type") == kind and row.get("address"))
