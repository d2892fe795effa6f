"""The facts of one incident in a server's log: where it failed, on what, after what, and every message and field that was printed.

Scalars only. Of a message that several ranks or several times printed, the failing process's reading counts, then the newest.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from bot.diagnosis import allocation, arguments, growth
from bot.facts import Facts
from bot.logs.events import Event
from bot.logs.incidents import AFTER, Incident
from bot.logs.messages import fact_name
from bot.logs.runs import QUIET
from bot.model import Fact, Phase, Place, Value

_STARTING = frozenset(
    {Phase.IMPORT, Phase.CONFIG, Phase.DEVICE, Phase.WEIGHTS, Phase.PROFILING, Phase.CACHE_SIZING, Phase.CACHE_ALLOCATION, Phase.GRAPH_CAPTURE, Phase.WARMUP}
)
_REPLICA = "ServeReplica:"
_ANSWERS = ("v1/chat", "v1/completions", "v1/embeddings", "v1/responses", "v1/messages", "v1/rerank", "v1/score", "generate", "invocations")
_ARGUMENTS = ("vllm.api_args", "vllm.nondefault_args", "vllm.engine_config", "sglang.server_args")

GROUPS = ("log.", "failure.", "requests.", "sleep.", "alloc.", "stack.")


def facts_of(incident: Incident, namespaces: Iterable[str] = ()) -> Facts:
    """All facts of the incident. `namespaces`: prefixes of the ids of all messages that were searched for ("vllm."), so that a message that is not there
    counts as absent."""
    found: list[Fact] = []
    counts = Counter(event.id for event in incident.events)
    found += [Fact(event.id, counts[event.id], event.place) for event in incident.other_stages]
    for event in incident.own:
        found += _of_event(event, counts[event.id])
    found += _rooms(incident, counts)
    if incident.root is not None:
        found += _of_event(incident.root, counts[incident.root.id])
        found += _failure(incident, incident.root)
    found += _course(incident)
    found += _engine(incident)
    found += _requests(incident)
    found += _unequal(incident)
    return Facts(found, (*GROUPS, *namespaces))


def _of_event(event: Event, count: int) -> list[Fact]:
    facts = [Fact(event.id, count, event.place)]
    facts += [Fact(fact_name(event.message, name), value, event.place) for name, value in event.fields.items()]
    if event.id in _ARGUMENTS:
        facts += arguments.facts_of(event)
    return facts


def _rooms(incident: Incident, counts: Counter[str]) -> list[Fact]:
    """What is left for the cache: of several ranks the one with the least room rules. How far it is behind the others tells whether it is alone with that."""
    rooms = [(room, event) for event in incident.own if event.id == "vllm.ledger.available" and isinstance(room := event.fields.get("available"), int)]
    if not rooms:
        return []
    least, event = min(rooms, key=lambda pair: pair[0])
    facts = _of_event(event, counts[event.id])
    others = [room for room, other in rooms if (other.prefix.process, other.prefix.rank) != (event.prefix.process, event.prefix.rank)]
    if others:
        facts.append(Fact("budget.rank_spread_bytes", max(others) - least, event.place))
    return facts


def _failure(incident: Incident, root: Event) -> list[Fact]:
    values: dict[str, Value | None] = {
        "kind": root.message.kind or root.id,
        "message": root.id,
        "phase": incident.phase.value if incident.phase else None,
        "basis": incident.basis or None,
        "purpose": incident.purpose or None,
        "after_phase": incident.reached.value if incident.reached else None,
        "rank": _rank(root),
        "process": root.prefix.process or None,
        "line": root.line,
    }
    facts = [Fact(f"failure.{name}", value, root.place) for name, value in values.items() if value is not None]
    if "detail" in root.fields:
        facts.append(Fact("failure.detail", root.fields["detail"], root.place))
    if root.message.kind == "host_alloc" and isinstance(root.fields.get("wanted"), int):
        facts.append(Fact("failure.host_wanted_bytes", root.fields["wanted"], root.place))
    if "name" in root.fields and root.message.kind == "exception":
        facts.append(Fact("failure.exception", root.fields["name"], root.place))
    if root.message.kind == "device_oom":
        front = root.prefix.process.startswith("APIServer")  # what it sees on the card is its own engine
        facts += [fact for fact in allocation.facts_of(root) if not (front and fact.name.startswith("alloc.others"))]
        own = allocation.siblings(root.text, root.prefix.pid, {event.prefix.pid for event in incident.events if event.prefix.pid is not None})
        facts += [Fact("alloc.others_are_siblings", own, root.place)] if own is not None else []
    else:
        nearest = next((event for event in incident.events if event.message.kind == "device_oom"), None)
        facts += allocation.facts_of(nearest) if nearest else []
    facts += _same_as_before(incident, root)
    facts += [Fact("failure.passed_before", True, incident.passed_before.place)] if incident.passed_before else []
    facts += growth.facts_of([event for event in incident.events if event.message.kind == "device_oom"], incident.events)
    if incident.frames:
        facts += [Fact(f"stack.{frame.id.removeprefix('frame.')}", True, frame.place) for frame in incident.frames]
    return facts


def _same_as_before(incident: Incident, root: Event) -> list[Fact]:
    """Whether the run before failed on the same request with the same amount in use (to 1 %): whatever was changed between the two has no say in it."""
    before = incident.earlier[-1] if incident.earlier and incident.asked_before else None
    if before is None or before.id != root.id:
        return []
    pairs = [(root.fields.get(name), before.fields.get(name)) for name in ("wanted", "allocated")]
    sizes = [(now, then) for now, then in pairs if isinstance(now, int) and isinstance(then, int)]
    same = len(sizes) == len(pairs) and all(abs(now - then) <= 0.01 * then for now, then in sizes)
    return [Fact("failure.same_as_before", same, before.place)] if sizes else []


def _rank(root: Event) -> int | None:
    gpu = root.fields.get("gpu")
    return root.prefix.rank if root.prefix.rank is not None else gpu if isinstance(gpu, int) else None


def _course(incident: Incident) -> list[Fact]:
    tail = incident.scan.tail[-1] if incident.scan.tail else None
    last = Place(incident.source, tail[0], _printable(tail[1])) if tail else None
    facts = [
        Fact("log.looked", True),
        Fact("log.source", incident.source),
        Fact("log.attempts", incident.attempts),
        Fact("log.neighbours", len(incident.neighbours)),
    ]
    ids = {event.id.split(".")[0] for event in incident.events}
    facts.append(Fact("log.pids", tuple(sorted({str(event.prefix.pid) for event in incident.events if event.prefix.pid is not None}))))
    facts.append(Fact("log.processes", tuple(sorted({event.prefix.process for event in incident.events if event.prefix.process}))))
    facts.append(Fact("log.server", "vllm" if "vllm" in ids else "sglang" if "sglang" in ids else "other"))
    facts.append(Fact("log.printed_by", tuple(sorted(ids))))
    if incident.ready:
        facts.append(Fact("log.ready", True, incident.ready.place))
    elif (answered := _answered(incident)) is not None:
        facts.append(Fact("log.ready", True, answered.place))
    goes_on = _goes_on(incident)
    if goes_on is not None:
        facts.append(Fact("log.goes_on", True, goes_on.place))
    if incident.shutdown and incident.root is None and not _died_before(incident):
        facts.append(Fact("log.shutdown", True, incident.shutdown.place))
        stamps = [event.prefix.seconds for event in incident.events if event.line >= incident.shutdown.line and event.prefix.seconds is not None]
        facts += [Fact("log.stop_asked_at", max(stamps), incident.shutdown.place)] if stamps else []
    alive = incident.earlier_alive or _other_engine(incident)
    if alive is not None:
        facts.append(Fact("log.earlier_alive", True, alive.place))
    beside = next((event for event in incident.other_stages if event.message.role == "progress"), None)
    if beside is not None:
        facts.append(Fact("log.other_stage", True, beside.place))
    if incident.earlier:
        facts.append(Fact("failure.earlier_kind", incident.earlier[-1].message.kind, incident.earlier[-1].place))
    asked = (incident.shutdown or incident.ended) and not _died_before(incident)
    ended = "error" if incident.root else "shutdown" if asked else "wrapped" if incident.wrapped else None
    if ended is None:
        ended = "ready" if incident.reached is Phase.SERVING or _answered(incident) else "stopped"
    facts.append(Fact("log.ended", ended, last))
    if ended == "stopped" and incident.reached in _STARTING and incident.reached is not None:
        facts.append(Fact("log.stopped_in", incident.reached.value, last))
    unread = incident.announced
    if unread is not None and incident.root is not None and incident.root.message.kind == "process_died" and unread.line < incident.root.line:
        facts.append(Fact("engine.error_unread", True, unread.place))  # it died of what it had announced
    if ended == "wrapped" and incident.wrapped is not None:
        facts.append(Fact("engine.error_unread", True, unread.place) if unread else Fact("engine.died_silently", True, incident.wrapped.place))
        if incident.reached:
            facts.append(Fact("failure.after_phase", incident.reached.value, incident.wrapped.place))
    return facts


def _other_engine(incident: Incident) -> Event | None:
    """What an engine of the failing one's name (or another replica of Ray Serve) and another number did last before: two servers write into one log, and
    nothing tells of the first one's end."""
    root = incident.root
    if root is None or root.prefix.pid is None or not root.prefix.process.startswith(("EngineCore", _REPLICA)):
        return None
    others = [
        event
        for event in incident.events
        if event.line < root.line and event.message.role == "progress" and _alike(event, root) and event.prefix.pid not in (None, root.prefix.pid)
    ]
    return others[-1] if others else None


