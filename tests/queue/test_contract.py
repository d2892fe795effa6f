"""What every job queue does. Each test runs for each implementation in QUEUES; a queue that comes later is one more line there."""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.clients.sqlite import Database
from bot.errors import Rejected, TimedOut, VersionConflict
from bot.model import Job
from bot.ports import JobQueue
from bot.queue.sqlite import SqliteQueue


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


QUEUES: dict[str, Callable[[Path], JobQueue]] = {
    "sqlite": lambda folder: SqliteQueue(Database(folder / "oombot.db"), SystemClock(), workers=3, lease_s=0.4, first_pause_s=0.02),
}


@pytest.fixture(params=sorted(QUEUES))
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], JobQueue]]:
    """Opens the same queue again, as the next process would; stops all at the end."""
    opened: list[JobQueue] = []

    def open_queue() -> JobQueue:
        opened.append(QUEUES[request.param](tmp_path))
        return opened[-1]

    yield open_queue
    for queue in opened:
        queue.stop(timeout_s=2)


@pytest.fixture
def queue(opener: Callable[[], JobQueue]) -> JobQueue:
    return opener()


class Ran:
    """Notes the jobs that ran, and waits for them."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self._changed = threading.Condition()

    def __call__(self, job: Job) -> None:
        with self._changed:
            self.jobs.append(job)
            self._changed.notify_all()

    def wait(self, count: int, timeout_s: float = 10) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.jobs) >= count, timeout_s), f"{len(self.jobs)} of {count} jobs ran"


def settled(seconds: float = 0.3) -> None:
    time.sleep(seconds)


def test_a_job_comes_with_its_name_case_and_parameters(queue: JobQueue) -> None:
    ran = Ran()
    queue.register("check", ran)
    queue.put(Job("check", "c1", {"index": "2"}))
    queue.start()
    ran.wait(1)
    assert (ran.jobs[0].name, ran.jobs[0].case_id, ran.jobs[0].parameters) == ("check", "c1", {"index": "2"})


def test_a_job_that_was_put_before_the_end_of_a_process_runs_in_the_next(queue: JobQueue, opener: Callable[[], JobQueue]) -> None:
    queue.put(Job("check", "c1"))
    ran, later = Ran(), opener()
    later.register("check", ran)
    later.start()
    ran.wait(1)


def test_a_job_that_is_done_does_not_run_again_in_the_next_process(queue: JobQueue, opener: Callable[[], JobQueue]) -> None:
    first, second = Ran(), Ran()
    queue.register("check", first)
    queue.start()
    queue.put(Job("check", "c1"))
    first.wait(1)
    queue.stop()
    later = opener()
    later.register("check", second)
    later.start()
    settled()
    assert second.jobs == []


def test_a_job_waits_for_its_time(queue: JobQueue) -> None:
    ran, times = Ran(), []
    queue.register("watch", lambda job: (times.append(time.monotonic()), ran(job))[1])
    queue.start()
    begun = time.monotonic()
    queue.put(Job("watch", "c1", run_at=datetime.now(UTC) + timedelta(seconds=0.4)))
    ran.wait(1)
    assert times[0] - begun >= 0.39


def test_a_waiting_job_of_the_same_key_is_kept_and_the_second_dropped(queue: JobQueue) -> None:
    ran = Ran()
    queue.register("announce", ran)
    for number in range(5):
        queue.put(Job("announce", "c1", {"number": str(number)}, key="announce:c1"))
    queue.put(Job("announce", "c2", key="announce:c2"))
    queue.start()
    ran.wait(2)
    settled()
    assert sorted((job.case_id, job.parameters.get("number")) for job in ran.jobs) == [("c1", "0"), ("c2", None)]


def test_a_missing_job_is_put_once_and_not_beside_one_that_waits_or_runs(queue: JobQueue) -> None:
    ran, begun, release = Ran(), threading.Event(), threading.Event()

    def work(job: Job) -> None:
        begun.set()
        release.wait(5)
        ran(job)

    queue.register("watch", work)
    assert queue.put_missing(Job("watch", "c1", key="watch:c1"))
    assert not queue.put_missing(Job("watch", "c1", key="watch:c1"))
    queue.start()
    begun.wait(5)
    assert not queue.put_missing(Job("watch", "c1", key="watch:c1"))
    release.set()
    ran.wait(1)
    settled()
    assert (len(ran.jobs), queue.put_missing(Job("watch", "c1", key="watch:c1"))) == (1, True)


def test_a_missing_job_is_not_put_while_one_of_its_case_is_being_given_up(queue: JobQueue) -> None:
    queue.put(Job("given_up", "c1", {"job": "check", "error": "no answer"}))
    assert not queue.put_missing(Job("check", "c1", key="check:c1"))
    assert queue.put_missing(Job("check", "c2", key="check:c2"))


def test_a_job_put_while_one_of_its_key_runs_runs_after_it_and_not_beside_it(queue: JobQueue) -> None:
    ran, running, most = Ran(), [0], [0]
    release = threading.Event()

    def work(job: Job) -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        release.wait(5)
        running[0] -= 1
        ran(job)

    queue.register("announce", work)
    queue.start()
    queue.put(Job("announce", "c1", key="k"))
    while not running[0]:
        time.sleep(0.01)
    queue.put(Job("announce", "c1", key="k"))
    settled(0.2)
    release.set()
    ran.wait(2)
    assert most[0] == 1


def test_jobs_without_a_key_run_side_by_side(queue: JobQueue) -> None:
    together = threading.Barrier(3)
    ran = Ran()
    queue.register("check", lambda job: (together.wait(5), ran(job))[1])
    queue.start()
    for number in range(3):
        queue.put(Job("check", f"c{number}"))
    ran.wait(3)


@pytest.mark.parametrize("error", [TimedOut("no answer"), VersionConflict("saved"), KeyError("unforeseen")])
def test_what_may_help_is_tried_again(queue: JobQueue, error: Exception) -> None:
    ran, tries = Ran(), [0]

    def work(job: Job) -> None:
        tries[0] += 1
        if tries[0] < 3:
            raise error
        ran(job)

    queue.register("check", work)
    queue.start()
    queue.put(Job("check", "c1"))
    ran.wait(1)
    assert tries[0] == 3


@pytest.mark.parametrize(("error", "tries", "says"), [
    (TimedOut("no answer"), 3, "no answer"),
    (Rejected("quota exceeded"), 1, "quota exceeded"),
    (KeyError("secret-value"), 3, "internal error (KeyError)"),
])
def test_what_does_not_help_is_given_up_by_name(queue: JobQueue, error: Exception, tries: int, says: str) -> None:
    given_up, begun = Ran(), Ran()

    def work(job: Job) -> None:
        begun(job)
        raise error

    queue.register("check", work, attempts=3)
    queue.register("given_up", given_up)
    queue.start()
    queue.put(Job("check", "c1", {"index": "2"}))
    given_up.wait(1)
    settled()
    assert len(begun.jobs) == tries
    assert given_up.jobs[0].case_id == "c1"
    assert given_up.jobs[0].parameters == {"index": "2", "job": "check", "error": says, "kind": type(error).__name__}


def test_a_job_that_fails_for_ever_does_not_stop_the_others(queue: JobQueue) -> None:
    ran = Ran()

    def broken(_job: Job) -> None:
        raise RuntimeError("always")

    queue.register("broken", broken)
    queue.register("check", ran)
    queue.start()
    for number in range(4):
        queue.put(Job("broken", f"b{number}"))
    queue.put(Job("check", "c1"))
    ran.wait(1)


def test_a_job_that_nobody_knows_is_given_up_and_not_lost_silently(queue: JobQueue) -> None:
    given_up = Ran()
    queue.register("given_up", given_up)
    queue.start()
    queue.put(Job("mystery", "c1"))
    given_up.wait(1)
    assert "mystery" in given_up.jobs[0].parameters["error"]


def test_a_long_job_keeps_its_lease_within_its_time_to_run(queue: JobQueue, opener: Callable[[], JobQueue]) -> None:
    begun = Ran()

    def slow(job: Job) -> None:
        begun(job)
        time.sleep(1.2)  # three leases long

    for one in (queue, opener()):
        one.register("check", slow, time_to_run_s=30)
        one.start()
    queue.put(Job("check", "c1"))
    begun.wait(1)
    settled(1.5)
    assert len(begun.jobs) == 1


def test_a_job_that_hangs_beyond_its_time_to_run_is_given_to_another_worker(queue: JobQueue) -> None:
    begun, hang = Ran(), threading.Event()

    def work(job: Job) -> None:
        begun(job)
        if len(begun.jobs) == 1:
            hang.wait(20)

    queue.register("check", work, time_to_run_s=0.1)
    queue.start()
    queue.put(Job("check", "c1"))
    begun.wait(2, timeout_s=5)
    hang.set()


def test_stopping_gives_back_what_still_runs_at_once(queue: JobQueue, opener: Callable[[], JobQueue]) -> None:
    begun, ran, hang = Ran(), Ran(), threading.Event()
    queue.register("check", lambda job: (begun(job), hang.wait(20))[0])
    queue.start()
    queue.put(Job("check", "c1"))
    begun.wait(1)
    queue.stop(timeout_s=0.1)
    later = opener()
    later.register("check", ran)
    later.start()
    ran.wait(1)
    hang.set()


def test_a_stopped_queue_takes_no_new_job(queue: JobQueue) -> None:
    ran = Ran()
    queue.register("check", ran)
    queue.start()
    queue.stop()
    queue.put(Job("check", "c1"))
    settled()
    assert ran.jobs == []
