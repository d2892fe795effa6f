"""Plans one remedy for one target: a Remediation that can be approved, or a Handout that says why the bot does not do it and what to paste.

Reads the cluster, writes nothing. What may be written, and in which range, is decided by the action's own file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from bot.model import Diagnosis, Expectation, Handout, ObjectRef, Predicted, Recommendation, Remediation, Target, Text
from bot.ports import ClusterReader, NodeHands
from bot.remediation import (
    cordon,
    endpoint,
    engine_argument,
    host_memory,
    notes,
    orphan_segments,
    ownership,
    recipes,
    recreate,
    scheduled_restart,
    stray_process,
)
from bot.remediation.actions import ACTIONS, Order
from bot.remediation.assemble import Draft, remediation
from bot.remediation.change import Beside, Change, Edit, Elsewhere
from bot.remediation.fetch import fetch, is_supported
from bot.remediation.gitops import Source, source
from bot.remediation.ownership import Owner
from bot.remediation.paste import clean, container_patch, dump, pod_patch
from bot.remediation.pointer import MISSING, apply, get, split
from bot.remediation.recipes import SIZE, Recipe, RecipeStep
from bot.remediation.shape import rolls
from bot.remediation.workload import Shape, Workload
from bot.remediation.writes import Writes, look, needed


@dataclass(frozen=True, slots=True)
class Ask:
    """What somebody pressed: the remedy, its direction, and its values as far as they were computed."""

    remedy: str
    direction: str
    size: str | int | float | None = None
    seen: str | int | float | None = None  # the value that the failing process ran with
    risk: str = "low"
    predicted: Predicted | None = None
    option: str = ""  # of the server that the value was computed for

    @property
    def id(self) -> str:
        return f"{self.remedy}:{self.direction}" if self.direction else self.remedy

    @property
    def effect(self) -> str:
        """One line for a handout: "tensor_parallel_size: 1 -> 2"."""
        if self.size is None:
            return ""
        return f"{self.option or self.remedy}: {'' if self.seen is None else f'{self.seen} -> '}{self.size}\n"


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
    diagnosis: Diagnosis | None = None, in_place: bool = False, known: Mapping[str, Recipe] | None = None, hands: NodeHands | None = None,
) -> Remediation | Handout:  # fmt: skip
    """A plan for a recommendation, or for a remedy's bare id ("restart"). `diagnosis` says what must hold afterwards.

    `in_place`: policy allows to change an object that Argo CD, Flux or Helm made. `hands` reach the nodes. Raises NotFound, Forbidden, Temporary, BadInput (a value outside its range).
    """
    ask = _ask(wanted)
    recipe = (known if known is not None else recipes.load()).get(ask.remedy)
    here = Situation(target, reader, now, new_id, diagnosis, in_place)
    if endpoint.is_endpoint(target):
        return _on_endpoint(ask, recipe, here)
    if recipe is None or not recipe.steps or (recipe.directions and ask.direction not in recipe.directions):
        reason = recipe.by_hand if recipe and recipe.by_hand else Text("The bot does not do this by itself.", "机器人不会自动执行这项修改。")
        return Handout(ask.remedy, reason, ask.effect, "text")
    if recipe.steps[0].action == cordon.NAME:
        return _node(ask, recipe, here)
    if recipe.steps[0].action in ON_THE_NODE:
        return _on_the_node(ask, recipe, here, hands)
    if not is_supported(target):
        return _other_kind(ask, recipe, here)
    if recipe.steps[0].action == scheduled_restart.NAME:
        return _scheduled(ask, recipe, here)
    workload, change = _placed(ask, recipe, fetch(target, reader), here)
    if isinstance(change, Elsewhere):
        return Handout(ask.remedy, change.reason, change.paste, change.language)
    return _checked(ask, recipe, here, workload, change)


def _ask(wanted: Recommendation | str) -> Ask:
    if isinstance(wanted, str):
        remedy, _, direction = wanted.partition(":")
        return Ask(remedy, direction)
    return Ask(wanted.remedy, wanted.direction, wanted.to_value, wanted.from_value, wanted.risk, wanted.predicted, wanted.option)


def _checked(ask: Ask, recipe: Recipe, here: Situation, workload: Workload, change: Change) -> Remediation | Handout:
    """The plan, unless somebody else keeps the object or nothing would roll."""
    running = look(workload, here.reader)
    rolling = any(rolls(edit.pointer, workload.shape.template) for edit in change.edits)
    writes = needed(workload, running, here.target.pod) if rolling else Writes()
    owner = next((found for body in (workload.body, *(one.body for one in change.beside)) if (found := ownership.owner(body))), None)
    # a restart's annotation stands in nobody's manifest, so nobody puts it back; a changed strategy would be
    kept_by = None if owner is None or (not change.undoable and not writes.edits) else owner
    kept = None if kept_by is None else _source(kept_by, workload, change, here.reader)
    if kept_by is not None and kept is not None and kept_by.forbids(in_place=here.in_place):
        return Handout(ask.remedy, _both(kept_by.says, kept.when), source_patch(kept, fragment(workload, change)))
    if writes.held is not None:
        return Handout(ask.remedy, writes.held, fragment(workload, change) if change.undoable else "")
    said = (
        *change.notes,
        *((_both(kept_by.says, kept.when),) if kept_by and kept else ()),
        *notes.predicted(ask.predicted),
        *host_memory.predicted(workload, apply(workload.body, [edit.operation() for edit in change.edits]), here.diagnosis, here.target.node, here.reader),
        *_drift(ask, recipe, workload, change),
    )
    draft = Draft(here.new_id(), recipe.steps[0].action, "apply", ask.id, here.target, _risk(ask, recipe), _expects(ask, recipe, here.diagnosis))
    return remediation(draft, workload, Change(change.edits, said, change.undoable, change.beside), writes, running, here.reader)


def _node(ask: Ask, recipe: Recipe, here: Situation) -> Remediation | Handout:
    """A plan for the target's node."""
    if not here.target.node:
        return Handout(ask.remedy, Text("Which node it ran on is not known.", "不知道它运行在哪个节点上。"), "", "text")
    target, node = cordon.fetch(here.target, here.reader)
    change = _change(ask, recipe, node, here)
    if isinstance(change, Elsewhere):
        return Handout(ask.remedy, change.reason, change.paste, change.language)
    draft = Draft(here.new_id(), recipe.steps[0].action, "apply", ask.id, target, _risk(ask, recipe), Expectation())
    return remediation(draft, node, change, Writes(), look(node, here.reader), here.reader)


