"""Which rank rules: readings of all processes of one run become one set of values, that of the rank with the least room.

What that rank did not print is taken from another rank of an equal card. Judges nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.diagnosis.ledger_lines import ENGINE_WIDE, LedgerReading
from bot.units import GIB

Values = dict[str, int | float]

_FRONT = ("EngineCore", "APIServer", "ApiServer")
_LEAST = frozenset({"kv_tokens", "blocks", "max_concurrency", "estimated_max_len"})  # printed several times: the smallest is real
_ALIKE = GIB * 0.02  # ranks whose caches differ by less have the same room: which of two lines of theirs was kept is chance
_ROUNDING = GIB * 0.0051  # two lines that print one number with two and four decimals differ by this at most


@dataclass(frozen=True, slots=True)
class Chosen:
    """The values of the ruling rank, with the engine's. `ranks_seen` counts the processes that printed a ledger of their own."""

    values: Mapping[str, int | float]
    rank: int | None
    ranks_seen: int


def choose(readings: Sequence[LedgerReading]) -> Chosen:
    """The ruling rank is the one with the least left for the cache, or the least free beyond the budget; of equals the first that printed."""
    own: dict[str, Values] = {}
    ranks: dict[str, int | None] = {}
    wide: Values = {}
    compared: int | float | None = None
    for reading in readings:
        values = dict(reading.values)
        if "needed" in values and "available" in values:
            compared = values.pop("available")  # what the engine compared: already the least of all ranks
        for name, value in values.items():
            if name in ENGINE_WIDE:
                _keep_wide(wide, name, value)
            else:
                mine = own.setdefault(reading.process, {})
                mine[name] = _finer(mine.get(name), value)
                ranks[reading.process] = reading.rank if reading.rank is not None else ranks.get(reading.process)
    processes = _ranks_of(own)
    ruling = _ruling(processes, own, compared)
    merged = _merge(ruling, own)
    if compared is not None:
        merged["available"] = _finer(merged.get("available"), compared) if _near(merged.get("available"), compared) else compared
    return Chosen({**merged, **wide}, ranks.get(ruling) if ruling is not None else None, max(1, len(processes)))


def _keep_wide(wide: Values, name: str, value: int | float) -> None:
    wide[name] = min(wide[name], value) if name in _LEAST and name in wide else value


def _near(old: int | float | None, new: int | float) -> bool:
    return old is not None and abs(new - old) <= _ROUNDING


def _finer(old: int | float | None, new: int | float) -> int | float:
    """The later reading, or the finer of two that agree (5.2032 GiB rather than 5.20 GiB)."""
    if old is None or not (isinstance(old, int) and isinstance(new, int)) or not _near(old, new):
        return new
    return old if _coarse(new) and not _coarse(old) else new


def _coarse(size: int) -> bool:
    hundredths = size * 100 / GIB
    return abs(hundredths - round(hundredths)) < 1e-6


def _ranks_of(own: Mapping[str, Values]) -> list[str]:
    """Processes that are ranks: the front processes count only when no worker printed anything (one card: the worker lives in the engine core)."""
    workers = [name for name, values in own.items() if values and not name.startswith(_FRONT)]
    named = [name for name in workers if name]
    if any(name.startswith(("Worker", "VllmWorker ", "VllmWorker_", "VllmWorker TP")) for name in named):
        return named  # V1: the main process prints errors of its workers, no ledger of its own
    fronts = [name for name, values in own.items() if values]
    return workers or [name for name in fronts if name.startswith("EngineCore")] or fronts  # the server before an engine core repeats arguments, it is no rank


def _ruling(processes: Sequence[str], own: Mapping[str, Values], compared: int | float | None) -> str | None:
    with_cache = {name: own[name]["available"] for name in processes if "available" in own[name]}
    least = min(with_cache.values(), default=math.inf)
    with_cache.update({name: own[name]["in_use"] for name in processes if name not in with_cache and own[name].get("in_use", math.inf) < least - _ALIKE})
    if with_cache:
        return min(with_cache, key=lambda name: with_cache[name] if compared is None else abs(with_cache[name] - compared))
    with_budget = {name: own[name]["free_at_start"] - own[name]["requested"] for name in processes if {"free_at_start", "requested"} <= own[name].keys()}
    if with_budget:
        return min(with_budget, key=lambda name: with_budget[name])
    return max(processes, key=lambda name: len(own[name]), default=None)


def _merge(ruling: str | None, own: Mapping[str, Values]) -> Values:
    merged = dict(own.get(ruling, {})) if ruling is not None else {}
    for name, values in own.items():
        if name == ruling or ("total" in values and "total" in merged and values["total"] != merged["total"]):
            continue
        for field, value in values.items():
            if field not in ("in_use", "available"):
                merged.setdefault(field, value)
    if "in_use" in merged and (_near(merged.get("available"), merged["in_use"]) or "available" not in merged):
        merged["available"] = _finer(merged.get("available"), merged["in_use"])
    if "available" not in merged:
        left = [values.get("available", values.get("in_use")) for values in own.values()]
        merged.update({"available": least} if (least := min((x for x in left if x is not None), default=None)) is not None else {})
    return merged
