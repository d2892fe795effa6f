"""Advice that fits the mechanism: nothing is offered that cannot change what failed, however near it lies."""

from bot.model import Diagnosis
from bot.units import GIB
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.test_pastes import frame, oom

NO_BLOCKS = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n"
SMALLER = {"quantization:enable", "tensor_parallel_size:raise", "bigger_gpu"}


def remedies(found: Diagnosis) -> list[str]:
    return [f"{each.remedy}:{each.direction}" if each.direction else each.remedy for each in found.recommendations]


def no_cache(weights: str, utilization: str, card: str = "NVIDIA L4") -> Diagnosis:
    log = (
        f"INFO 03-01 10:00:00 llm_engine.py:176] Initializing an LLM engine (v0.5.3) with config: model='/models/m', dtype=torch.float16, max_seq_len=4096\n"
        f"INFO 03-01 10:00:20 model_runner.py:692] Loading model weights took {weights} GB\n"
        "INFO 03-01 10:00:31 gpu_executor.py:102] # GPU blocks: 0, # CPU blocks: 2048\n" + NO_BLOCKS
    )
    return diagnose(
        {"container.log": log, "args.txt": f"vllm serve /models/m --gpu-memory-utilization {utilization}\n", "nvidia-smi.txt": f"GPU 0: {card} (UUID: GPU-f8f8f0ba-6911-0639-5c79-54e69b405e4d)\n"}
    )


def test_a_budget_that_was_set_low_is_raised_and_the_model_left_as_it_is() -> None:
    found = no_cache("4.2000", "0.15")
    assert remedies(found)[0] == "gpu_memory_utilization:raise"
    assert not SMALLER & set(remedies(found))


def test_a_budget_is_raised_above_the_weights_and_not_by_a_step() -> None:
    found = no_cache("4.2000", "0.15").recommendations[0]
    assert isinstance(found.to_value, float)
    assert found.to_value * 22.0 * GIB > (4.2 + 1) * GIB


def test_a_model_that_fills_the_card_may_be_made_smaller() -> None:
    assert SMALLER & set(remedies(no_cache("19.8000", "0.9")))


def test_weights_of_next_to_nothing_are_not_made_smaller() -> None:
    found = diagnose({"container.log": "INFO 03-10 08:07:20 [gpu_model_runner.py:1067] Model loading took 0.3000 GB and 0.97 seconds\n" + NO_BLOCKS})
    assert not SMALLER & set(remedies(found))
    assert "free_gpu_process" in remedies(found)


def test_an_engine_that_wakes_up_is_given_nobody_to_end_where_nobody_was_seen() -> None:
    found = diagnose({"container.log": frame("vllm/device_allocator/cumem.py", "wake_up") + "RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62\n"})
    assert found.cause == "other_process_on_gpu"
    assert remedies(found)[0] == "sleep_mode:change"
    assert "free_gpu_process" not in remedies(found)


def test_a_kernel_that_cannot_be_loaded_while_serving_is_a_lack_of_device_memory() -> None:
    answered = '(APIServer pid=1) INFO:     192.0.2.4:51708 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    found = diagnose({"container.log": answered + "(Worker pid=34) ERROR 08-11 04:29:42 [multiproc_executor.py:1020] RuntimeError: Triton Error [CUDA]: out of memory\n"})
    assert found.cause == "runtime_burst"
    other = diagnose({"container.log": answered + "(Worker pid=34) ERROR 08-11 04:29:42 [multiproc_executor.py:1020] RuntimeError: Triton Error [CUDA]: device kernel image is invalid\n"})
    assert other.cause != "runtime_burst"


def test_a_library_without_room_in_the_profiling_run_shows_a_full_card_and_no_large_batch() -> None:
    found = diagnose({"container.log": frame("vllm/worker/worker.py", "determine_num_available_blocks") + "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\n"})
    assert found.cause == "profile_run_peak"
    assert remedies(found)[0] == "free_gpu_process"


def test_fewer_requests_are_not_offered_where_no_stage_is_known() -> None:
    found = diagnose({"container.log": oom(wanted="1.00 GiB", free="6.10 GiB", own="17.4 GiB", held="17.20 GiB")})
    assert found.cause == "reserved_memory"
    assert remedies(found) == ["gpu_memory_utilization:lower"]
