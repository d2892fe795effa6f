"""The real Bolt app behind the real web layer, driven as Slack drives it."""

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import httpx
import pytest

from bot.errors import BadInput, Refused, StoreError
from bot.model import State
from bot.sandbox.slack import FakeSlack
from handlers.slack.app import Connection, build, home_of
from handlers.slack.chat import client
from handlers.slack.socket_mode import SlackSocket
from tests.handlers.desk import FixedClock
from tests.handlers.incidents import CHANNEL, case
from tests.handlers.slack.conftest import World, eventually

# ---------------------------------------------------------------- commands


def test_a_check_is_received_and_answered_at_once(world: World) -> None:
    ack = world.slack.command("Ana", "gpu-oncall", "check pod-x -n llm --cluster east")
    assert ack.text == "Looking at `pod-x`. The answer comes in this channel."
    assert ack.seconds < 1
    request = world.desk.requests[0]
    assert (request.query.name, request.query.namespace, request.query.cluster) == ("pod-x", "llm", "east")
    assert (request.actor.id, request.actor.origin, request.conversation.channel) == ("U01ANA", "slack", CHANNEL)  # type: ignore[union-attr]
    assert world.slack.ephemerals("Ana") == [ack.text]
    assert world.slack.messages(CHANNEL) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("chekc pod-x", "did you mean: check"),
        ("check", "The form is: check POD"),
        ("check a b", 'One word too many: "b"'),
        ("check pod-x --colour red", 'No option "--colour"'),
        ("check x/y/z", "is no kind that can be checked"),
    ],
)
def test_a_mistake_gets_one_line_with_the_right_form(world: World, text: str, line: str) -> None:
    ack = world.slack.command("Ana", "gpu-oncall", text)
    assert line in ack.text
    assert "\n" not in ack.text
    assert world.desk.requests == []


def test_a_mistake_cannot_ping(world: World) -> None:
    ack = world.slack.command("Ana", "gpu-oncall", "<!channel>")
    assert ack.ephemeral is not None
    assert ack.ephemeral.pings == ()


def test_a_refusal_is_told_to_who_asked(world: World) -> None:
    world.desk.refuse_with = Refused("guest")
    assert world.slack.command("Gil", "gpu-oncall", "check pod-x").text == "Refused: guests may not use oombot."


def test_a_store_that_fails_is_said_to_be_temporary(world: World) -> None:
    world.desk.refuse_with = StoreError("the database is locked")
    assert "That did not work just now: the database is locked. Nothing was done" in world.slack.command("Ana", "gpu-oncall", "check pod-x").text


def test_help_names_the_forms_and_the_clusters(world: World) -> None:
    text = world.slack.command("Ana", "gpu-oncall", "").text
    assert "`/oom check POD`" in text
    assert "Clusters: east." in text


def test_status_lists_open_cases_and_the_kill_switch(world: World) -> None:
    world.slack.command("Ana", "gpu-oncall", "check pod-x")
    assert "Changes are stopped" not in world.slack.command("Ana", "gpu-oncall", "status").text
    assert "<@U02JO> stopped all changes" in world.slack.command("Jo", "gpu-oncall", "freeze").text
    text = world.slack.command("Ana", "gpu-oncall", "status").text
    assert "Changes are frozen by <@U02JO>" in text
    assert "Open cases: 1." in text
    assert "pod-x: received" in text
    assert "pod-x: received" in world.slack.command("Ana", "gpu-oncall", "history 5").text
    assert "allowed changes again" in world.slack.command("Jo", "gpu-oncall", "unfreeze").text


def test_two_commands_of_one_person_are_two_cases(world: World) -> None:
    world.slack.command("Ana", "gpu-oncall", "check pod-x")
    world.slack.command("Ana", "gpu-oncall", "check pod-x")
    assert len(world.desk.requests) == 2


def test_the_receipt_is_in_the_language_of_who_asked(world: World) -> None:
    assert world.slack.command("Wei", "gpu-oncall", "check pod-x").text == "正在检查 `pod-x`。结果将发在本频道。"


# ---------------------------------------------------------------- mentions


def test_a_mention_in_a_thread_is_answered_there(world: World) -> None:
    alert = world.slack.say("Jo", CHANNEL, "it is down")
    ack = world.slack.mention("Ana", CHANNEL, alert.ts, "check pod-x")
    assert ack.status == 200
    request = eventually(lambda: world.desk.requests[0])
    assert request.conversation is not None
    assert request.conversation.thread == alert.ts


