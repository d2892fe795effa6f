"""Every labelled log buried in 50,000 lines, each way: how many answers stay what they were, and how long one takes."""

import os
import time
from collections.abc import Iterator

from tests.logs.buried_cases import answers, buried_answers, cases

LINES = int(os.environ.get("BENCH_BURY_LINES", 50_000))
SEEDS = int(os.environ.get("BENCH_BURY_SEEDS", 1))


def measure() -> Iterator[str]:
    drawn, changed, begin = 0, [], time.perf_counter()
    for case in cases():
        before = answers(case)
        for seed in range(SEEDS):
            for way, after in buried_answers(case, LINES, seed):
                drawn += 1
                if not after.holds(before):
                    changed.append(f"{case.name}, {way}, seed {seed}: {before} became {after}")
    yield from changed
    took = time.perf_counter() - begin
    yield f"{drawn} burials in {LINES} lines, {len(changed)} answers changed (aim: 0); {took / max(1, drawn) * 1e3:.0f} ms each, making them included"
