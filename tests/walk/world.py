"""A small world for the use-cases: people, a chat, a cluster with one Deployment, a clock and a queue that a test moves by hand.

Named fakes that keep the ports' contracts, and can be told to fail. The store and the audit trail are the real ones.
"""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bot.audit import AuditTrail
from bot.cases import Cases, Timings
from bot.cases.engine import Engine
from bot.clients.sqlite import Database
from bot.errors import Conflict, OombotError, Permanent, StoreError, TargetNotFound, TimedOut, UserError, VersionConflict
from bot.model import (
    Actor,
    Bound,
    Bundle,
    Button,
    Case,
    Certainty,
    Conversation,
    Diagnosis,
    Difference,
    Expectation,
    Handout,
    Job,
    Life,
    Measured,
    ObjectRef,
    Operation,
    Outcome,
    Person,
    Phase,
    Press,
    ProgressLine,
    Quote,
    Recommendation,
    Remediation,
    Request,
    Rollout,
    State,
    Step,
    StepKind,
    Target,
    TargetQuery,
    Text,
    Verdict,
    Words,
    Written,
)  # fmt: skip
from bot.policy import ApproverRule, Policy, ReadRule
from bot.remediation.measure import compare
from bot.store.sqlite import SqliteStore

START = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
OPS, OTHER = Conversation("COPS"), Conversation("COTHER")
ANA, JO, WEI, LI = (Actor(name, "slack") for name in ("UANA", "UJO", "UWEI", "ULI"))
DEPLOYMENT = ObjectRef("apps/v1", "Deployment", "llm", "chat", "uid-1")
TARGET = Target("prod", "llm", "chat-old", "uid-pod", "server", "node-1", DEPLOYMENT, 1)
RECOMMENDATION = Recommendation("max_model_len", "lower", Text("the context does not fit"), Text("it fits"), "medium", 131072, 57344, option="--max-model-len")
SICK = Diagnosis("context_exceeds_kv_cache", "device_memory", Certainty.CERTAIN, Text("it does not fit"), recommendations=(RECOMMENDATION,), phase=Phase.CACHE_SIZING)
DONE = Rollout(1, 1, 1, True, new_pods=("chat-new",))
FINE = Diagnosis("healthy", "not_memory", Certainty.CERTAIN, Text("it serves"), reached=Phase.SERVING)
POLICY = Policy(
    read=(ReadRule(channels=("COPS",)),), actions=("set_engine_argument",), approvers=(ApproverRule(groups=("SONCALL",)),), approval_channels=("COPS",)
)  # fmt: skip


class HandClock:
    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time

    def forward(self, **span: float) -> None:
        self.time += timedelta(**span)


