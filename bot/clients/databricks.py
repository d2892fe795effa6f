"""Model serving of one Databricks workspace, by its REST API, read only: endpoints as objects, their build and service logs.

An endpoint is shown in the form of an object of a cluster (metadata, spec, status), so that whatever binds, compares and takes back a change of an
object does so for an endpoint too. `spec` is the newest configuration that was asked for: the pending one while an update is under way, has failed or was cancelled,
else the one that serves. Its version stands in the place of the generation. It follows no redirect, sends its token to the configured host alone,
and knows no other kind of object. Shapes: the API's reference (2.0/serving-endpoints).
"""

import ipaddress
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from bot.errors import Conflict, Forbidden, NotFound, Permanent, Rejected, Temporary, TimedOut, Unreachable, Unsupported, WorldError
from bot.ports import CommandOutput, Json, LogPiece

KIND, VERSION = "ServingEndpoint", "databricks/2.0"
MARK = "OOMBOT_OPERATION"  # the variable that bears an operation's mark, "<version>:<mark>": it is written by the very request that makes the change
ANNOTATION = "oombot.io/operation"
TIMEOUT_S = 10.0
MOST_BYTES = 8 << 20
TRIES, LONGEST_PAUSE_S = 3, 5.0
NAME = re.compile(r"[A-Za-z0-9_-]{1,63}")
ENTITY = re.compile(r"[A-Za-z0-9._-]{1,256}")
ANSWERED = ("creation_timestamp", "creator", "foundation_model", "state")  # of a served entity: what only answers have
BUSY = "IN_PROGRESS"


class Workspace:
    """HTTP to one workspace. `token_file` is read for each request, so a short-lived token may be replaced at any time. Safe from several threads."""

    def __init__(self, name: str, host: str, token_file: Path, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.name, self.host = name, _address(name, host)
        self._token_file, self._sleep = token_file, sleep
        self._client = httpx.Client(base_url=self.host, timeout=TIMEOUT_S, follow_redirects=False, trust_env=False)

    def get(self, path: str) -> Json:
        """One JSON answer, tried again when the workspace asks for patience."""
        return self._json("GET", path, None, (429, 503))

    def put(self, path: str, body: Mapping[str, Any]) -> Json:
        """Sent once; again only after a 429, which says that nothing was done. Temporary otherwise leaves open whether it arrived."""
        return self._json("PUT", path, body, (429,))

    def close(self) -> None:
        self._client.close()

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None, again: Sequence[int]) -> Json:
        for attempt in range(1, TRIES + 1):
            status, data, pause = self._once(method, path, body)
            if status == 200:
                return self._parsed(path, data)
            if status not in again or attempt == TRIES or pause > LONGEST_PAUSE_S:
                raise self._error(method, path, status, data)
            self._sleep(pause)
        raise AssertionError("not reached")

    def _once(self, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, bytes, float]:
        headers = {"Authorization": f"Bearer {self._token()}", "Accept": "application/json"}
        end = time.monotonic() + 2 * TIMEOUT_S
        try:
            with self._client.stream(method, path, headers=headers, json=body) as answer:
                data = b""
                for piece in answer.iter_bytes():
                    data += piece
                    if len(data) > MOST_BYTES:
                        raise Permanent(f"{self.name}: the answer to {method} {path} is larger than {MOST_BYTES >> 20} MiB")
                    if time.monotonic() > end:
                        raise TimedOut(f"{self.name}: the answer to {method} {path} did not end in time")
                return answer.status_code, data, _seconds(answer.headers.get("Retry-After", ""))
        except httpx.TimeoutException:
            raise TimedOut(f"{self.name}: no answer from {self.host} within {TIMEOUT_S:.0f} s ({method} {path})") from None
        except httpx.HTTPError as broken:
            raise Unreachable(f"{self.name}: {self.host} cannot be reached: {type(broken).__name__}") from None

    def _token(self) -> str:
        try:
            token = self._token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as wrong:
            raise Forbidden(f"{self.name}: the token file {self._token_file} cannot be read: {getattr(wrong, 'strerror', None) or 'not text'}") from None
        if not re.fullmatch(r"[!-~]{1,4096}", token):
            raise Forbidden(f"{self.name}: the token file {self._token_file} holds no token")
        return token

    def _parsed(self, path: str, data: bytes) -> Json:
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise Permanent(f"{self.name}: the answer to {path} is not a JSON object")
        return found

    def _error(self, method: str, path: str, status: int, data: bytes) -> WorldError:
        reason, said = _said(data)
        words = f"{self.name}: {method} {path}: {f'{reason}: {said}'.strip(': ') or f'HTTP status {status}'}"
        if status == 401:
            return Forbidden(f"{self.name}: the workspace does not accept the token (401)").answered(status, reason, said)
        if 300 <= status < 400:
            return Permanent(f"{self.name}: {self.host} redirects {path}, which is not followed; is it the workspace's own address?")
        kinds: Mapping[int, type[WorldError]] = {403: Forbidden, 404: NotFound, 409: Conflict, 400: Rejected, 422: Rejected, 429: Temporary, 504: TimedOut}
        return kinds.get(status, Temporary if status >= 500 else Permanent)(words).answered(status, reason, said)


