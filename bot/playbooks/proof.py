"""Proves what the playbooks say: names exist, ids are unique, examples come out as written, near misses stay out, patterns are fast on hostile input, and
no anchor stands in a line that a healthy server prints all the time. Slow and thorough; a start never runs it.
"""

import re
import time
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import yaml

from bot import servers
from bot.diagnosis import fact_words
from bot.diagnosis.causes import FAMILIES
from bot.diagnosis.signatures import Signature, judge
from bot.diagnosis.words import placeholders
from bot.errors import KnowledgeError
from bot.facts import VOCABULARY, Facts
from bot.logs.events import event
from bot.logs.messages import SIZES, LogMessage, fact_name
from bot.logs.scan import REACH, Scanner
from bot.model import Fact, Text
from bot.playbooks import read
from bot.playbooks.knowledge import Knowledge
from bot.playbooks.schema import Path as Place
from bot.servers import OPTION
from bot.units import gib, size_of

CAUSES = frozenset(cause for causes in FAMILIES.values() for cause in causes)
SLOW = 0.05  # seconds that one search in 8 KiB may take
HEALTHY = (  # printed by a healthy server for each request, each probe or every few seconds
    'INFO:     10.1.2.3:51022 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    'INFO:     10.1.2.3:51022 - "POST /v1/completions HTTP/1.1" 200 OK',
    'INFO:     10.1.2.3:51022 - "GET /health HTTP/1.1" 200 OK',
    'INFO:     10.1.2.3:51022 - "GET /metrics HTTP/1.1" 200 OK',
    "INFO 11-30 09:12:01 [loggers.py:257] Engine 000: Avg prompt throughput: 5400.8 tokens/s, Avg generation throughput: 512.0 tokens/s, Running: 96 reqs, "
    "Waiting: 10 reqs, GPU KV cache usage: 38.8%, Prefix cache hit rate: 2.1%, MM cache hit rate: 0.0%",
    "INFO 11-30 09:12:01 metrics.py:295] Avg prompt throughput: 3302.1 tokens/s, Avg generation throughput: 44.9 tokens/s, Running: 31 reqs, Swapped: 0 reqs, "
    "Pending: 3 reqs, GPU KV cache usage: 17.3%, CPU KV cache usage: 0.0%.",
    "INFO 11-30 09:12:01 [logger.py:43] Received request chatcmpl-1: prompt: 'a', params: SamplingParams(n=1, temperature=1.0, max_tokens=16, logprobs=None, "
    "prompt_logprobs=None), prompt_token_ids: None, prompt_embeds shape: None, lora_request: None.",
    "INFO 11-30 09:12:01 [async_llm.py:270] Added request chatcmpl-1.",
    "INFO 11-30 09:12:01 [engine.py:310] Added request chatcmpl-1.",
    "INFO 11-30 09:12:01 async_llm_engine.py:134] Finished request cmpl-1.",
    "DEBUG 11-30 09:12:01 [client.py:193] Heartbeat successful.",
    "[2025-07-22 02:38:12] Decode batch. #running-req: 4, #token: 5210, token usage: 0.02, cuda graph: True, gen throughput (token/s): 410.22, #queue-req: 0",
    "[2025-07-22 02:38:12] Prefill batch. #new-seq: 1, #new-token: 120, #cached-token: 0, token usage: 0.02, #running-req: 0, #queue-req: 0",
)


def mistakes(root: Path | None = None) -> list[str]:
    """Every mistake under `root`, as `file:line: what`."""
    where = root or read.folder()
    try:
        knowledge = read.load_fresh(where)
    except KnowledgeError as wrong:
        return list(wrong.mistakes)
    found: list[str] = []
    documents = list(_documents(where, found))
    messages = {message.id: message for message in knowledge.messages}
    names = _fact_names(messages)
    seen: dict[str, str] = {}
    for file, source, document in documents:
        mistaken = _of_server(document, knowledge, names) if file.startswith("servers/") else _of_file(file, document, messages, names, set(knowledge.remedies), seen)
        found += [f"{file}:{read.line_of(source, path)}: {what}" for path, what in mistaken]
    return sorted(found, key=lambda line: (line.split(":")[0], int(line.split(":")[1])))


