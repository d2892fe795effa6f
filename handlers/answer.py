"""What the rim answers to an HTTP request: no framework's word for it, so that a test can look at it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


def said(status: int, /, **words: str) -> Answer:
    """One JSON line: `said(401, error="...")`."""
    return Answer(status, json.dumps(words).encode())
