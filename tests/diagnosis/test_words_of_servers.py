"""What servers other than vLLM, and the libraries and runtimes below them, print of memory and of their ends: the cause each line shows, and never more."""

import pytest

from bot.model import Certainty, Diagnosis
from tests.diagnosis.bundles import diagnose

SGLANG = "[2026-01-14 11:09:18 TP0] "
GGML_CACHE = "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache\n"
TRITON_ON_CPU = (
    "W0114 02:23:11.451740 1 pinned_memory_manager.cc:237] Unable to allocate pinned system memory, pinned memory pool will not be available: "
    "CUDA driver version is insufficient for CUDA runtime version\n"
)


def said(line: str) -> Diagnosis:
    return diagnose({"container.log": f"INFO starting\n{line}\n"})


def first(found: Diagnosis) -> str:
    item = found.recommendations[0]
    return f"{item.remedy}:{item.direction}" if item.direction else item.remedy


@pytest.mark.parametrize(
    ("line", "cause", "advice"),
    [
        (
            "ValueError: Not enough host memory available. Requesting 198.40 GB but only have 91.20 GB free. Please reduce the size of the hierarchical cache.",
            "node_out_of_memory",
            "host_memory_use:lower",
        ),
        (f"{SGLANG}AssertionError: No space left for only one request, available_size()=0", "kv_cache_too_small", "gpu_memory_utilization:raise"),
        (f"{SGLANG}ValueError: token_to_kv_pool_allocator memory leak detected! available_size=98290", "application_error", "vllm_version:change"),
        ("Server error: Out of available cache blocks: asked 12, only 3 free blocks", "kv_cache_too_small", "max_num_seqs:lower"),
        ("Error: NotEnoughMemory(8192)", "context_exceeds_kv_cache", "max_model_len:lower"),
        (
            "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`",
            "profile_run_peak",
            "max_num_batched_tokens:lower",
        ),
        (
            "[TensorRT-LLM][ERROR] Assertion failed: Can't allocate new blocks. No free blocks left. (/src/kvCacheManager.cpp:9)",
            "kv_cache_too_small",
            "max_num_seqs:lower",
        ),
        (
            "[TRT] [E] 6: The engine plan file is generated on an incompatible device, expecting compute 8.6 got compute 8.9, please rebuild.",
            "application_error",
            "application:fix",
        ),
        ("RuntimeError: No enough gpu memory for runtime.", "profile_run_peak", "max_num_batched_tokens:lower"),
        ("ggml_aligned_malloc: insufficient memory (attempted to allocate 60438.47 MB)", "node_out_of_memory", "host_memory_use:lower"),
        (f"ggml_aligned_malloc: insufficient memory (attempted to allocate 36000.00 MB)\n{GGML_CACHE}", "node_out_of_memory", "max_model_len:lower"),
        ("pyarrow.lib.ArrowMemoryError: malloc of size 1073741824 failed", "node_out_of_memory", "host_memory_use:lower"),
    ],
)
def test_line_of_a_server_shows_its_cause_and_what_to_change_first(line: str, cause: str, advice: str) -> None:
    found = said(line)
    assert (found.cause, first(found)) == (cause, advice)


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: Insufficient VRAM in split for model and cache",
        "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
        "RuntimeError: CUDA failed with error out of memory",
        "torch.OutOfMemoryError: Allocation on device ",
    ],
)
def test_card_that_a_program_names_in_its_own_words_is_what_ran_out(line: str) -> None:
    assert said(line).cause in {"gpu_oom", "weights_too_large"}


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeException: [ONNXRuntimeError] : 6 : bfc_arena.cc:368 Failed to allocate memory for requested buffer of size 67108864",
        "E0114 02:23:11.451740 1 model_lifecycle.cc:597] failed to load 'chat' version 1: Internal: Failed to allocate memory for requested buffer of size 262144000",
        "Error: llama runner process has terminated: GGML_ASSERT(buffer) failed",
    ],
)
def test_memory_that_no_word_places_is_not_placed_by_us(line: str) -> None:
    assert said(line).cause == "unknown"


@pytest.mark.parametrize(
    "line",
    [
        f"{SGLANG}Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
        "Hang detected on rank 3 in PyExecutor; hard-killing and propagating to peer ranks.",
        "failed to load 'chat' version 1: Internal: Stub process 'chat_0_0' is not healthy.",
        "Error: ShardCannotStart",
    ],
)
def test_silence_and_ends_without_a_reason_are_no_error_of_the_program(line: str) -> None:
    found = said(line)
    assert (found.cause, found.recommendations) == ("unknown", ())


def test_exception_that_names_memory_is_never_said_not_to_point_to_it() -> None:
    found = said("RuntimeError: the memory of the pool is used up")
    assert found.certainty is Certainty.POSSIBLE
    assert "Nothing points to memory" not in found.summary.en


