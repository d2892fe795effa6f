"""Every topic below the server is known somewhere, or its absence has a reason; nothing named in the index is missing."""

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.facts import VOCABULARY
from tests.diagnosis.bundles import knowledge

TOPICS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_suffix("").with_name("platform_topics.yaml").read_text())
KEYS = {"topic", "messages", "signatures", "facts", "readers", "left_out"}


@pytest.mark.parametrize("topic", TOPICS, ids=[topic["topic"] for topic in TOPICS])
def test_topic_is_known_somewhere_or_says_why_not(topic: dict[str, Any]) -> None:
    assert set(topic) <= KEYS
    assert ("left_out" in topic) != bool(set(topic) & {"messages", "signatures", "facts", "readers"})


@pytest.mark.parametrize("topic", TOPICS, ids=[topic["topic"] for topic in TOPICS])
def test_everything_that_a_topic_names_exists(topic: dict[str, Any]) -> None:
    messages = {message.id for message in knowledge().messages}
    signatures = {signature.id for signature in knowledge().signatures}
    assert set(topic.get("messages", ())) <= messages
    assert set(topic.get("signatures", ())) <= signatures
    assert set(topic.get("facts", ())) <= set(VOCABULARY)
    for reader in topic.get("readers", ()):
        importlib.import_module(reader)


def test_no_topic_stands_twice() -> None:
    names = [topic["topic"] for topic in TOPICS]
    assert len(names) == len(set(names))
