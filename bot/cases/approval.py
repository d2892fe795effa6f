"""Everything that must hold before a plan is carried out: checked at the click, and all of it again right before the first write (DESIGN section 7)."""

from bot.cases.desk import Desk
from bot.errors import Conflict, Refused
from bot.model import Case, Difference, Operation


class ChangedMeanwhile(Conflict):
    """The object is not what it was at the preview; `differences` say what and by whom."""

    def __init__(self, differences: tuple[Difference, ...]) -> None:
        super().__init__("the object was changed after the preview")
        self.differences = differences


def check_all(desk: Desk, case: Case, operation: Operation, approver_id: str) -> None:
    """Raises Refused (who, where, when, policy), ChangedMeanwhile, or what the dry run with the writing credentials says."""
    target, digest = operation.remediation.target, operation.remediation.digest
    if desk.engine.digest_of(operation.remediation) != digest or any(approval.digest != digest for approval in operation.approvals):
        raise Refused("altered", {"digest": digest[:12]})
    desk.policy.check_approval(
        case,
        operation,
        desk.person(approver_id),
        approver=desk.is_approver(approver_id, target),
        involved=desk.involved(case, operation),
        frozen=desk.frozen(),
        now=desk.clock.now(),
    )
    writer = desk.writer(target)
    changed = desk.engine.differences(operation.remediation, desk.reader(target))
    if changed:
        raise ChangedMeanwhile(changed)
    desk.engine.dry_run(operation.remediation, writer)


def differences_of(wrong: Exception) -> tuple[Difference, ...]:
    """Those that an error carries: ours, or remediation's `Changed`."""
    found = getattr(wrong, "differences", ())
    return found if isinstance(found, tuple) else ()
