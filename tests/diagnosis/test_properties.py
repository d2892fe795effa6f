"""What holds for all labelled cases: what else stands in a log changes no answer, quotes stand at their lines, and of several signatures the right one
comes first."""

import random
import re
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest
import yaml

from bot.diagnosis.rank import EXPLAINS, ranked
from bot.diagnosis.signatures import findings, judge
from bot.evidence.bundle import open_path
from bot.facts import Facts
from bot.incident import examine
from bot.model import Bundle, BundleFile, Certainty, Diagnosis, Fact
from bot.playbooks import folder, load
from tests.diagnosis import buried

CASES = sorted(path.parent for path in (Path(__file__).parent.parent / "cases").glob("*/expected.yaml"))
KNOWLEDGE = load()
WHOLE = [case for case in CASES if (case / "container.log").exists() and b"engine" in (case / "container.log").read_bytes()]


def texts(case: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in case.iterdir() if path.name != "expected.yaml"}


def diagnosed(files: dict[str, str]) -> Diagnosis:
    return examine(Bundle("case", {name: BundleFile(name, partial(BytesIO, text.encode())) for name, text in files.items()}), KNOWLEDGE)


@pytest.mark.parametrize("where", ["after a healthy run", "after a refused run", "followers behind", "noise between", "all of it"])
def test_what_else_stands_in_a_log_changes_no_cause(where: str) -> None:
    wrong = []
    for number, case in enumerate(WHOLE):
        dice = random.Random(number)
        files = texts(case)
        log = files["container.log"]
        if not re.search(r"API server version|LLM engine \(?v?|Initializing an? ", log):
            continue  # a log that does not begin with a start cannot be told from the run before it
        behind = buried.followers(log) if re.search(r"Error|Killed|died", log) else ""  # followers follow something
        changed = {
            "after a healthy run": buried.healthy_run("0.11.0", 400, dice) + log,
            "after a refused run": buried.refused_run("0.11.0") + log,
            "followers behind": log + behind,
            "noise between": buried.between(log, dice),
            "all of it": buried.refused_run("0.10.2") + buried.healthy_run("0.11.0", 200, dice) + buried.between(log, dice) + behind,
        }[where]
        before, after = diagnosed(files), diagnosed({**files, "container.log": changed})
        if before.cause != after.cause:
            wrong.append(f"{case.name}: {before.cause} became {after.cause}")
    assert wrong == []


def test_every_quote_stands_at_its_line() -> None:
    for case in CASES:
        for quote in examine(open_path(str(case)), KNOWLEDGE).evidence:
            if quote.line is not None and quote.quote:
                line = (case / quote.source).read_bytes().decode(errors="replace").split("\n")[quote.line - 1]
                assert all(part.strip() in line for part in quote.quote.splitlines()[0].split("...")), (case.name, quote)


def examples() -> list[tuple[str, str, Facts, str]]:
    found = []
    for path in sorted(folder().glob("signatures/*/*.yaml")):
        document = yaml.safe_load(path.read_text())
        for example in document["examples"]:
            if example["fires"] not in ("no", False):
                facts = Facts(
                    (Fact(name, tuple(value) if isinstance(value, list) else value) for name, value in example["facts"].items()), example.get("looked") or ()
                )
                found.append((f"{path.parent.name}/{path.stem}", document["cause"], facts, example["fires"]))
    return found


def test_a_signature_fires_on_its_own_examples_surer_than_any_rival() -> None:
    """Where another cause's signature fires on the same facts with the same certainty, the table of explanations must decide between them."""
    wrong = []
    for name, cause, facts, _ in examples():
        own = next(item for item in KNOWLEDGE.signatures if item.id == name)
        assert judge(own, facts) is not None
        first = ranked(findings(KNOWLEDGE.signatures, facts))[0]
        if first.cause != cause and TOLERATED.get(name) != first.cause:
            wrong.append(f"{name}: {first.signature.id} comes first")
    assert wrong == []


def test_no_other_cause_fires_as_surely_unless_it_is_a_symptom() -> None:
    """On the examples of a signature a rival may be as sure only where the table says that this cause makes it look so, or where it admits not to know."""
    wrong = []
    for name, cause, facts, _ in examples():
        own = next(judge(item, facts) for item in KNOWLEDGE.signatures if item.id == name)
        assert own is not None
        rivals = [
            found
            for item in KNOWLEDGE.signatures
            if item.cause not in {cause, "unknown", TOLERATED.get(name), *EXPLAINS.get(cause, ())} and (found := judge(item, facts))
        ]
        wrong += [f"{name}: {rival.signature.id} is as sure" for rival in rivals if SURE.index(rival.certainty) >= SURE.index(own.certainty)]
    assert sorted(set(wrong)) == []


SURE = (Certainty.POSSIBLE, Certainty.LIKELY, Certainty.CERTAIN)
TOLERATED = {  # what only keeps a second name open, where the other is likelier
    "memory_leak/may-grow-between-errors": "runtime_burst",
    "node_out_of_memory/bad-alloc": "abort",
    "probe_kill/told-while-starting": "normal_termination",
    "shm_too_small/nccl-segment-small": "nccl_failure",
}
