"""`describe.txt`: `kubectl describe pod`, as people paste it. It is turned into the objects that the API server has and read as those, so that nothing is
known here of what they mean; every fact keeps its line. Ages of events stay out: nobody knows when the text was made.
"""

import re
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from itertools import islice

from bot.evidence import events_json, pod_json
from bot.evidence.described import Leaf, Tree, relocated, written
from bot.evidence.reading import Reading
from bot.model import Fact, Gap

MAX_LINES = 20_000
_STATE = re.compile(r" *(?:Last State|State): +(?:Terminated|Running|Waiting)\b")
_POD = re.compile(r"^Name: {2,}\S", re.MULTILINE)
_TOP = re.compile(r"(?:Status|Reason|Message|Events): *(?:\S|$)")
_TABLE = re.compile(r" *Type +Reason +Age +From +Message *$")
_KEY = re.compile(r"^( *)([\w./ -]{1,80}?): *(.*)$")
_PROBE = re.compile(r"(http-get|tcp-socket|exec|grpc)\b(.{0,200}?) +delay=(\d+)s timeout=(\d+)s period=(\d+)s #success=\d+ #failure=(\d+)")
_PORT = re.compile(r":(\w{1,15})(?:/|$)")
_PROBES = {"http-get": "httpGet", "tcp-socket": "tcpSocket", "exec": "exec", "grpc": "grpc"}
_STATES = {"State": "state", "Last State": "lastState"}
_TOLD = {"Reason": "reason", "Message": "message", "Exit Code": "exitCode", "Signal": "signal", "Started": "startedAt", "Finished": "finishedAt"}
_TIMES = re.compile(r"\(x(\d{1,7})")


def looks_like(head: bytes) -> bool:
    """Whether a text is a described pod."""
    text = head.decode("utf-8", errors="replace")
    return bool(_POD.search(text)) and "\nContainers:" in text


def _whole(lines: list[str]) -> list[str]:
    """The lines as a described pod: what people cut out of it gets the headings that it stood under, in front, so that the lines only move."""
    states = [line for line in lines if _STATE.match(line)]
    if states:
        indent = len(states[0]) - len(states[0].lstrip(" "))
        return ["Containers:", "  container:", *(" " * 4 + line[indent:] if line[:indent].strip() == "" else "" for line in lines)]
    if any(_TOP.match(line) for line in lines):
        return lines
    table = next((number for number, line in enumerate(lines) if _TABLE.match(line.rstrip("\r"))), None)
    return [] if table is None else ["Events:", *([""] * table), *("  " + line.strip() for line in lines[table:])]


def read(data: bytes, source: str) -> Reading:
    """Facts of the pod and of its events."""
    lines = data.decode("utf-8", errors="replace").split("\n")[:MAX_LINES]
    whole = lines if looks_like(data) else _whole(lines)
    if not whole:
        return Reading(gaps=(Gap(source, "no described pod in it", "how the container ended, its limits and probes"),))
    pod, events = _parsed(whole)
    ahead = len(whole) - len(lines)  # headings that are not in the file
    cut = not looks_like(data)
    facts: list[Fact] = []
    looked: tuple[str, ...] = ()
    for tree, reader in ((pod, pod_json.read), ({"items": events}, events_json.read)):
        if reader is events_json.read and not any(line.startswith("Events:") for line in whole):
            continue
        text, origin = written(tree)
        origin = [max(1, line - ahead) for line in origin]
        reading = reader(text.encode(), source)
        facts += [relocated(fact, origin, lambda number: lines[number - 1]) for fact in reading.facts]
        looked += reading.looked
    if cut:  # what a cut-out does not show was not looked at
        return Reading(tuple(fact for fact in facts if fact.name not in ("pod.looked", "pod.container.0.name")))
    return Reading(tuple(facts), looked)


def _blocks(lines: list[str], start: int, indent: int) -> Iterator[tuple[str, str, int, int]]:
    """(key, value, first line, line after) of each key at exactly this indentation, up to the first line that is less indented. Numbers from 0."""
    at = start
    while at < len(lines):
        line = lines[at]
        depth = len(line) - len(line.lstrip(" "))
        if line.strip() and depth < indent:
            return
        found = _KEY.match(line) if depth == indent else None
        end = at + 1
        while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip(" ")) > indent):
            end += 1
        if found:
            yield found[2], found[3].strip(), at, end
        at = end


