"""One pod on one node: starts its init containers in order, then the others; holds its cards; says how it is."""

from collections.abc import Callable
from datetime import UTC, datetime

from bot.ports import Json
from bot.sandbox.kubelet import kernel
from bot.sandbox.kubelet.container import Container, Run, Told
from bot.sandbox.kubelet.machine import GpuProcess, Machine
from bot.sandbox.kubelet.play import Behaviour, Place
from bot.units import quantity

Choose = Callable[[Json, Json], Behaviour]  # (pod, container spec)


def shape(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def gpus_asked(spec: Json) -> int:
    """How many GPUs a pod's containers ask for."""
    sizes = [(row.get("resources") or {}).get("limits") or {} for row in spec.get("containers") or []]
    return sum(int(size.get("nvidia.com/gpu", 0)) for size in sizes)


class PodWorker:
    """Plays one pod. `told` collects events as (container name or "", Told)."""

    def __init__(self, pod: Json, machine: Machine, choose: Choose, scale: float, address: str, now: float) -> None:
        self.machine, self.scale, self.address, self.since = machine, scale, address, now
        self.uid, self.pod = str(pod["metadata"]["uid"]), pod
        spec = pod["spec"]
        policy, grace = spec.get("restartPolicy", "Always"), float(spec.get("terminationGracePeriodSeconds", 30))

        def make(row: Json, how: str) -> Container:
            return Container(row, choose(pod, row), scale=scale, restart_policy=how, grace=grace)

        self.init = [make(row, "OnFailure" if policy != "Never" else "Never") for row in spec.get("initContainers") or []]
        self.main = [make(row, policy) for row in spec["containers"]]
        self.told: list[tuple[str, Told]] = []
        self.leaving_since: float | None = None
        self.cards = machine.grant(self.uid, gpus_asked(spec))
        self.killed: set[str] = set()
        self.reported: Json = {}
        machine.pods[self.uid] = self

    @property
    def containers(self) -> list[Container]:
        return [*self.init, *self.main]

    def find(self, name: str) -> Container | None:
        return next((each for each in self.containers if each.name == name), None)

    # ------------------------------------------------------------ the clock

    def advance(self, now: float) -> None:
        for each in self.containers:
            self._tell(each, each.advance(now, self.address))
            self._kernel(each)
        if self.leaving_since is None:
            for each in self._startable():
                if each.due(now):
                    self._tell(each, each.start(now, self.place(each)))
                elif each.run is not None and each.back_off_until is not None and each.run.id not in self.killed:
                    self.killed.add(each.run.id)
                    meta = self.pod["metadata"]
                    self._tell(
                        each,
                        [Told("Warning", "BackOff", f"Back-off restarting failed container {each.name} in pod {meta['name']}_{meta['namespace']}({self.uid})")],
                    )
        else:
            for each in self.containers:
                each.stop(self.leaving_since, now)
        self._hold(now)

    def leave(self, now: float) -> None:
        """The pod is being deleted."""
        if self.leaving_since is None:
            self.leaving_since = now
            for each in self.containers:
                if each.run is not None and each.run.running:
                    self._tell(each, [Told("Normal", "Killing", f"Stopping container {each.name}")])

    @property
    def gone(self) -> bool:
        return self.leaving_since is not None and not any(each.run is not None and each.run.running for each in self.containers)

    def _startable(self) -> list[Container]:
        for each in self.init:
            if each.run is None or each.run.running or each.run.end is None or each.run.end.exit_code:
                return [each]
        return self.main

    def _tell(self, container: Container, told: list[Told]) -> None:
        self.told += [(container.name, row) for row in told]

    def _kernel(self, container: Container) -> None:
        run = container.run
        if run is None or run.end is None or run.end.kill is None or run.ended is None or f"kernel {run.id}" in self.killed:
            return
        self.killed.add(f"kernel {run.id}")
        self.machine.kernel += self.kernel_rows(run)

    def kernel_rows(self, run: Run) -> list[tuple[float, str]]:
        """What the kernel of the node wrote about the kill that ended a run."""
        if run.end is None or run.end.kill is None or run.ended is None:
            return []
        scope = kernel.container_scope(self.uid, run.id, self.quality)
        return kernel.kill(run.end.kill, scope, run.ended - 0.05, score=-997 if self.quality == "Guaranteed" else 985)

    @property
    def quality(self) -> str:
        return str(self.pod["status"].get("qosClass", "BestEffort"))

    # ------------------------------------------------------------ cards and memory

    def place(self, container: Container, attempt: int | None = None) -> Place:
        limits = (container.spec.get("resources") or {}).get("limits") or {}
        wanted = int(limits.get("nvidia.com/gpu", 0))
        cards = tuple(self.machine.gpus[index].seen(self.uid) for index in self.cards[:wanted])
        limit = int(quantity(limits["memory"])) if "memory" in limits else None
        number = attempt if attempt is not None else container.restarts + (container.run is not None)
        environment = {row["name"]: row.get("value", "") for row in container.spec.get("env") or []}
        return Place(cards, limit, self.machine.memory_bytes, number, self.pid(container), environment)

    def pid(self, container: Container) -> int:
        return 20_000 + int(self.uid[:4], 16) % 40_000 + 7 * len(container.name)

    def _hold(self, now: float) -> None:
        for index in self.cards:
            size, name, pid = 0, "", 0
            for each in self.main:
                if each.run is not None and each.run.running and each.run.play.device:
                    size, name, pid = each.run.play.held(each.run.age(now)), each.run.play.process, self.pid(each)
            self.machine.gpus[index].tenants[self.uid] = GpuProcess(pid, name, size)

    def host_bytes(self, now: float) -> int:
        return sum(each.run.play.host_bytes(each.run.age(now)) for each in self.containers if each.run is not None and each.run.running)

    # ------------------------------------------------------------ status

    def status(self, now: float, old: Json) -> Json:
        meta = self.pod["metadata"]
        label = f"{meta['name']}_{meta['namespace']}({self.uid})"
        main = [each.status(now, shape, label) for each in self.main]
        init = [each.status(now, shape, label) for each in self.init]
        initialised = not self.init or self._startable() is self.main
        for row in main if not initialised else ():
            row["state"] = {"waiting": {"reason": "PodInitializing"}}
        ended = [each.run is not None and not each.run.running and not each._restarts(each.run) for each in self.main]
        failed = any(each.run is not None and each.run.end is not None and each.run.end.exit_code for each in self.main)
        started = any(each.run is not None for each in self.main)
        phase = ("Failed" if failed else "Succeeded") if all(ended) else "Running" if started else "Pending"
        ready = all(row["ready"] for row in main) and phase == "Running"
        status: Json = {**old, "phase": phase, "hostIP": self.machine.address, "podIP": self.address, "podIPs": [{"ip": self.address}],
                        "startTime": shape(self.since), "containerStatuses": main}  # fmt: skip
        for each, row in zip(self.init, init, strict=True):
            row["ready"] = each.run is not None and each.run.end is not None and each.run.end.exit_code == 0
        if init:
            status["initContainerStatuses"] = init
        words = f"containers with unready status: [{' '.join(row['name'] for row in main if not row['ready'])}]"
        status["conditions"] = [self._condition(old, "PodReadyToStartContainers", True, now), self._condition(old, "Initialized", initialised, now),
                                self._condition(old, "Ready", ready, now, words), self._condition(old, "ContainersReady", ready, now, words),
                                self._condition(old, "PodScheduled", True, now)]  # fmt: skip
        return status

    @staticmethod
    def _condition(old: Json, kind: str, good: bool, now: float, words: str = "") -> Json:
        was = next((row for row in old.get("conditions") or [] if row["type"] == kind), None)
        status = "True" if good else "False"
        moved = was["lastTransitionTime"] if was and was["status"] == status else shape(now)
        row: Json = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": moved}
        if not good:
            row |= {"reason": "ContainersNotReady" if kind != "Initialized" else "ContainersNotInitialized", "message": words}
        return row
