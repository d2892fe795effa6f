"""A past for a pod: it has crashed so many times already, at real speed, before anybody looked."""

from dataclasses import dataclass

from bot.sandbox.kubelet.container import Container, Run, Told, back_off
from bot.sandbox.kubelet.play import End, Play
from bot.sandbox.kubelet.pod import PodWorker

HEALTHY_AGE = 3 * 3600.0


@dataclass(frozen=True, slots=True)
class History:
    """`restarts`: how often each container that fails has been restarted; the newest run ended `ago` seconds before now."""

    restarts: int = 3
    ago: float = 20.0

    def relive(self, worker: PodWorker, now: float) -> None:
        """Puts the pod in the state in which that past would have left it, with true times and durations. It goes on at real speed:
        a run that took a tenth of the time that its probes allow would be evidence of nothing. Only its stop is quick."""
        for each in worker.containers:
            each.scale = 1.0
        begins = [self._container(worker, each, now) for each in worker.main]
        for each in worker.init:
            if each.run is None:
                begins.append(self._ran(worker, each, min(begins) - 5))
        worker.since = min(begins) - 2
        worker.told.clear()
        for each in worker.main:
            _tell(worker, each, now)

    def _ran(self, worker: PodWorker, container: Container, until: float) -> float:
        play = container.behaviour(container.spec, worker.place(container, 0))
        length = play.end.at if play.end else 10.0
        container.run = Run(play, until - length, 1.0, ended=until, end=play.end or End(length, 0, "Completed"))
        return container.run.started

    def _container(self, worker: PodWorker, container: Container, now: float) -> float:
        play = container.behaviour(container.spec, worker.place(container, self.restarts))
        end = self._end(container, play)
        if end is None:
            container.run = Run(play, now - HEALTHY_AGE, 1.0)
            return container.run.started
        before = container.behaviour(container.spec, worker.place(container, max(0, self.restarts - 1)))
        ended = now - self.ago
        container.run = Run(play, ended - end.at, 1.0, ended=ended, end=end)
        container.restarts = self.restarts
        pauses = [back_off(number) for number in range(self.restarts)]
        if self.restarts:
            gone = container.run.started - pauses[-1]
            first_end = self._end(container, before) or end
            container.previous = Run(before, gone - first_end.at, 1.0, ended=gone, end=first_end)
            worker.machine.kernel += worker.kernel_rows(container.previous)
        container.back_off_until = now + back_off(container.restarts) / container.scale
        return float(container.run.started - sum(pauses) - self.restarts * end.at)

    @staticmethod
    def _end(container: Container, play: Play) -> End | None:
        """How the Play ends at real speed, probes included."""
        trial = Container(container.spec, container.behaviour, scale=1.0, restart_policy=container.restart_policy, grace=container.grace)
        trial.run = Run(play, 0.0, 1.0)
        trial.advance(HEALTHY_AGE, "0.0.0.0")  # noqa: S104  an address in a message, nothing is bound
        return trial.run.end


def _tell(worker: PodWorker, container: Container, now: float) -> None:
    """The events that are still there from that past: probe failures, and the back-off that it is in."""
    if container.run is None or container.run.running:
        return
    trial = Container(container.spec, container.behaviour, scale=1.0, restart_policy=container.restart_policy, grace=container.grace)
    trial.run = Run(container.run.play, container.run.started, 1.0)
    worker.told += [(container.name, row) for row in trial.advance(container.run.ended or now, worker.address)]
    worker.told.append((container.name, Told("Normal", "Started", f"Container started: {container.name}", container.run.started)))