def _on_endpoint(ask: Ask, recipe: Recipe | None, here: Situation) -> Remediation | Handout:
    """A plan for a serving endpoint, where the recipe's steps are actions that an endpoint has."""
    workload = endpoint.fetch(here.target, here.reader)
    if recipe is None or not recipe.steps or (recipe.directions and ask.direction not in recipe.directions) or any(step.action not in endpoint.ACTIONS for step in recipe.steps):
        made = endpoint.by_hand(workload, ask.effect.strip())
        return Handout(ask.remedy, made.reason, made.paste, made.language)
    change = _change(ask, recipe, workload, here)
    if isinstance(change, Elsewhere):
        return Handout(ask.remedy, change.reason, change.paste, change.language)
    draft = Draft(here.new_id(), recipe.steps[0].action, "apply", ask.id, here.target, _risk(ask, recipe), _expects(ask, recipe, here.diagnosis))
    return endpoint.assembled(draft, workload, change, here.reader)


ON_THE_NODE = {stray_process.NAME: stray_process.plan, orphan_segments.NAME: orphan_segments.plan}


def _on_the_node(ask: Ask, recipe: Recipe, here: Situation, hands: NodeHands | None) -> Remediation | Handout:
    if not here.target.node:
        return Handout(ask.remedy, Text("Which node it ran on is not known.", "不知道它运行在哪个节点上。"), "", "text")
    action = recipe.steps[0].action
    draft = Draft(here.new_id(), action, "apply", ask.id, here.target, _risk(ask, recipe), Expectation())
    made = ON_THE_NODE[action](draft, here.target, here.reader, hands)
    return Handout(ask.remedy, made.reason, made.paste, made.language) if isinstance(made, Elsewhere) else made


def _scheduled(ask: Ask, recipe: Recipe, here: Situation) -> Remediation | Handout:
    draft = Draft(here.new_id(), recipe.steps[0].action, "apply", ask.id, here.target, _risk(ask, recipe), Expectation())
    made = scheduled_restart.plan(draft, fetch(here.target, here.reader)[0], recipe.steps[0].value, here.reader)
    return Handout(ask.remedy, made.reason, made.paste, made.language) if isinstance(made, Elsewhere) else made


def _source(owner: Owner, workload: Workload, change: Change, reader: ClusterReader) -> Source:
    """The value that changes is looked for among a release's values only when it is a single one."""
    first = change.edits[0] if len(change.edits) == 1 else Edit("", MISSING, MISSING)
    return source(owner, workload.body, first, reader)


def source_patch(found: Source, fragment: str) -> str:
    """What to paste: where the source stands, the values key where it was found, else the fragment of the manifest."""
    if found.values:
        return "".join(f"# {line}\n" for line in found.where if line) + found.values
    return "".join(f"# {clean(line)}\n" for line in found.where if line) + fragment


def _both(one: Text, other: Text) -> Text:
    return Text(f"{one.en} {other.en}", f"{one.zh}{other.zh}")


def _placed(ask: Ask, recipe: Recipe, places: Sequence[Workload], here: Situation) -> tuple[Workload, Change | Elsewhere]:
    """The change in the pod's own template; an engine argument may stand in another one (the leader's), so the first where it can be written is taken."""
    tried = [(places[0], _change(ask, recipe, places[0], here))]
    if all(step.action == engine_argument.NAME for step in recipe.steps):
        tried += [(place, _change(ask, recipe, place, here)) for place in places[1:] if isinstance(tried[0][1], Elsewhere)]
    return next((one for one in tried if isinstance(one[1], Change)), tried[0])


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
    return ACTIONS[step.action].change(workload, Order(step.subject, value, ask.direction, here.now, ask.option), here.reader)


