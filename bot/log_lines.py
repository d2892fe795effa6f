"""How the process writes to standard error: one line an event, secrets taken out of it. Standard output belongs to the commands."""

import logging
import sys

from bot.redact import redact

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
QUIET = ("urllib3", "kubernetes", "paramiko", "slack_bolt", "slack_sdk", "httpx", "uvicorn")  # their word is wanted only when something is wrong


class Redacting(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record).encode("utf-8", "backslashreplace")).decode("utf-8", "replace")


def set_up(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Redacting(FORMAT))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, getattr(logging, level.upper())))
