"""Loads what the team knows: log messages, signatures, remedies, all of it data under `playbooks/`.

A start checks the shape of every file and reports all mistakes at once; that examples prove what the files say is `oombot lint`
(`bot.playbooks.proof`). Proofs stand at the end of a file (`examples:`, `not:`), so that a start need not read them.
"""

from bot.playbooks.knowledge import Knowledge, RemedyText
from bot.playbooks.read import folder, load

__all__ = ["Knowledge", "RemedyText", "folder", "load"]
