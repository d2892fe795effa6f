"""What a kernel log can prove besides kills and Xids, each by its first line: crashes, refused allocations, hangs, hardware, drivers, disks, networks.

`ANCHORS` are the words that a log is searched for; one of `words` stands in every line that a sign's pattern finds, since a hostile line is long and each
pattern would walk over all of it. What a sign means for a server is decided elsewhere; most of these lines are printed on healthy machines, too.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple


class Sign(NamedTuple):
    """A fact `kernel.<name>`, whose value is the pattern's first group that matched, or all of it."""

    name: str
    words: tuple[str, ...]
    pattern: re.Pattern[str]


def _sign(name: str, words: tuple[str, ...], pattern: str, flags: int = 0) -> Sign:
    return Sign(name, words, re.compile(pattern, flags))


# The audit trail names a crash by its signal only (type 1701), and a call that a seccomp profile forbids (type 1326; 0 is a refusal, 31 an end).
_ABEND = r"audit\S{0,40} ?(?:type=1701|ANOM_ABEND)\b.{0,300}?comm=\"?([^\" ]{1,64})\"? .{0,200}?sig=%d\b"
_COREDUMP = r"Process \d{1,10} \((.{1,64}?)\) of user \d{1,10} terminated abnormally with signal %s/"
_NVIDIA = r"NVRM: (?:GPU ?\S{0,20}:? )?"
_NET = r"(?:mlx[45]|bnxt|ice|i40e|irdma|efa|cxgb4|qed|be2net|ionic)\w{0,8}"

