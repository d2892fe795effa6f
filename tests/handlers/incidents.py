"""Cases for the tests of the rim: one for every state, small or huge, friendly or hostile."""

from dataclasses import replace
from datetime import timedelta

from bot.model import (
    Actor,
    Alert,
    Approval,
    Bound,
    Button,
    Case,
    Certainty,
    Conversation,
    Diagnosis,
    Difference,
    Expectation,
    Gap,
    Handout,
    Ledger,
    Move,
    ObjectRef,
    Operation,
    Outcome,
    Predicted,
    ProgressLine,
    Quote,
    Recommendation,
    Remediation,
    Request,
    Rollout,
    RunnerUp,
    State,
    Step,
    StepKind,
    Target,
    TargetQuery,
    Text,
    Verdict,
    WillNotHelp,
    Words,
)
from tests.handlers.desk import NOW

GIB = 1 << 30
ANA, JO, WEI = Actor("U01ANA", "slack", "Ana", "T0SANDBOX"), Actor("U02JO", "slack", "Jo", "T0SANDBOX"), Actor("U03WEI", "slack", "Wei", "T0SANDBOX")
CHANNEL = "C01ONCALL"
CHAT = ObjectRef("apps/v1", "Deployment", "llm", "chat", "uid-1")
HOSTILE = "boom <!channel> <@U02JO> *bold* `code` & <https://evil.example|click me> \x1b[31m\u202e"

DIAGNOSIS = Diagnosis(
    "context_exceeds_kv_cache", "device_memory", Certainty.CERTAIN,
    Text("cannot start: one request of 131,072 tokens needs 24.0 GiB of cache, 10.6 GiB are left.", "无法启动：131,072 个 token 的请求需要 24.0 GiB 缓存，只剩 10.6 GiB。"),
    evidence=(Quote("container.log", 212, "24.0 GiB KV cache is needed, which is larger than ...", Text("The cache is too small.", "缓存太小。")),),
    against=(Quote("events.json", None, "Pulled", Text("The image was pulled again.", "镜像被重新拉取。")),),
    runners_up=(RunnerUp("kv_cache_too_small", Certainty.POSSIBLE),),
    gaps=(Gap("kernel.log", "no SSH access configured", "who was killed", False),),
    ledger=Ledger(
        0, 1, total_bytes=round(44.4 * GIB), utilization=0.9, requested_bytes=round(39.96 * GIB), weights_bytes=round(27.7 * GIB),
        available_kv_bytes=round(10.58 * GIB), kv_tokens=57776, max_model_len=131072, needed_kv_bytes=24 * GIB, derived=("requested_bytes",),
    ),
    recommendations=(
        Recommendation(
            "max_model_len", "lower", Text("It has to fit the cache.", "必须放得下缓存。"), Text("Fits by 0.08 GiB.", "余量 0.08 GiB。"), "low", 131072, 57344,
            Predicted(round(10.58 * GIB), 57776, 1.0), option="--max-model-len",
        ),
        Recommendation("kv_cache_dtype", "fp8", Text("Halves the need.", "需求减半。"), Text("Quality is yours to judge.", "质量请自行判断。"), "medium"),
    ),
    will_not_help=(WillNotHelp("gpu_memory_utilization", "lower", Text("It makes the cache smaller.", "会让缓存更小。")),),
    engine_version="0.11.0",
)  # fmt: skip

PLAN = Remediation(
    "plan-1", "set_engine_argument", "apply", "max_model_len:lower", Target("east", "llm", "chat-7d9f-x2x", workload=CHAT), CHAT,
    (
        Step(StepKind.PATCH, CHAT, Text("Set --max-model-len to 57344.", "将 --max-model-len 设为 57344。"), ({"op": "test", "path": "/metadata/uid", "value": "uid-1"},)),
        Step(StepKind.DELETE_POD, ObjectRef("v1", "Pod", "llm", "chat-7d9f-x2x", "uid-2"), Text("Let the old pod go first.", "先释放旧 Pod。")),
    ),
    Bound("cluster-uid", "uid-1", "sha"), "   args:\n-    - --max-model-len=131072\n+    - --max-model-len=57344\n",
    (Text("Restarts 2 pods one after another.", "逐个重启 2 个 Pod。"),), "medium", Expectation(predicted=Predicted(kv_tokens=57776)), {"/spec": None}, "f" * 64,
)  # fmt: skip

BUTTONS = (
    Button("id-apply-0", "apply", 0), Button("id-apply-1", "apply", 1), Button("id-retry", "retry"), Button("id-approve", "approve", 0, "plan-1"),
    Button("id-reject", "reject", 0, "plan-1"), Button("id-undo", "undo", 0, "plan-1"), Button("id-wait", "wait", 0, "plan-1"),
    Button("id-leave", "leave", 0, "plan-1"), Button("id-again", "preview_again", 0, "plan-1"),
)  # fmt: skip

PURPOSES = ("top", "evidence", "recommendation", "plan:plan-1", "outcome:op-1", "note:1")
_PLANNED = {State.AWAITING_APPROVAL, State.APPROVED, State.EXECUTING, State.WATCHING, State.VERIFYING, State.STUCK}
_ENDED = {
    State.VERIFIED: Verdict.VERIFIED, State.VERIFICATION_FAILED: Verdict.FAILED, State.NOT_VERIFIABLE: Verdict.NOT_VERIFIABLE,
    State.UNDONE: Verdict.UNDONE, State.LEFT: Verdict.FAILED,
}  # fmt: skip


def request(key: str = "slack:1", alert: Alert | None = None) -> Request:
    return Request(key, ANA if alert is None else Actor("pagerduty", "pagerduty"), TargetQuery("chat-7d9f", "pod", "chat-7d9f"), NOW, Conversation(CHANNEL), alert)


