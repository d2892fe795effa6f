"""Messages cut, wrapped or worded otherwise than usual: the same cause, and the advice that fits what is seen."""

import pytest

from bot.model import Certainty, Diagnosis
from tests.diagnosis.bundles import diagnose

FULL = "RuntimeError: NPU out of memory. Tried to allocate 96.00 MiB (NPU 3; 29.50 GiB total capacity; 28.10 GiB already allocated; "
MARLIN = '''  File "/opt/venv/lib/python3.11/site-packages/vllm/model_executor/layers/quantization/utils/marlin_x.py"
    packed = ops.gptq_marlin_repack(b_q_weight=words)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 110.00 MiB. GPU 0 has a total capacity of 15.60 GiB of which 40.00 MiB is free.
'''
SCOPE = '''  File "/opt/venv/lib/python3.13/site-packages/torch/utils/_device.py", line 104, in __torch_function__
    return func(*args, **kwargs)
torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 47.00 GiB of which 300.00 MiB is free.
'''
SORT = '''(VllmWorker rank=1 pid=9) ERROR 02-02 02:29:07 [multiproc_executor.py:375]   File "/opt/vllm/v1/sample/ops/topk_topp_sampler.py", line 99, in apply_top_k_top_p
(VllmWorker rank=1 pid=9) ERROR 02-02 02:29:07 [multiproc_executor.py:375] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.21 GiB. GPU 1 has a total capacity of 15.60 GiB of which 800.00 MiB is free.
'''
PINNED = "    buffer = torch.empty(size, dtype=torch.uint8, pin_memory=True)\nRuntimeError: CUDA error: invalid argument"
RANKS = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 39.56 GiB of which 50.00 MiB is free. "
    "Process 411 has {one} memory in use. Process 412 has 1.50 GiB memory in use. Including non-PyTorch memory, this process has 34.90 GiB memory in use. "
    "Process 413 has 1.50 GiB memory in use. Of the allocated memory 29.00 GiB is allocated by PyTorch, and 300.00 MiB is reserved by PyTorch but unallocated."
)


def first(found: Diagnosis) -> str:
    item = found.recommendations[0]
    return f"{item.remedy}:{item.direction}" if item.direction else item.remedy


@pytest.mark.parametrize(
    ("log", "cause", "advice"),
    [
        (FULL, "gpu_oom", None),
        ("torch.OutOfMemoryError: Error in model exe", "gpu_oom", None),
        ("ValueError: No available memory for the cache blocks", "kv_cache_too_small", None),
        (MARLIN, "weights_too_large", None),
        (SCOPE, "weights_too_large", None),
        (SORT, "sampler_warmup", "max_num_seqs:lower"),
        ("RuntimeError: CUDA error: out of memory", "gpu_oom", "free_gpu_process"),
        ("NVRM: RM has detected an NVML/RM version mismatch.", "gpu_fault", None),
        ("RuntimeError: Out of workspace memory in AlignedAllocator", "kernel_resource_limit", None),
        ("XLA:TPU compile permanent error. Ran out of memory in memory space smem. Used 1.20M of 1.00M smem.", "kernel_resource_limit", None),
        ("RESOURCE_EXHAUSTED: Error loading program 'jit_f': Attempting to reserve 2.10G at the bottom of memory.", "gpu_oom", "gpu_memory_utilization:lower"),
        ("[rank0]:[F1] ProcessGroupNCCL's watchdog got stuck for 600 seconds without making progress", "nccl_failure", None),
        ("raylet: 3 Workers (tasks /\n actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons", "ray_memory_monitor", None),
        ("Set max_restarts and max_task_retries to enable retry when the task crashes due to OOM.", "ray_memory_monitor", None),
        ("CUDA error 2 at /src/ggml-cuda.cu:412: out of memory", "gpu_oom", None),
        ("E0102 logging.cc:40] Error Code 1: Cuda Runtime (out of memory)", "gpu_oom", None),
        ("Unable to warmup model: Allocation on device 0 would exceed allowed memory. (out of memory)", "profile_run_peak", "max_num_batched_tokens:lower"),
        ("ERROR: Model load failed: blk.3: DriverError(CUDA_ERROR_OUT_OF_MEMORY)", "weights_too_large", None),
        ("n7:8:9 [2] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device", "shm_too_small", "shm_size:raise"),
        (PINNED, "node_out_of_memory", "host_memory_use:lower"),
        ("RuntimeError: CUDA error: invalid argument", "application_error", None),
        ("Call to wake_up method failed: CUDA Error: out of memory at <path>:171", "other_process_on_gpu", None),
    ],
)
def test_words_seen_less_often_keep_their_cause(log: str, cause: str, advice: str | None) -> None:
    found = diagnose({"container.log": log + "\n"})
    assert found.cause == cause
    assert advice is None or first(found) == advice


def test_one_request_beyond_the_whole_card_is_no_matter_of_utilisation() -> None:
    found = diagnose({"container.log": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 61.00 GiB. GPU 0 has a total capacity of 44.40 GiB of which 30.00 GiB is free.\n"})
    assert found.cause == "gpu_oom"
    assert "gpu_memory_utilization" not in [item.remedy for item in found.recommendations]


@pytest.mark.parametrize(("one", "cause"), [("1.50 GiB", "gpu_oom"), ("9.00 GiB", "other_process_on_gpu")])
def test_equal_small_contexts_are_ranks_of_the_same_server(one: str, cause: str) -> None:
    assert diagnose({"container.log": RANKS.format(one=one) + "\n"}).cause == cause


def test_a_card_off_the_bus_needs_no_xid() -> None:
    found = diagnose({"kernel.log": "[ 12.5] NVRM: fallen off the bus and is not responding to commands.\n"})
    assert (found.cause, found.certainty) == ("gpu_fault", Certainty.CERTAIN)


def test_the_driver_without_memory_on_a_shared_pool_is_the_machine() -> None:
    kernel = "[ 9.1] NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from _memdescAllocInternal(pMemDesc)\n"
    assert diagnose({"kernel.log": kernel, "nvidia-smi.txt": "GPU 0: NVIDIA GB10\n"}).cause == "node_out_of_memory"
    assert diagnose({"kernel.log": kernel, "nvidia-smi.txt": "GPU 0: NVIDIA L40S\n"}).cause != "node_out_of_memory"


def test_a_lost_worker_with_code_9_is_no_exception_of_the_server() -> None:
    log = "ERROR 03-31 15:44:57 [multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 77 died, exit code: -9\nChildProcessError: worker died\n"
    assert diagnose({"container.log": log}).cause != "application_error"


@pytest.mark.parametrize(("after", "cause"), [("22.4", "application_error"), ("25.9", "other_process_on_gpu")])
def test_free_memory_that_did_not_change_was_given_back_by_nobody(after: str, cause: str) -> None:
    log = f"AssertionError: Error in memory profiling. Initial free memory 22.4 GiB, current free memory {after} GiB. This happens when other processes\n"
    assert diagnose({"container.log": log}).cause == cause