def _parsed(lines: list[str]) -> tuple[Tree, list[Tree]]:
    """The pod and its events."""
    meta: Tree = {}
    spec: Tree = {"containers": []}
    status: Tree = {"containerStatuses": []}
    events: list[Tree] = []
    for key, value, at, end in _blocks(lines, 0, 0):
        leaf = Leaf(value, at + 1)
        if key in ("Name", "Namespace"):
            meta.setdefault(key.lower(), leaf)
        elif key == "Node" and value != "<none>":
            spec["nodeName"] = Leaf(value.partition("/")[0], at + 1)
        elif key == "Status":
            status["phase"] = Leaf(value.partition(" ")[0], at + 1)
        elif key in ("Reason", "Message"):
            status[key.lower()] = leaf
        elif key == "QoS Class":
            status["qosClass"] = leaf
        elif key == "Termination Grace Period" and value.rstrip("s").isdigit():
            spec["terminationGracePeriodSeconds"] = Leaf(int(value.rstrip("s")), at + 1)
        elif key in ("Containers", "Init Containers"):
            init = key.startswith("Init")
            for name, _, first, last in islice(_blocks(lines[:end], at + 1, 2), pod_json.MAX_CONTAINERS):
                one, told = _container(lines[:last], name, first)
                spec.setdefault("initContainers" if init else "containers", []).append(one)
                status.setdefault("initContainerStatuses" if init else "containerStatuses", []).append(told)
        elif key == "Conditions":
            status["conditions"] = [
                {"type": Leaf(words[0], number + 1), "status": Leaf(words[1], number + 1)}
                for number in range(at + 1, end)
                if len(words := lines[number].split()) == 2 and words[1] in ("True", "False", "Unknown")
            ]
        elif key == "Volumes":
            spec["volumes"] = [_volume(lines[:last], name, first) for name, _, first, last in islice(_blocks(lines[:end], at + 1, 2), pod_json.MAX_CONTAINERS)]
        elif key == "Events":
            events = [event for number in range(at + 1, end) if (event := _event(lines[number], number + 1, meta))]
    return {"metadata": meta, "spec": spec, "status": status}, events


def _container(lines: list[str], name: str, at: int) -> tuple[Tree, Tree]:
    """(spec, status) of one container."""
    spec: Tree = {"name": Leaf(name, at + 1)}
    status: Tree = {"name": Leaf(name, at + 1)}
    for key, value, first, last in _blocks(lines, at + 1, 4):
        leaf = Leaf(value, first + 1)
        if key == "Image":
            spec["image"] = leaf
        elif key == "Container ID" and value:
            status["containerID"] = leaf
        elif key in _STATES:
            status[_STATES[key]] = {value.lower(): _state(lines[:last], first) or {"reason": Leaf("", first + 1)}}
        elif key == "Ready":
            status["ready"] = Leaf(value == "True", first + 1)
        elif key == "Restart Count" and value.isdigit():
            status["restartCount"] = Leaf(int(value), first + 1)
        elif key in ("Limits", "Requests"):
            amounts = {resource: Leaf(amount, number + 1) for resource, amount, number, _ in _blocks(lines[:last], first + 1, 6)}
            spec.setdefault("resources", {})[key.lower()] = amounts
        elif key in ("Args", "Command"):
            spec[key.lower()] = [Leaf(lines[number].strip(), number + 1) for number in range(first + 1, last) if lines[number].strip()]
        elif key in ("Liveness", "Readiness", "Startup") and (probe := _PROBE.search(value[:400])):
            spec[f"{key.lower()}Probe"] = _probe(probe, first + 1)
        elif key == "Mounts":
            mounts = [(lines[number].split(" from "), number) for number in range(first + 1, last) if " from " in lines[number]]
            spec["volumeMounts"] = [{"name": Leaf(parts[1].split()[0], number + 1), "mountPath": Leaf(parts[0].strip(), number + 1)} for parts, number in mounts]
    return spec, status


def _state(lines: list[str], at: int) -> Tree:
    found: Tree = {}
    for key, value, number, _ in _blocks(lines, at + 1, 6):
        name = _TOLD.get(key)
        if name in ("exitCode", "signal") and value.isdigit():
            found[name] = Leaf(int(value), number + 1)
        elif name in ("startedAt", "finishedAt"):
            found[name] = Leaf(_time(value), number + 1)
        elif name in ("reason", "message"):
            found[name] = Leaf(value, number + 1)
    return found


def _time(text: str) -> str:
    try:
        return parsedate_to_datetime(text).isoformat()
    except (ValueError, TypeError):
        return ""


def _probe(found: re.Match[str], line: int) -> Tree:
    delay, timeout, period, failures = (Leaf(int(found[number][:9]), line) for number in (3, 4, 5, 6))
    port = _PORT.search(found[2].rstrip())
    return {
        _PROBES[found[1]]: {"port": Leaf(port[1] if port else "", line)},
        "initialDelaySeconds": delay, "timeoutSeconds": timeout, "periodSeconds": period, "failureThreshold": failures,
    }  # fmt: skip


def _volume(lines: list[str], name: str, at: int) -> Tree:
    told = {key: Leaf(value, number + 1) for key, value, number, _ in _blocks(lines, at + 1, 4)}
    volume: Tree = {"name": Leaf(name, at + 1)}
    if str(told.get("Type", Leaf("", 0)).value).startswith("EmptyDir"):
        volume["emptyDir"] = {new: told[old] for old, new in (("Medium", "medium"), ("SizeLimit", "sizeLimit")) if old in told and told[old].value not in ("", "<unset>")}
    return volume


def _event(line: str, number: int, meta: Tree) -> Tree | None:
    """One row of the table: type, reason, age, who, message."""
    columns = re.split(r" {2,}", line.strip(), maxsplit=4)
    if len(columns) != 5 or columns[0] not in ("Normal", "Warning"):
        return None
    times = _TIMES.search(columns[2])
    return {
        "reason": Leaf(columns[1], number), "message": Leaf(columns[4], number), "count": Leaf(int(times[1]) if times else 1, number),
        "source": {"component": Leaf(columns[3].partition(",")[0], number)},
        "involvedObject": {"kind": Leaf("Pod", number), "name": meta.get("name", Leaf("", number))},
    }  # fmt: skip
