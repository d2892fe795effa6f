"""Servers that do without PyTorch's allocator, or hide its words, say in their own lines what did not fit."""

import pytest

from bot.model import Certainty
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.test_fitting_advice import remedies

REFUSED = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9216.00 MiB on device 0: cudaMalloc failed: out of memory\n"
VULKAN = "ggml_vulkan: Device memory allocation of size 9663676416 failed.\n"
COMPUTE = "graph_reserve: failed to allocate compute buffers\n"
LISTENS = "main: server is listening on http://127.0.0.1:8080 - starting the main loop\n"
EXECUTOR = "RuntimeError: Executor creation failed due to insufficient GPU memory.\n\nThe following component could not be created: {}\nTotal GPU memory (GiB): 80.00\nFree GPU memory before component creation attempt (GiB): 20.50\n"
TGI = "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`\n"


@pytest.mark.parametrize("refused", [REFUSED, VULKAN])
@pytest.mark.parametrize(
    ("behind", "cause", "first"),
    [
        (COMPUTE, "profile_run_peak", "max_num_batched_tokens:lower"),
        (
            "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache\n",
            "context_exceeds_kv_cache",
            "max_model_len:lower",
        ),
        ("llama_model_load: error loading model: unable to allocate CUDA0 buffer\n", "weights_too_large", "quantization:enable"),
    ],
)
def test_llama_cpp_names_behind_the_refusal_what_did_not_fit(refused: str, behind: str, cause: str, first: str) -> None:
    found = diagnose({"container.log": "main: loading model\n" + refused + behind + "main: exiting due to model loading error\n"})
    assert (found.cause, remedies(found)[0]) == (cause, first)


def test_a_buffer_that_a_second_try_did_without_is_no_failure() -> None:
    retried = REFUSED + COMPUTE + "sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism\n"
    assert diagnose({"container.log": retried + LISTENS}).cause == "healthy"
    assert diagnose({"container.log": retried + REFUSED + COMPUTE}).cause == "profile_run_peak"


@pytest.mark.parametrize(
    ("part", "cause", "first"),
    [
        ("KV cache", "gpu_oom", "gpu_memory_utilization:lower"),
        ("Model", "weights_too_large", "quantization:enable"),
        ("Additional executor resources", "gpu_oom", "gpu_memory_utilization:lower"),
        ("Additional executor resources (temporary for KV cache size estimation)", "profile_run_peak", "max_num_batched_tokens:lower"),
        ("Initial KV cache (temporary for KV cache size estimation)", "profile_run_peak", "max_num_batched_tokens:lower"),
    ],
)
def test_tensorrt_llm_names_the_part_that_did_not_fit(part: str, cause: str, first: str) -> None:
    found = diagnose({"container.log": EXECUTOR.format(part)})
    assert (found.cause, remedies(found)[0]) == (cause, first)


def test_what_a_warm_up_calls_lack_of_memory_may_be_another_error() -> None:
    assert diagnose({"container.log": TGI}).certainty is not Certainty.CERTAIN
    behind = "Server error: Unexpected <class 'RuntimeError'>: CUDA error: an illegal memory access was encountered\n"
    assert diagnose({"container.log": TGI + behind}).cause == "gpu_fault"
    real = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 0.50 GiB is free.\n"
    assert diagnose({"container.log": real + TGI}).cause == "profile_run_peak"


def test_turbomind_aborts_for_device_memory() -> None:
    said = (
        "terminate called after throwing an instance of 'std::runtime_error'\n  what():  [TM][ERROR] CUDA runtime error: out of memory /src/allocator.h:233\n"
    )
    assert diagnose({"container.log": said}).cause == "gpu_oom"
    loading = '  File "/opt/lmdeploy/turbomind/turbomind.py", line 199, in _create_weight_func\n    model_comm.create_shared_weights(device_id, rank)\n'
    assert (
        diagnose({"container.log": loading + "RuntimeError: [TM][ERROR] CUDA runtime error: out of memory /src/memory_utils.cu:32\n"}).cause
        == "weights_too_large"
    )


