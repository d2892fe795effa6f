"""Reads one cluster with the official client: objects of any kind as plain JSON, logs, and allow-listed commands in a container.

It never writes (exec is a POST that belongs to reading, and only commands that `allowed` lets through are sent), keeps no object,
and turns every exception of the client into one of `bot.errors`. What an object means is nobody's business here.
"""

import builtins
import contextlib
import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import websocket
from kubernetes.client import ApiClient, CoreV1Api
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import stream as websocket_stream

from bot.clients.kubernetes_rest import Rest, error_of, translate
from bot.errors import Forbidden, NotFound, Rejected, TimedOut, Unreachable, WorldError
from bot.ports import CommandOutput, Json, LogPiece

LOG_S = 8.0  # to read one log
LOG_READ_CAP = 96 << 20  # bytes that are streamed for one log at most, to keep its start and its end
LAST_LINES = 4000  # asked for when the log is so long that its end was not reached
PAGE = 500
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
LEFT_OUT = b"[oombot left out %d bytes of this log here]\n"
LEFT_OUT_UNKNOWN = b"[oombot left out a part of this log here]\n"

_STDOUT, _STDERR, _STATUS = 1, 2, 3


class KubernetesReader:
    """Implements `ports.ClusterReader`. Safe to use from several threads."""

    def __init__(self, name: str, api_client: ApiClient, allowed: Callable[[Sequence[str]], bool], *, log_s: float = LOG_S) -> None:
        self.name = name
        self._rest = Rest(name, api_client)
        self._allowed = allowed
        self._log_s = log_s

    def uid(self) -> str:
        return str(self.get("v1", "Namespace", "", "kube-system")["metadata"]["uid"])

    def now(self) -> datetime:
        return self._rest.now()

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Json:
        return self._rest.json("GET", self._rest.path(api_version, kind, namespace, name))

    def list(
        self, api_version: str, kind: str, namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = PAGE
    ) -> Sequence[Json]:
        selectors = [(key, value) for key, value in (("labelSelector", label_selector), ("fieldSelector", field_selector)) if value]
        # A list leaves out of its items what it says itself; give them back, so that an item reads like a single object.
        return [{**item, "apiVersion": api_version, "kind": kind} for item in self._pages(api_version, kind, namespace, selectors, limit, "application/json")]

    def names(self, api_version: str, kind: str, namespace: str = "", *, limit: int = 20_000) -> Sequence[Json]:
        """See `ports`. Asks for metadata alone: of a large cluster's pods that is a tenth."""
        return self._pages(api_version, kind, namespace, [], limit, METADATA_ONLY)

    def _pages(self, api_version: str, kind: str, namespace: str, selectors: Sequence[tuple[str, str]], limit: int, accept: str) -> Sequence[Json]:
        path = self._rest.path(api_version, kind, namespace)
        found: builtins.list[Json] = []
        token = ""
        while True:
            query = [("limit", str(min(PAGE, limit - len(found)))), *selectors, *([("continue", token)] if token else [])]
            page = self._rest.json("GET", path, query, accept=accept)
            found += page.get("items") or ()
            token = str((page.get("metadata") or {}).get("continue") or "")
            if not token or len(found) >= limit:
                return found[:limit]

    def log(self, namespace: str, pod: str, container: str, *, previous: bool = False, tail_lines: int | None = None, limit_bytes: int = 4 << 20) -> LogPiece:
        """The log, streamed. Longer than `limit_bytes`: its first quarter and its last three quarters of that, on whole lines, with one line
        between them that says how much was left out. `cut_end` when time ended it before the log did."""
        query = [("container", container)]
        query += [("previous", "true")] if previous else []
        query += [("tailLines", str(tail_lines))] if tail_lines is not None else []
        path = self._rest.path("v1", "Pod", namespace, pod, "log")
        try:
            piece = _head_and_tail(self._rest.stream("GET", path, query, deadline_s=self._log_s), limit_bytes, tail_lines)
            if piece.cut_end and tail_lines is None:
                end = self._rest.stream("GET", path, [*query, ("tailLines", str(LAST_LINES))], deadline_s=self._log_s)
                piece = _with_end(piece, _head_and_tail(end, limit_bytes // 2, LAST_LINES))
        except Rejected as wrong:
            # The server answers 400 both for "no previous container" and for "not started yet".
            raise NotFound(str(wrong)) from wrong
        return piece

    def run(self, namespace: str, pod: str, container: str, argv: Sequence[str], *, timeout_s: float = 10, limit_bytes: int = 1 << 20) -> CommandOutput:
        """Sends an allow-listed argv list (no shell). A command that does not end in time raises TimedOut; it may go on in the container."""
        if not self._allowed(argv):
            raise Forbidden(f"not an allowed command: {' '.join(argv)[:200]}")
        # An exec swaps a method of the client that it uses, so each has a client of its own.
        client = ApiClient(configuration=self._rest.api_client.configuration)
        try:
            return self._exec(client, namespace, pod, container, tuple(argv), timeout_s, limit_bytes)
        except (OSError, websocket.WebSocketException, ApiException) as wrong:
            raise _exec_error(self.name, f"exec in {namespace}/{pod}", wrong) from wrong
        finally:
            client.close()

    def _exec(self, client: ApiClient, namespace: str, pod: str, container: str, argv: tuple[str, ...], timeout_s: float, limit_bytes: int) -> CommandOutput:
        websocket.setdefaulttimeout(10)  # the library gives its own connections none
        end = time.monotonic() + timeout_s
        session = websocket_stream(
            CoreV1Api(client).connect_get_namespaced_pod_exec,
            pod,
            namespace,
            container=container,
            command=list(argv),
            stdout=True,
            stderr=True,
            stdin=False,
            tty=False,
            binary=True,
            _preload_content=False,
        )
        try:
            return _read_exec(session.sock, argv, end, limit_bytes)
        finally:
            with contextlib.suppress(OSError, websocket.WebSocketException):
                session.sock.shutdown()  # not close(): after the far side's close frame that leaves the connection open


def _head_and_tail(pieces: Iterator[bytes], limit: int, tail_lines: int | None) -> LogPiece:
    """Keeps the start and the end of a stream in `limit` bytes of memory."""
    head_cap = 0 if tail_lines is not None else limit // 4
    head, tail, tail_size, seen, cut_end = bytearray(), deque[bytes](), 0, 0, False
    try:
        for piece in pieces:
            seen += len(piece)
            if seen > LOG_READ_CAP:
                cut_end = True
                break
            room = head_cap - len(head)
            if room > 0:
                head += piece[:room]
                piece = piece[room:]
            if piece:
                tail.append(piece)
                tail_size += len(piece)
            while tail_size - len(tail[0] if tail else b"") > limit - head_cap:
                tail_size -= len(tail.popleft())
    except (TimedOut, Unreachable):
        if not seen:
            raise
        cut_end = True
    dropped = seen - len(head) - tail_size
    if dropped <= 0 and seen <= limit:
        return LogPiece(bytes(head) + b"".join(tail), cut_start=False, cut_end=cut_end)
    return _join(bytes(head), b"".join(tail)[-(limit - head_cap) :], seen, cut_end)


def _with_end(start: LogPiece, end: LogPiece) -> LogPiece:
    """The log was too long to be streamed to its end; its last lines were asked for on their own."""
    head = start.data[: len(start.data) // 2]
    head = head[: head.rfind(b"\n") + 1]
    return LogPiece(head + LEFT_OUT_UNKNOWN + end.data, cut_start=True, cut_end=end.cut_end)


def _join(head: bytes, tail: bytes, seen: int, cut_end: bool) -> LogPiece:
    """Whole lines only: the half line at the end of the head and at the start of the tail go."""
    head = head[: head.rfind(b"\n") + 1]
    tail = tail[tail.find(b"\n") + 1 :] if b"\n" in tail else tail
    return LogPiece(head + LEFT_OUT % (seen - len(head) - len(tail)) + tail, cut_start=True, cut_end=cut_end)


def _read_exec(sock: Any, argv: tuple[str, ...], end: float, limit: int) -> CommandOutput:
    """Reads frames (first byte: channel) until the status comes, the deadline passes, or more than `limit` bytes came."""
    streams = {_STDOUT: bytearray(), _STDERR: bytearray(), _STATUS: bytearray()}
    cut = False
    while True:
        remaining = end - time.monotonic()
        if remaining <= 0:
            raise TimedOut(f"{argv[0]} did not end in time")
        sock.settimeout(remaining)
        opcode, frame = sock.recv_data_frame(True)
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            break
        if opcode not in (websocket.ABNF.OPCODE_BINARY, websocket.ABNF.OPCODE_TEXT) or not frame.data or frame.data[0] not in streams:
            continue
        channel, data = frame.data[0], frame.data[1:]
        room = limit - len(streams[channel])
        streams[channel] += data[:room]
        if len(data) > room:
            cut = True
            break
    return CommandOutput(argv, bytes(streams[_STDOUT]), bytes(streams[_STDERR]), -1 if cut else _exit_status(bytes(streams[_STATUS])), cut)


def _exit_status(status: bytes) -> int:
    """The exit status from the last frame: a Status object as JSON. -1 when there is none."""
    try:
        answer = json.loads(status or b"{}")
        if answer.get("status") == "Success":
            return 0
        causes = answer.get("details", {}).get("causes", ())
        codes = [int(cause["message"]) for cause in causes if cause.get("reason") == "ExitCode"]
    except (ValueError, TypeError, KeyError, AttributeError):
        return -1
    if codes:
        return codes[0]
    if answer.get("message"):
        raise NotFound(f"the command could not be started: {' '.join(str(answer['message']).split())[:300]}")
    return -1


def _exec_error(cluster: str, what: str, wrong: Exception) -> WorldError:
    if isinstance(wrong, websocket.WebSocketTimeoutException | TimeoutError):
        return TimedOut(f"{cluster}: {what}: no answer in time")
    if isinstance(wrong, ApiException):
        reason = str(wrong.reason)
        if handshake := re.search(r"Handshake status (\d{3})", reason):
            body = re.search(r"\{.*\}", reason, re.DOTALL)
            return error_of(cluster, what, int(handshake[1]), (body[0] if body else reason).encode())
        return translate(cluster, what, wrong)
    return Unreachable(f"{cluster}: {what}: {' '.join(str(wrong).split())[:300]}")
