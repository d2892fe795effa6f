"""Where the source of an object stands that Argo CD, Flux or Helm keeps, as far as their own objects may be read: repository, path, values, and when a
change in place would be put back. Reads only; the patch for Git is handed out, nothing is pushed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from bot.errors import WorldError
from bot.model import Text
from bot.ports import ClusterReader, Json
from bot.remediation.change import Edit
from bot.remediation.ownership import Owner
from bot.remediation.paste import dump
from bot.remediation.pointer import MISSING, get, join
from bot.remediation.workload import metadata

APPLICATION, KUSTOMIZATION, RELEASE = "argoproj.io/v1alpha1", "kustomize.toolkit.fluxcd.io/v1", "helm.toolkit.fluxcd.io/v2"


@dataclass(frozen=True, slots=True)
class Source:
    """`where`: lines for the head of the patch ("repository ..., path ..."). `when`: when a change in place is put back. `values`: the patch of a values key."""

    where: tuple[str, ...]
    when: Text
    values: str = ""


def source(owner: Owner, body: Mapping[str, Any], edit: Edit, reader: ClusterReader) -> Source:
    """The source of a kept object; `edit` is the value that changes, to find its key among a release's values."""
    before, after = edit.before, edit.after
    if owner.kind == "argocd":
        return _argocd(owner, reader)
    if owner.kind == "flux" and owner.name.startswith("Kustomization "):
        return _kustomization(owner, body, reader)
    if owner.kind == "flux" and owner.name.startswith("HelmRelease "):
        return _release(owner, body, before, after, reader)
    if owner.kind == "helm":
        return Source((f"helm get values {owner.name} -n {metadata(body).get('namespace', '')} --all",), _NEXT_UPGRADE, _of_stack(body, edit))
    return Source((), _UNKNOWN)


_NEXT_UPGRADE = Text("A change in place lasts until the next upgrade of the release.", "直接修改会保留到 release 下次升级。")
_UNKNOWN = Text("When a change in place would be put back could not be read.", "无法得知直接修改何时会被还原。")


def _argocd(owner: Owner, reader: ClusterReader) -> Source:
    application = _named(reader, APPLICATION, "Application", owner.name.rpartition("_")[2])
    if application is None:
        return Source((), _UNKNOWN)
    spec = application.get("spec") or {}
    sources = [one for one in [spec.get("source"), *(spec.get("sources") or [])] if one]
    automated = (spec.get("syncPolicy") or {}).get("automated")
    if automated is not None and automated.get("selfHeal"):
        when = Text("Self-heal is on: a change in place is put back within seconds.", "已开启 self-heal：直接修改会在几秒内被还原。")
    elif automated is not None:
        when = Text("Self-heal is off: a change in place lasts until the next commit is synced.", "未开启 self-heal：直接修改会保留到下次提交同步。")
    else:
        when = Text("It is synced by hand: a change in place lasts until somebody syncs.", "手动同步：直接修改会保留到有人同步为止。")
    return Source(tuple(_where(one.get("repoURL"), one.get("path") or one.get("chart"), one.get("targetRevision")) for one in sources), when)


def _where(repository: Any, path: Any, revision: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in (("repository", repository), ("path", path), ("revision", revision)) if value)


def _kustomization(owner: Owner, body: Mapping[str, Any], reader: ClusterReader) -> Source:
    found = _placed(reader, KUSTOMIZATION, owner)
    if found is None:
        return Source((), _UNKNOWN)
    spec = found.get("spec") or {}
    ref = spec.get("sourceRef") or {}
    marks = {**(metadata(body).get("labels") or {}), **(metadata(body).get("annotations") or {})}
    if spec.get("suspend") or marks.get("kustomize.toolkit.fluxcd.io/reconcile") == "disabled":
        when = Text("Its reconciliation is suspended: a change in place lasts until it is resumed.", "已暂停同步：直接修改会保留到恢复同步。")
    else:
        every = str(spec.get("interval", "its interval"))
        when = Text(f"It is applied anew every {every}, which puts a change in place back.", f"每 {every} 重新应用一次，会还原直接修改。")
    return Source((_where(f"{ref.get('kind', '')} {ref.get('name', '')}".strip(), spec.get("path"), None),), when)


