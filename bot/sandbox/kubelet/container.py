"""One container of one pod: its runs, its state, its restarts. Advances with the clock it is given; knows no API server."""

import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from bot.ports import Json
from bot.sandbox.kubelet.play import Behaviour, End, Place, Play, rendered

FIRST_BACK_OFF, LONGEST_BACK_OFF = 10.0, 300.0  # seconds, as the kubelet has them
GIVEN_UP = 137


@dataclass(slots=True)
class Run:
    """One start. `pace` turns the seconds of the Play into real ones; `ended` and how, once it has."""

    play: Play
    started: float
    pace: float
    id: str = field(default_factory=lambda: uuid.uuid4().hex + uuid.uuid4().hex)
    ended: float | None = None
    end: End | None = None

    def when(self, at: float) -> float:
        return self.started + at / self.pace

    def age(self, now: float) -> float:
        """Seconds of the Play that have passed."""
        return (min(now, self.ended) if self.ended is not None else now) * self.pace - self.started * self.pace

    def log(self, now: float) -> list[tuple[float, str]]:
        until = self.age(now)
        return [(self.when(line.at), rendered(line.text, self.when(line.at))) for line in self.play.lines if line.at <= until]

    @property
    def running(self) -> bool:
        return self.ended is None


@dataclass(frozen=True, slots=True)
class Told:
    """An event that the kubelet reports: kind is Normal or Warning; `at` None means now."""

    kind: str
    reason: str
    message: str
    at: float | None = None


def back_off(restarts: int) -> float:
    """Seconds to wait before the next start: the first restart comes almost at once, the next ones after 10, 20, ... 300 s."""
    return 1.0 if restarts == 0 else float(min(LONGEST_BACK_OFF, FIRST_BACK_OFF * 2 ** min(restarts - 1, 10)))


