"""`oombot diagnose PATH... [--json] [--language zh]`: evidence files in, a diagnosis for each out. Needs no network, no configuration, no key."""

import argparse
import json
import sys

from bot.errors import BadInput


def main(argv: list[str]) -> int:
    """0 when every path could be opened, whatever the diagnosis; 2 when one could not (the others are still answered)."""
    parser = argparse.ArgumentParser(prog="oombot diagnose", description="Diagnose bundles (folders), single log files, or - for standard input.")
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--json", action="store_true", help="one JSON object a path, one a line")
    parser.add_argument("--language", choices=("en", "zh"), default="en")
    asked = parser.parse_args(argv)
    from bot.evidence.bundle import open_path
    from bot.incident import examine, to_json
    from bot.playbooks import load

    knowledge = load()
    status = 0
    for number, path in enumerate(asked.paths):
        try:
            bundle = open_path(path)
        except BadInput as wrong:
            print(f"oombot: {wrong}", file=sys.stderr)
            status = 2
            continue
        found = examine(bundle, knowledge)
        if asked.json:
            print(json.dumps(to_json(path, found), ensure_ascii=False), flush=True)
        else:
            from bot.terminal.text import note

            print(("\n" if number else "") + note(path, found, asked.language), flush=True)
    return status