class DatabricksReader:
    """Implements `ports.ClusterReader` for the one kind that a workspace has. Of all other kinds there are none."""

    def __init__(self, workspace: Workspace) -> None:
        self.name, self._workspace = workspace.name, workspace

    def uid(self) -> str:
        """The workspace's identity: its address, which TLS proves."""
        return self._workspace.host

    def now(self) -> datetime:
        """By this machine: nothing of an endpoint is measured against a time that the workspace stamped."""
        return datetime.now(UTC)

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Json:
        """An endpoint as an object. Raises NotFound, Forbidden, Temporary."""
        if kind != KIND:
            raise NotFound(f"{self.name}: a Databricks workspace has no {kind}")
        return as_object(self._workspace.get(path_of(name)))

    def list(self, api_version: str, kind: str, namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = 500) -> Sequence[Json]:
        """Endpoints (their states and names; the configuration in short); of another kind none."""
        if kind != KIND or namespace:
            return ()
        found = self._workspace.get("/api/2.0/serving-endpoints").get("endpoints")
        items = [as_object(one) for one in found if isinstance(one, dict) and one.get("name")] if isinstance(found, list) else []
        wanted = field_selector.partition("metadata.name=")[2]
        return [one for one in items if not wanted or one["metadata"]["name"] == wanted][:limit]

    def names(self, api_version: str, kind: str, namespace: str = "", *, limit: int = 20_000) -> Sequence[Json]:
        return [{"metadata": one["metadata"]} for one in self.list(api_version, kind, namespace, limit=limit)]

    def log(self, namespace: str, pod: str, container: str, *, previous: bool = False, tail_lines: int | None = None, limit_bytes: int = 4 << 20) -> LogPiece:
        """The service log of the served entity `container` of the endpoint `pod` (the platform gives its newest lines only); `previous`: its build log."""
        if not ENTITY.fullmatch(container):
            raise NotFound(f"{self.name}: {container[:60]!r} is no name of a served entity")
        path = f"{path_of(pod)}/served-models/{quote(container, safe='')}/{'build-logs' if previous else 'logs'}"
        text = self._workspace.get(path).get("logs")
        data = text.encode("utf-8", "replace") if isinstance(text, str) else b""
        return LogPiece(data[-limit_bytes:], cut_start=not previous or len(data) > limit_bytes)

    def run(self, namespace: str, pod: str, container: str, argv: Sequence[str], *, timeout_s: float = 10, limit_bytes: int = 1 << 20) -> CommandOutput:
        raise Unsupported(f"{self.name}: nothing can be run in a served model")


