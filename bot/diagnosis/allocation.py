"""What the failed allocation says, from the allocator's own text: how large, beside what, and who else was on the card.

NVML inside a container lists processes by the node's numbers, so the server itself may appear as "Process 48112": the entry whose size is nearest
to what PyTorch holds is the server, the rest are others. Pure arithmetic on one event.
"""

import re
from collections.abc import Collection, Mapping

from bot import units
from bot.logs.events import Event
from bot.model import Fact, Value

_PROCESS = re.compile(r"Process (\d{1,10}) has ([\d.]{1,20}) ([KMGT]iB|bytes) memory in use")
_SCRAPS = 0.02  # of a card: pieces that every running server has lying about
_CRUMBS = 0.01  # of the card: what a full one still shows as free, in pieces and as the driver's own reserve, refuses a piece of its size
_SLACK = 4 * units.GIB  # driver context, NCCL and libraries of one process outside PyTorch seldom hold more


def processes(text: str) -> list[int]:
    """Bytes of each process that the text names by number."""
    found = []
    for _, number, unit in _PROCESS.findall(text[:8192])[:64]:
        try:
            found.append(units.size_of(number, unit))
        except ValueError:
            continue
    return [size for size in found if size < 2**50]  # WSL prints 17179869184.00 GiB


def siblings(text: str, own: int | None, pids: Collection[int]) -> bool | None:
    """Whether all processes that the text names, but the failing one, are this server's own by their numbers; None where it names none."""
    named = {int(number) for number, _, _ in _PROCESS.findall(text[:8192])[:64]} - {own}
    return named <= set(pids) if named else None


def _split(text: str, own: int | None, reserved: int | None) -> tuple[int | None, int | None]:
    """Bytes of the process itself and of all others, as far as the text says it."""
    named = processes(text)
    if own is not None or not named:
        return own, sum(named) if own is not None else None
    if reserved is None:
        return None, None
    nearest = min(named, key=lambda size: abs(size - reserved) if size >= reserved * 0.98 else units.TIB)
    return (nearest, sum(named) - nearest) if nearest >= reserved * 0.98 else (None, sum(named))


def _alike(text: str, own: int | None, reserved: int | None) -> bool:
    """Whether the processes beside this one are two or more of nearly one size, none larger than a context: ranks of the same server that touched this
    rank's card look so, and nobody would find a stranger among them. Where the text sets this process apart (`own`), none of the listed ones is it."""
    named = sorted(size for size in processes(text) if own is not None or reserved is None or size < reserved)
    return len(named) > 1 and named[-1] <= _SLACK and named[-1] - named[0] <= 0.05 * named[-1]


def _sizes(fields: Mapping[str, Value]) -> dict[str, int]:
    return {name: value for name, value in fields.items() if isinstance(value, int) and not isinstance(value, bool)}


def facts_of(event: Event) -> list[Fact]:
    """The facts `alloc.*` of one allocator error."""
    sizes = _sizes(event.fields)
    wanted, total, free, allocated = (sizes.get(name) for name in ("wanted", "total", "free", "allocated"))
    idle = sizes.get("idle")
    if idle is None and allocated is not None and "reserved" in sizes:
        idle = max(0, sizes["reserved"] - allocated)
    reserved = allocated + (idle or 0) if allocated is not None else None
    own, others = _split(event.text, sizes.get("own"), reserved)
    most = None
    if others is None and None not in (total, free, reserved):
        rest = (total or 0) - (free or 0) - (own if own is not None else (reserved or 0) + _SLACK)
        others = rest if rest > 0 and own is None and rest > 0.05 * (total or 1) else None
        most = rest + _SLACK if others is not None else None
    if others in (None, 0) and total and free is not None and own:
        others = max(0, total - free - own)
    values: dict[str, Value | None] = {
        "requested_bytes": wanted,
        "total_bytes": total,
        "free_bytes": free,
        "own_bytes": own,
        "allocated_bytes": allocated,
        "unallocated_bytes": idle,
        "pools_bytes": sizes.get("pools"),
        "outside_torch_bytes": own - reserved if own is not None and reserved is not None else None,
        "others_bytes": others,
        "others_most_bytes": most,
        "others_alike": _alike(event.text, sizes.get("own"), reserved),
        "gpu": sizes.get("gpu"),
        "platform": event.fields.get("device"),
        "free_exceeds_requested": free - wanted > _CRUMBS * (total or 0) if free is not None and wanted is not None else None,
    }
    if total:
        values |= {
            f"{name}_share": sizes_of / total
            for name, sizes_of in (("allocated", allocated), ("others", others), ("reserved_unallocated", idle), ("pools", sizes.get("pools")))
            if sizes_of is not None
        }
        values["free_share"] = free / total if free is not None else None
        values["requested_over_total"] = wanted / total if wanted is not None else None
        values["with_request_share"] = (reserved + wanted) / total if reserved is not None and wanted is not None else None
    if total and others is not None:
        values["others_matter"] = others >= max(0.08 * total, units.GIB) and (free is None or wanted is None or others + free >= wanted)
    if wanted and idle is not None:
        values["unallocated_over_requested"] = idle / wanted
        values["slack_covers_request"] = idle >= wanted
        values["slack_matters"] = idle >= max(wanted, _SCRAPS * (total or 0))
    return [Fact(f"alloc.{name}", value, event.place) for name, value in values.items() if value is not None]