def test_the_same_event_twice_opens_one_case_and_answers_once(world: World) -> None:
    ack = world.slack.mention("Ana", CHANNEL, None, "check pod-x")
    world.slack.again(ack)
    world.slack.again(ack, 2)
    eventually(lambda: world.slack.ephemerals("Ana")[0])
    time.sleep(0.2)
    assert len(world.desk.requests) == 1
    assert len(world.slack.ephemerals("Ana")) == 1


def test_a_mistake_in_a_mention_is_whispered(world: World) -> None:
    world.slack.mention("Ana", CHANNEL, None, "chekc pod-x")
    assert "did you mean: check" in eventually(lambda: world.slack.ephemerals("Ana")[0])


def test_a_bot_that_mentions_us_gets_no_answer(world: World) -> None:
    world.slack.mention("Robot", CHANNEL, None, "check pod-x")
    time.sleep(0.3)
    assert world.desk.requests == []
    assert world.slack.ephemerals("Robot") == []


# ---------------------------------------------------------------- buttons and modals


def posted(world: World, state: State, purpose: str = "plan:plan-1") -> str:
    return world.chat.post(case(state), purpose)


def test_a_click_brings_the_id_who_and_where(world: World) -> None:
    ts = posted(world, State.AWAITING_APPROVAL)
    assert world.slack.click("Wei", CHANNEL, ts, "Approve").status == 200
    press = world.desk.presses[0]
    assert (press.button_id, press.actor.id, press.conversation.channel, press.conversation.thread) == ("id-approve", "U03WEI", CHANNEL, ts)


def test_a_refused_click_is_told_to_who_clicked(world: World) -> None:
    ts = posted(world, State.AWAITING_APPROVAL)
    world.desk.refuse_with = Refused("second_person_asked")
    world.slack.click("Ana", CHANNEL, ts, "Approve")
    assert eventually(lambda: world.slack.ephemerals("Ana")[0]) == "Refused: you asked for the check, so another person must approve."


def test_a_rejection_asks_why_first(world: World) -> None:
    ts = posted(world, State.AWAITING_APPROVAL)
    world.slack.click("Jo", CHANNEL, ts, "Reject...")
    assert world.desk.presses == []
    assert eventually(lambda: world.slack.views("Jo")[0]).body["title"]["text"] == "Reject the plan"
    world.slack.submit("Jo", {"reason": "not before the demo"})
    press = world.desk.presses[0]
    assert (press.button_id, press.reason, press.conversation.channel) == ("id-reject", "not before the demo", CHANNEL)
    assert world.slack.views("Jo") == []


def test_a_rejection_without_a_reason_stays_open(world: World) -> None:
    world.slack.click("Jo", CHANNEL, posted(world, State.AWAITING_APPROVAL), "Reject...")
    eventually(lambda: world.slack.views("Jo")[0])
    world.slack.submit("Jo", {"reason": "   "})
    assert world.desk.presses == []
    assert world.slack.views("Jo")[0].errors == {"reason": "Say why in a few words."}


def test_a_refused_rejection_is_said_in_the_modal(world: World) -> None:
    world.slack.click("Jo", CHANNEL, posted(world, State.AWAITING_APPROVAL), "Reject...")
    eventually(lambda: world.slack.views("Jo")[0])
    world.desk.refuse_with = Refused("expired", {"at": "10:42"})
    world.slack.submit("Jo", {"reason": "no"})
    assert "the approval expired at 10:42" in world.slack.views("Jo")[0].errors["reason"]


def test_the_shortcut_fills_in_the_target_that_the_alert_names(world: World) -> None:
    alert = world.slack.say("Robot", CHANNEL, "FIRING KubePodCrashLooping namespace=llm pod=chat-7d9f-x2x container=server")
    world.slack.shortcut("Ana", CHANNEL, alert.ts, "diagnose_message")
    view = eventually(lambda: world.slack.views("Ana")[0])
    assert view.body["blocks"][0]["element"]["initial_value"] == "llm/chat-7d9f-x2x"
    world.slack.submit("Ana", {"target": "llm/chat-7d9f-x2x"})
    request = world.desk.requests[0]
    assert (request.query.namespace, request.query.name) == ("llm", "chat-7d9f-x2x")
    assert request.conversation is not None
    assert request.conversation.thread == alert.ts


def test_a_mistake_in_the_shortcut_is_said_in_the_modal(world: World) -> None:
    alert = world.slack.say("Jo", CHANNEL, "it is down")
    world.slack.shortcut("Ana", CHANNEL, alert.ts, "diagnose_message")
    eventually(lambda: world.slack.views("Ana")[0])
    world.slack.submit("Ana", {"target": "a b"})
    assert "One word too many" in world.slack.views("Ana")[0].errors["target"]


