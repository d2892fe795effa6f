"""Opens and writes bundles: folders of evidence files, single files, or what comes on standard input. Understands no content.

Compressed files (gzip, zstd, bzip2, xz) and those of a Windows shell (UTF-16) are opened by their first bytes, whatever they are called.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from bot.clients.compressed import opened
from bot.errors import BadInput
from bot.model import Bundle, BundleFile, Gap

NAMES = (
    "bundle.json", "pod.json", "events.json", "container.log", "previous.log", "kernel.log", "nvidia-smi.txt", "ray_status.txt", "node_readings.txt", "args.txt",
    "node.json", "workload.json", "describe.txt", "endpoint.json",
)  # fmt: skip
_SUFFIXES = ("", ".gz", ".zst", ".xz", ".bz2")
_ROTATED = ("", *(f"{rotation}{suffix}" for rotation in (".1", ".2", ".3") for suffix in _SUFFIXES))  # for a log that was rotated away
MAX_LOGS = 64  # files under logs/ that are read
MAX_META = 2**20
_EVENTS = re.compile(rb"(?:Events: *\r?\n)? *Type +Reason +Age +From +Message *\r?\n")  # the table under a described pod
_KERNEL_LINE = re.compile(rb"(?:<\d{1,3}>)?\[ {0,8}\d{1,9}\.\d{6}\](?:\[ *[TC]\d+\])? \S|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,64} kernel: ")


def open_path(path: str) -> Bundle:
    """The bundle at `path`: a folder, one file, or "-". Raises BadInput with one clear line when it cannot be opened."""
    if path == "-":
        return _input(path)
    if not path:
        raise BadInput("a path is empty; give a folder, a log file, or - for standard input")
    place = Path(path)
    try:
        if place.is_dir():
            return _folder(path, place)
        if place.exists() and not place.is_file():
            return _kept(path, place)
        with _opened(place) as stream:
            head = stream.read(65536)
        if head.startswith(b"PK\x03\x04"):
            raise BadInput(f"{path}: a zip archive; unpack it, and give the folder or the log inside")
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file or folder") from None
    except PermissionError:
        raise BadInput(f"{path}: cannot be read: permission denied") from None
    except (OSError, ValueError) as wrong:
        raise BadInput(f"{path}: cannot be read: {getattr(wrong, 'strerror', None) or wrong}") from None
    return Bundle(path, {_role(place.name, head): BundleFile(place.name, partial(_opened, place))})


def write(bundle: Bundle, folder: Path, meta: Mapping[str, Any]) -> None:
    """Writes the files of a bundle and `bundle.json` (`meta`, plus the gaps) into `folder`, which is made when it is missing. Raises BadInput."""
    import shutil  # here and below not at the top: a start needs none of them

    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, file in bundle.files.items():
            target = folder / name
            if not target.resolve().is_relative_to(folder.resolve()):
                raise BadInput(f"{name}: not a name of a file in a bundle")
            target.parent.mkdir(parents=True, exist_ok=True)
            with file.open() as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink, 2**20)
        gaps = [{"source": gap.source, "reason": gap.reason, "would_tell": gap.would_tell} for gap in bundle.gaps]
        cut = sorted(name for name, file in bundle.files.items() if file.cut)
        (folder / "bundle.json").write_text(json.dumps({"schema": 1, **meta, "cut": cut, "gaps": gaps}, indent=2, ensure_ascii=False, default=str) + "\n")
    except OSError as wrong:
        raise BadInput(f"{folder}: cannot be written: {wrong.strerror}") from None


def _folder(path: str, place: Path) -> Bundle:
    files: dict[str, BundleFile] = {}
    gaps: list[Gap] = []
    if not os.access(place, os.R_OK | os.X_OK):
        raise BadInput(f"{path}: cannot be read: permission denied")
    found = [(name, place / (name + suffix)) for name in NAMES for suffix in _SUFFIXES]
    found += [(name, place / (name + suffix)) for name in NAMES if name.endswith(".log") for suffix in _ROTATED]
    found += [(f"logs/{log.name}", log) for log in _logs(place / "logs")]
    for name, file in found:
        if (name in files and not _empty(files[name], place)) or not os.path.lexists(file):
            continue
        wrong = _not_readable(file, place)
        if wrong:
            gaps.append(Gap(name, wrong, "what stands in it"))
            continue
        files[name] = BundleFile(str(file.relative_to(place)), partial(_opened, file))
    if not files and not gaps:
        gaps.append(_strangers(place))
    meta = _meta(files.get("bundle.json"), gaps)
    gaps += [Gap(str(gap.get("source")), str(gap.get("reason")), str(gap.get("would_tell", ""))) for gap in _dicts(meta.get("gaps"))]
    cut = meta.get("cut")
    for name in cut if isinstance(cut, list) else ():
        if isinstance(name, str) and name in files:
            files[name] = BundleFile(files[name].name, files[name].open, cut=True)
    return Bundle(path, files, tuple(gaps))


def _empty(file: BundleFile, place: Path) -> bool:
    return os.path.getsize(place / file.name) == 0


def _strangers(place: Path) -> Gap:
    """A folder without a single evidence file: its logs may have other names, or stand in folders of their own."""
    names, folders = (sorted(entry.name for entry in place.iterdir() if test(entry))[:5] for test in (Path.is_file, Path.is_dir))
    if folders and not names:
        return Gap("container.log", f"no evidence file in it, only folders: {', '.join(folders)}", "what the server said; give one of its folders, or several")
    reason = f"no evidence file by name; there are {', '.join(names)}" if names else "the folder is empty"
    return Gap("container.log", reason, "what the server said; call its log container.log, or give the file itself")


def _logs(place: Path) -> list[Path]:
    """Logs of other servers or of earlier times, compressed or not, rotated or not."""
    try:
        return sorted(place.glob("*.log*"))[:MAX_LOGS]
    except OSError:
        return []


def _not_readable(file: Path, bundle: Path) -> str:
    """Why a file of a bundle is not read: a bundle may come from anybody, so nothing outside of it and nothing that never ends is opened. "" for none."""
    try:
        if not file.resolve(strict=True).is_relative_to(bundle.resolve()):
            return "points outside of the bundle"
        if not file.is_file():
            return "is a folder" if file.is_dir() else "is not a file"
    except (OSError, RuntimeError, ValueError):
        return "points to nothing"
    return "" if os.access(file, os.R_OK) else "permission denied"


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)][:100] if isinstance(value, list) else []


def _meta(file: BundleFile | None, gaps: list[Gap]) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        with file.open() as stream:
            found = json.loads(stream.read(MAX_META))
    except (OSError, ValueError, EOFError, RecursionError):
        gaps.append(Gap("bundle.json", "damaged", "which files were cut short, and what could not be collected"))
        return {}
    return found if isinstance(found, dict) else {}


def _opened(place: Path) -> BinaryIO:
    return opened(place.open("rb"))


def _kept(path: str, place: Path) -> Bundle:
    """The bundle of something that can be read only once: a pipe. Raises BadInput for a device, which may never end."""
    if not place.is_fifo():
        raise BadInput(f"{path}: is neither a file nor a folder")
    with place.open("rb") as stream:
        return _copied(path, stream)


def _input(path: str) -> Bundle:
    if sys.stdin is None:  # closed by whoever started us
        raise BadInput(f"{path}: there is no standard input")
    try:
        return _copied(path, sys.stdin.buffer)
    except OSError as wrong:  # it is a folder, or there is no room to keep it
        raise BadInput(f"{path}: standard input cannot be kept: {wrong.strerror or wrong}") from None


def _copied(path: str, source: BinaryIO) -> Bundle:
    import shutil
    import tempfile

    kept = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the bundle
    shutil.copyfileobj(source, kept, 2**20)
    kept.flush()

    def again() -> BinaryIO:
        stream = os.fdopen(os.dup(kept.fileno()), "rb")
        stream.seek(0)
        return opened(stream)

    opener: Callable[[], BinaryIO] = again
    with again() as stream:
        head = stream.read(65536)
    return Bundle(path, {_role("-", head): BundleFile("-", opener)})


def _of_the_kernel(start: bytes) -> bool:
    """Whether the first lines, up to five, all look as `dmesg` or `journalctl -k` print them."""
    lines = [line for line in start.split(b"\n", 5)[:5] if line.strip()]
    return bool(lines) and all(_KERNEL_LINE.match(line) for line in lines)


def _role(name: str, head: bytes) -> str:
    """Which evidence file a single file is: by its name, else by its first bytes; a server's log when nothing says otherwise."""
    plain = next((known for known in NAMES if name.startswith(known) and name[len(known) :] in (*_SUFFIXES, *_ROTATED)), None)
    if plain is not None:
        return plain
    start = head.lstrip()[:4096]
    if start.startswith(b"{") and b'"apiVersion"' in head:
        if b'"kind": "Event"' in head or b'"kind":"Event"' in head or b'"involvedObject"' in head:
            return "events.json"
        return "pod.json" if b'"containers"' in head or b'"Pod"' in head else "container.log"
    if (start.startswith(b"Name: ") and b"\nContainers:" in head) or _EVENTS.match(start):
        return "describe.txt"
    if b"NVIDIA-SMI" in start or start.startswith(b"GPU 0: "):
        return "nvidia-smi.txt"
    if b"invoked oom-killer" in head or b"Memory cgroup out of memory" in head or b"NVRM: Xid" in head or _of_the_kernel(start):
        return "kernel.log"
    return "container.log"
