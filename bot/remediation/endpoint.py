"""Actions on a Databricks serving endpoint: set_workload_size, set_scale_to_zero, and set_environment_variable there.

The plan is of the same kind as for an object of a cluster: edits of the configuration that was asked for last, bound to all of it, shown as a diff of the
served entity. There is no dry run on that side, and the preview says so. What must hold afterwards: the update is through, the endpoint serves, and the
same cause is not found again. Undo puts the old values back by another update; the operation's mark stays as a variable.
"""

import dataclasses
import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from bot.errors import NotFound, Permanent
from bot.model import Diagnosis, Expectation, Life, Outcome, Remediation, Rollout, Step, StepKind, Target, Text, Verdict
from bot.ports import ClusterReader, Json
from bot.remediation import environment_variable
from bot.remediation.assemble import Draft, patch
from bot.remediation.bound import bind
from bot.remediation.canonical import digest_of
from bot.remediation.change import Change, Edit, Elsewhere, put
from bot.remediation.paste import clean, dump
from bot.remediation.pointer import MISSING, apply, get, join
from bot.remediation.shape import ENDPOINT, shape_of
from bot.remediation.workload import Workload, ref_of

VERSION = "databricks/2.0"
SIZE, ZERO = "set_workload_size", "set_scale_to_zero"
ACTIONS = (SIZE, ZERO, environment_variable.NAME)  # those that an endpoint has
LARGER = "one larger"
SIZES = ("Small", "Medium", "Large")
COVERED = "..."
IN_PROGRESS, SERVES = "IN_PROGRESS", "READY"
SERVERS = tuple(environment_variable.ALLOWED)
ONLY_THERE = Text("This is a setting of a Databricks serving endpoint.", "这是 Databricks serving endpoint 的设置。")
NOT_OF_THE_ENDPOINT = Text(
    "On Databricks this is no setting of the endpoint that the bot writes: arguments of the engine stand in the served model (its code, or what it was logged with), "
    "and card and memory come with the workload_type (which card a name stands for depends on the cloud).",
    "在 Databricks 上，这不是机器人可以修改的端点设置：引擎参数在模型本身中（代码或记录时的参数），显卡和内存由 workload_type 决定（具体显卡取决于云平台）。",
)


def is_endpoint(target: Target) -> bool:
    return target.workload is not None and target.workload.kind == ENDPOINT


def fetch(target: Target, reader: ClusterReader) -> Workload:
    """The endpoint, with the served entity that the target names as its container. Raises NotFound, Permanent when the entity is not there any more."""
    seen = target.workload
    if seen is None:
        raise Permanent(f"{target} is no endpoint")
    body = reader.get(VERSION, ENDPOINT, "", seen.name)
    ref = ref_of(body, VERSION, ENDPOINT)
    if seen.uid and ref.uid != seen.uid:
        raise NotFound(f"endpoint {seen.name} was deleted and made anew since the check; check again")
    names = [str(one.get("name", "")) for one in body["spec"]["served_entities"]]
    if target.container not in names:
        raise Permanent(f"endpoint {seen.name} serves no {target.container or 'entity'} any more; it serves {', '.join(names) or 'nothing'}")
    found = body["spec"]["served_entities"][names.index(target.container)]
    if "entity_name" not in found and "external_model" not in found:
        raise Permanent(f"endpoint {seen.name} is of an older form (served_models), which the bot does not change")
    return Workload(ref, body, *shape_of(ENDPOINT, "/spec/served_entities" + join(names.index(target.container))))


# ---------------------------------------------------------------- the edits


def size(workload: Workload, value: Any) -> Change | Elsewhere:
    """`workload_size`, one step up: more requests at once on more of the same machines. It does not change the card."""
    now = workload.container.get("workload_size")
    if workload.kind != ENDPOINT or now not in SIZES:
        return Elsewhere(ONLY_THERE if workload.kind != ENDPOINT else Text(
            "This served entity has no workload_size: it is sized by its provisioned concurrency or throughput.", "该 served entity 没有 workload_size：容量由预置并发或吞吐量决定。"
        ), "")  # fmt: skip
    if value != LARGER or now == SIZES[-1]:
        return Elsewhere(Text(f"It is {now} already, the largest size.", f"已经是最大的 {now}。"), "")
    after = SIZES[SIZES.index(now) + 1]
    notes = (Text(f"{after} costs more than {now}: it keeps more machines of the same kind, and the memory of each stays what it is.",
                  f"{after} 比 {now} 更贵：保留更多同类机器，单机内存不变。"),)  # fmt: skip
    return Change((Edit(f"{workload.container_pointer}/workload_size", now, after),), notes)


