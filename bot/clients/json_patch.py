"""JSON patch (RFC 6902) for services that know none: `test`, `add`, `replace`, `remove` on plain JSON, all or nothing. Pure; whoever sends the result says what may change."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from bot.errors import Conflict, Rejected


def patched(document: Mapping[str, Any], operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A copy with the operations done. A missing member passes a test for null, as the API server of Kubernetes takes it. Raises Conflict when a test does
    not hold, Rejected for a path that is not there."""
    whole: dict[str, Any] = copy.deepcopy(dict(document))
    for one in operations:
        _do(whole, str(one["op"]), [_plain(part) for part in str(one["path"]).split("/")[1:]], one.get("value"))
    return whole


def _plain(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _do(whole: dict[str, Any], kind: str, parts: list[str], value: Any) -> None:
    path = "/".join(parts)
    if kind == "test":
        if _value(whole, parts) != value:
            raise Conflict(f"/{path} is not what the patch was made for")
        return
    parent = _value(whole, parts[:-1]) if parts else None
    if isinstance(parent, list):
        _in_list(parent, kind, parts[-1], value, path)
    elif isinstance(parent, dict) and (kind == "add" or parts[-1] in parent) and kind in ("add", "replace", "remove"):
        if kind == "remove":
            del parent[parts[-1]]
        else:
            parent[parts[-1]] = copy.deepcopy(value)
    else:
        raise Rejected(f"{kind} of /{path}: there is no such place")


def _in_list(parent: list[Any], kind: str, last: str, value: Any, path: str) -> None:
    at = len(parent) if last == "-" else int(last) if last.isdecimal() else -1
    if kind == "add" and 0 <= at <= len(parent):
        parent.insert(at, copy.deepcopy(value))
    elif kind == "replace" and 0 <= at < len(parent):
        parent[at] = copy.deepcopy(value)
    elif kind == "remove" and 0 <= at < len(parent):
        del parent[at]
    else:
        raise Rejected(f"{kind} of /{path}: there is no such place")


def _value(whole: Any, parts: Sequence[str]) -> Any:
    """What stands there; None where nothing does."""
    for part in parts:
        if isinstance(whole, dict):
            whole = whole.get(part)
        elif isinstance(whole, list) and part.isdecimal() and int(part) < len(whole):
            whole = whole[int(part)]
        else:
            return None
    return whole
