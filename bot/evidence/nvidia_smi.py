"""`nvidia-smi.txt`: any output of nvidia-smi, several one after another: the table, -L, -q, --query-gpu, --query-compute-apps.

Facts: `gpu.<n>.<name>` for each card by its index, `gpu.process.<n>.<name>`, and `gpus.<name>` over all. Sizes in bytes. A card
that is not answered for has no facts: "N/A", "[Not Supported]" and the like are no zero.
"""

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from bot.evidence.document import shorten
from bot.evidence.reading import Reading
from bot.model import Fact, Gap, Place, Value
from bot.units import MIB

MAX_BYTES = 4 * 2**20
MAX_LINES = 20_000
MAX_GPUS = 64
MAX_PROCESSES = 200
UNLISTED_MIB = 2048  # in use at least, before an empty table of processes says something: a driver holds some hundreds by itself
IDLE = 1024  # MiB in use at most, of a card whose size is not shown

_LISTED = re.compile(r"^\s*GPU (\d{1,3}): (.{1,80}?) \(UUID: (GPU-[\w-]{8,64}|[\w-]{8,64})\)")
_NAMED_ONLY = re.compile(r"^\s*GPU (\d{1,3}): ((?:NVIDIA|Tesla|Quadro|GeForce|AMD|Intel)\b[^()|:]{1,60}?)\s*$")  # as torch's collect_env prints them
_MIG_LISTED = re.compile(r"^\s*MIG (\S{1,24})\s+Device\s+(\d{1,3}):")
_TABLE_NAME = re.compile(r"^\|\s+(\d{1,3})\s+(\S.{0,60}?)\s+(On|Off|N/A|Disabled|Enabled)\s*\|\s*([0-9A-Fa-f:.]{6,20}|N/A)\s+(On|Off|N/A)\s*\|\s*(\d{1,9}|Off|N/A)?")
_TABLE_MEMORY = re.compile(r"\|\s*(\d{1,9}|N/A)\s?MiB\s*/\s*(\d{1,9})\s?MiB\s*\|")
_PROCESS = re.compile(
    r"^\|\s+(\d{1,3})(?:\s+(?:N/A|\d{1,3})\s+(?:N/A|\d{1,3}))?\s+(\d{1,10})\s+([CGM+]{1,3})\s+(\S.{0,200}?)\s+(?:(\d{1,9})\s?MiB|N/A|\S{0,24})\s*\|$"
)
_VERSION = re.compile(r"NVIDIA-SMI ([\d.]{3,20}).*?(?:Driver|KMD) Version: ?([\d.]{3,20})(?:.*?CUDA (?:UMD )?Version: ?([\d.]{2,10}|N/A))?")
_CLOCK = re.compile(r"^(?:Timestamp\s{1,60}: )?(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)(?: [A-Z]{2,5})? 20\d\d$")
_QUERY = re.compile(
    r"^\s*(?:index|name|uuid|gpu_name|gpu_uuid|pid|pci\.bus_id|gpu_bus_id|timestamp|process_name|memory\.\w+|used_gpu_memory|driver_version|mig\.mode\.current)(?: \[\w+\])?\s*(?:,|$)"
)
_Q_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)$")
_Q_BLOCK = re.compile(r"^\s{4,8}([A-Z][\w /.-]{2,60}?)\s*$")
_Q_VALUE = re.compile(r"^\s+([\w /.-]{2,60}?)\s*: (.{0,120})$")
_TROUBLES = (
    ("driver_mismatch", re.compile(r"Driver/library version mismatch")),
    ("driver_failed", re.compile(r"couldn't communicate with the NVIDIA driver|No devices were found|Failed to initialize NVML: (?!Driver/library|Unknown Error)")),
    ("nvml_unknown", re.compile(r"Failed to initialize NVML: Unknown Error")),  # as a rule a container whose devices were taken away, not a lost card
    ("lost", re.compile(r"GPU is lost|GPU requires reset|Unable to determine the device handle|has fallen off the bus|GPU reset required|(?<!NVML: )Unknown Error")),
    ("ecc_error", re.compile(r"(?:Double Bit|Uncorrectable|DRAM Uncorrectable)[^:]{0,40}: [1-9]|Remapping Failure Occurred\s*: Yes")),
    ("card_error", re.compile(r"(?:\bERR!.{0,24}){3}")),  # one alone is a sensor that this board lacks
    ("reset_asked", re.compile(r"GPU Recovery Action\s*: (?:(?:GPU )?Reset|(?:Node )?Reboot|Drain)")),
    ("remap_pending", re.compile(r"(?:Pending|Reset Required)\s*: Yes")),
)


