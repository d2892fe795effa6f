"""PagerDuty's V3 webhooks. The signature is checked before anything is parsed; only `incident.triggered` opens a Case.

PagerDuty turns a subscription off for a day after three answers 4xx, so a payload that we merely do not care for gets 202. The incident's alerts are
fetched in the job, not here (the webhook does not carry them, and a webhook has five seconds).
"""

import hashlib
import hmac
import json
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bot.errors import Refused, StoreError, WorldError
from bot.model import Actor, Alert, Conversation, Request, TargetQuery
from bot.ports import Clock
from handlers.answer import Answer, said
from handlers.desk import Desk

log = logging.getLogger(__name__)
_TITLE = 300


def signed(body: bytes, header: str, secrets: Sequence[str]) -> bool:
    """Whether one of the signatures (several while a secret is rotated: `v1=<hex>,v1=<hex>`) fits one of our secrets."""
    given = [part.strip().removeprefix("v1=") for part in header.split(",")[:20] if part.strip().startswith("v1=")]
    wanted = [hmac.new(secret.encode(), body, hashlib.sha256).hexdigest() for secret in secrets if secret]
    matches = [hmac.compare_digest(one.encode(), other.encode()) for one in given for other in wanted]
    return any(matches)


class PagerDutyWebhook:
    """`channels` maps a service's id or name to the channel for its threads, `*` for all others."""

    def __init__(self, desk: Desk, secrets: Sequence[str], channels: Mapping[str, str], clock: Clock) -> None:
        self._desk, self._secrets, self._channels, self._clock = desk, tuple(secrets), channels, clock

    def answer(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Header names in lower case."""
        if not signed(body, headers.get("x-pagerduty-signature", ""), self._secrets):
            return said(401, error="invalid signature: no v1= of X-PagerDuty-Signature fits the body and a configured secret")
        event = _event(body)
        if event is None:
            return said(202, status="ignored: not a V3 event")
        if event.get("event_type") != "incident.triggered":
            return said(202, status="ignored: only incident.triggered opens a case")
        return self._triggered(event, headers.get("x-webhook-id", ""))

    def _triggered(self, event: Mapping[str, Any], webhook_id: str) -> Answer:
        alert, service = alert_of(event)
        if alert is None:
            return said(202, status="ignored: the event names no incident")
        channel = self._channel(service)
        if not channel:
            log.warning("PagerDuty service %s has no channel (pagerduty.channels); incident %s is not looked at", service.get("id"), alert.incident)
            return said(202, status="ignored: no channel is set for this service")
        query = TargetQuery(alert.title, "unknown")  # the labels that name it are fetched in the job
        request = Request(f"pagerduty:{alert.incident}", Actor("pagerduty", "pagerduty", "PagerDuty"), query, self._clock.now(), Conversation(channel), alert)
        try:
            case = self._desk.receive(request)
        except Refused as refused:
            log.warning("PagerDuty incident %s refused: %s", alert.incident, refused.key)
            return said(202, status=f"refused: {refused.key}")
        except (StoreError, WorldError) as failure:
            log.warning("PagerDuty delivery %s not kept, it will be sent again: %s", webhook_id[:60], failure)
            return said(503, error="not kept; send it again")
        return said(202, status="accepted", case=case.id)

    def _channel(self, service: Mapping[str, Any]) -> str:
        for name in (str(service.get("id", "")), str(service.get("summary", "")), "*"):
            if name and name in self._channels:
                return self._channels[name]
        return ""


def _event(body: bytes) -> Mapping[str, Any] | None:
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        return None
    event = payload.get("event") if isinstance(payload, dict) else None
    return event if isinstance(event, dict) else None


def alert_of(event: Mapping[str, Any]) -> tuple[Alert | None, Mapping[str, Any]]:
    """The incident as an Alert, and its service. An incident is triggered once: its id is the alert's key."""
    data = event.get("data")
    if not isinstance(data, dict) or not isinstance(data.get("id"), str) or not data["id"]:
        return None, {}
    service = data["service"] if isinstance(data.get("service"), dict) else {}
    title = str(data.get("title") or data["id"])[:_TITLE]
    url = str(data.get("html_url") or "")
    alert = Alert(f"pagerduty:{data['id']}", "pagerduty", title, {}, url if url.startswith(("https://", "http://")) else "", data["id"], _time(data.get("created_at")))
    return alert, service


def _time(text: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return at if at.tzinfo else None
