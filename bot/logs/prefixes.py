"""Takes off what wraps a log line: one mechanism for all of them, so that no prefix is ever a reason to miss a message.

Container runtimes (CRI, docker JSON), kubectl, docker compose, loguru and RFC 3339 time stamps, klog, Ray, torch's `[rank0]:`, vLLM's process
names and its formatter, and ANSI colours. What is taken off is kept as facts: process, pid, rank, time, level, service. Knows no message.
"""

import json
import re
from dataclasses import dataclass, replace

ANSI = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]")
_MONTHS = {name: index for index, name in enumerate(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1)}
_DAYS = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


@dataclass(frozen=True, slots=True)
class Prefix:
    """What stood in front of a message. `seconds`: time since the start of the year by the line's own clock (None: no time); `service`: docker
    compose's name of the server, or kubectl's pod; `process`: vLLM's or Ray's name of the process, "" when the line has none."""

    process: str = ""
    pid: int | None = None
    rank: int | None = None
    seconds: float | None = None
    level: str = ""
    service: str = ""


_WRAPS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("docker", re.compile(r'\{"log": ?"')),
    ("json", re.compile(r"\{\"(?:asctime|levelname|message|timestamp|level|msg|time|ts)\"\s{0,4}:")),
    ("kubectl", re.compile(r"\[pod/(?P<service>[\w./-]{1,200})\] ")),
    ("srun", re.compile(r"\d{1,4}: (?=[A-Za-z\[({])")),
    ("number", re.compile(r" {0,6}\d{1,7}(?:\t| ?[│|] )(?=\S)")),  # of cat -n and of viewers
    ("frame", re.compile(r"[│┃] ?(?=\S)")),
    ("pm2", re.compile(r"\d{1,3}\|(?P<service>[A-Za-z][\w.-]{0,40}) {0,20}\| ")),
    ("clock", re.compile(r"\[?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]? {1,2}(?=\S)")),
    ("margin", re.compile(r"[ \t]{1,12}(?=\S)")),
    ("quoted", re.compile(r"(?:> ?){1,3}(?=\S)")),
    ("cri", re.compile(r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)) (?:stdout|stderr) [FP] ")),
    (
        "time",
        re.compile(
            r"\[?(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)(?: (?P<process>[A-Z]{2}\d{1,3}(?: [A-Z]{2}\d{1,3}){0,3}))?\]?(?: ?\||,)? {1,3}"
        ),
    ),
    ("syslog", re.compile(r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) [\w.-]{1,80} [\w./@-]{1,80}(?:\[\d{1,10}\])?: ")),
    ("klog", re.compile(r"(?P<level>[IWEF])(?P<time>\d{4} \d\d:\d\d:\d\d\.\d{6}) +\d+ [\w.-]{1,80}:\d{1,6}\] ")),
    ("process", re.compile(r"\((?P<process>[A-Za-z][\w.+:-]{0,60})(?: rank=(?P<rank>\d{1,5}))?(?:,? ?pid=(?P<pid>\d{1,10}))?(?:, ?ip=[\w.:]{1,64})?\)(?: |$)")),
    ("rank", re.compile(r"\[rank(?P<rank>\d{1,5})\]:? ?")),
    ("compose", re.compile(r"(?P<service>[A-Za-z0-9][\w.-]{0,62}) +\| (?=\S| )")),
    ("vllm", re.compile(r"(?P<level>INFO|WARNING|ERROR|DEBUG|CRITICAL) (?P<time>\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?) \[?[\w./<>-]{1,200}:\d{1,7}\] ?")),
    (  # of a program that starts a server and hands its lines on through Python's logging
        "logging",
        re.compile(
            r"(?:- )?(?:[A-Za-z_][\w.]{0,60} - )?(?P<level>INFO|WARNING|ERROR|DEBUG|CRITICAL)(?: - |:[A-Za-z_][\w.]{0,60}:)"
            r"(?:\[[A-Za-z][\w ./-]{0,40}\]:? |(?:vllm|vLLM|VLLM|server|stdout|stderr)[\w .-]{0,20}[:>] )?"
        ),
    ),
    ("relay", re.compile(r"\[(?i:vllm|server|stdout|stderr|subprocess|engine)[\w .-]{0,20}\]:? ")),
    ("level", re.compile(r"(?P<level>INFO|WARNING|ERROR|DEBUG|CRITICAL)(?:: {1,5}| \S{1,80}\.py:\d{1,6} -- )")),
)
_PARTS = re.compile(r"(?:^|_)TP(\d{1,4})(?:_|$)")


def _seconds(text: str) -> float | None:
    """Seconds since the start of the year of any time stamp above; leap days are ignored, since only differences within one log are used."""
    if text[:3] in _MONTHS:
        month, day, clock = _MONTHS[text[:3]], text[4:6], text[7:]
    elif len(text) > 4 and text[4] == "-":
        month, day, clock = int(text[5:7]), text[8:10], text[11:]
    elif len(text) > 2 and text[2] == "-":
        month, day, clock = int(text[:2]), text[3:5], text[6:]
    else:
        month, day, clock = int(text[:2]), text[2:4], text[5:]
    hours, minutes, rest = clock[:2], clock[3:5], re.match(r"\d\d(?:[.,]\d{1,9})?", clock[6:])
    if not 1 <= month <= 12 or rest is None:
        return None
    return (_DAYS[month - 1] + int(day)) * 86400 + int(hours) * 3600 + int(minutes) * 60 + float(rest[0].replace(",", "."))


def _merge(prefix: Prefix, found: re.Match[str]) -> Prefix:
    parts = found.groupdict()
    process = parts.get("process") or prefix.process
    tensor = _PARTS.search(process.replace(" ", "_")) if parts.get("process") else None
    rank = parts.get("rank") or (tensor[1] if tensor else None)
    time = _seconds(parts["time"]) if parts.get("time") else None
    return replace(
        prefix,
        process=process,
        pid=int(parts["pid"]) if parts.get("pid") else prefix.pid,
        rank=int(rank) if rank is not None else prefix.rank,
        seconds=time if prefix.seconds is None else prefix.seconds,  # the outer clock stands on every line, the server's own only on its records
        level=parts.get("level") or prefix.level,
        service=parts.get("service") or prefix.service,
    )


def _unjson(text: str) -> tuple[str, dict[str, object]] | None:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    message = next((record[key] for key in ("log", "message", "msg") if isinstance(record.get(key), str)), None)
    if message is None:
        return None
    behind = next((record[key] for key in ("exc_info", "exception", "traceback", "stack_trace", "error") if isinstance(record.get(key), str)), "")
    return "\n".join(part for part in (str(message).rstrip("\n"), str(behind)) if part), record


def strip(line: str) -> tuple[Prefix, str]:
    """The prefix of a line and the message behind it. At most ten wraps are taken off; what is not understood stays in the message."""
    text, prefix = ANSI.sub("", line).strip("\r\n"), Prefix()
    for _ in range(10):
        for kind, pattern in _WRAPS:
            found = pattern.match(text)
            if not found:
                continue
            if kind in ("docker", "json"):
                inner = _unjson(text)
                if inner is None:
                    continue
                text, record = inner
                time = record.get("time") or record.get("timestamp") or record.get("asctime")
                stamp = re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d", time) if isinstance(time, str) else None
                process = record.get("processName")
                prefix = replace(
                    prefix, seconds=_seconds(stamp[0]) if stamp else prefix.seconds, process=process if isinstance(process, str) else prefix.process
                )
                text = ANSI.sub("", text)
            else:
                prefix, text = _merge(prefix, found), text[found.end() :]
            break
        else:
            break
    return prefix, text
