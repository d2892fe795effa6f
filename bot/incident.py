"""The pure pipe from a bundle to a diagnosis, and the diagnosis as JSON (schema 1).

Opens the files of the bundle and nothing else. Never raises for bad evidence: what cannot be read becomes a Gap.
"""

import importlib
import zlib
from dataclasses import replace
from io import BytesIO

from bot import servers
from bot.diagnosis import conclude, device_facts, host, ledger, ledger_engine, log_facts, names, rank
from bot.diagnosis.ledger_engine import EngineFacts
from bot.diagnosis.ledger_events import readings
from bot.diagnosis.recommend import Meaning
from bot.diagnosis.signatures import findings
from bot.evidence.reading import Reading
from bot.facts import Facts
from bot.logs import unwrap
from bot.logs.events import events
from bot.logs.incidents import Incident, understand
from bot.model import Bundle, BundleFile, Diagnosis, Fact, Gap, Ledger, Place, Quote
from bot.playbooks import Knowledge
from bot.redact import redact
from bot.servers import Server

READERS = {  # file -> module with `read(data, source) -> Reading`, imported when the file is there
    "describe.txt": "bot.evidence.describe_text",  # first, so that the objects themselves overrule it
    "pod.json": "bot.evidence.pod_json",
    "events.json": "bot.evidence.events_json",
    "kernel.log": "bot.evidence.kernel_log",
    "nvidia-smi.txt": "bot.evidence.nvidia_smi",
    "ray_status.txt": "bot.evidence.ray_status",
    "node_readings.txt": "bot.evidence.node_readings",
    "args.txt": "bot.evidence.args_text",
    "node.json": "bot.evidence.node_json",
    "endpoint.json": "bot.evidence.endpoint_json",
    "bundle.json": "bot.evidence.bundle_json",
}
WOULD_TELL = {
    "pod.json": "how the container ended, its limits and probes",
    "events.json": "probes, evictions and scheduling around the end",
    "container.log": "what the server said before it ended",
    "kernel.log": "whether the kernel killed a process for memory, and in which group",
    "nvidia-smi.txt": "how full the cards are and who uses them",
    "node_readings.txt": "memory of the node and of the control groups",
}
MAX_FILE = 32 * 2**20  # bytes of any file but a log that are read


def examine(bundle: Bundle, knowledge: Knowledge) -> Diagnosis:
    """What the bundle's files prove."""
    gaps = list(bundle.gaps)
    incident, facts, book, engine = _understood(bundle, knowledge, gaps)
    found = rank.ranked(findings(knowledge.signatures, facts))
    server = servers.of_facts(facts, knowledge.servers)
    facts = facts.with_facts(servers.spelled(server, knowledge.servers))
    context = conclude.Context(
        incident,
        book,
        engine,
        tuple(gaps),
        _absent(bundle),
        meanings(knowledge, server),
        {message.id: message.says for message in knowledge.messages},
        _whole(bundle, gaps),
        None if server is None or server.assumed else server,
    )
    return conclude.diagnosis(found, facts, context)


def meanings(knowledge: Knowledge, server: Server | None) -> dict[str, Meaning]:
    """What each remedy means where that server runs: the assumed one's options where nothing tells which it is."""
    meant = server or servers.assumed(knowledge.servers) or Server("", "")
    return {
        name: Meaning(
            meant.says.get(name, text.says), meant.effects.get(name, text.effect), text.risk, meant.option_for(name.partition(":")[0]), meant.lacks.get(name),
            text.where if meant.assumed else (),
        )
        for name, text in knowledge.remedies.items()
    }


def ledger_of(bundle: Bundle, knowledge: Knowledge) -> tuple[Ledger | None, EngineFacts]:
    """The memory ledger of the bundle's incident, the one that its diagnosis carries, and the engine it belongs to."""
    _, _, book, engine = _understood(bundle, knowledge, [])
    return book, engine


def _understood(bundle: Bundle, knowledge: Knowledge, gaps: list[Gap]) -> tuple[Incident | None, Facts, Ledger | None, EngineFacts]:
    """Facts of all files, the incident in the logs, its ledger; what could not be read goes to `gaps`."""
    facts = Facts()
    for name, module in READERS.items():
        if name in bundle.files and not (name == "describe.txt" and "pod.json" in bundle.files):
            reading = _read(name, module, bundle.files[name], gaps)
            gaps += reading.gaps
            fresh = reading.facts if name != "node_readings.txt" else _without_pastes(reading.facts, facts)
            facts = facts.with_facts(fresh, () if bundle.files[name].cut else reading.looked)
    incident = _incident(bundle, knowledge, gaps)
    if incident is None or incident.root is None:
        told = _told(facts, knowledge)
        incident = told[0] if told else incident
    else:
        told = None
    if incident is not None:
        of_log = log_facts.facts_of(incident, knowledge.namespaces)
        facts = _merged(facts, Facts(_moved(of_log, told[1])) if told else of_log, bundle, incident)
    facts = _container_environment(_container_arguments(host.derive(facts)))
    facts = facts.with_facts(device_facts.from_arguments(facts))
    facts = facts.with_facts(servers.in_force(facts, servers.of_facts(facts, knowledge.servers)))
    facts = facts.with_facts(names.facts_of(facts, knowledge.names))
    engine = ledger_engine.engine_facts(facts)
    book = ledger.build(readings(incident.own), engine) if incident else None
    facts = device_facts.derive(facts, book)
    return incident, facts, book, ledger_engine.engine_facts(facts)


