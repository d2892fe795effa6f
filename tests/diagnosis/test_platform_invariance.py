"""What may not matter does not: other names, ids, addresses and process numbers, another clock, sizes scaled alike change no cause.

Runs over the labelled cases of platforms. The rewriting knows no case.
"""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from bot.incident import examine
from bot.model import Bundle, Diagnosis
from tests.diagnosis.bundles import bundle, knowledge

CASES = sorted((Path(__file__).parents[1] / "cases").glob("platform-*"))
UUID = re.compile(r"\b[0-9a-f]{8}([-_])[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}\b")
HEX = re.compile(r"\b[0-9a-f]{64}\b")
STAMP = re.compile(r"\b(20\d\d)-(\d\d)-(\d\d)T")
ADDRESS = re.compile(r"\b10\.\d{1,3}\.\d{1,3}\.\d{1,3}\b")


def other_ids(text: str) -> str:
    def uuid(found: re.Match[str]) -> str:
        digest = hashlib.sha256(found[0].replace("_", "-").encode()).hexdigest()
        return found[1].join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))

    return HEX.sub(lambda found: hashlib.sha256(found[0].encode()).hexdigest(), UUID.sub(uuid, text))


def other_clock(text: str) -> str:
    """Years later, same distances."""
    return STAMP.sub(lambda found: f"{int(found[1]) + 2}-{found[2]}-{found[3]}T", text)


def other_addresses(text: str) -> str:
    return ADDRESS.sub("10.77.6.5", text)


def other_processes(text: str) -> str:
    """Process numbers of kernel lines, logs and listings, each the same everywhere."""
    return re.sub(r"(pid[=: ]|process |PID: |\[ *)(\d{3,8})(?=[\s,)\]:])", lambda found: found[1] + str(int(found[2]) + 1111), text)


def other_names(text: str) -> str:
    """Names of pods and nodes, wherever they stand."""
    names = re.findall(r'"(?:nodeName|generateName)": "([^"]{4,80})"', text)
    for index, name in enumerate(sorted(set(names), key=len, reverse=True)):
        text = text.replace(name, f"thing{index}-" if name.endswith("-") else f"thing{index}")
    return text


REWRITES: dict[str, Callable[[str], str]] = {"ids": other_ids, "clock": other_clock, "addresses": other_addresses, "processes": other_processes, "names": other_names}


def files(case: Path) -> dict[str, str]:
    return {file.name: file.read_text(errors="replace") for file in sorted(case.iterdir()) if file.name != "expected.yaml"}


def answer(contents: dict[str, str]) -> Diagnosis:
    made: Bundle = bundle(contents)
    return examine(made, knowledge())


@pytest.mark.parametrize("rewrite", REWRITES)
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_rewriting_what_is_incidental_changes_no_answer(case: Path, rewrite: str) -> None:
    before = files(case)
    joined = "\0".join(before.values())
    after = dict(zip(before, REWRITES[rewrite](joined).split("\0"), strict=True))
    first, second = answer(before), answer(after)
    assert (second.cause, second.certainty, [advice.id for advice in second.recommendations]) == (
        first.cause, first.certainty, [advice.id for advice in first.recommendations],
    )  # fmt: skip


SIZE = re.compile(r"\b(\d+(?:\.\d+)?)(?=\s?(?:[KMGT]i?B?|kB)\b)")
BYTES = re.compile(r"(?m)(?<=^)(\d{8,18})$|(?<=^anon )\d+$|(?<=^file )\d+$|(?<=^shmem )\d+$")


def doubled(text: str) -> str:
    """Every size with a unit, and the bare bytes of control group files, times two."""
    scaled = SIZE.sub(lambda found: f"{float(found[1]) * 2:.2f}" if "." in found[1] else str(int(found[1]) * 2), text)
    return BYTES.sub(lambda found: str(int(found[0]) * 2), scaled)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_scaling_all_sizes_alike_changes_no_cause(case: Path) -> None:
    before = files(case)
    after = {name: text if name == "args.txt" else doubled(text) for name, text in before.items()}
    label = yaml.safe_load((case / "expected.yaml").read_text())
    assert answer(after).cause in (answer(before).cause, label["cause"], *label["also"])  # a model keeps its size when the card doubles


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_answer_without_one_file_is_never_another_certain_one(case: Path) -> None:
    before = files(case)
    whole = answer(before)
    for left_out in before if len(before) > 1 else ():
        partial = answer({name: text for name, text in before.items() if name != left_out})
        assert partial.cause in (whole.cause, "unknown") or partial.certainty.value != "certain", left_out


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
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_quiet_file_beside_the_evidence_hides_nothing(case: Path, name: str) -> None:
    before = files(case)
    if name in before:
        return
    label = yaml.safe_load((case / "expected.yaml").read_text())
    assert answer({**before, name: QUIET[name]}).cause in (answer(before).cause, label["cause"], *label["also"])
