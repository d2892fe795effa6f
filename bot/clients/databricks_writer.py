"""Writes to one Databricks workspace: the configuration of a serving endpoint, with a token of its own. Nothing else.

The API has neither a dry run nor a precondition. A dry run here reads the endpoint with the writing token and compares: its tests, its permission, that no
update is under way. A write does the same right before it is sent; the workspace refuses a second update while one is under way (409), so that nobody's
change is overwritten unseen. The operation's mark goes into the served entity that changes, as the variable OOMBOT_OPERATION, by that very request: a tag
would take a second one, and a crash between the two would leave a change that nobody knows of.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bot.clients.databricks import ANNOTATION, BUSY, KIND, MARK, Workspace, as_object, path_of
from bot.clients.json_patch import patched
from bot.errors import Conflict, Forbidden, NotFound, Rejected, Unsupported
from bot.model import ObjectRef
from bot.ports import Json

CAPTURE = ("catalog_name", "schema_name", "table_name_prefix", "enabled")  # of auto_capture_config: what a request may have


class DatabricksWriter:
    """Implements `ports.ClusterWriter` for serving endpoints. `workspace` holds the writing token."""

    def __init__(self, workspace: Workspace) -> None:
        self.name, self._workspace = workspace.name, workspace

    def uid(self) -> str:
        return self._workspace.host

    def get(self, ref: ObjectRef) -> Json:
        """The endpoint as an object. Raises NotFound, Forbidden, Temporary."""
        if ref.kind != KIND:
            raise NotFound(f"{self.name}: a Databricks workspace has no {ref.kind}")
        return as_object(self._workspace.get(path_of(ref.name)))

    def patch(self, ref: ObjectRef, operations: Sequence[Mapping[str, Any]], *, dry_run: bool) -> Json:
        """The endpoint after the change. Raises Conflict when a test does not hold or an update is under way, Rejected with the workspace's words, Forbidden.

        Temporary (no answer, broken connection) leaves open whether it arrived: the mark tells.
        """
        live = self.get(ref)
        self._refuse(ref, live)
        after = patched(live, operations)
        body = _body(live, after)
        if dry_run:
            return after
        return as_object(self._workspace.put(f"{path_of(ref.name)}/config", body))

    def _refuse(self, ref: ObjectRef, live: Json) -> None:
        status = live["status"]
        if status["state"].get("config_update") == BUSY:
            raise Conflict(f"{self.name}: an update of {ref.name} is under way (version {live['metadata']['generation']}); wait until it is through")
        if status.get("permission_level") not in (None, "CAN_MANAGE"):
            raise Forbidden(f"{self.name}: the writing token may not manage {ref.name} (it has {status['permission_level']})")

    # what only a cluster has

    def delete_pod(self, ref: ObjectRef, *, dry_run: bool) -> None:
        raise self._unsupported()

    def create_cron_job(self, ref: ObjectRef, body: Mapping[str, Any], *, dry_run: bool) -> Json:
        raise self._unsupported()

    def delete_cron_job(self, ref: ObjectRef, *, dry_run: bool) -> None:
        raise self._unsupported()

    def stop_process(self, ref: ObjectRef, addresses: Sequence[str], pid: int, start: int, *, dry_run: bool) -> None:
        raise self._unsupported()

    def drop_segments(self, ref: ObjectRef, addresses: Sequence[str], words: Sequence[str], *, dry_run: bool) -> None:
        raise self._unsupported()

    def _unsupported(self) -> Unsupported:
        return Unsupported(f"{self.name}: a Databricks workspace has no pods, jobs or nodes")


def _body(live: Json, after: Json) -> Json:
    """The request: the whole configuration, since what it leaves out would go. Only served entities may differ, and one that does bears the mark."""
    elsewhere = [part for part in ("apiVersion", "kind", "status") if after[part] != live[part]]
    names = {key for key in ("name", "uid", "generation") if after["metadata"].get(key) != live["metadata"].get(key)}
    specs = {key for key in {*live["spec"], *after["spec"]} if key != "served_entities" and live["spec"].get(key) != after["spec"].get(key)}
    before, wanted = live["spec"]["served_entities"], after["spec"]["served_entities"]
    mark = str((after["metadata"].get("annotations") or {}).get(ANNOTATION, ""))
    if elsewhere or names or specs or len(before) != len(wanted) or not mark:
        raise Rejected("only the served entities of an endpoint are changed, by an operation that has a mark")
    if before == wanted:
        raise Rejected("the endpoint says so already")
    version = int(live["metadata"]["generation"]) + 1
    marks = [str(one.get("mark") or "") for one in live["status"]["entities"]]  # one that does not change keeps its older mark, else it would be deployed anew
    entities = [_marked(one, f"{version}:{mark}" if one != old else kept) for one, old, kept in zip(wanted, before, marks, strict=True)]
    capture = {key: value for key, value in (live["spec"].get("auto_capture_config") or {}).items() if key in CAPTURE}
    traffic = live["spec"].get("traffic_config")
    return {"served_entities": entities, **({"traffic_config": traffic} if traffic else {}), **({"auto_capture_config": capture} if capture else {})}


def _marked(entity: Json, mark: str) -> Json:
    if not mark:
        return entity
    return {**entity, "environment_vars": {**(entity.get("environment_vars") or {}), MARK: mark}}
