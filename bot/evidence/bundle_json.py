"""`bundle.json`: what `oombot collect` knew beside the evidence - the server's container, when the node was booted, and when it was collected. It reads nothing of the evidence."""

from bot.evidence.document import Document
from bot.evidence.reading import Reading
from bot.model import Fact


def read(data: bytes, source: str) -> Reading:
    """The facts that are there; a damaged file gives none (who opens the bundle says so)."""
    document = Document(data, source)
    found = []
    container, booted = document.root.at("server_container"), document.root.at("node_boot_time")
    if container.text():
        found.append(Fact("bundle.server_container", container.text(), document.place(container)))
    if booted.seconds() is not None:
        found.append(Fact("bundle.booted_at", booted.seconds() or 0, document.place(booted)))
    collected = document.root.at("collected_at")
    if collected.seconds() is not None:
        found.append(Fact("bundle.collected_at", collected.seconds() or 0, document.place(collected)))
    return Reading(tuple(found))