class Container:
    """`scale`: how many seconds of a Play pass in a real one; `haste` is the same for its stop."""

    def __init__(self, spec: Json, behaviour: Behaviour, *, scale: float, restart_policy: str, grace: float) -> None:
        self.spec, self.behaviour, self.scale, self.restart_policy, self.grace = spec, behaviour, scale, restart_policy, grace
        self.haste = scale
        self.name = str(spec["name"])
        self.run: Run | None = None
        self.previous: Run | None = None
        self.restarts = 0
        self.back_off_until: float | None = None
        self._unhealthy_told, self._hung = 0, False

    # ------------------------------------------------------------ moves

    def start(self, now: float, place: Place) -> list[Told]:
        if self.run is not None:
            self.previous, self.restarts = self.run, self.restarts + 1
        self.run, self.back_off_until = Run(self.behaviour(self.spec, place), now, self.scale), None
        self._unhealthy_told, self._hung = 0, False
        image = self.spec.get("image", "")
        words = [
            ("Pulled", f'Container image "{image}" already present on machine'),
            ("Created", f"Container created: {self.name}"),
            ("Started", f"Container started: {self.name}"),
        ]
        return [Told("Normal", reason, message, now) for reason, message in words]

    def advance(self, now: float, address: str) -> list[Told]:
        """Ends the run when its Play or a probe says so; tells what a kubelet would tell."""
        run = self.run
        if run is None or not run.running:
            return []
        told, killed = self._probed(run, now, address)
        end = min((each for each in (run.play.end, killed) if each is not None), key=lambda each: each.at, default=None)
        if end is not None and run.age(now) >= end.at:
            run.end, run.ended = end, run.when(end.at)
        return told

    def stop(self, asked: float, now: float) -> None:
        """SIGTERM was sent at `asked`; the container goes when it listens, or is killed after the grace period."""
        run = self.run
        if run is None or not run.running:
            return
        play, patience = run.play, self.grace
        leaves = play.leaves_after if self._answers(play, run.age(asked)) else play.leaves_early
        after = patience if leaves is None else min(patience, leaves)
        if now >= asked + after / self.haste:
            gone = leaves is not None and leaves <= patience
            run.ended = max(run.started, asked + after / self.haste)
            run.end = End(run.age(run.ended), 0 if gone else GIVEN_UP, "Completed" if gone else "Error")

    def due(self, now: float) -> bool:
        """Whether it should start (again) now. Sets the back-off when it has just ended."""
        if self.run is None:
            return True
        if self.run.running or not self._restarts(self.run):
            return False
        if self.back_off_until is None:
            self.back_off_until = (self.run.ended or now) + back_off(self.restarts) / self.scale
        return now >= self.back_off_until

    def _restarts(self, run: Run) -> bool:
        if self.restart_policy == "OnFailure":
            return run.end is None or run.end.exit_code != 0
        return self.restart_policy == "Always"

    # ------------------------------------------------------------ probes

    def _probed(self, run: Run, now: float, address: str) -> tuple[list[Told], End | None]:
        """What the start-up and liveness probes lead to: events so far, and the end that they bring."""
        startup, liveness, play = self.spec.get("startupProbe"), self.spec.get("livenessProbe"), run.play
        answers_from = math.inf if play.ready_at is None else play.ready_at
        told, end = self._failing(run, now, address, startup or liveness, "Startup" if startup else "Liveness", 0.0, answers_from)
        if end is None and liveness and play.hangs_at is not None and run.age(now) >= play.hangs_at:
            self._unhealthy_told = 0 if self._unhealthy_told and not self._hung else self._unhealthy_told
            self._hung = True
            return self._failing(run, now, address, liveness, "Liveness", play.hangs_at, math.inf)
        return told, end

    def _answers(self, play: Play, age: float) -> bool:
        return play.ready_at is not None and age >= play.ready_at

    def _failing(self, run: Run, now: float, address: str, probe: Json | None, kind: str, since: float, until: float) -> tuple[list[Told], End | None]:
        """A probe that finds nobody between `since` and `until` (seconds of the Play)."""
        if probe is None:
            return [], None
        first = since + float(probe.get("initialDelaySeconds", 0))
        period, allowed = float(probe["periodSeconds"]), int(probe["failureThreshold"])
        missed = max(0, min(allowed, int((min(run.age(now), until) - first) // period)))
        get = probe.get("httpGet") or {}
        where = f"{address}:{get.get('port', 8000)}"
        words = f'{kind} probe failed: Get "http://{where}{get.get("path", "/health")}": dial tcp {where}: connect: connection refused'
        told = [Told("Warning", "Unhealthy", words, run.when(first + period * (number + 1))) for number in range(self._unhealthy_told, missed)]
        self._unhealthy_told = max(self._unhealthy_told, missed)
        if missed < allowed:
            return told, None
        if told:
            told.append(Told("Normal", "Killing", f"Container {self.name} failed {kind.lower()} probe, will be restarted", run.when(first + allowed * period)))
        return told, End(first + allowed * period + float(probe.get("terminationGracePeriodSeconds", self.grace)), GIVEN_UP)

    # ------------------------------------------------------------ looks

    def ready(self, now: float) -> bool:
        run = self.run
        if run is None or not run.running:
            return False
        probed = "readinessProbe" in self.spec or "startupProbe" in self.spec
        answers = self._answers(run.play, run.age(now)) and not (run.play.hangs_at is not None and run.age(now) >= run.play.hangs_at)
        return answers or not probed

    def _started(self, now: float) -> bool:
        """As a kubelet says it: a container that runs, once its start-up probe, where it has one, was answered."""
        run = self.run
        return run is not None and run.running and ("startupProbe" not in self.spec or self._answers(run.play, run.age(now)))

    def status(self, now: float, shape: Callable[[float], str], pod: str) -> Json:
        """One row of containerStatuses. `shape` writes times; `pod` is "name_namespace(uid)" for the words of the back-off."""
        run, image = self.run, self.spec.get("image", "")
        row: Json = {"name": self.name, "image": image, "imageID": f"{image.partition(':')[0]}@sha256:{uuid.uuid5(uuid.NAMESPACE_URL, image).hex * 2}",
                     "restartCount": self.restarts, "ready": self.ready(now), "started": self._started(now), "lastState": {}}  # fmt: skip
        if run is None:
            row["state"] = {"waiting": {"reason": "ContainerCreating"}}
            return {**row, "imageID": ""}
        row["containerID"] = f"containerd://{run.id}"
        if run.running:
            row["state"] = {"running": {"startedAt": shape(run.started)}}
        elif self._restarts(run) and self.restarts:
            words = f"back-off {_span(back_off(self.restarts))} restarting failed container={self.name} pod={pod}"
            row |= {"state": {"waiting": {"reason": "CrashLoopBackOff", "message": words}}, "lastState": terminated(run, shape)}
        else:
            row["state"] = terminated(run, shape)
        if self.previous is not None and run.running:
            row["lastState"] = terminated(self.previous, shape)
        return row


def terminated(run: Run, shape: Callable[[float], str]) -> Json:
    end = run.end or End(0, GIVEN_UP)
    return {"terminated": {"exitCode": end.exit_code, "reason": end.reason, "startedAt": shape(run.started), "finishedAt": shape(run.ended or run.started),
                           "containerID": f"containerd://{run.id}"}}  # fmt: skip


def _span(seconds: float) -> str:
    """As Go prints it: 10s, 2m40s, 5m0s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
