"""Every spelling that vLLM takes."""

import pytest

from bot.sandbox.vllm.arguments import Arguments, read


def _read(*args: str, command: list[str] | None = None, environment: dict[str, str] | None = None, image: str = "vllm/vllm-openai:v0.13.0") -> Arguments:
    return read({"image": image, "command": command or [], "args": list(args)}, environment or {})


@pytest.mark.parametrize(
    "words",
    [
        ["--gpu-memory-utilization=0.85"],
        ["--gpu-memory-utilization", "0.85"],
        ["--gpu_memory_utilization=0.85"],
        ["--gpu_memory_utilization", "0.85"],
        ["--gpu-memory-util=0.85"],
        ["--gpu-memory-utilization=0.5", "--gpu-memory-utilization=0.85"],
    ],
)
def test_the_utilisation_is_read_in_each_spelling(words: list[str]) -> None:
    assert _read("--model=/models/a", *words, "--enforce-eager").utilization == 0.85


def test_the_model_may_stand_alone_after_serve() -> None:
    found = _read(command=["vllm", "serve", "/models/a", "--max-num-seqs", "8"])
    assert (found.model, found.max_num_seqs) == ("/models/a", 8)


def test_a_shell_line_is_read_with_its_variables() -> None:
    line = 'export X=1 && exec vllm serve /models/a \\\n  --max-model-len ${LENGTH} --gpu-memory-utilization "0.8"'
    found = _read(line, command=["/bin/sh", "-c"], environment={"LENGTH": "4096"})
    assert (found.model, found.max_model_len, found.utilization) == ("/models/a", 4096, 0.8)


def test_the_kubelets_variables_are_replaced() -> None:
    assert _read("--gpu-memory-utilization=$(UTIL)", environment={"UTIL": "0.7"}).utilization == 0.7


@pytest.mark.parametrize(("word", "value"), [("32k", 32_000), ("32K", 32_768), ("25.6k", 25_600), ("4096", 4096)])
def test_human_numbers(word: str, value: int) -> None:
    assert _read(f"--max-model-len={word}").max_model_len == value


@pytest.mark.parametrize(
    ("image", "version"), [("vllm/vllm-openai:v0.9.1", "0.9.1"), ("mirror.example:5000/vllm:0.20.0-cu128", "0.20.0"), ("vllm:latest", "0.11.0")]
)
def test_the_version_comes_from_the_image(image: str, version: str) -> None:
    assert _read(image=image).version == version


def test_what_was_given_is_kept_as_it_is_printed() -> None:
    assert _read("--model=/models/a", "--gpu-memory-utilization=0.9", "--max-num-seqs=8", "--enforce-eager").given == {
        "model": "/models/a", "gpu_memory_utilization": 0.9, "max_num_seqs": 8, "enforce_eager": True,
    }  # fmt: skip
