"""What Slack sends to an app, and how: payloads of commands, events, clicks and submissions, signed over HTTP or in an envelope over Socket Mode."""

import hashlib
import hmac
import json
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx

from bot.sandbox.slack.workspace import APP, TEAM, Member, Message, Workspace

Json = dict[str, Any]
ACK_SECONDS = 3.0


@dataclass(slots=True)
class Ack:
    """How the app answered. `error` is what Slack would show the person: "" or operation_timeout, dispatch_failed."""

    status: int
    seconds: float
    body: Json = field(default_factory=dict)
    error: str = ""
    content: bytes = b""  # what was sent, so that it can be delivered again
    content_type: str = ""
    ephemeral: Message | None = None  # what the person saw at once

    @property
    def text(self) -> str:
        return str(self.body.get("text", ""))


class Socket:
    """One open Socket Mode connection: envelopes go out, acknowledgements come back by envelope id."""

    def __init__(self, send: Callable[[Json], None]) -> None:
        self.send = send
        self.waiting: dict[str, queue.Queue[Json]] = {}

    def received(self, message: Json) -> None:
        waiting = self.waiting.get(str(message.get("envelope_id", "")))
        if waiting is not None:
            waiting.put(message)

    def deliver(self, envelope_id: str, kind: str, payload: Json, attempt: int) -> tuple[bool, Json]:
        """Whether it was acknowledged in time, and the payload of the acknowledgement."""
        waiting = self.waiting[envelope_id] = queue.Queue()
        envelope: Json = {"envelope_id": envelope_id, "type": kind, "payload": payload, "accepts_response_payload": kind != "events_api"}
        if attempt:
            envelope |= {"retry_attempt": attempt, "retry_reason": "timeout"}
        self.send(envelope)
        try:
            answer = waiting.get(timeout=ACK_SECONDS)
        except queue.Empty:
            return False, {}
        finally:
            del self.waiting[envelope_id]
        payload = answer.get("payload") or {}
        return True, payload if isinstance(payload, dict) else {"text": str(payload)}


class Postman:
    """Brings payloads to the app and measures how long it takes to acknowledge."""

    def __init__(self, workspace: Workspace, signing_secret: str) -> None:
        self.workspace, self.signing_secret = workspace, signing_secret
        self.request_url = ""
        self.sockets: list[Socket] = []
        self.lock = threading.Lock()

    def headers(self, body: bytes, *, at: float | None = None, secret: str | None = None) -> dict[str, str]:
        """Slack's signature over a body: v0=HMAC-SHA256 of "v0:<timestamp>:<body>"."""
        stamp = str(int(self.workspace.now() if at is None else at))
        mac = hmac.new((secret or self.signing_secret).encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256)
        return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={mac.hexdigest()}"}

    def form(self, fields: Mapping[str, str]) -> Ack:
        """A slash command."""
        return self._deliver("slash_commands", dict(fields), urlencode(fields).encode(), "application/x-www-form-urlencoded", 0)

    def interaction(self, payload: Json) -> Ack:
        """A click, a shortcut, a submission."""
        body = urlencode({"payload": json.dumps(payload)}).encode()
        return self._deliver("interactive", payload, body, "application/x-www-form-urlencoded", 0)

    def event(self, payload: Json, attempt: int = 0) -> Ack:
        return self._deliver("events_api", payload, json.dumps(payload).encode(), "application/json", attempt)

    def _deliver(self, kind: str, payload: Json, body: bytes, content_type: str, attempt: int) -> Ack:
        with self.lock:
            socket = self.sockets[-1] if self.sockets else None
        if socket is not None:
            started = time.monotonic()
            done, answer = socket.deliver(self.workspace.id("E"), kind, payload, attempt)
            ack = Ack(200 if done else 0, time.monotonic() - started, answer, "" if done else "operation_timeout", body, content_type)
        elif self.request_url:
            ack = self._over_http(body, content_type, attempt)
        else:
            ack = Ack(0, 0.0, error="dispatch_failed", content=body, content_type=content_type)
        self.workspace.record("delivered", kind=kind, status=ack.status, seconds=round(ack.seconds, 3), error=ack.error)
        return ack

    def _over_http(self, body: bytes, content_type: str, attempt: int) -> Ack:
        headers = self.headers(body) | {"Content-Type": content_type}
        if attempt:
            headers |= {"X-Slack-Retry-Num": str(attempt), "X-Slack-Retry-Reason": "http_timeout"}
        started = time.monotonic()
        try:
            answer = httpx.post(self.request_url, content=body, headers=headers, timeout=ACK_SECONDS)
        except httpx.TimeoutException:
            return Ack(0, time.monotonic() - started, error="operation_timeout", content=body, content_type=content_type)
        except httpx.HTTPError:
            return Ack(0, time.monotonic() - started, error="dispatch_failed", content=body, content_type=content_type)
        seconds = time.monotonic() - started
        error = "" if answer.status_code == 200 else "dispatch_failed"
        return Ack(answer.status_code, seconds, _body(answer), error, body, content_type)


def _body(answer: httpx.Response) -> Json:
    if not answer.content:
        return {}
    if answer.headers.get("content-type", "").startswith("application/json"):
        parsed = answer.json()
        return parsed if isinstance(parsed, dict) else {}
    return {"text": answer.text}


# ---------------------------------------------------------------- payloads


def _who(member: Member) -> Json:
    return {"id": member.id, "username": member.name.lower(), "name": member.name.lower(), "team_id": member.team}


def command_fields(member: Member, channel: str, channel_name: str, command: str, text: str, trigger: str, response_url: str) -> dict[str, str]:
    return {
        "token": "deprecated", "team_id": TEAM, "team_domain": "sandbox", "channel_id": channel, "channel_name": channel_name, "user_id": member.id,
        "user_name": member.name.lower(), "command": command, "text": text, "api_app_id": APP, "is_enterprise_install": "false",
        "response_url": response_url, "trigger_id": trigger,
    }  # fmt: skip


def event_payload(event: Json, event_id: str, at: float, *, shared: bool) -> Json:
    return {
        "token": "deprecated", "team_id": TEAM, "api_app_id": APP, "event": event, "type": "event_callback", "event_id": event_id,
        "event_time": int(at), "is_ext_shared_channel": shared, "authorizations": [{"team_id": TEAM, "user_id": "U0OOMBOT", "is_bot": True}],
    }  # fmt: skip


def interaction_payload(kind: str, member: Member, trigger: str, more: Json) -> Json:
    return {
        "type": kind, "team": {"id": TEAM, "domain": "sandbox"}, "user": _who(member), "api_app_id": APP, "token": "deprecated",
        "trigger_id": trigger, "enterprise": None, "is_enterprise_install": False, **more,
    }  # fmt: skip
