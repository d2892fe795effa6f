"""Kernel log records of an OOM kill, in the format of Linux 6.8."""

import hashlib
import time

from bot.sandbox.kubelet.play import HostKill


def container_scope(pod_uid: str, container_id: str, quality: str) -> str:
    """The cgroup of a container, as containerd with the systemd driver names it."""
    unit = pod_uid.replace("-", "_")
    level = {"BestEffort": "-besteffort", "Burstable": "-burstable"}.get(quality, "")
    above = f"/kubepods.slice/kubepods{level}.slice" if level else "/kubepods.slice"
    return f"{above}/kubepods{level}-pod{unit}.slice/cri-containerd-{container_id}.scope"


def kill(found: HostKill, scope: str, at: float, *, group_kill: bool = True, pid: int | None = None, score: int = 985) -> list[tuple[float, str]]:
    """(time, line) rows without the time prefix. `scope` is the cgroup of the container."""
    number = pid or 100_000 + int(hashlib.sha256(f"{scope}{at}".encode()).hexdigest()[:4], 16)
    cpuset = scope.rpartition("/")[2]
    anon, shmem = found.anon_bytes // 1024, found.shmem_bytes // 1024
    name = found.process[:15]
    limited = found.limit is not None
    constraint = (
        f"CONSTRAINT_MEMCG,nodemask=(null),cpuset={cpuset},mems_allowed=0-1,oom_memcg={scope}"
        if limited
        else f"CONSTRAINT_NONE,nodemask=(null),cpuset={cpuset},mems_allowed=0-1,global_oom"
    )
    sizes = f"total-vm:{anon * 3}kB, anon-rss:{anon}kB, file-rss:{anon // 40}kB, shmem-rss:{shmem}kB, UID:0 pgtables:{anon // 400}kB oom_score_adj:{score}"
    said = [f"{name} invoked oom-killer: gfp_mask=0x{'cc0(GFP_KERNEL)' if limited else '140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP)'}, order=0, oom_score_adj={score}",
            f"CPU: 9 PID: {number} Comm: {name} Tainted: P           OE      6.8.0-60-generic #63-Ubuntu"]  # fmt: skip
    if found.limit is not None:
        kib = found.limit // 1024
        said += [f"memory: usage {kib}kB, limit {kib}kB, failcnt 2187", "swap: usage 0kB, limit 0kB, failcnt 0", f"Memory cgroup stats for {scope}:",
                 f"anon {found.anon_bytes}", f"file {found.shmem_bytes + (24 << 20)}", f"shmem {found.shmem_bytes}"]  # fmt: skip
    said.append("Tasks state (memory values in pages):")
    said.append("[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name")
    said.append(
        f"[{number:7d}] {0:5d} {number:5d} {anon * 3 // 4:8d} {anon // 4:8d} {anon // 4:8d} {anon // 160:8d} {shmem // 4:9d} {anon * 2:14d} {0:8d} {score:13d} {name}"
    )
    said.append(f"oom-kill:constraint={constraint},task_memcg={scope},task={name},pid={number},uid=0")
    said.append(f"{'Memory cgroup out' if limited else 'Out'} of memory: Killed process {number} ({name}) {sizes}")
    if group_kill and limited:
        said.append(f"Tasks in {scope} are going to be killed due to memory.oom.group set")
        said.append(f"Memory cgroup out of memory: Killed process {number} ({name}) {sizes}")
    return [(at + 0.00001 * row, text) for row, text in enumerate(said)]


def dmesg(records: list[tuple[float, str]], booted: float, style: str = "") -> str:
    """The log as `dmesg` prints it: seconds since boot; `style` "iso" or "ctime" for the wall clock."""
    return "".join(f"{_prefix(at, booted, style)}{text}\n" for at, text in records)


def _prefix(at: float, booted: float, style: str) -> str:
    if style == "iso":
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f",{int(at % 1 * 1e6):06d}+00:00 "
    if style == "ctime":
        return time.strftime("[%a %b %e %H:%M:%S %Y] ", time.gmtime(at))
    return f"[{at - booted:12.6f}] "


def journal(records: list[tuple[float, str]], host: str, *, iso: bool = False) -> str:
    """The log as `journalctl -k` prints it; `iso` for `-o short-iso`."""
    shape = "%Y-%m-%dT%H:%M:%S+0000" if iso else "%b %d %H:%M:%S"
    return "".join(f"{time.strftime(shape, time.gmtime(at))} {host} kernel: {text}\n" for at, text in records)


def boot_lines(booted: float) -> list[tuple[float, str]]:
    """A few records of a quiet boot, so that a log without a kill is not an empty one."""
    said = ["Linux version 6.8.0-60-generic (buildd@lcy02-amd64-054) (gcc 13.3.0) #63-Ubuntu SMP PREEMPT_DYNAMIC",
            "Command line: BOOT_IMAGE=/vmlinuz-6.8.0-60-generic root=UUID=2f0c2c1e ro", "nvidia: loading out-of-tree module taints kernel.",
            "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.172.08", "eth0: Link is Up - 100Gbps/Full"]  # fmt: skip
    return [(booted + number * 2.5, text) for number, text in enumerate(said)]
