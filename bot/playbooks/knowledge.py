"""What is known, as nouns. Reads nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from bot.diagnosis.names import Names
from bot.diagnosis.signatures import Signature, Variant
from bot.logs.messages import LogMessage
from bot.logs.scan import Scanner
from bot.model import Text
from bot.servers import Server


@dataclass(frozen=True, slots=True)
class RemedyText:
    """What a remedy of the vocabulary means to the person who carries it out. `cost` orders remedies of equal proof (1: nothing is lost; 5: money);
    `of_server`: the text names options of the assumed server, so that each other server needs a text of its own; `where`: what it means instead where some facts hold, with the
    assumed server."""

    id: str
    says: Text
    effect: Text
    risk: str = "low"
    cost: int = 3
    of_server: bool = False
    where: tuple[Variant, ...] = ()


@dataclass(frozen=True)
class Knowledge:
    """Everything under `playbooks/` that a diagnosis needs."""

    messages: tuple[LogMessage, ...] = ()
    signatures: tuple[Signature, ...] = ()
    remedies: Mapping[str, RemedyText] = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    servers: tuple[Server, ...] = ()

    @cached_property
    def namespaces(self) -> tuple[str, ...]:
        """Prefixes of the message ids ("vllm.") but the kernel's, whose facts come from the kernel log."""
        return tuple(sorted({f"{message.id.split('.')[0]}." for message in self.messages} - {"kernel."}))

    @cached_property
    def scanner(self) -> Scanner:
        """All anchors as one database, built at first use."""
        return Scanner(self.messages)