@dataclass(slots=True)
class _Card:
    """One card, as far as it was told. Sizes in MiB."""

    name: str = ""
    uuid: str = ""
    bus: str = ""
    total: int | None = None
    used: int | None = None
    free: int | None = None
    reserved: int | None = None
    display: bool | None = None
    mig: bool | None = None
    place: Place | None = None
    memory_place: Place | None = None
    history: list[int] = field(default_factory=list)  # use at each look, oldest first


class _Process(NamedTuple):
    """A row of a list of processes. `look`: which list of the file it stands in; `used` in MiB."""

    gpu: int | None
    pid: int
    name: str
    kind: str
    used: int | None
    place: Place
    look: int


@dataclass(slots=True)
class _State:
    """What is known while the lines go by."""

    source: str
    cards: dict[int, _Card] = field(default_factory=dict)
    processes: list[_Process] = field(default_factory=list)
    looks: int = 0
    facts: list[Fact] = field(default_factory=list)
    uuids: dict[str, int] = field(default_factory=dict)
    header: list[str] = field(default_factory=list)
    current: int | None = None
    block: str = ""
    detailed: bool = False
    processes_seen: bool = False
    read_at: Fact | None = None

    def card(self, index: int) -> _Card:
        return self.cards.setdefault(index, _Card()) if len(self.cards) < MAX_GPUS else _Card()

    def once(self, name: str, value: Value, place: Place) -> None:
        if all(fact.name != name for fact in self.facts):
            self.facts.append(Fact(name, value, place))


def read(data: bytes, source: str) -> Reading:
    """Facts of all outputs in the file."""
    state = _State(source)
    for number, raw in enumerate(data[:MAX_BYTES].split(b"\n")[:MAX_LINES], 1):
        text = raw[:2000].decode("utf-8", errors="replace").rstrip()
        if text.strip():
            _line(text, Place(source, number, shorten(text)), state)
    facts = _card_facts(state) + _process_facts(state) + state.facts
    if facts and state.read_at is not None:
        facts.append(state.read_at)
    if not facts:
        reason = "nothing in it is understood" if data.strip() else "empty"
        return Reading(gaps=(Gap(source, reason, "which cards there are, how full they are, and who uses them"),))
    return Reading(tuple(facts), _looked(state), ())


def _looked(state: _State) -> tuple[str, ...]:
    """A list of cards (-L) says nothing of memory, and neither of them says who uses it."""
    looked = ["gpus.count", "gpus.names", "gpus.differ", "gpus.mig"] if state.cards else []
    if any(card.used is not None for card in state.cards.values()):
        looked += ["gpus.most_used_bytes", "gpus.idle_count"]
    return (*looked, "gpus.process") if state.processes_seen else tuple(looked)


def _line(text: str, place: Place, state: _State) -> None:
    clock = _CLOCK.match(text)
    if clock:
        state.read_at = state.read_at or Fact("gpus.read_at", clock[1], place)
        return
    version = _VERSION.search(text)
    if version:
        state.once("gpus.driver_version", version[2], place)
        if version[3] and version[3] != "N/A":
            state.once("gpus.cuda_version", version[3], place)
        state.detailed = False
    for name, pattern in _TROUBLES:
        if pattern.search(text):
            state.once(f"gpus.{name}", True, place)
    if text.startswith("|"):
        _table(text, place, state)
    elif _QUERY.match(text):
        state.header = [_column(word) for word in text.split(",")]
        state.processes_seen = state.processes_seen or "pid" in state.header
        state.looks += "pid" in state.header
    elif state.header and "," in text and _row(text, place, state):
        return
    else:
        _plain(text, place, state)