def scale_to_zero(workload: Workload, value: Any) -> Change | Elsewhere:
    """`scale_to_zero_enabled`: on or off."""
    now = workload.container.get("scale_to_zero_enabled")
    if workload.kind != ENDPOINT or not isinstance(value, bool):
        return Elsewhere(ONLY_THERE, "")
    if now is value:
        return Elsewhere(Text(f"scale_to_zero_enabled is {str(value).lower()} already.", f"scale_to_zero_enabled 已经是 {str(value).lower()}。"), "")
    pointer = f"{workload.container_pointer}/scale_to_zero_enabled"
    notes = () if value else (Text("At least one machine is kept, and paid for, while nobody asks.", "即使没有请求，也会保留（并计费）至少一台机器。"),)
    return Change((Edit(pointer, MISSING if now is None else now, value),), notes)


def variable(workload: Workload, name: str, value: Any) -> Change | Elsewhere:
    """One variable of the served entity, of the few that the bot writes."""
    before = (workload.container.get("environment_vars") or {}).get(name)
    if isinstance(before, str) and "{{" in before:
        return Elsewhere(Text(f"{name} comes from a Databricks secret.", f"{name} 来自 Databricks secret。"), "")
    after = environment_variable.written(name, before, value)
    if before == after:
        return Elsewhere(Text(f"The endpoint already says {name}={after}.", f"endpoint 中已经是 {name}={after}。"), "")
    return Change((put(workload.body, f"{workload.container_pointer}/environment_vars" + join(name), after),))


# ---------------------------------------------------------------- the plan


def assembled(draft: Draft, workload: Workload, change: Change, reader: ClusterReader) -> Remediation:
    """The whole plan: one request that carries all edits."""
    after = apply(workload.body, [edit.operation() for edit in change.edits])
    fields = ", ".join(dict.fromkeys(edit.pointer.split("/")[4] for edit in change.edits))
    step = Step(StepKind.PATCH, workload.ref, Text(f"Updates {workload.ref}: {fields}.", f"更新 {workload.ref}：{fields}。"), patch(workload, change.edits))
    notes = [*_deploys(workload), *change.notes, NO_DRY_RUN, *((UNDO,) if draft.direction == "apply" else ())]
    plan = Remediation(
        id=draft.id, action=draft.action, direction=draft.direction, remedy=draft.remedy, target=draft.target, object=workload.ref, steps=(step,),
        bound=bind(workload, change.edits, reader.uid()), diff=_diff(workload, after), notes=tuple(notes), risk=draft.risk, expects=draft.expects,
        before={edit.pointer: None if edit.before is MISSING else edit.before for edit in change.edits},
    )  # fmt: skip
    return dataclasses.replace(plan, digest=digest_of(plan))


def undo(done: Remediation, live: Json, edits: Sequence[Edit], reader: ClusterReader, new_id: Callable[[], str]) -> Remediation:
    """The way back. That nobody changed it since was looked at before."""
    workload = Workload(done.object, live, *shape_of(ENDPOINT, done.bound.container))
    return assembled(Draft(new_id(), done.action, "undo", done.remedy, done.target, done.risk, Expectation()), workload, Change(tuple(edits)), reader)


NO_DRY_RUN = Text(
    "Databricks has no dry run: it was only compared that nothing has changed, that no update is under way and that the token may manage the endpoint. It is compared again right before the request.",
    "Databricks 没有 dry run：只核对了配置未变、没有进行中的更新，且令牌有管理权限；发送前会再次核对。",
)
UNDO = Text(
    "Undo puts back the values above by another update; the variable OOMBOT_OPERATION, which says what the bot did, stays.",
    "撤销会再次更新以还原上面的值；记录操作的变量 OOMBOT_OPERATION 会保留。",
)


def _deploys(workload: Workload) -> tuple[Text, ...]:
    version = workload.body["metadata"].get("generation")
    serving = workload.body["status"].get("serving_version")
    goes_on = f"version {serving} goes on serving until then" if serving else "nothing serves until then"
    stays = f"在此之前版本 {serving} 继续服务" if serving else "在此之前没有版本提供服务"
    return (
        Text(
            f"Deploys the served entity anew (after version {version}), which takes minutes; {goes_on}.",
            f"会重新部署该 served entity（版本 {version} 之后），需要几分钟；{stays}。",
        ),
    )


def _diff(workload: Workload, after: Mapping[str, Any]) -> str:
    """The served entity before and after. Values of variables that the bot does not write stay covered: they may be secrets."""
    old, new = (dump(_covered(get(body, workload.container_pointer))).splitlines() for body in (workload.body, after))
    lines = list(difflib.unified_diff(old, new, n=1, lineterm=""))[2:]
    shown = [f"{line[:1]} {line[1:]}" for line in lines if not line.startswith("@@")]
    return "\n".join([f"@@ {workload.ref}, served entity {workload.container_name} @@", *shown])


def _covered(entity: Json) -> Json:
    if not entity.get("environment_vars"):
        return entity
    return {**entity, "environment_vars": {name: value if name in SERVERS else COVERED for name, value in entity["environment_vars"].items()}}


