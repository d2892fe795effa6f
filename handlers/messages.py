"""Words for people: `playbooks/messages/<language>/<key>.j2`, filled in. It knows no chat platform: who renders says how what is filled in gets escaped.

Everything filled into a template is untrusted (a name in it may come from a pod's log) and goes through `escape`; the templates' own text does not.
Short labels of one language stand together in `labels.j2`, names of causes and remedies in `causes.j2` and `remedies.j2`.
"""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateNotFound

import bot
from bot.model import Words

LANGUAGES = ("en", "zh")
FALLBACK = "en"


class Trusted(str):
    """A piece of markup that we made ourselves: it is filled in as it is."""

    __slots__ = ()


def folder() -> Path:
    """The messages that came with the bot, in a checkout and in a wheel alike."""
    return Path(bot.__file__).resolve().parent.parent / "playbooks" / "messages"


class Messages:
    """All templates of all languages, compiled when first used."""

    def __init__(self, escape: Callable[[str], str], root: Path | None = None) -> None:
        def finalize(value: Any) -> str:
            return value if isinstance(value, Trusted) else escape(str(value))

        def environment(language: str) -> Environment:
            loader = FileSystemLoader((root or folder()) / language)
            return Environment(loader=loader, undefined=StrictUndefined, autoescape=False, finalize=finalize, trim_blocks=True, lstrip_blocks=True)  # noqa: S701 (escaped for chat, not for HTML)

        self._environments = {language: environment(language) for language in LANGUAGES}

    def say(self, key: str, language: str, **parameters: object) -> str:
        """A message. A key without a template is said plainly, with what is known: a missing word must not hide a refusal."""
        try:
            template = self._language(language).get_template(f"{key}.j2")
        except TemplateNotFound:
            known = ", ".join(f"{name}: {value}" for name, value in parameters.items())
            return self._language(language).from_string("{{ text }}").render(text=f"{key.replace('_', ' ')} ({known})" if known else key.replace("_", " "))
        return template.render(parameters).strip()

    def words(self, words: Words, language: str) -> str:
        return self.say(words.key, language, **words.parameters)

    def label(self, name: str, language: str) -> str:
        """A short label. Unknown names come back as they are, with spaces."""
        return str(self._labels(language).get(name, name.replace("_", " ")))

    def has_label(self, name: str, language: str) -> bool:
        return name in self._labels(language)

    def remedy(self, remedy_id: str, language: str) -> str:
        """What a remedy of the vocabulary is called."""
        return str(self._module(language, "remedies")["names"].get(remedy_id, remedy_id.replace("_", " ").replace(":", ": ")))

    def cause(self, cause: str, language: str) -> str:
        return str(self._module(language, "causes")["names"].get(cause, cause.replace("_", " ")))

    def _labels(self, language: str) -> Mapping[str, Any]:
        return self._module(language, "labels")

    def _module(self, language: str, name: str) -> Mapping[str, Any]:
        return vars(self._language(language).get_template(f"{name}.j2").module)

    def _language(self, language: str) -> Environment:
        return self._environments.get(language) or self._environments[FALLBACK]


@cache
def of_the_bot(escape: Callable[[str], str]) -> Messages:
    """The messages that came with the bot, one set a kind of escaping."""
    return Messages(escape)
