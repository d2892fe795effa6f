"""Sizes and times: the only place that divides by 2**30.

What vLLM and PyTorch call "GB" in their memory lines is GiB (they divide by 2**30); callers that read a true decimal
unit say so by its name.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decimal import Decimal

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40

_BINARY = {"": 1, "b": 1, "bytes": 1, "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB}
_DECIMAL = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_KUBERNETES = {"": "1", "m": "0.001", "k": "1e3", "M": "1e6", "G": "1e9", "T": "1e12", "P": "1e15"}
_KUBERNETES |= {"Ki": str(KIB), "Mi": str(MIB), "Gi": str(GIB), "Ti": str(TIB), "Pi": str(2**50)}
_QUANTITY = re.compile(r"([+-]?\d{1,30}(?:\.\d{0,30})?(?:[eE][+-]?\d{1,2})?)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$")


def gib(number: float | str) -> int:
    """Bytes of a number of GiB, as vLLM prints it: `gib("10.58")`."""
    return round(float(number) * GIB)


def in_gib(size: float) -> float:
    """GiB of a number of bytes."""
    return size / GIB


def show(size: float) -> str:
    """A size for people, two decimals or whole, binary units: "10.58 GiB", "448 MiB", "-0.61 GiB". What was printed as 0.41 GiB stays "0.41 GiB"."""
    if abs(size) >= GIB // 2 or (size % MIB and abs(size) >= 10 * MIB and abs(size - round(size / GIB, 2) * GIB) < 1):
        return f"{_decimals(size / GIB)} GiB"
    if abs(size) >= MIB:
        return f"{_decimals(size / MIB)} MiB"
    if abs(size) >= KIB:
        return f"{size / KIB:.0f} KiB"
    return f"{size:.0f} bytes"


def beside(size: float) -> str:
    """A small size beside ones in GiB: "0.06 GiB"; in its own unit where that would be nothing."""
    return f"{size / GIB:.2f} GiB" if abs(size) >= GIB / 200 else show(size)


def _decimals(number: float) -> str:
    """Two decimals, none for a whole number."""
    text = f"{number:.2f}"
    return text.removesuffix(".00") if float(text) == number else text


def size_of(number: str, unit: str) -> int:
    """Bytes of a printed number and unit; "GiB" is binary, "GB" decimal, in any case of letters. Raises ValueError."""
    factor = _BINARY.get(unit.lower()) or _DECIMAL.get(unit.lower())
    if factor is None or len(number) > 40:
        raise ValueError(f"not a size: {number[:40]} {unit[:10]}")
    return round(float(number) * factor)


def quantity(text: str) -> "Decimal":
    """A Kubernetes quantity ("24Gi", "500m", "2G", "1e9") as a plain number. Raises ValueError."""
    from decimal import Decimal, InvalidOperation  # 4 ms of start-up that a log alone does not need

    found = _QUANTITY.match(str(text).strip())
    if not found:
        raise ValueError(f"not a Kubernetes quantity: {str(text)[:40]}")
    try:
        return Decimal(found[1]) * Decimal(_KUBERNETES[found[2] or ""])
    except InvalidOperation as wrong:
        raise ValueError(f"not a Kubernetes quantity: {str(text)[:40]}") from wrong


def as_quantity(size: int) -> str:
    """The shortest exact Kubernetes quantity of a size in bytes: 25769803776 -> "24Gi"."""
    for suffix, factor in (("Ti", TIB), ("Gi", GIB), ("Mi", MIB), ("Ki", KIB)):
        if size and size % factor == 0:
            return f"{size // factor}{suffix}"
    return str(size)


def duration(seconds: float) -> str:
    """A time span for people: "1:32", "11 min 40 s" is written "11:40", "2:03:10"."""
    whole = max(0, int(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"
