"""A Databricks workspace as the bot sees it: serving endpoints, their configuration and logs by the REST API. On loopback only; it serves no model.

An update is asynchronous: it stands in `pending_config` while it is under way, and stays there when it fails, beside the configuration that goes on
serving. A second update meanwhile is refused (409). Source of the shapes: the API's reference (2.0/serving-endpoints).
"""

import copy
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bot.sandbox.loopback import Served

Json = dict[str, Any]
READY, CREATING, FAILED = "DEPLOYMENT_READY", "DEPLOYMENT_CREATING", "DEPLOYMENT_FAILED"
SIZES = ("Small", "Medium", "Large")
WRITABLE = frozenset((
    "name", "entity_name", "entity_version", "workload_size", "workload_type", "scale_to_zero_enabled", "environment_vars", "instance_profile_arn", "min_provisioned_concurrency",
    "max_provisioned_concurrency", "min_provisioned_throughput", "max_provisioned_throughput", "provisioned_model_units", "burst_scaling_enabled", "external_model",
))  # fmt: skip


@dataclass
class Endpoint:
    """One endpoint. `fits` says of a configuration why it cannot be deployed, or "" when it can; `settles` is how many looks an update takes."""

    name: str
    config: Json | None
    pending: Json | None = None
    update: str = "NOT_UPDATING"
    fits: Callable[[Json], str] = lambda config: ""
    settles: int = 1
    logs: dict[str, str] = field(default_factory=dict)
    build_logs: dict[str, str] = field(default_factory=dict)
    puts: list[Json] = field(default_factory=list)
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    _left: int = 0

    def begin(self, body: Mapping[str, Any]) -> None:
        """An update was asked for."""
        version = max((one or {}).get("config_version", 0) for one in (self.config, self.pending)) + 1
        kept = {key: value for key, value in (self.config or {}).items() if key in ("traffic_config", "auto_capture_config")}
        entities = [
            {**one, "creator": "somebody@example.com", "state": {"deployment": CREATING, "deployment_state_message": "Creating"}}
            for one in body["served_entities"]
        ]
        self.pending = {**kept, **copy.deepcopy(dict(body)), "served_entities": entities, "config_version": version}
        self.update, self._left = "IN_PROGRESS", self.settles

    def look(self) -> None:
        """Time passes at each look."""
        if self.update != "IN_PROGRESS" or self.pending is None:
            return
        self._left -= 1
        if self._left >= 0:
            return
        wrong = self.fits(self.pending)
        for one in self.pending["served_entities"]:
            one["state"] = {"deployment": FAILED if wrong else READY, "deployment_state_message": wrong}
        if wrong:
            self.update = "UPDATE_FAILED"
        else:
            self.config, self.pending, self.update = self.pending, None, "NOT_UPDATING"

    def shown(self, permission: str) -> Json:
        found: Json = {"name": self.name, "id": self.id, "creator": "somebody@example.com", "creation_timestamp": 1_767_000_000_000, "last_updated_timestamp": 1_767_000_000_000,
                       "task": "llm/v1/completions", "permission_level": permission, "state": {"ready": "READY" if self.config else "NOT_READY", "config_update": self.update}}  # fmt: skip
        return {**found, **({"config": self.config} if self.config else {}), **({"pending_config": self.pending} if self.pending else {})}


def entity(name: str = "chat-1", **changes: Any) -> Json:
    """A served entity as somebody configured it."""
    plain = {"name": name, "entity_name": "main.models.chat", "entity_version": "1", "workload_type": "GPU_SMALL", "workload_size": "Small", "scale_to_zero_enabled": True,
             "environment_vars": {"HF_HOME": "/tmp/hf", "API_TOKEN": "{{secrets/llm/token}}"}}  # fmt: skip
    return {key: value for key, value in {**plain, **changes}.items() if value is not None}


