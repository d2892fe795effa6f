"""Sizes of cards by their name, as a server sees them (GiB; what nvidia-smi lists is 0.4 to 0.8 GiB more).

Only names of which there is one size. A last resort for slopes where nothing printed the size; never for a sum, and not for slices (MIG, vGPU).
"""

import re

from bot.units import gib

_CARDS: tuple[tuple[re.Pattern[str], float], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), size)
    for pattern, size in (
        (r"H200", 139.8),
        (r"B200", 178.4),
        (r"H100.*80 ?GB", 79.2),
        (r"A100.*80 ?GB", 79.2),
        (r"A100.*40 ?GB", 39.5),
        (r"A800.*80 ?GB", 79.2),
        (r"H20\b(?!.*141)", 95.1),
        (r"\bL40S?\b", 44.4),
        (r"\bA40\b", 44.4),
        (r"RTX A6000", 47.5),
        (r"RTX 6000 Ada", 47.4),
        (r"\bL4\b", 22.0),
        (r"\bA10G?\b", 22.06),
        (r"\bA30\b", 23.5),
        (r"RTX PRO 6000", 94.9),
        (r"RTX 5090(?! ?D v2| Laptop)", 31.4),
        (r"RTX 4090(?! Laptop)", 23.55),
        (r"RTX 3090", 23.6),
        (r"RTX 4080|RTX 5080|RTX 5070 Ti", 15.6),
        (r"Tesla T4|\bT4\b", 14.56),
        (r"V100.*32 ?GB", 31.7),
        (r"V100.*16 ?GB", 15.8),
        (r"MI300X", 191.9),
    )
)


def size_of_card(name: str) -> int | None:
    """Bytes of the first card in `name` that is known; None for others."""
    return next((gib(size) for pattern, size in _CARDS if pattern.search(name)), None)
