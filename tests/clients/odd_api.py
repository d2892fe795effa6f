"""An API server that does what a test tells it to, also what no good one does. Plain HTTP on loopback; for the reading client only."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

from kubernetes.client import ApiClient

from bot.clients.kubernetes_config import api_client

Answer = Callable[["Handler", str, dict[str, str]], None]


class Handler(BaseHTTPRequestHandler):
    """Hands each GET to the test's `answer(handler, path, query)`."""

    protocol_version = "HTTP/1.1"
    server: "OddServer"

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        self.server.asked.append(self.path)
        with contextlib.suppress(OSError):
            self.server.answer(self, split.path, {key: values[0] for key, values in parse_qs(split.query).items()})

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def give(self, body: bytes | dict[str, object], status: int = 200) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def pour(self, pieces: Iterator[bytes]) -> None:
        """A body without a length that ends with the connection."""
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece)
        self.close_connection = True


class OddServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.asked: list[str] = []


@contextlib.contextmanager
def odd_api(answer: Answer) -> Iterator[OddServer]:
    server = OddServer(answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def client_for(url: str, folder: object) -> ApiClient:
    """A client by a kubeconfig that is written into `folder`."""
    from pathlib import Path

    path = Path(str(folder)) / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "odd",
                "clusters": [{"name": "odd", "cluster": {"server": url}}],
                "users": [{"name": "bot", "user": {"token": "t0ken"}}],
                "contexts": [{"name": "odd", "context": {"cluster": "odd", "user": "bot"}}],
            }
        )
    )
    return api_client(SimpleNamespace(in_cluster=False, token_file=None, kubeconfig=path, context=None))
