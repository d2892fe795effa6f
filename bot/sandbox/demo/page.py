"""The demo's page and what it asks for besides the fake Slack's own interface: the files, the incidents, the pager."""

from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

if TYPE_CHECKING:
    from bot.sandbox.demo.world import World

FILES = Path(__file__).parent.parent / "page"
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def routes(world: "World") -> list[BaseRoute]:
    """What FakeSlack serves besides its own."""

    async def listed(request: Request) -> Response:
        return JSONResponse(
            {"incidents": [{"name": each.name, "says": each.says, "command": f"/oom {each.command}", "alert": each.alert} for each in world.incidents]}
        )

    async def alert(request: Request) -> Response:
        # JSON only: a page of another origin cannot send it without asking first.
        if not request.headers.get("content-type", "").startswith("application/json"):
            return JSONResponse({"error": "send JSON"}, 415)
        try:
            incident = world.incident(str((await request.json()).get("incident")))
        except (LookupError, ValueError) as wrong:
            return JSONResponse({"error": str(wrong)}, 400)
        paged, status = await run_in_threadpool(world.ring, incident)
        return JSONResponse({"incident": paged, "status": status})

    files = [_file("/", "index.html"), _file("/page.js", "page.js"), _file("/page.css", "page.css")]
    return [*files, Route("/_demo/incidents", listed), Route("/_demo/alert", alert, methods=["POST"])]


def _file(path: str, name: str) -> Route:
    async def send(request: Request) -> Response:
        return FileResponse(FILES / name, headers=HEADERS)

    return Route(path, send)
