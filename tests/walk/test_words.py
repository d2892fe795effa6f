"""Every refusal and trouble that the policy and the use-cases can utter has its words in both languages, and these use no parameter that is not given."""

import re
from pathlib import Path

import pytest

import bot.cases
import bot.policy
from bot.model import Words
from handlers.messages import LANGUAGES, Messages, folder

_ENTRY = re.compile(r"^(?P<keys>[a-z_]+(?:, [a-z_]+)*) {2,}(?P<rest>.+)$")
_GROUPS = ("who asks", "where", "what", "hour", "approval", "switch")


def documented(text: str, after: str) -> dict[str, tuple[str, ...]]:
    """Keys and their parameters from a module's docstring."""
    found: dict[str, tuple[str, ...]] = {}
    for line in text.partition(after)[2].splitlines():
        words = re.sub(rf"^({'|'.join(_GROUPS)}) {{2,}}", "", line.strip())
        entry = _ENTRY.match(words)
        if entry:
            names = re.sub(r"\([^)]*\)", "", entry["rest"].partition(":")[0])
            for key in entry["keys"].split(", "):
                found[key] = tuple(re.findall(r"[a-z_]+", names))
    return found


KEYS = documented(bot.policy.__doc__ or "", "Keys of the refusals") | documented(bot.cases.__doc__ or "", "Keys of messages")


def test_the_docstrings_list_the_keys() -> None:
    assert len(KEYS) > 40
    assert (KEYS["frozen"], KEYS["read_only"], KEYS["already_decided"]) == (("who", "at"), (), ("who", "what", "at", "state"))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("key", sorted(KEYS))
def test_a_key_has_words_that_use_only_its_parameters(key: str, language: str) -> None:
    assert (folder() / language / f"{key}.j2").is_file()
    said = Messages(str).words(Words(key, {name: f"<{name}>" for name in KEYS[key]}), language)
    assert said
    assert "{{" not in said


def test_no_key_is_uttered_that_is_not_listed() -> None:
    root = Path(bot.policy.__file__).parent
    sources = [*(root / "cases").glob("*.py"), root / "policy.py", root / "lifecycle.py"]
    uttered = {key for source in sources for key in re.findall(r'(?:Refused|Words)\("([a-z_]+)"', source.read_text(encoding="utf-8"))}
    assert uttered - set(KEYS) == set()
