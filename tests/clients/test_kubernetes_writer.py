"""The writing client against an API server that misbehaves: one request for each write, and the server's words in our errors."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from bot.clients.kubernetes_rest import error_of
from bot.clients.kubernetes_writer import KubernetesWriter
from bot.errors import Conflict, Forbidden, NotFound, Rejected, Temporary, Unreachable
from bot.model import ObjectRef
from tests.clients.odd_api import client_for

CHAT = ObjectRef("apps/v1", "Deployment", "llm", "chat", "uid-1")
POD = ObjectRef("v1", "Pod", "llm", "chat-0", "pod-uid")
PATCH = [{"op": "test", "path": "/metadata/uid", "value": "uid-1"}]


class Recorder(BaseHTTPRequestHandler):
    """Keeps each request and gives the answer that the test set; status 0 closes the connection without one."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str, dict[str, list[str]], str, Any]]
    answer: tuple[int, dict[str, Any]]

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        split = urlsplit(self.path)
        self.seen.append((self.command, split.path, parse_qs(split.query), self.headers.get("Content-Type", ""), json.loads(body) if body else None))
        status, document = self.answer
        if not status:
            self.close_connection = True
            return
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PATCH = do_DELETE = _serve  # noqa: N815 - names of the standard library

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    handler = type("Recording", (Recorder,), {"seen": [], "answer": (200, {"kind": "Deployment"})})
    found = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield found
    found.shutdown()
    found.server_close()


@pytest.fixture
def writer(server: ThreadingHTTPServer, tmp_path: Path) -> KubernetesWriter:
    return KubernetesWriter("odd", client_for(f"http://127.0.0.1:{server.server_address[1]}", tmp_path))


def seen(server: ThreadingHTTPServer) -> list[tuple[str, str, dict[str, list[str]], str, Any]]:
    return server.RequestHandlerClass.seen  # type: ignore[attr-defined,no-any-return]


def answers(server: ThreadingHTTPServer, status: int, message: str = "") -> None:
    server.RequestHandlerClass.answer = (status, {"kind": "Status", "message": message, "code": status})  # type: ignore[attr-defined]


def test_a_patch_is_a_json_patch_with_our_name_and_strict_fields(server: ThreadingHTTPServer, writer: KubernetesWriter) -> None:
    writer.patch(CHAT, PATCH, dry_run=False)
    query = {"fieldManager": ["oombot"], "fieldValidation": ["Strict"]}
    assert seen(server) == [("PATCH", "/apis/apps/v1/namespaces/llm/deployments/chat", query, "application/json-patch+json", PATCH)]


def test_a_dry_run_says_so_where_the_server_looks(server: ThreadingHTTPServer, writer: KubernetesWriter) -> None:
    writer.patch(CHAT, PATCH, dry_run=True)
    writer.delete_pod(POD, dry_run=True)
    patch, delete = seen(server)
    assert patch[2]["dryRun"] == ["All"]
    assert delete[4]["dryRun"] == ["All"]


def test_a_pod_is_deleted_by_its_uid_only(server: ThreadingHTTPServer, writer: KubernetesWriter) -> None:
    writer.delete_pod(POD, dry_run=False)
    ((method, path, _, _, body),) = seen(server)
    assert (method, path) == ("DELETE", "/api/v1/namespaces/llm/pods/chat-0")
    assert body == {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "pod-uid"}}


@pytest.mark.parametrize("ref", [ObjectRef("v1", "Pod", "llm", "chat-0"), CHAT])
def test_nothing_is_deleted_without_a_uid_or_that_is_no_pod(server: ThreadingHTTPServer, writer: KubernetesWriter, ref: ObjectRef) -> None:
    with pytest.raises(Rejected, match="only a pod is deleted, and only by its UID"):
        writer.delete_pod(ref, dry_run=False)
    assert seen(server) == []


def test_a_patch_whose_connection_breaks_is_sent_once(server: ThreadingHTTPServer, writer: KubernetesWriter) -> None:
    answers(server, 0)
    with pytest.raises(Unreachable):
        writer.patch(CHAT, PATCH, dry_run=False)
    with pytest.raises(Unreachable):
        writer.delete_pod(POD, dry_run=False)
    assert [one[0] for one in seen(server)] == ["PATCH", "DELETE"]


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (422, "the server rejected our request due to an error in our request", Conflict),
        (422, 'Deployment.apps "chat" is invalid: spec.template.spec.containers[0].resources: Invalid value', Rejected),
        (400, 'strict decoding error: unknown field "spec.x"', Rejected),
        (409, "the object has been modified", Conflict),
        (403, 'deployments.apps "chat" is forbidden: exceeded quota: gpus', Rejected),
        (403, 'admission webhook "policy.example" denied the request: no', Rejected),
        (403, 'deployments.apps "chat" is forbidden: User "x" cannot patch resource "deployments" in API group "apps"', Forbidden),
        (401, "does not accept the credentials (401)", Forbidden),
        (404, 'deployments.apps "chat" not found', NotFound),
        (429, "too many requests", Temporary),
        (500, "etcdserver: leader changed", Temporary),
    ],
)
def test_what_the_server_says_becomes_one_of_our_errors(server: ThreadingHTTPServer, writer: KubernetesWriter, status: int, message: str, error: type) -> None:
    answers(server, status, message)
    with pytest.raises(error) as raised:
        writer.patch(CHAT, PATCH, dry_run=False)
    if error is not Conflict or status == 409:
        assert message in str(raised.value)
    assert len(seen(server)) == 1


def test_a_refusal_carries_the_servers_answer_whatever_it_means_to_us(server: ThreadingHTTPServer, writer: KubernetesWriter) -> None:
    for message, error in (("the server rejected our request due to an error in our request", Conflict), ("exceeded quota: gpus", Rejected)):
        answers(server, 422 if error is Conflict else 403, message)
        with pytest.raises(error) as raised:
            writer.patch(CHAT, PATCH, dry_run=False)
        assert (raised.value.status, raised.value.words) == (422 if error is Conflict else 403, message)
    status = {"kind": "Status", "reason": "Invalid", "message": "x" * 9000, "details": {"causes": ["not kept"]}}
    kept = error_of("prod", "PATCH chat", 422, json.dumps(status).encode())
    assert (kept.reason, len(kept.words)) == ("Invalid", 400)


def test_a_refusal_that_quotes_the_whole_object_does_not_carry_its_environment_on() -> None:
    quoted = json.dumps({"apiVersion": "apps/v1", "spec": {"env": [{"name": "HF_TOKEN", "value": "not-for-a-channel"}]}}).replace('"', '\\"')
    for end in ('": strict decoding error: unknown field "spec.template.spec.foo"', ""):
        message = f'"" is invalid: patch: Invalid value: "{quoted}{end}'
        said = str(error_of("prod", "PATCH chat", 422, json.dumps({"message": message}).encode()))
        assert "not-for-a-channel" not in said
        assert "(the whole object)" in said
        assert ("strict decoding error" in said) == bool(end)
