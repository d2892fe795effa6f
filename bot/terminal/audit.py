"""`oombot audit verify | show | export`: whether the trail is whole, what stands in it, and all of it for another system. It only reads."""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bot.audit import AuditTrail


def main(argv: list[str]) -> int:
    """Exit status 0; 1 when `verify` found something."""
    arguments = _parser().parse_args(argv)
    trail = _trail(arguments.config, arguments.data_dir)
    if arguments.what == "verify":
        return _verify(trail, arguments.head)
    chosen = (entry for entry in trail.entries() if not arguments.case or entry["event"].get("case") == arguments.case)
    if arguments.what == "show":
        return _show(chosen, arguments.last)
    return _export(chosen, arguments.format)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="oombot audit", description="The audit trail: who asked, who approved, what was shown, what was sent, what came back.")
    where = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)  # may stand before the word and behind it
    for options in (parser, where):
        options.add_argument("--config", metavar="FILE", help="settings file (default: oombot.yaml)")
        options.add_argument("--data-dir", metavar="FOLDER", help="folder of the trail (default: that of the settings)")
    commands = parser.add_subparsers(dest="what", required=True, metavar="verify | show | export")
    verify = commands.add_parser("verify", parents=[where], help="say whether it was edited, cut, truncated or rewritten, and where")
    verify.add_argument("--head", help="a head that was posted in a thread, NUMBER:HASH; the start of the hash is enough")
    for name, meaning in (("show", "the newest entries, one a line"), ("export", "all entries, for another system")):
        command = commands.add_parser(name, parents=[where], help=meaning)
        command.add_argument("--case", help="only this case")
        if name == "show":
            command.add_argument("--last", type=int, default=50, help="how many (default 50)")
        else:
            command.add_argument("--format", choices=("json", "csv"), default="json", help="json: the entries as they stand, one a line; csv: a table with a row of names (default json)")
    return parser


def _trail(config: str | None, data_dir: str | None) -> "AuditTrail":
    from pathlib import Path

    from bot.audit import AuditTrail, load_key
    from bot.clients.sqlite import Database
    from bot.clock import SystemClock
    from bot.errors import BadInput
    from bot.settings import Settings
    from bot.store.sqlite import SqliteStore

    settings = Settings.load(config)
    folder = Path(data_dir) if data_dir else settings.data_dir
    if not folder.is_dir():
        raise BadInput(f"{folder}: no such folder; --data-dir or the setting data_dir names it")
    key = load_key(folder / "audit.key", settings.audit_key.get_secret_value(), make=False)
    store = SqliteStore(Database(folder / "oombot.db")) if (folder / "oombot.db").exists() else None
    return AuditTrail(folder / "audit.jsonl", key, SystemClock(), store)


def _verify(trail: "AuditTrail", posted: str | None) -> int:
    from bot.audit import Head
    from bot.errors import BadInput

    head = Head.parse(posted)
    if posted and head is None:
        raise BadInput(f"--head {posted}: should be NUMBER:HASH, as posted with an outcome")
    problems = trail.verify(head)
    for problem in problems:
        print(f"{trail.path}:{problem.line}: {problem.what}" if problem.line else f"{trail.path}: {problem.what}", file=sys.stderr)
    if problems:
        return 1
    count = sum(1 for _ in trail.entries())
    print(f"{trail.path}: {count} entries, whole; head {trail.head() or 'none'}")
    return 0


def _show(entries: Iterable[Mapping[str, Any]], last: int) -> int:
    from collections import deque

    for entry in deque(entries, maxlen=max(last, 0)):
        event = dict(entry["event"])
        words = " ".join(f"{key}={value if isinstance(value, (str, int)) else json.dumps(value, ensure_ascii=False)}" for key, value in event.items() if key != "what")
        print(_visible(f"{entry['n']} {entry['at']} {event.get('what', '')} {words}"))
    return 0


def _visible(text: str) -> str:
    """One line that does nothing to a terminal: what an entry quotes may come from a log."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text)


COLUMNS = ("what", "case", "target", "cluster", "who")


def _export(entries: Iterable[Mapping[str, Any]], form: str) -> int:
    import csv

    if form == "json":
        for entry in entries:
            print(json.dumps(entry, ensure_ascii=True, sort_keys=True))
        return 0
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(("n", "at", *COLUMNS, "more", "prev", "mac"))
    for entry in entries:
        event = entry["event"]
        more = json.dumps({name: value for name, value in event.items() if name not in COLUMNS}, ensure_ascii=False, sort_keys=True)
        table.writerow([_cell(value) for value in (entry["n"], entry["at"], *(event.get(name, "") for name in COLUMNS), more, entry["prev"], entry["mac"])])
    return 0


def _cell(value: object) -> str:
    """A cell that a spreadsheet takes for text: a name from a cluster that begins like a formula is none."""
    text = _visible(str(value))
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
