"""What a reader of one evidence file gives. A reader is pure: bytes and the file's name in, a Reading out; it opens nothing and never raises for bad bytes."""

from dataclasses import dataclass

from bot.model import Fact, Gap


@dataclass(frozen=True, slots=True)
class Reading:
    """`facts`: what was read, each with its place. `looked`: prefixes of fact names ("kernel.", "pod.limit") that this file really answers, so that
    a name below them without a fact means "there was none". A damaged or cut file leaves its prefix out and says so in `gaps`."""

    facts: tuple[Fact, ...] = ()
    looked: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()
