"""`kernel.log` (dmesg or journalctl -k): memory kills, GPU faults (Xid, NVRM), crashes and hardware errors.

Facts: `kernel.looked`, `kernel.kills`, `kernel.kill.<n>.<name>` (oldest first), `kernel.xid.<n>.<name>`, `kernel.<name>` for the rest.
A log of any size is searched for a few constant words, and only the lines around them are decoded. Whether a kill belongs
to a container is decided by `bot/diagnosis/host_kernel.py`.
"""

import re
from bisect import bisect_right
from functools import partial
from typing import BinaryIO

from bot.evidence import cgroup, runtime_events, unit_words
from bot.evidence.document import QUOTE, Document, epoch, shorten
from bot.evidence.kernel_kills import Kill, kills
from bot.evidence.kernel_signs import ANCHORS, signs
from bot.evidence.reading import Reading
from bot.evidence.xid import xids
from bot.model import Fact, Gap, Place, Value

MAX_BYTES = 64 * 2**20  # of the end of a longer log, which is the newest
MAX_LINES = 8_000  # that are looked at closely
MAX_KILLS = 50
BLOCK = 400  # lines after a header that may belong to its table
LINE = 4096  # bytes of one line

_WOULD_TELL = "whether the kernel killed a process for memory, and for which limit"
_ANCHORS = (
    b"oom", b"Killed process", b"Kill process", b"out of memory", b"Out of memory", b"memory: usage", b"Xid", b"NVRM", b"NVLink",
    b"segfault at", b"general protection", b"Hardware Error", b"Machine check", b"fallen off the bus", b"nvidia-nvswitch",
    b"SysRq", b"systemd-oomd", b"earlyoom[", b"OOMController", b"killed as a result of limit", b"blocked for more than", b"OOMKilling", b"deadlocked on memory", b"Tasks state", b"Memory cgroup stats",
    b"OOM killer", *runtime_events.MARKS, *unit_words.MARKS, b"trap int", b"soft lockup", b"memory failure", b"Memory failure", b"hardware memory corruption", b"swap: usage",
    b"fork rejected by pids", b"trap invalid opcode", b"amdgpu", b"dxgkio_make_resident", *ANCHORS,
)  # fmt: skip
_DENIED = re.compile(rb"read kernel buffer failed|Operation not permitted|Permission denied|not seeing messages from (?:other users|the system)", re.IGNORECASE)
_PREFIX = re.compile(
    r"^(?:<\d{1,3}>)?(?:kern\s*:\w+\s*:\s*)?(?:\d+,\d+,(?P<boot>\d+),[^;]*;)?"
    r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?)?\s*"
    r"(?:\S{1,255} kernel(?:\[\d+\])?:\s*)?"
    r"(?:\[(?P<stamp> {0,12}\d{1,12}\.\d{1,9}|\S{1,12} {1,2}\S{1,12} {1,2}\d{1,2} \d\d:\d\d:\d\d \d{4})\]\s?)?(?:\[\s*[TC]\d+\]\s?)?"
)
_COLOUR = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]")
_LONG_PATH = re.compile(r"/[^\s,]{90,2048}")
_WHERE_IT_RAN = re.compile(r",nodemask=[^\s]{0,400}?,mems_allowed=[\d,-]{0,80}(?=,)")
_MONTHS = {name: index for index, name in enumerate(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1)}


