"""How many labelled cases a second one process diagnoses, start-up apart."""

import time
from collections.abc import Iterator
from pathlib import Path

from bot.evidence.bundle import open_path
from bot.incident import examine
from bot.playbooks import load

CASES = Path(__file__).parent.parent / "tests" / "cases"


def measure() -> Iterator[str]:
    folders = sorted(p.parent for p in CASES.glob("*/expected.yaml"))
    start = time.perf_counter()
    knowledge = load()
    loaded = time.perf_counter() - start
    times = []
    for folder in folders:
        start = time.perf_counter()
        examine(open_path(str(folder)), knowledge)
        times.append(time.perf_counter() - start)
    times.sort()
    yield f"knowledge {loaded * 1e3:.0f} ms; {len(folders)} cases, {len(folders) / sum(times):.0f} a second, median {times[len(times) // 2] * 1e3:.1f} ms, slowest {times[-1] * 1e3:.0f} ms"
