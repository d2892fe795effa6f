"""`python -m bench [start-up] [throughput] [scan] [burying]`: runs the named measurements, all of them without a name. `python -m bench kills --help` is apart."""

import argparse
import importlib
import sys

# Imported when they are asked for: on Linux a child's peak of memory begins with that of its parent, which therefore has to be small.
MEASUREMENTS = {"scan": "bench.scan", "start-up": "bench.start_up", "throughput": "bench.throughput", "burying": "bench.burying"}


def main() -> int:
    if sys.argv[1:2] == ["kills"]:  # minutes long and with options of its own: never among "all of them"
        return int(importlib.import_module("bench.kills").main(sys.argv[2:]))
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure start-up, throughput, the log scan and answers to buried logs; prints ratios within this run."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(MEASUREMENTS)} (default: all)")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in MEASUREMENTS:
            print(f"bench: no measurement {name!r}; one of: {', '.join(MEASUREMENTS)}", file=sys.stderr)
            return 2
    for name in arguments.names or MEASUREMENTS:
        for line in importlib.import_module(MEASUREMENTS[name]).measure():
            print(f"{name:12}{line}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
