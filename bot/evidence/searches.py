"""Searches of the kernel's log for kills, in pasted readings, that printed nothing: `dmesg | grep -i oom` and its like.

Facts: `kernel.search_empty`. What a search finds is read as kernel lines; why it found nothing (a ring that has turned over, another machine) is not told.
"""

import re
from collections.abc import Iterable

from bot.evidence.sections import Section
from bot.model import Fact

_SEARCH = re.compile(
    r"^(?:sudo )?(?:dmesg\b|journalctl\b(?=[^|]{0,80}\s(?:-\w{0,6}k\w{0,6}|--dmesg)\b)|cat /var/log/(?:kern\.log|messages))[^|]{0,80}\|\s?e?grep\b(?![^|]{0,80}\s-\w{0,6}v)"
    r"[^|]{0,200}(?:oom|out.of.mem|kill)",
    re.IGNORECASE,
)
_BARE_PROMPT = re.compile(r"^\s*(?:\S{0,64}@\S{0,64}\s?)?(?:\[[^\]]{0,80}\])?\s?[$#>%]\s*$")


def facts(found: Iterable[Section], source: str) -> list[Fact]:
    """Whether a search for kills printed nothing; empty where nobody searched, or something was found."""
    for section in found:
        if section.prompt and _SEARCH.match(section.command) and all(_BARE_PROMPT.match(line.text) for line in section.lines):
            return [Fact("kernel.search_empty", True, section.prompt.place(source))]
    return []
