"""What may not matter does not: other names, ids, addresses, paths and process numbers, another clock, sizes scaled alike change no answer; and what never
turns a right answer into a wrong one that is called certain: a missing file.

Runs over all labelled cases. The rewriting knows no case, and must find something to rewrite.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import pytest
import yaml

from bot.model import Diagnosis
from tests.diagnosis.bundles import diagnose

CASES = sorted(path.parent for path in (Path(__file__).parents[1] / "cases").glob("*/expected.yaml"))
UUID = re.compile(r"\b[0-9a-f]{8}([-_])[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}\b")
HEX = re.compile(r"\b[0-9a-f]{64}\b")
ADDRESS = re.compile(r"\b(?:10|172|192)\.\d{1,3}\.\d{1,3}\.\d{1,3}\b")
STAMP = re.compile(r"(?<![\d-])(?:(?P<year>20\d\d)-)?(?P<month>[01]\d)-(?P<day>\d\d)(?P<between>[T ])(?P<clock>\d\d:\d\d:\d\d)")
SPELLED = re.compile(r"\b(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (?P<day>[ \d]\d) (?P<clock>\d\d:\d\d:\d\d)(?= \d{4}| \w)")
LATER = timedelta(days=33, hours=5, minutes=17, seconds=29)


def other_ids(text: str) -> str:
    def uuid(found: re.Match[str]) -> str:
        digest = hashlib.sha256(found[0].replace("_", "-").encode()).hexdigest()
        return found[1].join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))

    return HEX.sub(lambda found: hashlib.sha256(found[0].encode()).hexdigest(), UUID.sub(uuid, text))


def other_clock(text: str) -> str:
    """A month and some hours later, same distances, in whatever form a clock stands; where the year would turn, as much earlier."""
    year = next((int(found["year"]) for found in STAMP.finditer(text) if found["year"]), 2026)
    late = any(found["month"] in ("11", "12") for found in STAMP.finditer(text)) or bool(re.search(r"\b(?:Nov|Dec) [ \d]\d \d\d:", text))
    shift = -LATER if late else LATER

    def numbers(found: re.Match[str]) -> str:
        moved = datetime.fromisoformat(f"{found['year'] or year}-{found['month']}-{found['day']}T{found['clock']}") + shift
        return moved.strftime(f"{'%Y-' if found['year'] else ''}%m-%d{found['between']}%H:%M:%S")

    def words(found: re.Match[str]) -> str:
        moved = datetime.strptime(f"{year} {found['month']} {found['day'].strip()} {found['clock']}", "%Y %b %d %H:%M:%S") + shift
        return moved.strftime("%b %e %H:%M:%S")

    return SPELLED.sub(words, STAMP.sub(numbers, text))


def other_addresses(text: str) -> str:
    return ADDRESS.sub(lambda found: f"10.77.{int(found[0].rsplit('.', 1)[1])}.6", text)


def other_processes(text: str) -> str:
    """Process numbers and ports of kernel lines, logs and listings, each the same everywhere."""
    return re.sub(r"(pid[=: ]|port=|[Pp]rocess |PID: |\[ *)(\d{3,8})(?=[\s,)\]:])", lambda found: found[1] + str(int(found[2]) + 1111), text)


def other_names(text: str) -> str:
    """Names of pods and nodes, wherever they stand."""
    names = re.findall(r'"(?:nodeName|generateName)": "([^"]{4,80})"', text)
    for index, name in enumerate(sorted(set(names), key=len, reverse=True)):
        text = text.replace(name, f"thing{index}-" if name.endswith("-") else f"thing{index}")
    return text


def other_paths(text: str) -> str:
    """Where things are installed and kept, and in which line of a source file."""
    text = re.sub(
        r"/usr/(?:local/)?lib/python3(?:\.\d+)?/(?:dist|site)-packages|/opt/venv/lib/python3\.\d+/site-packages", "/srv/env/lib/python3.13/site-packages", text
    )
    text = re.sub(r"(?<![\w/.])/models?/(?=\w)", "/mnt/share/", text)
    return re.sub(r"\.py:\d+\]", ".py:7]", re.sub(r"line \d+, in", "line 7, in", text))


REWRITES: dict[str, Callable[[str], str]] = {
    "ids": other_ids,
    "clock": other_clock,
    "addresses": other_addresses,
    "processes": other_processes,
    "names": other_names,
    "paths": other_paths,
}


@cache
def files(case: Path) -> Mapping[str, str]:
    return {file.name: file.read_text(errors="replace") for file in sorted(case.iterdir()) if file.name != "expected.yaml"}


@cache
def answer(case: Path) -> Diagnosis:
    return diagnose(files(case))


def rewritten(case: Path, rewrite: str) -> dict[str, str]:
    """All files at once, so that a name stays the same name everywhere."""
    return dict(zip(files(case), REWRITES[rewrite]("\0".join(files(case).values())).split("\0"), strict=True))


def accepted(case: Path) -> set[str]:
    label = yaml.safe_load((case / "expected.yaml").read_text())
    return {label["cause"], *(label["also"] or [])}


@pytest.mark.parametrize("rewrite", REWRITES)
def test_rewriting_what_is_incidental_changes_no_answer(rewrite: str) -> None:
    wrong = []
    for case in CASES:
        first, second = answer(case), diagnose(rewritten(case, rewrite))
        before, after = ((each.cause, each.certainty.value, [advice.id for advice in each.recommendations]) for each in (first, second))
        wrong += [f"{case.name}: {before} became {after}"] if before != after else []
    assert wrong == []


@pytest.mark.parametrize("rewrite", REWRITES)
def test_there_is_something_to_rewrite(rewrite: str) -> None:
    changed = [case for case in CASES if rewritten(case, rewrite) != files(case)]
    assert len(changed) >= 25


VERSION = re.compile(r"(?i)((?:version|engine) \(?v?)\d+\.\d+\.\d[\w.+]*")


@pytest.mark.parametrize("version", ["99.3.1", "0.1.dev1+g0a1b2c3", "unknown"])
def test_a_version_that_nobody_knows_changes_no_cause(version: str) -> None:
    """Advice may differ: which options there are depends on the version."""
    wrong, named = [], 0
    for case in CASES:
        changed = {name: VERSION.sub(lambda found: found[1] + version, text) for name, text in files(case).items()}
        named += changed != files(case)
        first, second = answer(case), diagnose(changed)
        if (first.cause, first.certainty) != (second.cause, second.certainty):
            wrong.append(f"{case.name}: {first.cause} ({first.certainty}) became {second.cause} ({second.certainty})")
    assert wrong == []
    assert named >= 20


NAMED_CARD = re.compile(r"NVIDIA (?:GeForce |Tesla )?[A-Z]+ ?\d+\w*(?: [A-Z]\w*| \d+GB| Ti)*")  # the name of a card tells its size
SIZE = re.compile(r"\b(\d+(?:\.\d+)?)(?=(?:/\d+(?:\.\d+)?)?\s?(?:[KMGT]i?B?|kB)\b)")
BYTES = re.compile(r"(?m)(?<=^)(\d{8,18})$|(?<=^anon )\d+$|(?<=^file )\d+$|(?<=^shmem )\d+$")


def doubled(text: str) -> str:
    """Every size with a unit, and the bare bytes of control group files, times two."""
    scaled = SIZE.sub(lambda found: f"{float(found[1]) * 2:.{len(found[1].partition('.')[2])}f}", text)
    return BYTES.sub(lambda found: str(int(found[0]) * 2), scaled)


def test_scaling_all_sizes_alike_changes_no_cause() -> None:
    wrong = []
    for case in CASES:
        nameless = {name: NAMED_CARD.sub("NVIDIA Card", text) for name, text in files(case).items()}
        first, second = diagnose(nameless), diagnose({name: text if name == "args.txt" else doubled(text) for name, text in nameless.items()})
        if second.cause not in {first.cause, *accepted(case)}:  # a model keeps its size when the card doubles
            wrong.append(f"{case.name}: {first.cause} became {second.cause}")
    assert wrong == []


def test_a_missing_file_never_makes_a_wrong_answer_certain() -> None:
    wrong = []
    for case in CASES:
        for gone in files(case):
            found = diagnose({name: text for name, text in files(case).items() if name != gone})
            if found.certainty.value == "certain" and found.cause not in {"unknown", *accepted(case)}:
                wrong.append(f"{case.name} without {gone}: {found.cause}")
    assert wrong == []


QUIET = {
    "kernel.log": "[    1.000000] usb 1-1: new device\n[    2.000000] nvidia: module loaded\n",
    "events.json": '{"items": []}',
    "nvidia-smi.txt": "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-cc358b9b-1a6f-cb53-58d4-4c51addc2e21)\n",
    "container.log": (
        "INFO 01-14 09:22:04 [api_server.py:1] vLLM API server version 0.11.0\n"
        "INFO 01-14 09:22:09 [loader.py:1] Starting to load model m...\n"
        "INFO 01-14 09:23:04 [gpu_model_runner.py:1] Model loading took 15.0 GiB and 3.2 seconds\n"
        "INFO:     Application startup complete.\n"
        'INFO:     10.1.2.3:51022 - "GET /health HTTP/1.1" 200 OK\n'
    ),
}


@pytest.mark.parametrize("name", QUIET)
def test_a_quiet_file_beside_the_evidence_hides_nothing(name: str) -> None:
    wrong = []
    for case in CASES:
        if name not in files(case):
            found = diagnose({**files(case), name: QUIET[name]})
            wrong += [f"{case.name}: {found.cause}"] if found.cause not in {answer(case).cause, *accepted(case)} else []
    assert wrong == []
