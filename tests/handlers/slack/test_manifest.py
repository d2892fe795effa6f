"""The manifest asks Slack for what the code uses, and for nothing else."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from handlers.slack.shortcuts import SHORTCUT

ROOT = Path(__file__).parent.parent.parent.parent
SCOPES = {
    "chat_postMessage": "chat:write",
    "users_info": "users:read",
    "usergroups_users_list": "usergroups:read",
    "conversations_replies": "channels:history",
    "conversations_history": "channels:history",
    "chat_update": "chat:write",
    "chat_postEphemeral": "chat:write",
    "views_open": "commands",
    "auth_test": "commands",
}


@pytest.fixture
def manifest() -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "slack" / "manifest.yaml").read_text())
    return made


def test_every_call_of_the_code_has_its_scope(manifest: dict[str, Any]) -> None:
    code = "".join(path.read_text() for path in (ROOT / "handlers" / "slack").glob("*.py"))
    calls = set(re.findall(r"client\.([a-z]+_[a-zA-Z_]+)\b", code)) - {"current_session", "is_connected"}
    assert calls == set(SCOPES)
    assert {SCOPES[call] for call in calls} <= set(manifest["oauth_config"]["scopes"]["bot"])


def test_command_shortcut_and_event_are_those_that_are_listened_to(manifest: dict[str, Any]) -> None:
    features = manifest["features"]
    assert [each["command"] for each in features["slash_commands"]] == ["/oom"]
    assert [each["callback_id"] for each in features["shortcuts"]] == [SHORTCUT]
    assert manifest["settings"]["event_subscriptions"]["bot_events"] == ["app_mention"]


def test_every_address_is_the_one_route(manifest: dict[str, Any]) -> None:
    text = (ROOT / "deploy" / "slack" / "manifest.yaml").read_text()
    assert set(re.findall(r"https://\S+", text)) == {"https://ADDRESS/slack/events"}
    assert len(manifest["display_information"]["description"]) <= 140