def by_hand(workload: Workload, effect: str) -> Elsewhere:
    """What to paste for the endpoint at hand: its served entity with the fields that size it, and how a model that one card cannot hold is loaded."""
    entity = {
        key: value
        for key, value in _covered(workload.container).items()
        if key in ("name", "entity_name", "entity_version", "workload_type", "workload_size", "scale_to_zero_enabled")
    }
    shown = {**entity, "environment_vars": {"HF_HOME": "/local_disk0/hf", "MAX_JOBS": "4"}}
    config = json.dumps({"served_entities": [shown]}, indent=2, ensure_ascii=False)
    lines = [
        f"# {effect}" if effect else "# for the endpoint at hand; keep its other variables and entities",
        f"# PUT /api/2.0/serving-endpoints/{workload.ref.name}/config   (it replaces the whole list: keep the other entities and variables)",
        *([f"# task: {task}"] if (task := workload.body["status"].get("task")) else []),
        *config.splitlines(), "", "# in the model's code, where one card cannot hold it:",
        'model = AutoModelForCausalLM.from_pretrained(path, device_map="auto", torch_dtype=torch.bfloat16, low_cpu_mem_usage=True)', "",
    ]  # fmt: skip
    return Elsewhere(NOT_OF_THE_ENDPOINT, clean("\n".join(lines)), "text")


# ---------------------------------------------------------------- afterwards


def observe(remediation: Remediation, reader: ClusterReader) -> Rollout:
    """One look at the update. An undo is done when its update has ended, whether or not what was there before can live."""
    return _look(remediation, reader.get(VERSION, ENDPOINT, "", remediation.object.name))


def _look(remediation: Remediation, body: Json) -> Rollout:
    status = body["status"]
    entities, update = status["entities"], str(status["state"].get("config_update", ""))
    ready = sum(1 for one in entities if one["state"].get("deployment") == "DEPLOYMENT_READY")
    if update == IN_PROGRESS:
        return Rollout(len(entities), len(entities), ready, done=False, detail=_said(entities))
    if remediation.direction == "undo":
        return Rollout(len(entities), len(entities), ready, done=True)
    done = update == "NOT_UPDATING" and status["state"].get("ready") == SERVES and ready == len(entities)
    return Rollout(len(entities), len(entities), ready, done, "" if done else "update_failed", "" if done else f"{update}: {_said(entities)}")


def _said(entities: Sequence[Mapping[str, Any]]) -> str:
    words = [f"{one.get('name')}: {one['state'].get('deployment', '')} {one['state'].get('deployment_state_message', '')}".strip() for one in entities]
    return clean("; ".join(words))[:400]


def life(remediation: Remediation, reader: ClusterReader) -> tuple[Life, ...]:
    """Whether the endpoint still serves, for watching it after it was verified. A later update is somebody else's: while it is under way, and when it has
    failed, what the platform says of the endpoint as a whole counts."""
    body = reader.get(VERSION, ENDPOINT, "", remediation.object.name)
    if _is_later(body):
        failed, detail = body["status"]["state"].get("ready") != SERVES, _said(body["status"]["entities"])
    else:
        look = _look(remediation, body)
        failed, detail = look.ready < look.wanted or not look.done, look.detail
    return (Life(remediation.object.name, remediation.object.uid, 0, detail if failed else "", failed),)


def _is_later(body: Json) -> bool:
    """Whether the newest configuration is not the one that bears the newest mark: each mark names the version that it made."""
    versions = [str(one.get("mark") or "").partition(":")[0] for one in body["status"]["entities"]]
    return int(body["metadata"].get("generation") or 0) > max((int(one) for one in versions if one.isdecimal()), default=0)


def judge(remediation: Remediation, before: Diagnosis | None, after: Diagnosis | None, rollout: Rollout, now: datetime) -> Outcome:
    """The outcome for an endpoint. Pure."""
    name, seen, seen_zh = (
        remediation.object.name,
        f"{rollout.ready} of {rollout.wanted} served entities ready",
        f"{rollout.ready}/{rollout.wanted} 个 served entity 就绪",
    )
    if remediation.direction == "undo":
        return Outcome(
            Verdict.UNDONE, Text(f"{name} has its earlier configuration again; {seen}.", f"{name} 恢复为之前的配置；{seen_zh}。"), now
        )
    if not rollout.done:
        return Outcome(
            Verdict.FAILED, Text(f"The update of {name} did not get through: {rollout.detail}", f"{name} 的更新没有完成：{rollout.detail}"), now, after
        )
    cause = remediation.expects.cause or (before.cause if before else "")
    if after is not None and cause and after.cause == cause:
        return Outcome(
            Verdict.FAILED,
            Text(f"{name} serves, yet the same cause shows again: {after.summary.en}", f"{name} 已就绪，但同样的原因再次出现：{after.summary.say('zh')}"),
            now,
            after,
        )
    return Outcome(Verdict.VERIFIED, Text(f"The update of {name} is through and it serves; {seen}.", f"{name} 的更新已完成并提供服务；{seen_zh}。"), now, after)
