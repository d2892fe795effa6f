"""Which program serves, and how it spells its options. What each one is called is data under `playbooks/servers/`; this only finds and hands out.

Knows no server by name: the one that is assumed where nothing tells is marked in its file. Reads nothing and decides no remedy.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from bot.facts import Facts
from bot.model import Fact, Text, Value

NAME, ASSUMED, OPTION = "server.name", "server.assumed", "option."
UNNAMED = "unnamed"
KINDS = ("fraction", "gib", "count", "word", "switch")
_LOOKED_AT = 4000  # letters of a command line


@dataclass(frozen=True, slots=True)
class ServerOption:
    """One option as it is typed. `low` and `high`: what it may be set to; `default`: what is in force where nobody sets it (None: the server computes it);
    `to`: the word that the remedy sets; `also`: other spellings, as they are typed or printed; `holds_weights`: a share of what is free at the start, for weights and
    cache together; `printed`: facts of log messages that say the value in force."""

    option: str
    kind: str
    low: float = 0
    high: float = 0
    default: float | None = None
    to: str = ""
    also: tuple[str, ...] = ()
    holds_weights: bool = False
    printed: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All spellings as names of arguments ("mem_fraction_static")."""
        return tuple(name.lstrip("-").replace("-", "_") for name in (self.option, *self.also))


@dataclass(frozen=True, slots=True)
class Server:
    """One program that serves. `options` by knob; `says` and `effects` where a remedy means something else than `remedies.yaml` says; `lacks`: remedies that
    it has no option for, and why that is so; `image_starts`: the image starts it by itself, so that arguments alone reach it."""

    id: str
    name: str
    messages: tuple[str, ...] = ()
    command: str = ""
    image: str = ""
    assumed: bool = False
    image_starts: bool = False
    options: Mapping[str, ServerOption] = field(default_factory=dict)
    says: Mapping[str, Text] = field(default_factory=dict)
    effects: Mapping[str, Text] = field(default_factory=dict)
    lacks: Mapping[str, Text] = field(default_factory=dict)

    def option_for(self, knob: str) -> str:
        """The option as it is typed; "" where there is none."""
        return self.options[knob].option if knob in self.options else ""


def made(document: Mapping[str, Any], name: str) -> Server:
    """The Server of one file, whose shape was checked."""
    remedies = document.get("remedies") or {}
    return Server(
        id=name,
        name=document["name"],
        messages=tuple(document.get("messages", ())),
        **{key: document.get(key, "") for key in ("command", "image")},
        **{key: document.get(key, False) for key in ("assumed", "image_starts")},
        options={
            knob: ServerOption(**{**option, **{key: tuple(option.get(key, ())) for key in ("also", "printed")}}) for knob, option in document["options"].items()
        },
        says={remedy: _text(told["says"]) for remedy, told in remedies.items()},
        effects={remedy: _text(told["effect"]) for remedy, told in remedies.items() if "effect" in told},
        lacks={remedy: _text(why) if why else _no_such(document["name"]) for remedy, why in (document.get("lacks") or {}).items()},
    )


def _text(value: Mapping[str, str]) -> Text:
    return Text(value["en"], value["zh"])


def _no_such(name: str) -> Text:
    return Text(f"{name} has no option for it.", f"{name} 没有这样的选项。")


def assumed(servers: Sequence[Server]) -> Server | None:
    """The server that is meant where nothing tells which one runs."""
    return next((server for server in servers if server.assumed), None)


def of_container(words: Iterable[str], image: str, servers: Sequence[Server]) -> Server | None:
    """The server that a container starts: by the program of its command line, else by the name of its image; None for none and for several."""
    return _only(" ".join(words)[:_LOOKED_AT], "command", servers) or _of_image(image, servers)


def _of_image(image: str, servers: Sequence[Server]) -> Server | None:
    """The last part of the name counts more than the registry and the team in front of it."""
    return _only(image.rpartition("/")[2], "image", servers) or _only(image, "image", servers)


def _only(text: str, what: str, servers: Sequence[Server]) -> Server | None:
    found = [server for server in servers if text and getattr(server, what) and _pattern(getattr(server, what)).search(text)]
    return found[0] if len(found) == 1 else None


@cache
def _pattern(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.IGNORECASE)


def starts(server: Server, line: str) -> bool:
    """Whether a command line starts this server."""
    return bool(server.command and _pattern(server.command).search(line[:_LOOKED_AT]))


def of_facts(facts: Facts, servers: Sequence[Server]) -> Server | None:
    """The server of an incident: by its command line and image, else by what only one prints; None when nothing tells.

    The assumed one comes last: others use its code and print some of its lines.
    """
    others = [server for server in servers if not server.assumed]
    return _by_container(facts, servers) or _by_messages(facts, others) or _by_messages(facts, servers)


def _by_messages(facts: Facts, servers: Sequence[Server]) -> Server | None:
    printed = facts.get("log.printed_by")
    spoken = set(printed) if isinstance(printed, tuple) else set()
    found = [server for server in servers if spoken & set(server.messages)]
    return found[0] if len(found) == 1 else None


def _by_container(facts: Facts, servers: Sequence[Server]) -> Server | None:
    words, image = facts.get("args.command"), facts.get("container.image")
    return of_container([words] if isinstance(words, str) else (), image if isinstance(image, str) else "", servers)


def spelled(server: Server | None, servers: Sequence[Server]) -> list[Fact]:
    """`server.name` and `option.KNOB`, the options as the server has them; as the assumed one (`server.assumed`) has them where nothing tells which it is."""
    meant = server or assumed(servers)
    options = meant.options if meant else {}
    taken = [Fact(ASSUMED, meant.name)] if meant is not None and server is None else []
    return [Fact(NAME, server.name if server else UNNAMED), *taken, *(Fact(f"{OPTION}{knob}", f"{one.option} {one.to}".rstrip()) for knob, one in options.items())]


def in_force(facts: Facts, server: Server | None) -> list[Fact]:
    """`engine.KNOB` from the command line, where it uses the server's own names for the knobs."""
    found: list[Fact] = []
    for knob, option in (server.options if server else {}).items():
        if option.kind == "switch":  # what one server switches off another one switches on
            continue
        told = (*(f"args.{name}" for name in option.names), *option.printed)
        given = next((fact for name in told if (fact := facts.fact(name)) is not None), None)
        if given is not None and f"engine.{knob}" not in facts and (value := _number(option, given.value)) is not None:
            found.append(Fact(f"engine.{knob}", value, given.place))
    return found


def _number(option: ServerOption, value: Value) -> Value | None:
    if option.kind in ("fraction", "gib"):
        try:
            return float(value) if isinstance(value, int | float | str) else None
        except ValueError:
            return None
    if option.kind == "count":
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    return value