def _alike(event: Event, root: Event) -> bool:
    """Whether both are whole servers by their names."""
    return event.prefix.process == root.prefix.process or (event.prefix.process.startswith(_REPLICA) and root.prefix.process.startswith(_REPLICA))


def _answered(incident: Incident) -> Event | None:
    """A request for an answer of the model that was served: the server is up, though the log begins later than its start."""
    return next(
        (
            event
            for event in reversed(incident.of("uvicorn.answered_200") + incident.of("vllm.refused_request"))
            if str(event.fields.get("path", "")).startswith(("v1/", "generate", "invocations"))
        ),
        None,
    )


def _goes_on(incident: Incident) -> Event | None:
    """An answer of the model to a request behind all words of the failure, and long after it by the clock: either the server survived, or what looks like its
    failure is a text that a client sent and the server printed."""
    root = incident.root
    if root is None:
        return None
    words = max(event.line for event in (root, *incident.events) if event.message.role in ("fatal", "wrapper"))
    begun = max((event.prefix.seconds for event in incident.events if event.line <= root.line and event.prefix.seconds is not None), default=None)
    behind = [event for event in incident.events if event.line > words]
    late = any(begun is not None and event.prefix.seconds is not None and event.prefix.seconds - begun > QUIET for event in behind)
    answers = [event for event in behind if event.message.id == "uvicorn.answered_200" and str(event.fields.get("path", "")).startswith(_ANSWERS)]
    return answers[-1] if late and answers and answers[-1].line - words > AFTER else None  # what was on its way stands right behind


