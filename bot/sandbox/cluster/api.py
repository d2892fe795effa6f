"""The HTTP API of the simulated cluster: what the official client (and kubectl) sees. Requests become calls on the store; nothing is decided here."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from bot.ports import Json
from bot.sandbox.answers import ApiError, bad_request, forbidden, no_such_path, success, unauthorized, unsupported_media
from bot.sandbox.cluster import patches, resources, schema, selectors
from bot.sandbox.cluster.resources import PODS, REVIEWS, Resource
from bot.sandbox.cluster.roles import Attempt, Gate, User
from bot.sandbox.cluster.store import Change, Store
from bot.sandbox.kubelet.streams import exec_over, log_response

VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.3-sandbox", "platform": "linux/amd64"}


class Containers(Protocol):
    """The part of the kubelet that answers for containers."""

    def log(self, namespace: str, pod: str, container: str, *, previous: bool) -> list[tuple[float, str]]: ...

    def execute(self, namespace: str, pod: str, container: str, argv: list[str]) -> tuple[bytes, bytes, int]: ...


@dataclass(frozen=True, slots=True)
class Call:
    """A request on objects: which kind, where, which one, and by whom."""

    resource: Resource
    namespace: str
    name: str
    subresource: str
    user: User
    request: Request

    @property
    def query(self) -> dict[str, str]:
        return dict(self.request.query_params)

    @property
    def manager(self) -> str:
        return self.query.get("fieldManager") or self.request.headers.get("user-agent", "unknown").partition("/")[0]

    def dry(self, body: Json | None = None) -> bool:
        # A DELETE with a body is read from the body alone, query or not: the real server does so too.
        asked = ",".join(body.get("dryRun") or []) if body else self.query.get("dryRun", "")
        if asked not in ("", "All"):
            raise bad_request(f"Invalid value: dryRun must be All, not {asked!r}")
        return asked == "All"


def application(store: Store, gate: Gate, containers: Containers) -> Starlette:
    server = _Server(store, gate, containers)
    routes = [
        Route("/{path:path}", server.answer, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        WebSocketRoute("/api/v1/namespaces/{namespace}/pods/{name}/exec", server.execute),
    ]
    return Starlette(routes=routes)


class _Server:
    def __init__(self, store: Store, gate: Gate, containers: Containers) -> None:
        self.store, self.gate, self.containers = store, gate, containers

    async def answer(self, request: Request) -> Response:
        try:
            return await self._route(request, request.path_params["path"].strip("/").split("/"))
        except ApiError as no:
            return JSONResponse(no.status(), status_code=no.code)
        except json.JSONDecodeError as wrong:
            return JSONResponse(bad_request(f"couldn't parse the body: {wrong}").status(), status_code=400)

    async def _route(self, request: Request, steps: list[str]) -> Response:
        if steps[0] in ("healthz", "livez", "readyz"):
            return PlainTextResponse("ok")
        if steps == ["version"]:
            return JSONResponse(VERSION)
        user = self.gate.who(request.headers.get("authorization", ""))
        if user is None:
            raise unauthorized()
        if request.method == "GET" and (found := _discovery(steps)) is not None:
            return JSONResponse(found)
        if steps[:3] == ["apis", REVIEWS, "v1"] and request.method == "POST":
            return self._review(user, await _body(request))
        return await self._objects(_parse(request, steps, user))

    async def _objects(self, call: Call) -> Response:
        verb = _verb(call)
        self._authorise(call, verb)
        if call.subresource == "log":
            return self._log(call)
        if call.subresource == "exec":
            raise bad_request("Upgrade request required")
        if verb == "watch":
            return StreamingResponse(self._watch(call), media_type="application/json")
        if verb in ("get", "list"):
            return JSONResponse(self.store.get(call.resource, call.namespace, call.name) if verb == "get" else self._list(call))
        body = await _body(call.request)
        if verb == "create":
            return JSONResponse(self._create(call, body), status_code=201)
        if verb == "patch":
            return JSONResponse(self._patch(call, body))
        if verb == "update":
            body.setdefault("metadata", {}).update({"name": call.name} | ({"namespace": call.namespace} if call.namespace else {}))
            return JSONResponse(self.store.update(call.resource, body, manager=call.manager, subresource=call.subresource, dry_run=call.dry()))
        return JSONResponse(self._delete_many(call, body) if verb == "deletecollection" else self._delete(call, call.name, body or {}))

    def _authorise(self, call: Call, verb: str) -> None:
        attempt = Attempt(verb, call.resource.group, call.resource.plural, call.namespace, call.name, call.subresource)
        if not self.gate.allows(call.user, attempt):
            raise forbidden(call.user.name, verb, call.resource.plural, call.resource.group, call.namespace, call.name, call.subresource)

    # ------------------------------------------------------------ verbs

    def _create(self, call: Call, body: Any) -> Json:
        if not isinstance(body, dict):
            raise bad_request("an object is expected")
        if call.resource is PODS and call.subresource == "binding":
            node = body["target"]["name"]
            self.store.edit(PODS, call.namespace, call.name, lambda pod: pod["spec"].update(nodeName=node), manager=call.manager)
            return success(name=call.name, kind="pods")
        if call.resource is PODS and call.subresource == "eviction":
            return self._delete(call, call.name, body.get("deleteOptions") or {})
        if call.resource.namespaced:
            body.setdefault("metadata", {}).setdefault("namespace", call.namespace or "default")
        body = schema.decoded(call.resource.kind, body, call.query.get("fieldValidation", ""))
        return self.store.create(call.resource, body, manager=call.manager, dry_run=call.dry())

    def _patch(self, call: Call, body: Any) -> Json:
        kind = call.request.headers.get("content-type", "").partition(";")[0]
        if kind == patches.STRATEGIC_PATCH and "." in call.resource.group and call.resource.group != resources.RBAC:
            raise ApiError(415, "UnsupportedMediaType", "the body of the request was in an unknown format - accepted media types include: "
                           "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml")  # fmt: skip

        def change(item: Json) -> Json:
            asked = item["metadata"].pop("resourceVersion") if not _names_version(kind, body) else None
            patched = patches.apply(kind, {**item, "metadata": {**item["metadata"], **({"resourceVersion": asked} if asked else {})}}, body)
            if asked and patched.get("metadata", {}).get("resourceVersion") == asked:
                patched["metadata"].pop("resourceVersion")
            return schema.decoded(call.resource.kind, patched, call.query.get("fieldValidation", ""))

        return self.store.edit(call.resource, call.namespace, call.name, change, manager=call.manager, subresource=call.subresource, dry_run=call.dry())

    def _delete(self, call: Call, name: str, body: Json) -> Json:
        wanted = body.get("preconditions") or {}
        grace = body.get("gracePeriodSeconds") if body else call.query.get("gracePeriodSeconds")
        gone = self.store.delete(call.resource, call.namespace, name, grace=None if grace is None else int(grace), uid=wanted.get("uid") or "",
                                 version=wanted.get("resourceVersion") or "", dry_run=call.dry(body))  # fmt: skip
        if call.resource is PODS:
            return gone
        return success(name=name, group=call.resource.group, kind=call.resource.plural, uid=gone["metadata"]["uid"])

    def _delete_many(self, call: Call, body: Any) -> Json:
        found = self._selected(call)[0]
        for item in found:
            self._delete(call, item["metadata"]["name"], body if isinstance(body, dict) else {})
        return {"kind": f"{call.resource.kind}List", "apiVersion": call.resource.api_version, "metadata": {}, "items": found}

    def _selected(self, call: Call) -> tuple[list[Json], int]:
        matches = _matcher(call)
        found, version = self.store.snapshot(call.resource, call.namespace)
        if call.name:
            found = [item for item in found if item["metadata"]["name"] == call.name]
        return [item for item in found if matches(item)], version

    def _list(self, call: Call) -> Json:
        found, version = self._selected(call)
        meta: Json = {"resourceVersion": str(version)}
        if call.query.get("continue"):
            after = _read_token(call.query["continue"])
            meta["resourceVersion"] = str(after["v"])
            found = [item for item in found if _place(item) > after["at"]]
        limit = int(call.query.get("limit") or 0)
        if 0 < limit < len(found):
            meta |= {"continue": _token(int(meta["resourceVersion"]), _place(found[limit - 1])), "remainingItemCount": len(found) - limit}
            found = found[:limit]
        return {"kind": f"{call.resource.kind}List", "apiVersion": call.resource.api_version, "metadata": meta, "items": [_bare(item) for item in found]}

    async def _watch(self, call: Call) -> AsyncIterator[bytes]:
        matches, asked = _matcher(call), call.query.get("resourceVersion", "")
        at = int(asked) if asked.isdigit() and asked != "0" else -1
        if at < 0:
            found, at = self._selected(call)
            for item in found:
                yield _line("ADDED", item)
        until = asyncio.get_running_loop().time() + float(call.query.get("timeoutSeconds") or 1800)
        while asyncio.get_running_loop().time() < until:
            try:
                for change in self.store.changes(call.resource, at):
                    at = change.version
                    if (kind := _seen(change, call, matches)) is not None:
                        yield _line(kind, change.item)
            except ApiError as no:
                yield _line("ERROR", no.status())
                return
            await asyncio.sleep(0.03)

    # ------------------------------------------------------------ containers and reviews

    def _log(self, call: Call) -> Response:
        pod = self.store.get(PODS, call.namespace, call.name)
        container = _container(pod, call.query.get("container"))
        if not pod["spec"].get("nodeName"):
            return PlainTextResponse("")  # nobody to ask, and no error either
        previous = call.query.get("previous", "") in ("true", "1")
        return log_response(call.query, lambda: self.containers.log(call.namespace, call.name, container, previous=previous))

    async def execute(self, socket: WebSocket) -> None:
        namespace, name = socket.path_params["namespace"], socket.path_params["name"]
        user = self.gate.who(socket.headers.get("authorization", ""))
        try:
            if user is None:
                raise unauthorized()
            if not all(self.gate.allows(user, Attempt(verb, "", "pods", namespace, name, "exec")) for verb in ("get", "create")):
                raise forbidden(user.name, "create", "pods", "", namespace, name, "exec")
            container = _container(self.store.get(PODS, namespace, name), socket.query_params.get("container"))
        except ApiError as no:
            await socket.send_denial_response(JSONResponse(no.status(), status_code=no.code))
            return
        await exec_over(socket, lambda argv: self.containers.execute(namespace, name, container, argv))

    def _review(self, user: User, body: Json) -> Response:
        asked = body.get("spec", {}).get("resourceAttributes") or {}
        words = [str(asked.get(key) or "") for key in ("verb", "group", "resource", "namespace", "name", "subresource")]
        allowed = self.gate.allows(user, Attempt(*words))
        return JSONResponse({**body, "status": {"allowed": allowed, "reason": "" if allowed else "no rule of RBAC allows it"}}, status_code=201)


# ---------------------------------------------------------------- requests


def _discovery(steps: list[str]) -> Json | None:
    if steps == ["api"]:
        return resources.versions()
    if steps == ["apis"]:
        return resources.groups()
    if steps[0] == "apis" and len(steps) == 2:
        return next((group for group in resources.groups()["groups"] if group["name"] == steps[1]), None)
    if (steps[0] == "api" and len(steps) == 2) or (steps[0] == "apis" and len(steps) == 3):
        return resources.resource_list(steps[1] if steps[0] == "apis" else "", steps[-1])
    return None


def _parse(request: Request, steps: list[str], user: User) -> Call:
    if steps[0] == "api":
        group, version, rest = "", steps[1] if len(steps) > 1 else "", steps[2:]
    elif steps[0] == "apis" and len(steps) > 3:
        group, version, rest = steps[1], steps[2], steps[3:]
    else:
        raise no_such_path()
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    resource = resources.BY_PATH.get((group, version, rest[0] if rest else ""))
    if resource is None or len(rest) > 3:
        raise no_such_path()
    name, subresource = (*rest[1:], "", "")[:2]
    if subresource and subresource not in ("status", "log", "exec", "binding", "eviction"):
        raise no_such_path()
    if (name or request.method == "POST") and resource.namespaced and not namespace:
        raise no_such_path()
    return Call(resource, namespace, name, subresource, user, request)


def _verb(call: Call) -> str:
    method = call.request.method
    if method == "GET" and not call.subresource:
        if call.query.get("watch") in ("true", "1"):
            return "watch"
        return "get" if call.name else "list"
    if method == "DELETE":
        return "delete" if call.name else "deletecollection"
    return {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}[method]


async def _body(request: Request) -> Any:
    raw = await request.body()
    if not raw:
        return None
    kind = request.headers.get("content-type", "")
    if "protobuf" in kind:
        raise unsupported_media(kind)
    if "yaml" in kind:
        return yaml.safe_load(raw)
    return json.loads(raw)


def _matcher(call: Call) -> selectors.Matcher:
    by_label = selectors.labels(call.query.get("labelSelector", ""))
    by_field = selectors.fields(call.query.get("fieldSelector", ""), call.resource.kind)
    return lambda item: by_label(item) and by_field(item) and (not call.name or item["metadata"]["name"] == call.name)


def _seen(change: Change, call: Call, matches: selectors.Matcher) -> str | None:
    """How a watch with a selector sees a change: an object that comes into it is ADDED, one that leaves it is DELETED."""
    if call.namespace not in ("", change.item["metadata"].get("namespace", "")):
        return None
    was, now = change.before is not None and matches(change.before), matches(change.item)
    if change.kind == "DELETED":
        return "DELETED" if was else None
    if now:
        return "MODIFIED" if was else "ADDED"
    return "DELETED" if was else None


def _names_version(kind: str, body: Any) -> bool:
    """Whether a merge patch asks for a resourceVersion: then it must hold."""
    return kind != patches.JSON_PATCH and isinstance(body, dict) and bool((body.get("metadata") or {}).get("resourceVersion"))


def _container(pod: Json, asked: str | None) -> str:
    spec = pod["spec"]
    names = [row["name"] for row in [*spec["containers"], *(spec.get("initContainers") or [])]]
    if asked:
        if asked not in names:
            raise bad_request(f"container {asked} is not valid for pod {pod['metadata']['name']}")
        return asked
    if len(names) > 1:
        raise bad_request(f"a container name must be specified for pod {pod['metadata']['name']}, choose one of: [{' '.join(names)}]")
    return str(names[0])


def _line(kind: str, item: Json) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def _bare(item: Json) -> Json:
    """List rows bear no apiVersion and kind, as on the real server."""
    return {key: value for key, value in item.items() if key not in ("apiVersion", "kind")}


def _place(item: Json) -> str:
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"


def _token(version: int, at: str) -> str:
    return base64.urlsafe_b64encode(json.dumps({"v": version, "at": at}).encode()).decode()


def _read_token(token: str) -> Json:
    try:
        found = json.loads(base64.urlsafe_b64decode(token))
        return {"v": int(found["v"]), "at": str(found["at"])}
    except (ValueError, KeyError, TypeError) as wrong:
        raise bad_request("continue key is not valid") from wrong
