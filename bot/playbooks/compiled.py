"""Keeps the parsed playbooks beside them (`playbooks/__pycache__/knowledge.json`), as Python keeps bytecode: start-up is a feature, and YAML is slow.

Good only while names, sizes and times of all files are what they were; never needed, and never an error when it cannot be written.
"""

import contextlib
import json
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FORMAT = 4
_PATTERNS = ("log_messages/", "signatures/", "names/", "servers/", "remedies.yaml")

Documents = dict[str, list[Any]]  # "messages", "signatures", "remedies", "names", "servers" -> [file, document]


def _files(root: str, below: str = "") -> Iterator[tuple[str, int, int]]:
    with os.scandir(f"{root}/{below}") as entries:
        for entry in entries:
            name = f"{below}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if any(f"{name}/".startswith(wanted) or wanted.startswith(f"{name}/") for wanted in _PATTERNS):
                    yield from _files(root, f"{name}/")
            elif name.endswith(".yaml") and name.startswith(_PATTERNS):
                seen = entry.stat()
                yield name, seen.st_mtime_ns, seen.st_size


def stamp(root: Path) -> list[list[Any]]:
    """Name, time and size of every file that counts."""
    try:
        return sorted([name, time, size] for name, time, size in _files(str(root)))
    except OSError:
        return []


def _place(root: Path) -> Path:
    return root / "__pycache__" / "knowledge.json"


def read(root: Path, now: list[list[Any]]) -> Documents | None:
    """The documents as they were parsed, when nothing has changed since."""
    try:
        with _place(root).open("rb") as file:
            if not _ours(os.fstat(file.fileno()), root):
                return None
            head, body = file.read(_HEAD), file.read()
        if head != _head(body):
            return None  # damaged, or written by another release
        kept = json.loads(body)
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(kept, dict) or kept.get("stamp") != now or not now:
        return None
    return {name: kept.get(name, []) for name in ("messages", "signatures", "remedies", "names", "servers")}


def _ours(file: os.stat_result, root: Path) -> bool:
    """Whether nobody else could have written it: what it says is believed as the playbooks themselves are."""
    return not hasattr(os, "geteuid") or (file.st_uid in (os.geteuid(), 0, root.stat().st_uid) and not file.st_mode & stat.S_IWOTH)


def _head(body: bytes) -> bytes:
    return f"oombot {FORMAT} {zlib.crc32(body):08x}\n".encode()


_HEAD = len(_head(b""))


def write(root: Path, now: list[list[Any]], documents: Documents) -> None:
    """Keeps the documents; a folder that cannot be written is left alone."""
    place = _place(root)
    fresh = place.with_suffix(f".{os.getpid()}-{os.urandom(4).hex()}")  # containers that share a folder may have the same process id
    try:
        place.parent.mkdir(exist_ok=True)
        body = json.dumps({"stamp": now, **documents}, ensure_ascii=False).encode()
        fresh.write_bytes(_head(body) + body)
        fresh.replace(place)
    except (OSError, ValueError, TypeError):
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
