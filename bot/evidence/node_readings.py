"""`node_readings.txt`: free, df, ps, sar, sadf, /proc/meminfo, cgroup files, docker and kubectl listings, one after another.

Facts by what is read, not by where: `node.<name>` (the machine), `cgroup.<name>` (a container's own files), `shm.<name>` (/dev/shm),
`process.<name>` (the largest one), `docker.<name>`. Recognised by their output, since prompts are often missing. Units come from the
output's own suffix, else from the command's flags, else from the tool's default.
"""

import re
from collections.abc import Callable, Iterable
from itertools import pairwise

from bot.evidence import described_nodes, inspect_text, kernel_log, looks, pasted_logs, searches, unit_words
from bot.evidence.document import Document
from bot.evidence.reading import Reading
from bot.evidence.sections import Line, Section, sections
from bot.model import Fact, Gap, Value
from bot.units import size_of

_WOULD_TELL = "memory of the node and of the container"
_NUMBER = re.compile(r"(-?\d{1,18}(?:\.\d{1,6})?)\s?([KMGTP]i?B?|B)?$", re.IGNORECASE)
_DF = re.compile(r"^(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\d{1,3})%\s+(/\S*)$")
_MEMINFO = re.compile(r"^(MemTotal|MemFree|MemAvailable|SwapTotal|SwapFree|Shmem|CommitLimit|Committed_AS|HugePages_Total|Cached):\s+(\d{1,15})(?: kB)?$")
_STAT = re.compile(
    r"^(?:\S*memory\.stat:)?(anon|file|shmem|inactive_file|active_file|slab|slab_reclaimable|unevictable|cache|rss|total_cache|total_rss|mapped_file|file_dirty)\s+(\d{1,18})$"
)
_EVENT = re.compile(r"^(?:\S*memory\.events(?:\.local)?:)?(low|high|max|oom|oom_kill|oom_group_kill)\s+(\d{1,12})$")
_FAILED_UNIT = re.compile(r"Active: failed \(Result: (?:signal|timeout|exit-code|core-dump)\) since (?:[A-Z][a-z]{2} )?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
_PIDS = re.compile(r"^(?:\S*pids\.events(?:\.local)?:)?max\s+(\d{1,12})$")
_CONTROL = re.compile(r"^(?:\S*memory\.oom_control:)?(oom_kill_disable|under_oom)\s+([01])$")
_CPU = re.compile(r"^(?:\S*cpu\.stat:)?(nr_periods|nr_throttled|throttled_usec|throttled_time)\s+(\d{1,18})$")
_FILE = re.compile(
    r"(memory\.(?:current|usage_in_bytes|max_usage_in_bytes|peak|max|limit_in_bytes|high|failcnt|swap\.max|swap\.current)|cpu\.max|pids\.(?:current|max))\b"
)
_FILES = {
    "memory.current": "current", "memory.usage_in_bytes": "current", "memory.peak": "peak", "memory.max_usage_in_bytes": "peak",
    "memory.max": "limit", "memory.limit_in_bytes": "limit", "memory.high": "high", "memory.failcnt": "failcnt", "pids.current": "pids_current", "pids.max": "pids_limit",
}  # fmt: skip
_JOB = re.compile(r"\bOUT_OF_ME(?:\+|MORY\b)")
_COUNTS = frozenset(("memory.failcnt", "pids.current", "pids.max"))
_TEGRA = re.compile(r"\bRAM (\d{1,9})/(\d{1,9})([kM])B \(lfb \d{1,9}x\d{1,9}[kM]B\)(?: SWAP (\d{1,9})/(\d{1,9})([kM])B)?")
_SHM = "/dev/" + "shm"  # a mount point that is reported; nothing is written there
_UNLIMITED = 2**62  # v1 writes a number near 2**63 for "no limit"

Emit = Callable[[str, Value, Line], None]


def read(data: bytes, source: str) -> Reading:
    """Facts of all outputs that are understood; the rest is left alone."""
    found: dict[str, Fact] = {}

    def emit(name: str, value: Value, line: Line) -> None:
        found.setdefault(name, Fact(name, value, line.place(source)))

    for section in sections(data):
        for reader in (_free, _tegrastats, _df, _meminfo, _cgroup, _ps, _sar, _sadf, inspect_text.read, described_nodes.read, _docker, _top, _counts, _segments):
            reader(section, emit)
        _listing(section, emit)
    _growing(sections(data), emit)
    for fact in (*looks.facts(sections(data), source), *searches.facts(sections(data), source), *pasted_logs.facts(data, source)):
        found.setdefault(fact.name, fact)
    if not found:
        return Reading(gaps=(Gap(source, "nothing in it is understood", _WOULD_TELL),) if data.strip() else (Gap(source, "empty", _WOULD_TELL),))
    groups = tuple(sorted({name.split(".")[0] + "." for name in found} - {"kernel.", "events.", "looks.", "pod."}))
    return Reading(tuple(found.values()), groups)


def _segments(section: Section, emit: Emit) -> None:
    """Sums of deploy/node/oombot-shm: what nobody holds any more."""
    for line in section.lines:
        row = re.fullmatch(r"sum\tfree\t(\d{1,9})\t(\d{1,18})", line.text)
        if row:
            emit("node.ownerless_shm_count", int(row[1]), line)
            emit("node.ownerless_shm_bytes", int(row[2]), line)


def _flag(command: str, default: str) -> str:
    """The unit that a command's flags choose (free -g, df -h, -BG)."""
    flags = "".join(re.findall(r"(?:^|\s)-([a-zA-Z]+)\b", command)) + ("h" if "--human" in command else "")
    for flag, unit in (("h", "h"), ("g", "GiB"), ("m", "MiB"), ("k", "KiB"), ("b", "B")):
        if flag in flags.replace("T", ""):
            return unit
    return default


def _bytes(word: str, unit: str) -> int | None:
    """A printed amount: its own suffix wins (tools mean binary by K, M, G), else `unit`."""
    found = _NUMBER.match(word)
    if not found:
        return None
    suffix = (found[2] or "").rstrip("Bb").rstrip("i").upper()
    name = f"{suffix}iB" if suffix else ("B" if found[2] or unit == "h" else unit)
    try:
        return size_of(found[1], name)
    except ValueError:
        return None


def _free(section: Section, emit: Emit) -> None:
    columns: list[str] = []
    unit = _flag(section.command, "KiB") if "free" in section.command else "KiB"
    for line in section.lines:
        words = line.text.split()
        if "total" in words[:2] and "used" in words and "free" in words:
            columns = words
        elif columns and words[0] == "Mem:":
            values = dict(zip(columns, words[1:], strict=False))
            for column, name in (
                ("total", "memory_total"),
                ("used", "memory_used"),
                ("free", "memory_free"),
                ("available", "memory_available"),
                ("buff/cache", "memory_cache"),
                ("cached", "memory_cache"),
                ("shared", "memory_shared"),
            ):
                size = _bytes(values.get(column, ""), unit)
                if size is not None:
                    emit(f"node.{name}_bytes", size, line)
        elif columns and words[:2] == ["-/+", "buffers/cache:"] and len(words) > 3:  # before procps 3.3.10, and busybox: it has no column of what is available
            left = _bytes(words[3], unit)
            if left is not None:
                emit("node.memory_available_bytes", left, line)
        elif columns and words[0] == "Swap:" and len(words) > 2:
            total, used = _bytes(words[1], unit), _bytes(words[2], unit)
            if total is not None:
                emit("node.swap_total_bytes", total, line)
            if used is not None:
                emit("node.swap_used_bytes", used, line)


def _tegrastats(section: Section, emit: Emit) -> None:
    """`tegrastats` of a Jetson: the fullest of its looks. What it calls used holds no file cache, so that the rest is available."""
    looks = [(row, line) for line in section.lines if (row := _TEGRA.search(line.text))]
    if not looks:
        return
    row, line = max(looks, key=lambda look: int(look[0][1]))
    scale = 1024 if row[3] == "k" else 1024**2
    used, total = int(row[1]) * scale, int(row[2]) * scale
    for name, size in (("memory_total", total), ("memory_used", used), ("memory_available", max(0, total - used))):
        emit(f"node.{name}_bytes", size, line)
    if row[4]:
        scale = 1024 if row[6] == "k" else 1024**2
        emit("node.swap_total_bytes", int(row[5]) * scale, line)
        emit("node.swap_used_bytes", int(row[4]) * scale, line)


def _df(section: Section, emit: Emit) -> None:
    unit = ""
    for line in section.lines:
        if "Use%" in line.text or "IUse%" in line.text:
            unit = "" if "IUse%" in line.text else "MiB" if "1M-blocks" in line.text else "GiB" if "1G-blocks" in line.text else "KiB"
            continue
        row = _DF.match(line.text.strip()) if unit else None
        if not row:
            continue
        size, used, left = (_bytes(row[i], unit) for i in (2, 3, 4))
        mount, share = row[6], int(row[5])
        if mount == _SHM:
            for name, value in (("size", size), ("used", used), ("available", left)):
                if value is not None:
                    emit(f"shm.{name}_bytes", value, line)
            emit("shm.use_percent", share, line)
        elif share >= 97 and not mount.startswith(("/snap", "/boot", "/sys")):
            emit("node.disk_full", mount, line)


def _meminfo(section: Section, emit: Emit) -> None:
    names = {
        "MemTotal": "memory_total",
        "MemFree": "memory_free",
        "MemAvailable": "memory_available",
        "SwapTotal": "swap_total",
        "Cached": "memory_cache",
        "Shmem": "memory_shared",
    }
    for line in section.lines:
        row = _MEMINFO.match(line.text.strip())
        if row and row[1] in names:
            emit(f"node.{names[row[1]]}_bytes", int(row[2]) * 1024, line)


def _cgroup(section: Section, emit: Emit) -> None:
    """Files of a container's control group; a bare number belongs to the file that the command names."""
    named = _FILE.findall(section.command)
    for line in section.lines:
        text = line.text.strip()
        hits = _PIDS.match(text) if "pids.events" in section.command or "pids.events" in text else None
        if hits:
            emit("cgroup.pids_hits", int(hits[1]), line)
            continue
        inline = re.match(r"(\S*?(memory\.[a-z_.]+|cpu\.max|pids\.(?:current|max)))[:=]?\s+(\d{1,19}|max)\b", text) or re.match(
            r"(\S*?(memory\.[a-z_.]+|cpu\.max|pids\.(?:current|max))):(\d{1,19}|max)\b", text
        )
        if inline and inline[2] in _FILES:
            _file(inline[2], inline[3], line, emit)
        elif named and re.fullmatch(r"\d{1,19}|max", text):
            _file(named.pop(0), text, line, emit)
        elif "cpu.max" in named and (quota := re.fullmatch(r"(\d{1,12}) (\d{1,9})", text)):
            emit("cgroup.cpu_limit", int(quota[1]) / max(1, int(quota[2])), line)
        for pattern, prefix, unit in ((_STAT, "", "_bytes"), (_EVENT, "event_", ""), (_CONTROL, "", ""), (_CPU, "cpu_", "")):
            row = pattern.match(text)
            if row:
                emit(f"cgroup.{prefix}{row[1].removeprefix('total_')}{unit}", int(row[2]), line)
        metric = re.match(r"container_cpu_cfs_(throttled_)?periods_total(?:\{[^}]{0,400}\})? (\d{1,15})(?:\.\d+)?\b", text)
        if metric:
            emit(f"cgroup.cpu_nr_{'throttled' if metric[1] else 'periods'}", int(metric[2]), line)


def _growing(every: Iterable[Section], emit: Emit) -> None:
    """How much the anonymous memory of one control group grew over three looks or more, where it grew each time; file cache grows by itself."""
    series: dict[str, list[tuple[int, Line]]] = {}
    for section in every:
        for line in section.lines:
            row = _STAT.match(line.text.strip())
            if row and row[1] in ("anon", "total_rss"):
                series.setdefault(line.text.strip()[: row.start(1)], []).append((int(row[2]), line))
    for found in series.values():
        sizes = [size for size, _ in found]
        if len(sizes) >= 3 and all(later > earlier for earlier, later in pairwise(sizes)):
            emit("cgroup.anon_growth_bytes", sizes[-1] - sizes[0], found[-1][1])


def _file(name: str, value: str, line: Line, emit: Emit) -> None:
    if name not in _FILES:
        return
    if value == "max" or int(value) >= _UNLIMITED:
        emit(f"cgroup.{_FILES[name]}_none", True, line)
    else:
        emit(f"cgroup.{_FILES[name]}" + ("" if name in _COUNTS else "_bytes"), int(value), line)


def _ps(section: Section, emit: Emit) -> None:
    """The largest process of `ps` or `top`: rss in KiB, whichever columns there are."""
    columns: list[str] = []
    best: tuple[int, str, Line] | None = None
    for line in section.lines:
        words = line.text.split()
        upper = [word.upper() for word in words]
        if "RSS" in upper and any(word in upper for word in ("COMMAND", "CMD", "COMM", "ARGS")):
            columns = upper
            continue
        if not columns or len(words) < len(columns):
            continue
        rss = _bytes(words[columns.index("RSS")], "KiB")
        command = next(i for i, word in enumerate(columns) if word in ("COMMAND", "CMD", "COMM", "ARGS"))
        if rss is not None and (best is None or rss > best[0]):
            best = (rss, words[command] if command < len(columns) - 1 else " ".join(words[command:]), line)
    if best:
        emit("process.largest_bytes", best[0], best[2])
        emit("process.largest", best[1][:80], best[2])


def _sar(section: Section, emit: Emit) -> None:
    """`sar -r` and `sar -u`: the worst moment. The time may be one or two words (12 or 24 hours)."""
    columns: list[str] = []
    worst: dict[str, tuple[float, Line]] = {}
    falling: list[float] = []  # what was available at each look
    for line in section.lines:
        words = line.text.split()
        names = [word for word in words if word.startswith(("kb", "%")) or word == "CPU"]
        if "kbmemfree" in words or ("%idle" in words and "CPU" in words):
            columns = names
            continue
        if not columns or not words or "RESTART" in line.text or words[0] == "Average:":
            continue
        values = dict(zip(columns, words[-len(columns) :], strict=False))
        room = _float(values.get("kbavail", values.get("kbmemfree", "")))
        falling += [room] if room is not None else []
        for column, name in (("kbavail", "memory_available_least_bytes"), ("kbmemfree", "memory_free_least_bytes"), ("%idle", "cpu_idle_least")):
            value = _float(values.get(column, ""))
            if value is not None and (name not in worst or value < worst[name][0]):
                worst[name] = (value, line)
    if len(falling) >= 5 and sum(later <= earlier for earlier, later in pairwise(falling)) >= 0.9 * (len(falling) - 1) and falling[-1] < 0.75 * falling[0]:
        emit("node.memory_fall_bytes", round((falling[0] - falling[-1]) * 1024), worst.get("memory_available_least_bytes", next(iter(worst.values())))[1])
    for name, (value, line) in worst.items():
        emit(f"node.{name}", round(value) * 1024 if name.startswith("memory") else value, line)


def _float(word: str) -> float | None:
    return float(word.replace(",", ".")) if re.fullmatch(r"\d{1,15}(?:[.,]\d{1,4})?", word) else None


def _sadf(section: Section, emit: Emit) -> None:
    """`sadf -j`: the least memory that was available."""
    first = next(iter(section.lines), None)
    if first is None or not first.text.lstrip().startswith("{"):
        return
    root = Document("\n".join(line.text for line in section.lines).encode(), "").root
    least = None
    for host in root.each("sysstat", "hosts"):
        for statistic in host.each("statistics"):
            available = statistic.integer("memory", "avail")
            if available is not None and (least is None or available < least):
                least = available
    if least is not None:
        emit("node.memory_available_least_bytes", least * 1024, first)


def _docker(section: Section, emit: Emit) -> None:
    """`docker ps -a`, `docker stats`, verdicts of systemd and of Slurm (sacct, seff, scontrol)."""
    for line in section.lines:
        for fact in unit_words.facts([(line.number, line.text, line.place(""))]):
            emit(fact.name, fact.value, line)
        exited = re.search(r"\bExited \((\d{1,3})\)", line.text)
        if exited:
            emit("docker.exit_code", int(exited[1]), line)
        if re.search(
            r"oom-kill\b.*(?:Result|result)|result 'oom-kill'|Result: oom-kill|Result=oom-kill|of this unit has been killed by the OOM killer", line.text
        ):
            emit("node.unit_oom_kill", True, line)
        if re.search(r"dockerexec: unhealthy container|: unhealthy container\b", line.text):
            emit("docker.unhealthy", True, line)
        failed = _FAILED_UNIT.search(line.text)
        if failed:
            emit("unit.ended", failed[1], line)
            moment = kernel_log.clock(failed[1])
            if moment is not None:
                emit("unit.ended_local_s", moment[1], line)
        if _JOB.search(line.text):
            emit("job.out_of_memory", True, line)
        shm = re.search(r'"ShmSize"\s*:\s*(\d{1,15})', line.text)
        if shm:
            emit("shm.size_bytes", int(shm[1]), line)


def _top(section: Section, emit: Emit) -> None:
    """`kubectl top nodes`: the share of memory as the kubelet counts it (with active page cache)."""
    columns: list[str] = []
    for line in section.lines:
        words = line.text.split()
        if "MEMORY(bytes)" in words:
            columns = words
        elif "MEMORY%" in columns and len(words) >= len(columns):
            share = words[columns.index("MEMORY%")]
            if re.fullmatch(r"\d{1,3}%", share):
                emit("node.kubelet_memory_percent", int(share[:-1]), line)


def _listing(section: Section, emit: Emit) -> None:
    """`kubectl get pods`: the first status that is none of a pod that runs or has finished."""
    status = None
    for line in section.lines:
        words = line.text.split()
        if "STATUS" in words and "READY" in words and "NAME" in words:
            status = words.index("STATUS")
        elif status is not None and len(words) > status + 1 and words[status] not in ("Running", "Completed", "Pending", "ContainerCreating", "Terminating"):
            emit("listing.pod_status", words[status][:60], line)


def _counts(section: Section, emit: Emit) -> None:
    """How many entries /dev/shm has, by `ls | wc -l` or a listing of it."""
    if _SHM not in section.command or "ls" not in section.command:
        return
    for line in section.lines:
        if re.fullmatch(r"\d{1,7}", line.text.strip()):
            emit("shm.entries", int(line.text), line)
    files = [line for line in section.lines if re.match(r"^-[rwx-]{9}", line.text)]
    if files:
        emit("shm.entries", len(files), files[0])
