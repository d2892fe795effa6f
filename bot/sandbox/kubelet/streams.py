"""Logs and exec as a kubelet serves them over HTTP and WebSocket. What a container says is somebody else's business."""

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from starlette.responses import JSONResponse, Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from bot.ports import Json
from bot.sandbox.answers import ApiError

Lines = list[tuple[float, str]]

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDOUT, STDERR, ERROR = b"\x01", b"\x02", b"\x03"


def log_response(query: Mapping[str, str], read: Callable[[], Lines]) -> Response:
    """The answer to a request for a log; `read` gives (time, line) pairs or raises an ApiError."""
    try:
        return Response(select(read(), query), media_type="text/plain")
    except ApiError as no:
        return JSONResponse(no.status(), status_code=no.code)


def select(lines: Lines, query: Mapping[str, str]) -> bytes:
    """The bytes that tailLines, sinceSeconds, timestamps and limitBytes ask for; limitBytes counts from the start of the selection."""
    if query.get("sinceSeconds"):
        since = datetime.now(UTC).timestamp() - float(query["sinceSeconds"])
        lines = [row for row in lines if row[0] >= since]
    if query.get("tailLines"):
        tail = int(query["tailLines"])
        lines = lines[-tail:] if tail else []
    stamped = query.get("timestamps") in ("true", "1")
    data = "".join(f"{_precise(at)} {text}\n" if stamped else f"{text}\n" for at, text in lines).encode()
    return data[: int(query["limitBytes"])] if query.get("limitBytes") else data


def _precise(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


async def exec_over(socket: WebSocket, execute: Callable[[list[str]], tuple[bytes, bytes, int]]) -> None:
    """Runs one command over an exec WebSocket: output on channels 1 and 2, the final Status on channel 3."""
    offered = socket.scope.get("subprotocols") or []
    await socket.accept(subprotocol=next((name for name in PROTOCOLS if name in offered), None))
    argv = socket.query_params.getlist("command")
    try:
        stdout, stderr, code = await asyncio.to_thread(execute, argv)
        verdict = finished(code)
    except ApiError as no:
        stdout, stderr, verdict = b"", b"", no.status()
    try:
        for channel, data in ((STDOUT, stdout), (STDERR, stderr)):
            for start in range(0, len(data), 32_768):
                await socket.send_bytes(channel + data[start : start + 32_768])
        await socket.send_bytes(ERROR + json.dumps(verdict).encode())
        await socket.close()
    except (WebSocketDisconnect, RuntimeError):
        return  # the other side went away first


def finished(code: int) -> Json:
    """The Status that ends an exec."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    why = f"command terminated with exit code {code}"
    cause = {"reason": "ExitCode", "message": str(code)}
    return {"metadata": {}, "status": "Failure", "message": why, "reason": "NonZeroExitCode", "details": {"causes": [cause]}}
