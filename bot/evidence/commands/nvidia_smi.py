"""The cards, their memory and who holds it. Read by `bot/evidence/nvidia_smi.py`. Only reading forms: nothing that sets or resets."""

from bot.evidence.commands.command import Command, Place

_FILE = "nvidia-smi.txt"
_LIST = (("nvidia-smi", "-L"), "which cards the node has, and whether they are split (MIG)")
_TABLE = (("nvidia-smi",), "driver, memory in use and processes on each card")
_MEMORY = (("nvidia-smi", "-q", "-d", "MEMORY"), "total, reserved, used and free memory of each card")
_PROCESSES = (("nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv"), "which process holds how much memory of which card")

LIST, TABLE, MEMORY, PROCESSES = (Command(Place.NODE, argv, _FILE, tells, 10) for argv, tells in (_LIST, _TABLE, _MEMORY, _PROCESSES))
ON_NODE = (LIST, TABLE, MEMORY, PROCESSES)

# From inside the container, where SSH does not reach: its own cards only, and no processes of others.
POD_LIST, POD_MEMORY = (Command(Place.POD, argv, _FILE, tells, 10) for argv, tells in (_LIST, _MEMORY))
IN_POD = (POD_LIST, POD_MEMORY)
