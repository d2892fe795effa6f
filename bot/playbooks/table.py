"""The table of all log messages for people (`docs/messages.md`), made from the data: id, what it means, who prints it, versions, phase, causes it supports."""

from bot.diagnosis.signatures import Signature
from bot.logs.messages import LogMessage
from bot.playbooks.knowledge import Knowledge

HEAD = """# Log messages

Made from `playbooks/log_messages/` by `oombot explain --table`; do not edit. "Supports" names the causes whose signatures use the message or its kind.

| message | what it means | printed by | versions | phase | supports |
|---|---|---|---|---|---|
"""


def markdown(knowledge: Knowledge) -> str:
    """The whole page."""
    return HEAD + "".join(_row(message, knowledge.signatures) for message in sorted(knowledge.messages, key=lambda message: message.id))


def supports(message: LogMessage, signatures: tuple[Signature, ...]) -> tuple[str, ...]:
    """Causes of the signatures that use the message, its fields or its kind in `when`, or that its phase or purpose as a frame decides."""
    return tuple(sorted({item.cause for item in signatures if uses(item, message)}))


def uses(signature: Signature, message: LogMessage) -> bool:
    """Whether the message, its kind, or what it says as a frame of a stack can make the signature fire."""
    kinds: list[object] = []
    for operand in (signature.when.get("failure.kind") or {}).values():
        kinds += operand if isinstance(operand, list) else [operand]
    names = (*signature.when, *signature.certain_if, *signature.quotes)
    frame = f"stack.{message.id.removeprefix('frame.')}"
    return bool(message.kind and message.kind in kinds) or any(name in (message.id, frame) or name.startswith(f"{message.id}.") for name in names)


def _row(message: LogMessage, signatures: tuple[Signature, ...]) -> str:
    phase = message.phase.value if message.phase else ""
    cells = (f"`{message.id}`", message.says.en, message.printed_by, message.versions, phase, ", ".join(supports(message, signatures)))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
