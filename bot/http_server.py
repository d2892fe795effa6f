"""Serves an ASGI application with uvicorn in a thread of its own, on an address that is bound before anything else starts."""

import contextlib
import socket
import threading
import time
from typing import Any

import uvicorn

from bot.errors import BadInput

START_S = 10.0
STOP_S = 5


class HttpServer:
    """`bind` takes the port (0: any free one) and gives the address; `start` answers from then on; `stop` finishes what it has begun."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def bind(self) -> str:
        """Raises BadInput when the address is taken or not ours."""
        try:
            family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
            self._socket = socket.create_server((self._host, self._port), family=family, backlog=256)
        except (OSError, OverflowError) as wrong:
            raise BadInput(f"http.host {self._host}, http.port {self._port}: {getattr(wrong, 'strerror', None) or wrong}") from wrong
        port = self._socket.getsockname()[1]
        return f"http://[{self._host}]:{port}" if ":" in self._host else f"http://{self._host}:{port}"

    def start(self, app: Any) -> None:
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=STOP_S, server_header=False, ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="http", daemon=True)
        self._thread.start()
        end = time.monotonic() + START_S
        while not self._server.started and self._thread.is_alive() and time.monotonic() < end:
            time.sleep(0.01)
        if not self._server.started:
            raise BadInput(f"http.host {self._host}: the web server did not start")

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(STOP_S + 2)
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
