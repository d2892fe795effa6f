"""`oombot explain CAUSE` and `oombot explain --message LINE`: what we know of a cause, or of a pasted log line."""

import argparse
import difflib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bot.errors import BadInput
from bot.terminal.columns import wrapped

if TYPE_CHECKING:  # heavy things are imported where they are used
    from bot.facts import Facts
    from bot.logs.messages import LogMessage
    from bot.playbooks import Knowledge


def main(argv: list[str]) -> int:
    """0 when there is something to say, 1 for a line that no message knows, 2 for a word that is no cause."""
    parser = argparse.ArgumentParser(prog="oombot explain", description="What we know of a cause, or of a log line.")
    parser.add_argument("cause", nargs="?", help="a cause, like kv_cache_too_small")
    parser.add_argument("--message", metavar="LINE", help="a line of a log")
    parser.add_argument("--table", action="store_true", help="all log messages as a Markdown page (docs/messages.md)")
    parser.add_argument("--language", choices=("en", "zh"), default="en")
    asked = parser.parse_args(argv)
    if asked.table:
        from bot.playbooks import load
        from bot.playbooks.table import markdown

        print(markdown(load()), end="")
        return 0
    if (asked.cause is None) == (asked.message is None):
        raise BadInput("explain takes a cause, or --message LINE; `oombot explain kv_cache_too_small`")
    return _line(asked.message, asked.language) if asked.message is not None else _cause(asked.cause, asked.language)


def _cause(cause: str, language: str) -> int:
    from bot.diagnosis.causes import FAMILIES, family_of
    from bot.diagnosis.rank import EXPLAINS
    from bot.playbooks import load
    from bot.playbooks.table import uses

    known = [name for names in FAMILIES.values() for name in names]
    if cause not in known:
        near = difflib.get_close_matches(cause, known, 1)
        raise BadInput(f"no cause {cause!r}; " + (f"perhaps {near[0]}" if near else f"one of: {', '.join(known)}"))
    knowledge = load()
    print(f"{cause} ({family_of(cause)})")
    for signature in (item for item in knowledge.signatures if item.cause == cause):
        print(f"\n{signature.id}  ({signature.file})")
        print(wrapped(signature.says.say(language)))
        for title, conditions in (("when", signature.when), ("unless", signature.unless), ("certain if", signature.certain_if)):
            for condition in _conditions(conditions):
                print(wrapped(f"{title} {condition}", "    "))
        for message in (item for item in knowledge.messages if uses(signature, item)):
            print(wrapped(f"seen as {message.id}: {_where_from(message)}", "    "))
        for decider in signature.deciders:
            print(wrapped(f"decided by {decider.source}: {decider.would_tell.say(language)}", "    "))
        for remedy in signature.remedies:
            only = [f"if {condition}" for condition in _conditions(remedy.when)] + [f"unless {condition}" for condition in _conditions(remedy.unless)]
            print(wrapped("do " + ", ".join([remedy.id, *only]), "    "))
        for item in signature.will_not_help:
            print(wrapped(f"not {item.id}" + (f": {item.why.say(language)}" if item.why else ""), "    "))
    if EXPLAINS.get(cause):
        print("\n" + wrapped(f"Explains what looks like: {', '.join(EXPLAINS[cause])}", ""))
    return 0


def _conditions(conditions: Mapping[str, Mapping[str, object]]) -> list[str]:
    return [f"{name} {predicate} {operand}" for name, condition in conditions.items() for predicate, operand in condition.items()]


def _where_from(message: "LogMessage") -> str:
    return message.printed_by + (f", versions {message.versions}" if message.versions else "")


def _told(line: str, knowledge: "Knowledge") -> "Facts":
    """What the line says by itself: numbers and the stage that it names. All else counts as not known."""
    from io import BytesIO

    from bot.diagnosis import log_facts
    from bot.facts import Facts
    from bot.logs.events import events
    from bot.logs.incidents import understand

    scan = knowledge.scanner.scan(BytesIO(line.encode()))
    facts = log_facts.facts_of(understand(events(scan.hits, "line"), "line", scan))
    return Facts(fact for fact in facts if fact.name.startswith(("failure.", "alloc.")) and fact.name != "alloc.grows")


def _line(line: str, language: str) -> int:
    from bot.diagnosis.words import show
    from bot.logs.messages import fact_name
    from bot.playbooks import load
    from bot.playbooks.proof import match
    from bot.playbooks.table import supports
    from bot.terminal.text import harmless

    knowledge = load()
    line = line.encode(errors="surrogateescape").decode(errors="replace")[:65536]  # bytes that a shell in another encoding passed on
    found = match(knowledge.messages, line)
    if not found:
        print("no message that we know stands in that line", file=sys.stderr)
        return 1
    told = _told(line, knowledge)
    for message, fields in found:
        print(f"{message.id}  (log_messages/{message.file})")
        print(wrapped(message.says.say(language)))
        print(
            wrapped(
                ", ".join(
                    part
                    for part in (
                        f"role {message.role}",
                        f"phase {message.phase.value}" if message.phase else "",
                        f"printed by {_where_from(message)}",
                    )
                    if part
                )
            )
        )
        for name, value in fields.items():
            print(harmless(wrapped(f"{name}: {show(fact_name(message, name), value)}", "    ")))
        used = supports(message, knowledge.signatures, told)
        if used:
            print(wrapped(f"supports: {', '.join(used)}"))
    return 0
