"""An ASGI application on a loopback port, in a thread. The sandbox listens nowhere else, since anybody can act as anybody there."""

import socket
import threading
import time
from typing import Any

import uvicorn


class LoopbackServer:
    """Starts and stops one application. The port is chosen by the system unless one is given."""

    def __init__(self, app: Any, name: str, port: int = 0, **options: Any) -> None:
        self._app, self._name, self._port, self._options = app, name, port, options
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.url = ""

    def start(self, *, timeout_s: float = 15) -> str:
        """Gives the address when the server answers. Raises OSError when the port is taken, TimeoutError when it does not come up."""
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self._port))
        self._port = listener.getsockname()[1]
        scheme = "https" if "ssl_certfile" in self._options else "http"
        self.url = f"{scheme}://127.0.0.1:{self._port}"
        config = uvicorn.Config(self._app, log_level="warning", access_log=False, lifespan="off", ws="websockets", timeout_graceful_shutdown=2, **self._options)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]}, name=f"sandbox-{self._name}", daemon=True)
        self._thread.start()
        deadline = time.monotonic() + timeout_s
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise TimeoutError(f"the sandbox's {self._name} did not start")
            time.sleep(0.01)
        return self.url

    def stop(self) -> None:
        """Stops and waits; safe to call twice."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(timeout=10)