def serving(*entities: Json, version: int = 3) -> Json:
    """A configuration that serves."""
    ready = [
        {**one, "creator": "somebody@example.com", "creation_timestamp": 1_767_000_000_000, "state": {"deployment": READY, "deployment_state_message": ""}}
        for one in entities
    ]
    routes = [{"served_model_name": one["name"], "traffic_percentage": 100 // len(entities)} for one in entities]
    return {"served_entities": ready, "traffic_config": {"routes": routes}, "config_version": version}


class FakeDatabricks:
    """A workspace with two tokens: one may look, one may manage as well. `trouble` holds answers that the next requests get instead: (status, headers)."""

    def __init__(self, *endpoints: Endpoint) -> None:
        self.endpoints = {one.name: one for one in endpoints}
        self.view_token, self.manage_token = ("dapi" + secrets.token_hex(16) for _ in range(2))
        self.trouble: list[tuple[int, dict[str, str]]] = []
        self.requests: list[tuple[str, str]] = []
        base = "/api/2.0/serving-endpoints"
        self._server = Served(Starlette(routes=[
            Route(base, self._list),
            Route(base + "/{name}", self._get),
            Route(base + "/{name}/config", self._put, methods=["PUT"]),
            Route(base + "/{name}/served-models/{entity}/logs", self._logs),
            Route(base + "/{name}/served-models/{entity}/build-logs", self._build_logs),
        ]))  # fmt: skip

    @property
    def url(self) -> str:
        return self._server.url

    def start(self) -> str:
        """Starts the API and gives its address."""
        return self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def __enter__(self) -> "FakeDatabricks":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _refusal(self, request: Request) -> Response | None:
        self.requests.append((request.method, request.url.path))
        if self.trouble:
            status, headers = self.trouble.pop(0)
            return JSONResponse({"error_code": "SOMETHING", "message": "trouble"}, status, headers)
        if self._permission(request) is None:
            return JSONResponse({"error_code": "UNAUTHENTICATED", "message": "Credential was not sent or was of an unsupported type"}, 401)
        return None

    def _permission(self, request: Request) -> str | None:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        return {self.view_token: "CAN_VIEW", self.manage_token: "CAN_MANAGE"}.get(bearer)

    def _found(self, request: Request) -> Endpoint | Response:
        refusal = self._refusal(request)
        name = request.path_params["name"]
        missing = JSONResponse({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": f"Endpoint with name '{name}' does not exist."}, 404)
        return refusal or self.endpoints.get(name) or missing

    async def _list(self, request: Request) -> Response:
        refusal = self._refusal(request)
        return refusal or JSONResponse({"endpoints": [one.shown(str(self._permission(request))) for one in self.endpoints.values()]})

    async def _get(self, request: Request) -> Response:
        found = self._found(request)
        if isinstance(found, Response):
            return found
        found.look()
        return JSONResponse(found.shown(str(self._permission(request))))

    async def _put(self, request: Request) -> Response:
        found = self._found(request)
        if isinstance(found, Response):
            return found
        if self._permission(request) != "CAN_MANAGE":
            return JSONResponse({"error_code": "PERMISSION_DENIED", "message": f"User does not have permission 'Manage' on endpoint {found.name}."}, 403)
        if found.update == "IN_PROGRESS":
            return JSONResponse({"error_code": "RESOURCE_CONFLICT", "message": f"Endpoint {found.name} has an update in progress."}, 409)
        body = await request.json()
        for one in body.get("served_entities") or [{}]:
            if not set(one) <= WRITABLE or "scale_to_zero_enabled" not in one or (one.get("workload_size") or "Small") not in SIZES:
                return JSONResponse({"error_code": "INVALID_PARAMETER_VALUE", "message": "A served entity of the request is not valid."}, 400)
        found.puts.append(body)
        found.begin(body)
        return JSONResponse(found.shown("CAN_MANAGE"))

    async def _logs(self, request: Request) -> Response:
        found = self._found(request)
        return found if isinstance(found, Response) else JSONResponse({"logs": found.logs.get(request.path_params["entity"], "")})

    async def _build_logs(self, request: Request) -> Response:
        found = self._found(request)
        return found if isinstance(found, Response) else JSONResponse({"logs": found.build_logs.get(request.path_params["entity"], "")})
