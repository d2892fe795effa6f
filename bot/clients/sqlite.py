"""SQLite in write-ahead mode: one connection a thread, short write transactions, and a forward-only schema for each part that keeps tables in the file.

Turns sqlite3's errors into StoreError. Knows no Case and no Job.
"""

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bot.errors import StoreError

Row = tuple[Any, ...]

RETRY_S = 0.01


class Database:
    """One file. `synchronous=FULL`: what was committed survives a power cut, not only a kill. Another writer is waited for `wait_s` seconds."""

    def __init__(self, path: Path, wait_s: float = 10) -> None:
        self.path, self.wait_s = path, wait_s
        self._local = threading.local()
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as wrong:
            raise StoreError(f"{path.parent}: {wrong.strerror or 'cannot be made'}") from wrong
        with self.write() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS schema_versions (part TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT")

    def migrate(self, part: str, scripts: Sequence[str]) -> None:
        """Brings the tables of `part` to the newest version: `scripts[n]` leads from version n to n + 1. Raises StoreError for a file of a newer program."""
        with self.write() as connection:
            row = connection.execute("SELECT version FROM schema_versions WHERE part = ?", (part,)).fetchone()
            version = int(row[0]) if row else 0
            if version > len(scripts):
                raise StoreError(f"{self.path}: {part} has schema version {version}, this program knows {len(scripts)}: start a newer one")
            for script in scripts[version:]:
                for statement in script.split(";"):
                    if statement.strip():
                        connection.execute(statement)
            connection.execute("INSERT INTO schema_versions VALUES (?, ?) ON CONFLICT (part) DO UPDATE SET version = excluded.version", (part, len(scripts)))

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction that takes the write lock at once: all or nothing."""
        with self._errors():
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            with connection:  # commits, or rolls back when something is raised
                yield connection

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        with self._errors():
            return self._connection().execute(statement, values).fetchall()

    def close(self) -> None:
        """Closes this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(self.path, timeout=self.wait_s, isolation_level=None)
            _write_ahead(connection, self.wait_s)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            self._local.connection = connection
        return connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as wrong:
            raise StoreError(f"{self.path}: {wrong}") from wrong


def _write_ahead(connection: sqlite3.Connection, wait_s: float) -> None:
    """Changes a new file to write-ahead mode. SQLite refuses that at once when another connection holds the file, whatever time-out it was given, so that the wait for the other is ours."""
    until = time.monotonic() + wait_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as wrong:
            if wrong.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                connection.close()
                raise
        time.sleep(RETRY_S)
