"""Which recommendations the bot would carry out here, and which it only shows: the button says so beforehand. And the job of the button "Show how".

What is only shown needs no approval and changes no state: whoever may look at the target may read what to paste.
"""

from datetime import timedelta
from functools import partial

from bot.cases.desk import Desk, new_id
from bot.errors import BadInput, Permanent, Refused, UserError, WorldError
from bot.model import Case, Diagnosis, Handout, Recommendation, Remediation, Target, Text, Words

FORESIGHT = timedelta(seconds=8)  # a slow cluster must not hold up the answer for the words on a button
BY_HAND = Text("This is what would change.", "改动内容如下。")


def only_shown(desk: Desk, target: Target, diagnosis: Diagnosis) -> tuple[int, ...]:
    """The numbers of the recommendations that would only be handed out. Where nobody can tell yet, Apply says why it cannot be."""
    found, began = [], desk.clock.now()
    for index, one in enumerate(diagnosis.recommendations):
        if desk.clock.now() - began > FORESIGHT:
            break
        try:
            made = _made(desk, target, diagnosis, one)
        except (UserError, WorldError):
            continue
        if isinstance(made, Handout) or _forbidden(desk, made) is not None:
            found.append(index)
    return tuple(found)


def shown(desk: Desk, case: Case, index: int) -> tuple[Handout, Words | None]:
    """What to paste, and why the bot does not do it when that is the policy's will. Raises Refused, Temporary."""
    if case.target is None or case.diagnosis is None or index >= len(case.diagnosis.recommendations):
        raise Refused("not_now", {"state": case.state.value, "wanted": "show"})
    try:
        made = _made(desk, case.target, case.diagnosis, case.diagnosis.recommendations[index])
    except (BadInput, Permanent) as wrong:
        raise Refused("plan_refused", {"reason": str(wrong)}) from wrong
    if isinstance(made, Handout):
        return made, None
    return by_hand(made), _forbidden(desk, made)


def by_hand(made: Remediation) -> Handout:
    """A plan that is not carried out, as what somebody would change."""
    return Handout(made.remedy, BY_HAND, made.diff, "diff")


def _made(desk: Desk, target: Target, diagnosis: Diagnosis, wanted: Recommendation) -> Remediation | Handout:
    return desk.engine.foresee(wanted, target, desk.reader(target), now=desk.clock.now(), new_id=partial(new_id, "r-"), diagnosis=diagnosis, in_place=desk.policy.gitops_in_place)


def _forbidden(desk: Desk, made: Remediation) -> Words | None:
    """What stands against it for good: rules and credentials. The kill switch and the hour pass."""
    try:
        desk.policy.check_change(made, None)
        desk.writer(made.target)
    except Refused as refused:
        return Words(refused.key, refused.parameters)
    return None
