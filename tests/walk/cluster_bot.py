"""A whole bot on a real API server, in a process of its own, for a harness that kills it with -9 (`tests/walk/killed_cluster.py`).

Everything is the real thing, clients and reasoning included, but for the chat, which lives in a database that outlives the bot. A fork server imports this
module once: what is slow to make and never changes (the parsed playbooks) is made then.
"""

import itertools
import logging
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

from bot import playbooks
from bot.audit import AuditTrail
from bot.cases import Cases, Timings
from bot.cases.engine import real
from bot.clients.kubernetes_config import api_client
from bot.clients.kubernetes_reader import KubernetesReader
from bot.clients.kubernetes_writer import KubernetesWriter
from bot.clients.sqlite import Database
from bot.clock import SystemClock
from bot.evidence import commands
from bot.policy import ApproverRule, Policy, ReadRule
from bot.ports import ClusterReader, ClusterWriter
from bot.queue.sqlite import SqliteQueue
from bot.remediation.actions import ACTIONS
from bot.settings import Access
from bot.store.sqlite import SqliteStore
from tests.walk.killed_bot import OutsideChat, OutsideWorld
from tests.walk.world import ListedPeople

KNOWLEDGE = playbooks.load(None)
POLICY = Policy(
    read=(ReadRule(channels=("COPS",)),), actions=tuple(sorted(ACTIONS)), approvers=(ApproverRule(groups=("SONCALL",)),), approval_channels=("COPS",)
)  # fmt: skip
AFTERCARE = timedelta(seconds=1.5)
QUICK = Timings(
    watch_interval=timedelta(seconds=0.25), watch_timeout=timedelta(seconds=90), verification_window=timedelta(seconds=90),
    verification_interval=timedelta(seconds=0.4), aftercare=AFTERCARE, aftercare_interval=timedelta(seconds=0.4), collect_budget_s=20,
)  # fmt: skip


class WholeBot:
    """One process's parts, in front of one cluster or workspace of any kind."""

    def __init__(self, folder: Path, reader: ClusterReader, writer: ClusterWriter) -> None:
        clock, database = SystemClock(), Database(folder / "oombot.db")
        self.world = OutsideWorld(folder)
        self.store = SqliteStore(database)
        self.queue = SqliteQueue(database, clock, workers=4, lease_s=60)
        self.audit = AuditTrail(folder / "audit.jsonl", b"k" * 32, clock, self.store)
        self.cases = Cases(
            self.store, self.queue, {reader.name: reader}, {writer.name: writer}, None, OutsideChat(self.world), ListedPeople(), POLICY, KNOWLEDGE, self.audit, clock,
            timings=QUICK, engine=real(),
        )  # fmt: skip
        self.keys: Callable[[], int] = itertools.count(1).__next__

    def run(self) -> None:
        self.cases.bind(self.queue)
        self.queue.start()
        self.cases.resume()


class ClusterBot(WholeBot):
    """`folder` holds the two kubeconfigs besides what the bot keeps."""

    def __init__(self, folder: Path) -> None:
        reader = KubernetesReader("prod", api_client(Access(kubeconfig=folder / "reader.kubeconfig")), commands.in_pod)
        super().__init__(folder, reader, KubernetesWriter("prod", api_client(Access(kubeconfig=folder / "remediator.kubeconfig"))))


def live(folder: str, ready: Connection) -> None:
    """A bot's process."""
    logging.disable(logging.CRITICAL)
    ClusterBot(Path(folder)).run()
    ready.send("runs")
    time.sleep(600)
