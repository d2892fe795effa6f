"""Rounds of check, apply, watch, verify and undo of several Databricks endpoints side by side, through one bot that is killed with -9 all the while.

The workspace is the sandbox's HTTP server, which outlives the bot and counts the updates that it accepted. Each request takes a moment before and after it
is handled, so that a kill falls before it arrives, while it is handled, and before its answer comes back. For a test (a few kills) and for the bench.
"""

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from bot.clients.databricks import MARK, as_object
from bot.model import Operation, TargetQuery
from bot.sandbox.databricks import Endpoint, FakeDatabricks, Json, entity, serving
from tests.walk.crowd import Crowd, Key
from tests.walk.endpoint_bot import EndpointBot, live
from tests.walk.killing import Tally

SLOW_S = 0.04
SETTLES = 2  # looks that an update takes
NO_MACHINE = "served entity creation aborted because the resource did not become available in time"
IN_PIECES = """INFO 11-30 10:00:02 [model_runner.py:100] Starting to load model main/chat...
ERROR 11-30 10:00:20 torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. GPU 0 has a total capacity of 21.99 GiB of which 412.00 MiB is free. Including non-PyTorch memory, this process has 21.57 GiB memory in use. Of the allocated memory 14.20 GiB is allocated by PyTorch, and 6.90 GiB is reserved by PyTorch but unallocated.
"""


class SlowWorkspace(FakeDatabricks):
    """Whoever looks or asks for an update waits a moment, and waits again for the answer."""

    def __init__(self, *endpoints: Endpoint, seed: int) -> None:
        super().__init__(*endpoints)
        self._random = random.Random(seed)

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.uniform(0, SLOW_S))

    async def _get(self, request: Request) -> Response:
        await self._pause()
        return await super()._get(request)

    async def _put(self, request: Request) -> Response:
        await self._pause()
        answer = await super()._put(request)
        await self._pause()
        return answer


class Asleep(Endpoint):
    """It was scaled to zero and finds no machine any more; it has one for as long as it may not sleep. `beside`: other entities that it serves."""

    def __init__(self, name: str, *beside: Json) -> None:
        super().__init__(name, serving(entity(), *beside), fits=lambda config: NO_MACHINE if config["served_entities"][0]["scale_to_zero_enabled"] else "", settles=SETTLES)
        assert self.config is not None
        self.config["served_entities"][0]["state"] = {"deployment": "DEPLOYMENT_RECOVERING", "deployment_state_message": NO_MACHINE}


class InPieces(Endpoint):
    """An update of it failed: its memory broke into pieces, until the allocator was told otherwise."""

    def __init__(self, name: str) -> None:
        super().__init__(name, serving(entity()), fits=lambda config: "" if _told(config) else "The served entity failed to start.", settles=SETTLES)
        self.begin({"served_entities": [entity(entity_version="2")]})
        for _ in range(SETTLES + 1):
            self.look()

    def shown(self, permission: str) -> Json:
        self.logs = {"chat-1": "" if _told(self.pending or self.config or {}) else IN_PIECES}
        return super().shown(permission)


def _told(config: Mapping[str, Any]) -> bool:
    return "PYTORCH_CUDA_ALLOC_CONF" in (config["served_entities"][0].get("environment_vars") or {})


class EndpointRound(Crowd):
    """One case for each endpoint of a workspace of its own."""

    def __init__(self, folder: Path, seed: int, kills: int, *, replicas: int = 1) -> None:
        self.workspace = SlowWorkspace(Asleep("asleep-1"), InPieces("pieces-2"), Asleep("asleep-3", entity("chat-2")), InPieces("pieces-4"), seed=seed)
        (folder / "host").write_text(self.workspace.start())
        (folder / "view").write_text(self.workspace.view_token)
        (folder / "manage").write_text(self.workspace.manage_token)
        super().__init__(EndpointBot(folder), folder, seed, kills, live, replicas=replicas)

    def go(self) -> Tally:
        try:
            return super().go()
        finally:
            self.workspace.stop()

    def failing(self) -> bool:
        return True

    def queries(self) -> list[TargetQuery]:
        return [TargetQuery(f"endpoint/{name}", "workload", name, workload_kind="ServingEndpoint") for name in self.workspace.endpoints]

    def standing(self) -> list[Any]:
        return [as_object(each.shown("CAN_VIEW"))["spec"] for each in self.workspace.endpoints.values()]

    def counted(self) -> list[int]:
        """Each update makes a version."""
        return [as_object(each.shown("CAN_VIEW"))["metadata"]["generation"] for each in self.workspace.endpoints.values()]

    def planned(self, operation: Operation) -> list[Key]:
        return [(operation.remediation.object.name, operation.id)]

    def arrived(self) -> list[Key]:
        return [(name, _mark(body)) for name, each in self.workspace.endpoints.items() for body in each.puts]


def _mark(body: Json) -> str:
    """The newest mark in an update: one of a served entity that does not change stays as it was."""
    marks = [str(one.get("environment_vars", {}).get(MARK, "0:")).partition(":") for one in body["served_entities"]]
    return max((int(version), mark) for version, _, mark in marks)[1]
