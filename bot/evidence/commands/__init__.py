"""The allow-list: every command that oombot may run on a node or in a container. Nothing else is ever sent.

An explicit tuple, no discovery: to allow a command is to write it here. All of them only read.
"""

from collections.abc import Sequence

from bot.evidence.commands import kernel, memory, nvidia_smi, ray
from bot.evidence.commands.command import Command, Place

ALLOWED: tuple[Command, ...] = (
    kernel.JOURNAL,
    kernel.DMESG,
    kernel.DMESG_SUDO,
    kernel.DMESG_PLAIN,
    nvidia_smi.LIST,
    nvidia_smi.TABLE,
    nvidia_smi.MEMORY,
    nvidia_smi.PROCESSES,
    nvidia_smi.POD_LIST,
    nvidia_smi.POD_MEMORY,
    memory.FREE,
    memory.UPTIME,
    memory.HISTORY,
    memory.CONTAINER_CGROUP,
    memory.POD_GROUP,
    memory.SEGMENTS,
    memory.POD_SHM,
    memory.POD_CGROUP,
    memory.POD_CGROUP_V1,
    ray.STATUS,
)


def on_node(argv: Sequence[str]) -> bool:
    """Whether this may be run on a node (for `bot.clients.ssh.SshShells`)."""
    return any(command.place is Place.NODE and command.is_this(argv) for command in ALLOWED)


def in_pod(argv: Sequence[str]) -> bool:
    """Whether this may be run in a container (for `bot.clients.kubernetes_config.reader`)."""
    return any(command.place is Place.POD and command.is_this(argv) for command in ALLOWED)
