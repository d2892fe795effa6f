"""`python -m bench kills [--points N] [--serve N] [--real N] [--endpoints N] [--seed S] [--side-by-side J]`: the bot is killed with -9 at seeded random moments, again and again.

Points are kills. Most are in the small world of tests/walk (real use-cases, store, queue and audit trail; a cluster that counts its writes), some are of
`oombot serve` against the whole sandbox, some on the real API server, whose own audit log counts the writes; there a round is several workloads side by
side, and one control plane serves all rounds; and some are before a Databricks workspace, which counts the updates that it accepted. After each round: is the end right, was each write done once, is nothing said twice, is the audit trail whole?
"""

import argparse
import atexit
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.walk.killed_cluster import ClusterRound, Fleet
from tests.walk.killed_endpoint import EndpointRound
from tests.walk.killed_serve import Outside
from tests.walk.killing import Round, Tally

AS_MANY_AS_IT_TAKES = 10_000
A_ROUND = 8  # kills of `oombot serve` within one round
LONGEST_S = 5.0  # that it lives between two of them, so that they fall all over the round


def main(argv: list[str]) -> int:
    """0 when nothing was wrong, else 1."""
    parser = argparse.ArgumentParser(prog="python -m bench kills", description=(__doc__ or "").partition("\n\n")[2].strip())
    parser.add_argument("--points", type=int, default=1000, help="kills in the small world (default 1000)")
    parser.add_argument("--replicas", type=int, default=1, help="bots that work on one store at a time, but for --serve (default 1)")
    parser.add_argument("--serve", type=int, default=0, help="kills of `oombot serve` against the sandbox (default 0)")
    parser.add_argument("--real", type=int, default=0, help="kills on the real API server, several workloads side by side (default 0; needs `make control-plane`)")
    parser.add_argument("--endpoints", type=int, default=0, help="kills before a Databricks workspace, several endpoints side by side (default 0)")
    parser.add_argument("--seed", type=int, default=1, help="the first round's seed; each round takes the next")
    parser.add_argument("--side-by-side", type=int, default=2, help="rounds in the small world at a time (default 2)")
    asked = parser.parse_args(argv)
    lanes: list[tuple[str, int, Callable[[int], Tally], int]] = [
        ("small world", asked.points, partial(small, replicas=asked.replicas), asked.side_by_side),
        ("serve", asked.serve, serve, 1),
        ("real API server", asked.real, Real(asked.replicas), 1),
        ("endpoints", asked.endpoints, partial(endpoints, replicas=asked.replicas), 1),
    ]
    wrong = 0
    for name, points, play, width in lanes:
        if points:
            wrong += _lane(name, points, play, asked.seed, width)
    return 1 if wrong else 0


def _lane(name: str, points: int, play: Callable[[int], Tally], seed: int, width: int) -> int:
    """Rounds until there are as many kills as asked for; prints the figures and what was wrong, and gives how many things were."""
    began, whole, rounds = time.monotonic(), Tally(), 0
    for number, tally in _rounds(points, play, seed, width, whole):
        rounds += 1
        whole.kills += tally.kills
        whole.writes += tally.writes
        whole.at += tally.at
        whole.wrong += [f"seed {number}: {each}" for each in tally.wrong]
        print(f"{name}: seed {number}, {tally.kills} kills, {whole.kills} in all, {len(whole.wrong)} wrong, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    took = time.monotonic() - began
    print(f"{name:16}{whole.kills} kills in {rounds} rounds, {whole.writes} writes arrived, {len(whole.wrong)} wrong; {took:.0f} s, seeds {seed} to {seed + rounds - 1}")
    print(f"{'':16}killed while: {_shares(whole.at)}")
    for each in whole.wrong:
        print(f"{'':16}WRONG {each}", file=sys.stderr)
    return len(whole.wrong)


def _rounds(points: int, play: Callable[[int], Tally], seed: int, width: int, whole: Tally) -> Iterator[tuple[int, Tally]]:
    with ThreadPoolExecutor(width) as pool:
        running = [(seed + ahead, pool.submit(play, seed + ahead)) for ahead in range(width)]
        number = seed + width
        while running:
            this, future = running.pop(0)
            yield this, _outcome(future.result)
            if whole.kills < points and not whole.wrong:  # what is wrong once is looked at before more is spent
                running.append((number, pool.submit(play, number)))
                number += 1


def _outcome(result: Callable[[], Tally]) -> Tally:
    try:
        return result()
    except (TimeoutError, AssertionError) as wrong:
        return Tally(wrong=[f"{type(wrong).__name__}: {wrong}"])


def _shares(at: Counter[str]) -> str:
    return ", ".join(f"{state} {count}" for state, count in at.most_common())


# ---------------------------------------------------------------- the lanes


def small(seed: int, replicas: int = 1) -> Tally:
    with tempfile.TemporaryDirectory(prefix="oombot-kills-") as folder:
        return Round(Path(folder), seed, AS_MANY_AS_IT_TAKES, replicas).go()


def endpoints(seed: int, replicas: int = 1) -> Tally:
    with tempfile.TemporaryDirectory(prefix="oombot-kills-") as folder:
        return EndpointRound(Path(folder), seed, AS_MANY_AS_IT_TAKES, replicas=replicas).go()


def serve(seed: int) -> Tally:
    return _played(Outside(seed, A_ROUND, longest_s=LONGEST_S))


class Real:
    """The real API server: one control plane for all rounds, started at the first."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas
        self._fleet: Fleet | None = None

    def __call__(self, seed: int) -> Tally:
        if self._fleet is None:
            self._fleet = Fleet()
            atexit.register(self._fleet.stop)
            self._fleet.start()
        with tempfile.TemporaryDirectory(prefix="oombot-kills-") as folder:
            return ClusterRound(self._fleet, Path(folder), seed, AS_MANY_AS_IT_TAKES, replicas=self._replicas).go()


def _played(outside: Outside) -> Tally:
    try:
        outside.start()
        return outside.go()
    finally:
        outside.end()
