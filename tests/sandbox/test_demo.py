"""Every incident of the demo comes to its end by what the thread offers first: verified, or handed out with what to paste, or nothing to do."""

from collections.abc import Iterator

import pytest

from bot.sandbox.demo.round import APPROVES, ASKS, Round
from bot.sandbox.demo.world import CHANNEL, World, wait_for

VERIFIED = ("chat", "assist", "moe", "embed", "rerank", "code")
HANDED_OUT = {"giant": "checkpoint", "draft": "48112"}  # a word of what is to be done by hand


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    try:
        made.start()
        yield made
    finally:
        made.stop()


def asked(world: World, name: str) -> Round:
    """The thread of a check that somebody typed, with its diagnosis."""
    played = Round(world, lambda _line: None, name)
    before = {message.ts for message in played._own()}
    world.slack.command(ASKS, CHANNEL, played.incident.command)
    played.top = wait_for(
        f"the thread of {name}", lambda: next((m.ts for m in played._own() if m.ts not in before and m.thread_ts in (None, m.ts)), None), within_s=30
    )
    return played


def state_of(played: Round) -> str:
    return played._thread()[0].shown.rpartition("State: ")[2]


def end_of(played: Round) -> str:
    """The state in which the thread comes to rest, as people read it."""
    ends = ("verified", "the rollout is stuck", "it failed again", "applied, could not be verified", "closed")
    return wait_for(f"the end of {played.incident.name}", lambda: state_of(played) if state_of(played).startswith(ends) else None, within_s=150)


@pytest.mark.timeout(290)
def test_every_incident_comes_to_its_end_by_what_is_offered_first(world: World) -> None:
    wait_for("a crash loop everywhere", lambda: all(world.pods(each.name) for each in world.incidents), within_s=30)
    rounds = {each.name: asked(world, each.name) for each in world.incidents}
    assert set(rounds) == {*VERIFIED, *HANDED_OUT, "small"}
    for name in VERIFIED:
        wait_for(f"the diagnosis of {name}", lambda name=name: rounds[name]._button("apply"), within_s=60)
        rounds[name]._press(ASKS, "apply")
    for name in VERIFIED:
        wait_for(f"the plan of {name}", lambda name=name: rounds[name]._button("approve"), within_s=60)
        rounds[name]._press(APPROVES, "approve")
    for name in HANDED_OUT:
        wait_for(f"the diagnosis of {name}", lambda name=name: rounds[name]._button("show"), within_s=60)
        rounds[name]._press(ASKS, "show")
    for name, word in HANDED_OUT.items():
        wait_for(f"what to do by hand for {name}", lambda name=name, word=word: rounds[name]._says(word), within_s=60)
        assert rounds[name]._button("apply") is None
    wait_for("the answer that nothing is wrong", lambda: "small" in (rounds["small"]._thread()[0].shown), within_s=60)
    assert rounds["small"]._button("apply") is None
    ends = {name: end_of(rounds[name]) for name in VERIFIED}
    assert [name for name, says in ends.items() if not says.startswith("verified")] == [], ends
    assert world.audit_problems() == []