def fragment(workload: Workload, change: Change) -> str:
    """The part of a manifest that changes, after the change."""
    after = apply(workload.body, [edit.operation() for edit in change.edits])
    container = replace(workload, body=after).container
    fields = changed_fields(workload.container, container)
    top = workload.shape.template.split("/")[2]
    extra = {key: value for key, value in after["spec"].items() if key != top and value != workload.spec.get(key)}
    beside = "".join(f"---\n{manifest(one)}" for one in change.beside)
    if not fields and not extra:
        return beside.removeprefix("---\n")
    return (container_patch(workload.container_name, fields, extra) if workload.shape == Shape() else dump(nested(workload, fields, extra))) + beside


def nested(workload: Workload, fields: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The same for a kind whose containers stand elsewhere."""
    *path, last = split(workload.container_pointer)
    value: Any = dict(fields) if workload.shape.container else [{"name": workload.container_name, **fields}]
    for key in reversed([*path, last] if workload.shape.container else path):
        value = [value] if key.isdigit() else {key: value}
    spec = value.get("spec", {}) if fields else {}
    return {"spec": {**extra, **spec}}


def manifest(beside: Beside) -> str:
    """The keys of another object that change, after the change."""
    after = apply(beside.body, [edit.operation() for edit in beside.edits])
    data = {split(edit.pointer)[-1]: get(after, edit.pointer) for edit in beside.edits}
    return dump({"apiVersion": "v1", "kind": beside.ref.kind, "metadata": {"name": beside.ref.name, "namespace": beside.ref.namespace}, "data": data})


def changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a container that change; of lists that merge by a key (variables, mounts) only the new items, since the others may hold secrets."""
    fields = {key: value for key, value in after.items() if value != before.get(key)}
    return {key: [item for item in value if item not in (before.get(key) or [])] if key in ("env", "volumeMounts") else value for key, value in fields.items()}


def _other_kind(ask: Ask, recipe: Recipe, here: Situation) -> Handout:
    """A bare pod, a Job, a custom resource: the same change, as a fragment of the pod's own manifest."""
    target, reason = here.target, _not_changed(here.target)
    if not target.pod:
        return Handout(ask.remedy, reason, ask.effect, "text")
    anew = recreate.root(target)
    workload = recreate.fetch(anew or ObjectRef("v1", "Pod", target.namespace, target.pod, target.pod_uid), target, here.reader)
    change = _change(ask, recipe, workload, here)
    if isinstance(change, Elsewhere):
        return Handout(ask.remedy, Text(f"{reason.en} {change.reason.en}", f"{reason.zh}{change.reason.zh}"), change.paste, change.language)
    after = apply(workload.body, [edit.operation() for edit in change.edits])
    if anew is not None and (recreate.is_changed(workload, after) or not change.undoable):
        text, language = recreate.paste(workload, change.edits if change.undoable else ())
        return Handout(ask.remedy, reason, text, language)
    fields = changed_fields(workload.container, replace(workload, body=after).container)
    if not fields:
        return Handout(ask.remedy, reason, f"kubectl -n {target.namespace} delete pod {target.pod}\n", "text")
    return Handout(ask.remedy, reason, pod_patch(workload.container_name, fields))


def _not_changed(target: Target) -> Text:
    if not target.pod:
        return Text(f"This changes a workload, and {target} is none; check one of its pods.", f"这项修改针对工作负载，而 {target} 不是；请检查其上的 Pod。")
    anew = recreate.root(target)
    if anew is not None and anew.kind == "Job":
        return Text(
            f"{anew}: Kubernetes does not let anybody change a Job's template; it has to be deleted (with what it has done) and made anew with this.",
            f"{anew}：Kubernetes 不允许修改 Job 的模板；只能删除（已完成的进度会丢失）后用下面的内容重建。",
        )
    if anew is not None:
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
    return notes.drifted(workload, change.edits[0], ask.seen, ask.option or f"--{recipe.steps[0].subject}")


def _risk(ask: Ask, recipe: Recipe) -> str:
    """The higher of what the recommendation and the recipe say; an unknown word counts as the highest."""
    return max(ask.risk, recipe.risk, key=lambda risk: recipes.RISKS.index(risk) if risk in recipes.RISKS else len(recipes.RISKS))


def _expects(ask: Ask, recipe: Recipe, diagnosis: Diagnosis | None) -> Expectation:
    return Expectation(
        pass_phase=diagnosis.phase if diagnosis and "passes_failed_phase" in recipe.verify else None,
        predicted=ask.predicted if "predicted_cache" in recipe.verify else None,
        cause=diagnosis.cause if diagnosis and "cause_gone" in recipe.verify else "",
    )
