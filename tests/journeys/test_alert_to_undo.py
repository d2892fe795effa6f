"""The whole way, on real parts: PagerDuty's webhook -> thread -> Apply by one person, approval by another -> patch on a real API server -> rollout by the
real controllers with one GPU for one replica -> verified -> undone; real slack_sdk and slack_bolt, real OpenSSH for the node. Only Slack, PagerDuty and
what happens inside the container are played."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from bot.sandbox.demo.incidents import NAMESPACE, Incident, incidents
from bot.sandbox.demo.round import Round
from bot.sandbox.demo.world import CHANNEL, Cluster, World
from tests.cluster.real_cluster import RealCluster
from tests.journeys.sshd_nodes import SshdNodes


class Journey:
    """A world around one incident, and the round through it."""

    def __init__(self, incident: Incident) -> None:
        self.incident = incident
        self._folder = tempfile.TemporaryDirectory(prefix="oombot-journey-")
        self.nodes = SshdNodes(incident.node, Path(self._folder.name))
        self.cluster = RealCluster([incident.node], scale=25.0)
        self.world = World(ready=[incident], cluster=cast(Cluster, self.cluster), nodes=self.nodes)
        self.said: list[str] = []
        self.round = Round(self.world, self.said.append, incident.name)

    def start(self) -> None:
        self.world.start()

    def stop(self) -> None:
        self.world.stop()
        self._folder.cleanup()

    @property
    def workload(self) -> Any:
        kind = self.incident.manifest["kind"]
        return next(each for each in self.cluster.objects("apps/v1", kind, NAMESPACE) if each["metadata"]["name"] == self.incident.name)

    @property
    def args(self) -> list[str]:
        return list(self.workload["spec"]["template"]["spec"]["containers"][0]["args"])

    @property
    def thread(self) -> str:
        return "\n".join(message.shown for message in self.world.slack.thread(CHANNEL, self.round.top))

    def audit(self) -> list[dict[str, Any]]:
        assert self.world.app is not None
        return [dict(entry) for entry in self.world.app.audit.entries()]


@pytest.fixture(params=["chat", "assist"], ids=["Deployment", "StatefulSet"])
def journey(request: pytest.FixtureRequest) -> Iterator[Journey]:
    made = Journey(next(each for each in incidents() if each.name == request.param))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.mark.cluster
@pytest.mark.sshd
@pytest.mark.timeout(240)
def test_a_dead_pod_is_explained_fixed_with_two_people_verified_and_put_back(journey: Journey) -> None:
    before = journey.workload["spec"]
    journey.round.begin()
    assert "Certain" in journey.thread
    assert any(" dmesg " in command for command in journey.nodes.asked), journey.nodes.asked
    assert not [each for each in journey.audit() if each["event"].get("what") == "sent"]

    journey.round.approve()
    changed = journey.workload
    assert changed["metadata"]["annotations"]["oombot.io/operation"]
    if journey.incident.manifest["kind"] == "Deployment":
        assert "--max-model-len=57344" in changed["spec"]["template"]["spec"]["containers"][0]["args"]
        assert changed["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    else:
        assert changed["spec"]["template"]["spec"]["containers"][0]["args"] != before["template"]["spec"]["containers"][0]["args"]
    pods = [pod for pod in journey.world.pods(journey.incident.name) if not pod["metadata"].get("deletionTimestamp")]
    assert [status["ready"] for pod in pods for status in pod["status"]["containerStatuses"]] == [True]
    assert "Verified" in journey.thread

    journey.round.undo()
    assert journey.workload["spec"] == before
    assert "Undone" in journey.thread
    assert journey.world.audit_problems() == []
    check_trail(journey)


def check_trail(journey: Journey) -> None:
    """The trail tells the whole story in order, with who did what, and each write once for the change and once for the undo."""
    events = [each["event"] for each in journey.audit()]
    told = [event["what"] for event in events]
    assert told[:7] == ["asked", "diagnosed", "wanted", "planned", "refused", "approved", "begins"]
    assert events[4]["key"] == "second_person_applied"
    assert [(event["who"], event["what"]) for event in events if event["what"] in ("wanted", "approved")] == [
        ("U02JO", "wanted"), ("U03WEI", "approved"), ("U02JO", "wanted"), ("U03WEI", "approved"),
    ]  # fmt: skip
    operations = list(dict.fromkeys(event["operation"] for event in events if event["what"] == "sent"))
    assert len(operations) == 2
    sent = [(event["operation"], event["step"]) for event in events if event["what"] == "sent"]
    assert len(sent) == len(set(sent))
    assert [event["digest"] for event in events if event["what"] == "planned"] == [event["digest"] for event in events if event["what"] == "approved"]
