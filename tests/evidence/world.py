"""A small world for tests of the reading side: one cluster of plain objects, and nodes that print what a test wants.

Named fakes of `ports.ClusterReader` and `ports.Shells`. The real ones are tried in tests/clients and tests/cluster.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bot.errors import Forbidden, NotFound, WorldError
from bot.evidence import commands
from bot.model import ProgressLine
from bot.ports import CommandOutput, Json, LogPiece

UID = "0b7c5c9e-1111-4222-8333-0123456789ab"
HEX = "ab" * 32


def pod(name: str, namespace: str = "llm", **parts: object) -> Json:
    """A pod with one vLLM container; `parts` replace top-level keys, `owner` adds a controller."""
    metadata: Json = {"name": name, "namespace": namespace, "uid": f"{name}-uid", "creationTimestamp": "2026-11-30T08:00:00Z"}
    if owner := parts.pop("owner", None):
        metadata["ownerReferences"] = [{**owner, "controller": True}]  # type: ignore[dict-item]
    metadata |= parts.pop("metadata", {})  # type: ignore[operator]
    server = {"name": "server", "image": "vllm/vllm-openai:v0.11.0", "args": ["--model", "m"], "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"nodeName": "gpu-1", "containers": [server]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}, **parts}


def owned_by(kind: str, name: str, version: str = "apps/v1") -> Json:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": f"{name}-uid"}


def workload(kind: str, name: str, namespace: str = "llm", owner: Json | None = None, version: str = "apps/v1", **spec: object) -> Json:
    metadata: Json = {"name": name, "namespace": namespace, "uid": f"{name}-uid", "managedFields": [{"manager": "kubectl"}]}
    if owner:
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def node(name: str = "gpu-1", address: str = "10.0.0.1") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"{name}-uid"},
        "status": {"addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]},
    }


def event(name: str, kind: str, of: str, namespace: str = "llm", message: str = "m", at: str = "2026-11-30T09:00:00Z") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"kind": kind, "name": of},
        "message": message,
        "lastTimestamp": at,
    }


@dataclass
class FakeCluster:
    """Holds objects and logs (`(pod, container, previous)` -> bytes). `refuses` maps a kind, "log" or "exec" to the error that is raised."""

    name: str = "one"
    objects: list[Json] = field(default_factory=list)
    logs: dict[tuple[str, str, bool], bytes] = field(default_factory=dict)
    outputs: dict[tuple[str, ...], bytes] = field(default_factory=dict)
    refuses: dict[str, WorldError] = field(default_factory=dict)
    slow: dict[str, float] = field(default_factory=dict)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    tails: list[tuple[str, str, int]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def uid(self) -> str:
        return f"{self.name}-uid"

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Json:
        self._note("get", kind, namespace, name)
        for item in self.objects:
            if (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]) == (kind, namespace, name):
                return item
        raise NotFound(f"{kind} {namespace}/{name} not found")

    def list(self, api_version: str, kind: str, namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = 500) -> Sequence[Json]:
        self._note("list", kind, namespace)
        wanted = dict(part.split("=", 1) for part in field_selector.split(",") if part)
        labels = dict(part.split("=", 1) for part in label_selector.split(",") if part)
        return [
            item
            for item in self.objects
            if item["kind"] == kind and (not namespace or item["metadata"].get("namespace") == namespace) and self._fits(item, wanted, labels)
        ][:limit]

    def names(self, api_version: str, kind: str, namespace: str = "", *, limit: int = 20_000) -> Sequence[Json]:
        return [{"metadata": item["metadata"]} for item in self.list(api_version, kind, namespace, limit=limit)]

    def _fits(self, item: Json, wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        about = item.get("involvedObject", {})
        values = {"metadata.name": item["metadata"]["name"], "involvedObject.kind": about.get("kind"), "involvedObject.name": about.get("name")}
        return all(values[key] == value for key, value in wanted.items()) and all(
            (item["metadata"].get("labels") or {}).get(key) == value for key, value in labels.items()
        )

    def log(self, namespace: str, pod: str, container: str, *, previous: bool = False, tail_lines: int | None = None, limit_bytes: int = 4 << 20) -> LogPiece:
        self._note("log", pod, container, str(previous))
        if tail_lines is not None:
            self.tails.append((pod, container, tail_lines))
        if (pod, container, previous) not in self.logs:
            raise NotFound("no such log")
        lines = self.logs[(pod, container, previous)].splitlines(keepends=True)
        return LogPiece(b"".join(lines if tail_lines is None else lines[-tail_lines:]))

    def run(self, namespace: str, pod: str, container: str, argv: Sequence[str], *, timeout_s: float = 10, limit_bytes: int = 1 << 20) -> CommandOutput:
        self._note("exec", *argv)
        if not commands.in_pod(argv):
            raise Forbidden("not an allowed command")
        return _answer(self.outputs, argv)

    def _note(self, *what: str) -> None:
        with self._lock:
            self.asked.append(what)
        key = what[0] if what[0] in ("log", "exec") else what[1]
        time.sleep(self.slow.get(key, 0))
        if key in self.refuses:
            raise self.refuses[key]


@dataclass
class FakeNodes:
    """SSH nodes: each prints what `outputs` says, and knows no other program."""

    outputs: dict[tuple[str, ...], bytes] = field(default_factory=dict)
    refuses: WorldError | None = None
    opened: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    shells: "list[FakeShell]" = field(default_factory=list)
    slow_s: float = 0

    def open(self, node: str, addresses: Sequence[str]) -> "FakeShell":
        self.opened.append((node, tuple(addresses)))
        if self.refuses:
            raise self.refuses
        time.sleep(self.slow_s)
        self.shells.append(FakeShell(node, self.outputs))
        return self.shells[-1]


@dataclass
class FakeShell:
    host: str
    outputs: dict[tuple[str, ...], bytes]
    closed: bool = False

    def run(self, argv: Sequence[str], *, timeout_s: float = 10, limit_bytes: int = 1 << 20) -> CommandOutput:
        if not commands.on_node(argv):
            raise Forbidden("not an allowed command")
        return _answer(self.outputs, argv)

    def close(self) -> None:
        self.closed = True


def _answer(outputs: Mapping[tuple[str, ...], bytes], argv: Sequence[str]) -> CommandOutput:
    if tuple(argv) not in outputs:
        raise NotFound(f"no {argv[0]} here")
    return CommandOutput(tuple(argv), outputs[tuple(argv)], b"", 0)


@dataclass
class Lines:
    """Keeps the progress lines that were shown."""

    shown: list[ProgressLine] = field(default_factory=list)

    def report(self, line: ProgressLine) -> None:
        self.shown.append(line)

    def last(self) -> dict[str, ProgressLine]:
        return {line.name: line for line in self.shown}


class Noon:
    """A clock that stands."""

    def now(self) -> datetime:
        return datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