def _died_before(incident: Incident) -> bool:
    """Whether a process of the server had gone before anybody asked for a stop: the server stops itself then, in order."""
    stop = incident.shutdown or incident.ended
    return incident.wrapped is not None and (stop is None or incident.wrapped.line < stop.line)


def _printable(raw: bytes) -> str:
    text = raw.decode(errors="replace").split("\r")[-1].strip()
    return "".join(letter for letter in text if letter.isprintable())[:300] if text.isprintable() else text.split("\x1b")[0][:300]


def _engine(incident: Incident) -> list[Fact]:
    facts: list[Fact] = []
    version = next(
        (event for event in incident.events if event.message.id in ("vllm.api_version", "vllm.engine_config", "vllm.api_banner") and "version" in event.fields),
        None,
    )
    if version is not None:
        facts.append(Fact("engine.version", version.fields["version"], version.place))
    for name, event_id in (
        ("max_num_seqs", "vllm.default_seqs"),
        ("max_num_batched_tokens", "vllm.default_batched_tokens"),
        ("max_num_batched_tokens", "vllm.chunked_prefill"),
    ):
        event = incident.last(event_id)
        if event is not None and "value" in event.fields:
            facts.append(Fact(f"engine.{name}", event.fields["value"], event.place))
    frames = " ".join(event.text for event in incident.events if event.message.role == "frame")[:20000]
    if (
        incident.last("vllm.ledger.available")
        or "determine_available_memory" in frames
        or "/vllm/v1/" in frames
        or any("V1 LLM engine" in event.text for event in incident.of("vllm.engine_config"))
    ):
        facts.append(Fact("engine.is_v1", True))
    elif (
        incident.last("vllm.ledger.blocks")
        or "num_available_blocks" in frames
        or any("an LLM engine" in event.text for event in incident.of("vllm.engine_config"))
    ):
        facts.append(Fact("engine.is_v1", False))
    for event in incident.asked_before:
        if event.id in _ARGUMENTS:
            facts += [replace(fact, name="engine.earlier_utilization") for fact in arguments.facts_of(event) if fact.name == "engine.gpu_memory_utilization"]
    codes = [event for event in incident.events if event.id in ("vllm.process_died", "vllm.core_init_failed")]
    for event in codes:
        code = next((event.fields[name] for name in ("code", "exit", "left") if name in event.fields), None)
        if code is not None:
            facts.append(Fact("engine.exit_code", code, event.place))
            break
    return facts