def _without_pastes(fresh: tuple[Fact, ...], facts: Facts) -> tuple[Fact, ...]:
    """Without what a kernel log, a list of events or a pod, of which a paste stands among other outputs, has told itself."""
    told = tuple(group for group in ("kernel.", "events.", "pod.") if f"{group}looked" in facts)
    return tuple(fact for fact in fresh if not fact.name.startswith(told)) if told else fresh


def _told(facts: Facts, knowledge: Knowledge) -> tuple[Incident, Place] | None:
    """The failure in a container's termination message (the end of its log, where the pod asks for that) or in what a platform or whoever
    started it says of it, and where that message stands."""
    for fact in facts:
        told = (fact.name.startswith("pod.container.") and fact.name.endswith(".message")) or fact.name == "endpoint.message" or fact.name.startswith("said.")
        if told and isinstance(fact.value, str) and fact.place is not None:
            scan = knowledge.scanner.scan(BytesIO(fact.value.encode(errors="replace")))
            incident = understand(events(scan.hits, fact.place.source), fact.place.source, scan)
            if incident.root is not None:
                return incident, fact.place
    return None


def _moved(facts: Facts, place: Place) -> list[Fact]:
    """The facts of a text inside another file, with the place of that text; a line is quoted where it stands there letter by letter."""
    return [
        replace(fact, place=replace(place, quote=fact.place.quote if fact.place.quote in place.quote else place.quote)) if fact.place else fact
        for fact in facts
    ]


def _of_container(facts: Facts, key: str) -> Fact | None:
    """What pod.json says of the incident's container."""
    name = facts.get("container.name")
    numbers = (fact.name.split(".")[2] for fact in facts if fact.name.startswith("pod.container.") and fact.name.endswith(".name") and fact.value == name)
    number = next(numbers, None) if isinstance(name, str) else None
    return facts.fact(f"pod.container.{number}.{key}") if number else None


def _container_environment(facts: Facts) -> Facts:
    """`env.*` from the environment of the incident's container; what args.txt gave stays."""
    pairs = _of_container(facts, "env")
    if pairs is None or pairs.place is None or not isinstance(pairs.value, tuple):
        return facts
    from bot.evidence.args_text import from_environment

    return facts.with_facts(fact for fact in from_environment(pairs.value, pairs.place) if fact.name not in facts)


def _container_arguments(facts: Facts) -> Facts:
    """`args.*` from the words of the incident's container, where no args.txt gave them."""
    words = None if any(fact.name.startswith("args.") for fact in facts) else _of_container(facts, "words")
    if words is None or words.place is None:
        return facts
    from bot.evidence.args_text import from_words

    return facts.with_facts(from_words(str(words.value), words.place.source, words.place))


def _merged(facts: Facts, of_log: Facts, bundle: Bundle, incident: Incident) -> Facts:
    cut = any(file.cut and file.name == incident.source for file in bundle.files.values())
    return facts.with_facts(of_log, () if cut else of_log.looked)


def _whole(bundle: Bundle, gaps: list[Gap]) -> frozenset[str]:
    """Files that were read from end to end. A log read under another name (`logs/server.log`) counts for the name that people know it by."""
    torn = {gap.source for gap in gaps}
    names = {name for name, file in bundle.files.items() if not file.cut and name not in torn}
    logs = {"previous.log" if ".previous." in name else "container.log" for name in names if name.startswith("logs/")}
    return frozenset(names | logs | ({"pod.json", "events.json"} if "describe.txt" in names else set()))


def _absent(bundle: Bundle) -> tuple[Gap, ...]:
    """Files that this bundle does not have, with what they would have told."""
    named = {gap.source for gap in bundle.gaps}
    told: tuple[str, ...] = ("pod.json", "events.json") if "describe.txt" in bundle.files else ()
    if "endpoint.json" in bundle.files:
        told = tuple(name for name in WOULD_TELL if name != "container.log")  # Databricks shows no pods and no nodes
    return tuple(Gap(name, "absent", tells) for name, tells in WOULD_TELL.items() if name not in bundle.files and name not in named and name not in told)


def _read(name: str, module: str, file: BundleFile, gaps: list[Gap]) -> Reading:
    reader = importlib.import_module(module)
    load = getattr(reader, "load", None)  # a reader that takes a file of any size says how
    try:
        with file.open() as stream:
            data = load(stream) if load else stream.read(MAX_FILE + 1)
            short = getattr(stream, "short", "")
    except (OSError, EOFError, zlib.error, ValueError) as wrong:
        gaps.append(Gap(name, f"cannot be read: {wrong}", WOULD_TELL.get(name, "")))
        return Reading()
    if short:
        gaps.append(Gap(name, f"cut short: {short}", WOULD_TELL.get(name, "")))
    if not load and len(data) > MAX_FILE:
        gaps.append(Gap(name, "longer than 32 MiB: only its beginning was read", WOULD_TELL.get(name, "")))
    reading: Reading = reader.read(data if load else data[:MAX_FILE], file.name)
    return reading


