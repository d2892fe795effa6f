"""`oombot freeze [--off | --status]`: the kill switch from a terminal, in the data folder itself: it works while the bot runs, while it does not, and while Slack is down.

Whoever may write into that folder may use it; nobody else is asked. The audit trail names the account.
"""

import argparse
from pathlib import Path


def main(argv: list[str]) -> int:
    """0; 2 with one line when there is no such folder."""
    parser = argparse.ArgumentParser(prog="oombot freeze", description="Stop every change at once, also steps of a plan that is being carried out; reading goes on.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--off", action="store_true", help="allow changes again")
    what.add_argument("--status", action="store_true", help="only say whether changes are stopped")
    parser.add_argument("--config", metavar="FILE", help="settings file (default: oombot.yaml)")
    parser.add_argument("--data-dir", metavar="FOLDER", help="folder of the database (default: that of the settings)")
    arguments = parser.parse_args(argv)
    from bot.settings import Settings

    settings = Settings.load(arguments.config)
    folder = Path(arguments.data_dir) if arguments.data_dir else settings.data_dir
    return _turn(folder, settings.audit_key.get_secret_value(), off=arguments.off, only_say=arguments.status)


def _turn(folder: Path, key: str, *, off: bool, only_say: bool) -> int:
    from bot.audit import AuditTrail, load_key
    from bot.cases import switch
    from bot.clients.process_identity import account
    from bot.clients.sqlite import Database
    from bot.clock import SystemClock
    from bot.errors import BadInput
    from bot.redact import redact
    from bot.store.sqlite import SqliteStore

    if not folder.is_dir():
        raise BadInput(f"{folder}: no such folder; --data-dir or the setting data_dir names it")
    if not (folder / "oombot.db").exists():  # a switch that no bot looks at would be worse than none
        raise BadInput(f"{folder}: no bot has kept anything there (no oombot.db); --data-dir or the setting data_dir names its folder")
    store, clock = SqliteStore(Database(folder / "oombot.db")), SystemClock()
    if not only_say:
        event = switch.turn(store, clock, f"terminal:{account()}", on=not off)
        AuditTrail(folder / "audit.jsonl", load_key(folder / "audit.key", key), clock, store, redact).append(event)
    frozen = switch.state(store)
    print(f"frozen by {frozen[0]} since {frozen[1]}: nothing is changed" if frozen else "not frozen: what the policy allows may be changed")
    return 0
