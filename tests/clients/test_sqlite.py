"""The file that every part keeps its tables in, opened while another process writes to it."""

import sqlite3
import threading
from pathlib import Path

import pytest

from bot.clients.sqlite import Database
from bot.errors import StoreError


def holding(path: Path) -> sqlite3.Connection:
    """A connection of the first opener of a new file, in the middle of its first transaction, before the file is in write-ahead mode."""
    first = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    first.execute("CREATE TABLE first (number INTEGER)")
    first.execute("BEGIN IMMEDIATE")
    first.execute("INSERT INTO first VALUES (1)")
    return first


def test_a_new_file_that_another_holds_is_waited_for(tmp_path: Path) -> None:
    first = holding(tmp_path / "oombot.db")
    threading.Timer(0.2, lambda: first.execute("COMMIT")).start()
    database = Database(tmp_path / "oombot.db")
    assert database.read("SELECT number FROM first") == [(1,)]
    assert database.read("PRAGMA journal_mode") == [("wal",)]


def test_a_new_file_that_another_never_lets_go_is_one_error(tmp_path: Path) -> None:
    first = holding(tmp_path / "oombot.db")
    with pytest.raises(StoreError, match="database is locked"):
        Database(tmp_path / "oombot.db", wait_s=0.1)
    first.execute("ROLLBACK")
    assert Database(tmp_path / "oombot.db").read("PRAGMA journal_mode") == [("wal",)]


def test_many_that_open_a_new_file_at_once_all_open_it(tmp_path: Path) -> None:
    opened: list[str] = []
    for number in range(20):
        path, gate = tmp_path / f"{number}.db", threading.Barrier(8)

        def begin(path: Path = path, gate: threading.Barrier = gate) -> None:
            gate.wait()
            Database(path).close()
            opened.append(path.name)

        threads = [threading.Thread(target=begin) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(opened) == 160
