"""Action schedule_restart: a CronJob that restarts the workload at a fixed time, until whatever grows is repaired.

It runs as a service account of its own (deploy/rbac/scheduled-restart.yaml), which may restart workloads of its namespace and nothing else. Undo deletes
the CronJob, if it is still the one that was made. What must hold afterwards: it is there.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from bot.errors import BadInput, NotFound
from bot.model import Bound, Difference, Expectation, ObjectRef, Operation, Remediation, Step, StepKind, Text
from bot.ports import ClusterReader, Json
from bot.remediation.assemble import PLACEHOLDER, Draft
from bot.remediation.bound import OPERATION, Changed, bind
from bot.remediation.canonical import digest_of, template_sha256
from bot.remediation.change import Elsewhere
from bot.remediation.paste import dump
from bot.remediation.workload import Workload, metadata

NAME = "schedule_restart"
ACCOUNT = "oombot-restarter"
IMAGE = "registry.k8s.io/kubectl:v1.34.1"
LABELS = {"app.kubernetes.io/managed-by": "oombot"}
SCHEDULES: Mapping[str, Text] = {"0 4 * * *": Text("every day at 04:00 UTC", "每天 04:00 UTC"), "0 */6 * * *": Text("every 6 hours", "每 6 小时")}
LONGEST = 52  # characters of a CronJob's name


def plan(draft: Draft, workload: Workload, schedule: Any, reader: ClusterReader) -> Remediation | Elsewhere:
    """The plan with the CronJob as its one step. Raises BadInput for a schedule that the bot does not write."""
    if schedule not in SCHEDULES:
        raise BadInput(f"a restart is scheduled {' or '.join(text.en for text in SCHEDULES.values())}, not at {str(schedule)[:40]!r}")
    if workload.kind not in ("Deployment", "StatefulSet", "DaemonSet"):
        return Elsewhere(Text(f"kubectl restarts no {workload.kind}.", f"kubectl 不能重启 {workload.kind}。"), "")
    ref = ObjectRef("batch/v1", "CronJob", workload.ref.namespace, f"oombot-restart-{workload.ref.name}"[:LONGEST].rstrip("-."))
    if _there(ref, reader):
        return Elsewhere(Text(f"{ref} is there already.", f"{ref} 已经存在。"), f"kubectl -n {ref.namespace} get cronjob {ref.name}\n", "sh")
    body = cron_job(workload, ref, str(schedule))
    says = Text(f"Makes {ref}: restarts {workload.ref} {SCHEDULES[schedule].en}.", f"新建 {ref}：{SCHEDULES[schedule].zh}重启 {workload.ref}。")
    step = Step(StepKind.CREATE, ref, says, ({"op": "create", "path": "", "value": body},))
    made = Remediation(
        id=draft.id, action=draft.action, direction="apply", remedy=draft.remedy, target=draft.target, object=workload.ref, steps=(step,),
        bound=bind(workload, (), reader.uid()), diff=_diff(ref, body, "+"), notes=_notes(workload, ref, SCHEDULES[schedule]), risk=draft.risk,
        expects=Expectation(), before={"/spec/schedule": None},
    )  # fmt: skip
    return dataclasses.replace(made, digest=digest_of(made))


def cron_job(workload: Workload, ref: ObjectRef, schedule: str) -> Json:
    """The CronJob: one short pod without rights on the node, whose account may only restart."""
    limits = {"cpu": "100m", "memory": "128Mi"}
    closed = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    words = ["-n", ref.namespace, "rollout", "restart", f"{workload.kind.lower()}/{workload.ref.name}"]
    container = {"name": "kubectl", "image": IMAGE, "args": words, "resources": {"requests": limits, "limits": limits}, "securityContext": closed}
    pod = {
        "serviceAccountName": ACCOUNT, "restartPolicy": "Never", "containers": [container],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
    }  # fmt: skip
    job = {"backoffLimit": 2, "activeDeadlineSeconds": 300, "ttlSecondsAfterFinished": 86400, "template": {"metadata": {"labels": LABELS}, "spec": pod}}
    spec = {
        "schedule": schedule,
        "timeZone": "Etc/UTC",
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": {"spec": job},
    }
    meta = {"name": ref.name, "namespace": ref.namespace, "labels": LABELS, "annotations": {OPERATION: PLACEHOLDER}}
    return {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": meta, "spec": spec}


def _there(ref: ObjectRef, reader: ClusterReader) -> bool:
    try:
        reader.get(ref.api_version, ref.kind, ref.namespace, ref.name)
    except NotFound:
        return False
    return True


def _diff(ref: ObjectRef, body: Mapping[str, Any], sign: str) -> str:
    shown = {"schedule": body["spec"]["schedule"], "jobTemplate": body["spec"]["jobTemplate"]}
    return "\n".join([f"@@ {ref.kind} {ref.name} @@", *(f"{sign} {line}" for line in dump(shown).splitlines())])


def _notes(workload: Workload, ref: ObjectRef, when: Text) -> tuple[Text, ...]:
    restarts = Text(
        f"Nothing restarts now. From then on {workload.ref} restarts {when.en}, as its strategy says; requests that run then are cut off after the grace period.",
        f"现在不会重启。之后 {workload.ref} 按其策略{when.zh}重启；当时未完成的请求会在宽限期后中断。",
    )
    account = Text(
        f"It runs {IMAGE} as the service account {ACCOUNT}, which deploy/rbac/scheduled-restart.yaml makes.",
        f"以服务账号 {ACCOUNT} 运行 {IMAGE}（见 deploy/rbac/scheduled-restart.yaml）。",
    )
    lists = "kubectl get cronjobs -A -l app.kubernetes.io/managed-by=oombot"
    return (restarts, account, Text(f"Undo deletes {ref}. All such jobs: {lists}", f"撤销会删除 {ref}。查看全部：{lists}"))


def plan_undo(operation: Operation, reader: ClusterReader, new_id: Callable[[], str]) -> Remediation:
    """The deletion of the CronJob that the operation made. Raises Changed when it is another one or restarts something else, NotFound when it is gone."""
    done = operation.remediation
    created = next(step for step in done.steps if step.kind is StepKind.CREATE)
    wanted: Json = created.patch[0]["value"]
    live = reader.get(created.object.api_version, created.object.kind, created.object.namespace, created.object.name)
    meta = metadata(live)
    found = (
        []
        if (meta.get("annotations") or {}).get(OPERATION) == operation.id
        else [Difference("uid", operation.id, (meta.get("annotations") or {}).get(OPERATION, ""))]
    )
    if live["spec"].get("schedule") != wanted["spec"]["schedule"]:
        found.append(Difference("/spec/schedule", wanted["spec"]["schedule"], live["spec"].get("schedule")))
    if found:
        raise Changed(found)
    ref = dataclasses.replace(created.object, uid=str(meta["uid"]))
    step = Step(StepKind.DELETE, ref, Text(f"Deletes {ref}.", f"删除 {ref}。"))
    # Bound to the CronJob itself: the workload may well have changed, or be gone, by the time that nobody wants its restarts any more.
    bound = Bound(done.bound.cluster_uid, ref.uid, template_sha256(live["spec"].get("jobTemplate")), {"/spec/schedule": live["spec"]["schedule"]}, "/spec/jobTemplate")
    plan = dataclasses.replace(
        done, id=new_id(), direction="undo", object=ref, steps=(step,), bound=bound, diff=_diff(ref, wanted, "-"), notes=(Text("Nothing restarts.", "没有 Pod 重启。"),), before={}, digest="",
    )  # fmt: skip
    return dataclasses.replace(plan, digest=digest_of(plan))


def is_there(remediation: Remediation, reader: ClusterReader) -> bool:
    """Whether the CronJob of the plan exists."""
    return _there(remediation.steps[0].object, reader)
