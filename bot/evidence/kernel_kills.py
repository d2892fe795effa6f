"""The grammar of the kernel's out-of-memory reports: lines in, one `Kill` for each incident out. No files, no opinion about pods.

Knows the formats from 4.x to 6.x, control groups v1 and v2, group kills, and the user-space killers (systemd-oomd, earlyoom).
Each line is understood by itself: headers are rate-limited, cut by filters and out of order in real logs.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

PAGE = 4096  # bytes; the task table counts pages

_INVOKED = re.compile(r"(?:^|\]\s|:\s)((?:[^\[\]:]{1,64}|[^\[\]]{1,64}?)(?:\[[^\[\]]{1,16}\])?) invoked oom-killer:(?:.*?order=(-?\d+))?")
_SUMMARY = re.compile(r"oom-kill:constraint=(\w+)")
_FIELD = re.compile(r"(oom_memcg|task_memcg|task|pid|cpuset|mems_allowed)=([^,\n]*)")
_KILLED = re.compile(
    r"(?:(Memory cgroup out of memory|Out of memory[^:]{0,40}|\w[^:]{0,60}): )?Killed process (\d{1,10}),? (?:UID (\d+), )?\((.{1,64}?)\)(?:,? UID (\d+))?,?"
    r"(?: total-vm:(\d{1,15})kB)?(?:,? anon-rss:(\d{1,15})kB)?(?:,? file-rss:(\d{1,15})kB)?(?:,? shmem-rss:(\d{1,15})kB)?"
)
_EXITING = re.compile(r"(Memory cgroup out of memory|Out of memory[^:]{0,40}): OOM victim (\d{1,10}) \((.{1,64}?)\) is already exiting")
_KILL_OLD = re.compile(r"(Memory cgroup out of memory|Out of memory[^:]{0,40}): Kill process (\d{1,10}) \((.{1,64}?)\) score (\d+)")
_USAGE = re.compile(r"memory: usage (\d{1,15})kB, limit (\d{1,19})kB, failcnt (\d+)")
_SWAP = re.compile(r"\b(memory\+swap|swap): usage (\d{1,15})kB, limit (\d{1,19})kB")
_LEGACY = re.compile(r"Task in (\S+) killed as a result of limit of (\S+)|Memory limit reached of cgroup (\S+)")
_REAPED = re.compile(r"oom_reaper: reaped process (\d{1,10}) \((.{1,64}?)\), now ")
_GROUP = re.compile(r"Tasks in (\S+) are going to be killed due to memory\.oom\.group")
_STATS = re.compile(r"Memory cgroup stats for (\S+?):")
_STAT = re.compile(r"(?:^|\s)(anon|file|shmem|file_mapped|inactive_file|active_file|slab|kernel_stack|cache|rss|mapped_file)[ :](\d{1,19})(KB)?\b")
_ROW = re.compile(r"\[\s*(\d{1,10})\]\s+(\d+)\s+(\d+)\s+(\d{1,12})\s+(\d{1,12})\s+((?:\d+\s+){1,7})(-?\d{1,5})\s+(.{1,64})$")
_OOMD = re.compile(r"systemd-oomd\S*: Killed (\S+)(?: \(.*?\))? due to (.{1,200})")
_TALOS = re.compile(r"Sending SIGKILL to cgroup \{.{0,200}?OOMController.{0,80}?\"cgroup\": \"(?:/sys/fs/cgroup)?(/[^\"]{1,500})\"")
_OOMD_SHORT = re.compile(r"(\S+\.(?:service|scope|slice)): systemd-oomd killed")
_EARLYOOM = re.compile(r'earlyoom\S*: sending (SIG\w+) to process (\d+)(?: uid (\d+))? "(.{1,64}?)"(?:.*?VmRSS:? (\d+) MiB)?')
_ROOM = re.compile(r"mem avail: .{1,60}?\)(?:, swap free: .{1,60}?\))?")
_NO_VICTIM = re.compile(r"Out of memory and no killable processes|System is deadlocked on memory|panic_on_oom is enabled")


class Task(NamedTuple):
    """A row of the task table: the process numbers are the node's, the size is in bytes."""

    name: str
    resident: int
    pid: int


@dataclass(slots=True)
class Kill:
    """One incident. Sizes in bytes; None where the log does not say. `line` is that of the line which proves it best (summary, else kill)."""

    line: int
    text: str
    by: str = "kernel"  # kernel | systemd-oomd | earlyoom
    message: str = ""  # "memcg" | "global", from the kill line
    constraint: str = ""
    oom_memcg: str = ""
    task_memcg: str = ""
    cpuset: str = ""
    global_oom: bool = False
    invoker: str = ""
    order: int | None = None
    task: str = ""
    pid: int | None = None
    anon: int | None = None
    file: int | None = None
    shmem: int | None = None
    usage: int | None = None
    limit: int | None = None
    version: int | None = None  # of control groups
    score_adj: int | None = None
    group: bool = False
    members: list[str] = field(default_factory=list)
    stats: dict[str, int] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    why: str = ""  # what a killer in user space gives as its reason
    killed_line: int | None = None
    invoked_line: int | None = None
    stat_lines: dict[str, int] = field(default_factory=dict)
    killed_text: str = ""

    @property
    def scope(self) -> str:
        """memcg | node | cpuset | policy | user-space: whose memory ran out, as far as this one record tells."""
        if self.by != "kernel":
            return "user-space"
        if self.oom_memcg and not self.global_oom:
            return "memcg"
        if self.global_oom or self.message == "global":
            return {"CONSTRAINT_CPUSET": "cpuset", "CONSTRAINT_MEMORY_POLICY": "policy"}.get(self.constraint, "node")
        if self.message == "memcg" or self.constraint == "CONSTRAINT_MEMCG" or self.limit is not None:
            return "memcg"
        return "node" if self.constraint else "unknown"


