"""Takes off what wraps a log line: one mechanism for all of them, so that no prefix is ever a reason to miss a message.

Container runtimes (CRI, docker JSON), JSON records of log collectors, kubectl, stern, logcli, docker compose, journald, loguru and RFC 3339 time stamps,
klog, Ray and Ray Serve, KServe, torch's `[rank0]:`, vLLM's process names and its formatter, vLLM-Omni's stages, and ANSI colours. What is taken off is kept as facts:
process, pid, rank, time, level, service. Knows no message.
"""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

ANSI = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]")
_MONTHS = {name: index for index, name in enumerate(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1)}
_DAYS = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


@dataclass(frozen=True, slots=True)
class Prefix:
    """What stood in front of a message. `seconds`: time since the start of the year by the line's own clock (None: no time); `service`: docker
    compose's name of the server, or pod and container as kubectl, stern and collectors give them; `process`: vLLM's or Ray's name of the process, "" when the line has none."""

    process: str = ""
    pid: int | None = None
    rank: int | None = None
    seconds: float | None = None
    level: str = ""
    service: str = ""


_HASHED = r"[a-z0-9][a-z0-9.-]{0,200}-[bcdfghjklmnpqrstvwxz2456789]{5}"  # a pod as a ReplicaSet names it: no word of a sentence ends so
_NUMBERED = r"[a-z0-9][a-z0-9.-]{0,200}-\d{1,4}"  # as a StatefulSet does

