"""What an approval is bound to, and the comparison with what stands there now, naming who changed it.

Status, replicas and metadata may move: a crash-looping workload's resourceVersion moves with each crash, and that is nobody's change.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import Any, cast

from bot.errors import Conflict
from bot.model import Bound, Difference, ObjectRef, Remediation, Step, StepKind
from bot.ports import ClusterReader, ClusterWriter, Json
from bot.redact import redact
from bot.remediation.canonical import approved_part, template_sha256
from bot.remediation.change import Edit
from bot.remediation.paste import COMMAND_LINE, REDACTED, dump, masked
from bot.remediation.pointer import MISSING, child, get, split
from bot.remediation.workload import TEMPLATE, Workload, metadata

OPERATION = "oombot.io/operation"
FIELD_MANAGER = "oombot"
LONGEST_TEMPLATE = 20_000  # characters
VARIABLES = "environment_vars"  # of an endpoint's served entity: name -> value


class Changed(Conflict):
    """What the plan was made for is not what stands there now. `differences` say what and by whom."""

    def __init__(self, differences: Sequence[Difference]) -> None:
        first = differences[0]
        who = f" by {first.who}" if first.who else ""
        super().__init__(f"{first.path} was changed{who} after the preview" + (f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""))
        self.differences = tuple(differences)


def bind(workload: Workload, edits: Iterable[Edit], cluster_uid: str) -> Bound:
    """The bound values of a plan: what it touches, what proves an absent path, and the container's plain settings (so that a difference can be shown)."""
    values: dict[str, Any] = {f"{workload.container_pointer}/name": workload.container["name"]} if "name" in workload.container else {}
    values |= dict(_settings(workload))
    for edit in edits:
        values |= {pointer: value for pointer, value in edit.proof if is_clean(value)}
        if edit.before is not MISSING:
            values[edit.pointer] = edit.before
    return Bound(
        cluster_uid,
        workload.ref.uid,
        template_sha256(get(workload.body, workload.shape.template)),
        dict(sorted(values.items())),
        workload.shape.template,
        workload.container_pointer,
        _text_of(get(workload.body, workload.shape.template)),
    )


def _text_of(template: Any) -> str:
    """A template for people; "" where it is too long to be kept with a plan."""
    part = approved_part(template)
    text = dump(_without_values(part)) if part is not None else ""
    return text if len(text) <= LONGEST_TEMPLATE else ""


def _settings(workload: Workload) -> Iterator[tuple[str, Any]]:
    container = workload.container
    for key in COMMAND_LINE:
        items = container.get(key) or []
        for at, shown in enumerate(masked(items)):
            if shown == (item := items[at]):
                yield f"{workload.container_pointer}/{key}/{at}", item
    for key in ("image", "resources"):
        if key in container:
            yield f"{workload.container_pointer}/{key}", container[key]


def is_clean(value: Any) -> bool:
    """Whether a value holds no secret: only such values are kept with a plan."""
    text = json.dumps(value, ensure_ascii=False).encode()
    return redact(text) == text


def read(ref: ObjectRef, cluster: ClusterReader | ClusterWriter) -> Json:
    """The object as it is now, by either port (a writer compares right before its write)."""
    if hasattr(cluster, "patch"):
        return cast(ClusterWriter, cluster).get(ref)
    return cluster.get(ref.api_version, ref.kind, ref.namespace, ref.name)


def differences(remediation: Remediation, cluster: ClusterReader | ClusterWriter) -> tuple[Difference, ...]:
    """What differs from the preview; empty when the plan still fits. Raises NotFound when the object is gone, and the world's errors."""
    uid = cluster.uid()
    if uid != remediation.bound.cluster_uid:
        return (Difference("cluster", remediation.bound.cluster_uid, uid),)
    found = compare(remediation.bound, read(remediation.object, cluster))
    for step in remediation.steps:
        if step.kind is StepKind.PATCH and step.object != remediation.object:
            found += compare_beside(step, read(step.object, cluster))
    return found


def compare_beside(step: Step, live: Mapping[str, Any]) -> tuple[Difference, ...]:
    """What differs in another object that the plan writes: everything that its patch tests."""
    tests = [one for one in step.patch if one["op"] == "test"]
    uid = metadata(live).get("uid")
    if uid != step.object.uid:
        return (Difference("uid", step.object.uid, uid),)
    return tuple(difference(str(one["path"]), one["value"], live) for one in tests if _now(live, str(one["path"])) != one["value"])


