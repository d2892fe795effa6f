"""Action drop_shared_memory: drops shared memory of a node that nobody holds any more, over SSH. It cannot be undone, and the preview says so.

Which segments are free is for the node to say (deploy/node/oombot-shm): no process of any namespace has them open or mapped, and they are old. The plan
binds each by inode, size, blocks, time and owner; the node takes each out of reach and looks at it and at all processes once more before it goes.
What the node could not prove is not planned. Names that do not have the form of a library's are not taken from a node.
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
from bot.remediation.stray_process import addresses
from bot.remediation.workload import ref_of
from bot.units import show

NAME = "drop_shared_memory"
MOST = 12  # segments of one plan, so that all of them can be read before it is approved; the largest ones
LEAST = 1 << 20  # bytes held, in all: less is no reason to touch anything
_NUMBER = r"(?:0|[1-9][0-9]{0,18})"
_NAME = r"psm_[0-9a-f]{6,16}|torch_[0-9]{1,10}_[0-9]{1,10}(?:_[0-9]{1,10})?|nccl-[0-9A-Za-z]{6}|sem\.(?:mp|loky-[0-9]{1,10})-[0-9a-z_]{8}|vllm_offload_[0-9A-Za-z_-]{8,80}\.mmap"
_FILE = re.compile(
    rf"file\t({_NUMBER})\t({_NUMBER})\t({_NUMBER})\t({_NUMBER}\.[0-9]{{1,10}})\t({_NUMBER})\t([^\t]{{1,64}})\t(-?[0-9]{{1,12}})\t([a-z]{{1,10}})\t({_NAME})"
)
_SYSV = re.compile(rf"sysv\t({_NUMBER})\t({_NUMBER})\t({_NUMBER})\t({_NUMBER})\t({_NUMBER})\t([^\t]{{1,64}})\t(-?[0-9]{{1,12}})\t([a-z]{{1,10}})\t({_NUMBER})")
_CONTROL = re.compile(r"[^ -~]")


@dataclass(frozen=True, slots=True)
class Segment:
    """One line of the node's list. `held` in bytes; `word` is what the node's script is told, and binds all that may tell it from another."""

    word: str
    name: str
    held: int
    user: str
    age_s: int
    state: str

    def words(self) -> str:
        return f"{self.name}: {show(self.held)}, user {self.user}"


def read(text: str) -> tuple[Segment, ...]:
    """The list as the node's script prints it; lines that are not exactly of its form are left out."""
    return tuple(found for line in text.split("\n") if (found := _segment(line)))


def _segment(line: str) -> Segment | None:
    if row := _FILE.fullmatch(line):
        inode, size, held, changed, uid, user, age, state, name = row.groups()
        return Segment(f"file:{inode}:{size}:{int(held) // 512}:{changed}:{uid}:{name}", name, int(held), _shown(user), int(age), state)
    if row := _SYSV.fullmatch(line):
        number, size, held, changed, uid, user, age, state, creator = row.groups()
        return Segment(f"sysv:{number}:{size}:{changed}:{uid}:{creator}", f"SysV segment {number}", int(held), _shown(user), int(age), state)
    return None


def _shown(user: str) -> str:
    return _CONTROL.sub(" ", clean(user))[:32]


def plan(draft: Draft, target: Target, reader: ClusterReader, hands: NodeHands | None) -> Remediation | Elsewhere:
    """The plan for the largest segments of the target's node that nobody holds."""
    if hands is None:
        return _by_hand(target, Text(
            "The bot has no account that may drop shared memory (ssh.stop_user, deploy/node/install-stop.sh).",
            "机器人没有可以清除共享内存的账号（ssh.stop_user，deploy/node/install-stop.sh）。",
        ))  # fmt: skip
    try:
        node = reader.get("v1", "Node", "", target.node)
        found = read(hands.segments(target.node, addresses(node)))
    except WorldError as wrong:
        return _by_hand(target, Text(f"Who holds the node's shared memory could not be told ({wrong}).", f"无法判断节点的共享内存由谁占用（{wrong}）。"))
    free = sorted((one for one in found if one.state == "free"), key=lambda one: (-one.held, one.word))[:MOST]
    if sum(one.held for one in free) < LEAST:
        return _by_hand(target, _nothing(target, found))
    return _planned(draft, target, node, free, reader.uid())


def _nothing(target: Target, found: Sequence[Segment]) -> Text:
    used, young = (sum(1 for one in found if one.state == state) for state in ("used", "young"))
    return Text(
        f"Nothing worth dropping on {target.node} is proved to be ownerless: of {len(found)} segment(s) {used} are held by a process and {young} changed within the hour.",
        f"{target.node} 上没有值得清除且已证明无主的共享内存：共 {len(found)} 个，其中 {used} 个正被进程占用，{young} 个在一小时内有变化。",
    )


def _planned(draft: Draft, target: Target, node: Json, free: Sequence[Segment], cluster_uid: str) -> Remediation:
    ref = ref_of(node, "v1", "Node")
    value = {"words": [one.word for one in free], "addresses": list(addresses(node))}
    size = show(sum(one.held for one in free))
    says = Text(
        f"Drops {len(free)} shared-memory segment(s) on {ref.name} that nobody holds ({size}).",
        f"清除 {ref.name} 上无主的 {len(free)} 个共享内存段（{size}）。",
    )
    plan = Remediation(
        id=draft.id, action=NAME, direction="apply", remedy=draft.remedy, target=dataclasses.replace(target, namespace="", pod="", pod_uid="", container="", workload=None),
        object=ref, steps=(Step(StepKind.DROP_SEGMENTS, ref, says, ({"op": "drop", "path": "", "value": value},)),),
        bound=Bound(cluster_uid, ref.uid, template_sha256(None), {}, "/spec/none", "/spec/none"),
        diff="\n".join([f"@@ Node {ref.name}, shared memory @@", *(f"- {one.words()}" for one in free)]), notes=NOTES, risk="high", expects=Expectation(), before={},
    )  # fmt: skip
    return dataclasses.replace(plan, digest=digest_of(plan))


NOTES = (
    Text(
        "This cannot be undone. No process on the node has them open or mapped, in any namespace, and none changed within the hour; a program that stores something there to fetch it later would lose it.",
        "无法撤销。节点上任何命名空间中都没有进程打开或映射它们，且一小时内没有变化；若有程序把数据存在其中以备后用，数据会丢失。",
    ),
    Text(
        "All of it is looked at again on the node right before they go: the same inode, size and time, and every process. If one of them has changed, none is dropped.",
        "删除前会在节点上再次核对：inode、大小、时间以及所有进程。只要有一个发生变化，就全部不删除。",
    ),
)


def _by_hand(target: Target, reason: Text) -> Elsewhere:
    paste = "df -h /dev/shm; ls -l --time-style=full-iso /dev/shm\nsudo fuser -v /dev/shm/NAME   # nobody, in no container: then\nsudo rm /dev/shm/NAME\nipcs -m -p; ipcs -m -t        # nattch 0, creator gone: sudo ipcrm -m ID\n"
    return Elsewhere(reason, f"# on {target.node}\n{paste}", "sh")