def _column(word: str) -> str:
    return re.sub(r"\s*\[.*?\]", "", word).strip().lower()


def _plain(text: str, place: Place, state: _State) -> None:
    """-L and -q."""
    listed = _LISTED.match(text)
    if listed:
        state.current = int(listed[1])
        card = state.card(state.current)
        card.name, card.uuid, card.place = listed[2], listed[3], card.place or place
        state.uuids[listed[3]] = state.current
        return
    named = _NAMED_ONLY.match(text)
    if named:
        state.current = int(named[1])
        card = state.card(state.current)
        card.name, card.place = named[2], card.place or place
        return
    if _MIG_LISTED.match(text) and state.current is not None:
        state.card(state.current).mig = True
        state.once("gpus.mig_profile", (_MIG_LISTED.match(text) or [None, ""])[1] or "", place)
        return
    gpu = _Q_GPU.match(text.strip())
    if gpu and not text.startswith("    "):
        _begin_q(gpu[1], place, state)
    elif state.detailed:
        _detail(text, place, state)


def _begin_q(bus: str, place: Place, state: _State) -> None:
    """A card of `-q` has no index; it is found by its bus address, else counted."""
    known = next((index for index, card in state.cards.items() if card.bus and card.bus[-10:].lower() == bus[-10:].lower()), None)
    state.current = known if known is not None else len(state.cards)
    card = state.card(state.current)
    card.bus, card.place, state.detailed, state.block = bus, card.place or place, True, ""


def _detail(text: str, place: Place, state: _State) -> None:
    value = _Q_VALUE.match(text)
    if not value:
        block = _Q_BLOCK.match(text)
        if block:
            state.block = block[1]
        return
    if state.current is None:
        return
    card, key, word = state.card(state.current), value[1].strip(), value[2].strip()
    if len(text) - len(text.lstrip()) <= 4:
        state.block = ""
    if key == "Product Name":
        card.name = card.name or word
    elif key == "Display Active":
        card.display = word in ("Enabled", "Yes")
    elif key == "Current" and state.block == "MIG Mode":
        card.mig = word == "Enabled"
    elif state.block == "Fabric" and ((key == "State" and word in ("In Progress", "Not Started")) or (key == "Status" and word not in ("N/A", "Success"))):
        state.once("gpus.fabric_not_up", True, place)
    elif state.block == "FB Memory Usage" and key in ("Total", "Reserved", "Used", "Free"):
        amount = _mib(word)
        if amount is not None:
            setattr(card, key.lower(), amount)
            card.memory_place = place if key in ("Used", "Total") else card.memory_place


def _table(text: str, place: Place, state: _State) -> None:
    if "Processes:" in text:
        state.processes_seen = True
        state.looks += 1
    name = _TABLE_NAME.match(text)
    if name:
        state.current = int(name[1])
        card = state.card(state.current)
        card.name, card.place = card.name or name[2].rstrip(". "), card.place or place
        card.bus, card.display = name[4], name[5] == "On" if name[5] != "N/A" else card.display
        if name[6] and name[6].isdigit() and int(name[6]):
            state.once("gpus.ecc_error", True, place)
        return
    memory = _TABLE_MEMORY.search(text)
    if memory and state.current is not None:
        card = state.card(state.current)
        card.used, card.total, card.memory_place = _mib(memory[1]), int(memory[2]), place
        card.history.append(card.used or 0)
        card.mig = True if "Enabled" in text else card.mig
        return
    process = _PROCESS.match(text)
    if process and len(state.processes) < MAX_PROCESSES:
        state.processes.append(_Process(int(process[1]), int(process[2]), process[4], process[3], int(process[5]) if process[5] else None, place, state.looks))


