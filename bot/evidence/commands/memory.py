"""Host memory: the node's, its history, the pod's control group, and /dev/shm. Read by `bot/evidence/node_readings.py`."""

from bot.evidence.commands.command import Command, Place

_FILE = "node_readings.txt"
_SHM = "/dev/" + "shm"  # a mount point that is measured; nothing is written there

FREE = Command(Place.NODE, ("free",), _FILE, "memory and swap of the node")
UPTIME = Command(Place.NODE, ("cat", "/proc/uptime"), "", "when the node started")
HISTORY = Command(Place.NODE, ("sar", "-r"), _FILE, "memory of the node over the day")
_GROUP_FILES = (
    "memory.max", "memory.current", "memory.peak", "memory.events", "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.failcnt", "cpu.max",
)  # fmt: skip
_NAMES = ("(", *tuple(word for name in _GROUP_FILES for word in ("-o", "-name", name))[1:], ")")
_FIND, _PRINT = ("find", "/sys/fs/cgroup", "-maxdepth", "8"), ("-exec", "tail", "-v", "-n", "+1", "{}", "+")
CONTAINER_CGROUP = Command(
    Place.NODE, (*_FIND, "-path", "*pod{pod_uid_glob}*{container_id}*", *_NAMES, *_PRINT), _FILE, "the container's own memory limit, use and kills"
)
# Of the pod alone: a pattern of `find` goes over slashes, so the group's own files are named to the end of the path.
_POD_FILES = ("(", "-path", "*pod{pod_uid_glob}.slice/[cm]*.*", "-o", "-path", "*pod{pod_uid_glob}/[cm]*.*", ")", "-not", "-path", "*pod{pod_uid_glob}*/*/*")
POD_GROUP = Command(Place.NODE, (*_FIND, *_POD_FILES, *_NAMES, *_PRINT), _FILE, "the pod's memory limit, use and kills")
# As root by exact words of sudoers-shm, where that is installed, since only root may look at every process; it lists and touches nothing.
SEGMENTS = Command(Place.NODE, ("sudo", "-n", "/usr/local/libexec/oombot-shm", "segments"), _FILE, "shared memory that nobody holds any more", 20)
ON_NODE = (FREE, HISTORY, CONTAINER_CGROUP, POD_GROUP, SEGMENTS)

_OWN = tuple(f"/sys/fs/cgroup/{name}" for name in ("memory.max", "memory.current", "memory.peak", "memory.events", "memory.stat", "cpu.max", "cpu.stat"))
_OWN_V1 = tuple(f"/sys/fs/cgroup/memory/{name}" for name in ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.failcnt"))
POD_CGROUP = Command(Place.POD, ("tail", "-v", "-n", "+1", *_OWN), _FILE, "the container's own memory limit, use and kills")
POD_CGROUP_V1 = Command(Place.POD, ("tail", "-v", "-n", "+1", *_OWN_V1), _FILE, "the container's own memory limit, use and kills")
POD_SHM = Command(Place.POD, ("df", "-k", _SHM), _FILE, f"size and use of {_SHM}")
IN_POD = (POD_SHM, POD_CGROUP, POD_CGROUP_V1)
