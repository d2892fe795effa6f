"""Finds where an engine option stands in a container: in `args` or `command`, in every form, or why it cannot be written there.

Pure. The last occurrence wins, as it does for the engine's parser.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.remediation.engine_options import Option, means
from bot.remediation.shell_words import simple_command
from bot.servers import Server, starts

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
_REFERENCE = re.compile(r"\$\((\w+)\)|\$\{?(\w+)\}?")
_VALUE_LOOKS_LIKE_OPTION = re.compile(r"--?[a-zA-Z]")


@dataclass(frozen=True, slots=True)
class Word:
    """One item of `command` or `args`: which list, which place, what text."""

    list: str
    at: int
    text: str


@dataclass(frozen=True, slots=True)
class Spot:
    """The option stands here. `key` is as written, `value` the value's text ("" for a switch), `word` the item to rewrite.

    `joined`: the item holds key and value (`--k=v`), else the value is an item of its own.
    """

    word: Word
    key: str
    value: str
    joined: bool
    inside: tuple[int, int] | None = None  # the part of the item to rewrite, when the item is a whole shell string


@dataclass(frozen=True, slots=True)
class End:
    """The option is absent; it can be appended to this list, whose items are these. `inside`: to the end of this shell string instead."""

    list: str
    items: tuple[str, ...]
    inside: Word | None = None


@dataclass(frozen=True, slots=True)
class Obstacle:
    """It cannot be written. `kind`: shell | text | script | reference | config_file | image | program | ambiguous | no_value | terminator."""

    kind: str
    word: Word | None = None
    name: str = ""  # the variable, the file, or the option as written
    whole: bool = False  # the value is this variable and nothing else


def words(container: Mapping[str, Any]) -> list[Word]:
    """The whole command line in order: `command`, then `args`."""
    return [Word(name, at, str(text)) for name in ("command", "args") for at, text in enumerate(container.get(name) or [])]


def locate(container: Mapping[str, Any], option: Option) -> Spot | End | Obstacle:
    """Where the option stands, where it can be appended, or what is in the way."""
    line = words(container)
    shell = _shell(line)
    if shell is not None:
        return _inside(shell, option) or shell
    spot = _last_spot(line, option)
    if spot is not None:
        return spot
    return _end(container, line, option)


def _shell(line: list[Word]) -> Obstacle | None:
    """A shell that runs a string or a script in front of everything else."""
    for at, word in enumerate(line[:8]):
        program = word.text.rsplit("/", 1)[-1]
        if program == "vllm" or program.startswith("python") or (word.text.startswith("--") and word.text != "--"):
            return None
        if program.endswith(".sh"):
            return Obstacle("script", word, word.text)
        if program in SHELLS:
            return _shell_command(line[at + 1 :], word)
    return None


def _shell_command(rest: list[Word], shell: Word) -> Obstacle:
    for at, word in enumerate(rest):
        if word.text.startswith("-") and not word.text.startswith("--") and "c" in word.text:
            return Obstacle("shell", rest[at + 1]) if at + 1 < len(rest) else Obstacle("program", shell, shell.text)
        if not word.text.startswith("-"):
            return Obstacle("script", word, word.text)
    return Obstacle("program", shell, shell.text)


def _inside(shell: Obstacle, option: Option) -> Spot | End | Obstacle | None:
    """The same inside a shell string that is one simple command of the engine's; None when it is more than that."""
    outer = shell.word
    command = simple_command(outer.text) if shell.kind == "shell" and outer is not None else None
    if command is None or outer is None:
        return None
    line = [Word("command", at, word.text) for at, word in enumerate(command)]
    if not _is_engine(line[:3], option):
        return None
    found = _last_spot(line, option) or _end({"command": [word.text for word in line]}, line, option)
    if isinstance(found, Spot):
        place = command[found.word.at]
        return Spot(outer, found.key, found.value, found.joined, (place.start, place.end))
    if isinstance(found, End):
        return End(outer.list, (), outer)
    return Obstacle(found.kind, outer, found.name, found.whole) if found.kind in ("reference", "config_file") else None


def _last_spot(line: list[Word], option: Option) -> Spot | Obstacle | None:
    found: Spot | Obstacle | None = None
    for at, word in enumerate(line):
        if word.text == "--" and _is_engine(line[:at], option):
            return Obstacle("terminator", word)
        if not word.text.startswith("--"):
            continue
        key, equals, value = word.text[2:].partition("=")
        if any(blank in key for blank in " \t\n"):
            if mentions(word.text, option):
                found = Obstacle("text", word)
            continue
        match = means(key, option)
        if match is None:
            return Obstacle("ambiguous", word, word.text)
        if match:
            found = _spot(line, at, option, key, value if equals else None)
    return found


