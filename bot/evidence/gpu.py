"""The cards as nvidia-smi shows them: on the node, and from inside the container where the node is out of reach."""

from bot.evidence.commands import nvidia_smi
from bot.evidence.node import NodeShell, PodShell
from bot.evidence.probe import Desk


def on_node(shell: NodeShell, desk: Desk) -> str:
    """`nvidia-smi.txt`, several outputs one after another. Where the first says that there is no such program, the others are not asked."""
    return shell.collect(nvidia_smi.ON_NODE, desk)


def in_pod(shell: PodShell, desk: Desk) -> str:
    """The container's own view: its cards only, and no processes of others."""
    return shell.collect(nvidia_smi.IN_POD, desk)
