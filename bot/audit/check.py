"""Whether an audit trail is as it was written: every problem with its place. Pure: lines and heads in, problems out."""

import hmac
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bot.audit.lines import GENESIS, Head, parsed, signature, written

FOREIGN = "edited, or written with another key"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it was written. `line` counts from 1; 0 is the file as a whole."""

    line: int
    what: str


def problems(lines: Iterable[tuple[int, bytes]], key: bytes, kept: Head | None, posted: Head | None, *, kept_apart: bool) -> list[Problem]:
    """Everything that is wrong with these numbered lines. `kept`: the head of the store, which `kept_apart` says there should be; `posted`: one from a thread."""
    found: list[Problem] = []
    macs: dict[int, str] = {}
    last = Head(0, GENESIS)
    for number, line in lines:
        entry = parsed(line)
        if entry is None:
            found.append(Problem(number, "cut short: no end of line" if not line.endswith(b"\n") else "not an entry"))
            continue
        found += [Problem(number, what) for what in _of_entry(entry, line, last, key)]
        last = Head(int(entry["n"]), str(entry["mac"]))
        macs[last.n] = last.mac
    for head, whose in ((kept, "kept in the store"), (posted, "that was posted")):
        found += _of_head(head, whose, macs, last)
    if kept_apart and macs and kept is None:
        found.append(Problem(0, "the store keeps no head: it is another store, or its head was taken away"))
    return _in_runs(found, len(macs))


def _of_entry(entry: Mapping[str, Any], line: bytes, last: Head, key: bytes) -> Iterator[str]:
    if not hmac.compare_digest(signature(key, entry).encode(), str(entry["mac"]).encode("utf-8", "backslashreplace")):
        yield FOREIGN
    elif written(entry) != line:  # a key that stands twice, other spaces: who reads the file may see another entry than we do
        yield "edited: the same entry in other bytes"
    if entry["n"] != last.n + 1:
        yield f"entry {entry['n']} follows entry {last.n}: {'entries are missing' if entry['n'] > last.n + 1 else 'entries stand twice or in another order'}"
    elif entry["prev"] != last.mac:
        yield "does not follow from the entry before it"


def _of_head(head: Head | None, whose: str, macs: Mapping[int, str], last: Head) -> list[Problem]:
    if head is None or macs.get(head.n, "").startswith(head.mac):
        return []
    if head.n > last.n:
        return [Problem(0, f"truncated: it ends at entry {last.n}, but the head {whose} is entry {head.n}")]
    return [Problem(0, f"rewritten: entry {head.n} is not the one of the head {whose}")]


def _in_runs(problems: list[Problem], entries: int) -> list[Problem]:
    """One problem for many lines in a row that have the same: a replaced key would else be told once an entry."""
    foreign = [problem.line for problem in problems if problem.what == FOREIGN]
    if entries > 1 and len(foreign) == entries:
        return [Problem(0, f"none of its {entries} entries fits the key: the key was replaced, or somebody else wrote them"), *(one for one in problems if one.what != FOREIGN)]
    kept: list[Problem] = []
    runs = {line for line in foreign if line - 1 in foreign}
    for problem in problems:
        if problem.what == FOREIGN and problem.line in runs:
            continue
        end = problem.line
        while problem.what == FOREIGN and end + 1 in runs:
            end += 1
        kept.append(Problem(problem.line, f"{FOREIGN} (all to line {end})") if end > problem.line else problem)
    return kept