class HandQueue:
    """Jobs in order of their time; a test runs what is due. Keeps the contract of the real one: keys, attempts, given up."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock
        self._kinds: dict[str, tuple[Callable[[Job], None], int]] = {}
        self.jobs: list[tuple[datetime, int, Job, int]] = []
        self._order = itertools.count()
        self.ran: list[str] = []
        self.errors: list[str] = []

    def register(self, name: str, work: Callable[[Job], None], *, time_to_run_s: float = 60, attempts: int = 5) -> None:
        self._kinds[name] = (work, attempts)

    def put(self, job: Job) -> None:
        if not job.key or all(other.key != job.key for _, _, other, _ in self.jobs):
            self.jobs.append((job.run_at or self._clock.now(), next(self._order), job, 0))

    def put_missing(self, job: Job) -> bool:
        if any(other.key == job.key or (other.name, other.case_id) == ("given_up", job.case_id) for _, _, other, _ in self.jobs):
            return False
        self.put(job)
        return True

    def start(self) -> None: ...

    def stop(self, *, timeout_s: float = 10) -> None: ...

    def run_due(self, limit: int = 300) -> None:
        """Runs all that is due now, also what that puts for now."""
        for _ in range(limit):
            due = sorted(one for one in self.jobs if one[0] <= self._clock.now())
            if not due:
                return
            self.jobs.remove(due[0])
            self._run(due[0])
        raise AssertionError(f"still busy after {limit} jobs: {self.ran[-10:]}")

    def run_named(self, name: str) -> None:
        """Runs the waiting jobs of a name, as another worker would."""
        for entry in [one for one in self.jobs if one[2].name == name]:
            self.jobs.remove(entry)
            self._run(entry)

    def names(self) -> list[str]:
        return [job.name for _, _, job, _ in self.jobs]

    def _run(self, entry: tuple[datetime, int, Job, int]) -> None:
        _, _, job, attempts = entry
        self.ran.append(job.name)
        work, most = self._kinds[job.name]
        try:
            work(job)
        except OombotError as wrong:
            self.errors.append(f"{job.name}: {wrong}")
            if isinstance(wrong, (Permanent, UserError)) or attempts + 1 >= most:
                self.put(Job("given_up", job.case_id, {**job.parameters, "job": job.name, "error": str(wrong)}))
            else:
                pause = timedelta(seconds=0 if isinstance(wrong, VersionConflict) else 2**attempts)
                self.jobs.append((self._clock.now() + pause, next(self._order), job, attempts + 1))


@dataclass
class ScriptedChat:
    """Keeps what a channel would show. `down`: raises Temporary; `lost_answers`: so many posts arrive though their answer is lost."""

    down: bool = False
    lost_answers: int = 0
    refuses: str = ""
    messages: dict[str, tuple[str, str, Case]] = field(default_factory=dict)  # id -> case, purpose, the Case it shows
    whispers: list[tuple[str, Words]] = field(default_factory=list)

    def post(self, case: Case, purpose: str) -> str:
        self._check(purpose)
        if case.posts.get(purpose) == "":
            for name, (of_case, shown, _) in self.messages.items():
                if (of_case, shown) == (case.id, purpose):
                    return name
        name = f"m{len(self.messages) + 1}"
        self.messages[name] = (case.id, purpose, case)
        if self.lost_answers:
            self.lost_answers -= 1
            raise TimedOut("the answer did not come")
        return name

    def update(self, case: Case, purpose: str, message: str) -> None:
        self._check(purpose)
        self.messages[message] = (case.id, purpose, case)

    def whisper(self, actor: Actor, conversation: Conversation, words: Words) -> None:
        self._check("whisper")
        self.whispers.append((actor.id, words))

    def purposes(self) -> list[str]:
        return [purpose for _, purpose, _ in self.messages.values()]

    def shows(self, purpose: str) -> Case:
        return next(case for _, shown, case in self.messages.values() if shown == purpose)

    def told(self, actor: Actor) -> list[str]:
        return [words.key for who, words in self.whispers if who == actor.id]

    def _check(self, purpose: str) -> None:
        if self.down:
            raise TimedOut("the chat does not answer")
        if purpose == self.refuses:
            raise Permanent(f"{purpose} is refused")


@dataclass
class ListedPeople:
    people: dict[str, Person] = field(default_factory=lambda: {name: Person(name, "T1", f"{name.lower()}@x.example") for name in ("UANA", "UJO", "UWEI", "ULI")})
    groups: dict[str, frozenset[str]] = field(default_factory=lambda: {"SONCALL": frozenset({"UWEI", "ULI", "UJO", "UANA"})})
    down: bool = False

    def person(self, actor_id: str) -> Person:
        self._check()
        if actor_id not in self.people:
            raise Permanent(f"nobody has the id {actor_id}")
        return self.people[actor_id]

    def members(self, group: str) -> frozenset[str]:
        self._check()
        return self.groups.get(group, frozenset())

    def _check(self) -> None:
        if self.down:
            raise TimedOut("the platform does not answer")


@dataclass
class NamedCluster:
    """A reader or writer that only has its name: the engine below does what it would do."""

    name: str = "prod"


@dataclass
class SmallWorld:
    """One Deployment with one value. `fail[step name]`: errors that the next calls raise, in order. `writes`: every write that arrived, in order."""

    value: int = 131072
    operations: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    fail: dict[str, list[Exception]] = field(default_factory=dict)
    changed_by: str = ""
    steps: int = 1
    after_rollout: int = 0
    rollout: Rollout = DONE
    new_pod: Diagnosis | None = FINE
    kept_by: str = ""  # Argo CD, Flux or Helm
    verdict: Verdict | None = None
    handout: Handout | None = None
    reverted: tuple[Difference, ...] = ()
    now_alive: tuple[Life, ...] = (Life("chat-new", "uid-new", 0),)
    recommendations: int = 1
    undone_steps: int = 0  # of the operation that the last undo was planned for
    dry_runs: int = 0
    progress: tuple[str, ...] = ()
    on_call: Callable[[str], None] = lambda _name: None
    throttled: list[float | None] = field(default_factory=list)  # what the metrics say, one after the other; nothing: there are none
    read: tuple[Quote, ...] = ()  # what the metrics say at the time of a check
    pods: list[tuple[str, ...]] = field(default_factory=list)  # UIDs that are there before the first write, one operation after the other
    left_out: list[tuple[str, ...]] = field(default_factory=list)  # those that a look at the rollout is told of
    asked_of: list[tuple[tuple[str, ...], timedelta]] = field(default_factory=list)  # of which pods, over which time

    def _call(self, name: str) -> None:
        self.on_call(name)
        if self.fail.get(name):
            raise self.fail[name].pop(0)

    def locate(self, query: TargetQuery, clusters: Mapping[str, Any]) -> Target:
        self._call("locate")
        if query.name == "chat-new":
            return replace(TARGET, pod="chat-new")
        if "chat" not in query.name:
            raise TargetNotFound(f"no pod {query.name}", ["llm/chat-old"])
        return TARGET

    def collect(self, target: Target, reader: Any, shells: Any, progress: Any, *, clock: Any, budget_s: float) -> Bundle:
        for name in self.progress:
            progress.report(ProgressLine(name, "done"))
        self._call("collect")
        return Bundle(target.pod, {})

    def examine(self, bundle: Bundle, knowledge: Any) -> Diagnosis:
        if bundle.path == "chat-new":
            assert self.new_pod is not None
            return self.new_pod
        return replace(SICK, recommendations=(RECOMMENDATION,) * self.recommendations)

    def plan(self, wanted: Recommendation, target: Target, reader: Any, *, now: datetime, new_id: Callable[[], str], diagnosis: Diagnosis | None, in_place: bool = False) -> Remediation | Handout:
        self._call("plan")
        return self.handout or self._plan(new_id(), "apply", int(wanted.to_value or 0))

    def foresee(self, wanted: Recommendation, target: Target, reader: Any, *, now: datetime, new_id: Callable[[], str], diagnosis: Diagnosis | None, in_place: bool = False) -> Remediation | Handout:
        self._call("foresee")
        return self.handout or self._plan(new_id(), "apply", int(wanted.to_value or 0))

    def plan_undo(self, operation: Operation, reader: Any, *, new_id: Callable[[], str]) -> Remediation:
        self._call("plan_undo")
        self.undone_steps = len(operation.remediation.steps)
        return self._plan(new_id(), "undo", int(operation.remediation.before["/value"]))

    def _plan(self, plan_id: str, direction: str, to: int) -> Remediation:
        steps = tuple(
            Step(StepKind.PATCH, DEPLOYMENT, Text(f"step {index}"), ({"op": "replace", "path": "/value", "value": to},), after_rollout=index >= self.steps - self.after_rollout)
            for index in range(self.steps)
        )  # fmt: skip
        bound = Bound("cluster", "uid-1", "sha", {"/value": self.value})
        return Remediation(
            plan_id, "set_engine_argument", direction, "max_model_len:lower", TARGET, DEPLOYMENT, steps, bound, f"- {self.value}\n+ {to}\n", (), "medium",
            Expectation(), {"/value": self.value}, digest=f"digest-{plan_id}",
        )  # fmt: skip

    def differences(self, remediation: Remediation, reader: Any) -> tuple[Difference, ...]:
        self._call("differences")
        return self._differences(remediation)

    def _differences(self, remediation: Remediation) -> tuple[Difference, ...]:
        before = remediation.bound.values["/value"]
        return () if self.value == before else (Difference("/value", before, self.value, self.changed_by),)

    def digest_of(self, remediation: Remediation) -> str:
        return f"digest-{remediation.id}" if remediation.steps[0].patch[0]["value"] in (57344, 131072) else "another"

    def keeper(self, remediation: Remediation, reader: Any, *, in_place: bool) -> str:
        self._call("keeper")
        return "" if in_place or remediation.direction == "undo" else self.kept_by

    def dry_run(self, remediation: Remediation, writer: Any) -> None:
        self._call("dry_run")
        self.dry_runs += 1

    def execute_step(self, remediation: Remediation, index: int, operation_id: str, writer: Any) -> Written:
        """As the real one: a step of this operation that arrived before is recognised by its mark."""
        self._call("execute_step")
        mark = f"{operation_id}/{index}"
        back = Written(str(DEPLOYMENT), "uid-1", f"{800 + index}", 2 + index)
        if mark in self.operations:
            return replace(back, recognised=True)
        if index == 0 and self._differences(remediation):
            raise Conflict("a test does not hold")
        self.value = remediation.steps[index].patch[0]["value"]
        self.operations.append(mark)
        self.writes.append(f"{remediation.direction}:{index}")
        self._call("after_write")
        return back

    def carried_out(self, operation: Operation, reader: Any, undos: Sequence[Operation] = ()) -> Operation:
        """Of the step that was being sent, the mark tells. Each step of an undo that arrived has put one back."""
        self._call("carried_out")
        counts = [one.next_step + (f"{one.id}/{one.next_step}" in self.operations) for one in (operation, *undos)]
        return replace(operation, remediation=replace(operation.remediation, steps=operation.remediation.steps[sum(counts[1:]) : counts[0]]))

    def standing(self, operation: Operation, reader: Any) -> tuple[Difference, ...]:
        self._call("standing")
        return self.reverted

    def lives(self, remediation: Remediation, pods: Sequence[str], reader: Any) -> tuple[Life, ...]:
        self._call("lives")
        return self.now_alive

    def pods_there(self, remediation: Remediation, reader: Any) -> tuple[str, ...]:
        self._call("pods_there")
        return self.pods.pop(0) if self.pods else ()

    def observe(self, remediation: Remediation, reader: Any, there: Collection[str]) -> Rollout:
        self._call("observe")
        self.left_out.append(tuple(there))
        return self.rollout

    def judge(self, remediation: Remediation, before: Diagnosis | None, after: Diagnosis | None, rollout: Rollout, now: datetime) -> Outcome:
        if remediation.direction == "undo":
            return Outcome(Verdict.UNDONE, Text("as before"), now)
        verdict = self.verdict or (Verdict.NOT_VERIFIABLE if after is None else Verdict.VERIFIED if after.cause == "healthy" else Verdict.FAILED)
        return Outcome(verdict, Text(verdict.value), now, after)

    def measure(self, remediation: Remediation, cause: str, pods: Sequence[str], at: datetime, over: timedelta) -> tuple[Measured, ...]:
        self._call("measure")
        self.asked_of.append((tuple(pods), over))
        return (Measured("cpu_throttled", self.throttled.pop(0), at, over.total_seconds()),) if self.throttled else ()

    def engine(self) -> Engine:
        return Engine(
            self.locate, self.collect, self.examine, self.plan, self.foresee, self.plan_undo, self.differences, self.digest_of, self.keeper, self.dry_run, self.execute_step, self.carried_out, self.standing, self.lives, self.pods_there, self.observe, self.judge,
            self.measure, compare, lambda *_: self.read,
        )  # fmt: skip


class Stage:
    """All of it together, and what a test does with it."""

    def __init__(self, folder: Path, policy: Policy = POLICY, world: SmallWorld | None = None, writers: Mapping[str, Any] | None = None, **more: Any) -> None:
        self.folder, self.policy, self.more = folder, policy, more
        self.clock, self.chat, self.people, self.world = HandClock(), ScriptedChat(), ListedPeople(), world or SmallWorld()
        self.writers: Mapping[str, Any] = {"prod": NamedCluster()} if writers is None else writers
        self.keys = itertools.count(1)
        self.boot()

    def boot(self) -> None:
        """A process starts: everything in memory is new, what is kept is kept. Waiting jobs are lost with the fake queue, so `resume` has to find what is due."""
        self.store = SqliteStore(Database(self.folder / "oombot.db"))
        self.audit = AuditTrail(self.folder / "audit.jsonl", b"k" * 32, self.clock, self.store)
        self.queue = HandQueue(self.clock)
        self.cases = Cases(
            self.store, self.queue, {"prod": NamedCluster()}, self.writers, None, self.chat, self.people, self.policy, None, self.audit, self.clock,
            engine=self.world.engine(), **{"timings": Timings(), **self.more},
        )  # fmt: skip
        self.cases.bind(self.queue)
        self.cases.resume()

    def ask(self, actor: Actor = ANA, text: str = "chat-old", conversation: Conversation | None = OPS, key: str = "") -> Case:
        query = TargetQuery(text, "pod", text, "llm" if text.startswith("chat") else None)
        case = self.cases.receive(Request(key or f"r{next(self.keys)}", actor, query, self.clock.now(), conversation))
        self.queue.run_due()
        return self.now(case)

    def now(self, case: Case) -> Case:
        found = self.store.get(case.id)
        assert found is not None
        return found

    def button(self, case: Case, verb: str) -> Button:
        return next(one for one in self.now(case).buttons if one.verb == verb)

    def press(self, actor: Actor, button: Button, conversation: Conversation = OPS, *, key: str = "", reason: str = "") -> None:
        self.cases.press(Press(key or f"p{next(self.keys)}", button.id, actor, conversation, self.clock.now(), reason))

    def click(self, actor: Actor, case: Case, verb: str, conversation: Conversation = OPS, **more: str) -> Case:
        self.press(actor, self.button(case, verb), conversation, **more)
        self.queue.run_due()
        return self.now(case)

    def later(self, case: Case, **span: float) -> Case:
        self.clock.forward(**span)
        self.queue.run_due()
        return self.now(case)

    def approved(self) -> Case:
        """Ana asks, Jo applies, Wei approves; as far as it goes by itself."""
        case = self.ask()
        self.click(JO, case, "apply")
        return self.click(WEI, case, "approve")

    def events(self, what: str) -> list[dict[str, Any]]:
        return [entry["event"] for entry in self.audit.entries() if entry["event"]["what"] == what]


def planned(stage: Stage) -> Case:
    """Ana asked, Jo pressed Apply: the plan waits."""
    return stage.click(JO, stage.ask(), "apply")


def states(case: Case) -> list[State]:
    return [case.history[0].from_state, *(step.to_state for step in case.history)] if case.history else [case.state]


__all__ = ["ANA", "FINE", "JO", "LI", "OPS", "OTHER", "POLICY", "SICK", "START", "WEI", "SmallWorld", "Stage", "StoreError", "planned", "states"]