SIGNS = (
    _sign("oom_invoked", ("invoked oom-killer",), r"(\S.{0,62}?) invoked oom-killer: "),  # the head of a report, the rest of which may be missing
    _sign("oom_reaped", ("oom_reaper",), r"oom_reaper: reaped process \d{1,10} \((.{1,64}?)\)"),  # the end of one
    _sign("allocation_failed", ("page allocation ", "vmalloc", "vmap allocation"), r"page allocation (?:failure: |failure\. |stalls for \d{1,9}ms, )(order:\d{1,2}, mode:.{1,120}?)(?:, nodemask|$)|(vmalloc error: size \d{1,18}.{0,80}|vmalloc: allocation failure.{0,80}|vmap allocation for size \d{1,18} failed)"),
    _sign("segfault", ("segfault at", "traps: ", "unhandled exception", "fatal signal 11"), r"(\S{1,64}?)\[\d+\]: segfault at|traps: (\S{1,64}?)\[\d+\] (?:general protection|trap (?!invalid opcode|divide error))|(\S{1,64}?)\[\d+\]: unhandled (?:exception: |level \d )(?!Illegal)|(\S{1,64}): potentially unexpected fatal signal 11\b"),
    _sign("segfault", ("1701", "ANOM_ABEND"), _ABEND % 11),
    _sign("segfault", ("terminated abnormally",), _COREDUMP % 11),
    _sign("invalid_opcode", ("trap invalid",), r"traps: (\S{1,64}?)\[\d+\] trap invalid opcode"),
    _sign("invalid_opcode", ("1701", "ANOM_ABEND"), _ABEND % 4),
    _sign("divide_error", ("trap divide",), r"traps: (\S{1,64}?)\[\d+\] trap divide error"),
    _sign("divide_error", ("1701", "ANOM_ABEND"), _ABEND % 8),
    _sign("aborted", ("1701", "ANOM_ABEND"), _ABEND % 6),
    _sign("aborted", ("terminated abnormally",), _COREDUMP % 6),
    _sign("bus_error", ("1701", "ANOM_ABEND"), _ABEND % 7),
    _sign("bus_error", ("terminated abnormally",), _COREDUMP % 7),
    _sign("seccomp_kill", ("1326", "SECCOMP"), r"audit\S{0,40} ?(?:type=1326|SECCOMP)\b.{0,300}?comm=\"?([^\" ]{1,64})\"? .{0,200}?sig=(?:31|9)\b"),
    _sign("segfault_in", ("segfault at", "general protection", "trap ", "unhandled "), r"(?:segfault at|general protection|trap \w|unhandled ).{0,200}? in ([\w.+-]{1,80})\["),
    _sign("unit_oom_kill", ("OOM killer", "oom-kill"), r"(\S{1,200}\.(?:scope|service)): (?:A process of this unit has been killed by the OOM killer|Failed with result 'oom-kill')"),
    _sign("driver_mismatch", ("API mismatch",), r"NVRM: API mismatch: (.{1,200})"),
    _sign("gpu_lost", ("fallen off", "GPU is lost"), r"GPU has fallen off the bus|fallen off the bus and is not responding|GPU is lost|NVRM: GPU (\S+): GPU has fallen"),
    _sign("nvrm_error", ("RmInitAdapter", "rm_init_adapter", "nvidia_open", "probe", "None of the NVIDIA", "No NVIDIA", "I/O region assigned", "not supported", "open kernel modules", "bound to"), _NVIDIA + r"(RmInitAdapter failed.{0,100}|rm_init_adapter failed.{0,60}|nvidia_open.{0,60}|The NVIDIA probe routine (?:failed|was not called).{0,60}|None of the NVIDIA .{0,40}(?:were|devices)|No NVIDIA (?:GPU found|graphics adapter found|devices probed)|This PCI I/O region assigned to your NVIDIA|.{0,80}not supported by (?:the )?(?:NVIDIA|open|this).{0,80}|.{0,60}requires use of the NVIDIA open kernel modules|GPU \S{1,20} is already bound to \S{1,30})|\bnvidia\b[^:]{0,4}: (probe of \S{1,20} failed with error -\d{1,3})|\bnvidia \S{1,20}: (probe with driver nvidia failed with error -\d{1,3})"),
    _sign("gpu_hung", ("krcWatchdog", "heartbeat timed out", "GSP crash", "crash dump"), _NVIDIA + r"(krcWatchdog.{0,100}|\w{0,40}: ?GSP RM heartbeat timed out.{0,40}|A GPU crash dump has been created|.{0,60}GSP crashed.{0,60})"),
    _sign("driver_no_memory", ("NV_ERR_NO_MEMORY", "NVRM: "), r"NVRM: .{0,120}Out of memory (\[NV_ERR_NO_MEMORY\].{0,100})|NVRM: .{0,80}(failed to allocate (?:memory|vmap\(\) page descriptor|page table|a (?:page|contig)).{0,60})"),
    _sign("wsl_not_resident", ("make_resident",), r"dxgk: (dxgkio_make_resident: Ioctl failed: -12)\b"),  # ENOMEM: Windows did not give the memory of the card
    _sign("nvswitch", ("SXid",), r"SXid \(PCI:\S+\): (\d{5}.{0,100})"),
    _sign("pcie_error", ("AER", "DPC", "PCIe Bus Error", "pciehp"), r"((?:pcieport|nvidia|amdgpu|habanalabs) \S{1,20}: (?:AER: (?:Uncorrect\w{1,6}(?: \(\w[\w-]{2,12}\))? error (?:message )?received.{0,40}|can't recover.{0,40}|device recovery failed)|PCIe Bus Error: severity=Uncorrect\w{1,6} \((?:Fatal|Non-Fatal)\).{0,60}|DPC: (?:containment event|.{0,20}uncorrectable error).{0,60}|pciehp: Slot\(\S{1,20}\): (?:Link Down|Card not present)))"),
    _sign("nic_error", ("health", "bad device", "timeout", "Cable error", "NETDEV WATCHDOG", "atal "), r"(" + _NET + r" \S{1,20}(?: \S{1,16})?: (?:.{0,60}(?:health compromised|handling bad device|timeout\. Will cause a leak|Cable error|[Ff]atal (?:error|sensor)).{0,60})|NETDEV WATCHDOG: .{1,80}(?:timed out).{0,20})"),
    _sign("storage_error", ("I/O error", "timeout, ", "controller is down", "read-only", "been shut down", "not responding", "LustreError", "nfs: ", "ceph"), r"((?:blk_update_request: )?(?:critical \w{1,10} error|I/O error), dev (?!sr\d|fd\d|loop)\w{1,20}, sector \d{1,18}|nvme \w{1,12}: (?:I/O \S{1,12} .{0,40}timeout, .{1,30}|controller is down; will reset.{0,60}|Device not ready.{0,30})|EXT4-fs error \(\S{1,60}(?: \S{1,40})?\): .{0,60}|EXT4-fs \(\S{1,40}\): Remounting filesystem read-only|XFS \(\S{1,40}\): (?:Filesystem has been shut down|.{0,30}I/O error|.{0,40}[Ss]hutting down filesystem).{0,40}|Buffer I/O error on dev (?!sr\d|fd\d|loop)\S{1,30}|nfs: server \S{1,255} not responding.{0,30}|LustreError: .{0,100}(?:rc = -\d{1,4}|was evicted|timed out).{0,30}|ceph: .{0,60}(?:timed out|evicted|blocklisted).{0,30})"),
    _sign("memory_hardware", ("EDAC", "event severity", "Machine Check Exception", "[Hardware Error]"), r"(EDAC \w{1,8}: \d{1,6} UE .{1,100}|\[Hardware Error\]: event severity: (?:fatal|recoverable)|Machine Check Exception: .{1,80}|Uncorrected (?:hardware )?memory error.{0,60})"),
    _sign("hardware_error", ("Hardware Error", "Machine check", "emory failure"), r"(Hardware Error.{0,120}|Machine check.{0,120}|[Mm]emory failure: .{0,120})"),
    _sign("memory_failure", ("emory failure", "MCE "), r"((?:[Mm]emory failure:|MCE) \S{1,24}: (?:Killing|Sending SIGBUS to) .{1,80})"),
    _sign("hung_task", ("blocked for more than", "is blocked on a mutex", "soft lockup", "hard LOCKUP", "detected stall", "self-detected stall"), r"INFO: task (.{1,64}?):\d+ (?:blocked for more than|is blocked on a mutex)|soft lockup - CPU#\d{1,5} stuck for \d{1,6}s! \[([^\]:]{1,64})|hard LOCKUP on (cpu \d{1,5})|rcu: INFO: \w{1,20} (?:self-)?detected (?:expedited )?(stalls? on CPUs?)"),
    _sign("panic", ("Kernel panic", "BUG: ", "Oops: ", "kernel BUG at"), r"(Kernel panic - not syncing: (?!Out of memory|System is deadlocked).{1,100}|BUG: (?:kernel NULL pointer|unable to handle|Bad page state|Bad rss-counter).{0,80}|Oops: .{1,80}|kernel BUG at .{1,80})"),
    _sign("shut_down", ("reboot: ", "systemd-shutdown[", "systemd-logind[", "will reboot", "will power off"), r"(reboot: (?:Restarting system|Power down|System halted)|systemd-shutdown\[\d{1,7}\]: (?:Sending SIG\w{4,5} to remaining|Rebooting|Powering off)|systemd-logind\[\d{1,7}\]: (?:System is (?:rebooting|powering (?:down|off)|halting)|The system will (?:reboot|power off|be halted) now))"),
    _sign("pids_refused", ("fork rejected by pids",), r"cgroup: fork rejected by pids controller in (\S{1,1000})"),
    _sign("amd_fault", ("amdgpu",), r"amdgpu.{0,80}(page fault \(src_id.{0,120}|ring \S{1,20} timeout.{0,60}|GPU reset begin.{0,40})"),
    _sign("sysrq", ("sysrq", "SysRq"), r"sysrq: (?:SysRq : )?(.{1,60})", re.IGNORECASE),
)  # fmt: skip

