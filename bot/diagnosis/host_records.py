"""Numbered facts (`pod.container.0.name`, `kernel.kill.3.pid`) as records. Access only; what they mean is decided elsewhere."""

from collections.abc import Iterator

from bot.facts import Facts
from bot.model import Fact, Place, Value


class Record:
    """One numbered thing: its facts by their last name. A missing or wrongly typed one is None or ""."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.facts: dict[str, Fact] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.facts

    def value(self, name: str) -> Value | None:
        fact = self.facts.get(name)
        return fact.value if fact else None

    def place(self, *names: str) -> Place | None:
        """Where the first of these that is known stands."""
        return next((self.facts[name].place for name in names if name in self.facts), None)

    def text(self, name: str) -> str:
        value = self.value(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> float | None:
        value = self.value(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def flag(self, name: str) -> bool | None:
        value = self.value(name)
        return value if isinstance(value, bool) else None


def records(facts: Facts, prefix: str) -> list[Record]:
    """All records below `prefix`, by their number."""
    found: dict[int, Record] = {}
    for fact in _below(facts, prefix + "."):
        number, _, name = fact.name[len(prefix) + 1 :].partition(".")
        if name and number.isdigit() and len(number) < 7:
            found.setdefault(int(number), Record(int(number))).facts[name] = fact
    return [found[number] for number in sorted(found)]


def _below(facts: Facts, prefix: str) -> Iterator[Fact]:
    return (fact for fact in facts if fact.name.startswith(prefix))


def text(facts: Facts, name: str) -> str:
    """A fact as a text, "" for anything else."""
    value = facts.get(name)
    return value if isinstance(value, str) else ""


def number(facts: Facts, name: str) -> float | None:
    """A fact as a number, None for anything else."""
    value = facts.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def flag(facts: Facts, name: str) -> bool | None:
    """A fact as a yes or no, None for anything else."""
    value = facts.get(name)
    return value if isinstance(value, bool) else None
