"""Xid lines of the NVIDIA driver: the code, the device, and what it means for somebody who looks for a memory fault.

Codes and actions follow NVIDIA's Xid catalogue. No Xid means "no device memory left": each of them speaks against it, or for nothing.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{1,20})[^)]{0,40}\): (\d{1,4}), (?:pid='?(\d{1,10}|<unknown>)'?, )?(?:name=([^,]{1,64}), )?(.{0,200})|Xid(?:CriticalError)?: Xid=(\d{1,4}) on Device=(\S{1,64}?)[,;]"
)

_ACTION = re.compile(r"recovery action changed from .{0,60} to 0x\w{1,8} \((?!None)")  # Xid 154: what the driver asks for since an error before it
_BEFORE = re.compile(r"caused by previous Xid (\d{1,4})")

# By the action that NVIDIA's catalogue (October 2025) names for each code. application: start the program again, or nothing, since only its channel ended
# (engine and copy errors, contained memory errors, faults of peer access); follower: a consequence of something else; notice: nothing failed; all others: the
# card or its driver.
_SINGLE = (8, 11, 12, 13, 25, 31, 32, 37, 38, 39, 40, 41, 43, 44, 60, 61, 94, 108, 123, 137, 139, 141, 142, 152, 153)
APPLICATION = frozenset((*_SINGLE, *range(66, 73), 75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89, *range(96, 106), *range(126, 136)))
FOLLOWER = frozenset({45})
NOTICE = frozenset({14, 63, 92, 93, 106, 107, 121, 154, 160, 161, 162, 163, 164})


@dataclass(frozen=True, slots=True)
class Xid:
    line: int
    code: int
    device: str
    pid: int | None
    name: str
    message: str

    @property
    def meaning(self) -> str:
        """hardware | application | follower | notice | capacity (the card has less memory than its siblings)."""
        if self.code == 168:
            return "capacity"
        if self.code in FOLLOWER:
            return "follower"
        if self.code in NOTICE:
            return "hardware" if _ACTION.search(self.message) else "notice"
        return "application" if self.code in APPLICATION else "hardware"


_WORST = ("hardware", "capacity", "application", "notice", "follower")


def xids(lines: Iterable[tuple[int, str]]) -> list[Xid]:
    """At most 30 Xid records, the worst kind first, each (code, device) once, when it came last."""
    found: dict[tuple[int, str], Xid] = {}
    for number, text in lines:
        match = _XID.search(text)
        if not match or len(found) >= 300:
            continue
        code, device = int(match[2] or match[6]), (match[1] or match[7]).lower()
        before = _BEFORE.search(match[5] or "")
        if code in FOLLOWER and before:
            code = int(before[1])  # the driver names the fault that this one only follows
            if (code, device) in found:
                continue  # its own line says more
        pid = int(match[3]) if match[3] and match[3].isdigit() else None
        found[code, device] = Xid(number, code, device, pid, (match[4] or "").strip("'<>"), match[5] or "")
    return sorted(found.values(), key=_rank)[:30]


def _rank(xid: Xid) -> tuple[int, int, int]:
    """The worst first; what the driver only asks for comes behind the fault that it asks for it."""
    worst = _WORST.index(xid.meaning)
    return (max(worst, _WORST.index("notice")) if xid.code in NOTICE else worst, worst, xid.line)
