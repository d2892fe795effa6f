"""How a container ended, as `docker inspect` and its kin (podman, nerdctl, crictl) print it: JSON whole or cut, or the words of a --format template.

Facts: `docker.oom_killed`, `docker.running`, `docker.exit_code` (of a container that has ended), `docker.memory_limit_bytes` (0: none). Of several containers
the one that was killed for memory speaks, else one that failed. Guesses at no bare words: without the template a value needs its name beside it.
"""

import re
from collections.abc import Callable, Iterator

from bot.evidence.sections import Line, Section
from bot.model import Value

Emit = Callable[[str, Value, Line], None]
Found = dict[str, tuple[str, Line]]  # by the last name of the field, in lower case

_COMMAND = re.compile(r"\b(?:docker|podman|nerdctl|crictl|ctr|inspect)\b")
_TEMPLATE = re.compile(r"(?:--format|--template|-f)[=\s]\s?(?:'([^']{1,500})'|\"([^\"]{1,500})\"|(\{\{\S{1,200}))")
_FIELD = re.compile(r"\{\{-?\s?([^{}]{1,100}?)\s?-?\}\}")
_KEY = re.compile(r'"(OOMKilled|ExitCode|exitCode|Running|Status|Memory)"\s?:\s?"?([A-Za-z]{1,20}|\d{1,18})\b')
_CRI = re.compile(r'"(reason|state)"\s?:\s?"(OOMKilled|CONTAINER_[A-Z]{1,12})"')
_NEXT = re.compile(r'"State"\s?:\s?\{|"status"\s?:\s?\{')
_LABEL = re.compile(r"\boom[\s_-]?(?:killed)?\s{0,2}[:=]\s{0,2}\"?(true|false)\b", re.IGNORECASE)
_CODE_LABEL = re.compile(r"\bexit(?:[\s_-]?code)?\s{0,2}[:=]\s{0,2}\"?(\d{1,3})\b", re.IGNORECASE)
_LOGIC = ("if", "else", "end", "range", "with", "define", "block", "template")
_FINISHED = ("exited", "dead", "stopped", "container_exited")


def read(section: Section, emit: Emit) -> None:
    """Facts of one command's output."""
    every = [found for found in (*_templated(section), *_labelled(section), *_json(section)) if found]
    if every:
        _tell(max(every, key=_weight), emit)


def _templated(section: Section) -> Iterator[Found]:
    """Lines that fit the template of the command, its fields by their last names."""
    chosen = _TEMPLATE.search(section.command) if _COMMAND.search(section.command) else None
    template = next((group for group in chosen.groups() if group), "") if chosen else ""
    parts = _FIELD.split(template.replace("\\t", "\t").replace("\\n", ""))
    names = [part.split(".")[-1].strip().lower() for part in parts[1::2]]
    if not names or any(part.split(" ")[0] in _LOGIC for part in parts[1::2]):
        return
    literals = [r"\s{1,8}".join(re.escape(word) for word in re.split(r"\s+", part)) for part in parts[0::2]]
    pattern = re.compile(r"(.{0,200}?)".join(literals))
    for line in section.lines:
        fits = pattern.fullmatch(line.text.strip()) or pattern.fullmatch(line.text)
        if fits:
            found = {name: (value.strip(), line) for name, value in zip(names, fits.groups(), strict=True)}
            yield {**found, "oomkilled": ("true", line)} if found.get("reason", ("", line))[0] == "OOMKilled" else found


def _labelled(section: Section) -> Iterator[Found]:
    """Lines that carry both value and name, whatever printed them."""
    for line in section.lines:
        killed, code = _LABEL.search(line.text), _CODE_LABEL.search(line.text)
        if killed:
            yield {"oomkilled": (killed[1].lower(), line), **({"exitcode": (code[1], line)} if code else {})}


def _json(section: Section) -> Iterator[Found]:
    """Objects of JSON, whole or cut: the first value of each name since a state began (a health check has exit codes of its own)."""
    found: Found = {}
    for line in section.lines:
        begins = _NEXT.search(line.text)
        if begins and ("oomkilled" in found or "exitcode" in found):
            yield found
            found = {}
        for key in _KEY.finditer(line.text):
            found.setdefault(key[1].lower(), (key[2], line))
        for key in _CRI.finditer(line.text):
            found.setdefault("oomkilled" if key[1] == "reason" else "status", ("true" if key[1] == "reason" else key[2], line))
    yield found


def _code(found: Found) -> int | None:
    """The exit code of a container that has ended; one that runs has 0 there."""
    value, _ = found.get("exitcode", ("", None))
    if not re.fullmatch(r"\d{1,3}", value):
        return None
    state, runs = found.get("status", ("", None))[0].lower(), found.get("running", ("", None))[0].lower()
    over = int(value) > 0 or state in _FINISHED or (not state and runs != "true")
    return int(value) if over else None


def _weight(found: Found) -> tuple[bool, bool, bool]:
    return found.get("oomkilled", ("", None))[0] == "true", bool(_code(found)), "oomkilled" in found


def _tell(found: Found, emit: Emit) -> None:
    killed, code, limit = found.get("oomkilled"), _code(found), found.get("memory")
    if killed and killed[0] in ("true", "false"):
        emit("docker.oom_killed", killed[0] == "true", killed[1])
    if code is not None:
        emit("docker.exit_code", code, found["exitcode"][1])
    if found.get("running", ("", None))[0].lower() == "true" or found.get("status", ("", None))[0].lower() in ("running", "container_running"):
        emit("docker.running", True, found["running" if "running" in found else "status"][1])
    alone = set(found) == {"memory"}  # somebody asked for the limit and for nothing else
    if limit and limit[0].isdecimal() and (killed or code is not None or alone):
        emit("docker.memory_limit_bytes", int(limit[0]), limit[1])
