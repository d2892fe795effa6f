"""Everything that must hold before a plan is carried out: checked at the click, and all of it again right before the first write (DESIGN section 7)."""

from collections.abc import Sequence

from bot.cases.desk import Desk
from bot.errors import Conflict, Refused
from bot.model import Case, Difference, Operation

# Refusals that speak to whoever presses: of what is wrong with them.
OF_THE_PERSON = frozenset(
    {"not_approver", "guest", "stranger", "bot_account", "deleted_account", "unknown_person", "no_address", "no_address_of", "already_approved", "second_person_asked", "second_person_applied", "name_not_typed"}
)  # fmt: skip


class ChangedMeanwhile(Conflict):
    """The object is not what it was at the preview; `differences` say what and by whom."""

    def __init__(self, differences: tuple[Difference, ...]) -> None:
        super().__init__("the object was changed after the preview")
        self.differences = differences


def check_click(desk: Desk, case: Case, operation: Operation, approver_id: str, typed: str = "") -> None:
    """Everything, for one person more. Raises Refused (who, where, when, policy), ChangedMeanwhile, or what the dry run with the writing credentials says."""
    check_whole(desk, operation)
    _check_person(desk, case, operation, approver_id, [one.actor.id for one in operation.approvals])
    desk.policy.check_typed(operation, typed)
    check_hour_and_keeper(desk, operation)
    _check_world(desk, operation)


def check_again(desk: Desk, case: Case, operation: Operation) -> None:
    """Everything, for all who approved, right before the first write."""
    check_rules(desk, case, operation)
    _check_world(desk, operation)


def check_rules(desk: Desk, case: Case, operation: Operation) -> None:
    """All of it but what the cluster says to the change itself: also for a process that begins where a killed one was about to write, since hours may have passed."""
    check_whole(desk, operation)
    if case.request.conversation is not None:
        desk.policy.check_place(case.request.conversation)  # where the button was pressed: it counts nowhere else
    earlier: list[str] = []
    for approval in operation.approvals:
        try:
            _check_person(desk, case, operation, approval.actor.id, earlier)
            desk.policy.check_typed(operation, approval.typed)
        except Refused as refused:
            if refused.key not in OF_THE_PERSON:
                raise
            raise Refused("approval_lapsed", {"who": approval.actor.id, "lapsed": refused.key}) from refused  # the thread is told, not that person
        earlier.append(approval.actor.id)
    desk.policy.check_enough(operation)
    check_hour_and_keeper(desk, operation)


def check_go_on(desk: Desk, operation: Operation) -> None:
    """For the rest of a plan that stopped half-way, when an approver says so: all but the approvals themselves, which may be hours old."""
    check_whole(desk, operation)
    desk.policy.check_change(operation.remediation, desk.frozen())
    check_hour_and_keeper(desk, operation)


def check_whole(desk: Desk, operation: Operation) -> None:
    """The kept plan is the one that was shown, and each approval is of it."""
    digest = operation.remediation.digest
    if desk.engine.digest_of(operation.remediation) != digest or any(approval.digest != digest for approval in operation.approvals):
        raise Refused("altered", {"digest": digest[:12]})


def _check_person(desk: Desk, case: Case, operation: Operation, approver_id: str, earlier: Sequence[str]) -> None:
    desk.policy.check_approval(
        case,
        operation,
        desk.person(approver_id),
        approver=desk.is_approver(approver_id, operation.remediation),
        involved=desk.involved(case, operation),
        frozen=desk.frozen(),
        now=desk.clock.now(),
        earlier=[desk.known_or_bare(one) for one in earlier],
    )


def check_hour_and_keeper(desk: Desk, operation: Operation) -> None:
    """The hour, and whether somebody else keeps the object by now (or policy lets it be changed in place no more)."""
    plan = operation.remediation
    desk.check_when(plan, but_of=operation.id)
    keeper = desk.engine.keeper(plan, desk.reader(plan.target), in_place=desk.policy.gitops_in_place)
    if keeper:
        raise Refused("kept_elsewhere", {"keeper": keeper, "object": str(plan.object)})


def _check_world(desk: Desk, operation: Operation) -> None:
    """The object, and what the cluster says to the change."""
    target = operation.remediation.target
    writer = desk.writer(target)
    changed = desk.engine.differences(operation.remediation, desk.reader(target))
    if changed:
        raise ChangedMeanwhile(changed)
    desk.engine.dry_run(operation.remediation, writer)


def differences_of(wrong: Exception) -> tuple[Difference, ...]:
    """Those that an error carries: ours, or remediation's `Changed`."""
    found = getattr(wrong, "differences", ())
    return found if isinstance(found, tuple) else ()
