"""Label and field selectors, as lists and watches take them."""

import re
from collections.abc import Callable

from bot.ports import Json
from bot.sandbox.answers import bad_request

Matcher = Callable[[Json], bool]

_SET = re.compile(r"^\s*([\w./-]+)\s+(in|notin)\s+\(([^)]*)\)\s*$")
_COMPARE = re.compile(r"^\s*([\w./-]+)\s*(==|=|!=)\s*([\w.-]*)\s*$")
_EXISTS = re.compile(r"^\s*(!?)\s*([\w./-]+)\s*$")

# The fields that the real server lets people select by, and what an unset one counts as.
_FIELDS: dict[str, tuple[str, ...]] = {
    "Pod": ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase", "status.podIP"),
    "Event": ("involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
              "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type"),
    "Node": ("spec.unschedulable",),
    "Namespace": ("status.phase",),
    "Secret": ("type",),
    "Job": ("status.successful",),
}  # fmt: skip


def labels(selector: str) -> Matcher:
    """A matcher for `a=b,c!=d,e in (f,g),!h`. Raises a 400 for what is not a selector."""
    terms = [_term(part) for part in re.split(r",(?![^(]*\))", selector) if part.strip()]

    def matches(item: Json) -> bool:
        has = item.get("metadata", {}).get("labels") or {}
        return all(term(has) for term in terms)

    return matches


def fields(selector: str, kind: str) -> Matcher:
    """A matcher for `status.phase=Running,metadata.name!=x`. Raises a 400 for a field that this kind is not indexed by."""
    wanted: list[tuple[str, bool, str]] = []
    for part in filter(None, selector.split(",")):
        found = re.match(r"^\s*([\w.]+)\s*(==|=|!=)\s*(.*?)\s*$", part)
        if not found:
            raise bad_request(f"invalid field selector: {part!r}")
        if found[1] not in ("metadata.name", "metadata.namespace", *_FIELDS.get(kind, ())):
            raise bad_request(f"field label not supported: {found[1]}")
        wanted.append((found[1], found[2] != "!=", found[3]))

    return lambda item: all((_read(item, path) == value) == equal for path, equal, value in wanted)


def of_selector(selector: Json) -> Matcher:
    """A matcher for `spec.selector` of a workload (matchLabels and matchExpressions)."""
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for row in selector.get("matchExpressions") or []:
        operator, key, values = row["operator"], row["key"], ",".join(row.get("values") or [])
        terms.append({"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key, "DoesNotExist": f"!{key}"}[operator])
    return labels(",".join(terms))


def _term(part: str) -> Callable[[Json], bool]:
    if found := _SET.match(part):
        key, among = found[1], {value.strip() for value in found[3].split(",")}
        return (lambda has: has.get(key) in among) if found[2] == "in" else (lambda has: has.get(key) not in among)
    if found := _COMPARE.match(part):
        key, value = found[1], found[3]
        return (lambda has: has.get(key) != value) if found[2] == "!=" else (lambda has: has.get(key) == value)
    if found := _EXISTS.match(part):
        key = found[2]
        return (lambda has: key not in has) if found[1] else (lambda has: key in has)
    raise bad_request(f"unable to parse requirement: {part!r}")


def _read(item: Json, path: str) -> str:
    if path == "source":
        path = "source.component"
    value: object = item
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "false" if path == "spec.unschedulable" else ""
    return str(value)
