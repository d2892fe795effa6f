"""The demo's world: Slack, PagerDuty, a cluster and its nodes, all on loopback, and one bot that is pointed at them.

It writes its files into a temporary folder and takes nothing from the machine's own kubeconfig, environment or SSH keys.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bot.app import Application
from bot.ports import Json
from bot.remediation.actions import ACTIONS
from bot.sandbox.cluster import SimulatedCluster
from bot.sandbox.demo.incidents import NAMESPACE, Incident, incidents, with_addresses
from bot.sandbox.demo.page import routes
from bot.sandbox.kubelet.history import History
from bot.sandbox.pagerduty import FakePagerDuty
from bot.sandbox.slack import FakeSlack
from bot.sandbox.ssh_node import SshNode
from bot.settings import Settings

T = TypeVar("T")

CHANNEL = "C01ONCALL"
APPROVERS = "S01ONCALL"
SCALE = 25.0  # seconds of a server's life that pass in one real second


class Cluster(Protocol):
    """What the world asks of its cluster: the simulated one, or a real control plane."""

    def start(self) -> str: ...
    def stop(self) -> None: ...
    def kubeconfig(self, path: str | Path, role: str = "admin") -> Path: ...
    def apply(self, manifest: Json, *, history: History | None = None) -> list[Json]: ...
    def objects(self, api_version: str, kind: str, namespace: str = "") -> list[Json]: ...


class Nodes(Protocol):
    """SSH servers of the nodes. `settings` are the bot's `ssh` settings for them."""

    def start(self) -> object: ...
    def stop(self) -> None: ...
    def settings(self) -> Json: ...


class World:
    """`start()` brings everything up, `stop()` takes it down. `page_port` 0: any free one. Cluster and nodes are simulated unless others are given."""

    def __init__(self, page_port: int = 0, *, ready: Sequence[Incident] | None = None, cluster: Cluster | None = None, nodes: Nodes | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="oombot-demo-")
        self.folder = Path(self._folder.name)
        self.incidents = tuple(ready) if ready is not None else incidents()
        machines = {each.node.name: each.node for each in self.incidents}
        if nodes is None:
            with_addresses(list(machines.values()))
        self.slack = FakeSlack(routes=routes(self), port=page_port)
        self.pagerduty = FakePagerDuty()
        self.cluster: Cluster = cluster or SimulatedCluster(machines.values(), scale=SCALE)
        self.nodes: Nodes = nodes or SshNode(machines, self.folder)
        self.app: Application | None = None

    def start(self) -> str:
        """Gives the address of the page, once the pods have had their past and the bot answers."""
        page = self.slack.start()
        self.pagerduty.start()
        self.cluster.start()
        self.nodes.start()
        for each in self.incidents:
            self.cluster.apply(each.manifest, history=each.history)
        self.app = Application(self.settings())
        self.app.start()
        self.slack.connect(f"{self.app.url}/slack/events")
        self.pagerduty.webhook_url = f"{self.app.url}/webhooks/pagerduty"
        return page

    def stop(self) -> None:
        if self.app is not None:
            self.app.stop()
        for part in (self.nodes, self.cluster, self.pagerduty, self.slack):
            part.stop()
        self._folder.cleanup()

    def settings(self) -> Settings:
        """The bot's settings, as an operator would write them, with shorter times."""
        access = {
            "read": {"kubeconfig": str(self.cluster.kubeconfig(self.folder / "reader.kubeconfig", "reader"))},
            "write": {"kubeconfig": str(self.cluster.kubeconfig(self.folder / "remediator.kubeconfig", "remediator"))},
        }
        values: dict[str, Any] = {
            "data_dir": str(self.folder / "data"),
            "log_level": "error",
            "http": {"host": "127.0.0.1", "port": 0},
            "slack": {
                "mode": "http",
                "bot_token": self.slack.bot_token,
                "signing_secret": self.slack.signing_secret,
                "api_url": self.slack.api_url,
                "channels": [CHANNEL],
            },
            "pagerduty": {
                "webhook_secrets": [self.pagerduty.secret],
                "api_token": self.pagerduty.token,
                "api_url": self.pagerduty.url,
                "channels": {"*": CHANNEL},
            },
            "clusters": [{"name": "sandbox", "default": True, **access}],
            "ssh": self.nodes.settings(),
            "policy": {
                "actions": sorted(ACTIONS),
                "approvers": [{"groups": [APPROVERS], "namespaces": [NAMESPACE]}],
            },
            "timings": {
                "watch_interval_s": 0.5,
                "watch_timeout_s": 60,
                "verification_window_s": 60,
                "verification_interval_s": 0.7,
                "aftercare_s": 45,
                "aftercare_interval_s": 1,
            },
        }
        return Settings.model_validate(values)

    def audit_problems(self) -> list[str]:
        """What is wrong with the bot's audit trail; empty when it is whole."""
        return [str(problem) for problem in self.app.audit.verify()] if self.app is not None else ["no bot"]

    def incident(self, name: str) -> Incident:
        """Raises LookupError."""
        found = next((each for each in self.incidents if each.name == name), None)
        if found is None:
            raise LookupError(f"no incident {name!r}; one of: {', '.join(each.name for each in self.incidents)}")
        return found

    def pods(self, name: str) -> list[dict[str, Any]]:
        """The pods of an incident's workload as they are now."""
        return [pod for pod in self.cluster.objects("v1", "Pod", NAMESPACE) if pod["metadata"]["labels"].get("app") == name]

    def ring(self, incident: Incident, *, webhook_id: str | None = None) -> tuple[str, int]:
        """PagerDuty opens an incident about it and calls the bot, as Alertmanager made it do. Gives the incident's id and the bot's HTTP status."""
        pod = self.pods(incident.name)[0]["metadata"]["name"]
        labels = {"alertname": incident.alert.partition(":")[0], "namespace": NAMESPACE, "pod": pod, "severity": "critical"}
        firing = {
            "status": "firing",
            "labels": labels,
            "annotations": {"summary": incident.says},
            "startsAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        paged = self.pagerduty.open_incident(incident.alert, {"firing": [firing], "num_firing": "1", "num_resolved": "0", "resolved": []})
        return paged.id, self.pagerduty.deliver(paged, webhook_id=webhook_id).status_code


def wait_for(what: str, look: Callable[[], T | None], *, within_s: float) -> T:
    """Looks until there is something. Raises TimeoutError that names what was waited for."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise TimeoutError(f"{what} did not happen within {within_s:.0f} s")