def test_triton_without_a_card_is_no_certain_fault_and_none_once_it_serves() -> None:
    assert said(TRITON_ON_CPU).certainty is Certainty.POSSIBLE
    served = "I0114 02:23:14.102000 1 grpc_server.cc:2466] Started GRPCInferenceService at 0.0.0.0:8001\n"
    assert diagnose({"container.log": TRITON_ON_CPU + served}).certainty is not Certainty.CERTAIN


@pytest.mark.parametrize(
    ("line", "cause", "advice"),
    [
        (
            "ValueError: After taking into account object store and redis memory usage, the amount of memory on this node available for tasks and actors (-2.42 GB) is less than -112% of total.",
            "ray_object_store",
            "host_memory_use:lower",
        ),
        (
            "Job aborted: Total size of serialized results of 120 tasks (4.1 GiB) is bigger than spark.driver.maxResultSize (4.0 GiB)",
            "application_error",
            "application:fix",
        ),
        ("ERROR TaskSchedulerImpl: Lost executor 4 on 10.0.0.7: worker lost: Not receiving heartbeat for 60 seconds", "node_lost", "restart"),
        ("org.apache.spark.memory.SparkOutOfMemoryError: Unable to acquire 65536 bytes of memory, got 0", "application_error", "application:fix"),
        (
            "Unhandled exception. System.OutOfMemoryException: Exception of type 'System.OutOfMemoryException' was thrown.",
            "application_error",
            "application:fix",
        ),
        ("library initialization failed - unable to allocate file descriptor table - out of memory", "application_error", "application:fix"),
        (
            "It appears as if there is not enough space for /dev/shm/ompi.node-1/vader_segment.node-1.0 (the shared-memory backing file).",
            "shm_too_small",
            "shm_size:raise",
        ),
    ],
)
def test_line_of_a_framework_or_a_runtime_shows_its_cause(line: str, cause: str, advice: str) -> None:
    found = said(line)
    assert (found.cause, first(found)) == (cause, advice)


@pytest.mark.parametrize(
    "line",
    [
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        "ray.exceptions.ActorDiedError: The actor is dead because its owner has died. Owner Id: 01 Owner Ip address: 10.0.0.7 Owner worker exit type: SYSTEM_ERROR",
        "ray.serve.exceptions.BackPressureError: Request dropped due to backpressure (num_queued_requests=10, max_queued_requests=10).",
    ],
)
def test_end_of_another_process_is_no_error_of_this_one(line: str) -> None:
    assert said(line).cause == "unknown"


def test_heap_of_a_runtime_is_said_not_to_grow_with_the_limit_unless_it_is_a_share_of_it() -> None:
    found = said("java.lang.OutOfMemoryError: Java heap space")
    against = next(item for item in found.will_not_help if (item.remedy, item.direction) == ("memory_limit", "raise"))
    assert "share of the limit" in str(against.why)


def test_one_request_that_fills_the_pool_is_helped_by_a_larger_pool_and_not_by_fewer_requests() -> None:
    log = "[2026-01-14 11:08:01] server_args=ServerArgs(model_path='/models/m', context_length=131072, mem_fraction_static=0.8, tp_size=1)\n"
    ended = "[2026-01-14 11:09:10 TP0] Decode batch. #running-req: 1, #token: 98301, token usage: 1.00\nAssertionError: No space left for only one request\n"
    found = diagnose({"container.log": log + ended})
    assert first(found) == "gpu_memory_utilization:raise"
    assert ("max_num_seqs", "lower") in {(item.remedy, item.direction) for item in found.will_not_help}


NIM = "ERROR ngc_profile.py:231] Could not find a profile that is currently runnable with the detected hardware. Please check the system information below.\n"


def test_card_that_is_in_use_before_the_server_loads_is_somebody_elses() -> None:
    found = said(f"{NIM}- Non-free GPUs:\n  -  [2236:10de] (0) NVIDIA A10 [current utilization: 85%]")
    assert (found.cause, first(found)) == ("other_process_on_gpu", "free_gpu_process")
    assert said(NIM).cause == "unknown"


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: [metal::malloc] Attempting to allocate 19327352832 bytes which is greater than the maximum allowed buffer size of 9534832640 bytes.",
        "[GPU] Exceeded max size of memory object allocation: requested 4294967296 bytes, but max alloc size supported by device is 4160749568 bytes.",
    ],
)
def test_piece_above_what_the_device_gives_at_once_is_no_lack_of_memory(line: str) -> None:
    assert said(line).cause == "kernel_resource_limit"


def test_request_that_is_too_long_is_refused_and_ends_no_server() -> None:
    refused = "ValueError: The input (40000 tokens) is longer than the model's context length (32768 tokens)."
    answered = 'INFO:     10.0.0.9:51022 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    assert said(refused).cause == "unknown"
    assert diagnose({"container.log": f"INFO:     Application startup complete.\n{answered}{refused}\n{answered}"}).cause == "healthy"


def test_library_that_could_not_be_initialised_is_told_with_what_would_decide() -> None:
    found = said("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED")
    assert found.cause == "unknown"
    assert "could not be initialised" in found.summary.en
    assert {gap.source for gap in found.gaps} >= {"nvidia-smi.txt"}
