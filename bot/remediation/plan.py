"""Plans one remedy for one target: a Remediation that can be approved, or a Handout that says why the bot does not do it and what to paste.

Reads the cluster, writes nothing. What may be written, and in which range, is decided by the action's own file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.errors import NotFound
from bot.model import Diagnosis, Expectation, Handout, Predicted, Recommendation, Remediation, Target, Text
from bot.ports import ClusterReader
from bot.remediation import engine_argument, notes, ownership, recipes
from bot.remediation.actions import ACTIONS, Order
from bot.remediation.assemble import Draft, remediation
from bot.remediation.change import Change, Elsewhere
from bot.remediation.paste import container_patch, pod_patch
from bot.remediation.pointer import apply
from bot.remediation.recipes import SIZE, Recipe, RecipeStep
from bot.remediation.workload import SUPPORTED, Workload, container_index, fetch, ref_of
from bot.remediation.writes import look, needed


@dataclass(frozen=True, slots=True)
class Ask:
    """What somebody pressed: the remedy, its direction, and its values as far as they were computed."""

    remedy: str
    direction: str
    size: str | int | float | None = None
    seen: str | int | float | None = None  # the value that the failing process ran with
    risk: str = "low"
    predicted: Predicted | None = None

    @property
    def id(self) -> str:
        return f"{self.remedy}:{self.direction}" if self.direction else self.remedy

    @property
    def effect(self) -> str:
        """One line for a handout: "tensor_parallel_size: 1 -> 2"."""
        if self.size is None:
            return ""
        return f"{self.remedy}: {'' if self.seen is None else f'{self.seen} -> '}{self.size}\n"


@dataclass(frozen=True, slots=True)
class Situation:
    """Where, when, and by which rules it is planned."""

    target: Target
    reader: ClusterReader
    now: datetime
    new_id: Callable[[], str]
    diagnosis: Diagnosis | None
    in_place: bool


def plan(
    wanted: Recommendation | str, target: Target, reader: ClusterReader, *, now: datetime, new_id: Callable[[], str],
    diagnosis: Diagnosis | None = None, in_place: bool = False, known: Mapping[str, Recipe] | None = None,
) -> Remediation | Handout:  # fmt: skip
    """A plan for a recommendation, or for a remedy's bare id ("restart"). `diagnosis` says what must hold afterwards.

    `in_place`: policy allows to change an object that Argo CD, Flux or Helm made. Raises NotFound, Forbidden, Temporary, BadInput (a value outside its range).
    """
    ask = _ask(wanted)
    recipe = (known if known is not None else recipes.load()).get(ask.remedy)
    if recipe is None or not recipe.steps or (recipe.directions and ask.direction not in recipe.directions):
        reason = recipe.by_hand if recipe and recipe.by_hand else Text("The bot does not do this by itself.", "机器人不会自动执行这项修改。")
        return Handout(ask.remedy, reason, ask.effect, "text")
    here = Situation(target, reader, now, new_id, diagnosis, in_place)
    if target.workload is None or target.workload.kind not in SUPPORTED:
        return _other_kind(ask, recipe, here)
    workload = fetch(target, reader)
    change = _change(ask, recipe, workload, here)
    if isinstance(change, Elsewhere):
        return Handout(ask.remedy, change.reason, change.paste, change.language)
    return _checked(ask, recipe, here, workload, change)


def _ask(wanted: Recommendation | str) -> Ask:
    if isinstance(wanted, str):
        remedy, _, direction = wanted.partition(":")
        return Ask(remedy, direction)
    return Ask(wanted.remedy, wanted.direction, wanted.to_value, wanted.from_value, wanted.risk, wanted.predicted)


def _checked(ask: Ask, recipe: Recipe, here: Situation, workload: Workload, change: Change) -> Remediation | Handout:
    """The plan, unless somebody else keeps the object or nothing would roll."""
    running = look(workload, here.reader, here.now)
    writes = needed(workload, running, here.target.pod)
    owner = next((found for body in (workload.body, *(one.body for one in change.beside)) if (found := ownership.owner(body))), None)
    # a restart's annotation stands in nobody's manifest, so nobody puts it back; a changed strategy would be
    kept_by = None if owner is None or (not change.undoable and not writes.edits) else owner
    if kept_by is not None and not here.in_place:
        return Handout(ask.remedy, kept_by.says, fragment(workload, change))
    if writes.held is not None:
        return Handout(ask.remedy, writes.held, fragment(workload, change) if change.undoable else "")
    said = (*change.notes, *((kept_by.says,) if kept_by else ()), *notes.predicted(ask.predicted), *_drift(ask, recipe, workload, change))
    draft = Draft(here.new_id(), recipe.steps[0].action, "apply", ask.id, here.target, _risk(ask, recipe), _expects(ask, recipe, here.diagnosis))
    return remediation(draft, workload, Change(change.edits, said, change.undoable, change.beside), writes, running, here.reader)


def _change(ask: Ask, recipe: Recipe, workload: Workload, here: Situation) -> Change | Elsewhere:
    """The edits of all steps together; the first step that cannot be done here stops them all."""
    whole = Change(())
    for step in recipe.steps:
        so_far = Workload(workload.ref, apply(workload.body, [edit.operation() for edit in whole.edits]), workload.index, workload.shape)
        one = _step(step, ask, so_far, here)
        if isinstance(one, Elsewhere):
            return one
        whole = Change((*whole.edits, *one.edits), (*whole.notes, *one.notes), whole.undoable and one.undoable, (*whole.beside, *one.beside))
    return whole


def _step(step: RecipeStep, ask: Ask, workload: Workload, here: Situation) -> Change | Elsewhere:
    value: Any = ask.size if step.value == SIZE else step.value
    if step.value == SIZE and value is None:
        return Elsewhere(Text("No size could be computed for it, and the bot does not guess one.", "无法算出具体数值，机器人不会猜。"), "")
    return ACTIONS[step.action].change(workload, Order(step.subject, value, ask.direction, here.now), here.reader)


def fragment(workload: Workload, change: Change) -> str:
    """The part of a manifest that changes, after the change."""
    after = apply(workload.body, [edit.operation() for edit in change.edits])
    container = after["spec"]["template"]["spec"]["containers"][workload.index]
    fields = changed_fields(workload.container, container)
    extra = {key: value for key, value in after["spec"].items() if key != "template" and value != workload.spec.get(key)}
    return container_patch(str(container["name"]), fields, extra) if fields or extra else ""


def changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a container that change; of lists that merge by a key (variables, mounts) only the new items, since the others may hold secrets."""
    fields = {key: value for key, value in after.items() if value != before.get(key)}
    return {key: [item for item in value if item not in (before.get(key) or [])] if key in ("env", "volumeMounts") else value for key, value in fields.items()}


