"""The table of messages for people is made from the data, is fresh, and lacks nothing of the reference's index."""

from pathlib import Path

import yaml

from bot.playbooks import load
from bot.playbooks.table import markdown

ROOT = Path(__file__).parent.parent.parent
KNOWLEDGE = load()


def test_the_table_in_docs_is_fresh() -> None:
    assert (ROOT / "docs" / "messages.md").read_text() == markdown(KNOWLEDGE), "run: oombot explain --table > docs/messages.md"


def test_every_key_of_the_reference_is_known_or_left_out_for_a_reason() -> None:
    index = yaml.safe_load((ROOT / "tests" / "data" / "message_index.yaml").read_text())
    ids = {message.id for message in KNOWLEDGE.messages}
    missing = [f"{key}: {name}" for key, names in index.items() if isinstance(names, list) for name in names if name not in ids]
    assert missing == []
    assert all(names["left_out"] for names in index.values() if isinstance(names, dict))


def test_every_fatal_message_supports_a_cause() -> None:
    from bot.playbooks.table import supports

    idle = {message.id for message in KNOWLEDGE.messages if message.role == "fatal" and not supports(message, KNOWLEDGE.signatures)}
    assert idle <= {"ray.gcs_lost"}  # only a client's view: why Ray's head is gone stands elsewhere
