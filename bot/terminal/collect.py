"""`oombot collect TARGET -o DIR [-n NS] [--cluster C] [-c CONTAINER]`: writes the evidence of a live target into a folder, redacted.

`oombot diagnose DIR` then answers as `oombot check TARGET` did. It only reads the target.
"""

import json

from bot.terminal import live


def main(argv: list[str]) -> int:
    """0 when the folder was written; 2 when the target or the cluster cannot be found or reached, or the folder cannot be used."""
    options = live.parser("collect", "Write the evidence of a live target into a folder, redacted.")
    options.add_argument("-o", "--output", metavar="DIR", required=True, help="a new or empty folder")
    asked = options.parse_args(argv)
    from bot.evidence.bundle import write

    folder = live.empty_folder(asked.output)
    bundle = live.read(live.find(asked))
    with bundle.files["bundle.json"].open() as stream:
        about = json.load(stream)
    write(bundle, folder, about)
    for name in sorted(bundle.files):
        print(f"{folder / name}{'  (cut short)' if bundle.files[name].cut else ''}")
    for gap in bundle.gaps:
        print(live.printable(f"not read: {gap.source}: {gap.reason}"))
    return 0
