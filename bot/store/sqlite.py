"""Cases in SQLite: the embedded store. Implements `ports.CaseStore`; holds for one process (`bot/app.py` takes a lock on the folder)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from bot.clients.sqlite import Database
from bot.errors import StoreError, VersionConflict
from bot.lifecycle import END
from bot.model import Act, Case
from bot.store.codec import decode, encode

SCHEMA = (
    """
    CREATE TABLE cases (id TEXT PRIMARY KEY, version INTEGER NOT NULL, state TEXT NOT NULL, created_at TEXT NOT NULL, body TEXT NOT NULL) STRICT;
    CREATE INDEX cases_by_time ON cases (created_at);
    CREATE TABLE case_keys (key TEXT PRIMARY KEY, case_id TEXT NOT NULL REFERENCES cases (id)) STRICT;
    CREATE TABLE buttons (id TEXT PRIMARY KEY, case_id TEXT NOT NULL REFERENCES cases (id)) STRICT;
    CREATE TABLE seen (key TEXT PRIMARY KEY, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP) STRICT;
    CREATE TABLE flags (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT
    """,
    "CREATE TABLE acts (id TEXT PRIMARY KEY, at REAL NOT NULL, cluster TEXT NOT NULL, namespace TEXT NOT NULL) STRICT",
)

_ACTS = "SELECT id, at, cluster, namespace FROM acts"


def _act(row: Any) -> Act:
    return Act(row[0], datetime.fromtimestamp(row[1], UTC), row[2], row[3])


class SqliteStore:
    """See `ports.CaseStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.migrate("store", SCHEMA)

    def create(self, case: Case, key: str) -> tuple[Case, bool]:
        with self._database.write() as connection:
            row = connection.execute("SELECT body FROM cases JOIN case_keys ON case_id = id WHERE key = ?", (key,)).fetchone()
            if row:
                return decode(row[0]), False
            kept = replace(case, version=1)
            connection.execute("INSERT INTO cases VALUES (?, ?, ?, ?, ?)", (kept.id, 1, kept.state.value, kept.created_at.isoformat(), encode(kept)))
            connection.execute("INSERT INTO case_keys VALUES (?, ?)", (key, kept.id))
            connection.executemany("INSERT OR IGNORE INTO buttons VALUES (?, ?)", [(button.id, kept.id) for button in kept.buttons])
            return kept, True

    def get(self, case_id: str) -> Case | None:
        return self._first("SELECT body FROM cases WHERE id = ?", case_id)

    def save(self, case: Case) -> Case:
        kept = replace(case, version=case.version + 1)
        with self._database.write() as connection:
            changed = connection.execute(
                "UPDATE cases SET version = ?, state = ?, body = ? WHERE id = ? AND version = ?", (kept.version, kept.state.value, encode(kept), case.id, case.version)
            )
            if changed.rowcount != 1:
                raise VersionConflict(f"case {case.id} is not at version {case.version} any more")
            connection.executemany("INSERT OR IGNORE INTO buttons VALUES (?, ?)", [(button.id, kept.id) for button in kept.buttons])
        return kept

    def find_button(self, button_id: str) -> Case | None:
        return self._first("SELECT body FROM cases JOIN buttons ON case_id = cases.id WHERE buttons.id = ?", button_id)

    def open_cases(self) -> Sequence[Case]:
        marks = ", ".join("?" * len(END))
        rows = self._database.read(f"SELECT body FROM cases WHERE state NOT IN ({marks}) ORDER BY created_at, id", sorted(END))  # noqa: S608 question marks only
        return [decode(row[0]) for row in rows]

    def recent(self, limit: int = 20) -> Sequence[Case]:
        return [decode(row[0]) for row in self._database.read("SELECT body FROM cases ORDER BY created_at DESC, id DESC LIMIT ?", (limit,))]

    def seen(self, key: str) -> bool:
        with self._database.write() as connection:
            return connection.execute("INSERT OR IGNORE INTO seen (key) VALUES (?)", (key,)).rowcount == 0

    def acts(self, since: datetime) -> Sequence[Act]:
        return [_act(row) for row in self._database.read(f"{_ACTS} WHERE at > ?", (since.timestamp(),))]

    def record_act(self, act: Act, since: datetime, allowed: Callable[[Sequence[Act]], None]) -> None:
        with self._database.write() as connection:  # the write lock is held from the start: nobody else is counted in between
            if connection.execute("SELECT 1 FROM acts WHERE id = ?", (act.id,)).fetchone():
                return
            allowed([_act(row) for row in connection.execute(f"{_ACTS} WHERE at > ?", (since.timestamp(),))])
            connection.execute("INSERT INTO acts VALUES (?, ?, ?, ?)", (act.id, act.at.timestamp(), act.cluster, act.namespace))

    def get_flag(self, name: str) -> str | None:
        rows = self._database.read("SELECT value FROM flags WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else None

    def set_flag(self, name: str, value: str | None) -> None:
        with self._database.write() as connection:
            if value is None:
                connection.execute("DELETE FROM flags WHERE name = ?", (name,))
            else:
                connection.execute("INSERT INTO flags VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (name, value))

    def _first(self, statement: str, value: str) -> Case | None:
        rows = self._database.read(statement, (value,))
        if len(rows) > 1:
            raise StoreError("two cases where one was expected")
        return decode(rows[0][0]) if rows else None