def path_of(name: str) -> str:
    """The path of an endpoint. Raises NotFound for a name that none can have."""
    if not NAME.fullmatch(name):
        raise NotFound(f"{name[:70]!r} is no name of a serving endpoint")
    return f"/api/2.0/serving-endpoints/{name}"


def as_object(endpoint: Mapping[str, Any]) -> Json:
    """An endpoint as the API gives it, in the form of an object of a cluster. Pure."""
    serving, pending = _mapping(endpoint.get("config")), _mapping(endpoint.get("pending_config"))
    state = _mapping(endpoint.get("state"))
    newest = pending if pending and (state.get("config_update") in (BUSY, "UPDATE_FAILED", "UPDATE_CANCELED") or not serving) else serving
    entities = [dict(one) for one in newest.get("served_entities") or newest.get("served_models") or () if isinstance(one, dict)]
    metadata: Json = {"name": str(endpoint.get("name", "")), "namespace": "", "uid": str(endpoint.get("id", "")), "generation": newest.get("config_version", 0)}
    mark = _mark(entities)
    if mark:
        metadata["annotations"] = {ANNOTATION: mark}
    spec: Json = {"served_entities": [_asked(one) for one in entities]}
    for key in ("traffic_config", "auto_capture_config"):
        if newest.get(key):
            spec[key] = newest[key]
    status = {"state": state, "entities": [{"name": one.get("name"), "state": _mapping(one.get("state")), "mark": _mapping(one.get("environment_vars")).get(MARK, "")} for one in entities],
              "serving_version": serving.get("config_version"), "pending_version": pending.get("config_version"),
              "permission_level": endpoint.get("permission_level"), "task": endpoint.get("task")}  # fmt: skip
    return {"apiVersion": VERSION, "kind": KIND, "metadata": metadata, "spec": spec, "status": status}


def _asked(entity: Mapping[str, Any]) -> Json:
    """A served entity without what only answers have, and without the mark; fields that nobody knows yet stay, so that no change drops them in silence."""
    kept = {key: value for key, value in entity.items() if key not in ANSWERED}
    variables = {key: value for key, value in _mapping(kept.get("environment_vars")).items() if key != MARK}
    return {**kept, "environment_vars": variables} if variables else {key: value for key, value in kept.items() if key != "environment_vars"}


def _mark(entities: Sequence[Mapping[str, Any]]) -> str:
    """The newest mark: each is written with the version that it made."""
    marks = [str(_mapping(one.get("environment_vars")).get(MARK, "")).partition(":") for one in entities]
    return max(((int(version), mark) for version, _, mark in marks if version.isdecimal() and mark), default=(0, ""))[1]


def _mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _address(name: str, host: str) -> str:
    """The workspace's address: https, nothing behind the host; plain http on loopback alone, for tests."""
    parts = urlsplit(host if "://" in host else f"https://{host}")
    try:
        loopback = ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        loopback = False
    if (
        not parts.hostname
        or parts.path.strip("/")
        or parts.query
        or parts.username
        or parts.scheme not in ("https", "http")
        or (parts.scheme == "http" and not loopback)
    ):
        raise Permanent(f"{name}: {host[:100]!r} is no address of a workspace; as in https://my-workspace.cloud.databricks.com")
    return f"{parts.scheme}://{parts.netloc}"


def _seconds(text: str) -> float:
    """Retry-After in seconds; a date, or nothing, counts as one second."""
    return float(text) if re.fullmatch(r"\d{1,6}(\.\d{1,3})?", text.strip()) else 1.0


def _said(data: bytes) -> tuple[str, str]:
    """The workspace's own words: its error code, and its message as one short line."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return "", ""
    if not isinstance(found, dict):
        return "", ""
    code, message = (" ".join(str(found.get(key) or "").split()) for key in ("error_code", "message"))
    return code[:60], message[:400]
