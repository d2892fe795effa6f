"""A request, a pool or a name weighed against the card: what is many times too large, or far too small to have filled it, is no lack of memory here."""

import pytest

from bot.model import Certainty
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.test_fitting_advice import remedies
from tests.diagnosis.test_pastes import frame, oom

ANSWERED = '(APIServer pid=1) INFO:     192.0.2.4:51708 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
PROFILED = "INFO 03-01 10:00:00 [gpu_model_runner.py:4095] Encoder cache will be initialized with a budget of 65536 tokens, and profiled with 1 {} items of the maximum feature size.\n"
ENCODER = frame("vllm/v1/worker/gpu_model_runner.py", "profile_run") + frame(
    "vllm/model_executor/models/qwen3_vl.py", "forward", "out = F.scaled_dot_product_attention(q, k, v)"
)


def refused(wanted: str) -> str:
    return ANSWERED + f"ERROR 03-01 10:05:00 [core.py:866] {oom(wanted=wanted, free='6.20 GiB', own='17.30 GiB', held='17.00 GiB')}\n"


def test_a_size_that_no_card_has_was_computed_wrongly() -> None:
    found = diagnose({"container.log": refused("4096.00 GiB")})
    assert (found.cause, found.certainty) == ("application_error", Certainty.LIKELY)
    assert not {"gpu_memory_utilization:lower", "bigger_gpu"} & set(remedies(found))


def test_the_whole_matrix_of_attention_may_be_many_times_the_card() -> None:
    found = diagnose(
        {"container.log": ANSWERED + frame("a.py", "forward", "out = F.scaled_dot_product_attention(q, k, v)") + oom(wanted="4096.00 GiB", free="6.20 GiB")}
    )
    assert found.cause != "application_error"


def test_a_running_server_that_asks_for_more_than_the_card_is_given_no_smaller_cache() -> None:
    found = diagnose({"container.log": refused("64.00 GiB")})
    assert found.cause == "runtime_burst"
    assert "gpu_memory_utilization:lower" not in remedies(found)
    assert remedies(diagnose({"container.log": refused("8.00 GiB")}))[0] == "gpu_memory_utilization:lower"


@pytest.mark.parametrize(("wanted", "larger_card"), [("18.00 GiB", True), ("640.00 GiB", False)])
def test_a_larger_card_helps_an_encoder_whose_matrix_a_card_could_hold(wanted: str, larger_card: bool) -> None:
    found = diagnose({"container.log": PROFILED.format("image") + ENCODER + oom(wanted=wanted, free="10.02 GiB", own="13.50 GiB", held="13.20 GiB")})
    assert found.cause == "profile_run_peak"
    assert ("bigger_gpu" in remedies(found)) is larger_card
    assert "max_model_len:lower" not in remedies(found)


def test_a_shorter_context_shortens_the_longest_video() -> None:
    found = diagnose({"container.log": PROFILED.format("video") + ENCODER + oom(wanted="18.00 GiB", free="10.02 GiB", own="13.50 GiB", held="13.20 GiB")})
    assert "max_model_len:lower" in remedies(found)


LITTLE = "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 512.00 MiB (GPU 0; 15.56 GiB total capacity; {} GiB already allocated; {} GiB reserved in total by PyTorch)\n"


@pytest.mark.parametrize(("held", "cause"), [("0.25", "gpu_oom"), ("15.02", "weights_too_large")])
def test_weights_that_held_next_to_nothing_did_not_fill_the_card(held: str, cause: str) -> None:
    assert diagnose({"container.log": frame("vllm/worker/worker.py", "load_model") + LITTLE.format(held, held)}).cause == cause


POOL = "RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 4096 tokens.\n"


@pytest.mark.parametrize(
    ("room", "cause"),
    [
        ("Available full tokens: 71200 (full_available_size=1200 + full_evictable_size_=70000)\n", "application_error"),
        ("Available tokens: 96 (available_size=96 + evictable_size=0)\n", "kv_cache_too_small"),
        ("Available full tokens: 71200 (full_available_size=1200 + full_evictable_size_=70000)\nAvailable swa: 512 (available_size=512 + component_evictable_size_=0)\n", "kv_cache_too_small"),
        ("", "kv_cache_too_small"),
    ],
)  # fmt: skip
def test_a_pool_that_refuses_beside_room_miscounted_and_one_without_is_used_up(room: str, cause: str) -> None:
    assert diagnose({"container.log": POOL + room}).cause == cause


