"""Jobs in SQLite, run by threads of this process: the embedded queue. Implements `ports.JobQueue`.

A job stands in the table until it is done: it runs at least once. Whoever runs it holds a lease that a heartbeat renews;
a lease whose process died is void at once at the next start, one whose heartbeat stopped (the job took longer than its
time to run) when it expires. Of two jobs with one key the second waits for the first. Knows names and case ids, no
use-case; a job that cannot be done becomes a job named "given_up" for its Case.
"""

import json
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_hex

from bot.clients import process_identity
from bot.clients.sqlite import Database
from bot.errors import OombotError, Permanent, StoreError, UserError, VersionConflict
from bot.model import Job
from bot.ports import Clock

GIVEN_UP = "given_up"
LONGEST_PAUSE_S = 60.0
INTERRUPTIONS = 10  # times that a job may be begun and not ended, beyond its attempts
POLL_S = 0.5  # another process may have put something
SCHEMA = (
    """
    CREATE TABLE jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, case_id TEXT NOT NULL, parameters TEXT NOT NULL, key TEXT NOT NULL,
        run_at REAL NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, owner TEXT NOT NULL DEFAULT '', lease TEXT NOT NULL DEFAULT '', lease_until REAL NOT NULL DEFAULT 0) STRICT;
    CREATE INDEX jobs_by_time ON jobs (run_at);
    CREATE INDEX jobs_by_key ON jobs (key)
    """,
)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Kind:
    work: Callable[[Job], None]
    time_to_run_s: float
    attempts: int


def _unknown(job: Job) -> None:
    raise Permanent(f"no work is registered for the job {job.name}")


_NO_KIND = _Kind(_unknown, 0, 1)


@dataclass(slots=True)
class _Claim:
    id: int
    job: Job
    attempts: int  # this one included
    lease: str
    renew_until: float