def _now(live: Mapping[str, Any], pointer: str) -> Any:
    found = get(live, pointer)
    return None if found is MISSING else found


def compare(bound: Bound, live: Mapping[str, Any]) -> tuple[Difference, ...]:
    """The same for an object that was read already. Another object of the same name differs in its UID, and nothing else is compared then."""
    uid = metadata(live).get("uid")
    if uid != bound.object_uid:
        return (Difference("uid", bound.object_uid, uid),)
    found = [difference(pointer, before, live) for pointer, before in bound.values.items() if get(live, pointer) != before]
    return tuple(found) or template_difference(bound, live, live)


def template_difference(bound: Bound, template_of: Mapping[str, Any], live: Mapping[str, Any]) -> tuple[Difference, ...]:
    """A difference somewhere in the pod template that is not among the bound values."""
    template = get(template_of, bound.template)
    now = template_sha256(template)
    if now == bound.template_sha256:
        return ()
    before, after = _lines_apart(bound.shown, _text_of(template))
    if not before and not after:  # nothing that may be shown: a secret, or too much
        before, after = f"sha256:{bound.template_sha256[:12]}", f"sha256:{now[:12]}"
    return (Difference(bound.template, before or None, after or None, who(live, bound.template, whole=True)),)


def _without_values(tree: Any) -> Any:
    """The values of variables covered: any may be a secret, and none is needed to say that a variable was added or taken away."""
    if isinstance(tree, Mapping):
        variable = "name" in tree and "value" in tree
        covered = {key: dict.fromkeys(item, "(not shown)") for key, item in tree.items() if key == VARIABLES and isinstance(item, Mapping)}
        return {key: "(not shown)" if variable and key == "value" else covered.get(key) or _without_values(item) for key, item in tree.items()}
    return [_without_values(item) for item in tree] if isinstance(tree, list) else tree


def _lines_apart(before: str, after: str) -> tuple[str, str]:
    """The lines that are in one of two texts alone; both empty where one of the texts is not known."""
    if not before or not after:
        return "", ""
    lines = [line for line in list(unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))[2:] if not line.startswith("@@")]
    return "\n".join(line[1:] for line in lines if line[0] == "-"), "\n".join(line[1:] for line in lines if line[0] == "+")


def difference(pointer: str, before: Any, live: Mapping[str, Any]) -> Difference:
    """One difference, its values redacted; what is not there any more is None."""
    now = get(live, pointer)
    above, _, last = pointer.rpartition("/")
    if now is not MISSING and above.endswith(COMMAND_LINE):
        now = masked(get(live, above))[int(last)]
    return Difference(pointer, _shown(before), None if now is MISSING else _shown(now), who(live, pointer))


def _shown(value: Any) -> Any:
    return value if is_clean(value) else REDACTED


def who(live: Mapping[str, Any], pointer: str, *, whole: bool = False) -> str:
    """The manager that wrote the value last, by managedFields: the owner of the deepest part of the path, else (and for a `whole` template) whoever wrote the object last."""
    entries = [one for one in metadata(live).get("managedFields") or [] if not one.get("subresource") and one.get("manager") != FIELD_MANAGER]
    depths = [(depth(one.get("fieldsV1") or {}, live, split(pointer)), str(one.get("time", "")), str(one.get("manager", ""))) for one in entries]
    owning = [one for one in depths if one[0] >= len(split(TEMPLATE))]
    if owning and not whole:
        return max(owning)[2]
    latest = sorted((when, manager) for _, when, manager in depths)
    return latest[-1][1] if latest else ""


def depth(fields: Mapping[str, Any], live: Any, tokens: Sequence[str]) -> int:
    """How many parts of a path a set of managed fields owns. Keyed lists are written as `k:{...}`, a list without keys is owned as a whole."""
    if not tokens:
        return 0
    below = child(live, tokens[0])
    key = _field(fields, below, tokens[0], is_list=isinstance(live, list))
    return 0 if key is None else 1 + depth(fields[key] or {}, below, tokens[1:])


def _field(fields: Mapping[str, Any], below: Any, token: str, *, is_list: bool) -> str | None:
    if not is_list:
        return f"f:{token}" if f"f:{token}" in fields else None
    for name in fields:
        if name.startswith("k:") and isinstance(below, Mapping) and all(below.get(key) == value for key, value in json.loads(name[2:]).items()):
            return name
    return None
