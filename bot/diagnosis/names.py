"""What the names of models and cards tell: the lists are data under `playbooks/names/`, this only searches them.

A last resort: what the server or the driver printed always counts before a name. A name in no list tells nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from bot.facts import Facts
from bot.model import Fact
from bot.units import GIB, gib

_STATED = re.compile(r"\b(\d{1,3}) ?GB\b")  # a size that is a part of the card's name


@dataclass(frozen=True, slots=True)
class Names:
    """Regular expressions by what they tell. `sizes`: (name of a card, GiB that a server sees)."""

    hybrid: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()
    latent: tuple[str, ...] = ()
    multimodal: tuple[str, ...] = ()
    experts: tuple[str, ...] = ()
    unified: tuple[str, ...] = ()
    unified_sizes: tuple[str, ...] = ()  # of a size as "79.25 GiB"
    before_fp8: tuple[str, ...] = ()
    sizes: tuple[tuple[str, float], ...] = field(default=())

    def tells(self, what: str, name: str) -> bool:
        """Whether `name` stands in the list `what`; "multimodal" is looked for in whole parts of the name."""
        patterns: tuple[str, ...] = getattr(self, what)
        return bool(patterns and name and _any(patterns, what == "multimodal").search(name[:400]))

    def size_of_card(self, name: str) -> int | None:
        """Bytes of the first card in `name` that is known; None for others."""
        return next((gib(size) for pattern, size in self.sizes if _one(pattern).search(name[:400])), None)


@cache
def _any(patterns: tuple[str, ...], parts: bool) -> re.Pattern[str]:
    every = "|".join(f"(?:{pattern})" for pattern in patterns)
    return re.compile(rf"(?:^|[/_.-])(?:{every})(?:[/_.-]|$)" if parts else every, re.IGNORECASE)


@cache
def _one(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def facts_of(facts: Facts, names: Names) -> list[Fact]:
    """`named.*`: what the names in `facts` tell, each with the place of the name."""
    found: list[Fact] = []
    for key in ("engine.model", "args.model"):
        told = facts.fact(key)
        if told is not None and isinstance(told.value, str):
            found += [Fact(f"named.{what}", True, told.place) for what in ("hybrid", "plain", "latent", "multimodal", "experts") if names.tells(what, told.value)]
    cards = facts.fact("gpus.names") or facts.fact("vllm.unequal_devices.devices")
    if cards is None:
        return found + _by_size(facts, names)
    listed = cards.value if isinstance(cards.value, tuple) else str(cards.value).split(",")
    if any(names.tells("unified", card) for card in listed):
        found.append(Fact("named.unified_memory", True, cards.place))
    if any(names.tells("before_fp8", card) for card in listed):
        found.append(Fact("named.before_fp8", True, cards.place))
    if cards.name == "gpus.names" and listed and (size := names.size_of_card(listed[0])) is not None:
        found.append(Fact("named.card_bytes", size, cards.place))
    sizes = _sizes(listed, names)
    if sizes:
        found += [Fact("named.least_card_bytes", min(sizes), cards.place), Fact("named.most_card_bytes", max(sizes), cards.place)]
    return found


def _by_size(facts: Facts, names: Names) -> list[Fact]:
    """Where nothing names the card: some sizes only boards have whose cards share the machine's memory."""
    total = facts.fact("alloc.total_bytes")
    if total is None or not isinstance(total.value, int) or not names.tells("unified_sizes", f"{total.value / GIB:.2f} GiB"):
        return []
    return [Fact("named.unified_memory", True, total.place)]


def _sizes(cards: Sequence[str], names: Names) -> list[int]:
    every = (int(stated[1]) * GIB if (stated := _STATED.search(card)) else names.size_of_card(card) for card in cards)
    return [size for size in every if size]
