"""The HTTPS side of a kubelet, which the API server proxies logs and exec to."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from bot.sandbox.answers import ApiError
from bot.sandbox.kubelet.kubelet import Kubelet
from bot.sandbox.kubelet.streams import exec_over, select


def application(kubelet: Kubelet) -> Starlette:
    async def log(request: Request) -> Response:
        names = request.path_params
        previous = request.query_params.get("previous") in ("true", "1")
        try:
            lines = kubelet.log(names["namespace"], names["pod"], names["container"], previous=previous)
        except ApiError as no:
            # A kubelet answers in plain text; the API server makes a Status of it.
            return PlainTextResponse(no.message, status_code=no.code)
        return Response(select(lines, dict(request.query_params)), media_type="text/plain")

    async def execute(socket: WebSocket) -> None:
        names = socket.path_params
        await exec_over(socket, lambda argv: kubelet.execute(names["namespace"], names["pod"], names["container"], argv))

    where = "{namespace}/{pod}/{container}"
    return Starlette(routes=[Route(f"/containerLogs/{where}", log), WebSocketRoute(f"/exec/{where}", execute)])
