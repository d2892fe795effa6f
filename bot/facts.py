"""Facts: the vocabulary of what can be known of an incident, and three-valued access to what is known of this one.

A fact is *known* (it has a value), *absent* (we looked and there was none) or *unknown* (we did not look, or what we
looked at was cut short). Readers give Facts and say which groups of names they looked at; whatever stands in a group
that nobody looked at is unknown.
"""

from collections.abc import Iterable, Iterator
from enum import Enum

from bot.model import Fact, Value


class Missing(Enum):
    """Why a fact has no value."""

    ABSENT = "absent"
    UNKNOWN = "unknown"


ABSENT, UNKNOWN = Missing.ABSENT, Missing.UNKNOWN


class Facts:
    """The facts of one incident. `looked` holds prefixes of names ("kernel.", "pod.") that were really looked at."""

    def __init__(self, facts: Iterable[Fact] = (), looked: Iterable[str] = ()) -> None:
        self._facts = {fact.name: fact for fact in facts}
        self.looked = frozenset(looked)

    def get(self, name: str) -> Value | Missing:
        fact = self._facts.get(name)
        if fact is not None:
            return fact.value
        return ABSENT if any(name.startswith(prefix) for prefix in self.looked) else UNKNOWN

    def fact(self, name: str) -> Fact | None:
        return self._facts.get(name)

    def __iter__(self) -> Iterator[Fact]:
        return iter(self._facts.values())

    def __contains__(self, name: str) -> bool:
        return name in self._facts

    def with_facts(self, facts: Iterable[Fact], looked: Iterable[str] = ()) -> "Facts":
        """A copy with more; a name that is there already is replaced."""
        return Facts([*self, *facts], self.looked | set(looked))
