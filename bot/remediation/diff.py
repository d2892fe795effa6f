"""The preview: a unified diff of the YAML that a person knows (one container's fields, the strategy), with little around it. Redacted."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bot.remediation.canonical import RESTARTED_AT
from bot.remediation.change import Beside
from bot.remediation.paste import dump
from bot.remediation.pointer import apply, get, split
from bot.remediation.workload import Workload

CONTEXT = 1


def diff(workload: Workload, before: Mapping[str, Any], after: Mapping[str, Any], beside: Sequence[Beside] = ()) -> str:
    """Unified diff of two versions of the object, part by part; each part begins with `@@ where @@`."""
    lines: list[str] = []
    for where, old, new in (*_beside(beside), *_parts(workload, before, after)):
        if old != new:
            lines += [f"@@ {where} @@", *_lines(dump(old).splitlines(), dump(new).splitlines())]
    return "\n".join(lines)


def _parts(workload: Workload, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    first, second = replace(workload, body=dict(before)), replace(workload, body=dict(after))
    old, new, old_container, new_container = first.template, second.template, first.container, second.container
    for key in dict.fromkeys([*old_container, *new_container]):
        where, left, right = f"container {workload.container_name}", _only(old_container, key), _only(new_container, key)
        yield (where, left, right) if key != "env" else (where, _covered(left, right), _covered(right, left))
    yield "pod template", _annotations(old), _timeless(_annotations(old), _annotations(new))
    shown = {"containers", *(["annotations"] if workload.shape.annotations == f"{workload.shape.pod_spec}/annotations" else [])}
    for key in dict.fromkeys([*old["spec"], *new["spec"]]):
        if key not in shown:
            yield "pod template", _only(old["spec"], key), _only(new["spec"], key)
    yield from _group(workload, before, after)
    top = workload.shape.template.split("/")[2]
    for key in dict.fromkeys([*before["spec"], *after["spec"]]):
        if key != top:
            yield f"{workload.kind}", _only(before["spec"], key), _only(after["spec"], key)


def _group(workload: Workload, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """What stands beside a template that is not the only one of the object: a Ray group's number of pods."""
    above, _, name = workload.shape.template.rpartition("/")
    old, new = get(before, above), get(after, above)
    if above.count("/") > 1 and isinstance(old, Mapping) and isinstance(new, Mapping):
        where = f"group {new['groupName']}" if "groupName" in new else above
        for key in dict.fromkeys([*old, *new]):
            if key != name:
                yield where, _only(old, key), _only(new, key)


def _beside(beside: Sequence[Beside]) -> Iterator[tuple[str, Any, Any]]:
    """Other objects that the plan writes: only the keys that change."""
    for one in beside:
        new = apply(one.body, [edit.operation() for edit in one.edits])
        keys = dict.fromkeys(split(edit.pointer)[1] for edit in one.edits)
        for key in keys:
            yield f"{one.ref.kind} {one.ref.name}", {key: (one.body.get("data") or {}).get(key)}, {key: new["data"].get(key)}


def _only(part: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {key: part[key]} if key in part else {}


def _covered(part: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """An `env` list whose other entries keep their values to themselves: they may be secrets, whatever they are called."""
    untouched = other.get("env") or []
    return {key: [{**entry, "value": "..."} if "value" in entry and entry in untouched else entry for entry in entries] for key, entries in part.items()}


def _annotations(template: Mapping[str, Any]) -> dict[str, Any]:
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    return {"annotations": dict(annotations)} if annotations else {}


def _timeless(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The new annotations without the clock: the time of a restart is not part of what is approved."""
    stamps = [part.get("annotations", {}).get(RESTARTED_AT) for part in (old, new)]
    if stamps[0] == stamps[1] or stamps[1] is None:
        return new
    return {"annotations": {**new["annotations"], RESTARTED_AT: "(when it is applied)"}}


def _lines(old: list[str], new: list[str]) -> list[str]:
    """Changed lines with one line around them, always under the field's own line."""
    old, new = ([] if lines == ["{}"] else lines for lines in (old, new))
    result: list[str] = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        result += _heading(old, new, group[0][1], first=not result)
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                result += [f"  {line}" for line in old[a1:a2]]
                continue
            result += [f"- {line}" for line in old[a1:a2]] + [f"+ {line}" for line in new[b1:b2]]
    return result


def _heading(old: list[str], new: list[str], start: int, *, first: bool) -> list[str]:
    """The field's line, when the shown part begins below it."""
    if start == 0:
        return []
    top = f"  {old[0]}" if old and new and old[0] == new[0] else ""
    if first:
        return [top, "  ..."] if top and start > 1 else [top] if top else []
    return ["  ..."]