ANCHORS = (
    b"trap divide", b"page allocation failure", b"page allocation stalls", b"vmalloc error", b"vmalloc: allocation", b"vmap allocation", b"unhandled exception", b"fatal signal 11", b"type=1701", b"ANOM_ABEND", b"type=1326", b"SECCOMP",
    b"terminated abnormally", b"nvidia: probe of", b"probe with driver nvidia", b"AER: ", b"PCIe Bus Error: ", b"DPC: ", b"pciehp: Slot", b"health compromised", b"handling bad device", b"timeout. Will cause a leak", b"Cable error",
    b"NETDEV WATCHDOG", b"I/O error", b"timeout, aborting", b"timeout, reset", b"timeout, disable", b"timeout, completion", b"controller is down; will reset", b"Device not ready", b"EXT4-fs error", b"Remounting filesystem read-only", b"Filesystem has been shut down",
    b"shutting down filesystem", b"not responding", b"LustreError", b"EDAC ", b"event severity: ", b"is blocked on a mutex", b"hard LOCKUP", b"detected stall", b"self-detected stall", b"Kernel panic", b"BUG: ", b"Oops: ", b"kernel BUG at",
    b"reboot: Restarting", b"reboot: Power down", b"systemd-shutdown[", b"systemd-logind[",
)  # fmt: skip


def signs(lines: Iterable[tuple[int, str]]) -> list[tuple[str, str, int]]:
    """(name, value, line number) of the first line of each sign; a name that stands twice in the table keeps what is found first there."""
    kept = list(lines)
    found: dict[str, tuple[str, str, int]] = {}
    for sign in SIGNS:
        for number, text in kept if sign.name not in found else ():
            match = sign.pattern.search(text) if any(word in text for word in sign.words) else None
            if match:
                value = next((group for group in match.groups() if group), match[0])
                found[sign.name] = (sign.name, value.strip(), number)
                break
    return list(found.values())