def _documents(root: Path, found: list[str]) -> Iterator[tuple[str, str, Any]]:
    for path in sorted([*root.glob("log_messages/*.yaml"), *root.glob("signatures/*/*.yaml"), *root.glob("names/*.yaml"), *root.glob("servers/*.yaml"), *root.glob("remedies.yaml")]):
        source, name = path.read_text(encoding="utf-8"), str(path.relative_to(root))
        try:
            yield name, source, read.parse(source)
        except yaml.MarkedYAMLError as wrong:
            line = wrong.problem_mark.line + 1 if wrong.problem_mark else 1
            found.append(f"{name}:{line}: not YAML: {wrong.problem}")


def _of_file(
    file: str, document: Mapping[str, Any], messages: Mapping[str, LogMessage], names: set[str], remedies: set[str], seen: dict[str, str]
) -> Iterator[tuple[Place, str]]:
    keys = list(document)
    proofs = [key for key in keys if key in ("examples", "not")]
    if proofs and keys[-len(proofs) :] != proofs:
        yield (proofs[0],), "examples and not must come last: a start stops reading there"
    if file.startswith("log_messages/"):
        yield from _of_messages(file, document, messages, seen)
    elif file.startswith("signatures/"):
        yield from _of_signature(file, document, names, remedies)
        yield from _sentences(read.signature(document, Path(file).stem), messages)
    elif file.startswith("names/"):
        yield from _of_names(document)
    else:
        yield from _of_variants(document, names)


def _of_variants(document: Mapping[str, Any], names: set[str]) -> Iterator[tuple[Place, str]]:
    """Of remedies.yaml: what a remedy means elsewhere asks for facts and fills in facts that there are."""
    for remedy, item in document.items():
        for index, part in enumerate(item.get("where", ())):
            place = (remedy, "where", index)
            yield from (((*place, key, fact), f"no fact {fact!r}") for key in ("if", "unless") for fact in part.get(key) or {} if not _known(fact, names))
            for told in (read.text_of(part[key]) for key in ("says", "adds", "lacks") if key in part):
                yield from ((place, what) for _, what in _placeholders(told, names))


