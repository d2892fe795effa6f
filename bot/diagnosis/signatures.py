"""Signatures: which facts prove which cause, and how sure that makes us. The signatures themselves are data under `playbooks/signatures/`.

Unknown in `when`: does not fire. Unknown in `unless`: fires, at most likely, and names what was not known. Unknown in `certain_if`: likely.
No signature knows another one; `rank` weighs their findings.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bot.facts import UNKNOWN, Facts
from bot.model import Certainty, Text
from bot.predicates import Condition, all_hold, check

Conditions = Mapping[str, Condition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditional:
    """What holds under conditions only. A fact that nobody looked at leaves it out where it stands in `when`, and not where it stands in `unless`."""

    when: Conditions = field(default_factory=dict)
    unless: Conditions = field(default_factory=dict)

    def applies(self, facts: Facts) -> bool:
        return all_hold(facts, self.when) is True and not any(check(facts, name, condition) for name, condition in self.unless.items())


@dataclass(frozen=True, slots=True)
class Remedy(Conditional):
    """One remedy of a signature ("max_model_len:lower")."""

    id: str
    why: Text | None = None


@dataclass(frozen=True, slots=True)
class Variant(Conditional):
    """What a remedy means where some facts hold. `says` instead of the general words, `adds` after whatever is said of it; `late`: after all others; `lacks`:
    not at all, and why."""

    says: Text | None = None
    adds: Text | None = None
    late: bool = False
    lacks: Text | None = None


@dataclass(frozen=True, slots=True)
class NoHelp(Conditional):
    """What people would try and what would not help, or hurt."""

    id: str
    why: Text | None = None


@dataclass(frozen=True, slots=True)
class Decider:
    """A reading that would decide, where it is missing."""

    source: str
    would_tell: Text


@dataclass(frozen=True, slots=True)
class Signature:
    """One way in which one cause shows. `at_best` bounds its certainty; `quotes` names facts to quote besides those of `when`."""

    id: str
    cause: str
    says: Text
    when: Conditions
    unless: Conditions = field(default_factory=dict)
    certain_if: Conditions = field(default_factory=dict)
    at_best: Certainty = Certainty.CERTAIN
    remedies: tuple[Remedy, ...] = ()
    will_not_help: tuple[NoHelp, ...] = ()
    deciders: tuple[Decider, ...] = ()
    quotes: Mapping[str, Text | None] = field(default_factory=dict)
    file: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A signature that fired. `unknown`: facts in `unless` and `certain_if` that nobody looked at."""

    signature: Signature
    certainty: Certainty
    unknown: tuple[str, ...] = ()

    @property
    def cause(self) -> str:
        return self.signature.cause


_ORDER = [Certainty.CERTAIN, Certainty.LIKELY, Certainty.POSSIBLE]


def weaker(one: Certainty, other: Certainty) -> Certainty:
    return max(one, other, key=_ORDER.index)


def judge(signature: Signature, facts: Facts) -> Finding | None:
    """The finding of one signature, or None when it does not fire."""
    if all_hold(facts, signature.when) is not True:
        return None
    unknown: list[str] = []
    for name, condition in signature.unless.items():
        verdict = check(facts, name, condition)
        if verdict:
            return None
        if verdict is None:
            unknown.append(name)
    certainty = Certainty.LIKELY if unknown else Certainty.CERTAIN
    if all_hold(facts, signature.certain_if) is not True:
        certainty = Certainty.LIKELY
        unknown += [name for name in signature.certain_if if facts.get(name) is UNKNOWN]
    return Finding(signature, weaker(certainty, signature.at_best), tuple(unknown))


def findings(signatures: Iterable[Signature], facts: Facts) -> list[Finding]:
    """Every signature that fires."""
    made = (judge(signature, facts) for signature in signatures)
    return [finding for finding in made if finding is not None]