def _mib(word: str) -> int | None:
    found = re.match(r"\[?(\d{1,9})(?: ?MiB)?\]?$", word.strip())
    return int(found[1]) if found else None


def _row(text: str, place: Place, state: _State) -> bool:
    """A row of a csv query; False when it does not fit the header."""
    words = [word.strip() for word in text.split(",")]
    if len(words) != len(state.header):
        return False
    row = dict(zip(state.header, words, strict=True))
    if "pid" in row:
        pid = row["pid"]
        if not pid.isdigit() or len(pid) > 10:
            return False
        uuid = row.get("gpu_uuid") or row.get("uuid") or ""
        index = state.uuids.get(uuid)
        used = _mib(row.get("used_gpu_memory") or row.get("used_memory") or "")
        if len(state.processes) < MAX_PROCESSES:
            state.processes.append(_Process(index, int(pid), row.get("process_name") or row.get("name") or "", "C", used, place, state.looks))
        return True
    index_word = row.get("index", "")
    uuid = row.get("uuid") or row.get("gpu_uuid") or ""
    index = int(index_word) if index_word.isdigit() and len(index_word) < 4 else state.uuids.get(uuid, len(state.cards))
    card = state.card(index)
    card.place, card.memory_place = card.place or place, place
    card.name, card.uuid = row.get("name") or row.get("gpu_name") or card.name, uuid or card.uuid
    state.uuids.setdefault(card.uuid, index)
    for key, column in (("total", "memory.total"), ("used", "memory.used"), ("free", "memory.free"), ("reserved", "memory.reserved")):
        amount = _mib(row.get(column, ""))
        if amount is not None:
            setattr(card, key, amount)
            if key == "used":
                card.history.append(amount)
    if row.get("mig.mode.current") == "Enabled":
        card.mig = True
    return True


def _card_facts(state: _State) -> list[Fact]:
    facts: list[Fact] = []
    for index, card in sorted(state.cards.items()):
        place, memory = card.place, card.memory_place or card.place
        for name, value, where in (
            ("name", card.name or None, place),
            ("uuid", card.uuid or None, place),
            ("total_bytes", None if card.total is None else card.total * MIB, memory),
            ("used_bytes", None if card.used is None else card.used * MIB, memory),
            ("free_bytes", None if card.free is None else card.free * MIB, memory),
            ("reserved_bytes", None if card.reserved is None else card.reserved * MIB, memory),
            ("display", card.display, place),
            ("mig", card.mig, place),
        ):
            if value is not None:
                facts.append(Fact(f"gpu.{index}.{name}", value, where))
    return facts + _summary(state)


def growth(history: list[int]) -> int:
    """How much a use grew from the first look to the last; 0 unless three looks or more rise nearly all the time."""
    steps = [later - earlier for earlier, later in pairwise(history)]
    rising = len(steps) >= 2 and sum(step >= 0 for step in steps) >= 0.9 * len(steps)
    return max(0, history[-1] - history[0]) if rising else 0


