"""`oombot lint [FOLDER]`: checks everything under playbooks/ and prints every mistake at once, each with file and line."""

import argparse
import sys
from pathlib import Path


def main(argv: list[str]) -> int:
    """0 when nothing is wrong, 1 when something is, 2 for a folder that is not there."""
    parser = argparse.ArgumentParser(prog="oombot lint", description="Check the playbooks: shapes, names, examples, speed of patterns.")
    parser.add_argument("folder", nargs="?", type=Path, help="a folder like playbooks/ (default: the one that oombot uses)")
    asked = parser.parse_args(argv)
    if asked.folder is not None and not asked.folder.is_dir():
        print(f"oombot: {asked.folder}: no such folder", file=sys.stderr)
        return 2
    from bot.diagnosis.causes import FAMILIES
    from bot.playbooks import folder, load
    from bot.playbooks.proof import mistakes
    from bot.remediation import metrics, recipes

    where = asked.folder or folder()
    found = mistakes(asked.folder)
    remedies = () if found else load(asked.folder).remedies
    found += [*recipes.mistakes(where / "remediations", remedies), *metrics.mistakes(where / "metrics", [cause for causes in FAMILIES.values() for cause in causes], remedies)]
    for line in found:
        print(line)
    if found:
        print(f"{len(found)} mistake{'s' if len(found) > 1 else ''} in {where}", file=sys.stderr)
        return 1
    knowledge = load(asked.folder)
    print(f"{len(knowledge.messages)} log messages, {len(knowledge.signatures)} signatures, {len(knowledge.remedies)} remedies: nothing wrong")
    return 0
