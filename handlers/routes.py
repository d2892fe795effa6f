"""The web layer: which path goes where, how much of a body is read, and that no failure inside reaches the outside.

    POST /slack/events        everything from Slack (commands, events, interactions)
    POST /webhooks/pagerduty  V3 webhooks
    GET  /healthz             the process runs
    GET  /readyz              it can work; else 503 with what is missing

Handlers block, so they run in threads. Whatever goes wrong unforeseen ends here: one line in the log, one line in the answer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from handlers.answer import Answer, said

log = logging.getLogger(__name__)
MOST_BYTES = 1 << 20
BODY_SECONDS = 10.0

Answering = Callable[[Mapping[str, str], bytes], Answer]


def asgi(*, slack: Answering | None = None, pagerduty: Answering | None = None, ready: Callable[[], Sequence[str]] = tuple) -> Starlette:
    """`slack` and `pagerduty` take header names in lower case and the whole body; None: that path does not exist. `ready` names what is missing."""
    routes = [Route("/healthz", _guarded(_health)), Route("/readyz", _guarded(_readiness(ready)))]
    for path, answering in (("/slack/events", slack), ("/webhooks/pagerduty", pagerduty)):
        if answering is not None:
            routes.append(Route(path, _guarded(_incoming(answering)), methods=["POST"]))
    return Starlette(routes=routes)


Handler = Callable[[Request], Awaitable[Answer]]


def _guarded(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def guard(request: Request) -> Response:
        try:
            answer = await handler(request)
        except ClientDisconnect:
            answer = said(400, error="the connection broke before the body was complete")
        except Exception:
            log.exception("%s %s failed", request.method, request.url.path)
            answer = said(500, error="internal error; the log has it")
        return Response(answer.body, answer.status, dict(answer.headers), answer.content_type)

    return guard


def _incoming(answering: Answering) -> Handler:
    async def handle(request: Request) -> Answer:
        if _announced(request) > MOST_BYTES:
            return said(413, error=f"the body is larger than {MOST_BYTES} bytes")
        try:
            body = await asyncio.wait_for(_read(request), BODY_SECONDS)
        except TimeoutError:
            return said(408, error=f"the body did not arrive within {BODY_SECONDS:.0f} s")
        if body is None:
            return said(413, error=f"the body is larger than {MOST_BYTES} bytes")
        return await run_in_threadpool(answering, {name.lower(): value for name, value in request.headers.items()}, body)

    return handle


def _announced(request: Request) -> int:
    length = request.headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 16 else MOST_BYTES + 1


async def _read(request: Request) -> bytes | None:
    """The body, or None as soon as it is too large."""
    whole = bytearray()
    async for piece in request.stream():
        whole += piece
        if len(whole) > MOST_BYTES:
            return None
    return bytes(whole)


async def _health(request: Request) -> Answer:
    return said(200, status="ok")


def _readiness(ready: Callable[[], Sequence[str]]) -> Handler:
    async def handle(request: Request) -> Answer:
        missing = await run_in_threadpool(ready)
        return said(503, status="not ready", missing="; ".join(missing)) if missing else said(200, status="ready")

    return handle
