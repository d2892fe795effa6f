"""What will not help, as people say it: "lowering or raising GPU memory utilisation: no memory ran out". One place for terminal and chat.

Knows the names of remedies (`playbooks/messages/<language>/remedies.j2`) and how a sentence uses them; escapes nothing.
"""

from collections.abc import Sequence

from bot.model import WillNotHelp
from handlers import messages

_DOUBLED = frozenset({"set", "run", "stop", "let", "drop", "put"})


def named(remedy: str, direction: str, language: str) -> str:
    """What a remedy is called."""
    return messages.of_the_bot(str).remedy(f"{remedy}:{direction}" if direction else remedy, language)


def useless(items: Sequence[WillNotHelp], language: str) -> list[tuple[str, str]]:
    """(names, why), one row a reason: what shares a reason stands together."""
    grouped: dict[str, list[WillNotHelp]] = {}
    for item in items:
        grouped.setdefault(item.why.say(language), []).append(item)
    return [(_together(group, language), why) for why, group in grouped.items()]


def _together(group: Sequence[WillNotHelp], language: str) -> str:
    """Names in one row, as they stand in a sentence: "lowering ..."; "lowering or raising ..." for both directions of one knob."""
    names: list[str] = []
    for item in group:
        name = named(item.remedy, item.direction, language)
        if language == "zh":
            names.append(name)
            continue
        verb, _, rest = name.partition(" ")
        doing = gerund(verb.lower())
        twin = next((index for index, other in enumerate(names) if rest and other.partition(" ")[2] == rest), None)
        if twin is not None:
            names[twin] = f"{names[twin].partition(' ')[0]} or {doing} {rest}"
        else:
            names.append(f"{doing} {rest}".rstrip())
    return ("、" if language == "zh" else ", ").join(names)


def gerund(verb: str) -> str:
    """The names of remedies begin with a verb: "lower" -> "lowering", "use" -> "using", "stop" -> "stopping"."""
    if verb in _DOUBLED:
        return f"{verb}{verb[-1]}ing"
    return f"{verb[:-1] if verb.endswith('e') else verb}ing"
