"""PagerDuty's REST API: the alerts of an incident, which its webhook does not carry. A thin httpx client that turns failures into our errors.

It reads only. Source of the shapes: PagerDuty's REST v2, Events v2 (`custom_details`) and Alertmanager's PagerDuty notifier (`details.firing`).
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import httpx

from bot.errors import Forbidden, NotFound, Permanent, Temporary, TimedOut, Unreachable
from bot.model import Alert

TIMEOUT_S = 10.0
MOST_BYTES = 4 << 20
PAUSES_S = (2.0, 4.0)  # alerts may show up a little after the webhook
_ID = re.compile(r"[A-Za-z0-9]{1,40}")
_LABEL = re.compile(r"^\s*-\s*([A-Za-z_][A-Za-z0-9_.]{0,100})\s*=\s*(.{0,500}?)\s*$")


class PagerDuty:
    """`AlertDetails` over the REST API. `token`: a (read-only) API key."""

    def __init__(self, token: str, api_url: str = "https://api.pagerduty.com", *, sleep: Callable[[float], None] = time.sleep) -> None:
        headers = {"Authorization": f"Token token={token}", "Accept": "application/vnd.pagerduty+json;version=2"}
        self._client = httpx.Client(base_url=api_url.rstrip("/"), headers=headers, timeout=TIMEOUT_S, follow_redirects=False, trust_env=False)
        self._sleep = sleep

    def fetch(self, alert: Alert) -> Alert:
        """The alert with the labels of the incident's alerts; what it had itself wins. Without labels when PagerDuty has none, also after a few seconds."""
        labels: dict[str, str] = {}
        for pause in (0.0, *PAUSES_S):
            if pause:
                self._sleep(pause)
            alerts = self._alerts(alert.incident)
            for each in alerts:
                labels = {**labels_of(_details(each)), **labels}
            if alerts:
                break
        return replace(alert, labels={**labels, **alert.labels})

    def close(self) -> None:
        self._client.close()

    def _alerts(self, incident: str) -> list[Mapping[str, Any]]:
        if not _ID.fullmatch(incident):
            raise Permanent(f"{incident[:40]!r} is no id of a PagerDuty incident")
        found = self._get(f"/incidents/{incident}/alerts").get("alerts")
        return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []

    def _get(self, path: str) -> Mapping[str, Any]:
        try:
            with self._client.stream("GET", path) as answer:
                _check(path, answer)
                parsed = json.loads(_body(path, answer))
        except httpx.TimeoutException:
            raise TimedOut(f"PagerDuty did not answer {path} within {TIMEOUT_S:.0f} s") from None
        except httpx.HTTPError as broken:
            raise Unreachable(f"PagerDuty cannot be reached: {type(broken).__name__}") from None
        except ValueError:
            raise Temporary(f"PagerDuty answered {path} with something that is not JSON") from None
        return parsed if isinstance(parsed, Mapping) else {}


def _check(path: str, answer: httpx.Response) -> None:
    status = answer.status_code
    if status in (401, 403):
        raise Forbidden(f"PagerDuty refuses the API token at {path} (HTTP {status})")
    if status == 404:
        raise NotFound(f"PagerDuty has no {path}")
    if status == 429 or status >= 500:
        raise Temporary(f"PagerDuty failed at {path} (HTTP {status})")
    if status != 200:
        raise Permanent(f"PagerDuty refused {path} (HTTP {status})")


def _body(path: str, answer: httpx.Response) -> bytes:
    """The body, no more than MOST_BYTES of it."""
    whole = b""
    for piece in answer.iter_bytes():
        whole += piece
        if len(whole) > MOST_BYTES:
            raise Permanent(f"PagerDuty's answer to {path} is larger than {MOST_BYTES >> 20} MiB")
    return whole


def _details(alert: Mapping[str, Any]) -> Any:
    body = alert.get("body")
    if not isinstance(body, Mapping):
        return {}
    cef = body.get("cef_details")
    return body.get("details") or (cef.get("details") if isinstance(cef, Mapping) else None) or {}


# ---------------------------------------------------------------- labels from details (pure)


def labels_of(details: Any) -> dict[str, str]:
    """Labels in the details that a monitoring system sent. Plain keys of the details win over those of the first firing alert.

    Alertmanager writes `firing` in three shapes: a list of alerts with labels, the same as a JSON string, and (older) a text block
    "Labels:\\n - namespace = llm\\n".
    """
    details = _parsed(details)
    if isinstance(details, str):
        return _from_text(details)
    if not isinstance(details, Mapping):
        return {}
    own = {str(name): str(value) for name, value in details.items() if isinstance(value, (str, int)) and name not in ("firing", "resolved") and len(str(value)) <= 500}
    return {**_firing(_parsed(details.get("firing"))), **own}


def _firing(firing: Any) -> dict[str, str]:
    if isinstance(firing, str):
        return _from_text(firing)
    alerts = firing if isinstance(firing, list) else [firing]
    for alert in alerts:
        if isinstance(alert, Mapping) and isinstance(alert.get("labels"), Mapping):
            return {str(name): str(value)[:500] for name, value in alert["labels"].items()}
    return {}


def _from_text(text: str) -> dict[str, str]:
    """The labels of the first alert in Alertmanager's text block; annotations follow after them."""
    labels: dict[str, str] = {}
    for line in text[:100_000].splitlines():
        if line.strip().startswith("Annotations:") or (line.strip() == "Labels:" and labels):
            break
        found = _LABEL.match(line)
        if found:
            labels.setdefault(found[1], found[2])
    return labels


def _parsed(value: Any) -> Any:
    """A JSON-looking string as what it stands for."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value
