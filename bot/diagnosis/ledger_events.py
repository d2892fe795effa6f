"""From the events of a log to the readings of its ledger: which process printed which number. Picks; computes nothing."""

from collections.abc import Iterable

from bot.diagnosis.ledger_lines import FIELDS, NO_CACHE_BLOCKS, LedgerReading
from bot.logs.events import Event

_FRONT = ("EngineCore", "APIServer", "ApiServer")
_FROM = ("vllm.", "torch.card")  # the allocator tells the size of the card in its errors


def readings(events: Iterable[Event]) -> tuple[LedgerReading, ...]:
    """Readings in the order of the events; give it the events of ONE run of the server. Any message of the server whose fields have
    the ledger's names counts, and the refusal that has none."""
    found = []
    for event in events:
        if not event.id.startswith(_FROM):
            continue
        values = {name: value for name, value in event.fields.items() if name in FIELDS and isinstance(value, (int, float)) and not isinstance(value, bool)}
        if values or event.id in NO_CACHE_BLOCKS:
            found.append(LedgerReading(event.id, values, _process(event), event.prefix.rank, event.place))
    return tuple(found)


def _process(event: Event) -> str:
    """A name that tells this process from the others of the run: workers of one name differ by rank or pid."""
    prefix = event.prefix
    if not prefix.process or prefix.process.startswith(_FRONT) or any(letter.isdigit() for letter in prefix.process):
        return prefix.process
    number = prefix.rank if prefix.rank is not None else prefix.pid
    return prefix.process if number is None else f"{prefix.process} {number}"
