"""Which shell strings are one simple command, and where its words stand."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.remediation.shell_words import simple_command


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve llama --max-model-len 131072",
        "exec vllm serve 'meta/llama 3' --max-model-len=131072 \\\n  --seed 1\n",
        'vllm serve "$MODEL" --max-model-len ${MAX_LEN}',
        "vllm serve llama --port=$PORT",
    ],
)
def test_a_simple_command_is_read_word_by_word(text: str) -> None:
    found = simple_command(text)
    assert found is not None
    assert [word.text for word in found] == [word for word in shlex.split(text.replace("\\\n", " ")) if word != "exec"]
    assert all(shlex.split(text[word.start : word.end]) == [word.text] for word in found)


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve llama && true", "vllm serve llama | tee log", "vllm serve llama; rm x", "vllm serve $(cat model) x", "vllm serve `cat model`",
        "A=1 vllm serve llama", "vllm serve llama > log", "vllm serve *.bin", "vllm serve ~/llama", "vllm serve llama # note", "vllm serve llama $EXTRA",
        "vllm serve llama\nvllm serve other", "vllm serve 'llama", "eval vllm serve llama &", "", "   ", "(vllm serve llama)", "vllm serve a{b,c}",
        'vllm serve "a`b`"', "vllm serve a!b", "vllm serve a\\ b",
    ],
)  # fmt: skip
def test_what_a_shell_would_do_more_with_is_left_alone(text: str) -> None:
    assert simple_command(text) is None


@given(st.text(alphabet="ab-=$ {}()'\"\\\n;&|#*~`<>!", max_size=30))
def test_no_text_breaks_it_and_what_it_reads_is_what_a_shell_would(text: str) -> None:
    found = simple_command(text)
    if found is not None:
        words = shlex.split(text.replace("\\\n", " "))
        assert [word.text for word in found] == (words[1:] if words[0] == "exec" else words)
