"""The kernel log: who was killed, and by which limit. Read by `bot/evidence/kernel_log.py`."""

from bot.evidence.commands.command import Command, Place

_TELLS = "whether the kernel killed a process for memory, and for which limit; GPU faults (Xid)"

# In order of worth: the journal goes back over reboots (`-k` would not: it means this boot alone) and does not wrap;
# Both print the newest last, so the cap is far above what so many lines take. dmesg needs rights where kernel.dmesg_restrict is set.
JOURNAL = Command(
    Place.NODE, ("journalctl", "--no-pager", "-o", "short-iso", "-n", "12000", "--since", "-168h", "_TRANSPORT=kernel"), "kernel.log", _TELLS, 8, 8 << 20
)
DMESG = Command(Place.NODE, ("dmesg", "--time-format", "iso"), "kernel.log", _TELLS, 5, 8 << 20)
DMESG_SUDO = Command(Place.NODE, ("sudo", "-n", "dmesg", "--time-format", "iso"), "kernel.log", _TELLS, 5, 8 << 20)
DMESG_PLAIN = Command(Place.NODE, ("dmesg",), "kernel.log", _TELLS, 5, 8 << 20)  # busybox has no formats

KERNEL_LOG = (JOURNAL, DMESG, DMESG_SUDO, DMESG_PLAIN)
