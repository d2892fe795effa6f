"""Why something could not be read, and what it would have told, in Chinese. Gaps carry English sentences, also those kept in a bundle; this is the one table.

A reason of the outside world ("SSH refused: ...") keeps its own words behind the colon. Unknown sentences stay as they are.
"""

from bot.model import Gap, Text

ABSENT = Text("not in the evidence", "证据中没有")
_NOT_GIVEN = frozenset({"absent", "not available"})

TELLS: dict[str, str] = {
    "how the container ended, its limits and probes": "容器如何结束，以及其限制与探针",
    "how the containers ended, their limits and probes": "各容器如何结束，以及其限制与探针",
    "probes, evictions and scheduling around the end": "结束前后的探针、驱逐与调度",
    "what the server said before it ended": "服务结束前输出了什么",
    "whether the kernel killed a process for memory, and in which group": "内核是否因内存终止过进程，在哪个控制组",
    "how full the cards are and who uses them": "显卡有多满，谁在使用",
    "memory of the node and of the control groups": "节点与控制组的内存",
    "what stands in the missing part": "缺失部分的内容",
    "probe kills, evictions, drains and scheduling failures": "探针终止、驱逐、排空与调度失败",
    "whether the node was ready, under pressure or out of GPUs": "节点是否就绪、是否有压力、GPU 是否用完",
    "the server's arguments": "服务的启动参数",
    "what the pod asked for and how its containers ended": "Pod 申请了什么，各容器如何结束",
    "which cards there are, how full they are, and who uses them": "有哪些显卡，各有多满，谁在使用",
    "which cards there are, how full they are and who holds them": "有哪些显卡，各有多满，被谁占用",
    "how many GPUs the Ray cluster has and what waits for them": "Ray 集群有多少 GPU，什么在等待",
    "memory of the node and of the container": "节点与容器的内存",
    "whether the kernel killed a process for memory, and for which limit": "内核是否因内存终止过进程，触到哪个限制",
    "what stands in it": "其中的内容",
    "what the server said; call its log container.log, or give the file itself": "服务的输出；请把日志命名为 container.log，或直接给出该文件",
    "what the server said; give one of its folders, or several": "服务的输出；请给出其中一个或几个文件夹",
    "which files were cut short, and what could not be collected": "哪些文件被截断，哪些没有采集到",
    "which object a person would change": "应修改哪个对象",
    "evictions, probe failures, scheduling and admission": "驱逐、探针失败、调度与准入",
    "what the server printed before it stopped": "服务停止前的输出",
    "what the server printed before it was restarted": "服务重启前的输出",
    "the node's conditions, sizes and cards": "节点的状态、容量与显卡",
    "which resources Ray waits for": "Ray 在等待哪些资源",
    "GPU faults (Xid)": "GPU 故障（Xid）",
    "memory and swap of the node": "节点的内存与交换空间",
    "the state and the configuration of the endpoint": "端点的状态与配置",
    "what the served model printed": "模型打印的内容",
    "how the model's container was built": "模型容器的构建过程",
    "shared memory that nobody holds any more": "已无人占用的共享内存",
    "when the node started": "节点何时启动",
    "memory of the node over the day": "节点全天的内存变化",
    "the container's own memory limit, use and kills": "容器自己的内存限制、用量与终止",
    "the pod's memory limit, use and kills": "Pod 的内存限制、用量与终止",
    "size and use of /dev/shm": "/dev/shm 的大小与用量",
    "which cards the node has, and whether they are split (MIG)": "节点有哪些显卡，是否切分（MIG）",
    "driver, memory in use and processes on each card": "驱动、各卡的显存用量与进程",
    "total, reserved, used and free memory of each card": "各卡的总量、保留、已用与空闲显存",
    "which process holds how much memory of which card": "哪个进程在哪张卡上占用多少显存",
}
REASONS: dict[str, str] = {
    "absent": "证据中没有",
    "not available": "证据中没有",
    "cannot be read": "无法读取",
    "could not be read": "无法读取",
    "longer than 32 MiB": "超过 32 MiB",
    "only its beginning was read": "只读取了开头",
    "what was given of it does not say": "所给部分没有说明",
    "empty": "为空",
    "cut short": "被截断",
    "damaged": "已损坏",
    "damaged or cut": "已损坏或被截断",
    "no events in it": "其中没有事件",
    "no node in it": "其中没有节点",
    "no endpoint in it": "其中没有端点",
    "no pod in it": "其中没有 Pod",
    "no described pod in it": "其中没有 describe pod 输出",
    "no ray status in it": "其中没有 ray status 输出",
    "nothing in it is understood": "内容无法识别",
    "permission denied": "没有权限",
    "not permitted to read the kernel log": "没有读取内核日志的权限",
    "the folder is empty": "文件夹为空",
    "no evidence file in it, only folders": "没有证据文件，只有文件夹",
    "no evidence file by name; there are": "没有可识别的证据文件；现有",
    "SSH refused": "SSH 被拒绝",
    "not permitted": "没有权限",
    "no answer in time": "没有按时响应",
    "not reachable": "无法连接",
    "not there": "不存在",
    "not read in time": "没有按时读完",
    "the collector failed": "采集出错",
    "the pod was replaced by another of the same name meanwhile": "其间 Pod 已被同名的新 Pod 取代",
    "no SSH access is configured (ssh in oombot.yaml)": "没有配置 SSH 访问（oombot.yaml 中的 ssh）",
    "no SSH access is configured (ssh.user, ssh.key and ssh.known_hosts in oombot.yaml)": "没有配置 SSH 访问（oombot.yaml 中的 ssh.user、ssh.key 和 ssh.known_hosts）",
}


def given(gap: Gap) -> bool:
    """Whether somebody tried to read it; else it just was not part of the evidence."""
    return gap.reason not in _NOT_GIVEN


def reason(gap: Gap, language: str) -> str:
    """Why it could not be read."""
    if not given(gap):
        return ABSENT.say(language)
    return gap.reason if language != "zh" else "：".join(_part(part) for part in gap.reason.split(": "))


def _part(part: str) -> str:
    known = REASONS.get(part)
    if known is not None:
        return known
    begin, semicolon, rest = part.partition("; there are ")
    return f"{REASONS.get(f'{begin}{semicolon.rstrip()}', begin)} {rest}" if semicolon else part


def tells(gap: Gap, language: str) -> str:
    """What it would have told."""
    if language != "zh":
        return gap.would_tell
    whole = gap.would_tell_zh or TELLS.get(gap.would_tell)
    return whole or "；".join(TELLS.get(part, part) for part in gap.would_tell.split("; "))
