"""The API server's audit log is read as it is written: what was carried out counts, dry runs and refusals do not."""

import json
from pathlib import Path
from typing import Any

from tests.cluster.written import Write, cut_off, writes


def event(verb: str, code: int = 200, query: str = "", body: Any = None, **more: Any) -> str:
    ref = {"resource": "deployments", "namespace": "llm", "name": "chat"}
    found = {"stage": "ResponseComplete", "verb": verb, "requestURI": f"/apis/x{query}", "objectRef": ref, "responseStatus": {"code": code}, "requestObject": body}
    return json.dumps({**found, **more}) + "\n"


MARK = [{"op": "add", "path": "/metadata/annotations/oombot.io~1operation", "value": "o-1/2"}]
BARE = [{"op": "add", "path": "/metadata/annotations", "value": {"oombot.io/operation": "o-1"}}]


def test_only_what_was_carried_out_counts(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(
        event("patch", body=MARK)
        + event("patch", body=MARK, query="?dryRun=All")
        + event("patch", code=422, body=MARK)
        + event("delete", body={"preconditions": {"uid": "u-1"}, "dryRun": ["All"]})
        + event("delete", body={"preconditions": {"uid": "u-1"}})
        + event("patch", body=BARE)
        + '{"cut'
    )
    assert writes(log) == [
        Write("patch", "deployments", "llm", "chat", "o-1/2", ""),
        Write("delete", "deployments", "llm", "chat", "", "u-1"),
        Write("patch", "deployments", "llm", "chat", "o-1", ""),
    ]
    assert writes(log, log.stat().st_size) == []
    assert writes(tmp_path / "none") == []


def test_what_was_cut_off_with_its_client_is_told_apart(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(event("patch", code=504, body=MARK) + event("patch", code=504, body=MARK, query="?dryRun=All") + event("patch", code=500, body=MARK))
    assert (writes(log), cut_off(log)) == ([], [Write("patch", "deployments", "llm", "chat", "o-1/2", "")])