def _release(owner: Owner, body: Mapping[str, Any], before: Any, after: Any, reader: ClusterReader) -> Source:
    found = _placed(reader, RELEASE, owner)
    if found is None:
        return Source((), _UNKNOWN)
    spec = found.get("spec") or {}
    drift = (spec.get("driftDetection") or {}).get("mode")
    when = Text("Drift detection is on: a change in place is put back.", "已开启 drift detection：直接修改会被还原。") if drift == "enabled" else _NEXT_UPGRADE
    chart = ((spec.get("chart") or {}).get("spec") or {}).get("chart")
    return Source((_where(None, chart and f"of chart {chart}: spec.values of {owner.name}", None),), when, _values(spec.get("values") or {}, before, after))


def _values(values: Mapping[str, Any], before: Any, after: Any) -> str:
    """The patch of the one key among a release's values that holds the value; "" when none or several do."""
    spellings = list(_spellings(before, after))
    found = [(path, new) for path, value in _leaves(values, ()) for old, new in spellings if value == old and type(value) is type(old)]
    if len(found) != 1:
        return ""
    path, new = found[0]
    return dump({"spec": {"values": _nested(values, path, new)}})


# the values of the vLLM production stack's chart, by the option that they become
_STACK = {"max-model-len": "maxModelLen", "gpu-memory-utilization": "gpuMemoryUtilization", "max-num-seqs": "maxNumSeqs"}


def _of_stack(body: Mapping[str, Any], edit: Edit) -> str:
    """The values of the vLLM production stack, whose keys are known; "" for any other chart."""
    labels = metadata(body).get("labels") or {}
    if not isinstance(edit.after, str) or not (str(labels.get("helm.sh/chart", "")).startswith("vllm-stack") or "helm-release-name" in labels):
        return ""
    written = edit.after if edit.after.startswith("--") else next((f"{key}={edit.after}" for _, key in edit.proof if str(key).startswith("--")), "")
    option, _, value = written.removeprefix("--").partition("=")
    key = _STACK.get(option.replace("_", "-"))
    if key is None or not value or "model" not in labels:
        return ""
    return dump({"servingEngineSpec": {"modelSpec": [{"name": labels["model"], "vllmConfig": {key: yaml.safe_load(value)}}]}})


def _spellings(before: Any, after: Any) -> Iterator[tuple[Any, Any]]:
    """An argument as it stands in the object, its bare value as text, and that as a number."""
    if not isinstance(before, str) or not isinstance(after, str):
        return
    yield before, after
    old, new = before.rpartition("=")[2], after.rpartition("=")[2]
    if old != before:
        yield old, new
    for kind in (int, float):
        try:
            yield kind(old), kind(new)
            return
        except ValueError:
            continue


def _leaves(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    items: Sequence[tuple[str | int, Any]] = list(value.items()) if isinstance(value, Mapping) else list(enumerate(value)) if isinstance(value, list) else []
    for key, inner in items:
        yield from _leaves(inner, (*path, key))
    if not isinstance(value, Mapping | list):
        yield path, value


def _nested(values: Mapping[str, Any], path: tuple[str | int, ...], new: Any) -> Any:
    """The part of the values that leads to the key; a list is written whole, since values replace lists whole."""
    if not path or isinstance(path[0], int):
        return new
    whole = get(values, join(path[0]))
    if isinstance(whole, list):
        return {path[0]: _replaced(whole, path[1:], new)}
    return {path[0]: _nested(whole if whole is not MISSING and isinstance(whole, Mapping) else {}, path[1:], new)}


def _replaced(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, list):
        return [_replaced(item, path[1:], new) if at == path[0] else item for at, item in enumerate(value)]
    return {key: _replaced(item, path[1:], new) if key == path[0] else item for key, item in value.items()}


def _named(reader: ClusterReader, version: str, kind: str, name: str) -> Json | None:
    """The one object of that name, in whatever namespace."""
    try:
        found = [one for one in reader.list(version, kind, limit=5000) if metadata(one).get("name") == name]
    except WorldError:
        return None
    return found[0] if len(found) == 1 else None


def _placed(reader: ClusterReader, version: str, owner: Owner) -> Json | None:
    kind, _, place = owner.name.partition(" ")
    namespace, _, name = place.rpartition("/")
    try:
        return reader.get(version, kind, namespace, name)
    except WorldError:
        return None