def _spot(line: list[Word], at: int, option: Option, key: str, value: str | None) -> Spot | Obstacle:
    word = line[at]
    if option.kind == "switch":
        return Spot(word, key, "", joined=True)
    joined = value is not None
    if value is None:
        following = line[at + 1] if at + 1 < len(line) else None
        if following is None or _VALUE_LOOKS_LIKE_OPTION.match(following.text):
            return Obstacle("no_value", word, word.text)
        word, value = following, following.text
    reference = _REFERENCE.search(value)
    if reference:
        return Obstacle("reference", word, reference[1] or reference[2], reference[0] == value)
    return Spot(word, key, value, joined)


def _end(container: Mapping[str, Any], line: list[Word], option: Option) -> End | Obstacle:
    config = config_file(line)
    if config:
        return Obstacle("config_file", name=config)
    if any(mentions(word.text, option) for word in line):
        return Obstacle("text", next(word for word in line if mentions(word.text, option)))
    args, command = container.get("args") or [], container.get("command") or []
    if not args and not command:
        return Obstacle("image", name=str(container.get("image", "")))
    if not _is_engine(line, option) and not (not command and _looks_like_engine_args(container, args, option)):
        return Obstacle("program", line[0], line[0].text)
    return End("args", tuple(args)) if args else End("command", tuple(command))


def _is_engine(line: list[Word], option: Option) -> bool:
    """Whether the command line itself starts the engine, so that an option at its end reaches it."""
    if option.server is not None:
        return starts(option.server, " ".join(word.text for word in line))
    return any(word.text.rsplit("/", 1)[-1] == "vllm" or word.text.startswith("vllm.entrypoints") for word in line)


def _looks_like_engine_args(container: Mapping[str, Any], args: list[Any], option: Option) -> bool:
    """The image's own entry point starts the engine: its name says so, or the arguments do."""
    if option.server is not None:
        return option.server.image_starts and str(args[0]).startswith("-")
    return "vllm" in str(container.get("image", "")).lower() or str(args[0]) == "serve" or any(str(item).partition("=")[0] == "--model" for item in args)


def config_file(line: list[Word]) -> str:
    """The file that `--config` names, "" when there is none."""
    for at, word in enumerate(line):
        if word.text.startswith("--config="):
            return word.text.partition("=")[2]
        if word.text == "--config" and at + 1 < len(line):
            return line[at + 1].text
    return ""


def spelled(option: Option) -> str:
    """A regular expression for the option's full name in either spelling, with its dashes."""
    return "--" + "[-_]".join(re.escape(part) for part in option.name.split("-"))


def mentions(text: str, option: Option) -> bool:
    """Whether a longer text holds the option by its full name."""
    return re.search(rf"(?<![\w-]){spelled(option)}(?![\w-])", text) is not None


def in_text(text: str, option: Option, written: str) -> tuple[str, str]:
    """A shell string with the option set, and the variable that it takes the value from ("" when it is a plain value).

    An absent option is put behind the model (`vllm serve MODEL`) or the module; when neither is there, behind a blank at the end.
    """
    new = f"--{option.name}={written}" if written else f"--{option.name}"
    if option.kind != "switch":
        pattern = re.compile(rf"((?<![\w-]){spelled(option)}(?:=|\s+))(\"[^\"]*\"|'[^']*'|[^\s;|&]+)")
        found = list(pattern.finditer(text))
        if found:
            last = found[-1]
            reference = _REFERENCE.search(last[2])
            variable = (reference[1] or reference[2]) if reference else ""
            return text[: last.start(2)] + written + text[last.end(2) :], variable
    elif mentions(text, option):
        return text, ""
    if option.server is not None:
        return _behind_program(text, option.server, new), ""
    place = re.search(r"vllm\s+serve\s+[^\s\\;|&]+|vllm\.entrypoints\.[\w.]+", text)
    if place:
        return f"{text[: place.end()]} {new}{text[place.end() :]}", ""
    return f"{text.rstrip()} {new}", ""


def _behind_program(text: str, server: Server, new: str) -> str:
    """In front of the first option of the program that a shell string starts; at its end when that is not to be seen."""
    program = re.search(server.command, text, re.IGNORECASE) if server.command else None
    first = re.compile(r"\s--[a-z]").search(text, program.end()) if program else None
    return f"{text[: first.start()]} {new}{text[first.start() :]}" if first else f"{text.rstrip()} {new}"
