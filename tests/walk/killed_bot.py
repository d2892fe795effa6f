"""A whole bot in a process of its own, for a test that kills it with -9 (`tests/walk/killing.py`).

Store, queue, audit trail and use-cases are the real ones. The cluster and the chat live in a database of their own that outlives the bot, as the real
ones do: what arrived there has arrived, also when the bot never learned of it.
"""

import itertools
import random
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from bot.audit import AuditTrail
from bot.cases import Cases, Timings
from bot.clients.sqlite import Database
from bot.clock import SystemClock
from bot.model import Actor, Case, Conversation, Remediation, Rollout, Words, Written
from bot.queue.sqlite import SqliteQueue
from bot.store.sqlite import SqliteStore
from tests.walk.world import POLICY, ListedPeople, NamedCluster, SmallWorld

SCHEMA = (
    """
    CREATE TABLE value (value INTEGER NOT NULL) STRICT;
    INSERT INTO value VALUES (131072);
    CREATE TABLE writes (n INTEGER PRIMARY KEY, mark TEXT NOT NULL, what TEXT NOT NULL) STRICT;
    CREATE TABLE messages (n INTEGER PRIMARY KEY, case_id TEXT NOT NULL, purpose TEXT NOT NULL, state TEXT NOT NULL) STRICT;
    CREATE TABLE whispers (n INTEGER PRIMARY KEY, who TEXT NOT NULL, key TEXT NOT NULL) STRICT
    """,
)
SLOW_S = 0.04
STEPS = 3


class OutsideWorld(SmallWorld):
    """The small world, kept outside of the process. Every call takes a moment before and after, so that a kill may hit any point."""

    def __init__(self, folder: Path) -> None:
        super().__init__(steps=STEPS)
        self.database = Database(folder / "world.db")
        self.database.migrate("world", SCHEMA)
        self._random = random.Random()
        self.on_call = lambda _name: self.pause()

    def pause(self) -> None:
        time.sleep(self._random.uniform(0, SLOW_S))

    def rows(self, statement: str) -> list[Any]:
        return self.database.read(statement)

    def _differences(self, remediation: Remediation) -> Any:
        self.value = int(self.rows("SELECT value FROM value")[0][0])
        return super()._differences(remediation)

    def plan(self, *words: Any, **more: Any) -> Any:
        self.value = int(self.rows("SELECT value FROM value")[0][0])
        return super().plan(*words, **more)

    def foresee(self, *words: Any, **more: Any) -> Any:
        self.value = int(self.rows("SELECT value FROM value")[0][0])
        return super().foresee(*words, **more)

    def plan_undo(self, *words: Any, **more: Any) -> Any:
        self.value = int(self.rows("SELECT value FROM value")[0][0])
        return super().plan_undo(*words, **more)

    def execute_step(self, remediation: Remediation, index: int, operation_id: str, writer: Any) -> Written:
        self.pause()
        mark = f"{operation_id}/{index}"
        with self.database.write() as connection:
            if not connection.execute("SELECT 1 FROM writes WHERE mark = ?", (mark,)).fetchone():
                connection.execute("INSERT INTO writes (mark, what) VALUES (?, ?)", (mark, f"{remediation.direction}:{index}"))
                connection.execute("UPDATE value SET value = ?", (remediation.steps[index].patch[0]["value"],))
        self.pause()
        return Written(str(remediation.object))

    def observe(self, remediation: Remediation, reader: Any, there: Collection[str]) -> Rollout:
        self.pause()
        return self.rollout


class OutsideChat:
    """Keeps what arrived. As Slack's, it looks for a post of which it is not known whether it arrived."""

    def __init__(self, world: OutsideWorld) -> None:
        self._world = world

    def post(self, case: Case, purpose: str) -> str:
        self._world.pause()
        with self._world.database.write() as connection:
            found = connection.execute("SELECT n FROM messages WHERE case_id = ? AND purpose = ?", (case.id, purpose)).fetchone()
            if found and case.posts.get(purpose) == "":
                return f"m{found[0]}"
            made = connection.execute("INSERT INTO messages (case_id, purpose, state) VALUES (?, ?, ?)", (case.id, purpose, case.state.value)).lastrowid
        self._world.pause()
        return f"m{made}"

    def update(self, case: Case, purpose: str, message: str) -> None:
        self._world.pause()
        with self._world.database.write() as connection:
            connection.execute("UPDATE messages SET state = ? WHERE n = ?", (case.state.value, int(message[1:])))

    def whisper(self, actor: Actor, conversation: Conversation, words: Words) -> None:
        with self._world.database.write() as connection:
            connection.execute("INSERT INTO whispers (who, key) VALUES (?, ?)", (actor.id, words.key))


class Bot:
    """One process's parts. `keys` makes ids of requests and presses."""

    def __init__(self, folder: Path) -> None:
        clock, database = SystemClock(), Database(folder / "oombot.db")
        self.world = OutsideWorld(folder)
        self.store = SqliteStore(database)
        self.queue = SqliteQueue(database, clock, workers=3, lease_s=60)
        self.audit = AuditTrail(folder / "audit.jsonl", b"k" * 32, clock, self.store)
        chat, people = OutsideChat(self.world), ListedPeople()
        cluster = {"prod": NamedCluster()}
        quick: dict[str, Any] = {"timings": Timings(), "engine": self.world.engine()}
        self.cases = Cases(self.store, self.queue, cluster, cluster, None, chat, people, POLICY, None, self.audit, clock, **quick)
        self.keys: Callable[[], int] = itertools.count(1).__next__

    def run(self) -> None:
        self.cases.bind(self.queue)
        self.queue.start()
        self.cases.resume()
