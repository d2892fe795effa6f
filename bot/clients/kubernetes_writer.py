"""Writes to one cluster, with credentials of its own: a JSON patch of one object, the deletion of one pod by UID, one CronJob made or deleted,
one process of a node stopped or shared memory that nobody holds dropped (over SSH). Nothing else.

Every request is sent at most once. What may be written is decided by whoever holds it: `bot/remediation` only.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kubernetes.client import ApiClient

from bot.clients.kubernetes_rest import Rest
from bot.errors import Conflict, Forbidden, Rejected, Unsupported, WorldError
from bot.model import ObjectRef
from bot.ports import Json, NodeHands

FIELD_MANAGER = "oombot"
JSON_PATCH = "application/json-patch+json"
# the API server's words for a JSON patch that does not apply; a validation error names the field instead (both are 422)
NOT_APPLICABLE = "the server rejected our request due to an error in our request"
NO_RIGHTS = (" cannot ", "(401)")  # the authoriser's words; admission says "denied the request" or "exceeded quota" with the same status


class KubernetesWriter:
    """One cluster. `api_client` comes from `kubernetes_config.api_client(...)` and holds the writing credentials. Safe to use from several threads."""

    def __init__(self, name: str, api_client: ApiClient, hands: NodeHands | None = None) -> None:
        self.name, self._hands = name, hands
        self._rest = Rest(name, api_client)

    def uid(self) -> str:
        """The UID of the namespace kube-system, asked each time: the address may lead to another cluster by now."""
        return str(self._rest.json("GET", self._rest.path("v1", "Namespace", "", "kube-system"))["metadata"]["uid"])

    def get(self, ref: ObjectRef) -> Json:
        """One object. Raises NotFound, Forbidden, Temporary."""
        return self._rest.json("GET", self._path(ref))

    def patch(self, ref: ObjectRef, operations: Sequence[Mapping[str, Any]], *, dry_run: bool) -> Json:
        """The object after a JSON patch. Raises Conflict when a `test` does not hold, Rejected with the server's words, NotFound, Forbidden.

        Temporary (no answer, broken connection) leaves open whether it was applied: look at the object before sending it again.
        """
        query = [("fieldManager", FIELD_MANAGER), ("fieldValidation", "Strict"), *([("dryRun", "All")] if dry_run else [])]
        try:
            return self._rest.json("PATCH", self._path(ref), query, body=[dict(one) for one in operations], content_type=JSON_PATCH)
        except (Rejected, Forbidden) as wrong:
            raise self._meant(wrong, ref) from wrong

    def delete_pod(self, ref: ObjectRef, *, dry_run: bool) -> None:
        """Deletes the pod if it still has `ref.uid`. Raises NotFound when it is gone, Conflict when it is another one by now."""
        if ref.kind != "Pod" or not ref.uid:
            raise Rejected(f"{self.name}: only a pod is deleted, and only by its UID, not {ref}")
        self._delete(ref, dry_run=dry_run)

    def create_cron_job(self, ref: ObjectRef, body: Mapping[str, Any], *, dry_run: bool) -> Json:
        """The CronJob as it was made. Raises Conflict when there is one of that name, Rejected with the server's words, Forbidden."""
        if ref.kind != "CronJob" or body.get("kind") != "CronJob":
            raise Rejected(f"{self.name}: only a CronJob is made, not {ref}")
        query = [("fieldManager", FIELD_MANAGER), ("fieldValidation", "Strict"), *([("dryRun", "All")] if dry_run else [])]
        try:
            return self._rest.json("POST", self._rest.path(ref.api_version, ref.kind, ref.namespace), query, body=dict(body))
        except (Rejected, Forbidden) as wrong:
            raise self._meant(wrong, ref) from wrong

    def delete_cron_job(self, ref: ObjectRef, *, dry_run: bool) -> None:
        """Deletes the CronJob if it still has `ref.uid`. Raises NotFound when it is gone, Conflict when it is another one by now."""
        if ref.kind != "CronJob" or not ref.uid:
            raise Rejected(f"{self.name}: only a CronJob is deleted, and only by its UID, not {ref}")
        self._delete(ref, dry_run=dry_run)

    def stop_process(self, ref: ObjectRef, addresses: Sequence[str], pid: int, start: int, *, dry_run: bool) -> None:
        """Over SSH, by the account that may. Raises Unsupported without one, Conflict when the process must not be touched or (dry run) is not there."""
        if self._hands is None:
            raise Unsupported("no account that may stop a process is configured (ssh.stop_user)")
        if not dry_run:
            self._hands.stop(ref.name, addresses, pid, start)
        elif f"{pid}\t{start}\t" not in self._hands.processes(ref.name, addresses):
            raise Conflict(f"{ref}: process {pid} is not there any more")

    def drop_segments(self, ref: ObjectRef, addresses: Sequence[str], words: Sequence[str], *, dry_run: bool) -> None:
        """Over SSH, by the account that may. Raises Unsupported without one, Conflict when a segment must not be touched or (dry run) is not there."""
        if self._hands is None:
            raise Unsupported("no account that may drop shared memory is configured (ssh.stop_user)")
        self._hands.drop(ref.name, addresses, words, dry_run=dry_run)

    def _delete(self, ref: ObjectRef, *, dry_run: bool) -> None:
        body: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": ref.uid}}
        if ref.kind == "CronJob":
            body["propagationPolicy"] = "Background"
        if dry_run:
            # in the body: the API server does not look at the query of a DELETE that has a body, and would delete for real
            body["dryRun"] = ["All"]
        self._rest.json("DELETE", self._path(ref), body=body)

    def _meant(self, wrong: WorldError, ref: ObjectRef) -> WorldError:
        """A refusal by what it means: a failed `test`, an admission plugin or quota (a 403 as well), or missing rights."""
        if NOT_APPLICABLE in str(wrong):
            return Conflict(f"{self.name}: {ref} is not what the patch was made for").answered(wrong.status, wrong.reason, wrong.words)
        if isinstance(wrong, Forbidden) and not any(words in str(wrong) for words in NO_RIGHTS):
            return Rejected(str(wrong)).answered(wrong.status, wrong.reason, wrong.words)
        return wrong

    def _path(self, ref: ObjectRef) -> str:
        return self._rest.path(ref.api_version, ref.kind, ref.namespace, ref.name)
