"""The fake Slack refuses what Slack refuses. It is the double of the other tests, so its strictness is tested by the real slack_sdk."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import ActionsBlock, ContextBlock, HeaderBlock, SectionBlock
from slack_sdk.models.blocks.basic_components import ConfirmObject
from slack_sdk.models.blocks.block_elements import ButtonElement
from slack_sdk.models.views import View
from slack_sdk.signature import SignatureVerifier

from bot.sandbox.slack import FakeSlack, limits
from bot.sandbox.slack.workspace import RESPONSE_USES

CHANNEL = "C01ONCALL"
SECTION = {"type": "section", "text": {"type": "mrkdwn", "text": "x"}}
BUTTON = {"type": "button", "text": {"type": "plain_text", "text": "Press"}, "action_id": "a", "value": "v"}


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def slack(clock: Clock) -> Iterator[FakeSlack]:
    with FakeSlack(now=clock) as fake:
        yield fake


@pytest.fixture
def api(slack: FakeSlack) -> WebClient:
    return WebClient(slack.bot_token, base_url=slack.api_url)


def error(call: Any, **arguments: Any) -> str:
    with pytest.raises(SlackApiError) as refused:
        call(**arguments)
    return str(refused.value.response["error"])


# ---------------------------------------------------------------- messages


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"channel": "C99", "text": "x"}, "channel_not_found"),
        ({"channel": "gpu-oncall", "text": "x"}, "channel_not_found"),
        ({"channel": "C03ALONE", "text": "x"}, "not_in_channel"),
        ({"channel": CHANNEL}, "no_text"),
        ({"channel": CHANNEL, "text": "x" * 40_001}, "msg_too_long"),
        ({"channel": CHANNEL, "text": "x", "thread_ts": "1.0"}, "thread_not_found"),
        ({"channel": CHANNEL, "text": "x", "blocks": [{"type": "alert"}]}, "invalid_blocks"),
        ({"channel": CHANNEL, "text": "x", "blocks": [SECTION] * 51}, "invalid_blocks"),
        ({"channel": CHANNEL, "text": "x", "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 2900}}] * 5}, "msg_blocks_too_long"),
        ({"channel": CHANNEL, "text": "x", "metadata": {"event_type": 1}}, "invalid_metadata_format"),
    ],
)
@pytest.mark.filterwarnings("ignore:The top-level `text` argument")
def test_a_post_that_slack_would_refuse_is_refused(api: WebClient, slack: FakeSlack, arguments: dict[str, Any], word: str) -> None:
    assert error(api.chat_postMessage, **arguments) == word
    assert slack.messages(CHANNEL) == []


@pytest.mark.parametrize(
    "block",
    [
        {"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}},
        {"type": "section", "text": {"type": "mrkdwn", "text": ""}},
        {"type": "section"},
        {"type": "section", "fields": [{"type": "mrkdwn", "text": "x"}] * 11},
        {"type": "section", "text": {"type": "mrkdwn", "text": "x"}, "accessory": {"type": "image"}},
        {"type": "header", "text": {"type": "plain_text", "text": "x" * 151}},
        {"type": "header", "text": {"type": "mrkdwn", "text": "x"}},
        {"type": "context", "elements": []},
        {"type": "context", "elements": [{"type": "mrkdwn", "text": "x"}] * 11},
        {"type": "actions", "elements": []},
        {"type": "actions", "elements": [{**BUTTON, "action_id": str(n)} for n in range(26)]},
        {"type": "actions", "elements": [BUTTON, BUTTON]},
        {"type": "actions", "elements": [{**BUTTON, "text": {"type": "plain_text", "text": "x" * 76}}]},
        {"type": "actions", "elements": [{**BUTTON, "value": "x" * 2001}]},
        {"type": "actions", "elements": [{**BUTTON, "style": "warning"}]},
        {"type": "actions", "elements": [{**BUTTON, "confirm": {"title": {"type": "plain_text", "text": "x" * 101}}}]},
        {"type": "rich_text", "elements": []},
        {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": ""}]}]},
        {"type": "rich_text", "elements": [{"type": "rich_text_list", "elements": [{"type": "text", "text": "x"}]}]},
        {"type": "table", "rows": []},
        {"type": "table", "rows": [[{"type": "raw_text", "text": "x"}]] * 101},
        {"type": "table", "rows": [[{"type": "raw_text", "text": "x"}] * 21]},
        {"type": "table", "rows": [[{"type": "raw_number", "value": 1}]]},
        {**SECTION, "block_id": "x" * 256},
        "text",
    ],
)
def test_a_block_that_slack_would_refuse_is_refused_with_its_place(block: Any) -> None:
    mistakes = limits.message_mistakes("x", [SECTION, block])
    assert mistakes
    assert all("[json-pointer:/blocks/1" in mistake for mistake in mistakes)


def test_a_second_table_is_refused() -> None:
    table = {"type": "table", "rows": [[{"type": "raw_text", "text": "x"}]]}
    assert limits.message_mistakes("x", [table]) == []
    assert limits.message_mistakes("x", [table, table]) == ["only one table allowed [json-pointer:/blocks]"]


def test_our_limits_are_those_of_slacks_own_models() -> None:
    assert SectionBlock.fields_max_length == 10
    assert (HeaderBlock.text_max_length, ContextBlock.elements_max_length, ActionsBlock.elements_max_length) == (150, 10, 25)
    assert (ButtonElement.text_max_length, ButtonElement.value_max_length) == (75, 2000)
    assert (ConfirmObject.title_max_length, ConfirmObject.text_max_length, ConfirmObject.confirm_max_length) == (100, 300, 30)
    assert (View.title_max_length, View.private_metadata_max_length) == (24, limits.PRIVATE_METADATA)


def test_an_update_without_blocks_takes_them_away(api: WebClient, slack: FakeSlack) -> None:
    ts = api.chat_postMessage(channel=CHANNEL, text="a", blocks=[SECTION])["ts"]
    api.chat_update(channel=CHANNEL, ts=ts, text="b")
    assert (slack.messages(CHANNEL)[0].shown, slack.messages(CHANNEL)[0].blocks) == ("b", [])


def test_only_ones_own_messages_can_be_updated_or_deleted(api: WebClient, slack: FakeSlack) -> None:
    theirs = slack.say("Ana", CHANNEL, "hello").ts
    assert error(api.chat_update, channel=CHANNEL, ts=theirs, text="x") == "cant_update_message"
    assert error(api.chat_delete, channel=CHANNEL, ts=theirs) == "cant_delete_message"
    assert error(api.chat_update, channel=CHANNEL, ts="1.0", text="x") == "message_not_found"


def test_an_ephemeral_message_needs_somebody_in_the_channel(api: WebClient, slack: FakeSlack) -> None:
    assert error(api.chat_postEphemeral, channel=CHANNEL, user="U99", text="x") == "user_not_in_channel"
    api.chat_postEphemeral(channel=CHANNEL, user="U01ANA", text="x")
    assert (slack.ephemerals("Ana"), slack.ephemerals("Jo"), slack.messages(CHANNEL)) == (["x"], [], [])


def test_metadata_comes_back_only_to_who_asks_for_it(api: WebClient) -> None:
    ts = api.chat_postMessage(channel=CHANNEL, text="x", metadata={"event_type": "e", "event_payload": {"a": "b"}})["ts"]
    assert "metadata" not in api.conversations_replies(channel=CHANNEL, ts=ts)["messages"][0]
    assert api.conversations_replies(channel=CHANNEL, ts=ts, include_all_metadata=True)["messages"][0]["metadata"]["event_payload"] == {"a": "b"}


def pages(ask: Callable[..., Any]) -> list[list[str]]:
    """The texts, page by page, to the end."""
    found: list[list[str]] = []
    cursor = ""
    while not found or cursor:
        answer = ask(**({"cursor": cursor} if cursor else {}))
        found.append([each["text"] for each in answer["messages"]])
        cursor = (answer.get("response_metadata") or {}).get("next_cursor", "")
        assert answer["has_more"] is bool(cursor)
    return found


def test_a_long_channel_comes_in_pages_newest_first_and_a_thread_oldest_first(api: WebClient, slack: FakeSlack) -> None:
    root = slack.say("Ana", CHANNEL, "0")
    for number in range(1, 5):
        slack.say("Ana", CHANNEL, str(number))
        slack.say("Jo", CHANNEL, f"reply {number}", root.ts)
    assert pages(partial(api.conversations_history, channel=CHANNEL, limit=2)) == [["4", "3"], ["2", "1"], ["0"]]
    assert pages(partial(api.conversations_replies, channel=CHANNEL, ts=root.ts, limit=3)) == [["0", "reply 1", "reply 2"], ["reply 3", "reply 4"]]
    assert error(api.conversations_history, channel=CHANNEL, cursor="nonsense") == "invalid_cursor"


@pytest.mark.parametrize("text", ["<!channel>", "<!here|here>", "<@U02JO>", "<!subteam^S01ONCALL>"])
def test_a_ping_is_seen_as_one(api: WebClient, slack: FakeSlack, text: str) -> None:
    api.chat_postMessage(channel=CHANNEL, text=text)
    api.chat_postMessage(channel=CHANNEL, text="x", blocks=[{"type": "section", "text": {"type": "mrkdwn", "text": text}}])
    api.chat_postMessage(channel=CHANNEL, text="x", blocks=[{"type": "section", "text": {"type": "plain_text", "text": text}}])
    assert [bool(message.pings) for message in slack.messages(CHANNEL)] == [True, True, False]


# ---------------------------------------------------------------- tokens, limits, time


def test_a_token_that_was_issued_elsewhere_is_refused_and_noticed(slack: FakeSlack) -> None:
    assert error(WebClient("xoxb-000-111-real", base_url=slack.api_url).auth_test) == "invalid_auth"
    assert [event["what"] for event in slack.workspace.feed] == ["refused_token"]


def test_without_a_token_nobody_is_let_in(slack: FakeSlack) -> None:
    assert httpx.post(f"{slack.api_url}auth.test").json() == {"ok": False, "error": "not_authed"}


def test_the_app_token_opens_sockets_and_nothing_else(slack: FakeSlack, api: WebClient) -> None:
    assert error(WebClient(slack.app_token, base_url=slack.api_url).auth_test) == "not_allowed_token_type"
    assert error(api.apps_connections_open, app_token=slack.bot_token) == "not_allowed_token_type"


def test_an_unknown_method_is_said_to_be_unknown(api: WebClient) -> None:
    assert error(api.api_call, api_method="reactions.add") == "unknown_method"


def test_a_rate_limit_says_when_to_come_back(slack: FakeSlack, api: WebClient) -> None:
    slack.ratelimit("users.info", retry_after=7)
    with pytest.raises(SlackApiError) as limited:
        api.users_info(user="U01ANA")
    assert (limited.value.response.status_code, limited.value.response.headers["retry-after"]) == (429, "7")
    assert api.users_info(user="U01ANA")["user"]["name"] == "ana"


def test_a_host_that_is_not_this_machine_is_refused(slack: FakeSlack) -> None:
    assert httpx.get(f"{slack.url}/_sandbox/state", headers={"Host": "evil.example"}).status_code == 403


# ---------------------------------------------------------------- modals and response addresses

MODAL: dict[str, Any] = {"type": "modal", "callback_id": "c", "title": {"type": "plain_text", "text": "T"}, "blocks": [SECTION]}


def test_a_trigger_counts_once_and_for_three_seconds(slack: FakeSlack, api: WebClient, clock: Clock) -> None:
    trigger = slack.workspace.trigger("U01ANA")
    api.views_open(trigger_id=trigger, view=MODAL)
    assert error(api.views_open, trigger_id=trigger, view=MODAL) == "exchanged_trigger_id"
    assert error(api.views_open, trigger_id="1.2.3", view=MODAL) == "invalid_trigger_id"
    late = slack.workspace.trigger("U01ANA")
    clock.now += 3.1
    assert error(api.views_open, trigger_id=late, view=MODAL) == "expired_trigger_id"


@pytest.mark.parametrize("change", [{"title": {"type": "plain_text", "text": "x" * 25}}, {"private_metadata": "x" * 3001}, {"blocks": []}, {"type": "home"}, {"blocks": [BUTTON]}])
def test_a_modal_that_slack_would_refuse_is_refused(slack: FakeSlack, api: WebClient, change: dict[str, Any]) -> None:
    assert error(api.views_open, trigger_id=slack.workspace.trigger("U01ANA"), view={**MODAL, **change}) == "invalid_arguments"


def test_a_response_address_counts_five_times_and_for_thirty_minutes(slack: FakeSlack, clock: Clock) -> None:
    url = f"{slack.url}/response/{slack.workspace.response_url(CHANNEL, 'U01ANA')}"
    answers = [httpx.post(url, json={"text": "x"}).text for _ in range(RESPONSE_USES + 1)]
    assert answers == ["ok"] * 5 + ["used_url"]
    late = f"{slack.url}/response/{slack.workspace.response_url(CHANNEL, 'U01ANA')}"
    clock.now += 30 * 60 + 1
    assert httpx.post(late, json={"text": "x"}).text == "expired_url"


# ---------------------------------------------------------------- what is sent to the app


def test_slacks_own_verifier_accepts_our_signature_and_no_other(slack: FakeSlack) -> None:
    import time

    headers = slack.postman.headers(b"body", at=time.time())
    verifier = SignatureVerifier(slack.signing_secret)
    assert verifier.is_valid(b"body", headers["X-Slack-Request-Timestamp"], headers["X-Slack-Signature"])
    assert not verifier.is_valid(b"other", headers["X-Slack-Request-Timestamp"], headers["X-Slack-Signature"])


def test_a_command_that_nobody_answers_fails_before_the_persons_eyes(slack: FakeSlack) -> None:
    slack.connect("http://127.0.0.1:9/slack/events")
    assert slack.command("Ana", CHANNEL, "help").error == "dispatch_failed"
    assert slack.ephemerals("Ana") == ['/oom failed with the error "dispatch_failed"']


def test_nobody_acts_where_they_are_not(slack: FakeSlack) -> None:
    direct = slack.workspace.direct("U01ANA")
    with pytest.raises(LookupError, match="Jo is not in #dm-Ana"):
        slack.command("Jo", direct.id, "help")
    with pytest.raises(LookupError, match="the sandbox has no 'Nobody'"):
        slack.command("Nobody", CHANNEL, "help")


def test_a_button_that_is_not_there_cannot_be_pressed(slack: FakeSlack, api: WebClient) -> None:
    ts = api.chat_postMessage(channel=CHANNEL, text="x", blocks=[{"type": "actions", "elements": [BUTTON]}])["ts"]
    with pytest.raises(LookupError, match=r"no button 'Approve'; there are \['Press'\]"):
        slack.click("Ana", CHANNEL, ts, "Approve")


# ---------------------------------------------------------------- the page's side


def test_a_page_can_show_the_workspace_and_follow_it(slack: FakeSlack, api: WebClient) -> None:
    api.chat_postMessage(channel=CHANNEL, text="hello")
    state = httpx.get(f"{slack.url}/_sandbox/state").json()
    assert state["messages"][0]["shown"] == "hello"
    assert {person["name"] for person in state["people"]} >= {"Ana", "Jo", "Wei"}
    assert httpx.get(f"{slack.url}/_sandbox/feed", params={"after": state["last"]}).json()["events"] == []
    api.chat_postMessage(channel=CHANNEL, text="more")
    events = httpx.get(f"{slack.url}/_sandbox/feed", params={"after": state["last"]}).json()["events"]
    assert [(event["n"], event["what"]) for event in events] == [(state["last"] + 1, "message")]


def test_a_page_acts_as_a_person(slack: FakeSlack) -> None:
    done = httpx.post(f"{slack.url}/_sandbox/act", json={"act": "say", "user": "Ana", "channel": "gpu-oncall", "text": "hi"})
    assert (done.status_code, slack.messages(CHANNEL)[0].text) == (200, "hi")
    wrong = httpx.post(f"{slack.url}/_sandbox/act", json={"act": "dance", "user": "Ana"})
    assert (wrong.status_code, wrong.json()["error"].startswith("act is one of")) == (400, True)


def test_a_page_of_another_origin_cannot_act(slack: FakeSlack) -> None:
    assert httpx.post(f"{slack.url}/_sandbox/act", content='{"act": "say"}', headers={"Content-Type": "text/plain"}).status_code == 415
