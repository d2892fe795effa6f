"""Ledgers that real servers printed, as test data (tests/data/ledgers): lines, the numbers a person read in them, the model's geometry.

Lines go the whole way through the product: scan, prefixes, messages, readings, ledger.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from bot.diagnosis.ledger import build
from bot.diagnosis.ledger_engine import EngineFacts
from bot.diagnosis.ledger_events import readings
from bot.logs.events import events
from bot.logs.messages import LogMessage
from bot.logs.scan import Scanner
from bot.model import Ledger
from bot.playbooks import folder, load
from bot.playbooks.read import message, parse
from bot.units import GIB

_NAMES = load().names
_CAPACITY = re.compile(r"total capacity of ([\d.]+) GiB")  # the allocator's error; `alloc.total_bytes` in the product
DATA = Path(__file__).parents[1] / "data" / "ledgers"


@dataclass(frozen=True)
class Start:
    """One start of one server; `name` is the file's id with `+` for each later start."""

    name: str
    file: dict[str, Any]
    start: dict[str, Any]

    @property
    def printed(self) -> dict[str, Any]:
        printed: dict[str, Any] = self.start.get("printed", {})
        return printed

    @property
    def lines(self) -> list[str]:
        lines: list[str] = self.start.get("lines", [])
        return lines

    @property
    def geometry(self) -> dict[str, Any] | None:
        geometry: dict[str, Any] | None = self.start.get("geometry") or self.file.get("geometry")
        return geometry

    @property
    def engine(self) -> EngineFacts:
        """What arguments and configuration of the server said, beside its ledger."""
        settings, printed = self.file["settings"], self.printed
        stated = printed.get("u", settings.get("gpu_memory_utilization"))
        length = printed.get("max_model_len", settings.get("max_model_len"))
        hybrid = (self.geometry or {}).get("hybrid")
        return EngineFacts(
            version=self.file["version"],
            model=self.file.get("model", ""),
            named_hybrid=_NAMES.tells("hybrid", self.file.get("model", "")),
            named_plain=_NAMES.tells("plain", self.file.get("model", "")),
            utilization=stated if isinstance(stated, float) and stated <= 1 else None,
            max_model_len=length if isinstance(length, int) else None,
            max_num_seqs=settings.get("max_num_seqs"),
            max_num_batched_tokens=settings.get("max_num_batched_tokens"),
            tensor_parallel_size=settings.get("tensor_parallel_size"),
            pipeline_parallel_size=settings.get("pipeline_parallel_size"),
            kv_cache_dtype=settings.get("kv_cache_dtype"),
            enforce_eager=settings.get("enforce_eager"),
            hybrid=hybrid,
            device_total_bytes=round(float(capacity[1]) * GIB) if (capacity := _CAPACITY.search(" ".join(self.lines))) else None,
        )

    def ledger(self) -> Ledger | None:
        return ledger_of(self.lines, self.engine)


@cache
def _scanner() -> Scanner:
    found: list[LogMessage] = []
    for path in sorted(folder().glob("log_messages/*.yaml")):
        if path.name.startswith(("ledger-", "vllm-")):
            document = parse(path.read_text(encoding="utf-8"))
            found += [message(item, path.name, document) for item in document.get("messages", [document])]
    return Scanner(found)


def ledger_of(lines: list[str], engine: EngineFacts) -> Ledger | None:
    """The ledger of a log of these lines."""
    log = "\n".join(lines).encode()
    return build(readings(events(_scanner().scan(io.BytesIO(log)).hits, "container.log")), engine)


@cache
def starts() -> tuple[Start, ...]:
    """Every start of every file."""
    found = []
    for path in sorted(DATA.glob("*.yaml")):
        file = yaml.safe_load(path.read_text(encoding="utf-8"))
        found += [Start(path.stem + "+" * number, file, start) for number, start in enumerate(file["starts"])]
    return tuple(found)


def with_lines() -> Iterator[Start]:
    """The starts whose lines are log lines."""
    return (start for start in starts() if start.lines)


def start(name: str) -> Start:
    return next(each for each in starts() if each.name == name)
