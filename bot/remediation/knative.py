"""How long Knative lets a new revision of a serverless InferenceService take to become ready, and whether it has given one up. Pure.

This deadline ends something, unlike a Deployment's: a revision that is not ready by then has failed, its pods go, and the one before goes on serving. What
the cluster sets for all (`config-deployment`) is not read. Source: Knative Serving's annotation `serving.knative.dev/progress-deadline`, which KServe hands on
from the predictor's and the object's own annotations, and KServe's condition PredictorConfigurationReady, which is Knative's word on the newest revision.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from bot.model import Text
from bot.remediation.bound import FIELD_MANAGER
from bot.remediation.pointer import get
from bot.remediation.workload import condition, metadata, parsed
from bot.units import duration

RAW = ("RawDeployment", "Standard")
DEADLINE = "serving.knative.dev/progress-deadline"
USUAL = timedelta(minutes=10)
_PARTS = re.compile(r"(?:\d+(?:\.\d+)?(?:h|m|s|ms))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def is_serverless(body: Mapping[str, Any]) -> bool:
    """Whether Knative runs an InferenceService's pods."""
    annotations = metadata(body).get("annotations") or {}
    mode = annotations.get("serving.kserve.io/deploymentMode") or (body.get("status") or {}).get("deploymentMode") or "Serverless"
    return mode not in RAW


def deadline(body: Mapping[str, Any]) -> timedelta | None:
    """The object's own; None where it names none, or one that is no duration."""
    own = get(body, "/spec/predictor/annotations")
    named = [one.get(DEADLINE) for one in (own if isinstance(own, Mapping) else {}, metadata(body).get("annotations") or {})]
    text = next((str(one).strip() for one in named if one is not None), "")
    if not _PARTS.fullmatch(text):
        return None
    return timedelta(seconds=sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text)))


def said(body: Mapping[str, Any], may: timedelta) -> Text:
    """For the preview. `may`: how long a start may take by the pod's own probes."""
    own = deadline(body)
    lasts = duration((own or USUAL).total_seconds())
    whose, whose_zh = ("", "") if own is not None else (", unless the cluster sets another", "（除非集群另有设置）")
    longer = may > (own or USUAL)
    more = f" By its probe a start may take {duration(may.total_seconds())}: raise that annotation first." if longer else ""
    more_zh = f"按探针，启动最多可用 {duration(may.total_seconds())}：请先调大该注解。" if longer else ""
    return Text(
        f"Knative gives a new revision {lasts} to become ready, its image included ({DEADLINE}{whose}); one that takes longer is given up, and the old one goes on serving.{more}",
        f"Knative 给新版本 {lasts} 就绪（含拉取镜像；{DEADLINE}{whose_zh}）；超时即放弃新版本，旧版本继续服务。{more_zh}",
    )


def given_up(body: Mapping[str, Any]) -> str:
    """Knative's words on the newest revision when it has failed since our last write; "" while it may still come."""
    found = condition(body, "PredictorConfigurationReady")
    if found.get("status") != "False":
        return ""
    since, wrote = parsed(found.get("lastTransitionTime")), _written(body)
    if since is None or wrote is None or since <= wrote:
        return ""
    return f"{found.get('reason') or 'the revision failed'}: {found.get('message') or ''}".strip(": ")


def _written(body: Mapping[str, Any]) -> datetime | None:
    ours = [parsed(one.get("time")) for one in metadata(body).get("managedFields") or [] if one.get("manager") == FIELD_MANAGER and not one.get("subresource")]
    return max((one for one in ours if one is not None), default=None)
