"""Labelled cases with a server's log, and their answers when the log is buried. Whole real logs are used in place, where a folder holds them
(`OOMBOT_LONG_LOGS`, else `../shared/long-logs` beside the project); their text is never copied anywhere.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from io import BytesIO
from pathlib import Path

import yaml

from bot.incident import examine
from bot.model import Bundle, BundleFile, Certainty
from bot.playbooks import Knowledge, load
from tests.logs.burying import draws

ROOT = Path(__file__).parent.parent.parent
LONG = Path(os.environ.get("OOMBOT_LONG_LOGS") or ROOT.parent / "shared" / "long-logs")
_ORDER = (Certainty.POSSIBLE, Certainty.LIKELY, Certainty.CERTAIN)


@dataclass(frozen=True)
class Answer:
    """What counts of a diagnosis here. `accepted`: the causes that the case's label accepts."""

    cause: str
    family: str
    certainty: Certainty
    accepted: frozenset[str]

    def holds(self, before: "Answer") -> bool:
        """Whether this, with more in the log, still says what `before` said: not surer, and the same cause."""
        return (self.cause, self.family) == (before.cause, before.family) and _ORDER.index(self.certainty) <= _ORDER.index(before.certainty)

    def __str__(self) -> str:
        return f"{self.cause} ({self.certainty.value})"


@cache
def knowledge() -> Knowledge:
    return load()


def cases() -> list[Path]:
    """Folders of labelled cases that have a server's log, the project's own first."""
    own = sorted(path.parent for path in (ROOT / "tests" / "cases").glob("*/expected.yaml"))
    whole = sorted(path.parent for path in LONG.glob("*/expected.yaml"))
    return [case for case in own + whole if (case / "container.log").is_file()]


def answers(case: Path, log: str | None = None) -> Answer:
    """The answer to a case, with another text as its log if given."""
    label = yaml.safe_load((case / "expected.yaml").read_text())
    files = {path.name: path.read_bytes() for path in case.iterdir() if path.name != "expected.yaml"}
    if log is not None:
        files["container.log"] = log.encode("utf-8", "surrogateescape")
    found = examine(Bundle(case.name, {name: BundleFile(name, partial(BytesIO, data)) for name, data in files.items()}), knowledge())
    return Answer(found.cause, found.family, found.certainty, frozenset({label["cause"], *(label["also"] or ())}))


def buried_answers(case: Path, lines: int, seed: int) -> Iterator[tuple[str, Answer]]:
    """Every honest way with the answer to the buried case."""
    healthy = yaml.safe_load((case / "expected.yaml").read_text())["cause"] == "healthy"
    log = (case / "container.log").read_bytes().decode("utf-8", "surrogateescape")
    for way, text in draws(log, lines, seed, ends_healthy=healthy):
        yield way, answers(case, text)