@pytest.mark.parametrize(("weights", "shown"), [("41.83", False), ("15.20", True)])
def test_a_cards_name_that_promises_less_than_is_on_it_gives_no_size(weights: str, shown: bool) -> None:
    log = (
        f"(EngineCore pid=61) INFO 03-01 10:00:20 [gpu_model_runner.py:4820] Model loading took {weights} GiB memory and 9.1 seconds\n"
        "(EngineCore pid=61) INFO 03-01 10:00:41 [gpu_worker.py:436] Available KV cache memory: 0.29 GiB\n"
        "(EngineCore pid=61) ERROR 03-01 10:00:41 [core.py:1108] ValueError: To serve at least one request with the models's max seq len (131072), 1.31 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (0.29 GiB).\n"
    )
    found = diagnose(
        {
            "container.log": log,
            "args.txt": "vllm serve /models/m --gpu-memory-utilization 0.97\n",
            "nvidia-smi.txt": "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-f8f8f0ba-6911-0639-5c79-54e69b405e4d)\n",
        }
    )
    assert found.ledger is not None
    assert (found.ledger.total_bytes is not None) is shown


RETRIED = "[rank0]:[W830 06:13:31.508712245 CUDACachingAllocator.cpp:3933] memory allocation failed with OOM on device 0 while trying to allocate 268435456 bytes (free: 125304832, total: 25250627584).\n"


def test_an_allocation_that_is_asked_for_again_is_no_failure_of_a_server_that_goes_on() -> None:
    assert diagnose({"container.log": ANSWERED + RETRIED + ANSWERED}).cause == "healthy"


def test_an_allocation_that_is_asked_for_again_may_be_what_ended_a_worker_that_says_no_more() -> None:
    found = diagnose(
        {"container.log": RETRIED + "(DiffusionWorker pid=511) ERROR 08-30 06:13:31 [diffusion_worker.py:402] Worker 0 failed during initialization\n"}
    )
    assert (found.cause, found.certainty) == ("gpu_oom", Certainty.POSSIBLE)
    assert diagnose({"container.log": ANSWERED + RETRIED + oom()}).cause == "runtime_burst"


def test_a_program_that_quantises_is_told_to_keep_less_on_the_card_and_not_to_generate_less() -> None:
    found = diagnose(
        {
            "container.log": frame("llmcompressor/modifiers/quantization/gptq/base.py", "calibrate_module")
            + oom(wanted="3.06 GiB", free="2.41 GiB", own="21.10 GiB")
        }
    )
    assert remedies(found)[:2] == ["application:fix", "cpu_offload:raise"]
    assert "max_model_len:lower" not in remedies(found)


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: NPU function error: c10_npu::acl::AclmdlRICaptureBegin(capture_stream_, capture_mode), error code is 207005",
        "ERROR 03-01 10:00:00 [model_runner_v1.py:3029] ACLgraph has insufficient available streams to capture the configured number of sizes.",
    ],
)
def test_a_capture_on_an_npu_that_gets_no_stream_asks_for_fewer_graphs(line: str) -> None:
    assert remedies(diagnose({"container.log": line + "\n"}))[0] == "cudagraph_sizes:lower"


def test_a_job_that_is_no_server_and_was_killed_is_given_no_option_of_a_server() -> None:
    found = diagnose({"container.log": "Calibrating: 100%|##########| 128/128 [31:07<00:00, 14.59s/it]\nKilled\n"})
    assert found.cause == "node_out_of_memory"
    assert "swap_space:lower" not in remedies(found)


CONSTRUCTED = (
    "INFO 03-01 10:00:00 llm_engine.py:84] Initializing an LLM engine (v0.4.0) with config: model='/models/{}', dtype=torch.float16, max_seq_len=4096\n"
    + frame("vllm/engine/llm_engine.py", "from_engine_args", "engine = cls(")
)
HELD = "torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 4.70 GiB. GPU 0 has a total capacity of 63.98 GiB of which 3.06 GiB is free. Of the allocated memory 51.96 GiB is allocated by PyTorch, and 153.42 MiB is reserved by PyTorch but unallocated.\n"


@pytest.mark.parametrize(("model", "certainty"), [("m-7b", Certainty.POSSIBLE), ("m-34b", Certainty.LIKELY)])
def test_far_more_than_the_weights_of_a_model_is_not_called_a_time_before_its_cache(model: str, certainty: Certainty) -> None:
    found = diagnose({"container.log": CONSTRUCTED.format(model) + HELD})
    assert found.certainty == certainty
    assert ("quantization:enable" in remedies(found)) is (certainty == Certainty.LIKELY)
    assert "limit_concurrency" not in remedies(found)


def test_a_card_without_a_byte_free_of_which_nothing_else_is_said_is_looked_at_first() -> None:
    found = diagnose({"container.log": "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB (GPU 1; 23.65 GiB total; 0 bytes free)\n"})
    assert (found.cause, found.certainty) == ("gpu_oom", Certainty.POSSIBLE)
    assert remedies(found)[0] == "free_gpu_process"
