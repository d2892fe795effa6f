"""Several looks at the same thing in one file (`kubectl top pod`, `docker stats`, `ps`, `free`, one output after another): what only grows, or only falls.

A growth is told from ups and downs and from one step: at least four looks, each at least as high as the one before, three of them higher. That it is a leak
nobody can say from here: a start and a filling page cache grow too. Reads what `node_readings` was given, and knows no times.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from bot.evidence.sections import Line, Section
from bot.model import Fact
from bot.units import size_of

_LOOKS = 4
_STEPS = 3  # of them upwards
_SHARE = 0.1  # of the first look that a growth must reach
_LEFT = 0.75  # of what was available at first: what a node may fall to by itself
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([KMGT]?i?B?)$")
_STATS = re.compile(r"^\s*(?:[0-9a-f]{12,64}\s+)?(\S{1,200})\s+[\d.]{1,9}%\s+(\d{1,9}(?:\.\d{1,4})?[KMG]i?B) / ")

_Look = tuple[str, int, Line]


def facts(every: Iterable[Section], source: str) -> list[Fact]:
    """`looks.growth_bytes` of what grew most, `looks.growth_of` its name, `looks.count`; and `node.memory_fall_bytes` of `free`."""
    sections = list(every)
    grown = [(series[-1][1] - series[0][1], name, series) for name, series in _series(_uses(sections)).items() if _grows([size for _, size, _ in series])]
    found: list[Fact] = []
    if grown:
        most, name, series = max(grown, key=lambda one: one[0])
        place = series[-1][2].place(source)
        found = [Fact("looks.growth_bytes", most, place), Fact("looks.growth_of", name, place), Fact("looks.count", len(series), place)]
    rooms = [(size, line) for _, size, line in _available(sections)]
    sizes = [size for size, _ in rooms]
    if len(sizes) >= _LOOKS and _grows([-size for size in sizes]) and sizes[-1] < _LEFT * sizes[0]:
        found.append(Fact("node.memory_fall_bytes", sizes[0] - sizes[-1], rooms[-1][1].place(source)))
    return found


def _grows(sizes: list[int]) -> bool:
    steps = list(pairwise(sizes))
    upwards = all(later >= earlier for earlier, later in steps) and sum(later > earlier for earlier, later in steps) >= _STEPS
    return len(sizes) >= _LOOKS and upwards and sizes[-1] - sizes[0] >= _SHARE * abs(sizes[0])


def _series(looks: Iterable[_Look]) -> dict[str, list[_Look]]:
    found: dict[str, list[_Look]] = {}
    for look in looks:
        found.setdefault(look[0], []).append(look)
    return found


def _uses(sections: Iterable[Section]) -> Iterator[_Look]:
    for section in sections:
        yield from _top(section)
        yield from _ps(section)
        for line in section.lines:
            row = _STATS.match(line.text)
            if row and (size := _bytes(row[2])) is not None:
                yield row[1], size, line


def _top(section: Section) -> Iterator[_Look]:
    """Rows of `kubectl top pod`, with and without containers; each table has its header, or only the first one."""
    columns: list[str] = []
    for line in section.lines:
        words = line.text.split()
        if "MEMORY(bytes)" in words:
            columns = words if "MEMORY%" not in words else []
        elif columns and len(words) == len(columns) and (size := _bytes(words[columns.index("MEMORY(bytes)")])) is not None:
            yield " ".join(words[: columns.index("CPU(cores)")] if "CPU(cores)" in columns else words[:1])[:200], size, line


def _ps(section: Section) -> Iterator[_Look]:
    columns: list[str] = []
    for line in section.lines:
        words = line.text.split()
        upper = [word.upper() for word in words]
        if "RSS" in upper and "PID" in upper:
            columns = upper
        elif columns and len(words) >= len(columns) and words[columns.index("PID")].isdigit() and words[columns.index("RSS")].isdigit():
            yield f"process {words[columns.index('PID')][:10]}", int(words[columns.index("RSS")][:15]) * 1024, line


def _available(sections: Iterable[Section]) -> Iterator[_Look]:
    """What `free` calls available, in its own unit where it prints none: only the course of it counts, so KiB is as good as any."""
    columns: list[str] = []
    for section in sections:
        for line in section.lines:
            words = line.text.split()
            if "available" in words and "total" in words[:2]:
                columns = words
            elif columns and words[0] == "Mem:" and len(words) == len(columns) + 1 and (size := _bytes(words[columns.index("available") + 1], _unit(section.command))) is not None:
                yield "available", size, line


def _unit(command: str) -> str:
    flags = "".join(re.findall(r"\s-([a-z]+)\b", command))
    return next((unit for flag, unit in (("g", "GiB"), ("m", "MiB"), ("b", "B")) if flag in flags), "KiB")


def _bytes(word: str, unit: str = "B") -> int | None:
    """A printed amount; K, M and G are binary in all of these tools."""
    found = _SIZE.fullmatch(word)
    if not found:
        return None
    suffix = found[2].rstrip("Bb").rstrip("i")
    try:
        return size_of(found[1], f"{suffix}iB" if suffix else unit)
    except ValueError:
        return None
