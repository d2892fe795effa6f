"""The states of a Case and the one table of allowed moves; whatever is not in it is refused.

Apply and undo run through the same states of an operation (planning ... verifying); an undo ends in UNDONE. A plan that
comes to nothing (refused, rejected, expired, changed meanwhile) goes back to the state in which the button was pressed:
`resting_state` reads it from the Case's history. Pure: who may cause a move is `bot/policy.py`, when it happens `bot/cases`.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from bot.errors import Refused
from bot.model import Case, Move, State

BOT = "oombot"  # `who` of a move that a job made

S = State
END = frozenset({S.UNDONE, S.CLOSED})
# States in which the bot waits for a decision, and to which a plan that came to nothing goes back.
RESTING = (S.DIAGNOSED, S.STUCK, S.VERIFIED, S.VERIFICATION_FAILED, S.NOT_VERIFIABLE, S.LEFT)


@dataclass(frozen=True, slots=True)
class Allowed:
    """One row: a move, who causes it (bot | person | time) and when."""

    from_state: State
    to_state: State
    by: str
    when: str


def _back(from_state: State, when: str, by: str = "bot") -> tuple[Allowed, ...]:
    """Back to where the button was pressed. Nothing was done by this operation."""
    return tuple(Allowed(from_state, resting, by, when) for resting in RESTING)


TABLE: tuple[Allowed, ...] = (
    Allowed(S.RECEIVED, S.CHECKING, "bot", "the check begins"),
    Allowed(S.RECEIVED, S.CLOSED, "bot", "who asked may not ask"),
    Allowed(S.CHECKING, S.DIAGNOSED, "bot", "evidence is collected and examined"),
    Allowed(S.CHECKING, S.CHECK_FAILED, "bot", "no target, no access, or the cluster does not answer"),
    Allowed(S.CHECK_FAILED, S.CHECKING, "person", "Try again"),
    Allowed(S.CHECK_FAILED, S.CLOSED, "time", "nobody tried again"),
    Allowed(S.DIAGNOSED, S.CHECKING, "person", "Try again"),
    Allowed(S.DIAGNOSED, S.PLANNING, "person", "Apply, or Preview again"),
    Allowed(S.DIAGNOSED, S.CLOSED, "time", "nobody decided"),
    Allowed(S.PLANNING, S.AWAITING_APPROVAL, "bot", "the plan stands and its dry run passed"),
    *_back(S.PLANNING, "no plan: refused by policy or by the dry run, or only handed out"),
    Allowed(S.AWAITING_APPROVAL, S.APPROVED, "person", "Approve, and all checks pass"),
    *_back(S.AWAITING_APPROVAL, "rejected, expired, or the object was changed", "person or time"),
    Allowed(S.APPROVED, S.EXECUTING, "bot", "all checks pass again"),
    *_back(S.APPROVED, "a check fails the second time; nothing was done"),
    Allowed(S.EXECUTING, S.WATCHING, "bot", "all steps are done"),
    Allowed(S.EXECUTING, S.STUCK, "bot", "a later step was refused, or writing was frozen in between"),
    *(row for row in _back(S.EXECUTING, "the first step was refused by the cluster; nothing was done") if row.to_state is not S.STUCK),
    Allowed(S.WATCHING, S.EXECUTING, "bot", "the rollout is through, and steps were kept for then"),
    Allowed(S.WATCHING, S.VERIFYING, "bot", "the rollout is done"),
    Allowed(S.WATCHING, S.STUCK, "bot", "the rollout cannot go on, or took too long"),
    Allowed(S.VERIFYING, S.VERIFIED, "bot", "the new process got past the point where the old one died"),
    Allowed(S.VERIFYING, S.VERIFICATION_FAILED, "bot", "it failed again, with a new diagnosis"),
    Allowed(S.VERIFYING, S.NOT_VERIFIABLE, "bot", "what would show it cannot be read"),
    Allowed(S.VERIFYING, S.UNDONE, "bot", "an undo: what was before is back"),
    Allowed(S.STUCK, S.WATCHING, "person", "Wait"),
    Allowed(S.STUCK, S.EXECUTING, "person", "Go on, where it stopped between two steps"),
    Allowed(S.STUCK, S.PLANNING, "person", "Undo"),
    Allowed(S.STUCK, S.LEFT, "person or time", "Leave as it is, or nobody decided"),
    Allowed(S.VERIFIED, S.PLANNING, "person", "Undo"),
    Allowed(S.VERIFIED, S.VERIFICATION_FAILED, "bot", "while it was watched, the process ended again, or somebody changed it back"),
    Allowed(S.VERIFIED, S.CLOSED, "time", "the time for Undo is over"),
    Allowed(S.VERIFICATION_FAILED, S.PLANNING, "person", "Undo"),
    Allowed(S.VERIFICATION_FAILED, S.LEFT, "person", "Leave as it is"),
    Allowed(S.VERIFICATION_FAILED, S.CLOSED, "time", "nobody decided"),
    Allowed(S.NOT_VERIFIABLE, S.PLANNING, "person", "Undo"),
    Allowed(S.NOT_VERIFIABLE, S.LEFT, "person", "Leave as it is"),
    Allowed(S.NOT_VERIFIABLE, S.CLOSED, "time", "nobody decided"),
    Allowed(S.LEFT, S.PLANNING, "person", "Undo"),
    Allowed(S.LEFT, S.CLOSED, "time", "the time for Undo is over"),
)

_MOVES = {(row.from_state, row.to_state): row for row in TABLE}


def may(from_state: State, to_state: State) -> bool:
    return (from_state, to_state) in _MOVES


def move(case: Case, to: State, who: str, why: str, now: datetime) -> Case:
    """The Case in its new state, with the move in its history. Raises Refused("not_now") for a move that is not in the table."""
    if not may(case.state, to):
        raise Refused("not_now", {"state": case.state.value, "wanted": to.value})
    return replace(case, state=to, updated_at=now, history=(*case.history, Move(now, case.state, to, who, why)))


def resting_state(case: Case) -> State:
    """Where the current plan goes back to when it comes to nothing: the state in which its button was pressed."""
    for step in reversed(case.history):
        if step.to_state is S.PLANNING and step.from_state in RESTING:
            return step.from_state
    return S.DIAGNOSED


def table() -> str:
    """The table of docs/lifecycle.md."""
    rows = [f"| {row.from_state.value} | {row.to_state.value} | {row.by} | {row.when} |" for row in TABLE]
    return "\n".join(["| from | to | by | when |", "|---|---|---|---|", *rows]) + "\n"
