"""The memory that `docker run` gives a container, from the command line as people keep it."""

import pytest

from bot.evidence.args_text import read


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("docker run --rm -m 512m --gpus all vllm/vllm-openai:v0.11.0 --model m", 512 * 2**20),
        ("docker run -d --memory=8g vllm/vllm-openai:v0.11.0", 8 * 2**30),
        ("podman run --memory 2048k x", 2 * 2**20),
        ("docker run -d \\\n  --memory 16GB \\\n  x", 16 * 2**30),
        ("docker run -d --memory-swap 8g x", None),
        ("vllm serve -m 512m", None),
    ],
)
def test_memory_of_a_container_is_read_from_its_run_command(line: str, size: int | None) -> None:
    facts = {fact.name: fact.value for fact in read(line.encode(), "args.txt").facts}
    assert facts.get("args.container_memory_bytes") == size