def operation(state: State) -> Operation:
    begun = state not in (State.AWAITING_APPROVAL, State.APPROVED)
    verdict = _ENDED.get(state)
    return Operation(
        "op-1", PLAN, JO, NOW, NOW + timedelta(minutes=25),
        approvals=() if state is State.AWAITING_APPROVAL else (Approval("plan-1", PLAN.digest, WEI, NOW + timedelta(minutes=2)),),
        next_step=2 if begun else 0, started_at=NOW + timedelta(minutes=2) if begun else None,
        rollout=Rollout(2, 1, 1, False, "unschedulable" if state is State.STUCK else "", "0/3 nodes are available") if begun and state is not State.EXECUTING else None,
        outcome=Outcome(verdict, Text("Both pods serve.", "两个 Pod 都在服务。"), NOW + timedelta(minutes=6), DIAGNOSIS) if verdict else None,
        watch_until=NOW + timedelta(minutes=30), audit_head="27:" + "a" * 64,
    )  # fmt: skip


def case(state: State, **changes: object) -> Case:
    """A Case as it looks in a state."""
    early = state in (State.RECEIVED, State.CHECKING, State.CHECK_FAILED)
    made = Case(
        "case-1", 3, state, request(), NOW, NOW + timedelta(minutes=3), target=None if early else PLAN.target,
        progress=(ProgressLine("pod", "done", "12 events"), ProgressLine("kernel log", "failed", "host key not known"), ProgressLine("logs", "running")),
        diagnosis=None if early else DIAGNOSIS, buttons=BUTTONS, operation=operation(state) if state in _PLANNED or state in _ENDED else None,
        trouble=Words("expired", {"at": "10:42"}) if state is State.CHECK_FAILED else None, history=(Move(NOW, State.RECEIVED, state, "oombot"),),
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def with_notes(state: State = State.DIAGNOSED) -> Case:
    """With everything that a note can carry."""
    differences = (Difference("/spec/template/spec/containers/0/args/3", "--max-num-seqs=64", "--max-num-seqs=128", "argocd-application-controller"),)
    handout = Handout("kv_cache_dtype:fp8", Text("The argument stands inside a shell string.", "参数位于 shell 字符串中。"), "args:\n  - --kv-cache-dtype=fp8\n")
    return case(state, trouble=Words("not_approver", {"who": "S01ONCALL"}), differences=differences, handout=handout)


def hostile() -> Case:
    """Everything that can come from outside holds markup."""
    text = Text(HOSTILE, HOSTILE)
    quote = Quote(HOSTILE, 7, HOSTILE, text)
    diagnosis = replace(
        DIAGNOSIS, summary=text, evidence=(quote,), against=(quote,), gaps=(Gap(HOSTILE, HOSTILE, HOSTILE, None),), engine_version=HOSTILE,
        recommendations=(Recommendation("max_model_len", "lower", text, text, "low", HOSTILE, HOSTILE, option="--max-model-len"), Recommendation(HOSTILE, HOSTILE, text, text, HOSTILE, 1, 2)),
        will_not_help=(WillNotHelp(HOSTILE, HOSTILE, text),), runners_up=(RunnerUp(HOSTILE, Certainty.POSSIBLE),), certainty=Certainty.LIKELY,
    )  # fmt: skip
    plan = replace(PLAN, diff=HOSTILE, notes=(text,), remedy=HOSTILE, steps=tuple(replace(step, says=text) for step in PLAN.steps), object=replace(CHAT, name=HOSTILE))
    stuck = replace(operation(State.STUCK), remediation=plan, rollout=Rollout(1, 1, 0, False, HOSTILE, HOSTILE), outcome=None)
    alert = Alert("k", "pagerduty", HOSTILE, {HOSTILE: HOSTILE}, "https://pd.example/<!here>", "P1")
    return case(
        State.STUCK, diagnosis=diagnosis, operation=stuck, request=request(alert=alert), target=Target("east", HOSTILE, HOSTILE), progress=(ProgressLine(HOSTILE, "done", HOSTILE),),
        trouble=Words("alert_names_nothing", {"title": HOSTILE, "looked_for": HOSTILE}), differences=(Difference(HOSTILE, HOSTILE, {"a": HOSTILE}, HOSTILE),),
        handout=Handout(HOSTILE, text, HOSTILE),
    )  # fmt: skip


def huge() -> Case:
    """Far more than Slack takes in one message."""
    text, quote = Text("long " * 2000), Quote("container.log", 1, "x" * 20_000, Text("y" * 5000))
    diagnosis = replace(
        DIAGNOSIS, summary=text, evidence=(quote,) * 60, against=(quote,) * 30, gaps=(Gap("g" * 4000, "r" * 4000, "w" * 4000),) * 40, certainty=Certainty.LIKELY,
        recommendations=(Recommendation("max_model_len", "lower", text, text, "low", "1" * 4000, "2" * 4000, option="--max-model-len"),) * 40,
        will_not_help=(WillNotHelp("restart", "", text),) * 60, runners_up=(RunnerUp("z" * 4000, Certainty.POSSIBLE),) * 60,
    )  # fmt: skip
    plan = replace(PLAN, diff="+ a line\n" * 5000, notes=(text,) * 40, steps=PLAN.steps * 60)
    made = case(State.STUCK, diagnosis=diagnosis, progress=(ProgressLine("n" * 3000, "done", "d" * 3000),) * 60)
    handout = Handout("restart", text, "paste\n" * 5000)
    return replace(made, operation=replace(operation(State.STUCK), remediation=plan), handout=handout, differences=(Difference("/p" * 3000, "b" * 9000, "n" * 9000, "w" * 3000),) * 60)
