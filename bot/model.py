"""All nouns. Read this file first.

    Request or Alert -> Target -> Bundle (Evidence, Gaps) -> Facts -> Findings -> Diagnosis -> Recommendations
    a person approves -> Remediation (Steps) -> Outcome; a Case holds it all

Who asks, where and what about (Actor to Target) stands in `bot/asked.py`. Frozen, no I/O, no vendor. "We looked and there was none" and "we did not look" are different values everywhere (`bot/facts.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, BinaryIO

from bot.asked import Actor as Actor
from bot.asked import Alert as Alert
from bot.asked import Conversation as Conversation
from bot.asked import ObjectRef as ObjectRef
from bot.asked import Person as Person
from bot.asked import Request as Request
from bot.asked import Target as Target
from bot.asked import TargetQuery as TargetQuery

# ---------------------------------------------------------------- words for people


@dataclass(frozen=True, slots=True)
class Text:
    """One sentence for people in each language we speak. Chinese falls back to English when it is empty."""

    en: str
    zh: str = ""

    def say(self, language: str) -> str:
        return self.zh if language == "zh" and self.zh else self.en

    def __str__(self) -> str:
        return self.en


@dataclass(frozen=True, slots=True)
class Words:
    """A message by its template: `playbooks/messages/<language>/<key>.j2`, filled with `parameters`."""

    key: str
    parameters: Mapping[str, str] = field(default_factory=dict)


# ---------------------------------------------------------------- what was read


@dataclass(frozen=True, slots=True)
class BundleFile:
    """One evidence file. `open` gives its bytes from the start each time (a gigabyte streams); `cut` says that its start or end is missing."""

    name: str
    open: Callable[[], BinaryIO]
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Gap:
    """What could not be read, why, and what it would have told. `matters`: whether it could change the answer (None: not known)."""

    source: str
    reason: str
    would_tell: str = ""
    matters: bool | None = None
    would_tell_zh: str = ""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Evidence files by name (DESIGN: `pod.json`, `events.json`, `container.log`, `previous.log`, `kernel.log`, `nvidia-smi.txt`,
    `ray_status.txt`, `node_readings.txt`, `args.txt`, `bundle.json`, `node.json`, `workload.json`, `logs/<container>[.previous].log`).
    `path` is the folder or "live"; `gaps` are those met while collecting."""

    path: str
    files: Mapping[str, BundleFile]
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a fact was read. `line` counts from 1, lines end at a line feed only; None for a whole file (JSON)."""

    source: str
    line: int | None = None
    quote: str = ""  # redacted; part of that line, "..." where shortened


Value = str | int | float | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """One typed reading. The vocabulary (names, types, units) is in `bot/facts.py`."""

    name: str
    value: Value
    place: Place | None = None


# ---------------------------------------------------------------- what it means


class Certainty(StrEnum):
    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Phase(StrEnum):
    """Where in the life of a server; in order of time."""

    IMPORT = "import"
    CONFIG = "config"
    DEVICE = "device"
    WEIGHTS = "weights"
    PROFILING = "profiling"
    CACHE_SIZING = "cache_sizing"
    CACHE_ALLOCATION = "cache_allocation"
    GRAPH_CAPTURE = "graph_capture"
    WARMUP = "warmup"
    SERVING = "serving"
    SHUTDOWN = "shutdown"

    @property
    def order(self) -> int:
        return list(Phase).index(self)


@dataclass(frozen=True, slots=True)
class Quote:
    """A piece of proof: it stands in `source` at `line` (None: the whole file), and `says` what it shows."""

    source: str
    line: int | None
    quote: str
    says: Text


@dataclass(frozen=True, slots=True)
class RunnerUp:
    cause: str
    certainty: Certainty


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a size change leads to. None where it cannot be known."""

    available_kv_bytes: int | None = None
    kv_tokens: int | None = None
    max_concurrency: float | None = None
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One remedy of the vocabulary: `remedy` and `direction` ("gpu_memory_utilization", "lower"); `direction` is "" where there is none."""

    remedy: str
    direction: str
    why: Text
    effect: Text
    risk: str  # low | medium | high
    from_value: str | int | float | None = None
    to_value: str | int | float | None = None
    predicted: Predicted | None = None
    general: bool = False  # `why` says what the remedy does, and nothing of this incident
    option: str = ""  # the option of the server that failed, as it is typed; "" where there is none

    @property
    def id(self) -> str:
        return f"{self.remedy}:{self.direction}" if self.direction else self.remedy


@dataclass(frozen=True, slots=True)
class WillNotHelp:
    remedy: str
    direction: str
    why: Text


@dataclass(frozen=True, slots=True)
class Ledger:
    """The server's memory on the rank with the least room, bytes. A field neither printed nor derivable is None; `derived` names the computed ones."""

    rank: int | None = None
    ranks_seen: int = 1
    total_bytes: int | None = None
    free_at_start_bytes: int | None = None
    utilization: float | None = None
    requested_bytes: int | None = None
    weights_bytes: int | None = None
    activation_peak_bytes: int | None = None
    non_torch_bytes: int | None = None
    cudagraph_estimate_bytes: int | None = None
    cudagraph_bytes: int | None = None
    available_kv_bytes: int | None = None
    kv_blocks: int | None = None
    kv_tokens: int | None = None
    max_model_len: int | None = None
    max_concurrency: float | None = None
    needed_kv_bytes: int | None = None
    estimated_max_len: int | None = None
    derived: tuple[str, ...] = ()
    residual_bytes: int | None = None
    failed: str | None = None
    estimate_in_sum: bool | None = None  # whether the graph estimate is taken off the budget (by which sum closes, else by version)
    others_bytes: int | None = None  # what other processes on the card hold, where the server printed it (0.6.4)
    plain_attention: bool | None = None  # False: hybrid, bytes per token change with the length; None: not shown
    notes: tuple[Text, ...] = ()  # what is odd: a sum that does not close, another utilisation than stated, one rank seen of several


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer. `phase` is where it failed, `reached` the last phase that the newest run is known to have entered (both None when not readable).
    `engine_version` is "" when it was not printed."""

    cause: str
    family: str
    certainty: Certainty
    summary: Text
    evidence: tuple[Quote, ...] = ()
    against: tuple[Quote, ...] = ()
    runners_up: tuple[RunnerUp, ...] = ()
    gaps: tuple[Gap, ...] = ()
    ledger: Ledger | None = None
    recommendations: tuple[Recommendation, ...] = ()
    will_not_help: tuple[WillNotHelp, ...] = ()
    phase: Phase | None = None
    reached: Phase | None = None
    engine_version: str = ""
    host_peak_bytes: int | None = None  # the most host memory that the server's container was seen to use


# ---------------------------------------------------------------- what is done about it


class StepKind(StrEnum):
    PATCH = "patch"  # JSON patch of `object`
    DELETE_POD = "delete_pod"  # with a UID precondition
    CREATE = "create"  # a CronJob, the `value` of the only entry of `patch`
    DELETE = "delete"  # of what a CREATE made, with a UID precondition
    STOP_PROCESS = "stop_process"  # on the node `object`: pid, start and addresses are the `value` of the only entry of `patch`
    DROP_SEGMENTS = "drop_segments"  # on the node `object`: words (each binds one segment) and addresses, as above


@dataclass(frozen=True, slots=True)
class Step:
    """One write. `patch` is a JSON patch (RFC 6902) whose `test` operations bind what was seen; empty for a deletion.
    A step that deletes the not-ready pods of a StatefulSet names each one by UID in its own step."""

    kind: StepKind
    object: ObjectRef
    says: Text
    patch: tuple[Mapping[str, Any], ...] = ()
    after_rollout: bool = False  # only once the rollout that the steps before it began is through (an undo that puts the strategy back)


@dataclass(frozen=True, slots=True)
class Bound:
    """What an approval is bound to besides the digest: a change of any of these voids it; status, replicas and metadata alone do not."""

    cluster_uid: str  # of the namespace kube-system
    object_uid: str
    template_sha256: str  # canonical JSON of spec.template
    values: Mapping[str, Any] = field(default_factory=dict)  # JSON pointer -> value before; a missing path is absent here
    template: str = "/spec/template"  # JSON pointer of what template_sha256 is of
    container: str = ""  # JSON pointer of the server's container ("" in plans of older versions)
    shown: str = ""  # that template as YAML without secrets, only to show what somebody else changed in it; no part of the digest


@dataclass(frozen=True, slots=True)
class Expectation:
    """What must hold afterwards, so that the outcome can be called verified."""

    pass_phase: Phase | None = None  # the new process must get past this phase (where the old one died)
    predicted: Predicted | None = None
    cause: str = ""  # must not be diagnosed again


@dataclass(frozen=True, slots=True)
class Remediation:
    """A plan that was shown. `digest` (sha256 over the canonical JSON of all that is not a time) is what an approval binds."""

    id: str
    action: str  # restart | set_engine_argument | set_environment_variable
    direction: str  # "apply" | "undo"
    remedy: str  # id of the vocabulary that it carries out, e.g. "gpu_memory_utilization:lower"
    target: Target
    object: ObjectRef
    steps: tuple[Step, ...]
    bound: Bound
    diff: str  # unified diff of the object that a person knows, YAML
    notes: tuple[Text, ...]  # what restarts, for how long capacity is missing, what undo does
    risk: str
    expects: Expectation
    before: Mapping[str, Any]  # what undo puts back: JSON pointer -> value before; None means "was not there"
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Handout:
    """What is not done by the bot: the patch or command to paste, and why the bot does not do it."""

    remedy: str
    reason: Text
    paste: str
    language: str = "yaml"  # for the code block


@dataclass(frozen=True, slots=True)
class Approval:
    remediation_id: str
    digest: str
    actor: Actor
    at: datetime
    typed: str = ""  # the name that they typed, where the risk wants that


@dataclass(frozen=True, slots=True)
class Rollout:
    """A look at a rollout. `stuck` names the reason when it cannot go on by itself: unschedulable | never_ready | crash_looping | paused | update_failed."""

    wanted: int
    updated: int
    ready: int
    done: bool
    stuck: str = ""
    detail: str = ""
    new_pods: tuple[str, ...] = ()  # names of the pods of the new template, newest first
    starting: bool = False  # one of them is still within the time that its probes allow for a start


class Verdict(StrEnum):
    VERIFIED = "verified"
    FAILED = "failed"
    NOT_VERIFIABLE = "not_verifiable"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: Verdict
    says: Text
    at: datetime
    diagnosis: Diagnosis | None = None  # of the new process


@dataclass(frozen=True, slots=True)
class Difference:
    """A bound value that is not what it was: `path` (JSON pointer, or "uid", "cluster"), and who changed it by managedFields, if known."""

    path: str
    before: Any
    now: Any
    who: str = ""


# ---------------------------------------------------------------- the case


class State(StrEnum):
    """States of a Case; the allowed moves are one table in `bot/lifecycle.py`."""

    RECEIVED = "received"
    CHECKING = "checking"
    CHECK_FAILED = "check_failed"  # target not found, cluster not reachable: the thread says so
    DIAGNOSED = "diagnosed"  # waits for a decision
    PLANNING = "planning"  # somebody pressed Apply (or Undo): plan and dry run
    AWAITING_APPROVAL = "awaiting_approval"
    APPROVED = "approved"
    EXECUTING = "executing"
    WATCHING = "watching"
    VERIFYING = "verifying"
    STUCK = "stuck"  # the rollout cannot go on: wait, undo, leave
    VERIFIED = "verified"
    VERIFICATION_FAILED = "verification_failed"  # with a new diagnosis: undo, leave
    NOT_VERIFIABLE = "not_verifiable"
    UNDONE = "undone"
    LEFT = "left"  # somebody chose to leave it as it is
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Button:
    """A button under a message: an opaque id and nothing else leaves the bot. `remediation_id` and `index` stay here.

    verbs: apply, show (index: recommendation), approve, reject, undo, wait, leave, retry, preview_again;
    confirm: no button that is seen, but the form that `person` opened to approve by typing a name"""

    id: str
    verb: str
    index: int = 0
    remediation_id: str = ""
    person: str = ""


@dataclass(frozen=True, slots=True)
class Press:
    """A button was pressed. `key` is unique for one interaction."""

    key: str
    button_id: str
    actor: Actor
    conversation: Conversation
    received_at: datetime
    reason: str = ""
    typed: str = ""


@dataclass(frozen=True, slots=True)
class ProgressLine:
    """One line of the progress message. `state`: waiting | running | done | failed."""

    name: str
    state: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """One change of state, as it is kept with the Case."""

    at: datetime
    from_state: State
    to_state: State
    who: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """What came back for one step: whose object it is, and by which numbers it is found again in the cluster's own audit log. Never its content.

    `recognised`: an earlier try had done it, so nothing was sent now. Empty and None where the far side gives no such number.
    """

    object: str
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    recognised: bool = False


@dataclass(frozen=True, slots=True)
class Life:
    """How often the server's process in one pod has ended. `ended`: how it did last, in the cluster's words; `failed`: the pod is over (evicted)."""

    pod: str
    uid: str
    restarts: int
    ended: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """A metric of `playbooks/metrics` by its id, of the workload's pods over the `over_s` seconds before `at`. `value`: None when there is none, since `reason`."""

    metric: str
    value: float | None
    at: datetime
    over_s: float
    reason: Text | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One carried-out Remediation, apply or undo. `id` stands in the object's annotation `oombot.io/operation`."""

    id: str
    remediation: Remediation
    requested_by: Actor  # who pressed Apply or Undo
    requested_at: datetime
    expires_at: datetime
    approvals: tuple[Approval, ...] = ()
    next_step: int = 0  # steps before it are done
    started_at: datetime | None = None
    rollout: Rollout | None = None
    outcome: Outcome | None = None
    watch_until: datetime | None = None
    sending: int | None = None  # the step that is being sent; after a crash nobody knows whether it arrived
    ended: Words | None = None  # why it ended without being carried out: rejected, expired, changed meanwhile, refused
    audit_head: str = ""  # head of the audit trail when the outcome was kept; posted with it
    needed: int = 1  # how many different people have to approve
    must_type: str = ""  # the name that each of them types; "": a click is enough
    aftercare_until: datetime | None = None  # a verified change is watched until then
    lives: tuple[Life, ...] | None = None  # when that began
    aftermath: Outcome | None = None  # what that came to: verified (nothing happened), or failed
    there: tuple[str, ...] = ()  # UIDs of the pods of another template than the one that is written, right before the first write (`remediation.pods_there`)
    measured: tuple[Measured, ...] = ()  # right before the first write, where there is a metrics server


