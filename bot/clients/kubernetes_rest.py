"""One API server over HTTP: paths of resources, bounded answers, and the vendor's exceptions turned into ours.

Both the reading and the writing client stand on it. It sends plain JSON (no generated models: those refuse objects that are newer
than they are), never retries a write, and keeps no global configuration. It will not decide what may be sent.
"""

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import urllib3
from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException

from bot.errors import Conflict, Forbidden, NotFound, Permanent, Rejected, Temporary, TimedOut, Unreachable, WorldError

CONNECT_S, READ_S = 3.05, 10.0
ANSWER_CAP = 64 << 20  # bytes of one JSON answer
CHUNK = 64 << 10

_NAMESPACED = {
    "v1": {
        "Pod": "pods",
        "Event": "events",
        "Service": "services",
        "PersistentVolumeClaim": "persistentvolumeclaims",
        "ReplicationController": "replicationcontrollers",
        "ResourceQuota": "resourcequotas",
        "LimitRange": "limitranges",
    },
    "apps/v1": {"Deployment": "deployments", "ReplicaSet": "replicasets", "StatefulSet": "statefulsets", "DaemonSet": "daemonsets"},
    "batch/v1": {"Job": "jobs", "CronJob": "cronjobs"},
}
_OF_THE_CLUSTER = {"v1": {"Node": "nodes", "Namespace": "namespaces"}}


