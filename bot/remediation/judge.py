"""Says whether a carried-out remediation worked. Pure.

Ready is not enough: the new process must have got past the phase where the old one died, and the same cause must not be found again.
What cannot be told is said to be not verifiable, with the reason.
"""

from datetime import datetime

from bot.model import Certainty, Diagnosis, Outcome, Phase, Predicted, Remediation, Rollout, Text, Verdict
from bot.remediation import endpoint, host_memory
from bot.remediation.shape import ENDPOINT
from bot.units import show

TOLERANCE = 0.05  # of the predicted cache: within it nothing is said
QUIET = ("healthy", "unknown", "")  # diagnoses of a new process that say nothing against it


def judge(remediation: Remediation, before: Diagnosis | None, after: Diagnosis | None, rollout: Rollout, now: datetime) -> Outcome:
    """The outcome. `before` is the diagnosis that led to the plan, `after` that of a new pod (None: it could not be made)."""
    if remediation.object.kind == ENDPOINT:
        return endpoint.judge(remediation, before, after, rollout, now)
    if remediation.object.kind == "Node" and rollout.done:
        return _node(remediation, now)
    if remediation.action == "schedule_restart" and rollout.done:
        return _scheduled(remediation, now)
    if remediation.direction == "undo":
        return _undone(rollout, now)
    cause = remediation.expects.cause or (before.cause if before else "")
    if after is not None and after.cause == cause and after.cause not in QUIET and rollout.done and after.certainty is Certainty.POSSIBLE:
        return _not_verifiable(Text(f"the same cause is possible: {after.summary.en}".rstrip("."), f"可能仍是同一原因：{after.summary.say('zh')}".rstrip("。")), now, after)
    if after is not None and after.cause not in QUIET and (after.cause == cause or not rollout.done):
        return Outcome(Verdict.FAILED, _same(after) if after.cause == cause else _other(after), now, after)
    if not rollout.done:
        return Outcome(Verdict.FAILED, _not_ready(rollout), now, after)
    if after is None:
        return _not_verifiable(Text("the new pod's evidence could not be read", "无法读取新 Pod 的证据"), now, None)
    # a remark about a process that is still loading (throttled, say) is no failure of it
    if after.cause not in QUIET and after.phase is not None and after.reached is not Phase.SERVING:
        return Outcome(Verdict.FAILED, _other(after), now, after)
    return _passed(remediation, before, after, rollout, now)


def _node(remediation: Remediation, now: datetime) -> Outcome:
    name = remediation.object.name
    if remediation.action == "stop_process":
        says = Text(f"The process on {name} is gone, and with it its hold on the card. A server that waits for the memory gets it at its next start.",
                    f"{name} 上的进程已结束，显存已释放。等待显存的服务会在下次启动时得到它。")  # fmt: skip
        return Outcome(Verdict.VERIFIED, says, now)
    if remediation.action == "drop_shared_memory":
        says = Text(f"The segments on {name} are gone, and their memory is free. A server that found no room gets it at its next start.",
                    f"{name} 上的共享内存段已清除，内存已释放。之前空间不足的服务会在下次启动时得到它。")  # fmt: skip
        return Outcome(Verdict.VERIFIED, says, now)
    if remediation.direction == "undo":
        return Outcome(Verdict.UNDONE, Text(f"Node {name} takes new pods again.", f"节点 {name} 恢复调度。"), now)
    return Outcome(
        Verdict.VERIFIED, Text(f"Node {name} takes no new pods. What ran there still runs.", f"节点 {name} 不再接收新 Pod；其上已有的仍在运行。"), now
    )


def _scheduled(remediation: Remediation, now: datetime) -> Outcome:
    made = remediation.steps[0].object
    if remediation.direction == "undo":
        return Outcome(Verdict.UNDONE, Text(f"{made} is deleted.", f"{made} 已删除。"), now)
    return Outcome(Verdict.VERIFIED, Text(f"{made} is there; the first restart is still to come.", f"{made} 已建好；首次重启尚未到时间。"), now)


def _undone(rollout: Rollout, now: datetime) -> Outcome:
    if rollout.done:
        says = Text(
            f"What was there before is back; {rollout.ready} of {rollout.wanted} pod(s) ready.",
            f"恢复为之前的内容；{rollout.ready}/{rollout.wanted} 个 Pod 就绪。",
        )
        return Outcome(Verdict.UNDONE, says, now)
    return Outcome(Verdict.FAILED, _not_ready(rollout), now)


