"""`oombot serve [--config FILE]`: starts the bot and stays until SIGTERM or Ctrl-C."""

import argparse
import logging
import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.app import Application


def main(argv: list[str]) -> int:
    """0 after a clean stop; 2 with one line for each thing that is missing to start."""
    parser = argparse.ArgumentParser(prog="oombot serve", description="Start the bot: Slack, webhooks, and the jobs of open cases.")
    parser.add_argument("--config", metavar="FILE", help="settings file (default: oombot.yaml)")
    arguments = parser.parse_args(argv)
    from bot.app import Application
    from bot.log_lines import set_up
    from bot.settings import Settings

    settings = Settings.load(arguments.config)
    set_up(settings.log_level)
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    application = Application(settings)
    application.start()
    print(_line(application), file=sys.stderr, flush=True)
    stopped.wait()
    logging.getLogger(__name__).info("stopping")
    application.stop()
    return 0


def _line(application: "Application") -> str:
    settings = application.settings
    clusters = ", ".join(f"{name} ({'reads and writes' if name in application.writers else 'reads'})" for name in application.readers)
    actions = ", ".join(settings.policy.actions) or "none: read-only"
    slack = f"{application.url}/slack/events" if settings.slack.mode == "http" else "Socket Mode"
    return f"oombot: ready; Slack by {slack}; clusters: {clusters}; actions: {actions}"