# ---------------------------------------------------------------- refused at the door


def signed(world: World, body: bytes, **more: object) -> dict[str, str]:
    return world.slack.postman.headers(body, **more) | {"Content-Type": "application/x-www-form-urlencoded"}  # type: ignore[arg-type]


BODY = urlencode({"command": "/oom", "text": "check pod-x", "user_id": "U01ANA", "channel_id": CHANNEL, "trigger_id": "1.1", "team_id": "T0SANDBOX"}).encode()


def test_a_signed_request_passes(world: World) -> None:
    assert httpx.post(world.events_url, content=BODY, headers=signed(world, BODY)).status_code == 200
    assert len(world.desk.requests) == 1


def test_a_forged_signature_is_refused(world: World) -> None:
    answer = httpx.post(world.events_url, content=BODY, headers=signed(world, BODY, secret="guessed"))
    assert (answer.status_code, answer.json()) == (401, {"error": "invalid request"})
    assert world.desk.requests == []


def test_a_body_that_was_changed_is_refused(world: World) -> None:
    answer = httpx.post(world.events_url, content=BODY.replace(b"pod-x", b"pod-y"), headers=signed(world, BODY))
    assert answer.status_code == 401
    assert world.desk.requests == []


def test_a_stale_signature_is_refused(world: World) -> None:
    answer = httpx.post(world.events_url, content=BODY, headers=signed(world, BODY, at=time.time() - 301))
    assert (answer.status_code, answer.json()) == (401, {"error": "invalid request"})


@pytest.mark.parametrize("stamp", ["", "soon", "1e9", "٣", "-5"])
def test_a_timestamp_that_is_no_number_is_refused(world: World, stamp: str) -> None:
    headers = {**signed(world, BODY), "X-Slack-Request-Timestamp": stamp.encode()}  # type: ignore[dict-item]
    answer = httpx.post(world.events_url, content=BODY, headers=headers)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()) == (401, {"error": "invalid request: X-Slack-Request-Timestamp is no number"})


def test_a_payload_of_5_megabytes_is_refused(world: World) -> None:
    body = b"x" * 5_000_000
    answer = httpx.post(world.events_url, content=body, headers=signed(world, body))
    assert (answer.status_code, answer.json()) == (413, {"error": "the body is larger than 1048576 bytes"})


def test_a_body_that_is_not_text_is_refused(world: World) -> None:
    body = b"\xff\xfe" * 10
    assert httpx.post(world.events_url, content=body, headers=signed(world, body)).status_code == 400


def test_a_forged_request_is_not_written_to_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        httpx.post(world.events_url, content=b"text=secret-prompt", headers=signed(world, b"other"))
    assert "secret-prompt" not in caplog.text


def test_without_a_signing_secret_the_app_is_not_built(world: World) -> None:
    api = client(world.slack.bot_token, world.slack.api_url)
    with pytest.raises(BadInput, match=r"slack.signing_secret is empty; it is needed for slack.mode http"):
        build(Connection(""), api, world.desk, world.chat, FixedClock())


def test_ten_people_at_once_are_all_answered_in_time(world: World) -> None:
    world.slack.command("Ana", "gpu-oncall", "help")
    with ThreadPoolExecutor(10) as pool:
        acks = list(pool.map(lambda number: world.slack.command("Ana", "gpu-oncall", f"check pod-{number}"), range(10)))
    assert [ack.status for ack in acks] == [200] * 10
    assert len(world.desk.requests) == 10


def test_our_home_is_that_of_the_token(slack: FakeSlack) -> None:
    assert home_of(client(slack.bot_token, slack.api_url)) == "T0SANDBOX"


# ---------------------------------------------------------------- Socket Mode


def test_the_same_app_works_over_socket_mode(world: World) -> None:
    api = client(world.slack.bot_token, world.slack.api_url)
    app = build(Connection(socket_mode=True), api, world.desk, world.chat, FixedClock())
    socket = SlackSocket(app, world.slack.app_token, world.slack.api_url)
    socket.start()
    try:
        eventually(lambda: world.slack.postman.sockets[0])
        ack = world.slack.command("Ana", "gpu-oncall", "check pod-x")
        assert ack.text.startswith("Looking at `pod-x`")
        world.slack.mention("Ana", CHANNEL, None, "check pod-y")
        eventually(lambda: world.desk.requests[1])
        assert socket.trouble() == ()
    finally:
        socket.stop()

