"""SlackChat with the real slack_sdk against the fake workspace: posts once, updates in place, says what failed."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot.errors import Forbidden, NotFound, Permanent, Rejected, Temporary
from bot.model import Actor, Conversation, State, Words
from bot.sandbox.slack import TEAM, FakeSlack
from handlers.slack import finding
from handlers.slack.chat import SlackChat, client
from handlers.slack.errors import RateLimited, calling
from handlers.slack.people import SlackPeople
from tests.handlers.incidents import CHANNEL, case, hostile


@pytest.fixture
def chat(slack: FakeSlack) -> SlackChat:
    api = client(slack.bot_token, slack.api_url)
    return SlackChat(api, SlackPeople(api, TEAM))


def test_the_top_message_starts_a_thread_and_the_rest_stands_in_it(chat: SlackChat, slack: FakeSlack) -> None:
    made = case(State.DIAGNOSED)
    top = chat.post(made, "top")
    reply = chat.post(replace(made, posts={"top": top}), "evidence")
    assert [message.ts for message in slack.thread(CHANNEL, top)] == [top, reply]


def test_a_request_from_a_thread_is_answered_in_that_thread(chat: SlackChat, slack: FakeSlack) -> None:
    alert = slack.say("Ana", CHANNEL, "it is down")
    made = case(State.DIAGNOSED)
    made = replace(made, request=replace(made.request, conversation=Conversation(CHANNEL, alert.ts)))
    chat.post(made, "top")
    assert len(slack.thread(CHANNEL, alert.ts)) == 2


def test_an_update_rewrites_the_message_in_place(chat: SlackChat, slack: FakeSlack) -> None:
    top = chat.post(case(State.CHECKING), "top")
    chat.update(case(State.DIAGNOSED), "top", top)
    assert len(slack.messages(CHANNEL)) == 1
    assert "24.0 GiB" in slack.messages(CHANNEL)[0].shown


def test_a_post_that_arrived_though_the_answer_was_lost_is_found_again(chat: SlackChat, slack: FakeSlack) -> None:
    top = chat.post(case(State.DIAGNOSED), "top")
    made = case(State.DIAGNOSED, posts={"top": top})
    slack.break_after("chat.postMessage")
    with pytest.raises(Temporary, match=r"Slack failed at chat.postMessage \(HTTP 500\)"):
        chat.post(made, "evidence")
    found = chat.post(replace(made, posts={"top": top, "evidence": ""}), "evidence")
    thread = slack.thread(CHANNEL, top)
    assert len(thread) == 2
    assert thread[1].ts == found


def test_a_top_message_that_arrived_though_the_answer_was_lost_is_found_again(chat: SlackChat, slack: FakeSlack) -> None:
    made = case(State.RECEIVED, created_at=datetime.now(UTC))
    slack.break_after("chat.postMessage")
    with pytest.raises(Temporary):
        chat.post(made, "top")
    chat.post(replace(made, posts={"top": ""}), "top")
    assert len(slack.messages(CHANNEL)) == 1


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_post_whose_answer_was_lost_is_found_again_behind_many_other_messages(chat: SlackChat, slack: FakeSlack, in_thread: bool) -> None:
    made = case(State.RECEIVED, created_at=datetime.now(UTC))
    thread = slack.say("Ana", CHANNEL, "it is down").ts if in_thread else None
    made = replace(made, request=replace(made.request, conversation=Conversation(CHANNEL, thread)))
    others = finding.PAGE * 2 + 5
    for _ in range(others if in_thread else 0):  # a thread is read from its beginning, a channel from its end
        slack.say("Jo", CHANNEL, "I look", thread)
    slack.break_after("chat.postMessage")
    with pytest.raises(Temporary):
        chat.post(made, "top")
    for _ in range(0 if in_thread else others):
        slack.say("Jo", CHANNEL, "and another thing")
    chat.post(replace(made, posts={"top": ""}), "top")
    assert len([each for each in slack.messages(CHANNEL) if each.metadata]) == 1


def test_a_busy_channel_is_not_searched_for_ever(chat: SlackChat, slack: FakeSlack) -> None:
    made = case(State.RECEIVED, created_at=datetime.now(UTC))
    for _ in range(finding.PAGE * finding.PAGES + 3):
        slack.say("Jo", CHANNEL, "and another thing")
    chat.post(replace(made, posts={"top": ""}), "top")
    assert len(slack.calls("conversations.history")) == finding.PAGES
    assert len([each for each in slack.messages(CHANNEL) if each.metadata]) == 1


def test_a_post_that_did_not_arrive_is_posted(chat: SlackChat, slack: FakeSlack) -> None:
    slack.break_before("chat.postMessage")
    made = case(State.RECEIVED)
    with pytest.raises(Temporary):
        chat.post(made, "top")
    chat.post(replace(made, posts={"top": ""}), "top")
    assert len(slack.messages(CHANNEL)) == 1


def test_a_broken_call_is_never_repeated_by_itself(chat: SlackChat, slack: FakeSlack) -> None:
    slack.break_after("chat.postMessage", times=3)
    with pytest.raises(Temporary):
        chat.post(case(State.RECEIVED), "top")
    assert len(slack.calls("chat.postMessage")) == 1


def test_after_a_rate_limit_it_tries_once_more_when_slack_says(chat: SlackChat, slack: FakeSlack) -> None:
    slack.ratelimit("chat.postMessage", retry_after=0)
    chat.post(case(State.RECEIVED), "top")
    assert len(slack.calls("chat.postMessage")) == 2


def test_a_second_rate_limit_is_for_the_queue(chat: SlackChat, slack: FakeSlack) -> None:
    slack.ratelimit("chat.postMessage", times=2, retry_after=0)
    with pytest.raises(RateLimited):
        chat.post(case(State.RECEIVED), "top")
    assert slack.messages(CHANNEL) == []


def test_a_long_wait_is_not_slept_through(chat: SlackChat, slack: FakeSlack) -> None:
    slack.ratelimit("chat.postMessage", retry_after=600)
    with pytest.raises(RateLimited) as limited:
        chat.post(case(State.RECEIVED), "top")
    assert limited.value.after_s == 600


def test_a_log_line_cannot_ping_a_channel(chat: SlackChat, slack: FakeSlack) -> None:
    for purpose in ("top", "evidence", "recommendation", "note:1"):
        chat.post(replace(hostile(), posts={}), purpose)
    assert all("!channel" not in message.pings for message in slack.messages(CHANNEL))
    assert any("<!channel>" in message.shown for message in slack.messages(CHANNEL))


def test_nothing_unfurls(chat: SlackChat, slack: FakeSlack) -> None:
    chat.post(case(State.DIAGNOSED), "top")
    assert not slack.messages(CHANNEL)[0].unfurl


def test_a_workspace_that_takes_no_tables_gets_the_ledger_as_text(chat: SlackChat, slack: FakeSlack) -> None:
    slack.refuse_blocks("chat.postMessage")
    chat.post(case(State.DIAGNOSED), "evidence")
    message = slack.messages(CHANNEL)[0]
    assert "table" not in {block["type"] for block in message.blocks}
    assert "left for cache | 10.58 = 57,776 tokens" in message.shown


def test_blocks_that_are_refused_for_another_reason_are_a_permanent_failure(chat: SlackChat, slack: FakeSlack) -> None:
    slack.refuse_blocks("chat.postMessage")
    with pytest.raises(Rejected, match="invalid_blocks"):
        chat.post(case(State.DIAGNOSED), "top")


def test_metadata_holds_ids_alone(chat: SlackChat, slack: FakeSlack) -> None:
    chat.post(case(State.DIAGNOSED), "top")
    assert slack.messages(CHANNEL)[0].metadata == {"event_type": "oombot", "event_payload": {"case": "case-1", "purpose": "top"}}


def test_a_whisper_is_seen_by_one_person_in_their_language(chat: SlackChat, slack: FakeSlack) -> None:
    wei = Actor("U03WEI", "slack")
    chat.whisper(wei, Conversation(CHANNEL), Words("expired", {"at": "10:42"}))
    assert slack.ephemerals("Wei") == ["已过期：审批截止于 10:42。没有执行任何操作。"]
    assert slack.messages(CHANNEL) == []


def test_the_thread_speaks_the_language_of_who_asked(chat: SlackChat, slack: FakeSlack) -> None:
    made = case(State.DIAGNOSED)
    made = replace(made, request=replace(made.request, actor=Actor("U03WEI", "slack")))
    chat.post(made, "top")
    assert "无法启动" in slack.messages(CHANNEL)[0].shown


@pytest.mark.parametrize(("channel", "kind"), [("C99NOWHERE", NotFound), ("C03ALONE", NotFound)])
def test_a_channel_without_the_bot_is_a_permanent_failure(chat: SlackChat, channel: str, kind: type[Permanent]) -> None:
    made = case(State.DIAGNOSED)
    made = replace(made, request=replace(made.request, conversation=Conversation(channel)))
    with pytest.raises(kind, match=r"Slack refused chat.postMessage: (channel_not_found|not_in_channel)"):
        chat.post(made, "top")


def test_a_message_that_is_gone_is_said_to_be(chat: SlackChat) -> None:
    with pytest.raises(NotFound, match="message_not_found"):
        chat.update(case(State.DIAGNOSED), "top", "1.000001")


def test_a_case_without_a_channel_cannot_be_posted(chat: SlackChat) -> None:
    made = case(State.DIAGNOSED)
    with pytest.raises(Permanent, match="belongs to no channel"):
        chat.post(replace(made, request=replace(made.request, conversation=None)), "top")


def test_a_token_that_the_sandbox_did_not_issue_is_refused(slack: FakeSlack) -> None:
    api = client("xoxb-1234-real-looking", slack.api_url)
    with pytest.raises(Forbidden, match="invalid_auth"):
        SlackChat(api, SlackPeople(api, TEAM)).post(case(State.DIAGNOSED), "top")


def test_slack_that_cannot_be_reached_is_temporary() -> None:
    api = client("xoxb-sandbox", "http://127.0.0.1:9/api/", timeout_s=1)
    with pytest.raises(Temporary, match=r"Slack did not answer chat.postMessage"):
        SlackChat(api, SlackPeople(api, TEAM), language="en").post(case(State.DIAGNOSED), "top")


def test_the_fake_refuses_blocks_as_slack_does(slack: FakeSlack) -> None:
    api = client(slack.bot_token, slack.api_url)
    with pytest.raises(Rejected, match=r"invalid_blocks \(.*must be less than 3001 characters"):
        calling("chat.postMessage", lambda: api.chat_postMessage(channel=CHANNEL, text="x", blocks=[{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}]))