def _other_kind(ask: Ask, recipe: Recipe, here: Situation) -> Handout:
    """A bare pod, a Job, a custom resource: the same change, as a fragment of the pod's own manifest."""
    target, reason = here.target, _not_changed(here.target)
    if not target.pod:
        return Handout(ask.remedy, reason, ask.effect, "text")
    pod = here.reader.get("v1", "Pod", target.namespace, target.pod)
    body = {"metadata": {}, "spec": {"template": {"metadata": {}, "spec": pod.get("spec") or {}}}}
    index = container_index(body, target.container)
    if index is None:
        raise NotFound(f"{target} has no container {target.container!r}")
    workload = Workload(ref_of(pod, "v1", "Pod"), body, index)
    change = _change(ask, recipe, workload, here)
    if isinstance(change, Elsewhere):
        return Handout(ask.remedy, Text(f"{reason.en} {change.reason.en}", f"{reason.zh}{change.reason.zh}"), change.paste, change.language)
    after = apply(body, [edit.operation() for edit in change.edits])["spec"]["template"]["spec"]["containers"][index]
    fields = changed_fields(workload.container, after)
    if not fields:
        return Handout(ask.remedy, reason, f"kubectl -n {target.namespace} delete pod {target.pod}\n", "text")
    return Handout(ask.remedy, reason, pod_patch(str(after["name"]), fields))


def _not_changed(target: Target) -> Text:
    if not target.pod:
        return Text(f"This changes a workload, and {target} is none; check one of its pods.", f"这项修改针对工作负载，而 {target} 不是；请检查其上的 Pod。")
    if target.workload is None:
        return Text(
            f"Pod {target} belongs to no workload: a pod's command line cannot be changed, it has to be deleted and made anew with this.",
            f"Pod {target} 不属于任何工作负载：Pod 的命令行不能修改，只能删除后用下面的内容重建。",
        )
    return Text(
        f"{target.workload} is of a kind that the bot does not change by itself. Put this into its pod template.",
        f"机器人不会自动修改 {target.workload} 这种类型的对象。请把下面的内容写进它的 Pod 模板。",
    )


def _drift(ask: Ask, recipe: Recipe, workload: Workload, change: Change) -> tuple[Text, ...]:
    if len(change.edits) != 1 or recipe.steps[0].value != SIZE or recipe.steps[0].action != engine_argument.NAME:
        return ()
    return notes.drifted(workload, change.edits[0], ask.seen, f"--{recipe.steps[0].subject}")


def _risk(ask: Ask, recipe: Recipe) -> str:
    """The higher of what the recommendation and the recipe say; an unknown word counts as the highest."""
    return max(ask.risk, recipe.risk, key=lambda risk: recipes.RISKS.index(risk) if risk in recipes.RISKS else len(recipes.RISKS))


def _expects(ask: Ask, recipe: Recipe, diagnosis: Diagnosis | None) -> Expectation:
    return Expectation(
        pass_phase=diagnosis.phase if diagnosis and "passes_failed_phase" in recipe.verify else None,
        predicted=ask.predicted if "predicted_cache" in recipe.verify else None,
        cause=diagnosis.cause if diagnosis and "cause_gone" in recipe.verify else "",
    )