class Rest:
    """One API server. Safe to use from several threads."""

    def __init__(self, name: str, api_client: ApiClient) -> None:
        self.name = name
        self.api_client = api_client
        self._kinds: dict[tuple[str, str], tuple[str, bool]] = {}
        self._lock = threading.Lock()
        self._told: tuple[datetime, float] | None = None  # the server's time with its last answer, and when that came (monotonic)

    def now(self) -> datetime:
        """The time by the server's clock, to a second or so; by ours before its first answer."""
        if self._told is None:
            return datetime.now(UTC)
        told, came = self._told
        return told + timedelta(seconds=time.monotonic() - came)

    def json(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        *,
        body: object = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        deadline_s: float = 15,
    ) -> dict[str, Any]:
        """One JSON answer of at most 64 MiB. Raises only errors of `bot.errors`: Temporary | Permanent."""
        data = b"".join(self.stream(method, path, query, body=body, content_type=content_type, accept=accept, deadline_s=deadline_s, cap=ANSWER_CAP))
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError) as wrong:
            raise Permanent(f"{self.name}: the answer to {method} {path} is not JSON") from wrong
        if not isinstance(answer, dict):
            raise Permanent(f"{self.name}: the answer to {method} {path} is not a JSON object")
        return answer

    def stream(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        *,
        body: object = None,
        content_type: str = "application/json",
        accept: str = "*/*",
        deadline_s: float = 15,
        cap: int | None = None,
    ) -> Iterator[bytes]:
        """The answer in pieces; raises TimedOut when it has not ended by the deadline, Permanent beyond `cap` bytes."""
        end = time.monotonic() + deadline_s
        what = f"{method} {path}"
        with _translated(self.name, what):
            response = self._send(method, path, query, body, content_type, accept, deadline_s)
        try:
            if response.status >= 300:
                raise error_of(self.name, what, response.status, response.read(CHUNK, decode_content=True))
            seen = 0
            while True:
                # What is there, not a full piece: a server that drips must not hold us beyond the deadline.
                with _translated(self.name, what):
                    piece = response.read1(CHUNK, decode_content=True)
                if not piece:
                    break
                seen += len(piece)
                if cap is not None and seen > cap:
                    raise Permanent(f"{self.name}: the answer to {what} is larger than {cap >> 20} MiB")
                yield piece
                if time.monotonic() > end:
                    raise TimedOut(f"{self.name}: the answer to {what} did not end within {deadline_s:.0f} s")
        finally:
            response.close()
            response.release_conn()

    def _send(
        self, method: str, path: str, query: Sequence[tuple[str, str]], body: object, content_type: str, accept: str, deadline_s: float
    ) -> urllib3.HTTPResponse:
        headers = {"Accept": accept, "Content-Type": content_type} if body is not None else {"Accept": accept}
        request = self.api_client.param_serialize(method, path, query_params=list(query), header_params=headers, body=body, auth_settings=["BearerToken"])
        answer: urllib3.HTTPResponse = self.api_client.call_api(*request, _request_timeout=(min(CONNECT_S, deadline_s), min(READ_S, deadline_s))).response
        with suppress(KeyError, TypeError, ValueError):  # a server (or a proxy before it) that tells no time, or nonsense
            self._told = parsedate_to_datetime(str(answer.headers["Date"])).astimezone(UTC), time.monotonic()
        return answer

    def path(self, api_version: str, kind: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of an object or of a list. Kinds that are not built in are asked of the server. Raises NotFound when it has no such kind."""
        plural, namespaced = self._plural(api_version, kind)
        parts = ["/api" if "/" not in api_version else "/apis", api_version]
        if namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(plural)
        if name:
            parts.append(quote(name, safe=""))
        return "/".join([*parts, subresource] if subresource else parts)

    def _plural(self, api_version: str, kind: str) -> tuple[str, bool]:
        if plural := _NAMESPACED.get(api_version, {}).get(kind):
            return plural, True
        if plural := _OF_THE_CLUSTER.get(api_version, {}).get(kind):
            return plural, False
        with self._lock:
            if (api_version, kind) not in self._kinds:
                group = "/".join(quote(part, safe="") for part in api_version.split("/")[:2])
                listed = self.json("GET", f"/{'apis' if '/' in api_version else 'api'}/{group}")
                for resource in listed.get("resources", ()):
                    if "/" not in str(resource.get("name")):
                        self._kinds[(api_version, str(resource.get("kind")))] = (str(resource["name"]), bool(resource.get("namespaced")))
        if (api_version, kind) not in self._kinds:
            raise NotFound(f"{self.name}: the cluster has no kind {kind} in {api_version}")
        return self._kinds[(api_version, kind)]


@contextmanager
def _translated(cluster: str, what: str) -> Iterator[None]:
    """Turns the vendors' exceptions into ours."""
    try:
        yield
    except (ApiException, urllib3.exceptions.HTTPError, ConfigException, OSError) as wrong:
        raise translate(cluster, what, wrong) from wrong


def translate(cluster: str, what: str, wrong: Exception) -> WorldError:
    """Our error for a vendor's: `cluster` and `what` begin the line."""
    cause = wrong
    while isinstance(cause, urllib3.exceptions.MaxRetryError) and cause.reason is not None:
        cause = cause.reason
    if isinstance(cause, ApiException):
        if cause.status:
            return error_of(cluster, what, cause.status, str(cause.body or "").encode())
        return Unreachable(f"{cluster}: {what}: {_line(str(cause.reason))}")
    if isinstance(cause, urllib3.exceptions.NewConnectionError | urllib3.exceptions.NameResolutionError):
        return Unreachable(f"{cluster}: cannot connect to the API server: {_line(str(cause).split('>: ')[-1].split('): ')[-1])}")
    if isinstance(cause, urllib3.exceptions.TimeoutError):
        return TimedOut(f"{cluster}: no answer from the API server in time ({what})")
    if isinstance(cause, urllib3.exceptions.SSLError):
        return Unreachable(f"{cluster}: the API server's certificate or connection is not trusted: {_line(str(cause))}")
    if isinstance(cause, ConfigException):
        return Forbidden(f"{cluster}: the credentials could not be had: {_line(str(cause))}")
    return Unreachable(f"{cluster}: the connection to the API server broke ({what}): {_line(str(cause))}")


def error_of(cluster: str, what: str, status: int, body: bytes) -> WorldError:
    """Our error for an HTTP status; the server's own words stand in it, and its answer beside it."""
    reason, said = _answer(body)
    words = f"{cluster}: {what}: {said or f'HTTP status {status}'}"
    if status == 401:
        words = f"{cluster}: the API server does not accept the credentials (401)"
    return _kind_of(status)(words).answered(status, reason, said)


def _kind_of(status: int) -> type[WorldError]:
    known = {401: Forbidden, 403: Forbidden, 404: NotFound, 409: Conflict, 504: TimedOut, 429: Temporary}
    if status in (400, 405, 406, 413, 415, 422):
        return Rejected
    return known.get(status, Temporary if status >= 500 else Permanent)


# A 422 for a patch of the wrong shape quotes the object that it would have made, environment and all.
_WHOLE_OBJECT = re.compile(r'Invalid value: "\{.*\}"|Invalid value: "\{.*', re.DOTALL)


def _answer(body: bytes) -> tuple[str, str]:
    """Reason (one word, "Invalid") and message of a Status; of anything else its text as the message."""
    try:
        status = json.loads(body)
    except (ValueError, RecursionError):
        return "", _line(body.decode("utf-8", "replace"))
    if not isinstance(status, Mapping):
        return "", ""
    return _line(str(status.get("reason") or ""))[:60], _line(_WHOLE_OBJECT.sub("Invalid value: (the whole object)", str(status.get("message", ""))))


def _line(text: str) -> str:
    """Somebody else's words as one short line."""
    return " ".join(text.split())[:400]
