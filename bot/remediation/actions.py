"""The one explicit list of actions: the name in `playbooks/remediations`, the key that a step gives it, and the file that does it.

A new action is a new file and a line here.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.ports import ClusterReader
from bot.remediation import (
    cordon,
    cpu_limit,
    endpoint,
    engine_argument,
    environment_variable,
    memory,
    orphan_segments,
    restart,
    scale,
    scheduled_restart,
    shared_memory,
    stray_process,
    timing,
)
from bot.remediation.change import Change, Elsewhere
from bot.remediation.engine_options import OPTIONS
from bot.remediation.shape import ENDPOINT
from bot.remediation.workload import Workload


@dataclass(frozen=True, slots=True)
class Order:
    """What a step of a recipe asks for: `subject` is the option, variable or field, `value` the computed size or the recipe's literal."""

    subject: str
    value: Any
    direction: str
    now: datetime
    computed_for: str = ""  # the option of the server that `value` was computed for


@dataclass(frozen=True, slots=True)
class Action:
    """`key` is the name under which a step gives its subject ("" when it needs none), `subjects` are those it may name."""

    change: Callable[[Workload, Order, ClusterReader], Change | Elsewhere]
    key: str = ""
    subjects: Collection[str] = ()


ACTIONS: Mapping[str, Action] = {
    restart.NAME: Action(lambda workload, order, reader: restart.change(workload, order.now)),
    engine_argument.NAME: Action(
        lambda workload, order, reader: engine_argument.change(workload, order.subject, order.value, order.direction, reader, order.computed_for), "argument", tuple(OPTIONS)
    ),
    environment_variable.NAME: Action(
        lambda workload, order, reader: (endpoint.variable if workload.kind == ENDPOINT else environment_variable.change)(workload, order.subject, order.value), "variable", tuple(environment_variable.ALLOWED)
    ),
    memory.NAME: Action(lambda workload, order, reader: memory.change(workload, order.subject, order.value, order.direction, reader), "field", memory.FIELDS),
    cpu_limit.NAME: Action(lambda workload, order, reader: cpu_limit.change(workload, reader)),
    shared_memory.NAME: Action(lambda workload, order, reader: shared_memory.change(workload, order.value)),
    scale.NAME: Action(lambda workload, order, reader: scale.change(workload, order.value, reader)),
    cordon.NAME: Action(lambda workload, order, reader: cordon.change(workload, reader)),
    scheduled_restart.NAME: Action(lambda workload, order, reader: Change(())),  # makes an object of its own instead: see the planner
    stray_process.NAME: Action(lambda workload, order, reader: Change(())),  # changes nothing in the cluster: see the planner
    orphan_segments.NAME: Action(lambda workload, order, reader: Change(())),  # likewise
    endpoint.SIZE: Action(lambda workload, order, reader: endpoint.size(workload, order.value)),
    endpoint.ZERO: Action(lambda workload, order, reader: endpoint.scale_to_zero(workload, order.value)),
    timing.PROBE: Action(lambda workload, order, reader: timing.probe(workload, order.value)),
    timing.GRACE: Action(lambda workload, order, reader: timing.grace_period(workload, order.value)),
}