def kernel_message(text: str) -> str:
    """memcg | global | "" of one kill line, as it stands in a node event too."""
    if "Memory cgroup out of memory" in text:
        return "memcg"
    return "global" if "Out of memory" in text else ""


def killed_bytes(text: str) -> int | None:
    """Anonymous and shared memory of the process that one kill line names; None where the line gives no sizes."""
    killed = _KILLED.search(text)
    sizes = [size for number in (killed[7], killed[9]) if (size := _kb(number)) is not None] if killed else []
    return sum(sizes) if sizes else None


def kills(lines: Iterable[tuple[int, str]]) -> list[Kill]:
    """The incidents of these (line number, text without its time prefix) pairs, oldest first; a kill that stands twice is one."""
    reader = _Reader()
    for number, text in lines:
        reader.line(number, text)
    return reader.finish()


def _kb(number: str | None) -> int | None:
    return int(number) * 1024 if number else None


class _Reader:
    """Holds the incident that is being told."""

    def __init__(self) -> None:
        self.done: list[Kill] = []
        self.now: Kill | None = None
        self.fresh = False  # only a header so far
        self.in_stats = False
        self.chosen = False  # a score line has named a task; the kill line below it may name its process, or the child taken in its place
        self.room = ""  # what earlyoom said last of what is left

    def line(self, number: int, text: str) -> None:
        if self._header(number, text) or self._numbers(number, text) or self._verdict(number, text):
            return
        self._others(number, text)

    def finish(self) -> list[Kill]:
        self._close()
        found: list[Kill] = []
        seen: dict[tuple[int | None, str, int | None], Kill] = {}
        for kill in self.done:
            key = (kill.pid, kill.task, kill.anon)
            if kill.pid is not None and key in seen:
                seen[key].group = seen[key].group or kill.group
                continue
            seen[key] = kill
            found.append(kill)
        return found

    def _close(self) -> None:
        if self.now is not None and not self.fresh:
            self.done.append(self.now)
        self.now, self.fresh, self.in_stats, self.chosen = None, False, False, False

    def _open(self, number: int, text: str, fresh: bool = False) -> Kill:
        self._close()
        self.now, self.fresh = Kill(number, text), fresh
        return self.now

    def _current(self, number: int, text: str) -> Kill:
        if self.now is None:
            return self._open(number, text, fresh=True)
        return self.now

    def _header(self, number: int, text: str) -> bool:
        invoked = _INVOKED.search(text) if "invoked oom-killer" in text else None
        if not invoked:
            return False
        kill = self._open(number, text, fresh=True)
        kill.invoker, kill.invoked_line = invoked[1].strip(), number
        kill.order = int(invoked[2]) if invoked[2] and len(invoked[2]) < 4 else None
        return True

    def _reported(self, number: int, text: str) -> Kill:
        """The incident that a report's numbers belong to: they stand before its victim, so behind one they are another's whose header was cut off."""
        told = self.now is not None and self.now.killed_line is not None
        return self._open(number, text, fresh=True) if told else self._current(number, text)

    def _numbers(self, number: int, text: str) -> bool:
        """Usage, limits, statistics and the task table of the current incident."""
        usage = _USAGE.search(text)
        if usage:
            kill = self._reported(number, text)
            kill.usage, kill.limit = _kb(usage[1]), _kb(usage[2])
            return True
        swap = _SWAP.search(text)
        if swap and self.now is not None:
            self.now.version = 1 if swap[1] == "memory+swap" else 2
            return True
        stats = _STATS.search(text)
        if stats:
            kill = self._reported(number, text)
            self.in_stats, kill.oom_memcg = True, kill.oom_memcg or stats[1]
        row = _ROW.search(text)
        if row and self.now is not None:
            self.in_stats = False
            if len(self.now.tasks) < 2000:
                self.now.tasks.append(Task(row[8].strip(), int(row[5]) * PAGE, int(row[1])))
            return True
        if self.in_stats and self.now is not None:
            for name, value, kilo in _STAT.findall(text):
                self.now.stats.setdefault(name, int(value) * (1024 if kilo else 1))
                self.now.stat_lines.setdefault(name, number)
        return bool(stats)

    def _verdict(self, number: int, text: str) -> bool:
        """The summary, the kill line, the legacy pair, the group line."""
        summary = _SUMMARY.search(text)
        if summary:
            self._summary(number, text, summary[1])
            return True
        legacy = _LEGACY.search(text)
        if legacy:
            kill = self._current(number, text)
            kill.task_memcg, kill.oom_memcg = legacy[1] or kill.task_memcg, legacy[2] or legacy[3] or kill.oom_memcg
            kill.line, kill.text, self.fresh = number, text, False
            return True
        group = _GROUP.search(text)
        if group:
            kill = self._current(number, text)
            kill.group, kill.task_memcg, self.fresh = True, kill.task_memcg or group[1], False
            return True
        at = text.find("Killed process")
        killed = _KILLED.search(text[max(0, at - 120) : at + 600]) if at >= 0 else None
        if killed:
            self._killed(number, text, killed)
            return True
        return self._old(number, text)

    def _summary(self, number: int, text: str, constraint: str) -> None:
        fields = dict(_FIELD.findall(text[:8192]))
        pid = fields.get("pid", "")
        if self.now is None or (self.now.pid is not None and str(self.now.pid) != pid):
            self._open(number, text)
        kill, self.fresh = self._current(number, text), False
        kill.line, kill.text, kill.constraint = number, text, constraint
        kill.oom_memcg = fields.get("oom_memcg", kill.oom_memcg)
        kill.global_oom = ",global_oom" in text
        kill.task_memcg, kill.cpuset = fields.get("task_memcg", ""), fields.get("cpuset", "")
        kill.task = fields.get("task", "").strip() or kill.task
        kill.pid = int(pid) if pid.isdigit() and len(pid) < 11 else kill.pid

    def _killed(self, number: int, text: str, found: re.Match[str]) -> None:
        pid, name = int(found[2]), found[4].strip()
        if self.now is not None and self.now.group and self.now.killed_line is not None:
            if pid != self.now.pid and len(self.now.members) < 200:
                self.now.members.append(name)
            return
        if self.now is None or (self.now.pid is not None and self.now.pid != pid and not self.chosen):
            self._open(number, text)
        kill, self.fresh, self.chosen = self._current(number, text), False, False
        kill.pid, kill.task = pid, name
        kill.message = kernel_message(text) or kill.message
        kill.anon, kill.file, kill.shmem = _kb(found[7]), _kb(found[8]), _kb(found[9])
        adj = re.search(r"oom_score_adj:(-?\d{1,5})", text)
        kill.score_adj = int(adj[1]) if adj else kill.score_adj
        kill.killed_line, kill.killed_text = number, text
        if not kill.constraint and not kill.text.startswith("Task in"):
            kill.line, kill.text = number, text

    def _old(self, number: int, text: str) -> bool:
        old = _KILL_OLD.search(text)
        if not old:
            return self._exiting(number, text)
        if self.now is None or (self.now.pid is not None and self.now.pid != int(old[2])):
            self._open(number, text)
        kill, self.fresh, self.chosen = self._current(number, text), False, True
        kill.message, kill.pid, kill.task = kernel_message(old[1]), int(old[2]), old[3]
        return True

    def _exiting(self, number: int, text: str) -> bool:
        """A victim that was ending already: the limit, or the machine, was full all the same."""
        found = _EXITING.search(text) if "already exiting" in text else None
        if not found:
            return False
        if all(kill.pid != int(found[2]) for kill in self.done[-20:]):
            kill, self.fresh = self._current(number, text), False
            kill.message, kill.pid, kill.task = kernel_message(found[1]), int(found[2]), found[3]
        return True

    def _others(self, number: int, text: str) -> None:
        reaped = _REAPED.search(text) if "oom_reaper" in text else None
        if reaped and self.now is not None and not self.now.task:  # a filter has left the lines out that name the victim
            self.now.pid, self.now.task = int(reaped[1]), reaped[2]
        oomd = _OOMD.search(text)
        if oomd:
            kill = self._open(number, text)
            kill.by, kill.task_memcg, kill.why = "systemd-oomd", oomd[1], oomd[2].strip()
            self._close()
        talos = _TALOS.search(text)  # the machine's own controller, before the kernel has to
        if talos and not any(kill.task_memcg == talos[1] for kill in self.done[-5:]):
            kill = self._open(number, text)
            kill.by, kill.task_memcg = "OOM controller of the machine", talos[1]
            self._close()
        told = _OOMD_SHORT.search(text) if oomd is None and "systemd-oomd killed" in text else None  # systemd's own word of it follows
        if told and not any(kill.by == "systemd-oomd" and kill.task_memcg.endswith(told[1]) for kill in self.done[-20:]):
            kill = self._open(number, text)
            kill.by, kill.task_memcg = "systemd-oomd", told[1]
            self._close()
        room = _ROOM.search(text)
        if room:
            self.room = room[0]
        early = _EARLYOOM.search(text)
        if early:
            kill = self._open(number, text)
            kill.by, kill.pid, kill.task = "earlyoom", int(early[2][:10]), early[4]
            kill.anon = int(early[5]) * 2**20 if early[5] and len(early[5]) < 10 else None
            kill.why = self.room
            self._close()
        if _NO_VICTIM.search(text):
            kill = self._open(number, text)
            kill.message, kill.global_oom = "global", True
            self._close()
