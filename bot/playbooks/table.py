"""The table of all log messages for people (`docs/messages.md`), made from the data: id, what it means, who prints it, versions, phase, causes it supports."""

from bot.diagnosis.signatures import Signature
from bot.facts import Facts
from bot.logs.messages import LogMessage
from bot.model import Fact
from bot.playbooks.knowledge import Knowledge
from bot.predicates import Condition, check

HEAD = """# Log messages

Made from `playbooks/log_messages/` by `oombot explain --table`; do not edit. "Supports" names the causes whose signatures use the message or its kind.

| message | what it means | printed by | versions | phase | supports |
|---|---|---|---|---|---|
"""


def markdown(knowledge: Knowledge) -> str:
    """The whole page."""
    return HEAD + "".join(_row(message, knowledge.signatures) for message in sorted(knowledge.messages, key=lambda message: message.id))


def supports(message: LogMessage, signatures: tuple[Signature, ...], told: Facts | None = None) -> tuple[str, ...]:
    """Causes of the signatures that the message speaks for. `told`: what one printed line says, which may speak against some of them."""
    return tuple(sorted({item.cause for item in signatures if uses(item, message) and not (told is not None and _contradicts(told, item))}))


def _contradicts(told: Facts, signature: Signature) -> bool:
    against = (check(told, name, condition) is False for name, condition in signature.when.items())
    return any(against) or any(check(told, name, condition) for name, condition in signature.unless.items())


def uses(signature: Signature, message: LogMessage) -> bool:
    """Whether the message, its kind, or what it says as a frame of a stack speaks for the signature: it can make it fire or is quoted for it, and nothing
    that the message says by itself (its phase, its purpose, that it was printed) keeps it from firing."""
    if _denies(signature, message):
        return False
    if message.kind and _holds(signature.when.get("failure.kind"), message.kind):
        return True
    asked = {**signature.when, **signature.certain_if}
    names = [*(name for name, condition in asked.items() if _positive(condition)), *signature.quotes]
    return any(_is_of(name, message) for name in names)


def _is_of(name: str, message: LogMessage) -> bool:
    return name in (message.id, f"stack.{message.id.removeprefix('frame.')}") or name.startswith(f"{message.id}.")


def _denies(signature: Signature, message: LogMessage) -> bool:
    told = {"failure.phase": message.phase.value if message.phase else "", "failure.purpose": message.purpose}
    if message.role == "fatal" and any(value and name in signature.when and not _holds(signature.when[name], value) for name, value in told.items()):
        return True
    return any(name == message.id and condition == {"present": True} for name, condition in signature.unless.items()) or any(
        name == message.id and not _positive(condition) for name, condition in signature.when.items()
    )


def _positive(condition: Condition) -> bool:
    """Whether a fact that is there is what the condition asks for."""
    return condition not in ({"present": False}, {"equals": False})


def _holds(condition: Condition | None, value: str) -> bool:
    """Whether a known text fulfils the condition; without one nothing is asked."""
    return condition is not None and check(Facts([Fact("told", value)]), "told", condition) is True


def _row(message: LogMessage, signatures: tuple[Signature, ...]) -> str:
    phase = message.phase.value if message.phase else ""
    cells = (f"`{message.id}`", message.says.en, message.printed_by, message.versions, phase, ", ".join(supports(message, signatures)))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
