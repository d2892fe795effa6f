"""A whole way in the sandbox where the rules want two people and a typed name, and somebody with kubectl is faster than they are: real bot, real clients,
a simulated cluster with its managed fields."""

import copy
from collections.abc import Iterator

import pytest

from bot.sandbox.demo.incidents import NAMESPACE, incidents
from bot.sandbox.demo.round import Round
from bot.sandbox.demo.world import APPROVERS, World, wait_for
from bot.sandbox.slack import limits
from bot.settings import Settings

ANA, JO, WEI = "U01ANA", "U02JO", "U03WEI"


class Strict(World):
    """Two approvers, each of whom types the name; one change an hour."""

    def settings(self) -> Settings:
        values = super().settings().model_dump()
        values["policy"] |= {
            "approvers": [{"groups": [APPROVERS], "namespaces": [NAMESPACE], "count": 2}], "typed_from": "low", "quotas": [{"per_hour": 1}], "identity": "email",
        }  # fmt: skip
        return Settings.model_validate(values)


@pytest.fixture
def way() -> Iterator[Round]:
    world = Strict(ready=[each for each in incidents() if each.name == "chat"])
    try:
        world.start()
        yield Round(world, lambda _: None)
    finally:
        world.stop()


def types(way: Round, person: str, name: str) -> None:
    """Approve... and the name in the form that comes."""
    slack = way.world.slack
    way._press(person, "approve_by_name")
    view = wait_for("the form", lambda: slack.views(person), within_s=5)[-1]
    assert "--max-model-len=57344" in limits.shown(view.body["blocks"])
    slack.submit(person, {"name": name}, view.id)


def says(way: Round, words: str) -> str:
    return wait_for(words, lambda: next((each.shown for each in reversed(way._thread()) if words in each.shown), None), within_s=60)


@pytest.mark.timeout(180)
def test_two_people_type_the_name_after_a_colleague_changed_the_object_under_the_first_plan(way: Round) -> None:
    way.begin()
    world = way.world
    way._press(ANA, "apply")
    says(way, "Needs 2 of")
    edited = copy.deepcopy(way.incident.manifest)
    edited["spec"]["template"]["spec"]["containers"][0]["args"] += ["--max-num-seqs=64"]
    world.cluster.apply(edited)  # as `kubectl apply` does

    types(way, JO, "chat")
    note = says(way, "What differs")
    assert "changed by `kubectl-client-side-apply`" in note
    assert ("- --max-num-seqs=64" in note, "sha256" in note) == (True, False)
    assert "Nothing was done." in note
    assert world.slack.views(JO) == []

    seen = len(world.slack.ephemerals(JO))
    way._press(JO, "preview_again")  # then too few would be left
    refusal = wait_for("the refusal", lambda: world.slack.ephemerals(JO)[seen:], within_s=15)
    assert refusal == ["Refused: besides you and whoever asked, 1 of <!subteam^S01ONCALL> could approve, and it takes 2. Let somebody else press, or have approvers added."]
    way._press(ANA, "apply")
    wait_for("the new plan", lambda: way._button("approve_by_name"), within_s=30)
    types(way, WEI, "chat")
    assert "Approved so far by <@U03WEI>: 1 of 2; 1 more needed." in says(way, "Approved so far")
    types(way, JO, " chat")
    outcome = says(way, "Verified")
    assert "Approved by <@U03WEI>, <@U02JO> at" in outcome
    args = world.cluster.objects("apps/v1", "Deployment", NAMESPACE)[0]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [each for each in args if each in ("--max-model-len=57344", "--max-num-seqs=64")] == ["--max-model-len=57344", "--max-num-seqs=64"]
    kept = [each["event"] for each in world.app.audit.entries()] if world.app else []
    assert [(each["who"], each["typed"]) for each in kept if each["what"] == "approved"] == [("U03WEI", "chat"), ("U02JO", " chat")]
    assert len([each for each in kept if each["what"] == "sends"]) == 1
    assert world.audit_problems() == []
