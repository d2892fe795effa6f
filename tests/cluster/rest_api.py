"""The kubelets' way into the real API server: plain HTTP with the admin's token."""

import hashlib
import time
from typing import Any

import httpx

from bot.ports import Json

MERGE = {"Content-Type": "application/merge-patch+json"}


class RestApi:
    """A ClusterApi on a kube-apiserver. What fails because an object went or changed meanwhile is left to the next round."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self._counts: dict[str, int] = {}

    def pods(self) -> list[Json]:
        return self._items("/api/v1/pods", "v1", "Pod")

    def nodes(self) -> list[Json]:
        return self._items("/api/v1/nodes", "v1", "Node")

    def set_status(self, pod: Json, status: Json) -> None:
        self._send("PATCH", f"{_path(pod)}/status", {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}, MERGE)

    def bind(self, pod: Json, node: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod["metadata"]["name"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self._send("POST", f"{_path(pod)}/binding", body)

    def remove(self, pod: Json) -> None:
        self._send("DELETE", _path(pod), {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}})

    def born(self, pod: Json, at: float) -> None:
        """The server sets times of creation itself."""

    def event(self, involved: Json, kind: str, reason: str, message: str, component: str, host: str, field: str, at: float | None) -> None:
        meta = involved["metadata"]
        mark = hashlib.sha256("\n".join([meta["uid"], kind, reason, message, field]).encode()).hexdigest()[:16]
        name = f"{meta['name']}.{mark}"
        namespace, now = meta.get("namespace") or "default", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
        where = f"/api/v1/namespaces/{namespace}/events"
        self._counts[name] = count = self._counts.get(name, 0) + 1
        if count > 1:
            self._send("PATCH", f"{where}/{name}", {"count": count, "lastTimestamp": now}, MERGE)
            return
        ref = {"apiVersion": "v1", "kind": involved["kind"], "name": meta["name"], "namespace": meta.get("namespace", ""), "uid": meta["uid"]}
        source = {"component": component} | ({"host": host} if host else {})
        body = {"metadata": {"name": name, "namespace": namespace}, "involvedObject": ref | ({"fieldPath": field} if field else {}), "type": kind, "reason": reason,
                "message": message, "source": source, "count": 1, "firstTimestamp": now, "lastTimestamp": now, "reportingComponent": component}  # fmt: skip
        self._send("POST", where, body)

    def _items(self, path: str, api_version: str, kind: str) -> list[Json]:
        found = self.client.get(path)
        found.raise_for_status()
        return [{"apiVersion": api_version, "kind": kind, **item} for item in found.json()["items"]]

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str] | None = None) -> None:
        answer = self.client.request(method, path, json=body, headers=headers)
        if answer.status_code not in (404, 409):
            answer.raise_for_status()


def _path(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