_WRAPS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("json", re.compile(r"\{\s{0,4}\"[\w.@/-]{1,80}\"\s{0,4}:")),
    ("kubectl", re.compile(r"\[pod/(?P<service>[\w./-]{1,200})\] ")),
    ("stern", re.compile(rf"(?:[a-z0-9-]{{1,63}} )?(?P<pod>{_HASHED}) (?P<container>[a-z0-9][a-z0-9-]{{0,62}}) (?= *\S)")),
    ("stern", re.compile(rf"(?:[a-z0-9-]{{1,63}} )?(?P<pod>{_NUMBERED}) (?P<container>[a-z0-9][a-z0-9-]{{0,62}}) (?= *[A-Z(\[{{\d/])")),
    ("kubetail", re.compile(rf"\[(?P<pod>{_HASHED}|{_NUMBERED})(?: (?P<container>[a-z0-9][a-z0-9-]{{0,62}}))?\] ")),
    ("labels", re.compile(r"\{(?:\w{1,60}=\"[^\"]{0,200}\"(?:, ?)?){1,30}\}\s{1,3}")),  # of Loki's logcli
    ("srun", re.compile(r"\d{1,4}: (?= {0,12}[A-Za-z\[({/])")),
    ("number", re.compile(r" {0,6}\d{1,7}(?:\t| ?[│|] )(?=\S)")),  # of cat -n and of viewers
    ("frame", re.compile(r"[│┃] ?(?=\S)|\| (?=\S| {2,})")),  # of a notebook, a panel, and of Python's exception groups
    ("pm2", re.compile(r"\d{1,3}\|(?P<service>[A-Za-z][\w.-]{0,40}) {0,20}\| ")),
    ("clock", re.compile(r"\[?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]? {1,2}(?=\S)")),
    ("margin", re.compile(r"[ \t]{1,12}(?=\S)")),
    ("quoted", re.compile(r"(?:> ?){1,3}(?=\S)")),
    ("cri", re.compile(r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)) (?:stdout|stderr) [FP] ")),
    (
        "journal",
        re.compile(
            r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)|\d{10}\.\d{3,6}) [\w.-]{1,80} (?:[\w./@-]{1,80}\[\d{1,10}\]|kernel): "
        ),
    ),
    ("dmesg", re.compile(r"\[ {0,7}\d{1,9}\.\d{3,9}\] |\[[A-Z][a-z]{2} (?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) \d{4}\] ")),
    (
        "time",
        re.compile(
            r"\[?(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)(?: (?P<process>[A-Z]{2}\d{1,3}(?: [A-Z]{2}\d{1,3}){0,3}))?\]?(?: ?\||,)? {1,3}"
        ),
    ),
    ("syslog", re.compile(r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?) [\w.-]{1,80} [\w./@-]{1,80}(?:\[\d{1,10}\])?: ")),
    ("klog", re.compile(r"(?P<level>[IWEF])(?P<time>\d{4} \d\d:\d\d:\d\d\.\d{6}) +\d+ [\w.-]{1,80}:\d{1,6}\] ")),
    ("process", re.compile(r"\((?P<process>[A-Za-z][\w.+:-]{0,60})(?: rank=(?P<rank>\d{1,5}))?(?:,? ?pid=(?P<pid>\d{1,10}))?(?:, ?ip=[\w.:]{1,64})?\)(?: |$)")),
    ("stage", re.compile(r"\[(?P<stage>Stage-\d{1,3})\] ")),  # of vLLM-Omni, whose stages are engines of one server
    ("rank", re.compile(r"\[(?:rank|default)(?P<rank>\d{1,5})\]:? ?")),  # torchrun names its own by the role
    ("serve", re.compile(r"(?P<level>INFO|WARNING|ERROR|DEBUG|CRITICAL) (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) (?:[\w.:#-]{1,120} ){1,4}-- ")),
    ("loguru", re.compile(r"(?P<level>TRACE|DEBUG|INFO|SUCCESS|WARNING|ERROR|CRITICAL) {0,8}\| [\w.<>]{1,120}:[\w<>]{1,80}:\d{1,6} - ")),
    ("kserve", re.compile(r"\d{1,10} [\w.]{1,60} (?P<level>INFO|WARNING|ERROR|DEBUG|CRITICAL) \[[\w.-]{1,80}:[\w<>]{1,80}\(\):\d{1,6}\] ")),
    ("stream", re.compile(r"(?:(?P<level>TRACE|DEBUG|INFO|WARNING|ERROR|CRITICAL)|stdout|stderr) {0,8}\| (?=\S| )")),
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
_TEXTS = ("log", "message", "msg", "MESSAGE", "line", "textPayload")  # keys of a JSON record that may hold the line
_NESTED = ("content", "jsonPayload", "_source")  # of Datadog, Google Cloud, Elasticsearch
_TIMES = ("time", "timestamp", "@timestamp", "asctime", "ts", "date", "__REALTIME_TIMESTAMP")
_BEHIND = ("exc_info", "exception", "traceback", "stack_trace", "error")
_ANSWER = frozenset(("object", "param"))  # keys of what an OpenAI-compatible server answers, which is no log record
_LOGGERS = frozenset(("vllm", "serve", "loguru", "kserve", "logging", "level"))  # what a program logged is no record around its line, it may be a request
_REPEATED = re.compile(r" {0,2}\[repeated \d{1,9}x across (?:cluster|all processes)\](?: \(Ray deduplicates logs .{0,400})?$")
_PARTS = re.compile(r"(?:^|_)TP(\d{1,4})(?:_|$)")


def stamp_seconds(text: str) -> float | None:
    """Seconds since the start of the year of any time stamp above; leap days are ignored, since only differences within one log are used."""
    if text[:10].isdigit():
        return _since_new_year(float(text))
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


def _since_new_year(epoch: float) -> float | None:
    """The same of seconds, milliseconds or microseconds since 1970."""
    scaled = next((epoch / unit for unit in (1, 1e3, 1e6, 1e9) if 1e9 <= epoch / unit < 4e9), None)
    if scaled is None:
        return None
    day = time.gmtime(scaled)
    return (_DAYS[day.tm_mon - 1] + day.tm_mday) * 86400 + day.tm_hour * 3600 + day.tm_min * 60 + day.tm_sec + scaled % 1


def _merge(prefix: Prefix, found: re.Match[str]) -> Prefix:
    parts = found.groupdict()
    process = parts.get("process") or prefix.process
    if parts.get("stage"):
        process = "/".join(part for part in (process, parts["stage"]) if part)
    tensor = _PARTS.search(process.replace(" ", "_")) if parts.get("process") else None
    rank = parts.get("rank") or (tensor[1] if tensor else None)
    time = stamp_seconds(parts["time"]) if parts.get("time") else None
    return replace(
        prefix,
        process=process,
        pid=int(parts["pid"]) if parts.get("pid") else prefix.pid,
        rank=int(rank) if rank is not None else prefix.rank,
        seconds=time if prefix.seconds is None else prefix.seconds,  # the outer clock stands on every line, the server's own only on its records
        level=parts.get("level") or prefix.level,
        service=parts.get("service") or "/".join(part for part in (parts.get("pod"), parts.get("container")) if part) or prefix.service,
    )


def _unjson(text: str, prefix: Prefix) -> tuple[Prefix, str] | None:
    """The message of a record that a runtime, a collector or a JSON formatter made of a line; None where the text is no such record."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or _ANSWER & record.keys():
        return None
    inner = next((record[key] for key in _NESTED if isinstance(record.get(key), dict)), record)
    message = next((part[key] for part in (record, inner) for key in _TEXTS if isinstance(part.get(key), str)), None)
    if message is None:
        return None
    behind = next((record[key] for key in _BEHIND if isinstance(record.get(key), str)), "")
    stamps = (part[key] for part in (record, inner) for key in _TIMES if key in part)
    seconds = next((found for stamp in stamps if (found := _stamp(stamp)) is not None), prefix.seconds)
    process = record.get("processName")
    prefix = replace(prefix, seconds=seconds, process=process if isinstance(process, str) else prefix.process, service=_pod(record) or prefix.service)
    return prefix, "\n".join(part for part in (ANSI.sub("", message).rstrip("\r\n"), behind) if part)


def _stamp(value: object) -> float | None:
    if isinstance(value, str):
        found = re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|\d{10,19}(?=$|\.)", value)
        return stamp_seconds(found[0]) if found else None
    return _since_new_year(value) if isinstance(value, int | float) else None


def _pod(record: Mapping[str, object]) -> str:
    """Pod and container as stern and Fluent Bit name them, "" where they do not."""
    inner = record.get("kubernetes")
    where = inner if isinstance(inner, dict) else record
    names = (where.get(one, where.get(other)) for one, other in (("pod_name", "podName"), ("container_name", "containerName")))
    return "/".join(name[:200] for name in names if isinstance(name, str) and name)


@lru_cache(maxsize=64)  # one line may hold the anchors of many messages
def strip(line: str) -> tuple[Prefix, str]:
    """The prefix of a line and the message behind it. At most ten wraps are taken off; what is not understood stays in the message."""
    text, prefix, logged = ANSI.sub("", line).strip("\r\n\ufeff"), Prefix(), False
    for _ in range(10):
        for kind, pattern in _WRAPS:
            found = pattern.match(text)
            if found is None or (kind == "json" and logged):
                continue
            logged = logged or kind in _LOGGERS
            taken = _unjson(text, prefix) if kind == "json" else (_merge(prefix, found), text[found.end() :])
            if taken is not None:
                prefix, text = taken
                break
        else:
            break
    return prefix, _REPEATED.sub("", text)