def _of_names(document: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """Examples are told by their own list, near misses are not; a list without an example is no proof of itself."""
    told = read.names(document)
    for what in document:
        if what in ("examples", "not"):
            continue
        if not document.get("examples", {}).get(what):
            yield (what,), "has no example"
        for key, wanted in (("examples", True), ("not", False)):
            for index, item in enumerate(document.get(key, {}).get(what, ())):
                if what == "sizes":
                    size = told.size_of_card(item["name"] if wanted else item)
                    right = size == gib(item["gib"]) if wanted else size is None
                else:
                    right = told.tells(what, item) is wanted
                if not right:
                    yield (key, what, index), f"{item!r} is {'not ' if wanted else ''}told by {what}"


# ---------------------------------------------------------------- servers


def _of_server(document: Mapping[str, Any], knowledge: Knowledge, names: set[str]) -> Iterator[tuple[Place, str]]:
    """Every remedy whose text names an option has a text for this server, or the word that it has none; recognised are its own examples and no near misses."""
    made, known = servers.made(document, ""), {knob for one in knowledge.servers if one.assumed for knob in one.options}
    yield from ((("options", knob), f"no knob {knob!r}; known: {', '.join(sorted(known))}") for knob in made.options if knob not in known)
    yield from (((key, remedy), f"no remedy is called {remedy}") for key in ("remedies", "lacks") for remedy in document.get(key) or {} if remedy not in knowledge.remedies)
    for remedy, meaning in knowledge.remedies.items():
        used = {name.removeprefix(OPTION) for name in placeholders(meaning.says) if name.startswith(OPTION)}
        told = remedy in made.says or remedy in made.lacks or (made.assumed if meaning.of_server else used <= set(made.options))
        if not told:
            yield (), f"says neither what {remedy} means here (remedies) nor that there is no such option (lacks)"
    yield from (
        (("options", knob, "printed"), f"no fact {fact!r}") for knob, option in made.options.items() for fact in option.printed if not _known(fact, names)
    )
    for what in ("command", "image"):
        pattern = re.compile(document.get(what) or "(?!)", re.IGNORECASE)
        if what in document and not (document.get("examples") or {}).get(what):
            yield (what,), "has no example"
        for key, wanted in (("examples", True), ("not", False)):
            for index, item in enumerate((document.get(key) or {}).get(what, ())):
                if bool(pattern.search(item)) is not wanted:
                    yield (key, what, index), f"{item!r} is {'not ' if wanted else ''}recognised by {what}"


# ---------------------------------------------------------------- log messages


def _of_messages(file: str, document: Mapping[str, Any], messages: Mapping[str, LogMessage], seen: dict[str, str]) -> Iterator[tuple[Place, str]]:
    family = "messages" in document
    for index, item in enumerate(document["messages"] if family else [document]):
        here: Place = ("messages", index) if family else ()
        if item["id"] in seen:
            yield here, f"{item['id']} stands also in {seen[item['id']]}"
            continue
        seen[item["id"]] = file
        wrong = [(here + path, what) for path, what in _of_message(messages[item["id"]])]
        yield from wrong
        if any(what.startswith("not a regular") for _, what in wrong):
            continue
        examples: Any = document.get("examples") or ({} if family else [])
        misses: Any = document.get("not") or ({} if family else [])
        lines = examples.get(item["id"], []) if family else examples
        yield from _examples(messages[item["id"]], lines, ("examples", item["id"]) if family else ("examples",))
        yield from _misses(messages[item["id"]], misses.get(item["id"], []) if family else misses, ("not", item["id"]) if family else ("not",))
    if family:
        ids = {item["id"] for item in document["messages"]}
        for key in ("examples", "not"):
            yield from (((key, name), f"no message {name} in this file") for name in document.get(key) or {} if name not in ids)


def _of_message(message: LogMessage) -> Iterator[tuple[Place, str]]:
    if not message.printed_by:
        yield ("printed_by",), "who prints it is missing, here and for the file"
    if not message.versions:
        yield ("versions",), "which releases print it is missing, here and for the file (of the same printer)"
    if message.role == "fatal" and not message.kind:
        yield ("role",), "a fatal message needs a kind"
    if message.role == "progress" and message.phase is None:
        yield ("role",), "a progress message needs a phase"
    if message.role in ("frame", "hint") and message.phase is None and not message.purpose:
        yield ("role",), f"a {message.role} needs a phase or a purpose"
    for anchor in message.anchors:
        healthy = next((line for line in HEALTHY if anchor.decode() in line), None)
        if healthy and not message.counted:
            yield ("anchors",), f"{anchor.decode()!r} stands in a line that a healthy server prints all the time; make it longer, or counted: {healthy[:80]}"
    if not message.pattern:
        if message.fields:
            yield ("fields",), "fields without a pattern"
        return
    try:
        pattern = re.compile(message.pattern)
    except re.error as wrong:
        yield ("pattern",), f"not a regular expression: {wrong}"
        return
    for name in set(pattern.groupindex) ^ set(message.fields):
        yield ("fields",), f"{name} is in only one of pattern and fields"
    slow = slowest(pattern, message)
    if slow is not None:
        yield ("pattern",), f"too slow on hostile input: {slow * 1000:.0f} ms"


def slowest(pattern: re.Pattern[str], message: LogMessage) -> float | None:
    """Seconds of the slowest search in hostile input, when that is too slow; None when it is fast enough. Lengths grow step by step, so that a pattern
    that doubles its time with each letter is caught while it still ends."""
    for length in _LENGTHS:
        allowed = SLOW if length > 1024 else SLOW / 10
        for text in _hostile(message, length):
            best = _seconds(pattern, text)
            if best > allowed and (best := min(_seconds(pattern, text) for _ in range(3))) > allowed:
                return best
    return None


def _seconds(pattern: re.Pattern[str], text: str) -> float:
    begin = time.thread_time()  # of this thread alone: what else the machine does is no fault of the pattern
    pattern.search(text)
    return time.thread_time() - begin


_LENGTHS = (16, 20, 24, 32, 48, 64, 128, 256, 1024, 2 * REACH)


def _hostile(message: LogMessage, length: int) -> Iterator[str]:
    for anchor in message.anchors[:3]:
        constant = anchor.decode()
        for filler in ("a", "0", "1.", " ", "(", "=", "x y", ", ", "'a': ", "GiB ", constant):
            run = (filler * length)[:length]
            yield constant + run
            yield run[: length // 2] + constant + run[: length // 2]


def _hits(message: LogMessage, line: str) -> dict[str, Any] | None:
    scan = Scanner([message]).scan(BytesIO(line.encode()))
    made = [found for hit in scan.hits if (found := event(hit, "example")) is not None]
    return dict(made[0].fields) if made else None


def _examples(message: LogMessage, examples: Any, path: Place) -> Iterator[tuple[Place, str]]:
    if not isinstance(examples, list) or not examples:
        yield path, f"{message.id} has no example"
        return
    for index, example in enumerate(examples):
        here = (*path, index)
        if not isinstance(example, dict) or not isinstance(example.get("line"), str):
            yield here, "an example is {line: text, facts: {...}}"
            continue
        fields = _hits(message, example["line"])
        if fields is None:
            yield here, f"does not match: {example['line'][:100]}"
            continue
        for name, wanted in (example.get("facts") or {}).items():
            if name not in fields:
                yield here, f"gives no {name}"
            elif not _same(fields[name], wanted, message.fields[name]):
                yield here, f"{name} is {fields[name]!r}, not {wanted!r}"


def _same(value: Any, wanted: Any, kind: str) -> bool:
    if kind in SIZES and isinstance(wanted, str):
        number, _, unit = wanted.partition(" ")
        return bool(abs(value - size_of(number, unit or "bytes")) <= 1)
    return bool(value == wanted)


def _misses(message: LogMessage, lines: Any, path: Place) -> Iterator[tuple[Place, str]]:
    if not lines:
        yield path, f"{message.id} has no near miss: a line that looks like it and is not"
    for index, line in enumerate(lines if isinstance(lines, list) else []):
        if not isinstance(line, str):
            yield (*path, index), "a near miss is one line of text"
        elif _hits(message, line) is not None:
            yield (*path, index), f"matches, and must not: {line[:100]}"


# ---------------------------------------------------------------- signatures


def _fact_names(messages: Mapping[str, LogMessage]) -> set[str]:
    names = set(VOCABULARY) | set(messages)
    for message in messages.values():
        names |= {fact_name(message, field) for field in message.fields}
        if message.role == "frame":
            names.add(f"stack.{message.id.removeprefix('frame.')}")
    return names


def _known(name: str, names: set[str]) -> bool:
    return name in names or name.startswith(("args.", "env.", OPTION))


def _of_signature(file: str, document: Mapping[str, Any], names: set[str], remedies: set[str]) -> Iterator[tuple[Place, str]]:
    folder = Path(file).parent.name
    if document["cause"] not in CAUSES:
        yield ("cause",), f"no cause {document['cause']!r}"
    elif document["cause"] != folder:
        yield ("cause",), f"stands in the folder {folder}"
    yield from _names(document, names)
    for key in ("remedies", "will_not_help"):
        for index, item in enumerate(document.get(key) or []):
            name = item if isinstance(item, str) else item["remedy"]
            if name not in remedies:
                yield (key, index), f"no remedy {name!r} in remedies.yaml"
            if isinstance(item, dict):
                yield from (
                    ((key, index, part, fact), f"no fact {fact!r}") for part in ("if", "unless") for fact in item.get(part) or {} if not _known(fact, names)
                )
    made = read.signature(document, f"{folder}/{Path(file).stem}")
    reasons = [*(part.why for part in made.remedies), *(part.why for part in made.will_not_help), *made.quotes.values()]
    for text in [made.says, *(reason for reason in reasons if reason is not None)]:
        yield from _placeholders(text, names)
    yield from _verdicts(made, document.get("examples"))


def _sentences(signature: Signature, messages: Mapping[str, LogMessage]) -> Iterator[tuple[Place, str]]:
    """What a signature rests on is quoted: of a fact that no log message says by itself, somebody must say what it means."""
    quoted = [name for name, says in signature.quotes.items() if says is None]
    for key, names in (("when", signature.when), ("certain_if", signature.certain_if), ("quotes", quoted)):
        for name in names:
            if name in VOCABULARY and name not in messages and fact_words.of(Fact(name, "x")) is None:
                yield (key, name) if key != "quotes" else (key,), f"no sentence says what {name} means (bot/diagnosis/fact_words.py)"


def _placeholders(text: Text, names: set[str]) -> Iterator[tuple[Place, str]]:
    yield from (((), f"no fact {name!r} for the placeholder in: {text.en[:60]}") for name in sorted(placeholders(text)) if not _known(name, names))


def _names(document: Mapping[str, Any], names: set[str]) -> Iterator[tuple[Place, str]]:
    for key in ("when", "unless", "certain_if"):
        for name, condition in (document.get(key) or {}).items():
            if not _known(name, names):
                yield (key, name), f"no fact {name!r}"
            if "matches" in condition:
                try:
                    re.compile(condition["matches"])
                except re.error as wrong:
                    yield (key, name, "matches"), f"not a regular expression: {wrong}"
    for name in document.get("quotes") or []:
        if not _known(name, names):
            yield ("quotes", name), f"no fact {name!r}"


def _verdicts(signature: Signature, examples: Any) -> Iterator[tuple[Place, str]]:
    if not isinstance(examples, list) or not examples:
        yield (), "has no examples"
        return
    fired = False
    for index, example in enumerate(examples):
        if not isinstance(example, dict) or "facts" not in example or "fires" not in example:
            yield ("examples", index), "an example is {facts: {...}, looked: [...], fires: certain|likely|possible|no}"
            continue
        wanted = {False: "no"}.get(example["fires"], example["fires"])
        facts = Facts((Fact(name, tuple(value) if isinstance(value, list) else value) for name, value in example["facts"].items()), example.get("looked") or ())
        finding = judge(signature, facts)
        got = finding.certainty.value if finding else "no"
        fired = fired or finding is not None
        if got != wanted:
            yield ("examples", index), f"fires {got}, not {wanted}"
    if not fired:
        yield ("examples",), "no example fires"


def match(messages: tuple[LogMessage, ...], line: str) -> list[tuple[LogMessage, dict[str, Any]]]:
    """Every message that a pasted line is, with its fields."""
    scan = Scanner(messages).scan(BytesIO(line.encode()))
    made = [(hit.message, found) for hit in scan.hits if (found := event(hit, "line")) is not None]
    unique = {message.id: (message, dict(found.fields)) for message, found in made}
    return sorted(unique.values(), key=lambda pair: pair[0].tier)


__all__ = ["HEALTHY", "match", "mistakes", "slowest"]
