"""One spelling for one plan: canonical JSON and the digests that an approval binds.

A digest covers what will happen and leaves out the plan's own id and its times, so that planning the same change twice gives the same digest.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any

from bot.model import Remediation

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"


def canonical(value: Any) -> str:
    """JSON with sorted keys and no blanks. Floats are written as their shortest text, so that no parser can change them."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def plain(value: Any) -> Any:
    """Dataclasses, enums and tuples as plain JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return repr(value) if isinstance(value, float) else value


def sha256(value: Any) -> str:
    """Hex digest of the canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def digest_of(remediation: Remediation) -> str:
    """The digest of a plan; equals `remediation.digest` unless somebody altered the plan."""
    content = plain(remediation)
    del content["id"], content["digest"], content["bound"]["shown"]
    return sha256(_without_times(content))


COUNTS = ("replicas", "minReplicas", "maxReplicas")  # scaling changes nothing that was approved


def template_sha256(template: Any) -> str:
    """The digest of a pod template, without what changes nothing that was approved (`approved_part`)."""
    return sha256(approved_part(template))


def approved_part(template: Any) -> Any:
    """A pod template without the time of its last restart: a restart by somebody else changes nothing that was approved. None when it is no template."""
    if not isinstance(template, Mapping):
        return None
    template = {key: value for key, value in template.items() if key not in COUNTS}
    if isinstance(own := template.get("annotations"), Mapping):  # KServe's predictor has those of its pods beside their spec
        template = {key: value for key, value in template.items() if key != "annotations"} | ({"annotations": kept} if (kept := _timeless(own)) else {})
    meta = dict(template.get("metadata") or {})
    annotations = _timeless(meta.get("annotations") or {})
    rest = {key: value for key, value in meta.items() if key != "annotations" and value is not None}
    return {**template, "metadata": {**rest, "annotations": annotations} if annotations else rest}


def _timeless(annotations: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in annotations.items() if key != RESTARTED_AT}


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        timed = str(value.get("path", "")).endswith("restartedAt") and "value" in value
        kept = {**value, "value": "(time)"} if timed else value
        return {key: "(time)" if key == RESTARTED_AT else _without_times(item) for key, item in kept.items()}
    return [_without_times(item) for item in value] if isinstance(value, list) else value
