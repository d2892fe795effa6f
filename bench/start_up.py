"""How long `oombot diagnose` of one small case takes, against the same interpreter doing nothing."""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

CASE = Path(__file__).parent.parent / "tests" / "cases" / "gpu-001"
ROUNDS = 15


def seconds(command: Sequence[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def measure() -> Iterator[str]:
    """Alternates the two commands, so that noise of the machine meets both, and compares the medians."""
    nothing, diagnose = [], []
    for _ in range(ROUNDS):
        nothing.append(seconds([sys.executable, "-c", "pass"]))
        diagnose.append(seconds([sys.executable, "-m", "bot", "diagnose", str(CASE)]))
    bare, whole = statistics.median(nothing), statistics.median(diagnose)
    yield f"python -c pass {bare * 1e3:.1f} ms, oombot diagnose {whole * 1e3:.0f} ms: {whole / bare:.1f} times (aim: at most 20)"