def load(stream: BinaryIO) -> bytes:
    """A log of any size in bounded memory: of what stands before its last 64 MiB only the line feeds are kept, so that lines keep their numbers."""
    kept, dropped = bytearray(), 0
    while chunk := stream.read(MAX_BYTES // 4):
        kept += chunk
        if len(kept) > MAX_BYTES + MAX_BYTES // 4:
            cut = kept.find(b"\n", len(kept) - MAX_BYTES) + 1 or len(kept) - MAX_BYTES
            dropped += kept.count(b"\n", 0, cut)
            del kept[:cut]
    kept[:0] = b"\n" * min(dropped, MAX_BYTES // 4)  # behind more lines only a hostile log goes on
    return bytes(kept)


def read(data: bytes, source: str) -> Reading:
    """Facts of a kernel log of any size and any of its time formats."""
    if not data.strip():
        return Reading(gaps=(Gap(source, "empty", _WOULD_TELL),))
    denied = _DENIED.search(data[:4096])
    if denied and len(data) < 4096:
        return Reading(gaps=(Gap(source, "not permitted to read the kernel log", _WOULD_TELL),))
    start = max(0, len(data) - MAX_BYTES)
    lines = _interesting(data, start)
    gaps = (Gap(source, f"only its last {MAX_BYTES >> 20} MiB were read", _WOULD_TELL),) if start else ()
    facts = [Fact("kernel.looked", True, Place(source))]
    split = [(number, *_split(text)) for number, text in lines]
    found = kills((number, text) for number, _, text in split)
    times = {number: time for number, time, _ in split}
    texts = dict(lines)
    facts += _kill_facts(found[-MAX_KILLS:], times, texts, source)
    facts.append(Fact("kernel.kills", len(found), facts[-1].place if found else Place(source)))
    facts += _xid_facts([(number, text) for number, _, text in split], times, texts, source)
    facts += [Fact(f"kernel.{name}", value, Place(source, number, _quoted(texts.get(number, "")))) for name, value, number in signs([(number, text) for number, _, text in split])]
    facts += unit_words.facts(((number, text, Place(source, number, shorten(text))) for number, text in lines), whole_journal=True)
    facts += runtime_events.facts((number, text, Place(source, number, shorten(text))) for number, text in lines)  # a whole journal, not only the kernel's
    return Reading(tuple(facts), () if start else ("kernel.",), gaps)


def _interesting(data: bytes, start: int) -> list[tuple[int, str]]:
    """The lines that hold an anchor, and those of the tables that follow a header; (number, text), in order."""
    positions: set[int] = set()
    for anchor in _ANCHORS:
        at, hits = data.rfind(anchor, start), 0
        while at >= 0 and hits < MAX_LINES // 4:  # the newest are at the end
            positions.add(data.rfind(b"\n", start, at) + 1 or start)
            at, hits = data.rfind(anchor, start, at), hits + 1
    wanted = sorted(positions)[-MAX_LINES:]
    wanted = _with_tables(data, wanted)
    found, line, last = [], data.count(b"\n", 0, wanted[0]) + 1 if wanted else 1, wanted[0] if wanted else 0
    for at in wanted:
        line += data.count(b"\n", last, at)
        last = at
        end = data.find(b"\n", at, at + LINE)
        found.append((line, data[at : end if end >= 0 else at + LINE].decode("utf-8", errors="replace").rstrip("\r")))
    return found


def _with_tables(data: bytes, starts: list[int]) -> list[int]:
    """Adds the lines between a report's statistics or task table and the next anchored line."""
    more, budget = set(starts), MAX_LINES
    for at in starts:
        line_end = data.find(b"\n", at, at + LINE)
        head = data[at : line_end if line_end >= 0 else at + LINE]
        if not any(mark in head for mark in (b"Memory cgroup stats", b"Tasks state", b"oom_score_adj name")):
            continue
        position, following = line_end + 1, bisect_right(starts, at)
        stop = starts[following] if following < len(starts) else len(data)
        for _ in range(BLOCK):
            if line_end < 0 or position >= stop or position >= len(data) or not budget:
                break
            more.add(position)
            budget -= 1
            line_end = data.find(b"\n", position)
            position = line_end + 1
    return sorted(more)


def _split(line: str) -> tuple[str, str]:
    """(time as printed, message) of one line in any of the formats."""
    if line.startswith("{") and '"MESSAGE"' in line:
        entry = Document(line.encode(), "").root
        if entry.at("MESSAGE"):
            micros = entry.integer("__REALTIME_TIMESTAMP")
            return (f"epoch:{micros // 1_000_000}" if micros else "", entry.text("MESSAGE"))
    if "\x1b" in line:  # dmesg --color=always
        line = _COLOUR.sub("", line)
    found = _PREFIX.match(line)
    if not found:
        return "", line
    return (found["time"] or found["stamp"] or "").strip(), line[found.end() :].strip()


def clock(time: str) -> tuple[str, int] | None:
    """What a printed time is good for: ("epoch", seconds since 1970), ("year", seconds into a year, without zone), or None (seconds since boot)."""
    if time.startswith("epoch:"):
        return "epoch", int(time[6:])
    absolute = epoch(time) if time[:2] in ("19", "20") and "-" in time else None
    if absolute is not None:
        zoned = time.endswith("Z") or re.search(r"[+-]\d\d:?\d\d$", time[19:]) is not None
        return ("epoch", absolute) if zoned else ("local", absolute)
    named = re.match(r"(?:[A-Z][a-z]{2} )?([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d)(?:\.\d+)?(?: (\d{4}))?$", time)
    local = re.match(r"\S{1,12} {1,2}(\d{1,2})月 {1,2}(\d{1,2}) (\d\d:\d\d:\d\d) (\d{4})$", time)  # dmesg -T in a Chinese locale
    if local:
        found = epoch(f"{local[4]}-{int(local[1]):02d}-{int(local[2]):02d}T{local[3]}Z")
        return None if found is None else ("local", found)
    if not named or named[1] not in _MONTHS:
        return None
    year = named[6] or "2000"
    found = epoch(f"{year}-{_MONTHS[named[1]]:02d}-{int(named[2]):02d}T{named[3]}:{named[4]}:{named[5]}Z")
    return None if found is None else ("local" if named[6] else "year", found)


def _quoted(text: str) -> str:
    """A line as a quote; of a long one what decides is kept: whose limit, which group, which process."""
    if len(text) > QUOTE - 10:
        text = _LONG_PATH.sub(lambda found: cgroup.brief(found[0]), _WHERE_IT_RAN.sub("...", text))
        text = text if len(text) <= QUOTE else text[:QUOTE].rstrip(" .") + "..."  # never through the dots of a cut that is there already
    return shorten(text, QUOTE + 3)


def _kill_facts(found: list[Kill], times: dict[int, str], texts: dict[int, str], source: str) -> list[Fact]:
    facts: list[Fact] = []
    for index, kill in enumerate(found):
        place = Place(source, kill.line, _quoted(texts.get(kill.line, "")))
        killed = Place(source, kill.killed_line, _quoted(texts.get(kill.killed_line, ""))) if kill.killed_line else place
        at = partial(_at, source, texts, place)
        limit, victim = cgroup.parse(kill.oom_memcg), cgroup.parse(kill.task_memcg)
        values: dict[str, tuple[Value | None, Place]] = {
            "scope": (kill.scope, place),
            "level": (_level(kill, limit, victim), place),
            "by": (kill.by, place),
            "task": (kill.task, killed),
            "invoker": (kill.invoker, at(kill.invoked_line)),
            "order": (kill.order, place),
            "pid": (kill.pid, killed),
            "pod_uid": (victim.pod_uid or limit.pod_uid, place),
            "limit_pod_uid": (limit.pod_uid, place),
            "container_id": (victim.container_id or cgroup.parse(kill.cpuset).container_id, place),
            "cgroup": (victim.path, place),
            "anon": (kill.anon, killed),
            "file": (kill.file, killed),
            "shmem": (kill.shmem, killed),
            "usage": (kill.usage, place),
            "limit": (kill.limit, place),
            "score_adj": (kill.score_adj, killed),
            "group": (kill.group or None, killed),
            "why": (kill.why, place),
            "members": (len(kill.members) or None, killed),
            "at": (time := times.get(kill.line) or times.get(kill.killed_line or 0) or "", place),
            **_moment(time, place),
            "victim_line": (kill.task or None, killed),
            **{f"stat_{name}": (value, at(kill.stat_lines.get(name))) for name, value in kill.stats.items()},
            **_table(kill, place),
        }
        facts += [Fact(f"kernel.kill.{index}.{name}", value, where) for name, (value, where) in values.items() if value not in (None, "")]
    return facts


def _at(source: str, texts: dict[int, str], otherwise: Place, line: int | None) -> Place:
    return Place(source, line, _quoted(texts[line])) if line in texts and line is not None else otherwise


def _moment(time: str, place: Place) -> dict[str, tuple[Value | None, Place]]:
    """The time in a form that can be compared: seconds since 1970 (`at_s`), since boot (`boot_s`), or local without a zone (`local_s`)."""
    found = clock(time)
    if found is not None:
        return {"at_s" if found[0] == "epoch" else "local_s": (found[1], place)} if found[0] != "year" else {}
    return {"boot_s": (float(time), place)} if re.fullmatch(r"\d{1,12}\.\d{1,9}", time) else {}


def _level(kill: Kill, limit: cgroup.Cgroup, victim: cgroup.Cgroup) -> str:
    """Whose limit it was: container | pod | kubepods | qos | docker | system | unit | node | cpuset | policy | user-space | unknown."""
    if kill.scope == "memcg" and limit.level == "system" and victim.container_id:
        return "other"  # where systemd keeps a runtime's containers beside its daemons
    if kill.scope == "memcg":
        return limit.level if kill.oom_memcg else "unknown"
    return kill.scope


def _table(kill: Kill, place: Place) -> dict[str, tuple[Value | None, Place]]:
    """The largest process and the sum of the others, from the task table."""
    if not kill.tasks:
        return {}
    largest = max(kill.tasks, key=lambda task: task.resident)
    first = min((task for task in kill.tasks if task.name != "pause"), key=lambda task: task.pid, default=largest)
    return {
        "largest": (largest.name, place), "largest_rss": (largest.resident, place), "tasks_rss": (sum(task.resident for task in kill.tasks), place),
        "tasks": (len(kill.tasks), place), "first_pid": (first.pid, place),
    }  # fmt: skip


def _xid_facts(lines: list[tuple[int, str]], times: dict[int, str], texts: dict[int, str], source: str) -> list[Fact]:
    facts: list[Fact] = []
    for index, xid in enumerate(xids(lines)):
        place = Place(source, xid.line, _quoted(texts.get(xid.line, "")))
        for name, value in (("code", xid.code), ("meaning", xid.meaning), ("device", xid.device), ("name", xid.name), ("pid", xid.pid)):
            if value not in (None, ""):
                facts.append(Fact(f"kernel.xid.{index}.{name}", value, place))
        for name, (moment, where) in _moment(times.get(xid.line, ""), place).items():
            facts.append(Fact(f"kernel.xid.{index}.{name}", moment or 0, where))
    return facts
