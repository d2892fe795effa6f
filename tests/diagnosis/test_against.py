"""What speaks against an answer is quoted with its place, and is never what the answer itself rests on."""

import pytest

from bot.diagnosis.against import MOST, against
from bot.diagnosis.signatures import Finding, Signature
from bot.facts import Facts
from bot.model import Certainty, Fact, Place, Text
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import ENDED, container, event, killed, path, pod, status, terminated

DRAIN = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}]}


def _fact(name: str, value: str | int | float | bool, line: int = 1, source: str = "pod.json") -> Fact:
    return Fact(name, value, Place(source, line, f"{name}"))


def _finding(cause: str, certainty: Certainty = Certainty.LIKELY, **parts: object) -> Finding:
    return Finding(Signature(f"{cause}/x", cause, Text("says", "说"), **{"when": {}, **parts}), certainty)  # type: ignore[arg-type]


def _say(fact: Fact) -> Text:
    return Text(f"{fact.name}.", f"{fact.name}。")


def test_oomkilled_speaks_against_a_pod_that_was_drained() -> None:
    files = {
        "pod.json": pod([container()], [status(state=terminated(143, "OOMKilled"))], metadata={"deletionTimestamp": ENDED}, status=DRAIN),
        "events.json": {"kind": "List", "items": [event("Killing", "Stopping container server")]},
    }
    found = diagnose(files)
    assert found.cause == "normal_termination"
    (quote,) = found.against
    assert (quote.source, quote.quote) == ("pod.json", '"reason": "OOMKilled",')
    assert (quote.source, quote.line) not in {(proof.source, proof.line) for proof in found.evidence}


def test_a_kill_for_memory_has_nothing_against_it_when_all_agrees() -> None:
    found = diagnose({"pod.json": pod([container()], [status(last=terminated(137, "OOMKilled"))]), "kernel.log": killed(path(), path())})
    assert found.family == "host_memory"
    assert found.against == ()


def test_what_would_have_made_it_certain_and_is_not_so_is_quoted() -> None:
    best = _finding("container_memory_limit", certain_if={"container.running": {"equals": True}})
    (quote,) = against(best, [], Facts([_fact("container.running", False, 9)]), _say)
    assert (quote.line, quote.says.en) == (9, "container.running.")


def test_what_nobody_looked_at_is_no_objection() -> None:
    best = _finding("container_memory_limit", certain_if={"container.running": {"equals": True}})
    assert against(best, [], Facts(), _say) == ()


def test_a_cause_that_is_still_open_is_quoted_with_its_name() -> None:
    rival = _finding("probe_kill", when={"events.probe_failed": {"present": True}})
    facts = Facts([_fact("events.probe_failed", "liveness", 4, "events.json")])
    (quote,) = against(_finding("node_out_of_memory"), [rival], facts, _say)
    assert quote.says == Text("Speaks for probe kill: events.probe_failed.", "支持另一种可能（probe_kill）：events.probe_failed。")


def test_what_the_answer_rests_on_does_not_speak_against_it() -> None:
    best = _finding("normal_termination", when={"container.reason": {"equals": "OOMKilled"}})
    assert against(best, [], Facts([_fact("container.reason", "OOMKilled")]), _say) == ()


@pytest.mark.parametrize("count", [1, 3, 9])
def test_there_are_at_most_three_objections(count: int) -> None:
    names = [f"container.{letter}" for letter in "abcdefghi"[:count]]
    best = _finding("container_memory_limit", certain_if={name: {"equals": True} for name in names})
    facts = Facts([_fact(name, False, line) for line, name in enumerate(names, 1)])
    assert len(against(best, [], facts, _say)) == min(count, MOST)
