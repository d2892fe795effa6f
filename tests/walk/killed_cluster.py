"""Rounds of check, apply, watch, verify and undo of several workloads side by side on a real API server, through one bot that is killed with -9 all the while, once they are diagnosed.

One control plane serves many rounds: after an undo the workloads are what they were before. What must hold at the end is looked at from outside; each write
is counted in the API server's own audit log. For a test (a few kills) and for the bench (a thousand).
"""

import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bot.lifecycle import END, RESTING
from bot.model import Actor, Case, Operation, Press, Request, State, StepKind, TargetQuery, Verdict
from bot.sandbox.demo.incidents import NAMESPACE, Incident, incidents
from bot.sandbox.kubelet.machine import machine
from tests.cluster.real_cluster import RealCluster
from tests.cluster.written import Write, writes
from tests.walk.cluster_bot import ClusterBot, live
from tests.walk.killing import MESSAGES, Killer, Tally
from tests.walk.world import ANA, JO, OPS, WEI

WITHIN_S = 240
# what cannot start, as a Deployment and as a StatefulSet, and a memory limit that is too small
WORKLOADS = (("chat", "Deployment"), ("chat", "StatefulSet"), ("embed", "Deployment"), ("chat", "Deployment"))
SCALE = 40.0
SHORT, LONG, EACH = (0.01, 0.4), (2.5, 4.5), 6  # seconds that a bot lives: too short for most of what it has begun, and each so many times long enough to get on


def bursts() -> Callable[[random.Random], float]:
    """How long each bot lives. Without a long life now and then a job would be given up for taking its process down each time."""
    lives = itertools.count(1)
    return lambda dice: dice.uniform(*(SHORT if next(lives) % EACH else LONG))


class Fleet:
    """A control plane, and workloads on it that fail; each has a node with one GPU of its own."""

    def __init__(self, workloads: Sequence[tuple[str, str]] = WORKLOADS) -> None:
        known = {each.name: each for each in incidents()}
        self.workloads = [_numbered(known[name], kind, number) for number, (name, kind) in enumerate(workloads, 1)]
        cards = [known[name].node.gpus[0].name for name, _ in workloads]
        names = [each["metadata"]["name"] for each in self.workloads]
        self.cluster = RealCluster([machine(name, card=card, labels={"pool": name}) for name, card in zip(names, cards, strict=True)], scale=SCALE)

    def start(self) -> None:
        self.cluster.start()
        for each in self.workloads:
            self.cluster.apply(each)

    def stop(self) -> None:
        self.cluster.stop()

    def found(self, workload: dict[str, Any]) -> dict[str, Any]:
        kind, name = workload["kind"], workload["metadata"]["name"]
        return next(each for each in self.cluster.objects("apps/v1", kind, NAMESPACE) if each["metadata"]["name"] == name)

    def failing(self) -> bool:
        """Whether each has a pod that has ended."""
        pods = [pod for pod in self.cluster.objects("v1", "Pod", NAMESPACE) if not pod["metadata"].get("deletionTimestamp")]
        hurt = {pod["metadata"]["labels"]["app"] for pod in pods if any(one.get("restartCount") for one in pod["status"].get("containerStatuses") or [])}
        return hurt >= {each["metadata"]["name"] for each in self.workloads}


def _numbered(incident: Incident, kind: str, number: int) -> dict[str, Any]:
    """The incident's manifest under a name of its own."""
    name = f"{incident.name}-{number}"
    made: dict[str, Any] = json.loads(json.dumps(incident.manifest).replace(f'"{incident.name}"', f'"{name}"'))
    return made | {"kind": kind, "spec": made["spec"] | ({"serviceName": name} if kind == "StatefulSet" else {})}


