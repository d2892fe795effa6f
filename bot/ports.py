"""Protocols for the outside. Reading and writing are two ports, so that the import contract can see the border.

Implementations raise only the errors of `bot/errors.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from bot.model import Act, Actor, Alert, Case, Conversation, Job, ObjectRef, Person, ProgressLine, Words

Json = dict[str, Any]


class Clock(Protocol):
    def now(self) -> datetime:
        """The time, with time zone UTC."""


class Progress(Protocol):
    """Handed down into long work; nothing calls back up."""

    def report(self, line: ProgressLine) -> None:
        """Replaces the line of the same name, else adds it. Cheap and never raises; a display may skip frames."""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What an allow-listed command printed. `cut`: more came than the cap and was dropped."""

    argv: tuple[str, ...]
    stdout: bytes
    stderr: bytes
    status: int
    cut: bool = False


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A part of a container's log. `cut_start`: older lines exist and were not read; `cut_end`: the byte cap ended it."""

    data: bytes
    cut_start: bool = False
    cut_end: bool = False


class ClusterReader(Protocol):
    """One cluster, with credentials that cannot write. Objects are plain JSON as the API server sends them."""

    name: str

    def uid(self) -> str:
        """The UID of the namespace kube-system: the cluster's identity."""

    def now(self) -> datetime:
        """The time by the cluster's own clock, as far as its last answer told: what it stamped is measured against that, and not against this machine's."""

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Json:
        """One object. Raises NotFound, Forbidden, Temporary."""

    def list(self, api_version: str, kind: str, namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = 500) -> Sequence[Json]:
        """Objects of a kind; an empty namespace means all. At most `limit`."""

    def names(self, api_version: str, kind: str, namespace: str = "", *, limit: int = 20_000) -> Sequence[Json]:
        """Objects of a kind of which only `metadata` is sure to be there: for a search by name among many."""

    def log(self, namespace: str, pod: str, container: str, *, previous: bool = False, tail_lines: int | None = None, limit_bytes: int = 4 << 20) -> LogPiece:
        """A container's log. Raises NotFound when there is none (no previous container)."""

    def run(self, namespace: str, pod: str, container: str, argv: Sequence[str], *, timeout_s: float = 10, limit_bytes: int = 1 << 20) -> CommandOutput:
        """Runs an allow-listed command in a container (exec)."""


class ClusterWriter(Protocol):
    """One cluster, with credentials that may write. Only `bot/remediation` and `bot/app.py` see one."""

    name: str

    def uid(self) -> str: ...

    def get(self, ref: ObjectRef) -> Json:
        """Reads with the writing credentials (for a compare right before a write)."""

    def patch(self, ref: ObjectRef, operations: Sequence[Mapping[str, Any]], *, dry_run: bool) -> Json:
        """JSON patch. Raises Conflict when a `test` does not hold (422) or 409, Rejected with the server's words, NotFound, Forbidden. Sent at most once: no retry."""

    def delete_pod(self, ref: ObjectRef, *, dry_run: bool) -> None:
        """Deletes the pod with `ref.uid` as a precondition. NotFound when it is gone already, Conflict when it is another one."""

    def create_cron_job(self, ref: ObjectRef, body: Mapping[str, Any], *, dry_run: bool) -> Json:
        """Makes a CronJob. Conflict when there is one of that name, Rejected, Forbidden. Sent at most once."""

    def delete_cron_job(self, ref: ObjectRef, *, dry_run: bool) -> None:
        """Deletes the CronJob with `ref.uid` as a precondition, and with it its Jobs. NotFound, Conflict as for a pod."""

    def stop_process(self, ref: ObjectRef, addresses: Sequence[str], pid: int, start: int, *, dry_run: bool) -> None:
        """Stops a process on the node `ref`, if it is still the one with that start time and belongs to no container; gone already is well, too.
        A dry run only looks whether it is there. Conflict when it must not be touched, Rejected, Unsupported without an account for it."""

    def drop_segments(self, ref: ObjectRef, addresses: Sequence[str], words: Sequence[str], *, dry_run: bool) -> None:
        """Drops shared memory on the node `ref`, all of it or none, while each segment is still that one and nobody holds it; gone already is well, too.
        A dry run only looks. Conflict when one must not be touched, Temporary when who holds it could not be told, Unsupported without an account for it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One row of a metrics server's answer. `value` is NaN where the row holds no number."""

    labels: Mapping[str, str]
    value: float


class Metrics(Protocol):
    """A metrics server of one cluster that understands PromQL. It is only asked."""

    def query(self, promql: str, at: datetime) -> Sequence[Sample]:
        """The vector of an instant query. Raises Temporary, Permanent (a partial answer too), Forbidden."""


