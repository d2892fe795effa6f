"""One value changes, and not a character besides."""

import pytest

from bot.remediation.yaml_text import with_value

CONFIG = """# chat
model: llama   # the model
max-model-len: 131072  # long
"quoted": 'x'
"""


def test_comments_and_order_stay() -> None:
    assert with_value(CONFIG, (), "max-model-len", "57344") == CONFIG.replace("131072", "57344")


def test_an_absent_key_is_put_in_front() -> None:
    assert with_value("a: 1\nb: 2\n", (), "max-num-seqs", "8") == "max-num-seqs: 8\na: 1\nb: 2\n"
    assert with_value("x: {a: 1}\n", ("x",), "b", "2") == "x: {b: 2, a: 1}\n"


def test_a_nested_value_is_found() -> None:
    text = "applications:\n  - args:\n      llm_configs:\n        - engine_kwargs:\n            max_model_len: 131072\n            tp: 1\n"
    path = ("applications", 0, "args", "llm_configs", 0, "engine_kwargs")
    assert with_value(text, path, "max_model_len", "57344") == text.replace("131072", "57344")
    assert with_value(text, path, "max_num_seqs", "8") == text.replace("max_model_len", "max_num_seqs: 8\n            max_model_len")


@pytest.mark.parametrize(
    "text",
    ["max-model-len: &a 5\nother: *a\n", "max-model-len: 1\nmax-model-len: 2\n", "- 1\n", "just text", "{", "a: 1\n---\nb: 2\n", "", "max-model-len: [1]\n"],
)
def test_what_cannot_be_changed_safely_is_not(text: str) -> None:
    assert with_value(text, (), "max-model-len", "57344") is None