class ClusterRound:
    """One case for each workload of the fleet, from the request to undone. `folder` is fresh."""

    def __init__(self, fleet: Fleet, folder: Path, seed: int, kills: int, *, replicas: int = 1) -> None:
        self.fleet, self.seed = fleet, seed
        for role in ("reader", "remediator"):
            fleet.cluster.kubeconfig(folder / f"{role}.kubeconfig", role)
        self.bot = ClusterBot(folder)
        self.killer = Killer(folder, seed, kills, self._states, replicas=replicas, life=live, lasts=bursts())
        self.cases: list[str] = []
        self._pressed: set[str] = set()
        log = fleet.cluster.plane.audit_log
        self._since = log.stat().st_size if log.exists() else 0

    def now(self, case_id: str) -> Case:
        found = self.bot.store.get(case_id)
        assert found is not None
        return found

    def _states(self) -> list[str]:
        states = [self.now(each).state for each in self.cases]
        return [state.value for state in states if state not in END]

    def go(self) -> Tally:
        """Raises TimeoutError when it gets nowhere."""
        try:
            self._wait("the workloads to fail", self.fleet.failing)
            before = [self.fleet.found(each)["spec"] for each in self.fleet.workloads]
            for each in self.fleet.workloads:
                self.cases.append(self.bot.cases.receive(Request(f"{each['metadata']['name']}", ANA, _query(each), datetime.now(UTC), OPS)).id)
            self._wait("all to end", self._people)
            self.killer.at_most(2)
            self._wait("the threads to show it", self._shown)
            after = [self.fleet.found(each)["spec"] for each in self.fleet.workloads]
            for case_id, was, is_now in zip(self.cases, before, after, strict=True):
                self._look(self.now(case_id), was, is_now)
            self._look_whole()
        finally:
            self.killer.end()
            self.bot.world.database.close()
        return self.killer.tally

    def _wait(self, what: str, look: Callable[[], bool]) -> None:
        end = time.monotonic() + WITHIN_S
        while not look():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {WITHIN_S} s for {what}: {[_shown(each) for each in map(self.now, self.cases)]}; whispers {self.bot.world.rows('SELECT who, key FROM whispers')}")
            if self.cases:  # a check writes nothing: the kills are for what comes after it
                self.killer.keep_it_running(spares=any(each in ("received", "checking") for each in self._states()))
            time.sleep(0.03)

    def _people(self) -> bool:
        """Each case's people press what is next. True when there is nothing more to press."""
        found = [self.now(case_id) for case_id in self.cases]
        for number, case in enumerate(found):
            self._next(case, waits=number % 2 == 0)
        return all(case.state in END or _is_wrong(case) for case in found)

    def _next(self, case: Case, *, waits: bool) -> None:
        if case.state is State.DIAGNOSED and not case.operations:
            self._click(JO, case, "apply" if any(one.verb == "apply" for one in case.buttons) else "retry")  # it was looked at while it had just begun anew
        elif case.state is State.AWAITING_APPROVAL:
            self._click(WEI, case, "approve")
        elif case.state is State.VERIFIED and not (waits and case.operation is not None and case.operation.aftermath is None):
            self._click(JO, case, "undo")

    def _click(self, actor: Actor, case: Case, verb: str) -> None:
        button = next((one for one in case.buttons if one.verb == verb), None)
        if button is not None and button.id not in self._pressed:
            self._pressed.add(button.id)
            self.bot.cases.press(Press(f"p{self.bot.keys()}", button.id, actor, OPS, datetime.now(UTC)))

    def _shown(self) -> bool:
        rows = self.bot.world.rows
        shown = sorted(rows("SELECT case_id, state FROM messages WHERE purpose = 'top'")) == sorted((each, self.now(each).state.value) for each in self.cases)
        return shown and (rows("SELECT count(*) FROM messages")[0][0] >= MESSAGES * len(self.cases) or any(self.now(each).state not in END for each in self.cases))

    # -------------------------------------------------------- what must hold

    def _look(self, case: Case, was: Any, is_now: Any) -> None:
        name, done = str(case.target), [*case.operations, *([case.operation] if case.operation else [])]
        self._must(f"{name}: end", (case.state.value, case.trouble), (State.UNDONE.value, None))
        self._must(f"{name}: specification", is_now, was)
        self._must(f"{name}: outcomes", [_outcome(one) for one in done], [Verdict.VERIFIED, Verdict.UNDONE])

    def _look_whole(self) -> None:
        """Each planned write arrived once, nothing else did; nothing was said twice, nobody refused, and the trail is whole."""
        arrived = writes(self.fleet.cluster.plane.audit_log, self._since)
        self.killer.tally.writes = len(arrived)
        planned = Counter(key for case in map(self.now, self.cases) for operation in (*case.operations, case.operation) if operation for key in _planned(operation))
        rows = self.bot.world.rows
        for what, found, wanted in (
            ("writes", Counter(map(_key, arrived)), planned),
            ("messages that stand twice", rows("SELECT case_id, purpose FROM messages GROUP BY case_id, purpose HAVING count(*) > 1"), []),
            ("refusals", rows("SELECT who, key FROM whispers"), []),
            ("audit trail", [str(one) for one in self.bot.audit.verify()], []),
        ):
            self._must(what, found, wanted)

    def _must(self, what: str, found: Any, wanted: Any) -> None:
        if found != wanted:
            self.killer.tally.wrong.append(f"{what}: {found} instead of {wanted}")


def _query(workload: dict[str, Any]) -> TargetQuery:
    kind, name = workload["kind"], workload["metadata"]["name"]
    return TargetQuery(f"{kind}/{name}", "workload", name, NAMESPACE, workload_kind=kind)


def _shown(case: Case) -> str:
    return f"{case.state.value} ({case.diagnosis.cause if case.diagnosis else 'no diagnosis'}; {[one.verb for one in case.buttons]}; {case.trouble})"


def _is_wrong(case: Case) -> bool:
    return case.state is State.CHECK_FAILED or (case.state in RESTING and case.state is not State.VERIFIED and bool(case.operations or case.operation or case.trouble))


def _outcome(operation: Operation) -> Verdict | None:
    return operation.outcome.verdict if operation.outcome else None


def _planned(operation: Operation) -> list[tuple[str, str, str]]:
    """What a started operation should have written, step by step."""
    if operation.started_at is None:
        return []
    return [
        ("delete", step.object.name, step.object.uid) if step.kind is StepKind.DELETE_POD else ("patch", step.object.name, f"{operation.id}/{at}" if at else operation.id)
        for at, step in enumerate(operation.remediation.steps)
    ]


def _key(write: Write) -> tuple[str, str, str]:
    return (write.verb, write.name, write.uid if write.verb == "delete" else write.mark)
