"""How many engines of ONE server stand on one card: data-parallel engines without cards of their own. Each is given the whole utilisation, so that
their budgets add up. What other servers hold is `_strangers` of the device facts; this counts siblings only.
"""

import math
import re
from collections import defaultdict

from bot.facts import Facts
from bot.model import Fact

_ENGINE = re.compile(r"EngineCore_DP(\d{1,4})\b")
_ELSEWHERE = ("args.data_parallel_address", "args.data_parallel_backend", "args.data_parallel_hosts", "args.nnodes")  # some engines are on other machines


def copies_on_card(facts: Facts) -> Fact | None:
    """`engine.copies_on_card`, where more than one is proved: by the engines that nvidia-smi lists on a card, or by fewer cards than engines need."""
    return _listed(facts) or _counted(facts)


def _listed(facts: Facts) -> Fact | None:
    engines: dict[object, set[str]] = defaultdict(set)
    first: Fact | None = None
    for fact in facts:
        found = _ENGINE.search(fact.value) if fact.name.startswith("gpu.process.") and fact.name.endswith(".name") and isinstance(fact.value, str) else None
        if found:
            engines[facts.get(fact.name.removesuffix("name") + "gpu")].add(found[1])
            first = first or fact
    most = max(map(len, engines.values()), default=0)
    return Fact("engine.copies_on_card", most, first.place) if first is not None and most > 1 else None


def _counted(facts: Facts) -> Fact | None:
    here = "args.data_parallel_size_local" if "args.data_parallel_size_local" in facts else "engine.data_parallel_size"
    copies, cards, ranks = _number(facts, here), _number(facts, "gpus.count"), _number(facts, "engine.ranks") or 1
    if here == "engine.data_parallel_size" and any(name in facts for name in _ELSEWHERE):
        return None
    if copies is None or cards is None or copies < 2 or copies * ranks <= cards or facts.get("gpus.mig") is True:
        return None
    told = facts.fact(here)
    return Fact("engine.copies_on_card", math.ceil(copies * ranks / cards), told.place if told else None)


def _number(facts: Facts, name: str) -> int | None:
    value = facts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
