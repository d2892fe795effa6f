"""Codes that facts hold, in words: "graph_capture" is the capture of graphs. A code that is not here is shown as it is, without its underscores."""

from bot.model import Text

# Facts whose values are codes of ours; any other text is a name from outside and stays letter by letter.
CODED = frozenset(
    {
        "container.role", "container.state", "container.shm_volume", "events.evicted", "events.probe_answer", "events.probe_failed", "events.probe_kill",
        "events.unschedulable", "failure.after_phase", "failure.basis", "failure.earlier_kind", "failure.kind", "failure.phase", "failure.purpose", "kernel.level",
        "kernel.limit", "kernel.xid_kind", "log.stopped_in", "pod.evicted", "pod.rejected", "ray_status.demand", "server.name", "termination.by",
    }
)  # fmt: skip
_WORDS: dict[str, Text] = {
    "startup": Text("start-up", "启动"),
    "liveness": Text("liveness", "存活"),
    "readiness": Text("readiness", "就绪"),
    "server": Text("the server", "服务本身"),
    "unnamed": Text("the server", "服务"),
    "init": Text("an init container", "init 容器"),
    "sidecar": Text("a helper beside the server", "服务旁边的辅助容器"),
    "container": Text("the container's own", "容器自己的"),
    "pod": Text("the pod's", "Pod 的"),
    "node": Text("the whole machine", "整台机器"),
    "kubepods": Text("all pods together", "所有 Pod 合计"),
    "system": Text("the node's own daemons", "节点自身的守护进程"),
    "qos": Text("all pods of one class", "同一 QoS 等级的所有 Pod"),
    "refused": Text("connection refused", "连接被拒绝"),
    "timeout": Text("none in time", "超时无应答"),
    "no-command": Text("its command is not in the container", "容器中没有该命令"),
    "protocol": Text("another protocol than it speaks (HTTP, HTTPS or gRPC)", "所用协议（HTTP、HTTPS 或 gRPC）不同"),
    "no-route": Text("no way to the pod", "无法到达 Pod"),
    "empty": Text("an empty answer", "空回答"),
    "default": Text("the runtime's default of 64 MiB", "运行时默认的 64 MiB"),
    "memory": Text("memory", "内存"),
    "ephemeral-storage": Text("ephemeral storage", "临时存储"),
    "empty-dir": Text("an emptyDir beyond its limit", "emptyDir 超限"),
    "pids": Text("process ids", "进程号"),
    "inodes": Text("inodes", "inode 数量"),
    "queue-quota": Text("quota in its queue", "其队列中的配额"),
    "gpu": Text("GPUs", "GPU"),
    "drain": Text("a drain", "排空节点"),
    "shutdown": Text("a shutdown of the node", "节点关机"),
    "preemption": Text("a pod of higher priority", "更高优先级的 Pod 抢占"),
    "delete": Text("somebody deleted it", "被删除"),
    "taint": Text("a taint", "污点"),
    "lost": Text("its node was lost", "节点失联"),
    "gc": Text("garbage collection", "垃圾回收"),
    "running": Text("running", "运行中"),
    "waiting": Text("waiting", "等待中"),
    "terminated": Text("ended", "已结束"),
    "device-fault": Text("a fault of the device", "设备故障"),
    "devices-unhealthy": Text("devices that are all marked unhealthy", "设备全部被标记为不健康"),
    "plugin-failed": Text("a device plugin that failed to answer", "设备插件未能应答"),
    "node-shutdown": Text("a shutdown of the node", "节点关机"),
    "resources": Text("missing resources", "资源不足"),
    "hardware": Text("the card, its link or its driver is at fault", "故障在显卡、其链路或驱动"),
    "application": Text("a program was ended for what it did or met there", "程序因其操作或在卡上遇到的错误而被终止"),
    "capacity": Text("the card has less memory than its siblings", "该卡的显存少于同类卡"),
    "notice": Text("nothing failed", "没有任何故障"),
    "follower": Text("it follows another fault", "它由另一个故障引起"),
    "cpu": Text("CPU", "CPU"),
    "volume": Text("its volume", "其卷"),
    "affinity": Text("a node that its affinity or selector allows", "亲和性或选择器允许的节点"),
    "other": Text("something else", "其他"),
    "import": Text("import", "导入"),
    "config": Text("configuration", "配置"),
    "weights": Text("loading weights", "加载权重"),
    "profiling": Text("profiling", "试运行"),
    "cache_sizing": Text("sizing the cache", "确定缓存大小"),
    "cache_allocation": Text("allocating the cache", "分配缓存"),
    "graph_capture": Text("graph capture", "graph 捕获"),
    "warmup": Text("warm-up", "预热"),
    "serving": Text("serving", "服务中"),
}


def in_words(name: str, value: str, language: str) -> str:
    """The value of a fact for people."""
    if name not in CODED:
        return value
    return _WORDS[value].say(language) if value in _WORDS else value.replace("_", " ")
