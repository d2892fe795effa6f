"""`oombot check TARGET [-n NS] [--cluster C] [-c CONTAINER] [--json] [--language zh]`: diagnoses a live pod, workload or node.

Same evidence files, same engine and same output as `collect` and then `diagnose`. It only reads.
"""

import json

from bot.terminal import live


def main(argv: list[str]) -> int:
    """0 whatever the diagnosis; 2 when the target or the cluster cannot be found or reached (one line says what)."""
    options = live.parser("check", "Diagnose a live pod, workload or node. Reads only.")
    options.add_argument("--json", action="store_true", help="one JSON object")
    options.add_argument("--language", choices=("en", "zh"), default="en")
    asked = options.parse_args(argv)
    from bot.incident import examine, to_json
    from bot.playbooks import load

    found = live.find(asked)
    diagnosis = examine(live.read(found), load())
    if asked.json:
        print(json.dumps(to_json(str(found.target), diagnosis), ensure_ascii=False), flush=True)
    else:
        from bot.terminal.text import note

        print(note(str(found.target), diagnosis, asked.language), flush=True)
    return 0
