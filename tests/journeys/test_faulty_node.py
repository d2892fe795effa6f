"""A node with a card that fell off the bus, on a real API server: the change is of high risk, so whoever approves it types the node's name. Then no new pod
comes there, and undo lets them in again."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from bot.sandbox.demo.incidents import incidents
from bot.sandbox.demo.round import Round
from bot.sandbox.demo.world import APPROVERS, CHANNEL, Cluster, World, wait_for
from bot.sandbox.slack import limits
from bot.settings import Settings
from tests.cluster.real_cluster import RealCluster
from tests.journeys.sshd_nodes import SshdNodes

ANA, JO, WEI = "U01ANA", "U02JO", "U03WEI"
FELL_OFF = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


class Nodes(World):
    """Approvers of the whole cluster: a node is in no namespace."""

    def settings(self) -> Settings:
        values = super().settings().model_dump()
        values["policy"] |= {"approvers": [{"groups": [APPROVERS], "namespaces": "*"}]}
        return Settings.model_validate(values)


class Way:
    """The world around one node, and the thread of its check."""

    def __init__(self) -> None:
        self.incident = next(each for each in incidents() if each.name == "small")
        self.node = self.incident.node
        self.node.kernel.append((time.time() - 90, FELL_OFF))
        self.folder = tempfile.TemporaryDirectory(prefix="oombot-journey-")
        self.cluster = RealCluster([self.node], scale=25.0)
        self.world = Nodes(ready=[self.incident], cluster=cast(Cluster, self.cluster), nodes=SshdNodes(self.node, Path(self.folder.name)))
        self.round = Round(self.world, lambda _: None, "small")

    def start(self) -> None:
        self.world.start()
        self.world.slack.command(ANA, CHANNEL, f"check node/{self.node.name}")
        self.round.top = wait_for("the thread", lambda: next((m.ts for m in self.round._own() if m.thread_ts in (None, m.ts)), None), within_s=30)

    def stop(self) -> None:
        self.world.stop()
        self.folder.cleanup()

    @property
    def closed(self) -> bool:
        """Whether the node takes no new pods."""
        found = next(each for each in self.cluster.objects("v1", "Node") if each["metadata"]["name"] == self.node.name)
        return bool(found["spec"].get("unschedulable"))

    def types(self, person: str, name: str) -> str:
        """Approve... and the name into the form that comes; gives what the form showed."""
        slack = self.world.slack
        self.round._press(person, "approve_by_name")
        view = wait_for("the form", lambda: slack.views(person), within_s=10)[-1]
        slack.submit(person, {"name": name}, view.id)
        return str(limits.shown(view.body["blocks"]))

    def says(self, words: str) -> str:
        return wait_for(words, lambda: self.round._says(words), within_s=60)


@pytest.fixture
def way() -> Iterator[Way]:
    made = Way()
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.mark.cluster
@pytest.mark.sshd
@pytest.mark.timeout(240)
def test_a_faulty_node_is_closed_by_somebody_who_typed_its_name_and_opened_again(way: Way) -> None:
    way.round._press(JO, "apply")
    wait_for("the plan", lambda: way.round._button("approve_by_name"), within_s=60)
    assert way.round._button("approve:") is None  # no plain click
    assert "unschedulable" in way.types(WEI, "another-node")  # the form shows the plan, and stays open
    assert not way.closed
    way.world.slack.submit(WEI, {"name": way.node.name}, way.world.slack.views(WEI)[-1].id)
    assert "takes no new pods" in way.says("Verified")
    assert way.closed

    way.round._press(JO, "undo")
    wait_for("the plan of the undo", lambda: way.round._button("approve_by_name"), within_s=60)
    way.types(WEI, way.node.name)
    assert "takes new pods again" in way.says("Undone")
    assert not way.closed

    assert way.world.app is not None
    events = [dict(entry["event"]) for entry in way.world.app.audit.entries()]
    assert [(each["who"], each["typed"]) for each in events if each["what"] == "approved"] == [("U03WEI", way.node.name)] * 2
    assert [each["risk"] for each in events if each["what"] == "planned"] == ["high", "high"]
    assert len([each for each in events if each["what"] == "sent"]) == 2
    assert way.world.audit_problems() == []