def _incident(bundle: Bundle, knowledge: Knowledge, gaps: list[Gap]) -> Incident | None:
    """The log that holds the incident: a failure in the newest log, else one in the log before, else the newest log."""
    found: list[Incident] = []
    serve: Incident | None = None
    for name, file in bundle.files.items():
        if name in ("container.log", "previous.log") or name.startswith("logs/"):
            incident = _scan(name, file, knowledge, gaps)
            if incident is not None:
                found.append(incident)
        elif name == "ray_status.txt":  # `serve status` carries the errors of its replicas
            serve = _scan(name, _flush(file), knowledge, [])
    best = max(found, key=_weight, default=None)
    return serve if serve is not None and serve.root is not None and (best is None or best.root is None) else best


def _flush(file: BundleFile) -> BundleFile:
    """The file with each line at the left margin: YAML indents the texts that it carries, and a message is looked for where a line begins."""

    def stream() -> BytesIO:
        with file.open() as indented:
            return BytesIO(b"\n".join(line.lstrip(b" ") for line in indented.read(MAX_FILE).split(b"\n")))

    return replace(file, open=stream)


def _weight(incident: Incident) -> tuple[bool, bool, bool, int]:
    failed = incident.root is not None or (incident.wrapped is not None and incident.shutdown is None)
    named = incident.source.startswith(("container.log", "previous.log"))  # also compressed or rotated
    server = named or incident.reached is not None or any(event.message.role == "start" for event in incident.events)
    return server, failed, "previous" not in incident.source, len(incident.events)


def _scan(name: str, file: BundleFile, knowledge: Knowledge, gaps: list[Gap]) -> Incident | None:
    try:
        with file.open() as stream:
            scan = knowledge.scanner.scan(stream)
            short = getattr(stream, "short", "")  # of a compressed file
    except (OSError, EOFError, zlib.error, ValueError) as wrong:
        gaps.append(Gap(name, f"cannot be read: {wrong}", WOULD_TELL["container.log"]))
        return None
    if not scan.size:
        gaps.append(Gap(name, "empty", WOULD_TELL["container.log"]))
        return None
    if file.cut or short:
        gaps.append(Gap(name, f"cut short: {short}" if short else "cut short", "what stands in the missing part"))
    found = understand(events(scan.hits, file.name), file.name, scan)
    return _reread(found, file, knowledge) if scan.size <= unwrap.MOST else found


def _reread(found: Incident, file: BundleFile, knowledge: Knowledge) -> Incident:
    """The same log once more, with lines joined that a terminal or a mail broke."""
    try:
        with file.open() as stream:
            return unwrap.reread(stream.read(unwrap.MOST + 1), found, knowledge.scanner.scan)
    except (OSError, EOFError, zlib.error, ValueError):
        return found


def to_json(path: str, diagnosis: Diagnosis) -> dict[str, object]:
    """The public JSON of one diagnosis (schema 1); `path` as the person gave it."""
    return {
        "schema": 1,
        "path": path,
        "cause": diagnosis.cause,
        "family": diagnosis.family,
        "certainty": diagnosis.certainty.value,
        "summary": clean(diagnosis.summary.en),
        "evidence": [_quote(quote) for quote in diagnosis.evidence],
        "against": [_quote(quote) for quote in diagnosis.against],
        "runners_up": [{"cause": rival.cause, "certainty": rival.certainty.value} for rival in diagnosis.runners_up],
        "gaps": [{"source": gap.source, "reason": gap.reason, "would_tell": gap.would_tell} for gap in diagnosis.gaps],
        "ledger": _ledger(diagnosis.ledger),
        "recommendations": [
            {
                "remedy": advice.remedy,
                "direction": advice.direction,
                "from": advice.from_value,
                "to": advice.to_value,
                "why": clean(advice.why.en),
                "effect": clean(advice.effect.en),
                "risk": advice.risk,
                "predicted": {"available_kv_bytes": advice.predicted.available_kv_bytes, "kv_tokens": advice.predicted.kv_tokens} if advice.predicted else None,
            }
            for advice in diagnosis.recommendations
        ],
        "will_not_help": [{"remedy": item.remedy, "direction": item.direction, "why": clean(item.why.en)} for item in diagnosis.will_not_help],
        "phase": diagnosis.phase.value if diagnosis.phase else None,
        "engine_version": diagnosis.engine_version,
    }


def clean(text: str) -> str:
    """A text that came from a log, without secrets, control characters and lone surrogates."""
    redacted = redact(text.encode(errors="replace")).decode(errors="replace")
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in redacted)


def _quote(quote: Quote) -> dict[str, object]:
    return {"source": quote.source, "line": quote.line, "quote": clean(quote.quote), "says": clean(quote.says.en)}


def _ledger(book: Ledger | None) -> dict[str, object] | None:
    return ledger.to_json(book)
