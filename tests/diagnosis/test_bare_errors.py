"""Errors without numbers: what stands around them still tells the stage, or that it is no lack of memory at all."""

import pytest

from bot.model import Diagnosis, Phase
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.test_pastes import frame, oom

BARE = "torch.OutOfMemoryError: CUDA out of memory.\n"
STATS = "INFO 02-25 {clock} metrics.py:455] Avg prompt throughput: 1401.2 tokens/s, Avg generation throughput: 210.9 tokens/s, Running: 24 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 31.2%, CPU KV cache usage: 0.0%.\n"


def remedies(found: Diagnosis) -> list[str]:
    return [f"{each.remedy}:{each.direction}" if each.direction else each.remedy for each in found.recommendations]


@pytest.mark.parametrize(
    ("frames", "cause", "first"),
    [
        (frame("vllm/executor/uniproc_executor.py", "_init_executor", 'self.collective_rpc("load_model")'), "weights_too_large", "quantization:enable"),
        (frame("vllm/engine/llm_engine.py", "_init_cache", "num_blocks = self._run_workers("), "profile_run_peak", "max_num_batched_tokens:lower"),
        (frame("sglang/srt/managers/scheduler.py", "event_loop_overlap") + frame("sglang/srt/managers/mm_utils.py", "get_embedding_and_mask"), "runtime_burst", "multimodal_limits:lower"),
    ],
)  # fmt: skip
def test_the_stack_alone_tells_the_stage(frames: str, cause: str, first: str) -> None:
    found = diagnose({"container.log": frames + BARE})
    assert (found.cause, remedies(found)[0]) == (cause, first)


def test_a_buffer_between_the_ranks_after_loading_is_no_full_card_at_the_start() -> None:
    loaded = "(Worker_TP0 pid=44) INFO 05-05 22:10:31 [gpu_model_runner.py:4879] Model loading took 71.34 GiB memory and 311.2 seconds\n"
    error = "(Worker_TP0 pid=44) ERROR 05-05 22:10:58 [multiproc_executor.py:962] "
    frames = error + '  File "/opt/vllm/distributed/device_communicators/all2all.py", line 318, in get_handle\n'
    assert diagnose({"container.log": loaded + frames + error + BARE}).phase is not Phase.DEVICE
    assert diagnose({"container.log": frames + error + BARE}).phase is Phase.DEVICE


def test_the_all_reduce_that_fails_behind_a_capture_is_its_follower() -> None:
    capture = frame("vllm/worker/model_runner.py", "capture_model") + "RuntimeError: CUDA error: out of memory\n"
    follower = "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:346 'invalid argument'\n"
    assert diagnose({"container.log": capture + follower}).cause == "cuda_graph_capture"
    assert diagnose({"container.log": follower}).cause == "nccl_failure"


@pytest.mark.parametrize("clock", ["10:41:01", "10:43:30"])
def test_a_report_of_load_behind_an_error_shows_no_life_where_nothing_tells_of_a_start(clock: str) -> None:
    error = "INFO 02-25 10:41:07 worker_base.py:574] RuntimeError: CUDA error: an illegal memory access was encountered\n"
    assert diagnose({"container.log": error + STATS.format(clock=clock)}).cause == "gpu_fault"


def test_weights_that_are_converted_in_the_pool_of_sleep_mode_ask_for_another_way_of_sleeping() -> None:
    frames = frame("vllm/device_allocator/cumem.py", "use_memory_pool") + frame("vllm/model_executor/layers/quantization/modelopt.py", "process_weights_after_loading")
    sleeping = diagnose({"container.log": frames + BARE, "args.txt": "vllm serve /m --enable-sleep-mode\n"})
    assert (sleeping.cause, remedies(sleeping)[0]) == ("weights_too_large", "sleep_mode:change")
    assert remedies(diagnose({"container.log": frames + BARE, "args.txt": "vllm serve /m\n"}))[0] != "sleep_mode:change"


def test_the_experts_in_a_models_name_count_towards_its_weights() -> None:
    text = oom(wanted="112.00 MiB", total="39.39 GiB", free="17.94 MiB", own="39.36 GiB", held="38.72 GiB", idle="12.91 MiB")
    assert diagnose({"container.log": text, "args.txt": "vllm serve /models/experts-8x7b\n"}).cause == "weights_too_large"
    assert diagnose({"container.log": text, "args.txt": "vllm serve /models/dense-7b\n"}).cause != "weights_too_large"


def test_a_message_without_a_card_first_asks_who_holds_it() -> None:
    assert remedies(diagnose({"container.log": "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU \n"}))[0] == "free_gpu_process"


@pytest.mark.parametrize(
    ("line", "cause", "first"),
    [
        ("ERROR 05-30 22:22:26 [pynccl.py:153] ncclCommInitRank failed with error: NCCL error: internal error - please report this issue to the NCCL developers", "nccl_failure", "nccl:change"),
        ("AssertionError: please set tensor_parallel_size to less than max local gpu count", "application_error", "scheduling:fix"),
        ("AssertionError: failed to get the hash of the compiled graph", "application_error", "vllm_version:change"),
    ],
)  # fmt: skip
def test_words_that_name_no_memory_are_taken_at_their_word(line: str, cause: str, first: str) -> None:
    found = diagnose({"container.log": frame("vllm/v1/worker/gpu_worker.py", "determine_available_memory") + line + "\n"})
    assert (found.cause, remedies(found)[0]) == (cause, first)


