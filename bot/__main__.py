"""The command line: `oombot COMMAND ...`. Each command is one file in `bot/terminal/`, imported only when it is asked for (start-up is a feature)."""

import atexit
import gc
import importlib
import sys

from bot import __version__

COMMANDS = {
    "serve": "start the bot (Slack, webhooks)",
    "demo": "start the bot against a sandbox on this machine",
    "check": "diagnose a live pod, workload or node",
    "diagnose": "diagnose evidence files",
    "collect": "write the evidence of a live target into a folder",
    "size": "what if: the memory ledger with other settings",
    "explain": "what we know of a cause or of a log line",
    "lint": "check everything under playbooks/",
    "freeze": "stop every change at once, or allow them again",
    "audit": "verify, show or export the audit trail",
}


def usage() -> str:
    rows = "\n".join(f"  {name:10}{text}" for name, text in COMMANDS.items())
    return f"usage: oombot COMMAND ...\n\n{rows}\n\n`oombot COMMAND --help` says more. `oombot --version` prints the version."


def main(argv: list[str] | None = None) -> int:
    """Runs one command and gives its exit status: 0, 1 (the command's own "no"), or 2 (bad usage or input)."""
    words = sys.argv[1:] if argv is None else argv
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        print(f"oombot {__version__}")
        return 0
    if words[0] not in COMMANDS:
        print(f"oombot: no command {words[0]!r}; one of: {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    gc.set_threshold(50_000, 20, 20)  # a start makes many objects that stay; to look for rubbish among them every 700 costs a twentieth of it
    atexit.register(gc.freeze)  # nor does the end need to look for rubbish: it all goes
    from bot.errors import BadSettings, KnowledgeError, OombotError

    command = importlib.import_module(f"bot.terminal.{words[0]}")
    try:
        return int(command.main(words[1:]))
    except (KnowledgeError, BadSettings) as wrong:
        for mistake in wrong.mistakes:
            print(f"oombot: {mistake}", file=sys.stderr)
    except OombotError as wrong:
        print(f"oombot: {wrong}", file=sys.stderr)
    except KeyboardInterrupt:
        print("oombot: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 141
    return 2


if __name__ == "__main__":
    sys.exit(main())
