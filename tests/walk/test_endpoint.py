"""The whole way of a Databricks serving endpoint: asked for, diagnosed, previewed, approved by a second person, updated once, verified, undone.

The use-cases, evidence, reasoning, remediation and both clients are the real ones; the workspace is the sandbox's.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.audit import AuditTrail
from bot.cases import Cases, Timings
from bot.cases.engine import real
from bot.clients.databricks import DatabricksReader, Workspace
from bot.clients.databricks_writer import DatabricksWriter
from bot.clients.sqlite import Database
from bot.errors import Temporary
from bot.evidence.locate import query
from bot.model import Actor, Case, Conversation, Request, State, Verdict
from bot.playbooks import load
from bot.policy import Policy
from bot.ports import Json
from bot.sandbox.databricks import Endpoint, FakeDatabricks, entity, serving
from bot.store.sqlite import SqliteStore
from tests.walk.world import ANA, JO, OPS, POLICY, WEI, HandClock, HandQueue, ListedPeople, ScriptedChat, Stage

ALLOWED = replace(POLICY, actions=("set_scale_to_zero", "set_workload_size"))
NO_MACHINE = "served entity creation aborted because the resource did not become available in time"


class EndpointStage(Stage):
    """A workspace whose endpoint was scaled to zero and finds no machine any more; it would have one if it had kept it."""

    def __init__(self, folder: Path, fake: FakeDatabricks, policy: Policy = ALLOWED, *, writes: bool = True) -> None:
        self.folder, self.policy, self.fake, self.writes = folder, policy, fake, writes
        self.clock, self.chat, self.people = HandClock(), ScriptedChat(), ListedPeople()
        self.keys = itertools.count(1)
        (folder / "view").write_text(fake.view_token)
        (folder / "manage").write_text(fake.manage_token)
        self.boot()

    def boot(self) -> None:
        self.store = SqliteStore(Database(self.folder / "oombot.db"))
        self.audit = AuditTrail(self.folder / "audit.jsonl", b"k" * 32, self.clock, self.store)
        self.queue = HandQueue(self.clock)
        reader = DatabricksReader(Workspace("dbx", self.fake.url, self.folder / "view"))
        self.workspace = Workspace("dbx", self.fake.url, self.folder / "manage")
        writers = {"dbx": DatabricksWriter(self.workspace)} if self.writes else {}
        self.cases = Cases(
            self.store, self.queue, {"dbx": reader}, writers, None, self.chat, self.people, self.policy, load(), self.audit, self.clock, engine=real(), timings=Timings()
        )  # fmt: skip
        self.cases.bind(self.queue)
        self.cases.resume()

    def ask(self, actor: Actor = ANA, text: str = "endpoint/chat", conversation: Conversation | None = OPS, key: str = "") -> Case:
        case = self.cases.receive(Request(key or f"r{next(self.keys)}", actor, query(text), self.clock.now(), conversation))
        self.queue.run_due()
        return self.now(case)

    @property
    def there(self) -> Endpoint:
        return self.fake.endpoints["chat"]


@pytest.fixture
def fake() -> Iterator[FakeDatabricks]:
    there = Endpoint("chat", serving(entity()), fits=lambda config: NO_MACHINE if config["served_entities"][0]["scale_to_zero_enabled"] else "")
    assert there.config is not None
    there.config["served_entities"][0]["state"] = {"deployment": "DEPLOYMENT_RECOVERING", "deployment_state_message": NO_MACHINE}  # it cannot be woken up
    with FakeDatabricks(there) as found:
        yield found


def test_it_is_diagnosed_changed_once_verified_and_undone(tmp_path: Path, fake: FakeDatabricks) -> None:
    stage = EndpointStage(tmp_path, fake)
    case = stage.ask()
    assert case.diagnosis is not None
    assert (case.state, case.diagnosis.cause, case.diagnosis.recommendations[0].id) == (State.DIAGNOSED, "unschedulable", "scale_to_zero:disable")
    stage.there.settles = 8
    case = stage.click(JO, case, "apply")
    assert (case.state, stage.there.puts) == (State.AWAITING_APPROVAL, [])
    case = stage.click(WEI, case, "approve")
    assert (case.state, len(stage.there.puts)) == (State.WATCHING, 1)
    for _ in range(8):
        case = stage.later(case, seconds=6)
    assert case.operation is not None
    assert case.operation.outcome is not None
    assert (case.state, case.operation.outcome.verdict) == (State.VERIFIED, Verdict.VERIFIED)
    assert stage.there.config is not None
    assert stage.there.config["served_entities"][0]["environment_vars"]["OOMBOT_OPERATION"] == f"4:{case.operation.id}"
    case = stage.click(JO, case, "undo")
    case = stage.click(WEI, case, "approve")
    for _ in range(9):
        case = stage.later(case, seconds=6)
    assert (case.state, len(stage.there.puts)) == (State.UNDONE, 2)
    assert [one["scale_to_zero_enabled"] for one in stage.there.puts[1]["served_entities"]] == [True]


def test_a_lost_answer_and_a_bot_that_is_started_anew_send_nothing_twice(tmp_path: Path, fake: FakeDatabricks) -> None:
    stage = EndpointStage(tmp_path, fake)
    case = stage.click(JO, stage.ask(), "apply")
    put = stage.workspace.put

    def lost(path: str, body: Mapping[str, Any]) -> Json:
        put(path, body)
        raise Temporary("dbx: the answer was lost")

    stage.workspace.put = lost  # type: ignore[method-assign]
    case = stage.click(WEI, case, "approve")
    assert (case.state, len(stage.there.puts)) == (State.EXECUTING, 1)
    stage.boot()
    for _ in range(4):
        case = stage.later(case, seconds=16)
    assert (case.state, len(stage.there.puts)) == (State.VERIFIED, 1)


def test_what_the_policy_does_not_list_is_only_shown(tmp_path: Path, fake: FakeDatabricks) -> None:
    stage = EndpointStage(tmp_path, fake, replace(POLICY, actions=("set_workload_size",)))
    case = stage.ask()
    assert "apply" not in [button.verb for button in case.buttons]
    assert 0 in case.by_hand
    assert stage.there.puts == []


def test_without_a_writing_token_it_is_only_shown(tmp_path: Path, fake: FakeDatabricks) -> None:
    case = EndpointStage(tmp_path, fake, writes=False).ask()
    assert 0 in case.by_hand


def test_somebodys_change_between_preview_and_approval_voids_it(tmp_path: Path, fake: FakeDatabricks) -> None:
    stage = EndpointStage(tmp_path, fake)
    case = stage.click(JO, stage.ask(), "apply")
    assert stage.there.config is not None
    stage.there.config["served_entities"][0]["entity_version"] = "2"
    case = stage.click(WEI, case, "approve")
    assert (case.state, stage.there.puts) == (State.DIAGNOSED, [])
    assert [one.path for one in case.differences] == ["/spec"]


def test_an_endpoint_that_stops_serving_after_it_was_verified_is_no_success(tmp_path: Path, fake: FakeDatabricks) -> None:
    stage = EndpointStage(tmp_path, fake)
    case = stage.click(WEI, stage.click(JO, stage.ask(), "apply"), "approve")
    for _ in range(3):
        case = stage.later(case, seconds=31)
    assert case.state is State.VERIFIED
    assert stage.there.config is not None
    stage.there.config["served_entities"][0]["state"] = {"deployment": "DEPLOYMENT_RECOVERING", "deployment_state_message": ""}
    for _ in range(2):
        case = stage.later(case, seconds=31)
    assert case.state is State.VERIFICATION_FAILED


def verified(stage: EndpointStage) -> Case:
    case = stage.click(WEI, stage.click(JO, stage.ask(), "apply"), "approve")
    for _ in range(3):
        case = stage.later(case, seconds=31)
    assert case.state is State.VERIFIED
    return case


@pytest.mark.parametrize("wrong", ["", "the new version does not load"])
def test_a_colleagues_later_update_is_no_failure_of_ours_while_the_endpoint_serves(tmp_path: Path, fake: FakeDatabricks, wrong: str) -> None:
    stage = EndpointStage(tmp_path, fake)
    case = verified(stage)
    assert stage.there.config is not None
    stage.there.settles, stage.there.fits = 2, lambda _config: wrong
    stage.there.begin({"served_entities": [{**stage.there.puts[0]["served_entities"][0], "entity_version": "2"}]})
    for _ in range(4):
        case = stage.later(case, seconds=31)
    assert (case.state, case.operation and case.operation.aftermath) == (State.VERIFIED, None)
    stage.there.config = None  # then it serves no more
    for _ in range(2):
        case = stage.later(case, seconds=31)
    assert case.state is State.VERIFICATION_FAILED


def test_a_fine_endpoint_is_called_healthy(tmp_path: Path) -> None:
    with FakeDatabricks(Endpoint("chat", serving(entity()))) as fake:
        case = EndpointStage(tmp_path, fake).ask()
    assert case.diagnosis is not None
    assert case.diagnosis.cause == "healthy"