def _passed(remediation: Remediation, before: Diagnosis | None, after: Diagnosis, rollout: Rollout, now: datetime) -> Outcome:
    """All pods are ready: now the mechanism."""
    phase, host = remediation.expects.pass_phase, host_memory.compared(remediation, before, after)
    if phase is None:
        return Outcome(Verdict.VERIFIED, _serves(rollout, host.en, host.zh), now, after)
    if after.reached is None:
        return _not_verifiable(_why_unread(after), now, after)
    if after.reached.order < phase.order or (after.reached is phase and phase is not Phase.SERVING):
        reason = Text(
            f"the new log shows the start only up to {_name(after.reached)}, and the old process died in {_name(phase)}",
            f"新日志只显示启动到 {_name(after.reached)}，而旧进程死于 {_name(phase)}",
        )
        return _not_verifiable(reason, now, after)
    en, zh = _mechanism(phase)
    more, more_zh = _cache(remediation.expects.predicted, after)
    return Outcome(Verdict.VERIFIED, _serves(rollout, en + more + host.en, zh + more_zh + host.zh), now, after)


def _mechanism(phase: Phase) -> tuple[str, str]:
    if phase is Phase.SERVING:
        return (
            " The old process died while serving: whether that peak is survived, only time will tell.",
            " 旧进程是在服务中死亡的：能否承受同样的峰值，需要观察。",
        )
    return f" The new process got past {_name(phase)}, where the old one died.", f" 新进程已通过旧进程死亡的阶段（{_name(phase)}）。"


def _cache(predicted: Predicted | None, after: Diagnosis) -> tuple[str, str]:
    """The predicted cache beside the real one, in tokens, else in bytes; empty unless both are known."""
    if predicted is None or after.ledger is None:
        return "", ""
    if predicted.kv_tokens is not None and after.ledger.kv_tokens is not None:
        return _compared(predicted.kv_tokens, after.ledger.kv_tokens, f"{predicted.kv_tokens:,} tokens", f"{after.ledger.kv_tokens:,}")
    if predicted.available_kv_bytes is not None and after.ledger.available_kv_bytes is not None:
        size, real = predicted.available_kv_bytes, after.ledger.available_kv_bytes
        return _compared(size, real, show(size), show(real))
    return "", ""


def _compared(predicted: int, real: int, shown: str, shown_real: str) -> tuple[str, str]:
    off = abs(real - predicted) / max(1, abs(predicted))
    remark, remark_zh = ("", "") if off <= TOLERANCE else (f" (off by {off:.0%})", f"（相差 {off:.0%}）")
    return f" Cache: predicted {shown}, real {shown_real}{remark}.", f" 缓存：预测 {shown}，实际 {shown_real}{remark_zh}。"


def _why_unread(after: Diagnosis) -> Text:
    gap = next((gap for gap in after.gaps if "log" in gap.source), None)
    if gap is not None:
        return Text(f"the new pod's log could not be read ({gap.source}: {gap.reason})", f"无法读取新 Pod 的日志（{gap.source}：{gap.reason}）")
    return Text("the new pod's log does not show how far the start came", "新 Pod 的日志看不出启动到了哪一步")


def _not_verifiable(reason: Text, now: datetime, after: Diagnosis | None) -> Outcome:
    says = Text(f"All pods are ready, but whether the fix worked cannot be verified: {reason.en}.", f"所有 Pod 已就绪，但无法验证修复是否有效：{reason.zh}。")
    return Outcome(Verdict.NOT_VERIFIABLE, says, now, after)


def _serves(rollout: Rollout, en: str, zh: str) -> Text:
    return Text(f"{rollout.ready} of {rollout.wanted} pod(s) ready.{en}", f"{rollout.ready}/{rollout.wanted} 个 Pod 就绪。{zh}")


def _same(after: Diagnosis) -> Text:
    return Text(f"The same cause again: {after.summary.en}", f"原因相同，再次出现：{after.summary.say('zh')}")


def _other(after: Diagnosis) -> Text:
    return Text(
        f"The new process failed for another cause ({after.cause}): {after.summary.en}", f"新进程因另一原因失败（{after.cause}）：{after.summary.say('zh')}"
    )


def _not_ready(rollout: Rollout) -> Text:
    why, why_zh = (f" It is stuck ({rollout.stuck}): {rollout.detail}", f" 卡住（{rollout.stuck}）：{rollout.detail}") if rollout.stuck else ("", "")
    return Text(f"Only {rollout.ready} of {rollout.wanted} pod(s) became ready.{why}", f"只有 {rollout.ready}/{rollout.wanted} 个 Pod 就绪。{why_zh}")


def _name(phase: Phase) -> str:
    return phase.value.replace("_", " ")
