"""A whole bot in front of a Databricks workspace, in a process of its own, for a harness that kills it with -9 (`tests/walk/killed_endpoint.py`)."""

import logging
import time
from multiprocessing.connection import Connection
from pathlib import Path

from bot.clients.databricks import DatabricksReader, Workspace
from bot.clients.databricks_writer import DatabricksWriter
from tests.walk.cluster_bot import WholeBot

NAME = "dbx"


class EndpointBot(WholeBot):
    """`folder` holds the workspace's address and the two tokens besides what the bot keeps."""

    def __init__(self, folder: Path) -> None:
        host = (folder / "host").read_text()
        writer = DatabricksWriter(Workspace(NAME, host, folder / "manage"))
        super().__init__(folder, DatabricksReader(Workspace(NAME, host, folder / "view")), writer)


def live(folder: str, ready: Connection) -> None:
    """A bot's process."""
    logging.disable(logging.CRITICAL)
    EndpointBot(Path(folder)).run()
    ready.send("runs")
    time.sleep(600)
