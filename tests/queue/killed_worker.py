"""A process that takes a job and does not come to its end: `python -m tests.queue.killed_worker FOLDER`. Its test kills it with -9."""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from bot.clients.sqlite import Database
from bot.model import Job
from bot.queue.sqlite import SqliteQueue


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


def never_ends(job: Job) -> None:
    print("running", job.case_id, flush=True)
    time.sleep(600)


def main() -> None:
    queue = SqliteQueue(Database(Path(sys.argv[1]) / "oombot.db"), SystemClock(), workers=1, lease_s=300)
    queue.register("check", never_ends, time_to_run_s=600)
    queue.start()
    time.sleep(600)


if __name__ == "__main__":
    main()
