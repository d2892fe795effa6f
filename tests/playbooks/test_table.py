"""The table of messages for people is made from the data, is fresh, and lacks nothing of the reference's index."""

from pathlib import Path

import pytest
import yaml

from bot.diagnosis.signatures import Signature
from bot.logs.messages import LogMessage
from bot.model import Phase, Text
from bot.playbooks import load
from bot.playbooks.table import markdown, uses
from bot.predicates import Condition

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


@pytest.mark.parametrize(
    ("when", "unless", "speaks"),
    [
        ({"a.line": {"present": True}}, {}, True),
        ({"a.line": {"present": False}}, {}, False),
        ({"failure.kind": {"one_of": ["a_kind", "another"]}}, {}, True),
        ({"failure.kind": {"equals": "another"}}, {}, False),
        ({"failure.kind": {"equals": "a_kind"}, "failure.phase": {"equals": "serving"}}, {}, False),
        ({"failure.kind": {"equals": "a_kind"}, "failure.phase": {"one_of": ["weights", "serving"]}}, {}, True),
        ({"failure.kind": {"equals": "a_kind"}}, {"a.line": {"present": True}}, False),
        ({"failure.kind": {"equals": "a_kind"}}, {"other.line": {"present": True}}, True),
    ],
)
def test_a_message_supports_no_rule_that_it_keeps_from_firing(when: dict[str, Condition], unless: dict[str, Condition], speaks: bool) -> None:
    message = LogMessage(id="a.line", says=Text("x"), anchors=(b"line",), role="fatal", kind="a_kind", phase=Phase.WEIGHTS)
    assert uses(Signature("s/x", "s", Text("x"), when, unless), message) is speaks
