"""The audit trail: who asked, who approved, what was shown, what was sent, what came back. `trail` adds to it, `check` says whether it is whole."""

from bot.audit.check import Problem
from bot.audit.key import load_key
from bot.audit.lines import Head
from bot.audit.trail import AuditTrail

__all__ = ["AuditTrail", "Head", "Problem", "load_key"]
