"""The grammar of `/oom ...`: text in, a Command out. It knows no chat platform, only what chat clients do to what people type.

    check TARGET [-n NAMESPACE] [--cluster NAME] [--container NAME]      TARGET: pod, namespace/pod, deploy/name, sts/name, node/name, endpoint/name
    help | status | history [COUNT] | freeze | unfreeze
"""

import html
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from bot.errors import BadInput
from bot.evidence.locate import query as target_query
from bot.model import TargetQuery, Words
from handlers.messages import Messages

VERBS = ("check", "help", "status", "history", "freeze", "unfreeze")
LONGEST, HISTORY, MOST_HISTORY = 1000, 10, 50

_OPTIONS = {"n": "namespace", "namespace": "namespace", "cluster": "cluster", "c": "container", "container": "container"}
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._:@-]{0,251}[A-Za-z0-9])?")
_LINK = re.compile(r"<([^<>|]*)(?:\|([^<>]*))?>")
_QUOTES = str.maketrans(dict.fromkeys("\"'`“”„‟‘’‚‛«»‹›「」『』", ""))
_DASHES = str.maketrans({"—": "--", "―": "--", "–": "-", "−": "-", "‐": "-", "‑": "-", "‒": "-"})
_PLAIN = Messages(lambda text: text)


@dataclass(frozen=True, slots=True)
class Command:
    """What somebody wants. `query` is there for check, `count` counts for history."""

    verb: str
    query: TargetQuery | None = None
    count: int = HISTORY


class Misunderstood(BadInput):
    """One line that says what is wrong and what would be right, as a message in each language; `str()` is the English one."""

    def __init__(self, key: str, **parameters: str) -> None:
        self.words = Words(key, parameters)
        super().__init__(_PLAIN.words(self.words, "en"))


def parse(text: str) -> Command:
    """Understands one line. Raises Misunderstood, or BadInput for a target that cannot be one."""
    if len(text) > LONGEST:
        raise Misunderstood("input_too_long", most=str(LONGEST))
    words = normalised(text).split()
    if not words:
        return Command("help")
    verb, rest = words[0].lower().lstrip("/"), words[1:]
    if verb not in VERBS:
        raise _unknown_verb(words[0])
    if verb == "check":
        return Command("check", _target(rest))
    if verb == "history":
        return Command("history", count=_count(rest))
    if rest:
        raise Misunderstood("input_too_many", extra=rest[0], form=verb)
    return Command(verb)


def normalised(text: str) -> str:
    """What the person typed, without what chat clients make of it: wide and no-break characters, typographic quotes and dashes, links, backticks."""
    folded = unicodedata.normalize("NFKC", text.translate(_DASHES))
    kept = "".join(letter if unicodedata.category(letter) not in ("Cf", "Cc") or letter.isspace() else "" for letter in folded)
    return html.unescape(_LINK.sub(_unwrapped, kept)).translate(_QUOTES)


def _unwrapped(link: "re.Match[str]") -> str:
    """`<http://pod.name|pod.name>` -> pod.name; `<http://pod.name>` -> pod.name."""
    return link[2] or re.sub(r"^(https?://|mailto:)", "", link[1]).rstrip("/")


def _unknown_verb(word: str) -> Misunderstood:
    near = get_close_matches(word.lower(), VERBS, 1, 0.7)
    if near:
        return Misunderstood("input_unknown_near", word=word, near=near[0])
    if "/" in word or "-" in word:
        return Misunderstood("input_unknown_target", word=word)
    return Misunderstood("input_unknown", word=word, verbs=", ".join(VERBS))


def _target(words: Sequence[str]) -> TargetQuery:
    targets, options = _split(words)
    if not targets:
        raise Misunderstood("input_no_target")
    if len(targets) > 1:
        raise Misunderstood("input_too_many", extra=targets[1], form="check POD [-n NAMESPACE] [--cluster NAME] [--container NAME]")
    if not all(_NAME.fullmatch(part) for part in targets[0].split("/")):
        raise Misunderstood("input_bad_name", what="target", word=targets[0][:80])
    return target_query(targets[0], options.get("namespace"), options.get("cluster"), options.get("container"))


def _split(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Positional words and options. An option may stand anywhere, with one dash or two, with a space or `=` before its value."""
    targets: list[str] = []
    options: dict[str, str] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-"):
            targets.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        option = _OPTIONS.get(name.lower())
        if option is None:
            raise Misunderstood("input_unknown_option", word=word[:80])
        if not equals:
            value = left.pop(0) if left and not left[0].startswith("-") else ""
        if not value:
            raise Misunderstood("input_no_value", word=word[:80])
        if option in options:
            raise Misunderstood("input_twice", word=word[:80])
        if not _NAME.fullmatch(value):
            raise Misunderstood("input_bad_name", what=option, word=value[:80])
        options[option] = value
    return targets, options


def _count(words: Sequence[str]) -> int:
    if not words:
        return HISTORY
    if len(words) > 1 or not words[0].isascii() or not words[0].isdigit() or not 1 <= int(words[0]) <= MOST_HISTORY:
        raise Misunderstood("input_bad_count", word=" ".join(words)[:80], most=str(MOST_HISTORY))
    return int(words[0])
