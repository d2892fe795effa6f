"""A value that stands in a ConfigMap: the edit of one key, and the annotation of the pod template that makes the pods read it anew.

Pods do not notice a changed ConfigMap by themselves, so the plan changes both, the ConfigMap first. Undo puts both back. A key with a secret in it,
an immutable ConfigMap and one that may not be read are left to people. Who else uses the ConfigMap is said.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from bot.errors import Permanent, WorldError
from bot.model import Text
from bot.ports import ClusterReader, Json
from bot.remediation.bound import is_clean
from bot.remediation.change import Beside, Change, Edit, Elsewhere, put
from bot.remediation.pointer import join
from bot.remediation.workload import Workload, metadata, ref_of

ANNOTATION = "oombot.io/config"
USERS = ("Deployment", "StatefulSet", "DaemonSet")


def read(workload: Workload, name: str, reader: ClusterReader) -> Json | Text:
    """The ConfigMap, or why it cannot be looked at."""
    try:
        return reader.get("v1", "ConfigMap", workload.ref.namespace, name)
    except Permanent as wrong:
        return Text(
            f"The bot could not read ConfigMap {name} ({wrong}); deploy/rbac/configmaps.yaml lets it.",
            f"机器人无法读取 ConfigMap {name}（{wrong}）；可用 deploy/rbac/configmaps.yaml 授权。",
        )


def value(body: Mapping[str, Any], key: str) -> str | None:
    found = (body.get("data") or {}).get(key)
    return found if isinstance(found, str) else None


def change(workload: Workload, body: Json, key: str, new: str, reader: ClusterReader, by_hand: Elsewhere) -> Change | Elsewhere:
    """The edits of the ConfigMap's key and of the template's annotation; `by_hand` with the reason when the bot leaves it."""
    name, old = str(metadata(body)["name"]), value(body, key)
    if not workload.shape.annotations:
        return _left(by_hand, Text(f"{workload.ref} hands no annotation on to its pods, so they would not notice.", f"{workload.ref} 不向 Pod 传递注解，Pod 不会察觉修改。"))
    if body.get("immutable"):
        return _left(by_hand, Text(f"ConfigMap {name} is immutable: a new one is needed.", f"ConfigMap {name} 不可修改，需要新建一个。"))
    if not is_clean(old) or not is_clean(new):
        return _left(
            by_hand,
            Text(f"Key {key} of ConfigMap {name} holds a secret, so it is not kept in a plan.", f"ConfigMap {name} 的键 {key} 含有密钥，不能存进计划。"),
        )
    beside = Beside(ref_of(body, "v1", "ConfigMap"), body, (Edit(join("data", key), old, new),))
    mark = hashlib.sha256(new.encode()).hexdigest()[:16]
    roll = put(workload.body, workload.shape.annotations + join(ANNOTATION), mark)
    others = sorted(set(_users(workload, name, reader)))
    notes = [
        Text(
            f"The value stands in ConfigMap {name}; the annotation {ANNOTATION} makes the pods read it anew.",
            f"该值在 ConfigMap {name} 里；注解 {ANNOTATION} 让 Pod 重新读取。",
        )
    ]
    if others:
        notes.append(
            Text(
                f"ConfigMap {name} is used by {', '.join(others)} too, whose pods take the value at their next start.",
                f"ConfigMap {name} 还被 {'、'.join(others)} 使用，其 Pod 下次启动时也会用新值。",
            )
        )
    return Change((roll,), tuple(notes), beside=(beside,))


def _left(by_hand: Elsewhere, why: Text) -> Elsewhere:
    return Elsewhere(Text(f"{by_hand.reason.en} {why.en}", f"{by_hand.reason.zh}{why.zh}"), by_hand.paste, by_hand.language)


def _users(workload: Workload, name: str, reader: ClusterReader) -> Iterator[str]:
    """Other workloads of the namespace whose pods use the ConfigMap."""
    for kind in USERS:
        try:
            found = reader.list("apps/v1", kind, workload.ref.namespace)
        except WorldError:
            continue
        for one in found:
            meta = metadata(one)
            mine = meta.get("uid") == workload.ref.uid or any(owner.get("uid") == workload.ref.uid for owner in meta.get("ownerReferences") or [])
            if not mine and name in set(used((((one.get("spec") or {}).get("template") or {}).get("spec")) or {})):
                yield f"{kind} {meta['name']}"


def used(pod_spec: Mapping[str, Any]) -> Iterator[str]:
    """The names of the ConfigMaps that a pod's volumes and variables come from."""
    for volume in pod_spec.get("volumes") or []:
        yield str((volume.get("configMap") or {}).get("name", ""))
        for source in (volume.get("projected") or {}).get("sources") or []:
            yield str((source.get("configMap") or {}).get("name", ""))
    for container in [*(pod_spec.get("containers") or []), *(pod_spec.get("initContainers") or [])]:
        for one in container.get("envFrom") or []:
            yield str((one.get("configMapRef") or {}).get("name", ""))
        for one in container.get("env") or []:
            yield str(((one.get("valueFrom") or {}).get("configMapKeyRef") or {}).get("name", ""))
