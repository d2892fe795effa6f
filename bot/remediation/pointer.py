"""JSON pointers (RFC 6901) and JSON patches (RFC 6902) over plain JSON, for planning and comparing in memory.

It does not talk to a cluster: the API server applies the real patch.
"""

import copy
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any


class Missing(Enum):
    """There is nothing at that path; a JSON null is something else."""

    MISSING = "missing"


MISSING = Missing.MISSING


class PatchFailed(ValueError):
    """An operation cannot be applied to this document."""


def join(*tokens: str | int) -> str:
    """A pointer of its parts: `join("metadata", "annotations", "a/b")` -> "/metadata/annotations/a~1b"."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


def split(pointer: str) -> list[str]:
    """The parts of a pointer. Raises ValueError when it does not begin with a slash."""
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"not a JSON pointer: {pointer[:80]}")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def child(value: Any, token: str) -> Any:
    """One step down; MISSING when there is nothing."""
    if isinstance(value, Mapping):
        return value.get(token, MISSING)
    if isinstance(value, list) and token.isdigit() and int(token) < len(value):
        return value[int(token)]
    return MISSING


def get(document: Any, pointer: str) -> Any:
    """What stands at the path, or MISSING."""
    value = document
    for token in split(pointer):
        value = child(value, token)
        if value is MISSING:
            return MISSING
    return value


def under(pointer: str, parent: str) -> bool:
    """Whether the path is the parent or lies below it."""
    return pointer == parent or pointer.startswith(parent + "/")


def apply(document: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """A patched copy (test, add, replace, remove). As for the API server, a missing member passes a test for null. Raises PatchFailed."""
    result = copy.deepcopy(document)
    for operation in operations:
        result = _apply_one(result, operation)
    return result


def _apply_one(document: Any, operation: Mapping[str, Any]) -> Any:
    name, path = operation["op"], operation["path"]
    if name == "test":
        found = get(document, path)
        if (None if found is MISSING else found) != operation["value"]:
            raise PatchFailed(f"test failed at {path}")
        return document
    if not path:
        raise PatchFailed("the whole document is never replaced")
    *above, last = split(path)
    parent = get(document, join(*above))
    if isinstance(parent, dict):
        _write_member(parent, last, operation)
    elif isinstance(parent, list):
        _write_item(parent, last, operation)
    else:
        raise PatchFailed(f"nothing to write into at {join(*above)}")
    return document


def _write_member(parent: dict[str, Any], key: str, operation: Mapping[str, Any]) -> None:
    name = operation["op"]
    if name in ("replace", "remove") and key not in parent:
        raise PatchFailed(f"nothing at {operation['path']}")
    if name == "remove":
        del parent[key]
    elif name in ("add", "replace"):
        parent[key] = copy.deepcopy(operation["value"])
    else:
        raise PatchFailed(f"unknown operation {name}")


def _write_item(parent: list[Any], place: str, operation: Mapping[str, Any]) -> None:
    name = operation["op"]
    at = len(parent) if place == "-" else int(place) if place.isdigit() else -1
    if not 0 <= at <= len(parent) or (name != "add" and at == len(parent)):
        raise PatchFailed(f"no item at {operation['path']}")
    if name == "add":
        parent.insert(at, copy.deepcopy(operation["value"]))
    elif name == "replace":
        parent[at] = copy.deepcopy(operation["value"])
    elif name == "remove":
        del parent[at]
    else:
        raise PatchFailed(f"unknown operation {name}")
