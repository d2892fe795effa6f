"""What the bot wrote, counted by the API server itself: its audit log holds each request of the remediator with what was sent and how it was answered."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CUT_OFF = 504


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
    return [_write(event) for event in _events(log, since) if event["responseStatus"]["code"] < 300]


def cut_off(log: Path, since: int = 0) -> list[Write]:
    """Those whose client went away (a killed bot): the API server answers them with 504 at once, whether or not the write goes on; of 53 that were cut off, 22 did."""
    return [_write(event) for event in _events(log, since) if event["responseStatus"]["code"] == CUT_OFF]


def _events(log: Path, since: int) -> list[dict[str, Any]]:
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(since)
        events = [json.loads(line) for line in file if line.endswith(b"\n")]
    return [event for event in events if event["stage"] == "ResponseComplete" and not _is_dry(event)]


def _is_dry(event: dict[str, Any]) -> bool:
    body = event.get("requestObject")
    return "dryRun=" in event["requestURI"] or (isinstance(body, dict) and bool(body.get("dryRun")))


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
