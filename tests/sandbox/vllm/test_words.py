"""Lines have the form of their version."""

import pytest

from tests.sandbox.vllm.starts import L4, STRAY, log, start


@pytest.mark.parametrize(
    ("version", "lines"),
    [
        ("0.9.1", ["(EngineCore_0 pid=270) INFO", "Model loading took 2.3000 GiB and 6.900000 seconds", "GPU KV cache size: "]),
        ("0.11.0", ["(APIServer pid=1) INFO", "(EngineCore_DP0 pid=270) INFO", "Model loading took 2.3000 GiB and ", "Maximum concurrency for 8,192 tokens per request: "]),
        ("0.12.0", ["Model loading took 2.3000 GiB memory and "]),
        ("0.14.0", ["Model loading took 2.30 GiB memory and "]),
        ("0.20.0", ["(EngineCore pid=270) INFO", "Estimated CUDA graph memory: 0.23 GiB total", "The current --gpu-memory-utilization=0.9200 is equivalent to "]),
        ("0.29.0", [" tokens, Maximum concurrency for 8,192 tokens per request: "]),
    ],
)  # fmt: skip
def test_a_healthy_start_is_told_in_the_words_of_its_version(version: str, lines: list[str]) -> None:
    text = log(start("small-1b", version=version))
    for line in lines:
        assert line in text


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("0.10.2", "with the models's max seq len (131072), (24.00 GiB KV cache is needed, which is larger than the available KV cache memory (10.74 GiB). Based on the "
                   "available memory,  the estimated maximum model length is 58640. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when"),
        ("0.13.0", "when initializing the engine. See https://docs.vllm.ai/"),
        ("0.25.0", "with the model's max seq len (131072)"),
        ("0.25.0", "Try increasing `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or decreasing"),
    ],
)  # fmt: skip
def test_a_context_that_does_not_fit_is_told_in_the_words_of_its_version(version: str, message: str) -> None:
    assert message in log(start("chat-32b-w6", "--max-model-len=131072", version=version))


@pytest.mark.parametrize(("version", "device"), [("0.11.0", "on device (12.58/22.05 GiB)"), ("0.14.0", "on device cuda:0 (12.58/22.05 GiB)")])
def test_the_start_check_names_the_device_in_later_versions(version: str, device: str) -> None:
    assert device in log(start("small-1b", version=version, card_gib=L4, others=STRAY))


@pytest.mark.parametrize(
    ("version", "setting", "page"),
    [
        ("0.11.0", "try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "pytorch.org/docs/stable/notes/cuda.html#environment-variables"),
        ("0.18.0", "try setting PYTORCH_ALLOC_CONF=expandable_segments:True", "#environment-variables"),
        ("0.22.0", "try setting PYTORCH_CUDA_ALLOC_CONF=", "docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage"),
    ],
)  # fmt: skip
def test_pytorchs_message_is_that_of_the_pytorch_of_the_version(version: str, setting: str, page: str) -> None:
    text = log(start("chat-70b", version=version))
    assert setting in text
    assert page in text
    assert ("Failed to load model - not enough GPU memory." in text) == (version != "0.11.0")


def test_the_sizes_in_pytorchs_message_add_up() -> None:
    line = next(row for row in log(start("chat-70b")).splitlines() if "torch.OutOfMemoryError" in row)
    assert "Tried to allocate 448.00 MiB. GPU 0 has a total capacity of 44.40 GiB of which " in line
    free = float(line.split("of which ")[1].split(" MiB")[0]) / 1024
    mine = float(line.split("Process ")[1].split(" has ")[1].split(" GiB")[0])
    assert free < 448 / 1024
    assert abs(44.40 - free - mine) < 0.02


def test_the_estimate_can_be_switched_off() -> None:
    text = log(start("small-1b", version="0.20.0", environment={"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "0"}))
    assert "Estimated CUDA graph memory" not in text


def test_fixed_cache_bytes_skip_the_profile() -> None:
    text = log(start("small-1b", "--kv-cache-memory-bytes=2147483648"))
    assert "reserved 2.00 GiB memory for KV Cache as specified by kv_cache_memory_bytes" in text
    assert "Available KV cache memory" not in text