class SqliteQueue:
    """See `ports.JobQueue`. `lease_s`: how long a job stays with a worker that shows no sign of life."""

    def __init__(self, database: Database, clock: Clock, *, workers: int = 4, lease_s: float = 30, first_pause_s: float = 0.5) -> None:
        self._database, self._clock = database, clock
        self._workers, self._lease_s, self._first_pause_s = workers, lease_s, first_pause_s
        self._kinds: dict[str, _Kind] = {}
        self._claims: dict[str, _Claim] = {}
        self._wake, self._stopping = threading.Condition(), threading.Event()
        self._threads: list[threading.Thread] = []
        self._me = f"{process_identity.mine()}#{token_hex(4)}"
        database.migrate("queue", SCHEMA)

    # -------------------------------------------------------- for those who put

    def register(self, name: str, work: Callable[[Job], None], *, time_to_run_s: float = 60, attempts: int = 5) -> None:
        self._kinds[name] = _Kind(work, time_to_run_s, attempts)

    def put(self, job: Job) -> None:
        self._put(job, "SELECT 1 FROM jobs WHERE key = :key AND lease = ''")

    def put_missing(self, job: Job) -> bool:
        return self._put(job, "SELECT 1 FROM jobs WHERE key = :key OR (name = :given_up AND case_id = :case)")

    def _put(self, job: Job, others: str) -> bool:
        """Whether it was put: no `others` are there."""
        with self._database.write() as connection:
            if job.key and connection.execute(others, {"key": job.key, "given_up": GIVEN_UP, "case": job.case_id}).fetchone():
                return False
            connection.execute(
                "INSERT INTO jobs (name, case_id, parameters, key, run_at) VALUES (?, ?, ?, ?, ?)",
                (job.name, job.case_id, json.dumps(dict(job.parameters)), job.key, (job.run_at or self._clock.now()).timestamp()),
            )
        with self._wake:
            self._wake.notify()
        return True

    def waiting(self) -> int:
        """How many jobs stand in the queue, running ones included."""
        return int(self._database.read("SELECT count(*) FROM jobs")[0][0])

    def trouble(self) -> list[str]:
        """What is wrong with the workers; nothing while all of them live."""
        dead = [thread.name for thread in self._threads if not thread.is_alive()]
        return [f"the worker {name} has ended" for name in dead] or ([] if self._threads else ["no worker runs"])

    # -------------------------------------------------------- start and stop

    def start(self) -> None:
        self._stopping.clear()
        self._free_the_dead()
        for number in range(self._workers):
            self._threads.append(threading.Thread(target=self._work, name=f"worker-{number + 1}", daemon=True))
        self._threads.append(threading.Thread(target=self._heartbeat, name="heartbeat", daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self, *, timeout_s: float = 10) -> None:
        self._stopping.set()
        with self._wake:
            self._wake.notify_all()
        end = self._clock.now().timestamp() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, end - self._clock.now().timestamp()))
        self._threads = []
        with self._database.write() as connection:
            for claim in list(self._claims.values()):  # still running: somebody else may have it; an interrupted attempt does not count
                connection.execute("UPDATE jobs SET owner = '', lease = '', lease_until = 0, attempts = attempts - 1 WHERE id = ? AND lease = ?", (claim.id, claim.lease))

    def _free_the_dead(self) -> None:
        """Takes the leases of processes that are gone."""
        with self._database.write() as connection:
            for (owner,) in connection.execute("SELECT DISTINCT owner FROM jobs WHERE lease != ''").fetchall():
                if not process_identity.lives(owner.partition("#")[0]):
                    connection.execute("UPDATE jobs SET owner = '', lease = '', lease_until = 0 WHERE owner = ?", (owner,))

    # -------------------------------------------------------- workers

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                claim = self._claim()
            except StoreError as wrong:
                log.warning("the queue cannot be read: %s", wrong)
                claim = None
            if claim is None:
                with self._wake:
                    if not self._stopping.is_set():
                        self._wake.wait(self._pause())
                continue
            self._run(claim)
        self._database.close()

    def _claim(self) -> _Claim | None:
        now = self._clock.now().timestamp()
        with self._database.write() as connection:
            row = connection.execute(
                """SELECT id, name, case_id, parameters, key, run_at, attempts FROM jobs AS job WHERE run_at <= :now AND lease_until <= :now
                AND (key = '' OR NOT EXISTS (SELECT 1 FROM jobs AS other WHERE other.key = job.key AND other.id != job.id AND other.lease_until > :now))
                ORDER BY run_at, id LIMIT 1""",
                {"now": now},
            ).fetchone()
            if row is None:
                return None
            claim = _Claim(
                row[0],
                Job(row[1], row[2], json.loads(row[3]), datetime.fromtimestamp(row[5], UTC), row[4]),
                row[6] + 1,
                token_hex(8),
                now + self._kinds.get(row[1], _NO_KIND).time_to_run_s,
            )
            connection.execute(
                "UPDATE jobs SET owner = ?, lease = ?, lease_until = ?, attempts = ? WHERE id = ?", (self._me, claim.lease, now + self._lease_s, claim.attempts, claim.id)
            )
        self._claims[claim.lease] = claim
        return claim

    def _run(self, claim: _Claim) -> None:
        kind = self._kinds.get(claim.job.name, _NO_KIND)
        try:
            self._check_begun(claim, kind)
            kind.work(claim.job)
            self._done(claim)
        except Exception as wrong:  # noqa: BLE001 the one place that catches whatever a job raises: it is logged, tried again a few times, then given up by name
            self._failed(claim, wrong, kind.attempts)
        finally:
            self._claims.pop(claim.lease, None)

    @staticmethod
    def _check_begun(claim: _Claim, kind: _Kind) -> None:
        """A job that takes its process down each time must not do so for ever."""
        if claim.attempts > kind.attempts + INTERRUPTIONS:
            raise Permanent(f"the job {claim.job.name} was begun {claim.attempts - 1} times and never ended")

    def _done(self, claim: _Claim) -> None:
        with self._database.write() as connection:
            connection.execute("DELETE FROM jobs WHERE id = ? AND lease = ?", (claim.id, claim.lease))
        with self._wake:
            self._wake.notify()  # a job of the same key may be waiting for this one

    def _failed(self, claim: _Claim, wrong: Exception, attempts: int) -> None:
        job = claim.job
        hopeless = isinstance(wrong, (Permanent, UserError)) or claim.attempts >= attempts
        known = isinstance(wrong, OombotError)
        level, trace = (logging.WARNING, None) if known else (logging.ERROR, wrong)
        log.log(level, "job %s of case %s, attempt %d: %s: %s", job.name, job.case_id, claim.attempts, type(wrong).__name__, wrong, exc_info=trace)
        with suppress(StoreError):  # then the lease expires and the job is tried again
            if hopeless:
                if job.name != GIVEN_UP and GIVEN_UP in self._kinds:
                    reason = str(wrong) if known else f"internal error ({type(wrong).__name__})"
                    self.put(Job(GIVEN_UP, job.case_id, {**job.parameters, "job": job.name, "error": reason, "kind": type(wrong).__name__}))
                self._done(claim)
            else:
                self._again(claim, 0.05 if isinstance(wrong, VersionConflict) else self._first_pause_s * 2 ** (claim.attempts - 1))

    def _again(self, claim: _Claim, pause_s: float) -> None:
        """Back into the queue for later; where a job of the same key waits already, that one will do."""
        run_at = self._clock.now().timestamp() + min(pause_s, LONGEST_PAUSE_S)
        with self._database.write() as connection:
            key = claim.job.key
            if key and connection.execute("SELECT 1 FROM jobs WHERE key = ? AND id != ? AND lease = ''", (key, claim.id)).fetchone():
                connection.execute("DELETE FROM jobs WHERE id = ? AND lease = ?", (claim.id, claim.lease))
            else:
                connection.execute("UPDATE jobs SET owner = '', lease = '', lease_until = 0, run_at = ? WHERE id = ? AND lease = ?", (run_at, claim.id, claim.lease))

    def _pause(self) -> float:
        """Seconds until the next job is due, at most the polling interval."""
        try:
            due = self._database.read("SELECT min(max(run_at, lease_until)) FROM jobs")[0][0]
        except StoreError:
            return POLL_S
        return POLL_S if due is None else min(max(due - self._clock.now().timestamp(), 0.01), POLL_S)

    def _heartbeat(self) -> None:
        """Renews the leases of running jobs, each until its time to run is over."""
        while not self._stopping.wait(self._lease_s / 3):
            now = self._clock.now().timestamp()
            with suppress(StoreError), self._database.write() as connection:
                for claim in list(self._claims.values()):
                    if now < claim.renew_until:
                        connection.execute("UPDATE jobs SET lease_until = ? WHERE id = ? AND lease = ?", (now + self._lease_s, claim.id, claim.lease))
        self._database.close()
