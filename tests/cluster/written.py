"""What the bot wrote, counted by the API server itself: its audit log holds each request of the remediator with what was sent and how it was answered."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Write:
    """One write that the API server carried out. `mark`: what a patch puts into the operation's annotation; `uid`: which pod a deletion was of."""

    verb: str
    kind: str
    namespace: str
    name: str
    mark: str
    uid: str


def writes(log: Path, since: int = 0) -> list[Write]:
    """Those behind byte `since` of the audit log, dry runs and refusals left out, in their order."""
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(since)
        events = [json.loads(line) for line in file if line.endswith(b"\n")]
    return [_write(event) for event in events if _is_done(event)]


def _is_done(event: dict[str, Any]) -> bool:
    body = event.get("requestObject")
    dry = "dryRun=" in event["requestURI"] or (isinstance(body, dict) and bool(body.get("dryRun")))
    return event["stage"] == "ResponseComplete" and not dry and event["responseStatus"]["code"] < 300


def _write(event: dict[str, Any]) -> Write:
    ref, body = event["objectRef"], event.get("requestObject")
    uid = str((body.get("preconditions") or {}).get("uid", "")) if isinstance(body, dict) else ""
    mark = next(iter(_marks(body)), "")
    return Write(event["verb"], ref["resource"], ref.get("namespace", ""), ref.get("name", ""), mark, uid)


def _marks(body: Any) -> Iterator[str]:
    """The operation's id (and the step's number) in a JSON patch."""
    for one in body if isinstance(body, list) else []:
        value = one.get("value")
        if one["path"] == "/metadata/annotations/oombot.io~1operation":
            yield str(value)
        elif one["path"] == "/metadata/annotations" and isinstance(value, dict) and "oombot.io/operation" in value:
            yield str(value["oombot.io/operation"])