class NodeHands(Protocol):
    """Stops stray processes on nodes and drops shared memory that nobody holds, with an account of its own. Raises HostKeyUnknown, Forbidden, Unreachable, Rejected."""

    def processes(self, node: str, addresses: Sequence[str]) -> str:
        """What holds memory of the node's GPUs: pid, start, uid, user, memory, GPU, control group, command; by tabs, one a line."""

    def stop(self, node: str, addresses: Sequence[str], pid: int, start: int) -> None:
        """Stops it. Conflict when it must not be touched, Rejected when it did not end; one that is gone already is well."""

    def segments(self, node: str, addresses: Sequence[str]) -> str:
        """Shared memory by the names of server libraries, and SysV segments: kind, inode or id, size, held, time, uid, user, age, state, name; by tabs.
        Temporary when the node cannot tell who holds it."""

    def drop(self, node: str, addresses: Sequence[str], words: Sequence[str], *, dry_run: bool) -> None:
        """Drops them, all or none; a dry run only looks. Conflict when one is not what it was or is held, Temporary when that cannot be told; what is gone already is well."""


class Shell(Protocol):
    """One node, over SSH. Commands come from the allow-list in `bot/evidence/commands`."""

    host: str

    def run(self, argv: Sequence[str], *, timeout_s: float = 10, limit_bytes: int = 1 << 20) -> CommandOutput: ...

    def close(self) -> None: ...


class Shells(Protocol):
    """Opens shells on nodes. Raises HostKeyUnknown, Forbidden, Unreachable; Unsupported when no SSH access is configured."""

    def open(self, node: str, addresses: Sequence[str]) -> Shell: ...


class Chat(Protocol):
    """A chat platform. `purpose` names which message of a Case: top | evidence | recommendation | plan:<remediation id> | outcome:<operation id> | note:<n>.

    Rendering is the implementation's business: it gets the whole Case. Both calls raise Temporary when trying again may help, and Permanent otherwise.
    """

    def post(self, case: Case, purpose: str) -> str:
        """Posts the message in the Case's thread ("top" starts the thread) and gives its id. After an ambiguous failure it first looks for the one already posted."""

    def update(self, case: Case, purpose: str, message: str) -> None:
        """Rewrites a posted message from the Case as it is now. Raises NotFound when it is gone or too old to be rewritten."""

    def whisper(self, actor: Actor, conversation: Conversation, words: Words) -> None:
        """Tells one person something that only they see."""


class People(Protocol):
    """Who is who, fetched fresh (a cache of at most 60 s). Fails closed: raises Temporary or Permanent when the platform does not say."""

    def person(self, actor_id: str) -> Person: ...

    def members(self, group: str) -> frozenset[str]:
        """Ids of a group's members: a Slack user group id (S...), as configured."""


class AlertDetails(Protocol):
    """What a paging system knows of an alert beyond its webhook (PagerDuty's carries no labels).

    `bot.cases.Cases(..., complete=partial(bot.evidence.alert.completed, alerts))`: the job `check` asks for the details of a Request with an `alert` and gets the
    Request with labels and target. The query's `kind` is "unknown" when the alert names nothing that can be found; then its `text` says what was looked for.
    """

    def fetch(self, alert: Alert) -> Alert:
        """The alert with its labels (what it had itself wins). Raises Temporary while the details are not there yet, and Permanent otherwise."""


class CaseStore(Protocol):
    """Keeps Cases and what was seen. Every method is atomic and survives kill -9."""

    def create(self, case: Case, key: str) -> tuple[Case, bool]:
        """Keeps a new Case unless `key` was seen: then gives the Case of that key, and False."""

    def get(self, case_id: str) -> Case | None: ...

    def save(self, case: Case) -> Case:
        """Compare-and-set on `case.version`: gives the Case with its new version, or raises VersionConflict."""

    def find_button(self, button_id: str) -> Case | None:
        """The Case that minted this button, also after the button was taken off its messages."""

    def open_cases(self) -> Sequence[Case]:
        """Those not in an end state, oldest first."""

    def recent(self, limit: int = 20) -> Sequence[Case]: ...

    def seen(self, key: str) -> bool:
        """Remembers `key`; True when it was remembered already."""

    def acts(self, since: datetime) -> Sequence[Act]:
        """The changes that were begun after that time."""

    def record_act(self, act: Act, since: datetime, allowed: Callable[[Sequence[Act]], None]) -> None:
        """Keeps that a change is begun, unless `allowed`, which gets the others since then, raises; of all who do so at once one after the other is looked at.
        One that is kept already (a killed process comes back) is not asked about again."""

    def get_flag(self, name: str) -> str | None: ...

    def set_flag(self, name: str, value: str | None) -> None:
        """Small settings that survive a restart, such as the kill switch ("frozen")."""


class JobQueue(Protocol):
    """Runs named jobs, at least once each, with a lease; knows names and case ids, not use-cases."""

    def register(self, name: str, work: Callable[[Job], None], *, time_to_run_s: float = 60, attempts: int = 5) -> None:
        """What a job of that name does. An attempt that raises Temporary, VersionConflict or an unforeseen error is made again after a growing pause,
        a Permanent or UserError is not; a job that is given up becomes one named "given_up" with `job` and `error` in its parameters."""

    def put(self, job: Job) -> None:
        """Durable when it returns. A waiting job of the same non-empty key is kept and this one dropped."""

    def put_missing(self, job: Job) -> bool:
        """The same, unless a job of the same key waits or runs, or one of its Case is being given up. Whether it was put."""

    def start(self) -> None: ...

    def stop(self, *, timeout_s: float = 10) -> None:
        """Takes no new job, waits for the running ones, gives back their leases."""
