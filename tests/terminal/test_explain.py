"""`oombot explain`: what is known of a cause or of a pasted line, with who prints it and in which versions."""

import pytest

from bot.__main__ import main

REFUSAL = (
    "ValueError: To serve at least one request with the models's max seq len (65536), (8.00 GiB KV cache is needed, which is larger than the "
    "available KV cache memory (5.25 GiB). Based on the available memory, the estimated maximum model length is 43008."
)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", *words]) == 0
    return capsys.readouterr().out


def test_a_line_is_read_with_its_fields_its_versions_and_who_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--message", REFUSAL)
    assert text.startswith("vllm.context_exceeds_cache")
    assert "printed by vLLM: v1/core/kv_cache_utils.py, versions >=0.7" in text
    assert "needed: 8 GiB" in text
    assert "estimated_max_len: 43,008" in text
    assert "context_exceeds_kv_cache" in text.partition("supports: ")[2].splitlines()[0]


def test_a_line_that_nobody_knows_is_said_to_be_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--message", "the weather is fine"]) == 1
    assert capsys.readouterr().err == "no message that we know stands in that line\n"


def test_a_cause_is_told_with_its_rules_its_messages_and_what_would_decide(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "cuda_graph_capture")
    assert text.startswith("cuda_graph_capture (device_memory)")
    assert "when failure.kind one_of" in text
    assert "seen as torch.oom: PyTorch: c10/cuda/CUDACachingAllocator.cpp" in text
    assert "    do cudagraph_sizes:lower" in text


def test_what_would_decide_is_said_in_the_language_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert "decided by nvidia-smi.txt: whether somebody else took memory meanwhile" in said(capsys, "gpu_oom")
    assert "decided by nvidia-smi.txt: 其间是否有别人占用了显存" in said(capsys, "gpu_oom", "--language", "zh")


def test_a_remedy_that_depends_says_on_what(capsys: pytest.CaptureFixture[str]) -> None:
    assert "do kv_cache_memory_bytes:set, if engine.kv_cache_memory_bytes present True" in said(capsys, "gpu_oom")


@pytest.mark.parametrize("words", [(), ("gpu_oom", "--message", "x")])
def test_neither_or_both_is_refused_with_what_would_be_right(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    assert main(["explain", *words]) == 2
    assert "explain takes a cause, or --message LINE" in capsys.readouterr().err


def test_a_word_that_is_no_cause_is_refused_with_all_causes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "weather"]) == 2
    assert "no cause 'weather'; one of: weights_too_large" in capsys.readouterr().err
    assert main(["explain", "kv_cache_to_small"]) == 2
    assert capsys.readouterr().err == "oombot: no cause 'kv_cache_to_small'; perhaps kv_cache_too_small\n"


def test_what_a_line_means_is_said_in_the_language_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert "PyTorch 拿不到显存" in said(capsys, "--message", "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", "--language", "zh")


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 132.75 MiB is free. "
    "Process 3112 has {others} GiB memory in use. Process 4055 has {own} GiB memory in use. Of the allocated memory {held} GiB is allocated by PyTorch, and "
    "38.15 MiB is reserved by PyTorch but unallocated."
)


def supported(capsys: pytest.CaptureFixture[str], line: str) -> str:
    return said(capsys, "--message", line).partition("supports: ")[2].partition("\napp.")[0]


def test_causes_that_the_line_itself_speaks_against_are_not_named_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    shared = supported(capsys, OOM.format(others="60.02", own="18.98", held="18.41"))
    assert "other_process_on_gpu" in shared
    assert "weights_too_large" not in shared
    alone = supported(capsys, OOM.format(others="0.02", own="78.98", held="78.41"))
    assert "weights_too_large" in alone
    assert "fragmentation" not in alone
