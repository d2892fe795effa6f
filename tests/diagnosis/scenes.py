"""Scenes on a host, built small: a pod, its events and a kernel log as the tools print them, read and derived as `diagnose` does it."""

import json
from typing import Any

from bot.diagnosis import host
from bot.evidence import events_json, kernel_log, node_readings, pod_json, ray_status
from bot.facts import Facts

UID = "0a1b2c3d-1111-2222-3333-444455556666"
ID = "a" * 64
OLD_ID = "b" * 64
ENDED = "2026-01-14T09:31:07Z"


def terminated(code: int, reason: str = "Error", at: str = ENDED, started: str = "2026-01-14T09:00:00Z", container_id: str = OLD_ID) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": at, "containerID": f"containerd://{container_id}"}}


def container(name: str = "server", image: str = "vllm/vllm-openai:v0.11.0", limit: str | None = "32Gi", request: str | None = "32Gi", **more: Any) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    if limit:
        resources["limits"] = {"memory": limit}
    if request:
        resources["requests"] = {"memory": request}
    return {"name": name, "image": image, "resources": resources, **more}


def status(name: str = "server", state: dict[str, Any] | None = None, last: dict[str, Any] | None = None, container_id: str = ID, **more: Any) -> dict[str, Any]:
    ran = {"running": {"startedAt": "2026-01-14T09:31:10Z"}}
    return {"name": name, "state": ran if state is None else state, "lastState": last or {}, "containerID": f"containerd://{container_id}", "restartCount": 1, "ready": True, **more}


def pod(specs: list[dict[str, Any]] | None = None, statuses: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    """A pod on node-1; `more` are `metadata`, `spec` and `status` to add."""
    return {
        "kind": "Pod",
        "metadata": {"name": "chat-0", "namespace": "llm", "uid": UID, **more.get("metadata", {})},
        "spec": {"nodeName": "node-1", "terminationGracePeriodSeconds": 30, "containers": specs or [container()], **more.get("spec", {})},
        "status": {"phase": "Running", "containerStatuses": [status()] if statuses is None else statuses, **more.get("status", {})},
    }


def event(reason: str, message: str, at: str = "2026-01-14T09:30:37Z", of: str = "server", kind: str = "Pod", name: str = "chat-0", count: int = 1) -> dict[str, Any]:
    return {
        "involvedObject": {"kind": kind, "name": name, "fieldPath": f"spec.containers{{{of}}}", **({"uid": UID} if kind == "Pod" else {})},
        "reason": reason, "message": message, "firstTimestamp": at, "lastTimestamp": at, "count": count,
    }  # fmt: skip


def path(container_id: str = OLD_ID, uid: str = UID) -> str:
    slug = uid.replace("-", "_")
    return f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{slug}.slice/cri-containerd-{container_id}.scope"


def killed(oom_memcg: str | None, task_memcg: str, task: str = "VLLM::EngineCor", pid: int = 811, group: bool = False) -> str:
    """A kill as the kernel tells it; `oom_memcg` None means the whole machine."""
    whose = f"oom_memcg={oom_memcg}" if oom_memcg else "global_oom"
    constraint = "CONSTRAINT_MEMCG" if oom_memcg else "CONSTRAINT_NONE"
    message = "Memory cgroup out of memory" if oom_memcg else "Out of memory"
    lines = [
        f"[1.0] {task} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=984",
        "[1.1] memory: usage 33554432kB, limit 33554432kB, failcnt 912" if oom_memcg else "[1.1] Mem-Info:",
        f"[1.2] oom-kill:constraint={constraint},nodemask=(null),cpuset=/,mems_allowed=0,{whose},task_memcg={task_memcg},task={task},pid={pid},uid=0",
        f"[1.3] {message}: Killed process {pid} ({task}) total-vm:9kB, anon-rss:5kB, file-rss:1kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:984",
    ]
    if group:
        lines.append(f"[1.4] Tasks in {task_memcg} are going to be killed due to memory.oom.group set")
    return "\n".join(lines) + "\n"


def derived(the_pod: dict[str, Any] | None = None, events: list[dict[str, Any]] | None = None, kernel: str | None = None, node: str | None = None, ray: str | None = None) -> Facts:
    """The facts of a scene, as `diagnose` derives them."""
    facts = Facts()
    for given, reader, source in (
        (None if the_pod is None else json.dumps(the_pod, indent=1), pod_json, "pod.json"),
        (None if events is None else json.dumps({"items": events}, indent=1), events_json, "events.json"),
        (kernel, kernel_log, "kernel.log"),
        (node, node_readings, "node_readings.txt"),
        (ray, ray_status, "ray_status.txt"),
    ):
        if given is not None:
            reading = reader.read(given.encode(), source)
            facts = facts.with_facts(reading.facts, reading.looked)
    return host.derive(facts)
