"""`metadata.managedFields`: who set which field, kept as the API server keeps it (one entry for a manager, an API version and a subresource)."""

from typing import Any

from bot.ports import Json

# Lists whose rows are owned one by one, and the fields that name a row. Others are owned as a whole.
_ROWS = {"containers": ("name",), "initContainers": ("name",), "env": ("name",), "volumes": ("name",), "ports": ("containerPort", "protocol"),
         "volumeMounts": ("mountPath",), "conditions": ("type",), "ownerReferences": ("uid",), "imagePullSecrets": ("name",)}  # fmt: skip

_NOT_OWNED = {
    "managedFields",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "name",
    "namespace",
}

Path = tuple[str, ...]


def note(before: Json | None, after: Json, manager: str, now: str, subresource: str) -> list[Json]:
    """The new list of entries after `manager` turned `before` into `after`: what it changed is its own now, and nobody else's any more."""
    entries = [dict(entry) for entry in (before or {}).get("metadata", {}).get("managedFields") or []]
    old, new = _leaves(before or {}), _leaves(after)
    changed = {path for path, value in new.items() if old.get(path, _leaves) != value}
    gone = set(old) - set(new)
    if not changed and not gone:
        return entries
    mine = None
    for entry in entries:
        paths = _paths(entry.get("fieldsV1") or {})
        if _same(entry, manager, subresource):
            mine, paths = entry, (paths | changed) - gone
            entry["time"] = now
        else:
            paths = paths - changed - gone
        entry["fieldsV1"] = _tree(paths)
    if mine is None and changed:
        mine = {"manager": manager, "operation": "Update", "apiVersion": after["apiVersion"], "time": now, "fieldsType": "FieldsV1", "fieldsV1": _tree(changed)}
        entries.append({**mine, "subresource": subresource} if subresource else mine)
    return [entry for entry in entries if entry["fieldsV1"]]


def _same(entry: Json, manager: str, subresource: str) -> bool:
    return bool(entry["manager"] == manager and entry["operation"] == "Update" and entry.get("subresource", "") == subresource)


def _leaves(document: Json) -> dict[Path, Any]:
    found: dict[Path, Any] = {}
    for key, value in document.items():
        if key not in ("apiVersion", "kind"):
            _walk((f"f:{key}",), key, value, found)
    return found


def _walk(path: Path, key: str, value: Any, found: dict[Path, Any]) -> None:
    if len(path) == 2 and path[0] == "f:metadata" and key in _NOT_OWNED:
        return
    if isinstance(value, dict) and value:
        for inner, below in value.items():
            _walk((*path, f"f:{inner}"), inner, below, found)
    elif isinstance(value, list) and key in _ROWS and value and all(isinstance(row, dict) for row in value):
        for row in value:
            named = ",".join(f'"{name}":{_json(row[name])}' for name in _ROWS[key] if name in row)
            for inner, below in row.items():
                _walk((*path, f"k:{{{named}}}", f"f:{inner}"), inner, below, found)
    else:
        found[path] = value


def _json(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _tree(paths: set[Path]) -> Json:
    root: Json = {}
    for path in sorted(paths):
        at = root
        for step in path:
            at = at.setdefault(step, {})
    return root


def _paths(tree: Json, before: Path = ()) -> set[Path]:
    found: set[Path] = set()
    for step, below in tree.items():
        found |= _paths(below, (*before, step)) if below else {(*before, step)}
    return found
