"""A Prometheus that plays its HTTP API v1: the exact JSON of a vector, of errors and warnings. It understands no PromQL; a test says what is answered."""

from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bot.sandbox.loopback import Served

Answer = Callable[[str], Response]


def vector(*rows: tuple[dict[str, str], str], **more: Any) -> JSONResponse:
    """`rows`: labels and the value as Prometheus writes it, a text."""
    result = [{"metric": labels, "value": [1780000000.123, value]} for labels, value in rows]
    return JSONResponse({"status": "success", "data": {"resultType": "vector", "result": result}, **more})


def failure(status: int, kind: str, words: str) -> JSONResponse:
    return JSONResponse({"status": "error", "errorType": kind, "error": words}, status_code=status)


class FakePrometheus:
    """`answer` gets the query. `queries` are those that came, `tokens` what they were sent with."""

    def __init__(self, answer: Answer = lambda _query: vector()) -> None:
        self.answer, self.queries, self.tokens = answer, list[str](), list[str]()
        self.times: list[str] = []
        self.application = Starlette(routes=[Route("/{prefix:path}api/v1/query", self._query)])
        self._served = Served(self.application)

    @property
    def url(self) -> str:
        return self._served.url

    def start(self) -> str:
        return self._served.start()

    def stop(self) -> None:
        self._served.stop()

    async def _query(self, request: Request) -> Response:
        self.queries.append(request.query_params["query"])
        self.times.append(request.query_params["time"])
        self.tokens.append(request.headers.get("authorization", ""))
        return self.answer(self.queries[-1])
