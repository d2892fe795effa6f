"""Measures the diagnosis against the labelled incidents in `tests/cases`, the way a stranger would: by the command line, with the labels hidden.

    python -m tests.accuracy [--list] [FOLDER]

Prints the table by cause and the totals. Exit status 1 when a total is under its floor (`FLOORS`) or any advice is harmful, 2 when the command did not answer.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bot.diagnosis.causes import family_of

CASES = Path(__file__).parent / "cases"

# Shares of right answers that a change must not lose. No piece of harmful advice is ever fine.
FLOORS = {"cause": 0.97, "family": 1.0, "remedy": 0.92, "proof": 0.99, "honest": 1.0}

# Advice for the wrong kind of memory costs its reader a night, whatever a label lists.
_HOST_KNOBS = {"memory_limit:raise", "memory_limit:set", "memory_request:raise", "shm_size:raise"}
_DEVICE_KNOBS = {
    "gpu_memory_utilization:lower",
    "gpu_memory_utilization:raise",
    "max_model_len:lower",
    "kv_cache_dtype:fp8",
    "expandable_segments:enable",
    "bigger_gpu",
}
WRONG_KIND = {
    "device_memory": _HOST_KNOBS,
    "host_memory": _DEVICE_KNOBS,
    "not_memory": _DEVICE_KNOBS | {"memory_limit:raise", "memory_limit:set", "max_num_seqs:lower", "bigger_node"},
}


@dataclass(frozen=True)
class Label:
    """What a careful expert says of a case."""

    name: str
    folder: Path
    cause: str
    accepted: frozenset[str]
    remedies: tuple[str, ...]
    harmful: frozenset[str]
    decidable: str

    @classmethod
    def read(cls, file: Path) -> "Label":
        raw = yaml.safe_load(file.read_text())
        accepted = {raw["cause"], *(raw.get("also") or ())} | ({"unknown"} if raw["decidable"] == "no" else set())
        return cls(
            file.parent.name,
            file.parent,
            raw["cause"],
            frozenset(accepted),
            tuple(raw.get("remedies") or ()),
            frozenset(raw.get("harmful") or ()),
            raw["decidable"],
        )

    @property
    def families(self) -> set[str]:
        return {family_of(cause) for cause in self.accepted}


@dataclass(frozen=True)
class Score:
    """How one answer compares with its label; `remedy` is None where the label asks for none."""

    label: Label
    got: str
    certainty: str
    first: str
    cause: bool
    family: bool
    remedy: bool | None
    harmful: tuple[str, ...]
    proof: bool

    @property
    def missed(self) -> bool:
        return not self.cause or self.remedy is False or bool(self.harmful) or not self.proof


def labels(folder: Path = CASES) -> list[Label]:
    return [Label.read(file) for file in sorted(folder.glob("*/expected.yaml"))]


def answers(command: Sequence[str], cases: Sequence[Label]) -> list[dict[str, Any]]:
    """Runs the product once over copies without labels, and gives its answers in order. Raises RuntimeError when it did not answer each."""
    with tempfile.TemporaryDirectory() as hidden:
        blind = [shutil.copytree(case.folder, Path(hidden, case.name), ignore=shutil.ignore_patterns("expected.yaml")) for case in cases]
        done = subprocess.run([*command, *map(str, blind)], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) != len(cases):
        raise RuntimeError(f"exit {done.returncode}, {len(lines)} answers to {len(cases)} cases: {done.stderr[-1500:]}")
    return [json.loads(line) for line in lines]


def stands(folder: Path, piece: Mapping[str, Any]) -> bool:
    """Whether a quote is a part of the line it names; "..." and "[redacted]" stand for what was left out."""
    if piece["line"] is None:
        return (folder / piece["source"]).is_file()
    try:
        lines = (folder / piece["source"]).read_bytes().decode(errors="replace").split("\n")
        line = lines[piece["line"] - 1] if piece["line"] > 0 else ""
    except (OSError, IndexError):
        return False
    at = 0
    for part in filter(None, (p.strip() for p in piece["quote"].replace("[redacted]", "...").split("..."))):
        at = line.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return bool(piece["quote"])


def score(label: Label, answer: Mapping[str, Any]) -> Score:
    given = [f"{r['remedy']}:{r['direction']}" if r["direction"] else r["remedy"] for r in answer["recommendations"]]
    wrong = WRONG_KIND.get(next(iter(label.families)), set()) - set(label.remedies) if len(label.families) == 1 else set()
    got = answer["cause"]
    silent = got == "unknown" and got in label.accepted and not given
    remedy = None if silent or not label.remedies else (given[0] if given else "none") in label.remedies
    proof = got == "unknown" or (bool(answer["evidence"]) and all(stands(label.folder, piece) for piece in answer["evidence"]))
    return Score(
        label,
        got,
        answer["certainty"],
        given[0] if given else "-",
        got in label.accepted,
        family_of(got) in label.families,
        remedy,
        tuple(g for g in given if g in label.harmful | wrong),
        proof,
    )


def shares(scores: Sequence[Score]) -> dict[str, float]:
    asked = [s for s in scores if s.remedy is not None]
    undecidable = [s for s in scores if s.label.decidable == "no"]
    return {
        "cause": sum(s.cause for s in scores) / len(scores),
        "family": sum(s.family for s in scores) / len(scores),
        "remedy": sum(bool(s.remedy) for s in asked) / max(1, len(asked)),
        "proof": sum(s.proof for s in scores) / len(scores),
        "honest": sum(s.cause for s in undecidable) / len(undecidable) if undecidable else 1.0,
    }


def table(scores: Sequence[Score]) -> Iterator[str]:
    right, all_of = Counter(s.label.cause for s in scores if s.cause), Counter(s.label.cause for s in scores)
    for cause in sorted(all_of):
        yield f"{cause:28}{right[cause]:4} of {all_of[cause]}"
    totals = "  ".join(f"{name} {share:.1%}" for name, share in shares(scores).items())
    yield f"{len(scores)} cases  {totals}  harmful {sum(len(s.harmful) for s in scores)}  undecidable {sum(s.label.decidable == 'no' for s in scores)}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy", description="Measure the diagnosis against labelled incidents.")
    parser.add_argument("folder", nargs="?", type=Path, default=CASES)
    parser.add_argument("--list", action="store_true", help="print each miss")
    arguments = parser.parse_args(argv)
    cases = labels(arguments.folder)
    if not cases:
        print(f"accuracy: no */expected.yaml in {arguments.folder}", file=sys.stderr)
        return 2
    try:
        scores = [score(label, answer) for label, answer in zip(cases, answers([sys.executable, "-m", "bot", "diagnose", "--json"], cases), strict=True)]
    except RuntimeError as failed:
        print(f"accuracy: {failed}", file=sys.stderr)
        return 2
    for s in scores if arguments.list else ():
        if s.missed:
            print(
                f"{s.label.name}: want {'|'.join(sorted(s.label.accepted))} got {s.got} ({s.certainty}); first {s.first}, want {s.label.remedies[:3]}; harmful {s.harmful or '-'}; proof {s.proof}"
            )
    print("\n".join(table(scores)))
    held = all(shares(scores)[name] >= floor for name, floor in FLOORS.items())
    return 0 if held and not any(s.harmful for s in scores) else 1


if __name__ == "__main__":
    sys.exit(main())
