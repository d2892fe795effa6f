"""Asks the metrics server what was bad before a change and is it after, and says what came of it. It never turns a failed verification into a verified one.

What is absent, stale, not one number or not readable has a reason instead of a value; nothing here raises what the world does.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.errors import Temporary, WorldError
from bot.model import Diagnosis, Measured, Quote, Remediation, Target, Text
from bot.ports import Metrics
from bot.remediation.metrics import Metric, Pods, filled, load, meant
from bot.units import show

BETTER = 0.8  # a value has to fall to this share of what it was to be called better
LEAST = timedelta(minutes=2)  # a shorter time holds too few samples to say anything
SOURCE = "prometheus"
NO_SAMPLE = Text("the server has no sample of it", "服务器没有该指标的样本")
NOT_ONE = Text("the answer is not one number", "返回的不是单个数值")


@dataclass(frozen=True, slots=True)
class Server:
    """A cluster's metrics server and the labels that tell this cluster's rows from others'."""

    metrics: Metrics
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Compared:
    """`says`: one sentence for all metrics, empty when there is nothing to say. `better`: None when no metric could tell."""

    says: Text
    better: bool | None = None


class Measure:
    """`servers` by the name of the cluster; a cluster without one is not asked about."""

    def __init__(self, servers: Mapping[str, Server], known: Mapping[str, Metric] | None = None) -> None:
        self._servers, self._known = servers, known

    def __call__(self, plan: Remediation, cause: str, pods: Sequence[str], at: datetime, over: timedelta) -> tuple[Measured, ...]:
        """All metrics that say something of the cause or of the plan's remedy, of these pods. Empty without a server, without pods, or for an undo.

        One that belongs to the remedy alone, and of which there is no sample, is left out: a server that never started was not seen preempting anything.
        """
        server = self._servers.get(plan.target.cluster)
        if server is None or not pods or plan.direction == "undo":
            return ()
        known = self._known if self._known is not None else load()
        whose = Pods(plan.target.namespace, pods, plan.target.container, server.labels)
        asks = _Asks(server.metrics)
        found = [(metric, asks.one(metric, whose, at, max(over, LEAST))) for metric in meant(cause, plan.remedy, known)]
        return tuple(one for metric, one in found if cause in metric.causes or one.reason != NO_SAMPLE)

    def readings(self, target: Target, diagnosis: Diagnosis, at: datetime, over: timedelta) -> tuple[Quote, ...]:
        """What the metrics say of a diagnosis at the time of the check: all that belong to its cause, and of those that belong to what is recommended the bad ones.
        Empty without a server, without a pod, or where there is no sample."""
        server = self._servers.get(target.cluster)
        if server is None or not target.pod:
            return ()
        known = self._known if self._known is not None else load()
        whose = Pods(target.namespace, [target.pod], target.container, server.labels)
        asks, remedies = _Asks(server.metrics), [one.id for one in diagnosis.recommendations]
        metrics = dict.fromkeys(metric for remedy in ("", *remedies) for metric in meant(diagnosis.cause, remedy, known))
        found = [(metric, asks.one(metric, whose, at, over)) for metric in metrics]
        told = [(metric, one.value) for metric, one in found if one.value is not None and (diagnosis.cause in metric.causes or one.value > metric.bad_above)]
        return tuple(_reading(metric, value, over) for metric, value in told)


def _reading(metric: Metric, value: float, over: timedelta) -> Quote:
    seen, minutes = shown(value, metric.unit), round(over.total_seconds() / 60)
    says = Text(f"{metric.says.en} in the last {minutes} min: {seen.en} (samples may miss a peak)", f"过去 {minutes} 分钟{metric.says.zh}：{seen.zh}（采样可能错过峰值）")
    return Quote(SOURCE, None, f"{metric.id} {value:.6g}", says)


class _Asks:
    """One look. A server that does not answer is asked once, so that a write does not wait for it again and again."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._silent: Text | None = None

    def one(self, metric: Metric, whose: Pods, at: datetime, over: timedelta) -> Measured:
        reason = NO_SAMPLE
        for query in metric.queries if self._silent is None else ():
            try:
                rows = self._metrics.query(filled(query, whose, over.total_seconds()), at)
            except WorldError as wrong:
                reason = Text(str(wrong), str(wrong))
                self._silent = reason if isinstance(wrong, Temporary) else None
                break
            values = [row.value for row in rows]
            if len(values) == 1 and math.isfinite(values[0]):
                return Measured(metric.id, values[0], at, over.total_seconds())
            if len(values) > 1:
                reason = NOT_ONE
        return Measured(metric.id, None, at, over.total_seconds(), self._silent or reason)


def compare(before: Sequence[Measured], after: Sequence[Measured], known: Mapping[str, Metric] | None = None) -> Compared:
    """What was bad before, beside what it is now."""
    known = known if known is not None else load()
    later = {one.metric: one for one in after}
    found = [_pair(known[one.metric], one, later.get(one.metric)) for one in before if one.metric in known]
    told = [one for one in found if one is not None]
    verdicts = [better for _, better in told if better is not None]
    says = Text(" ".join(text.en for text, _ in told), "".join(text.zh for text, _ in told))
    return Compared(says, any(verdicts) if verdicts else None)


def _pair(metric: Metric, before: Measured, after: Measured | None) -> tuple[Text, bool | None] | None:
    """A metric that was not bad has nothing to say."""
    if before.value is None:
        return _unable(metric, Text("before the change", "修改前"), before.reason or NO_SAMPLE), None
    if before.value <= metric.bad_above:
        return None
    was = shown(before.value, metric.unit)
    if after is None or after.value is None:
        if metric.gone is not None and (after is None or after.reason in (None, NO_SAMPLE)):
            return Text(f"{metric.says.en}: {was.en} before; {metric.gone.en}.", f"{metric.says.zh}：修改前 {was.zh}；{metric.gone.zh}。"), None
        return _unable(metric, Text("after it", "修改后"), (after.reason if after else None) or NO_SAMPLE), None
    now, better = shown(after.value, metric.unit), after.value <= before.value * BETTER
    remark, remark_zh = ("", "") if better else (", which is no better", "，没有改善")
    return Text(f"{metric.says.en}: {was.en} before, {now.en} after{remark}.", f"{metric.says.zh}：修改前 {was.zh}，修改后 {now.zh}{remark_zh}。"), better


def _unable(metric: Metric, when: Text, reason: Text) -> Text:
    return Text(
        f"{metric.says.en}: not verifiable by this metric, because {when.en} {reason.en}.", f"{metric.says.zh}：无法用该指标验证，因为{when.zh}{reason.zh}。"
    )


def shown(value: float, unit: str) -> Text:
    """As people write it: "41 %", "23.4 GiB", "12", "0.8 a minute"."""
    if unit == "share":
        return Text(f"{value * 100:.3g} %", f"{value * 100:.3g}%")
    if unit == "bytes":
        return Text(show(value), show(value))
    number = f"{value:.3g}"
    return Text(f"{number} a minute", f"每分钟 {number}") if unit == "per_minute" else Text(number, number)