LOAD = "INFO:     Application startup complete.\n" + STATS.format(clock="10:43:30")
LOOKS = "$ nvidia-smi --query-compute-apps=timestamp,pid,used_memory --format=csv\ntimestamp, pid, used_gpu_memory [MiB]\n"


def test_one_process_that_grows_over_the_looks_is_a_leak_also_where_it_answers() -> None:
    rows = "".join(f"2026/02/25 {hour}:10:00.101, 50411, {38112 + 2150 * step} MiB\n" for step, hour in enumerate(range(10, 14)))
    level = "".join(f"2026/02/25 {hour}:10:00.101, 50411, 38112 MiB\n" for hour in range(10, 14))
    assert diagnose({"container.log": LOAD, "nvidia-smi.txt": LOOKS + rows}).cause == "memory_leak"
    assert diagnose({"container.log": LOAD, "nvidia-smi.txt": LOOKS + level}).cause == "healthy"


@pytest.mark.parametrize(("step", "cause"), [(200 * 2**20, "memory_leak"), (0, "healthy")])
def test_a_container_whose_own_memory_grows_is_a_leak_also_where_it_answers(step: int, cause: str) -> None:
    looks = "".join(f"anon {5905580032 + look * step}\nfile 402653184\n" for look in range(4))
    assert diagnose({"container.log": LOAD, "node_readings.txt": "# grep -E '^(anon|file) ' /sys/fs/cgroup/memory.stat\n" + looks}).cause == cause


def test_page_cache_on_unified_memory_may_eat_the_budget_of_the_cache() -> None:
    log = (
        "(EngineCore pid=77) INFO 09-01 20:14:21 [gpu_model_runner.py:4790] Model loading took 21.6 GiB memory and 402.1 seconds\n"
        "(EngineCore pid=77) INFO 09-01 20:15:03 [gpu_worker.py:440] Available KV cache memory: -6.87 GiB\n"
        "(EngineCore pid=77) ERROR 09-01 20:15:03 [core.py:1136] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.\n"
    )
    free = "$ free -g\n              total        used        free      shared  buff/cache   available\nMem:            119          38           9           0          {cache}          80\n"
    card = "GPU 0: NVIDIA GB10 (UUID: GPU-336db35b-40eb-21b7-9de3-e051125c6bf6)\n"
    cached = diagnose({"container.log": log, "nvidia-smi.txt": card, "node_readings.txt": free.format(cache=71)})
    assert (cached.cause, remedies(cached)[0]) == ("reserved_memory", "drop_page_cache")
    assert diagnose({"container.log": log, "nvidia-smi.txt": card, "node_readings.txt": free.format(cache=1)}).cause == "kv_cache_too_small"


@pytest.mark.parametrize("path", ["/dev/" + "shm/nccl-6R371p ", ""])
def test_the_segment_that_could_not_be_made_says_more_than_the_kind_of_error_before_it(path: str) -> None:
    head = "(RayWorker pid=2211) ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\n(RayWorker pid=2211) Last error:\n"
    found = diagnose({"container.log": head + f"(RayWorker pid=2211) Error while creating shared memory segment {path}(size 9637888)\n"})
    assert (found.cause, remedies(found)[0]) == ("shm_too_small", "shm_size:raise")
    assert diagnose({"container.log": head}).cause == "nccl_failure"


def test_a_request_that_was_received_shows_that_the_server_served() -> None:
    asked = "INFO 10-18 05:30:11 async_llm_engine.py:371] Received request 77ab: prompt: '...', sampling params: SamplingParams(n=1, max_tokens=1, logprobs=None, prompt_logprobs={n}), prompt token ids: None.\n"
    sampler = frame("vllm/model_executor/layers/sampler.py", "forward") + oom()
    found = diagnose({"container.log": asked.format(n=1) + sampler})
    assert (found.cause, remedies(found)[0]) == ("runtime_burst", "logprobs:limit")
    assert diagnose({"container.log": asked.format(n=None) + sampler}).cause == "runtime_burst"
    assert diagnose({"container.log": sampler}).cause == "sampler_warmup"


def test_a_process_that_announced_an_exception_did_not_die_in_silence() -> None:
    died = "(EngineCore_DP0 pid=9) ERROR 02-27 10:31:24 [multiproc_executor.py:231] Worker proc VllmWorker-0 died unexpectedly, shutting down executor.\n"
    told = "(Worker_TP0 pid=12) ERROR 02-27 10:31:15 [multiproc_executor.py:822] WorkerProc hit an exception.\n"
    silent, announced = diagnose({"container.log": died}), diagnose({"container.log": told + died})
    assert (silent.cause, announced.cause) == ("unknown", "unknown")
    assert "printed no error" in silent.summary.en
    assert "announced an exception" in announced.summary.en
    assert "printed no error" in diagnose({"container.log": died + told}).summary.en, "what is announced behind it is of the others"
