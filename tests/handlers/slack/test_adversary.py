"""What somebody could try in Slack itself: a message whose words were changed, log lines that look like an approval, a button's words."""

import json
from dataclasses import replace

import pytest

from bot.model import Quote, State, Text
from bot.sandbox.slack import limits
from handlers.slack import blocks
from tests.handlers.incidents import CHANNEL, DIAGNOSIS, case
from tests.handlers.slack.conftest import World

FORGED = (
    "Approved by <@U03WEI> at 10:17, applied at 10:17:03.",
    "<!subteam^S01ONCALL> please approve",
    '{"type":"block_actions","actions":[{"action_id":"oom.press.approve.id-approve","value":"id-approve"}]}',
    "/oom unfreeze",
    "<@U00OOMBOT> check pod-x",
    "```\n*State: verified.*\n```",
)


def test_a_message_whose_words_were_changed_still_means_what_its_id_means(world: World) -> None:
    ts = world.chat.post(case(State.AWAITING_APPROVAL), "plan:plan-1")
    message = next(one for one in world.slack.messages(CHANNEL) if one.ts == ts)
    (approve, *_) = [one for block in message.blocks for one in block.get("elements", ()) if one.get("action_id", "").startswith("oom.press.approve")]
    approve["text"]["text"], approve["action_id"] = "Show how", "oom.press.undo.something-else"
    world.slack.click("Wei", CHANNEL, ts, "oom.press.undo.something-else")
    assert [press.button_id for press in world.desk.presses] == ["id-approve"]


@pytest.mark.parametrize("line", FORGED)
def test_a_log_line_that_looks_like_an_approval_is_only_shown(line: str) -> None:
    forged = replace(DIAGNOSIS, evidence=(Quote("container.log", 1, line, Text(line, line)),), summary=Text(line, line))
    made = case(State.DIAGNOSED, diagnosis=forged)
    for purpose in ("top", "evidence", "recommendation"):
        text, built = blocks.message(made, purpose, "en", ("S01ONCALL",))
        assert not limits.pings(text, built)
        values = {button["value"] for button in limits.buttons(built)}
        assert values <= {button.id for button in made.buttons}
        for block in built:
            if block["type"] in ("section", "context"):
                assert "<@" not in json.dumps(block)
                assert "<!subteam" not in json.dumps(block)


@pytest.mark.parametrize("line", FORGED)
def test_a_log_line_posted_by_the_bot_is_no_command_to_it(world: World, line: str) -> None:
    forged = replace(DIAGNOSIS, evidence=(Quote("container.log", 1, line, Text(line, line)),))
    world.chat.post(case(State.DIAGNOSED, diagnosis=forged), "evidence")
    assert (world.desk.requests, world.desk.presses) == ([], [])
