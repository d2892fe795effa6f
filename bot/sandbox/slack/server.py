"""The fake's HTTP side: Web API, response URLs, Socket Mode, and the sandbox's own interface for a page. Loopback only.

Anybody here may act as anybody, so a request whose Host is not loopback is refused (a web page elsewhere could otherwise reach it by DNS rebinding),
and acting needs a JSON content type (which a page of another origin cannot send without asking first).
"""

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from bot.sandbox.slack import limits, web_api
from bot.sandbox.slack.outgoing import Postman, Socket
from bot.sandbox.slack.workspace import BOT_ID, BOT_USER, RESPONSE_USES, Message, Workspace

Json = dict[str, Any]
Act = Callable[[Json], Json]


class Faults:
    """What the next calls of a method meet: `ratelimited`, `invalid_blocks`, or a connection that breaks before or after the work was done."""

    def __init__(self) -> None:
        self.planned: dict[str, list[tuple[str, int]]] = {}

    def plan(self, method: str, what: str, times: int, retry_after: int) -> None:
        self.planned.setdefault(method, []).extend([(what, retry_after)] * times)

    def take(self, method: str) -> tuple[str, int]:
        waiting = self.planned.get(method)
        return waiting.pop(0) if waiting else ("", 0)


class WebApi:
    """`/api/<method>`: token, faults, then the method."""

    def __init__(self, workspace: Workspace, postman: Postman, faults: Faults, bot_token: str, app_token: str) -> None:
        self.workspace, self.postman, self.faults = workspace, postman, faults
        self.bot_token, self.app_token = bot_token, app_token
        self.tickets: set[str] = set()
        self.calls: list[tuple[str, Json]] = []

    async def method(self, request: Request) -> Response:
        method = request.path_params["method"]
        arguments = await _arguments(request)
        token = request.headers.get("authorization", "").removeprefix("Bearer ") or str(arguments.pop("token", ""))
        self.calls.append((method, arguments))
        fault, retry_after = self.faults.take(method)
        if fault == "ratelimited":
            return JSONResponse({"ok": False, "error": "ratelimited"}, 429, {"Retry-After": str(retry_after)})
        if fault == "invalid_blocks":
            return JSONResponse(web_api.refuse("invalid_blocks", "unsupported type"))
        if fault.startswith("refused:"):
            return JSONResponse(web_api.refuse(fault.removeprefix("refused:")))
        if fault == "broken_before":
            return Response(status_code=500)
        answer = await run_in_threadpool(self._answer, request, method, token, arguments)
        if fault == "broken_after":
            return Response(status_code=500)
        return JSONResponse(answer)

    def _answer(self, request: Request, method: str, token: str, arguments: Json) -> Json:
        if not token:
            return web_api.refuse("not_authed")
        if method == "apps.connections.open":
            if token != self.app_token:
                return web_api.refuse("invalid_auth" if token != self.bot_token else "not_allowed_token_type")
            ticket = secrets.token_urlsafe(12)
            self.tickets.add(ticket)
            return {"ok": True, "url": f"ws://{request.url.netloc}/socket?ticket={ticket}"}
        if token != self.bot_token:  # issued by nobody here: it may be a real one, and has no business in a sandbox
            self.workspace.record("refused_token", method=method)
            return web_api.refuse("invalid_auth" if token != self.app_token else "not_allowed_token_type")
        return web_api.call(self.workspace, method, arguments)

    async def socket(self, websocket: WebSocket) -> None:
        """Socket Mode: one connection a ticket."""
        ticket = websocket.query_params.get("ticket", "")
        if ticket not in self.tickets:
            await websocket.close(1008)
            return
        self.tickets.discard(ticket)
        await websocket.accept()
        loop = asyncio.get_running_loop()
        outbox: asyncio.Queue[Json] = asyncio.Queue()

        def send(message: Json) -> None:
            loop.call_soon_threadsafe(outbox.put_nowait, message)

        connection = Socket(send)
        await websocket.send_json({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A0SANDBOX"}})
        with self.postman.lock:
            self.postman.sockets.append(connection)
        writer = asyncio.create_task(_write(websocket, outbox))
        try:
            while True:
                connection.received(json.loads(await websocket.receive_text()))
        except (WebSocketDisconnect, ValueError):
            return
        finally:
            writer.cancel()
            with self.postman.lock:
                self.postman.sockets.remove(connection)

    async def response(self, request: Request) -> Response:
        """A response URL: five uses within thirty minutes."""
        body = await _arguments(request)
        return await run_in_threadpool(_respond, self.workspace, request.path_params["id"], body)


async def _write(websocket: WebSocket, outbox: "asyncio.Queue[Json]") -> None:
    while True:
        await websocket.send_json(await outbox.get())


async def _arguments(request: Request) -> Json:
    body = await request.body()
    kind = request.headers.get("content-type", "")
    if kind.startswith("application/json"):
        try:
            parsed = json.loads(body or b"{}")
        except ValueError:
            return {}
        return parsed if isinstance(parsed, dict) else {}
    return {**request.query_params, **{name: value for name, value in (await request.form()).items() if isinstance(value, str)}}


def _respond(workspace: Workspace, name: str, body: Mapping[str, Any]) -> Response:
    with workspace.lock:
        known = workspace.response_urls.get(name)
        if known is None:
            return PlainTextResponse("no_service", 404)
        if known.uses >= RESPONSE_USES:
            return PlainTextResponse("used_url", 404)
        if workspace.now() > known.until:
            return PlainTextResponse("expired_url", 404)
        text, blocks = str(body.get("text") or ""), body.get("blocks")
        if not text and not blocks and not body.get("delete_original"):
            return PlainTextResponse("no_text", 400)
        if limits.message_mistakes(text, blocks):
            return PlainTextResponse("invalid_blocks", 400)
        known.uses += 1
        only_for = "" if body.get("response_type") == "in_channel" else known.user
        workspace.add(Message(workspace.ts(), known.channel, BOT_USER, text, list(blocks or []), body.get("thread_ts"), None, BOT_ID, only_for=only_for))
        return PlainTextResponse("ok")


# ---------------------------------------------------------------- the sandbox's own interface


class Interface:
    """`/_sandbox/...`: what a page needs to show the workspace and to act in it as anybody."""

    def __init__(self, workspace: Workspace, act: Act) -> None:
        self.workspace, self._act = workspace, act

    async def state(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(snapshot, self.workspace))

    async def feed(self, request: Request) -> Response:
        """Events after a number; waits up to `wait` seconds (at most 20) for one."""
        try:
            after, wait = int(request.query_params.get("after", "0")), min(20.0, float(request.query_params.get("wait", "0")))
        except ValueError:
            return JSONResponse({"error": "after and wait are numbers"}, 400)
        return JSONResponse(await run_in_threadpool(self._feed, after, wait))

    def _feed(self, after: int, wait: float) -> Json:
        with self.workspace.changed:
            self.workspace.changed.wait_for(lambda: len(self.workspace.feed) > after, timeout=wait)
            return {"events": self.workspace.feed[max(0, after) :], "last": len(self.workspace.feed)}

    async def act(self, request: Request) -> Response:
        if not request.headers.get("content-type", "").startswith("application/json"):
            return JSONResponse({"error": "send JSON"}, 415)
        body = await _arguments(request)
        try:
            return JSONResponse(await run_in_threadpool(self._act, body))
        except (LookupError, TypeError, ValueError) as wrong:
            return JSONResponse({"error": str(wrong)}, 400)


def snapshot(workspace: Workspace) -> Json:
    """The whole workspace for a page. Messages as on the wire, with what a reader sees added."""
    with workspace.lock:
        return {
            "people": [{"id": each.id, "name": each.name, "locale": each.locale, "bot": each.bot, "guest": each.guest} for each in workspace.people.values()],
            "channels": [{"id": each.id, "name": each.name, "private": each.private, "members": list(each.members)} for each in workspace.channels.values()],
            "groups": [{"id": each.id, "handle": each.handle, "members": list(each.members)} for each in workspace.groups.values()],
            "messages": [
                {**each.wire(with_metadata=True), "channel": each.channel, "only_for": each.only_for, "shown": each.shown, "pings": list(each.pings)}
                for each in workspace.all_messages
            ],
            "views": [{**view.wire(), "user": view.user, "errors": view.errors} for view in workspace.views.values()],
            "last": len(workspace.feed),
        }


class LoopbackOnly:
    """Refuses a request whose Host header names anything but this machine."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host = dict(scope["headers"]).get(b"host", b"").decode("latin-1").rsplit(":", 1)[0]
            if host not in ("127.0.0.1", "localhost", "[::1]"):
                await PlainTextResponse("the sandbox answers on loopback only", 403)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def application(api: WebApi, interface: Interface, more: Sequence[BaseRoute]) -> ASGIApp:
    return LoopbackOnly(
        Starlette(
            routes=[
                Route("/api/{method}", api.method, methods=["GET", "POST"]),
                Route("/response/{id}", api.response, methods=["POST"]),
                WebSocketRoute("/socket", api.socket),
                Route("/_sandbox/state", interface.state),
                Route("/_sandbox/feed", interface.feed),
                Route("/_sandbox/act", interface.act, methods=["POST"]),
                *more,
            ]
        )
    )