@pytest.mark.parametrize("cut", ["Tried to allocate", "Tried to allocate 12", ""])
def test_an_allocators_message_cut_short_is_still_about_device_memory(cut: str) -> None:
    found = diagnose({"container.log": f"torch.cuda.OutOfMemoryError: CUDA out of memory. {cut}\n"})
    assert found.cause == "gpu_oom"


FULL = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 900.00 MiB. GPU 0 has a total capacity of 39.39 GiB of which 210.00 MiB is free. Including non-PyTorch memory, this process has 39.17 GiB memory in use. Of the allocated memory 38.10 GiB is allocated by PyTorch, and 120.00 MiB is reserved by PyTorch but unallocated.\n"


@pytest.mark.parametrize("words", ["Prefill out", "Decode out", "Out"])
def test_the_own_pool_of_sglang_is_not_the_card(words: str) -> None:
    said = f"{words} of memory. Try to lower your batch size.\nTry to allocate 40 tokens.\nAvailable tokens: 12 (available_size=12 + evictable_size=0)\n"
    found = diagnose({"container.log": "[2025-04-11 09:30:00] The server is fired up and ready to roll!\nRuntimeError: " + said})
    assert (found.cause, found.certainty) == ("kv_cache_too_small", Certainty.LIKELY)
    assert "gpu_memory_utilization:raise" in remedies(found)
    assert "gpu_memory_utilization:raise" not in {f"{one.remedy}:{one.direction}" for one in found.will_not_help}


@pytest.mark.parametrize(
    ("span", "cause"),
    [
        ("batch{batch_size=2}:decode:decode{size=2}:decode{size=2}", "runtime_burst"),
        ("warmup{max_input_length=1024 max_prefill_tokens=4096}:warmup", "profile_run_peak"),
    ],
)
def test_the_span_of_tgis_router_tells_serving_from_warm_up(span: str, cause: str) -> None:
    error = f"2024-05-02T10:11:12.000000Z ERROR {span}: text_generation_client: router/client/src/lib.rs:33: Server error: {FULL}"
    assert diagnose({"container.log": error}).cause == cause


def test_an_old_engines_loop_ends_only_while_it_serves() -> None:
    behind = "Exception in callback functools.partial(<function _raise_exception_on_finish at 0x7f1b>, request_tracker=<vllm.engine>)\n"
    assert diagnose({"container.log": FULL}).cause == "gpu_oom"
    assert diagnose({"container.log": FULL + behind}).cause == "runtime_burst"


def test_a_step_of_a_trainer_is_no_peak_of_a_server() -> None:
    step = "    return Variable._execution_engine.run_backward(\n"
    served = "INFO 04-02 15:07:31 [async_llm_engine.py:211] Added request 1.\nINFO:     Application startup complete.\n"
    found = diagnose({"container.log": served + step + FULL})
    assert (found.cause, remedies(found)[0]) == ("gpu_oom", "application:fix")


@pytest.mark.parametrize(("blocks", "cause"), [(1842, "context_exceeds_kv_cache"), (4096, "unknown")])
def test_blocks_counted_below_the_longest_request_explain_a_start_that_is_cut_there(blocks: int, cause: str) -> None:
    start = "INFO 03-22 11:04:51 llm_engine.py:72] Initializing an LLM engine with config: model='/models/m', tokenizer_mode=auto, max_seq_len=32768\n"
    counted = f"INFO 03-22 11:04:57 llm_engine.py:322] # GPU blocks: {blocks}, # CPU blocks: 655\nTraceback (most recent call last):\n"
    found = diagnose({"container.log": start + counted})
    assert found.cause == cause
    changed = next((one for one in found.recommendations if one.remedy == "max_model_len"), None)
    assert (changed.to_value if changed else None) == (28672 if cause == "context_exceeds_kv_cache" else None)
