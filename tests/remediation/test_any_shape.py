"""Every remedy on workloads of every kind in any shape: a plan that is shown, fits what stands there, is carried out once and taken back to the letter, also when it
stopped half-way; or a reason why not. Never an error of our own."""

import copy
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from bot.errors import OombotError
from bot.model import Handout, Remediation, StepKind
from bot.remediation import differences, digest_of, dry_run, execute_step, observe, plan, plan_undo
from bot.remediation.canonical import RESTARTED_AT
from bot.remediation.sent import carried_out
from bot.remediation.standing import standing
from tests.remediation.plans import new_id, operation
from tests.remediation.shapes import place, remedies
from tests.remediation.shelf import NOW, ShelfReader

EACH = 60  # shapes of one test


def spec_of(shelf: ShelfReader, made: Remediation) -> Any:
    found = copy.deepcopy(shelf.seen(made.object.kind, made.object.name, made.object.namespace)["spec"])
    return _timeless(found)


def _timeless(tree: Any) -> Any:
    """Without the times of restarts, which nothing takes back, and without the mappings that only they filled."""
    if isinstance(tree, dict):
        kept = {key: _timeless(value) for key, value in tree.items() if key != RESTARTED_AT}
        return {key: value for key, value in kept.items() if key != "annotations" or value}
    return [_timeless(item) for item in tree] if isinstance(tree, list) else tree


def carried(shelf: ShelfReader, made: Remediation, mark: str, steps: int) -> None:
    """Each step twice, as after a lost answer, with a controller that is quick."""
    for index in range(steps):
        for _ in range(2):
            if made.object.kind != "Node":
                seen = {"observedGeneration": 10**6, "updatedReplicas": 99, "replicas": 0}
                shelf.edit(made.object.kind, made.object.name, lambda body, seen=seen: body["status"].update(seen))
            execute_step(made, index, mark, shelf.writer(), sleep=lambda _: None)


def there_and_back(dice: Random, shelf: ShelfReader, made: Remediation) -> None:
    before = spec_of(shelf, made)
    assert digest_of(made) == made.digest
    assert made.diff.strip()
    assert differences(made, shelf) == ()
    dry_run(made, shelf.writer())
    assert spec_of(shelf, made) == before
    stop = dice.choice([len(made.steps), *range(1, len(made.steps) + 1)])
    carried(shelf, made, "op-1", stop)
    done = replace(operation(made), next_step=stop)
    assert standing(done, shelf) == ()
    observe(made, shelf)
    if made.before and made.steps[0].kind is not StepKind.CREATE:
        back = plan_undo(carried_out(done, shelf), shelf, new_id=new_id)
        dry_run(back, shelf.writer())
        carried(shelf, back, "op-2", len(back.steps))
        assert spec_of(shelf, made) == before


@pytest.mark.parametrize("batch", range(6))
def test_whatever_the_shape_it_is_planned_carried_out_and_taken_back_or_a_reason_is_given(batch: int) -> None:
    known, planned = remedies(), 0
    for seed in range(batch * EACH, (batch + 1) * EACH):
        dice = Random(seed)
        kind, shelf, target = place(dice)
        wanted = dice.choice(known)
        try:
            made = plan(wanted, target, shelf, now=NOW, new_id=new_id, in_place=True)
        except OombotError:
            continue
        if isinstance(made, Handout):
            assert (made.reason.en, made.reason.zh) != ("", ""), (seed, kind, wanted)
            continue
        planned += 1
        try:
            there_and_back(dice, shelf, made)
        except (AssertionError, OombotError) as wrong:
            raise AssertionError(f"seed {seed}: {kind}, {made.remedy}: {type(wrong).__name__}: {wrong}") from wrong
    assert planned >= EACH // 4
