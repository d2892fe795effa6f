"""From a request to a diagnosed Case, and every way in which that does not happen."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.errors import Forbidden, Refused, TargetAmbiguous, TargetNotFound, Unreachable
from bot.model import Actor, Alert, Conversation, Person, Request, State, Target, TargetQuery
from bot.policy import Policy, Reach, ReadRule
from tests.walk.world import ANA, JO, OPS, OTHER, POLICY, SICK, TARGET, SmallWorld, Stage, states


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_request_becomes_a_diagnosed_case_with_its_thread(stage: Stage) -> None:
    case = stage.ask()
    assert states(case) == [State.RECEIVED, State.CHECKING, State.DIAGNOSED]
    assert (case.target, case.diagnosis) == (TARGET, SICK)
    assert stage.chat.purposes() == ["top", "evidence", "recommendation"]
    assert stage.chat.shows("top").state is State.DIAGNOSED
    assert [button.verb for button in case.buttons] == ["apply", "retry"]


def test_a_delivery_that_comes_twice_posts_once(stage: Stage) -> None:
    first = stage.ask(key="webhook-1")
    second = stage.ask(key="webhook-1")
    assert second.id == first.id
    assert stage.chat.purposes().count("top") == 1
    assert len(stage.events("asked")) == 1


def test_button_ids_tell_nothing_and_never_repeat(stage: Stage) -> None:
    ids = [button.id for _ in range(3) for button in stage.ask().buttons]
    assert len(set(ids)) == len(ids)
    assert all(len(one) > 20 and "llm" not in one for one in ids)


@pytest.mark.parametrize(("field", "key"), [("is_guest", "guest"), ("is_bot", "bot_account"), ("is_stranger", "stranger"), ("is_deleted", "deleted_account")])
def test_whoever_is_no_colleague_is_told_and_nothing_is_read_or_posted(stage: Stage, field: str, key: str) -> None:
    stage.people.people["UANA"] = Person("UANA", **{field: True})
    case = stage.ask()
    assert case.state is State.CLOSED
    assert stage.chat.told(ANA) == [key]
    assert stage.chat.messages == {}
    assert case.target is None


def test_somebody_whom_the_platform_does_not_know_gets_nothing(stage: Stage) -> None:
    del stage.people.people["UANA"]
    assert stage.ask().state is State.CLOSED
    assert stage.chat.told(ANA) == ["unknown_person"]


def test_while_the_platform_does_not_say_who_asks_nothing_is_read(stage: Stage) -> None:
    stage.people.down = True
    case = stage.ask()
    assert (case.state, case.target) == (State.RECEIVED, None)
    stage.people.down = False
    assert stage.later(case, seconds=30).state is State.DIAGNOSED


def test_a_channel_that_is_not_configured_is_refused_at_once(stage: Stage) -> None:
    with pytest.raises(Refused) as refused:
        stage.ask(conversation=OTHER)
    assert refused.value.key == "channel_not_allowed"
    with pytest.raises(Refused) as refused:
        stage.ask(conversation=Conversation("D1"))
    assert refused.value.key == "direct_message"
    assert stage.cases.status(ANA, OPS).open == ()


def test_a_namespace_that_the_channel_may_not_read_is_refused_at_once_and_nothing_is_read_or_posted(tmp_path: Path) -> None:
    asked: list[str] = []
    stage = Stage(tmp_path, replace(POLICY, read=(ReadRule(("COPS",), reach=Reach(("*",), ("billing",))),)), SmallWorld(on_call=asked.append))
    with pytest.raises(Refused) as refused:
        stage.ask()
    assert (refused.value.key, refused.value.parameters) == ("namespace_not_readable", {"namespace": "llm", "cluster": ""})
    assert (asked, stage.chat.messages, stage.cases.history(ANA, OPS)) == ([], {}, [])


def test_a_target_found_in_a_namespace_that_they_may_not_read_is_refused_and_not_examined(tmp_path: Path) -> None:
    asked: list[str] = []
    world = SmallWorld(on_call=asked.append)
    stage = Stage(tmp_path, replace(POLICY, read=(ReadRule(("COPS",), reach=Reach(("*",), ("billing",))),)), world)
    case = stage.cases.receive(Request("r", ANA, TargetQuery("chat-old", "pod", "chat-old"), stage.clock.now(), OPS))
    stage.queue.run_due()
    case = stage.now(case)
    assert (case.state, case.trouble and case.trouble.key, asked) == (State.CHECK_FAILED, "namespace_not_readable", ["locate"])


def test_a_target_that_does_not_exist_is_said_with_the_nearest_names(stage: Stage) -> None:
    case = stage.ask(text="pod-x")
    assert case.state is State.CHECK_FAILED
    assert case.trouble is not None
    assert (case.trouble.key, dict(case.trouble.parameters)) == ("target_not_found", {"target": "pod-x", "nearest": "llm/chat-old"})
    assert stage.chat.shows("top").trouble == case.trouble
    assert [button.verb for button in case.buttons] == ["retry"]


class Names(SmallWorld):
    """Finds what a test says."""

    def __init__(self, answer: Exception | Target, then: Target | None = None) -> None:
        super().__init__()
        self.answer, self.then, self.asked = answer, then, list[TargetQuery]()

    def locate(self, query: TargetQuery, clusters: Mapping[str, Any]) -> Target:
        self.asked.append(query)
        answer = self.then if len(self.asked) > 1 and self.then else self.answer
        if isinstance(answer, Exception):
            raise answer
        return answer


LLM_ONLY = replace(POLICY, read=(ReadRule(("COPS",), reach=Reach(("*",), ("llm",))),))


def test_names_in_namespaces_that_they_may_not_read_are_not_suggested(tmp_path: Path) -> None:
    case = Stage(tmp_path, LLM_ONLY, Names(TargetNotFound("no", ["billing/pay-0", "llm/chat-0", "llm/chat-1 (cluster prod)"]))).ask(text="x")
    assert case.trouble is not None
    assert case.trouble.parameters["nearest"] == "llm/chat-0, llm/chat-1 (cluster prod)"


def test_several_matches_are_listed_and_none_is_picked(tmp_path: Path) -> None:
    case = Stage(tmp_path, LLM_ONLY, Names(TargetAmbiguous("3 match", ["llm/chat-0", "llm/chat-1", "billing/chat-2"]))).ask(text="x")
    assert case.trouble is not None
    assert (case.trouble.key, case.trouble.parameters["candidates"]) == ("target_ambiguous", "llm/chat-0\nllm/chat-1")


def test_of_several_matches_the_only_one_that_they_may_read_is_meant(tmp_path: Path) -> None:
    world = Names(TargetAmbiguous("2 match", ["llm/chat-0 (cluster prod)", "billing/chat-2 (cluster prod)"]), TARGET)
    case = Stage(tmp_path, LLM_ONLY, world).ask(text="x")
    assert case.state is State.DIAGNOSED
    assert (world.asked[1].namespace, world.asked[1].cluster) == ("llm", "prod")


def test_a_prefix_does_not_show_what_stands_where_they_may_not_look(tmp_path: Path) -> None:
    hidden = replace(TARGET, namespace="billing", pod="pay-7d9f")
    case = Stage(tmp_path, LLM_ONLY, Names(hidden)).ask(text="pay")
    assert case.trouble is not None
    assert (case.trouble.key, dict(case.trouble.parameters)) == ("target_not_found", {"target": "pay", "nearest": ""})


def test_credentials_that_do_not_reach_end_the_check_with_the_reason(stage: Stage) -> None:
    stage.world.fail["locate"] = [Forbidden("pods is forbidden")]
    case = stage.ask()
    assert (case.state, case.trouble and case.trouble.key) == (State.CHECK_FAILED, "cannot_look")
    assert case.trouble is not None
    assert case.trouble.parameters["reason"] == "pods is forbidden"


def test_a_cluster_that_does_not_answer_is_tried_again_and_then_named(stage: Stage) -> None:
    stage.world.fail["locate"] = [Unreachable("prod does not answer")] * 5
    case = stage.ask()
    for _ in range(5):
        case = stage.later(case, seconds=30)
    assert stage.queue.ran.count("check") == 5
    assert (case.state, case.trouble and case.trouble.parameters["reason"]) == (State.CHECK_FAILED, "prod does not answer")


def test_try_again_checks_again_and_whoever_pressed_asked_too(stage: Stage) -> None:
    stage.world.fail["locate"] = [Forbidden("not yet")]
    failed = stage.ask()
    case = stage.click(JO, failed, "retry")
    assert case.state is State.DIAGNOSED
    assert case.asked_again == ("UJO",)
    assert case.trouble is None
    assert stage.chat.purposes().count("top") == 1


def test_progress_is_rewritten_in_place_and_not_for_every_line(tmp_path: Path) -> None:
    stage = Stage(tmp_path, world=SmallWorld(progress=("pod", "events", "logs")))
    case = stage.ask()
    assert stage.chat.purposes().count("top") == 1
    assert [line.name for line in case.progress] == ["pod"]  # the hand clock stood still: the other two came too soon after


# ---------------------------------------------------------------- alerts

ALERT = Alert("a1", "pagerduty", "vLLM is down", {"pod": "chat-old", "namespace": "llm"})


def alert_request(stage: Stage, query: TargetQuery, conversation: Conversation | None = OPS) -> Request:
    return Request("webhook-7", Actor("PSVC", "pagerduty"), query, stage.clock.now(), conversation, ALERT)


def test_an_alert_whose_details_are_elsewhere_gets_them_once(tmp_path: Path) -> None:
    fetched: list[str] = []

    def complete(request: Request) -> Request:
        fetched.append(request.key)
        return replace(request, query=TargetQuery("llm/chat-old", "pod", "chat-old", "llm"))

    stage = Stage(tmp_path, complete=complete)
    case = stage.cases.receive(alert_request(stage, TargetQuery("", "unknown")))
    stage.queue.run_due()
    assert stage.now(case).state is State.DIAGNOSED
    assert fetched == ["webhook-7"]


def test_an_alert_that_names_nothing_still_gets_a_thread_that_says_what_was_looked_for(stage: Stage) -> None:
    case = stage.cases.receive(alert_request(stage, TargetQuery("labels pod, node; the alert has: job", "unknown")))
    stage.queue.run_due()
    shown = stage.chat.shows("top")
    assert stage.now(case).state is State.CHECK_FAILED
    assert shown.trouble is not None
    assert shown.trouble.key == "alert_names_nothing"
    assert shown.trouble.parameters == {"title": "vLLM is down", "looked_for": "labels pod, node; the alert has: job"}


def test_an_alert_in_a_channel_that_may_not_read_the_namespace_reads_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, replace(POLICY, read=(ReadRule(("COPS",), reach=Reach(("*",), ("billing",))),)))
    case = stage.cases.receive(alert_request(stage, TargetQuery("llm/chat-old", "pod", "chat-old", "llm")))
    stage.queue.run_due()
    assert stage.now(case).trouble is not None
    assert stage.now(case).diagnosis is None


def test_a_case_without_a_channel_is_checked_and_posts_nothing(stage: Stage) -> None:
    case = stage.ask(actor=Actor("root", "terminal"), conversation=None)
    assert case.state is State.DIAGNOSED
    assert stage.chat.messages == {}


# ---------------------------------------------------------------- a chat that fails


def test_a_chat_that_is_down_loses_nothing_and_repeats_nothing(stage: Stage) -> None:
    stage.chat.down = True
    case = stage.ask()
    assert case.state is State.DIAGNOSED
    assert stage.chat.messages == {}
    stage.chat.down = False
    stage.later(case, minutes=2)
    assert stage.chat.purposes() == ["top", "evidence", "recommendation"]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_post_whose_answer_was_lost_is_found_again_and_not_posted_twice(stage: Stage, lost: int) -> None:
    stage.chat.lost_answers = lost
    case = stage.ask()
    for _ in range(4):
        case = stage.later(case, seconds=30)
    assert stage.chat.purposes() == ["top", "evidence", "recommendation"]
    assert all(case.posts.values())


def test_a_message_that_the_chat_refuses_does_not_hold_up_the_others(stage: Stage) -> None:
    stage.chat.refuses = "evidence"
    stage.ask()
    assert stage.chat.purposes() == ["top", "recommendation"]
    assert [event["purpose"] for event in stage.events("not_shown")] == ["evidence"]


@pytest.mark.parametrize("where", ["locate", "collect"])
def test_a_process_killed_while_it_looks_finishes_the_check_at_the_next_start(stage: Stage, where: str, killed: Callable[[Stage], None]) -> None:
    stage.world.fail[where] = [KeyboardInterrupt()]  # type: ignore[list-item]  # not an error that anything catches: as good as a kill
    with pytest.raises(KeyboardInterrupt):
        stage.ask(key="k")
    killed(stage)
    assert [case.state for case in stage.cases.history(ANA, OPS)] == [State.DIAGNOSED]
    assert stage.chat.purposes() == ["top", "evidence", "recommendation"]


@pytest.fixture
def killed() -> Callable[[Stage], None]:
    def again(stage: Stage) -> None:
        stage.boot()
        stage.queue.run_due()

    return again


def test_no_policy_lets_nobody_in(tmp_path: Path) -> None:
    with pytest.raises(Refused):
        Stage(tmp_path, Policy()).ask()
