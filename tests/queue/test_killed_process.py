"""A job whose process was killed with -9 is picked up at the next start at once, though its lease would hold for minutes."""

import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from bot.clients import process_identity
from bot.clients.sqlite import Database
from bot.model import Job
from bot.queue.sqlite import SqliteQueue

ROOT = Path(__file__).parents[2]


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


def start_worker(folder: Path) -> "subprocess.Popen[str]":
    worker = subprocess.Popen([sys.executable, "-m", "tests.queue.killed_worker", str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "running c1\n"
    return worker


def open_queue(folder: Path) -> SqliteQueue:
    return SqliteQueue(Database(folder / "oombot.db"), SystemClock(), workers=1, lease_s=300)


def test_the_job_of_a_killed_process_runs_at_once_in_the_next(tmp_path: Path) -> None:
    open_queue(tmp_path).put(Job("check", "c1"))
    worker = start_worker(tmp_path)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    ran = threading.Event()
    queue = open_queue(tmp_path)
    queue.register("check", lambda _job: ran.set())
    queue.start()
    assert ran.wait(5)
    queue.stop()


def test_the_job_of_a_living_process_is_left_to_it(tmp_path: Path) -> None:
    open_queue(tmp_path).put(Job("check", "c1"))
    worker = start_worker(tmp_path)
    ran = threading.Event()
    queue = open_queue(tmp_path)
    queue.register("check", lambda _job: ran.set())
    queue.start()
    assert not ran.wait(1)
    queue.stop()
    worker.kill()
    worker.wait()


def test_a_job_that_kills_its_process_each_time_is_given_up(tmp_path: Path) -> None:
    database = Database(tmp_path / "oombot.db")
    queue = open_queue(tmp_path)
    queue.put(Job("check", "c1"))
    with database.write() as connection:
        connection.execute("UPDATE jobs SET attempts = 15")
    given_up: list[Job] = []
    queue.register("check", lambda _job: None, attempts=5)
    queue.register("given_up", given_up.append)
    queue.start()
    end = time.monotonic() + 5
    while not given_up and time.monotonic() < end:
        time.sleep(0.02)
    queue.stop()
    assert "was begun 15 times and never ended" in given_up[0].parameters["error"]


def test_a_process_id_that_is_used_again_is_another_process() -> None:
    mine = process_identity.mine()
    assert process_identity.lives(mine)
    assert not process_identity.lives(mine.partition(":")[0] + ":12345@another-boot")
    assert not process_identity.lives("not a process")