@dataclass(frozen=True, slots=True)
class Act:
    """A change that was begun: what the quotas count. `id` is the operation's."""

    id: str
    at: datetime
    cluster: str
    namespace: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The press that is being worked on (planning): kept with the Case, so that a killed process still knows who wanted what."""

    actor: Actor
    conversation: Conversation
    verb: str  # apply | undo
    index: int = 0  # of the recommendation, for apply
    id: str = ""  # what its plan and its operation are called, so that a process that plans it again after a kill calls them the same


@dataclass(frozen=True, slots=True)
class Case:
    """All that is known of one incident. `version` is for compare-and-set; `posts` maps a purpose to the id of the message that carries it."""

    id: str
    version: int
    state: State
    request: Request
    created_at: datetime
    updated_at: datetime
    target: Target | None = None
    progress: tuple[ProgressLine, ...] = ()
    diagnosis: Diagnosis | None = None
    buttons: tuple[Button, ...] = ()
    operation: Operation | None = None  # the current or last one
    operations: tuple[Operation, ...] = ()  # ended ones, oldest first
    handout: Handout | None = None
    differences: tuple[Difference, ...] = ()
    trouble: Words | None = None  # why the check failed, the plan was refused, and so on
    posts: Mapping[str, str] = field(default_factory=dict)  # an empty id: posting was tried, and whether it arrived is not known
    history: tuple[Move, ...] = ()
    asked: Asked | None = None
    asked_again: tuple[str, ...] = ()  # ids of those who pressed Try again: they asked for the check, too
    handled: tuple[str, ...] = ()  # keys of presses that had their effect
    announced: Mapping[str, str] = field(default_factory=dict)  # purpose -> fingerprint of what its message shows
    by_hand: tuple[int, ...] = ()  # numbers of the recommendations that the bot would only show
    notes: int = 0  # how many notes the thread has; the newest shows trouble, differences, handout as they are now


@dataclass(frozen=True, slots=True)
class Job:
    """A piece of work for the queue: a name, the Case, small parameters. `key`: at most one waiting job has it."""

    name: str
    case_id: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    run_at: datetime | None = None
    key: str = ""
