"""Words for people: `playbooks/messages/<language>/<key>.j2`, filled in. It knows no chat platform: who renders says how what is filled in gets escaped.

Everything filled into a template is untrusted (a name in it may come from a pod's log) and goes through `escape`; the templates' own text does not.
Short labels of one language stand together in `labels.j2`, names of causes and remedies in `causes.j2` and `remedies.j2`.
"""

import re
from ast import literal_eval
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bot
from bot.model import Words

if TYPE_CHECKING:
    from jinja2 import Environment  # not at run time: a command that needs names only starts faster without

LANGUAGES = ("en", "zh")
FALLBACK = "en"


_CONSTANT = re.compile(r"\{% set (\w+) = (.*?) %\}\s*", re.DOTALL)


class Trusted(str):
    """A piece of markup that we made ourselves: it is filled in as it is."""

    __slots__ = ()


def folder() -> Path:
    """The messages that came with the bot, in a checkout and in a wheel alike."""
    return Path(bot.__file__).resolve().parent.parent / "playbooks" / "messages"


class Messages:
    """All templates of all languages, compiled when first used."""

    def __init__(self, escape: Callable[[str], str], root: Path | None = None) -> None:
        self._escape, self._root = escape, root or folder()
        self._environments: dict[str, Environment] = {}
        self._names: dict[tuple[str, str], Mapping[str, Any]] = {}

    def say(self, key: str, language: str, **parameters: object) -> str:
        """A message. A key without a template is said plainly, with what is known: a missing word must not hide a refusal."""
        from jinja2 import TemplateNotFound

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
        """What a template sets. One that sets constants only is read without a template engine."""
        language = language if language in LANGUAGES else FALLBACK
        if (language, name) not in self._names:
            constants = constants_of((self._root / language / f"{name}.j2").read_text(encoding="utf-8"))
            self._names[language, name] = vars(self._language(language).get_template(f"{name}.j2").module) if constants is None else constants
        return self._names[language, name]

    def _language(self, language: str) -> "Environment":
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        def finalize(value: Any) -> str:
            return value if isinstance(value, Trusted) else self._escape(str(value))

        known = language if language in LANGUAGES else FALLBACK
        if known not in self._environments:
            loader = FileSystemLoader(self._root / known)
            made = Environment(loader=loader, undefined=StrictUndefined, autoescape=False, finalize=finalize, trim_blocks=True, lstrip_blocks=True)  # noqa: S701 (escaped for chat, not for HTML)
            self._environments[known] = made
        return self._environments[known]


def constants_of(source: str) -> dict[str, Any] | None:
    """Names and values of a template that does nothing but set them; None for any other."""
    if _CONSTANT.sub("", source).strip():
        return None
    try:
        return {name: literal_eval(value) for name, value in _CONSTANT.findall(source)}
    except (ValueError, SyntaxError):
        return None


@cache
def of_the_bot(escape: Callable[[str], str]) -> Messages:
    """The messages that came with the bot, one set a kind of escaping."""
    return Messages(escape)
