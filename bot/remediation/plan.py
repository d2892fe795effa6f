"""Plans one remedy for one target: a Remediation that can be approved, or a Handout that says why the bot does not do it and what to paste.

Reads the cluster, writes nothing. What may be written, and in which range, is decided by the action's own file.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from bot.errors import BadInput, NotFound
from bot.model import Diagnosis, Expectation, Handout, Recommendation, Remediation, Target, Text
from bot.ports import ClusterReader
from bot.remediation import engine_argument, environment_variable, notes, ownership, paste, recipes, restart
from bot.remediation.assemble import Draft, remediation
from bot.remediation.capacity import Room, room_for
from bot.remediation.change import Change, Elsewhere
from bot.remediation.pointer import apply
from bot.remediation.recipes import SIZE, Recipe, RecipeStep
from bot.remediation.workload import SUPPORTED, Workload, container_index, fetch, pods, ref_of
from bot.remediation.writes import needed, takes_gpus

Wanted = Recommendation | str


def plan(
    wanted: Wanted, target: Target, reader: ClusterReader, *, now: datetime, new_id: Callable[[], str],
    diagnosis: Diagnosis | None = None, in_place: bool = False, known: Mapping[str, Recipe] | None = None,
) -> Remediation | Handout:  # fmt: skip
    """A plan for a recommendation, or for a remedy's bare id ("restart"). `diagnosis` says what must hold afterwards.

    `in_place`: policy allows to change an object that Argo CD, Flux or Helm made. Raises NotFound, Forbidden, Temporary, BadInput (a value outside its range).
    """
    remedy, _, direction = wanted.partition(":") if isinstance(wanted, str) else (wanted.remedy, "", wanted.direction)
    recipe = (known if known is not None else recipes.load()).get(remedy)
    if recipe is None or not recipe.steps or (recipe.directions and direction not in recipe.directions):
        return _not_ours(wanted, remedy, recipe)
    if target.workload is None or target.workload.kind not in SUPPORTED:
        return _other_kind(wanted, recipe, target, reader, now)
    workload = fetch(target, reader)
    change = _change(wanted, recipe, direction, workload, now)
    if isinstance(change, Elsewhere):
        return Handout(remedy, change.reason, change.paste, change.language)
    return _checked(wanted, recipe, target, reader, workload, change, diagnosis, new_id, in_place)


def _checked(
    wanted: Wanted, recipe: Recipe, target: Target, reader: ClusterReader, workload: Workload, change: Change, diagnosis: Diagnosis | None,
    new_id: Callable[[], str], in_place: bool,
) -> Remediation | Handout:  # fmt: skip
    running = pods(workload.body, workload.kind, reader)
    room = room_for(workload.template, reader) if workload.kind == "Deployment" and takes_gpus(workload) else Room(True)
    writes = needed(workload, running, room, target.pod)
    owner = ownership.owner(workload.body)
    # a restart's annotation stands in nobody's manifest, so nobody puts it back; a changed strategy would be
    only_annotation = not change.undoable and not writes.edits
    if owner is not None and not in_place and not only_annotation:
        return Handout(recipe.remedy, owner.says, fragment(workload, change))
    if writes.held is not None:
        return Handout(recipe.remedy, writes.held, fragment(workload, change) if change.undoable else "")
    warned = (
        *change.notes,
        *((owner.says,) if owner is not None and not only_annotation else ()),
        *notes.predicted(None if isinstance(wanted, str) else wanted.predicted),
        *_drift(wanted, recipe, workload, change),
    )
    draft = Draft(new_id(), recipe.steps[0].action, "apply", _id(wanted), target, _risk(wanted, recipe), _expects(wanted, recipe, diagnosis))
    return remediation(draft, workload, Change(change.edits, warned, change.undoable), writes, running, reader)


def _change(wanted: Wanted, recipe: Recipe, direction: str, workload: Workload, now: datetime) -> Change | Elsewhere:
    """The edits of all steps together; the first step that cannot be done here stops them all."""
    whole = Change(())
    for step in recipe.steps:
        at = Workload(workload.ref, apply(workload.body, [edit.operation() for edit in whole.edits]), workload.index)
        one = _step(step, wanted, direction, at, now)
        if isinstance(one, Elsewhere):
            return one
        whole = Change((*whole.edits, *one.edits), (*whole.notes, *one.notes), whole.undoable and one.undoable)
    return whole


def _step(step: RecipeStep, wanted: Wanted, direction: str, workload: Workload, now: datetime) -> Change | Elsewhere:
    value: Any = step.value
    if value == SIZE:
        value = None if isinstance(wanted, str) else wanted.to_value
        if value is None:
            return Elsewhere(Text("No size could be computed for it, and the bot does not guess one.", "无法算出具体数值，机器人不会猜。"), "")
    if step.action == engine_argument.NAME:
        return engine_argument.change(workload, step.subject, value, direction)
    if step.action == environment_variable.NAME:
        return environment_variable.change(workload, step.subject, value, direction)
    if step.action == restart.NAME:
        return restart.change(workload, now)
    raise BadInput(f"no action is called {step.action}")


def fragment(workload: Workload, change: Change) -> str:
    """The part of a manifest that changes, after the change."""
    after = apply(workload.body, [edit.operation() for edit in change.edits])
    container = after["spec"]["template"]["spec"]["containers"][workload.index]
    fields = {key: value for key, value in container.items() if value != workload.container.get(key)}
    extra = {key: value for key, value in after["spec"].items() if key != "template" and value != workload.spec.get(key)}
    return paste.container_patch(str(container["name"]), fields, extra) if fields or extra else ""


def _not_ours(wanted: Wanted, remedy: str, recipe: Recipe | None) -> Handout:
    if recipe is not None and recipe.by_hand is not None:
        return Handout(remedy, recipe.by_hand, _effect(wanted), "text")
    return Handout(remedy, Text("The bot does not do this by itself.", "机器人不会自动执行这项修改。"), _effect(wanted), "text")


def _effect(wanted: Wanted) -> str:
    if isinstance(wanted, str) or wanted.to_value is None:
        return ""
    before = "" if wanted.from_value is None else f"{wanted.from_value} -> "
    return f"{wanted.remedy}: {before}{wanted.to_value}\n"


def _other_kind(wanted: Wanted, recipe: Recipe, target: Target, reader: ClusterReader, now: datetime) -> Handout:
    """A bare pod, a Job, a custom resource: the same change, as a fragment of the pod's own manifest."""
    kind = target.workload.kind if target.workload else "pod"
    name = str(target.workload) if target.workload else f"pod {target.namespace}/{target.pod}"
    reason = Text(
        f"{name} is a {kind}, which the bot does not change by itself. Put this into its pod template.",
        f"{name} 是 {kind}，机器人不会自动修改。请把下面的内容写进它的 Pod 模板。",
    )
    if target.workload is None:
        reason = Text(f"{name} belongs to no workload: a pod's command line cannot be changed, it has to be deleted and made anew with this.",
                      f"{name} 不属于任何工作负载：Pod 的命令行不能修改，只能删除后用下面的内容重建。")  # fmt: skip
    if not target.pod:
        return Handout(recipe.remedy, reason, _effect(wanted), "text")
    pod = reader.get("v1", "Pod", target.namespace, target.pod)
    body = {"metadata": pod.get("metadata") or {}, "spec": {"template": {"metadata": {}, "spec": pod.get("spec") or {}}}}
    index = container_index(body, target.container)
    if index is None:
        raise NotFound(f"{target} has no container {target.container!r}")
    workload = Workload(ref_of(pod, "v1", "Pod"), body, index)
    _, _, direction = wanted.partition(":") if isinstance(wanted, str) else ("", "", wanted.direction)
    change = _change(wanted, recipe, direction, workload, now)
    if isinstance(change, Elsewhere):
        return Handout(recipe.remedy, Text(f"{reason.en} {change.reason.en}", f"{reason.zh} {change.reason.zh}"), change.paste, change.language)
    after = apply(body, [edit.operation() for edit in change.edits])["spec"]["template"]["spec"]["containers"][index]
    fields = {key: value for key, value in after.items() if value != workload.container.get(key)}
    return Handout(recipe.remedy, reason, paste.pod_patch(str(after["name"]), fields) if fields else f"kubectl -n {target.namespace} delete pod {target.pod}\n")


def _drift(wanted: Wanted, recipe: Recipe, workload: Workload, change: Change) -> tuple[Text, ...]:
    if isinstance(wanted, str) or len(change.edits) != 1 or recipe.steps[0].value != SIZE:
        return ()
    return notes.drifted(workload, change.edits[0], wanted.from_value, f"--{recipe.steps[0].subject}")


def _id(wanted: Wanted) -> str:
    return wanted if isinstance(wanted, str) else wanted.id


def _risk(wanted: Wanted, recipe: Recipe) -> str:
    said = recipe.risk if isinstance(wanted, str) else wanted.risk
    return max(said, recipe.risk, key=lambda risk: recipes.RISKS.index(risk) if risk in recipes.RISKS else len(recipes.RISKS))


def _expects(wanted: Wanted, recipe: Recipe, diagnosis: Diagnosis | None) -> Expectation:
    return Expectation(
        pass_phase=diagnosis.phase if diagnosis and "passes_failed_phase" in recipe.verify else None,
        predicted=wanted.predicted if not isinstance(wanted, str) and "predicted_cache" in recipe.verify else None,
        cause=diagnosis.cause if diagnosis and "cause_gone" in recipe.verify else "",
    )
