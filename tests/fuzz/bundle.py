"""Guided fuzzing of a whole diagnosis, by hand and for as long as you say: every crash found becomes a test.

    pip install atheris
    python -m tests.fuzz.bundle [-max_total_time=120] [other options of libFuzzer]

The first byte chooses the file, the rest is its content; the labelled cases are where it starts from.
"""

import json
import sys
import tempfile
from functools import partial
from io import BytesIO
from pathlib import Path

CASES = Path(__file__).parent.parent / "cases"
SECONDS = 60


def main() -> int:
    try:
        import atheris
    except ImportError:
        print("fuzz: needs atheris: pip install atheris", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=["bot"]):
        from bot.evidence.bundle import NAMES
        from bot.incident import examine, to_json
        from bot.model import Bundle, BundleFile
        from bot.playbooks import load
        from bot.terminal.text import note
    knowledge = load()

    def one(data: bytes) -> None:
        name = NAMES[data[0] % len(NAMES)] if data else NAMES[0]
        found = examine(Bundle("fuzz", {name: BundleFile(name, partial(BytesIO, data[1:]))}), knowledge)
        json.dumps(to_json("fuzz", found), allow_nan=False)
        note("fuzz", found, "zh")

    with tempfile.TemporaryDirectory() as seeds:
        for number, file in enumerate(sorted(CASES.glob("*/*"))):
            if file.name in NAMES:
                Path(seeds, str(number)).write_bytes(bytes([NAMES.index(file.name)]) + file.read_bytes())
        options = sys.argv[1:] or [f"-max_total_time={SECONDS}"]
        atheris.Setup([sys.argv[0], "-max_len=20000", "-timeout=20", "-rss_limit_mb=2048", *options, seeds], one)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
