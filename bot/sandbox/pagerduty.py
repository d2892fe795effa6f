"""PagerDuty as the bot sees it: the REST API's incidents, alerts and notes, and signed V3 webhooks sent to the bot. On loopback only.

The webhook carries no details of alerts, as the real one; they are at `GET /incidents/{id}/alerts`. Source of the shapes: PagerDuty's developer
documentation of webhooks V3 and REST v2. It does not page anybody.
"""

import hashlib
import hmac
import itertools
import json
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bot.sandbox.loopback import Served


@dataclass
class Incident:
    """One incident with its alerts. `details` is what the monitoring system sent as custom details."""

    id: str
    number: int
    title: str
    service: str
    details: Mapping[str, Any]
    created_at: str
    notes: list[str] = field(default_factory=list)
    status: str = "triggered"


class FakePagerDuty:
    """An account with one API token and one webhook subscription. `webhook_url` is where deliveries go."""

    def __init__(self, webhook_url: str = "", services: Mapping[str, str] | None = None) -> None:
        self.token = "sandbox-" + secrets.token_hex(8)
        self.secret = secrets.token_hex(16)
        self.webhook_url = webhook_url
        self.services = dict(services or {"PSANDBOX": "LLM inference"})
        self.incidents: dict[str, Incident] = {}
        self._numbers = itertools.count(101)
        routes = [
            Route("/incidents/{id}", self._incident),
            Route("/incidents/{id}/alerts", self._alerts),
            Route("/incidents/{id}/notes", self._note, methods=["POST"]),
        ]
        self._server = Served(Starlette(routes=routes))

    @property
    def url(self) -> str:
        return self._server.url

    def start(self) -> str:
        """Starts the API and gives its address."""
        return self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def open_incident(self, title: str, details: Mapping[str, Any], service: str = "PSANDBOX") -> Incident:
        number = next(self._numbers)
        incident = Incident(f"Q{number:05d}SANDBOX", number, title, service, details, datetime.now(UTC).isoformat())
        self.incidents[incident.id] = incident
        return incident

    def deliver(self, incident: Incident, *, webhook_id: str | None = None, secret: str | None = None) -> httpx.Response:
        """Sends `incident.triggered`, signed; the same `webhook_id` again is a redelivery."""
        body = json.dumps({"event": self._event(incident)}).encode()
        signature = hmac.new((secret or self.secret).encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "X-PagerDuty-Signature": f"v1={signature}",
            "X-Webhook-Id": webhook_id or str(uuid.uuid4()),
            "Content-Type": "application/json",
            "User-Agent": "PagerDuty-Webhook/V3.0",
        }
        return httpx.post(self.webhook_url, content=body, headers=headers, timeout=5, trust_env=False)

    def _event(self, incident: Incident) -> dict[str, Any]:
        service = {"id": incident.service, "type": "service_reference", "summary": self.services.get(incident.service, incident.service), "html_url": ""}
        data = {
            "id": incident.id,
            "type": "incident",
            "number": incident.number,
            "title": incident.title,
            "status": incident.status,
            "urgency": "high",
            "incident_key": incident.id.lower(),
            "created_at": incident.created_at,
            "service": service,
            "html_url": f"{self._server.url}/incidents/{incident.id}",
            "assignees": [],
            "teams": [],
            "priority": None,
        }
        return {
            "id": secrets.token_hex(10),
            "event_type": "incident.triggered",
            "resource_type": "incident",
            "occurred_at": incident.created_at,
            "agent": None,
            "client": None,
            "data": data,
        }

    def _known(self, request: Request) -> Incident | Response:
        if request.headers.get("authorization") != f"Token token={self.token}":
            return JSONResponse({"error": {"message": "Unauthorized", "code": 2006}}, 401)
        incident = self.incidents.get(request.path_params["id"])
        return incident or JSONResponse({"error": {"message": "Not Found", "code": 2100}}, 404)

    async def _incident(self, request: Request) -> Response:
        incident = self._known(request)
        return incident if isinstance(incident, Response) else JSONResponse({"incident": self._event(incident)["data"]})

    async def _alerts(self, request: Request) -> Response:
        incident = self._known(request)
        if isinstance(incident, Response):
            return incident
        alert = {
            "id": f"A{incident.id}",
            "type": "alert",
            "alert_key": incident.id.lower(),
            "status": incident.status,
            "severity": "critical",
            "summary": incident.title,
            "created_at": incident.created_at,
            "service": {"id": incident.service, "type": "service_reference"},
            "body": {"type": "alert_body", "contexts": [], "details": incident.details},
        }
        return JSONResponse({"alerts": [alert], "limit": 100, "offset": 0, "more": False, "total": None})

    async def _note(self, request: Request) -> Response:
        incident = self._known(request)
        if isinstance(incident, Response):
            return incident
        note = str((await request.json()).get("note", {}).get("content", ""))
        incident.notes.append(note)
        return JSONResponse({"note": {"id": secrets.token_hex(6), "content": note}}, 201)
