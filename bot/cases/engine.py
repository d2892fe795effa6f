"""The functions that a case's walk calls below it: looking (evidence, reasoning) and acting (remediation).

Named in one place, so that the use-cases read as sentences and a test can put a simple world under them. It holds no logic.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

from bot.model import (
    Bundle,
    Diagnosis,
    Difference,
    Handout,
    Life,
    Measured,
    Operation,
    Outcome,
    Quote,
    Recommendation,
    Remediation,
    Rollout,
    Target,
    TargetQuery,
    Text,
    Written,
)
from bot.ports import Clock, ClusterReader, ClusterWriter, NodeHands, Progress, Shells

NewId = Callable[[], str]


class Collect(Protocol):
    def __call__(self, target: Target, reader: ClusterReader, shells: Shells | None, progress: Progress, *, clock: Clock, budget_s: float) -> Bundle: ...


class Plan(Protocol):
    def __call__(
        self, wanted: Recommendation, target: Target, reader: ClusterReader, *, now: datetime, new_id: NewId, diagnosis: Diagnosis | None, in_place: bool = False
    ) -> Remediation | Handout: ...


class Keeper(Protocol):
    """Who keeps what a plan changes, where it is therefore left alone; "" where nothing stands against it."""

    def __call__(self, remediation: Remediation, reader: ClusterReader, *, in_place: bool) -> str: ...


class PlanUndo(Protocol):
    def __call__(self, operation: Operation, reader: ClusterReader, *, new_id: NewId) -> Remediation: ...


class Compared(Protocol):
    """`bot.remediation.measure.Compared`: one sentence, and whether a metric that was bad is better (None: none could tell)."""

    @property
    def says(self) -> Text: ...
    @property
    def better(self) -> bool | None: ...


class Measure(Protocol):
    """What the metrics say of a plan's pods, over the time before `at`; nothing where there is no metrics server."""

    def __call__(self, plan: Remediation, cause: str, pods: Sequence[str], at: datetime, over: timedelta) -> tuple[Measured, ...]: ...


class Readings(Protocol):
    """What the metrics say of a diagnosis, at the time of the check; nothing where there is no metrics server."""

    def __call__(self, target: Target, diagnosis: Diagnosis, at: datetime, over: timedelta) -> tuple[Quote, ...]: ...


@dataclass(frozen=True, slots=True)
class Engine:
    """See the modules named in `real`."""

    locate: Callable[[TargetQuery, Mapping[str, ClusterReader]], Target]
    collect: Collect
    examine: Callable[[Bundle, Any], Diagnosis]
    plan: Plan
    foresee: Plan  # the same, for looking ahead: what it gives is thrown away
    plan_undo: PlanUndo
    differences: Callable[[Remediation, ClusterReader], tuple[Difference, ...]]
    digest_of: Callable[[Remediation], str]
    keeper: Keeper
    dry_run: Callable[[Remediation, ClusterWriter], None]
    execute_step: Callable[[Remediation, int, str, ClusterWriter], Written]
    carried_out: Callable[[Operation, ClusterReader, Sequence[Operation]], Operation]
    standing: Callable[[Operation, ClusterReader], tuple[Difference, ...]]
    lives: Callable[[Remediation, Sequence[str], ClusterReader], tuple[Life, ...]]
    pods_there: Callable[[Remediation, ClusterReader], tuple[str, ...]]
    observe: Callable[[Remediation, ClusterReader, Collection[str]], Rollout]
    judge: Callable[[Remediation, Diagnosis | None, Diagnosis | None, Rollout, datetime], Outcome]
    measure: Measure
    compare: Callable[[Sequence[Measured], Sequence[Measured]], Compared]
    readings: Readings


def real(hands: NodeHands | None = None, servers: Mapping[str, Any] | None = None) -> Engine:
    """The real ones. `hands` stop stray processes on nodes, where the settings name an account for it; `servers` are the clusters' metrics servers
    (`bot.remediation.measure.Server`)."""
    from bot import remediation
    from bot.evidence.collect import collect
    from bot.evidence.locate import locate
    from bot.incident import examine
    from bot.remediation.lives import lives
    from bot.remediation.measure import Measure as Measuring
    from bot.remediation.measure import compare
    from bot.remediation.ownership import keeper
    from bot.remediation.sent import carried_out
    from bot.remediation.standing import standing

    measuring = Measuring(servers or {})
    return Engine(
        locate=locate,
        collect=collect,
        examine=examine,
        plan=partial(remediation.plan, hands=hands),
        foresee=partial(remediation.plan, hands=hands),
        plan_undo=remediation.plan_undo,
        differences=remediation.differences,
        digest_of=remediation.digest_of,
        keeper=keeper,
        dry_run=remediation.dry_run,
        execute_step=remediation.execute_step,
        carried_out=carried_out,
        standing=standing,
        lives=lives,
        pods_there=remediation.pods_there,
        observe=remediation.observe,
        judge=remediation.judge,
        measure=measuring,
        compare=compare,
        readings=measuring.readings,
    )
