"""Nouns: who asks, where, and what about. A part of `bot/model.py`, which gives them on; import them from there.

Frozen, no I/O, no vendor.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Actor:
    """A person or a machine that asks. `id` is the platform's own id (Slack user id), never a display name."""

    id: str
    origin: str  # slack | terminal | pagerduty | alertmanager
    name: str = ""  # for showing only; anybody can choose it
    team: str = ""  # Slack team (or enterprise) id


@dataclass(frozen=True, slots=True)
class Person:
    """What the chat platform says of a person, fetched fresh (at most 60 s old) when it matters."""

    id: str
    team: str = ""
    email: str = ""
    language: str = "en"
    is_bot: bool = False
    is_guest: bool = False
    is_stranger: bool = False  # of another organisation, in a shared channel
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Conversation:
    """Where to answer: a channel, and the thread in it when the request came from one."""

    channel: str
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class TargetQuery:
    """What somebody typed or an alert named, before it is found. `kind`: pod | workload | node | unknown (a serving endpoint is a workload)."""

    text: str
    kind: str = "pod"
    name: str = ""
    namespace: str | None = None
    cluster: str | None = None
    container: str | None = None
    workload_kind: str | None = None  # Deployment, StatefulSet, ... when `kind` is workload


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert of a paging or monitoring system. `key` is unique for one firing: what arrives twice has the same."""

    key: str
    source: str  # pagerduty | alertmanager
    title: str
    labels: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    incident: str = ""
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """Somebody wants a diagnosis. `key` makes it idempotent (Slack trigger id, PagerDuty webhook id)."""

    key: str
    actor: Actor
    query: TargetQuery
    received_at: datetime
    conversation: Conversation | None = None
    alert: Alert | None = None


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """One Kubernetes object. `uid` tells it from a later one of the same name."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Target:
    """What was found. Names of a node target: `pod` is empty. `workload` is the object that a person edits. Of a serving endpoint there is nothing
    but that object; `container` is the served entity."""

    cluster: str
    namespace: str
    pod: str
    pod_uid: str = ""
    container: str = ""
    node: str = ""
    workload: ObjectRef | None = None
    gpus: int = 0

    def __str__(self) -> str:
        if self.pod:
            return f"{self.namespace}/{self.pod}"
        return f"endpoint/{self.workload.name}" if self.workload is not None and not self.node else f"node/{self.node}"