def _summary(state: _State) -> list[Fact]:
    """Facts over all cards."""
    cards = [card for _, card in sorted(state.cards.items())]
    if not cards:
        return []
    first = cards[0].place
    names = tuple(card.name for card in cards if card.name)
    totals = [card.total for card in cards if card.total]
    used = [card for card in cards if card.used is not None]
    odd = next((card.place for card in cards if card.name and card.name != names[0]), first)
    facts = [Fact("gpus.count", len(cards), first)]
    if names:
        facts.append(Fact("gpus.names", tuple(dict.fromkeys(names)), first))
        facts.append(Fact("gpus.differ", len(set(names)) > 1 or (bool(totals) and max(totals) > 1.05 * min(totals)), odd))
    if totals:
        facts.append(Fact("gpus.least_total_bytes", min(totals) * MIB, cards[0].memory_place))
    if used:
        fullest = max(used, key=lambda card: card.used or 0)
        facts.append(Fact("gpus.most_used_bytes", (fullest.used or 0) * MIB, fullest.memory_place))
        growing = max(used, key=lambda card: growth(card.history))
        if growth(growing.history):
            facts.append(Fact("gpus.use_growth_bytes", growth(growing.history) * MIB, growing.memory_place))
        free = [(card.total - card.used - (card.reserved or 0) if card.free is None else card.free, card) for card in used if card.total and card.used is not None]
        if free:
            least = min(free, key=lambda pair: pair[0])
            facts.append(Fact("gpus.least_free_bytes", max(0, least[0]) * MIB, least[1].memory_place))
        facts.append(Fact("gpus.idle_count", sum((card.used or 0) * 20 < (card.total or IDLE * 20) for card in used), cards[0].memory_place))
    reserved = [card for card in cards if card.reserved is not None]
    if reserved:
        facts.append(Fact("gpus.reserved_bytes", max(card.reserved or 0 for card in reserved) * MIB, reserved[0].memory_place))
    if any(card.mig for card in cards):
        facts.append(Fact("gpus.mig", True, next(card.place for card in cards if card.mig)))
    if any(card.display for card in cards):
        facts.append(Fact("gpus.display", True, next(card.place for card in cards if card.display)))
    return facts


def _growing(processes: list[_Process]) -> list[Fact]:
    """How much the process grew that grew most over the looks, each known by its card and number."""
    looks: dict[tuple[int | None, int], list[int]] = {}
    for process in processes:
        if process.used is not None:
            looks.setdefault((process.gpu, process.pid), []).append(process.used)
    most = max((growth(history) for history in looks.values()), default=0)
    return [Fact("gpus.use_growth_bytes", most * MIB, processes[-1].place)] if most else []


def _newest(processes: list[_Process]) -> list[_Process]:
    """Each process as the last look at it shows it: of several looks at the same card, or at cards that a list does not name, the earlier rows are left out."""
    later: dict[int, list[_Process]] = {}
    kept: list[_Process] = []
    for process in reversed(processes):
        same = later.setdefault(process.pid, [])
        if not any(one.look > process.look and (one.gpu is None or process.gpu is None or one.gpu == process.gpu) for one in same):
            kept.append(process)
        same.append(process)
    return kept[::-1]


def _process_facts(state: _State) -> list[Fact]:
    facts: list[Fact] = []
    processes = _newest(state.processes)
    for number, one in enumerate(processes):
        for key, value in (("gpu", one.gpu), ("pid", one.pid), ("name", one.name or None), ("type", one.kind), ("used_bytes", None if one.used is None else one.used * MIB)):
            if value is not None:
                facts.append(Fact(f"gpu.process.{number}.{key}", value, one.place))
    compute = [process for process in processes if "C" in process.kind]
    if compute and not any(fact.name == "gpus.use_growth_bytes" for fact in _summary(state)):
        facts += _growing([process for process in state.processes if "C" in process.kind])
    if compute:
        facts.append(Fact("gpus.processes", len(compute), compute[0].place))
        facts.append(Fact("gpus.process_names", tuple(dict.fromkeys(process.name for process in compute))[:20], compute[0].place))
        known = [process for process in compute if process.used is not None]
        if known:
            facts.append(Fact("gpus.process_bytes", sum(process.used or 0 for process in known) * MIB, known[0].place))
    elif state.processes_seen:
        facts.append(Fact("gpus.processes", 0, None))
        fullest = max(state.cards.values(), key=lambda card: card.used or 0, default=_Card())
        if not state.processes and (fullest.used or 0) >= UNLISTED_MIB:
            facts.append(Fact("gpus.unlisted_bytes", (fullest.used or 0) * MIB, fullest.memory_place))
    return facts
