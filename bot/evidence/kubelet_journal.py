"""What a kubelet's own journal says of its node: it was short of memory or of disk, or its container runtime answers no more.

Which pod paid for it is the pod's own status to say. Source: pkg/kubelet/eviction/eviction_manager.go, pkg/kubelet/pleg/generic.go and
pkg/kubelet/nodestatus/setters.go, whose lines were sentences before 1.20 and are a sentence with fields since.
"""

import re
from collections.abc import Iterable

from bot.evidence.sections import Line
from bot.model import Fact

_RECLAIM = re.compile(r"eviction[_ ]manager.{0,60}?(?:must evict pod\(s\) to reclaim|[Aa]ttempting to reclaim)\W{1,4}(?:resourceName=\")?([a-z-]{3,30})")
_SHORT = {"memory": "events.node_pressure", "ephemeral-storage": "events.disk_pressure", "inodes": "events.disk_pressure"}

# Not what every start says for a moment ("has yet to be successful", "status check may not have completed yet").
_RUNTIME = re.compile(r"PLEG is not healthy: pleg was last seen active \S{2,40} ago|container runtime is down")
_SYSTEM_OOM = re.compile(r"System OOM encountered, victim process: |Got sys oom event")
_PROBE_KILL = re.compile(r"failed (startup|liveness) probe, will be restarted")
_DENIED = re.compile(r"Pod admission denied\".{0,400}?message=\"([^\"]{1,600})")
_POD = re.compile(r"\bpod=\"([^\"]{1,300})\"|\bpod[:=] ?\"?([a-z0-9.-]{1,253}/[a-z0-9.-]{1,253}|[a-z0-9.-]{1,253}_[a-z0-9.-]{1,63})\b")


def runtime_trouble(text: str) -> str:
    """The kubelet's words for a container runtime that does not answer, as a journal or a node's condition has them; empty where there are none."""
    told = _RUNTIME.search(text)
    return told[0] if told else ""


def facts(lines: Iterable[Line], source: str) -> list[Fact]:
    """The first line of each shortage, of each trouble with the runtime, and of a kill for the whole node; of a probe that ended a container and of a
    refusal at admission where they are of one pod only."""
    found: dict[str, Fact] = {}
    of_pods: dict[str, Fact] = {}
    for line in lines:
        trouble = runtime_trouble(line.text) if "PLEG" in line.text or "runtime is down" in line.text else ""
        if trouble:
            found.setdefault("node.runtime_trouble", Fact("node.runtime_trouble", trouble, line.place(source)))
            if "ode became not ready" in line.text:
                found.setdefault("events.node_not_ready", Fact("events.node_not_ready", True, line.place(source)))
        if ("OOM encountered" in line.text or "sys oom event" in line.text) and _SYSTEM_OOM.search(line.text):
            found.setdefault("events.system_oom", Fact("events.system_oom", True, line.place(source)))
        one = _of_one_pod(line, source) if "kubelet" in line.text else None
        if one:
            pod = _POD.search(line.text)
            of_pods.setdefault((pod[1] or pod[2]) if pod else "", one)
        told = _RECLAIM.search(line.text) if "viction" in line.text else None
        name = _SHORT.get(told[1]) if told else None
        if name:
            found.setdefault(name, Fact(name, True, line.place(source)))
    if len(of_pods) == 1:  # of several pods, which one is meant is not known
        found.update({fact.name: fact for fact in of_pods.values()})
    return list(found.values())


def _of_one_pod(line: Line, source: str) -> Fact | None:
    """What the line says of the end or the refusal of a pod that it names."""
    probe = _PROBE_KILL.search(line.text) if "will be restarted" in line.text else None
    denied = _DENIED.search(line.text) if probe is None and "admission denied" in line.text else None
    if probe:
        return Fact("events.probe_kill", probe[1], line.place(source))
    return Fact("events.rejected", denied[1], line.place(source)) if denied else None