def _requests(incident: Incident) -> list[Fact]:
    facts: list[Fact] = []
    stats = incident.last("vllm.load_at_failure") or incident.last("vllm.stats")
    if stats is not None:
        facts += [
            Fact(f"requests.{name}", stats.fields[field], stats.place)
            for name, field in (("running", "running"), ("waiting", "waiting"), ("cache_usage", "usage"))
            if field in stats.fields
        ]
    still = _stalled(incident)
    if still is not None:
        facts.append(Fact("requests.stalled", True, still.place))
    asked = _near(incident, [event for event in incident.events if "prompt_logprobs" in event.fields])
    if asked is not None and str(asked.fields.get("prompt_logprobs", "None")) != "None":
        facts.append(Fact("requests.prompt_logprobs", True, asked.place))
    failed = incident.last("uvicorn.answered_500")
    if failed is not None:
        facts.append(Fact("requests.failed", True, failed.place))
    for name, message, field in (("freed_bytes", "vllm.sleep", "freed"), ("still_bytes", "vllm.sleep", "still"), ("host_bytes", "vllm.sleep_backup", "host")):
        event = incident.last(message)
        if event is not None and field in event.fields:
            facts.append(Fact(f"sleep.{name}", event.fields[field], event.place))
    return facts + _residue(incident)


def _residue(incident: Incident) -> list[Fact]:
    """How much more stayed on the card after the last sleep than after the first, where it only grew."""
    left = [(still, event.place) for event in incident.of("vllm.sleep") if isinstance(still := event.fields.get("still"), int)]
    sizes = [still for still, _ in left]
    return [Fact("sleep.residue_growth_bytes", sizes[-1] - sizes[0], left[-1][1])] if len(sizes) > 1 and sizes == sorted(sizes) else []


def _stalled(incident: Incident) -> Event | None:
    """The last record of the load where it tells of requests that run and of no token in its ten seconds, and nothing was answered behind it."""
    stats, answered = incident.last("vllm.stats"), incident.last("uvicorn.answered_200")
    if stats is None or not stats.fields.get("running") or any(stats.fields.get(name) != 0 for name in ("prompt_rate", "rate")):
        return None
    return None if answered is not None and answered.line > stats.line else stats


def _unequal(incident: Incident) -> list[Fact]:
    """How much more the largest of the equal workers in Ray's list of processes holds than the next one; the list stands sorted, and twice where it was
    printed twice."""
    groups: dict[object, dict[int, Event]] = {}
    for event in incident.of("ray.top_user"):
        used = event.fields.get("used")
        if isinstance(used, int) and used > 0:
            groups.setdefault(event.fields.get("name"), {})[used] = event
    sizes, rows = max(((sorted(rows, reverse=True), rows) for rows in groups.values() if len(rows) > 1), key=lambda pair: pair[0][0], default=([], {}))
    if not sizes:
        return []
    place = rows[sizes[0]].place
    return [Fact("ray_monitor.largest_bytes", sizes[0], place), Fact("ray_monitor.largest_over_next", round(sizes[0] / sizes[1], 1), place)]


def _near(incident: Incident, events: Iterable[Event]) -> Event | None:
    """The last of `events` that stands at most 200 lines before the root."""
    end = incident.root.line if incident.root else 10**12
    near = [event for event in events if end - 200 <= event.line <= end]
    return near[-1] if near else None
