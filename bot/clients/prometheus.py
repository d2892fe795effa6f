"""Prometheus' HTTP API (or what speaks it: Thanos, Mimir, VictoriaMetrics): one instant query, bounded in time and size. A thin httpx client that turns failures into our errors.

It only asks, follows no redirect (the token is for this address), and takes nothing from the environment. Source of the shapes: the HTTP API v1.
"""

import json
import math
import ssl
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import httpx

from bot.errors import BadInput, Forbidden, Permanent, Temporary, TimedOut, Unreachable
from bot.ports import Sample

PATH = "/api/v1/query"
MOST_BYTES = 1 << 20
SAID = 300  # characters of the server's words that are kept


class Access(Protocol):
    """One server, as the settings name it."""

    @property
    def url(self) -> str: ...
    @property
    def token_file(self) -> Path | None: ...
    @property
    def ca(self) -> Path | None: ...
    @property
    def timeout_s(self) -> float: ...


class Prometheus:
    """Implements `ports.Metrics`. Safe to use from several threads. Raises BadInput when the CA cannot be read."""

    def __init__(self, name: str, access: Access) -> None:
        self.name, self._token_file, self._timeout_s = name, access.token_file, access.timeout_s
        self._url = access.url.rstrip("/")
        self._client = httpx.Client(timeout=access.timeout_s, follow_redirects=False, trust_env=False, verify=_trust(access.ca))

    def query(self, promql: str, at: datetime) -> tuple[Sample, ...]:
        """The vector of an instant query. Raises Temporary, Permanent (a partial answer too), Forbidden."""
        parameters = {"query": promql, "time": f"{at.timestamp():.3f}", "timeout": f"{self._timeout_s:.0f}s"}
        try:
            with self._client.stream("GET", self._url + PATH, params=parameters, headers=self._headers()) as answer:
                status, body = answer.status_code, self._body(answer)
        except httpx.TimeoutException:
            raise TimedOut(f"Prometheus of {self.name} did not answer within {self._timeout_s:.0f} s") from None
        except httpx.HTTPError as broken:
            raise Unreachable(f"Prometheus of {self.name} cannot be reached: {type(broken).__name__}") from None
        return self._vector(status, _parsed(body))

    def close(self) -> None:
        self._client.close()

    def _headers(self) -> dict[str, str]:
        """The token is read each time: those of service accounts rotate."""
        if self._token_file is None:
            return {}
        try:
            token = self._token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as wrong:
            raise Permanent(f"the token of Prometheus of {self.name} cannot be read from {self._token_file}") from wrong
        return {"Authorization": f"Bearer {token}"}

    def _body(self, answer: httpx.Response) -> bytes:
        whole, end = b"", time.monotonic() + self._timeout_s
        for piece in answer.iter_bytes():
            whole += piece
            if time.monotonic() > end:  # a server that drips must not hold us
                raise TimedOut(f"the answer of Prometheus of {self.name} did not end within {self._timeout_s:.0f} s")
            if len(whole) > MOST_BYTES:
                raise Permanent(f"the answer of Prometheus of {self.name} is larger than {MOST_BYTES >> 20} MiB")
        return whole

    def _vector(self, status: int, answer: Mapping[str, Any]) -> tuple[Sample, ...]:
        if status in (401, 403):
            raise Forbidden(f"Prometheus of {self.name} refuses the token (HTTP {status})")
        if status != 200 or answer.get("status") != "success":
            words = " ".join(str(answer.get("error", "")).split())[:SAID]
            kind = Temporary if status == 429 or status >= 500 else Permanent
            raise kind(f"Prometheus of {self.name} failed (HTTP {status}){': ' + words if words else ''}")
        if answer.get("warnings"):  # "infos" are remarks on the query; a warning may be a store that did not answer
            raise Permanent(f"Prometheus of {self.name} gave a partial answer: {str(answer['warnings'])[:SAID]}")
        data = answer.get("data")
        rows = data.get("result") if isinstance(data, Mapping) and data.get("resultType") == "vector" else None
        if not isinstance(rows, list):
            raise Permanent(f"the answer of Prometheus of {self.name} is no vector")
        return tuple(_sample(row) for row in rows)


def _trust(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(ca) if ca else None)
    except (OSError, ssl.SSLError) as wrong:
        raise BadInput(f"the CA file {ca} of Prometheus cannot be read") from wrong


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, Mapping) else {}


def _sample(row: Any) -> Sample:
    """`{"metric": {...}, "value": [<unix time>, "<number>"]}`; a histogram has no `value`, and is no number."""
    labels, value = (row.get("metric"), row.get("value")) if isinstance(row, Mapping) else (None, None)
    try:
        number = float(value[1]) if isinstance(value, list) else math.nan
    except (ValueError, TypeError, IndexError):
        number = math.nan
    found = labels if isinstance(labels, Mapping) else {}
    return Sample({str(name): str(text) for name, text in found.items()}, number)
