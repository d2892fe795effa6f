"""The three kinds of patch: JSON patch (RFC 6902), JSON merge patch (RFC 7386), strategic merge patch. Pure: they give a new object."""

import copy
from typing import Any

from bot.ports import Json
from bot.sandbox.answers import ApiError, bad_request, patch_does_not_apply, unsupported_media

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

# Lists that a strategic patch merges by a key; all others are replaced as a whole.
MERGE_KEYS = {"containers": "name", "initContainers": "name", "ephemeralContainers": "name", "env": "name", "volumes": "name", "ports": "containerPort",
              "volumeMounts": "mountPath", "imagePullSecrets": "name", "conditions": "type", "ownerReferences": "uid", "hostAliases": "ip",
              "topologySpreadConstraints": "topologyKey", "addresses": "type", "containerStatuses": ""}  # fmt: skip


def apply(kind: str, document: Json, body: Any) -> Json:
    """The patched object. `kind` is the request's content type. Raises 422 when a JSON patch does not hold, 400 for a body of the wrong shape."""
    if kind == JSON_PATCH:
        if not isinstance(body, list):
            raise bad_request("error decoding patch: a JSON patch is a list of operations")
        return json_patch(document, body)
    if not isinstance(body, dict):
        raise bad_request("error decoding patch: a merge patch is an object")
    if kind == MERGE_PATCH:
        merged: Json = merge(document, body)
        return merged
    if kind == STRATEGIC_PATCH:
        return strategic(document, body)
    raise unsupported_media(kind)


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic(target: Any, patch: Json) -> Json:
    """As the API server does it for built-in kinds: lists of named things merge by their key; `$patch: delete` and `$patch: replace` are known."""
    if patch.get("$patch") == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if key != "$patch"}
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = strategic(result.get(key), value)
        elif isinstance(value, list) and MERGE_KEYS.get(key) and all(isinstance(row, dict) for row in value):
            result[key] = _merge_rows(result.get(key) or [], value, MERGE_KEYS[key])
        else:
            result[key] = copy.deepcopy(value)
    return result


def _merge_rows(rows: list[Json], patch: list[Json], key: str) -> list[Json]:
    result = [dict(row) for row in rows]
    if any(row.get("$patch") == "replace" and len(row) == 1 for row in patch):
        result = []
        patch = [row for row in patch if "$patch" not in row]
    for row in patch:
        if key not in row:
            raise bad_request(f"map: {row} does not contain declared merge key: {key}")
        at = next((index for index, old in enumerate(result) if old.get(key) == row[key]), None)
        if row.get("$patch") == "delete":
            if at is not None:
                del result[at]
        elif at is None:
            result.append(strategic({}, row))
        else:
            result[at] = strategic(result[at], row)
    return result


def json_patch(document: Json, operations: list[Any]) -> Json:
    """RFC 6902, all or nothing."""
    result = copy.deepcopy(document)
    for operation in operations:
        if not isinstance(operation, dict) or "op" not in operation or not str(operation.get("path", "")).startswith("/"):
            raise _unusable(operation)
        result = _operate(result, operation)
    return result


def _unusable(operation: Any) -> ApiError:
    return bad_request(f"error decoding patch: {operation!r} is no operation")


def _operate(document: Json, operation: Json) -> Json:
    name, path = operation["op"], operation["path"]
    if name in ("add", "replace", "test") and "value" not in operation:
        raise _unusable(operation)
    if name == "test":
        # The server's library takes a missing member as null; so does this.
        if _get(document, path, missing=None) != operation["value"]:
            raise patch_does_not_apply()
    elif name == "add":
        _add(document, path, copy.deepcopy(operation["value"]))
    elif name == "replace":
        # As the server's library has it: a member that is not there yet may be "replaced", an element of a list may not.
        _get(document, path, missing=None)
        _put(document, path, copy.deepcopy(operation["value"]))
    elif name == "remove":
        _remove(document, path)
    elif name in ("move", "copy"):
        value = copy.deepcopy(_get(document, str(operation.get("from", ""))))
        if name == "move":
            _remove(document, operation["from"])
        _add(document, path, value)
    else:
        raise _unusable(operation)
    return document


def split(pointer: str) -> list[str]:
    """The steps of a JSON pointer: "/a/b~1c" -> ["a", "b/c"]."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


_RAISE = object()


def _get(document: Any, pointer: str, missing: Any = _RAISE) -> Any:
    found = document
    steps = split(pointer)
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list) and step.isdigit() and int(step) < len(found):
            found = found[int(step)]
        elif isinstance(found, dict) and last and missing is not _RAISE:
            return missing
        else:
            raise patch_does_not_apply()
    return found


def _parent(document: Any, pointer: str) -> tuple[Any, str]:
    before, _, _ = pointer.rpartition("/")
    return (_get(document, before) if before else document), split(pointer)[-1]


def _put(document: Any, pointer: str, value: Any) -> None:
    parent, step = _parent(document, pointer)
    parent[int(step) if isinstance(parent, list) else step] = value


def _add(document: Any, pointer: str, value: Any) -> None:
    parent, step = _parent(document, pointer)
    if isinstance(parent, dict):
        parent[step] = value
    elif isinstance(parent, list) and step == "-":
        parent.append(value)
    elif isinstance(parent, list) and step.isdigit() and int(step) <= len(parent):
        parent.insert(int(step), value)
    else:
        raise patch_does_not_apply()


def _remove(document: Any, pointer: str) -> None:
    _get(document, pointer)
    parent, step = _parent(document, pointer)
    del parent[int(step) if isinstance(parent, list) else step]
