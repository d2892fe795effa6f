"""The command line: `oombot COMMAND ...`. Each command is one file in `bot/terminal/`, imported only when it is asked for (start-up is a feature)."""

import atexit
import codecs
import gc
import importlib
import io
import os
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
    """Runs one command and gives its exit status: 0, 1 (the command's own "no"), or 2 (bad usage or input, or an output that cannot be written)."""
    _write_anything()
    from bot.errors import BadSettings, KnowledgeError, OombotError

    try:
        status = _run(sys.argv[1:] if argv is None else argv)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (KnowledgeError, BadSettings) as wrong:
        for mistake in wrong.mistakes:
            print(f"oombot: {mistake}", file=sys.stderr)
    except OombotError as wrong:
        print(f"oombot: {wrong}", file=sys.stderr)
    except KeyboardInterrupt:
        print("oombot: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _let_go_of_output()
        return 141
    except OSError as wrong:  # a full disk behind the output, a home that cannot be written
        _let_go_of_output()
        print(f"oombot: {wrong.filename or 'output'}: {wrong.strerror or wrong}", file=sys.stderr)
    else:
        return status
    return 2


def _run(words: list[str]) -> int:
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
    command = importlib.import_module(f"bot.terminal.{words[0]}")
    try:
        return int(command.main(words[1:]))
    except SystemExit as stop:  # argparse has said what is wrong, or helped
        return int(stop.code or 0)


def _write_anything() -> None:
    """What the terminal's encoding does not have is written as \\uXXXX, which is right in JSON too, and never a reason to fail."""
    codecs.register_error("oombot", _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="oombot")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)), error.end


def _let_go_of_output() -> None:
    """What is still buffered goes nowhere, so that the interpreter's end does not fail at it once more."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
