"""Words of accelerators that are no GPU of NVIDIA's (Ascend, Gaudi, TPU, Neuron, ROCm, Intel), and of the libraries that move cache between engines."""

import pytest

from bot.model import Certainty
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.test_fitting_advice import remedies

CERTAIN, LIKELY, POSSIBLE = Certainty.CERTAIN, Certainty.LIKELY, Certainty.POSSIBLE


@pytest.mark.parametrize(
    ("line", "cause", "certainty", "first"),
    [
        ("RuntimeError: [ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64", "nccl_failure", LIKELY, "nccl:change"),
        ("EI0006: [PID: 902] 2025-11-02-16:32:16.417.528 Getting socket times out.", "nccl_failure", LIKELY, "nccl:change"),
        ("EJ0001: [PID: 902] 2025-11-02-16:32:16.4 Failed to initialize the HCCP process.", "other_process_on_gpu", LIKELY, "free_gpu_process"),
        ("RuntimeError: HCCL_BUFFSIZE is too SMALL, need 900MB, available 200MB.", "kernel_resource_limit", CERTAIN, "nccl:change"),
        ("RuntimeError: NPU function error: aclrtMallocHost, error code is 207001", "node_out_of_memory", LIKELY, "host_memory_use:lower"),
        ("RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_SYNHELPER workspace Allocation of size ::2147483648 failed!", "gpu_oom", POSSIBLE, "free_gpu_process"),
        ("RuntimeError: synStatus=8 [Device not found] Device acquire failed.", "other_process_on_gpu", POSSIBLE, "free_gpu_process"),
        ("RuntimeError: Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid 7.", "other_process_on_gpu", LIKELY, "free_gpu_process"),
        ("jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom:", "gpu_oom", POSSIBLE, "gpu_memory_utilization:lower"),
        ("[F137] neuronx-cc was forcibly killed - This most commonly occurs due to insufficient system memory.", "node_out_of_memory", POSSIBLE, "host_memory_use:lower"),
        ("RuntimeError: Failed to load model: NRT_RESOURCE(4)", "gpu_oom", POSSIBLE, "tensor_parallel_size:raise"),
        ("[ERROR] [NCC_EOOM002] Maximum peak HBM usage of 18.12GB exceeds HBM limit of 16.00GB for Trn1.", "gpu_oom", POSSIBLE, "tensor_parallel_size:raise"),
        ("ERROR NRT:nrt_allocate_neuron_cores NeuronCore(s) not available - Requested:nc1-nc1 Available:0", "other_process_on_gpu", LIKELY, "free_gpu_process"),
        ("rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: Illegal seek for GPU arch : gfx1103", "application_error", LIKELY, "vllm_version:change"),
        ("RuntimeError: Triton Error [ZE]: 0x70000002", "node_out_of_memory", LIKELY, "host_memory_use:lower"),
        ("RuntimeError: cudaHostAlloc failed: out of memory", "node_out_of_memory", LIKELY, "host_memory_use:lower"),
        ("nixl_cu12._bindings.nixlBackendError: NIXL_ERR_BACKEND", "nccl_failure", POSSIBLE, "network:fix"),
        ("E1106 10:00:00.000000 312 nixl_agent.cpp:388] registerMem: registration failed for the specified or all potential backends", "nccl_failure", LIKELY, "network:fix"),
        ("MemoryError: Not enough space in the data buffer, try calling try_free_buf() to free up space", "unknown", POSSIBLE, ""),
        ("[rank2]:[E114 09:00:00.352890220 compiler_depend.ts:444] LinearOperation setup failed!", "application_error", LIKELY, "application:fix"),
        ("RuntimeError: The Inner error is reported as above. The process exits for this inner error.", "unknown", POSSIBLE, ""),
    ],
)  # fmt: skip
def test_what_it_says_is_taken_for_what_it_is(line: str, cause: str, certainty: Certainty, first: str) -> None:
    found = diagnose({"container.log": line + "\n"})
    assert (found.cause, found.certainty) == (cause, certainty)
    assert ([*remedies(found), ""])[0] == first


def test_weights_above_the_share_of_a_tpu_ask_for_a_larger_share() -> None:
    line = "ValueError: total_hbm_used_gb=30.12GiB exceeds total_hbm_limit_cap_gb=28.12GiB by 2.0GiB. Please consider increasing --gpu-memory-utilization from 0.9 to a larger value.\n"
    found = diagnose({"container.log": line})
    assert found.cause == "kv_cache_too_small"
    assert remedies(found)[0] == "gpu_memory_utilization:raise"


FAULT = "torch.AcceleratorError: CUDA error: unspecified launch failure\n"


def test_a_launch_failure_behind_a_wait_of_experts_is_the_wait_and_one_before_it_is_a_fault() -> None:
    waited = "DeepEP timeout check failed: rank = 7, thread = 0, value = 1024)\n"
    assert diagnose({"container.log": waited + FAULT}).cause == "nccl_failure"
    assert diagnose({"container.log": FAULT + waited}).cause == "gpu_fault"


def test_an_npu_whose_memory_is_in_pieces_is_told_its_own_variable() -> None:
    line = "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity; 40.00 GiB already allocated; 40.00 GiB current active; 1.00 GiB free; 58.00 GiB reserved in total by PyTorch)\n"
    found = diagnose({"container.log": "INFO:     Application startup complete.\n" + line})
    assert found.cause == "fragmentation"
    assert remedies(found)[0] == "expandable_segments:enable"
    assert "PYTORCH_NPU_ALLOC_CONF" in str(found.recommendations[0])


def test_a_mask_of_the_whole_input_is_a_peak_that_grows_with_the_square_of_its_length() -> None:
    oom = "RuntimeError: NPU out of memory. Tried to allocate 9.00 GiB (NPU 3; 60.97 GiB total capacity; 54.10 GiB already allocated; 54.10 GiB current active; 5.00 GiB free; 54.20 GiB reserved in total by PyTorch)"
    frames = ["vllm_ascend/worker/model_runner_v1.py\", line 1932, in execute_model", "vllm_ascend/attention/attention_mask.py\", line 101, in get_splitfuse_attn_mask"]
    served = "(APIServer pid=7) INFO 10-10 11:30:57 [loggers.py:127] Engine 000: Avg prompt throughput: 0.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%\n"
    worker = "(Worker_TP3 pid=11) ERROR 10-10 11:32:51 [multiproc_executor.py:671] "
    log = served + "".join(f"{worker}{line}\n" for line in ("WorkerProc hit an exception.", "Traceback (most recent call last):", *(f'  File "/srv/{frame}' for frame in frames), oom))
    found = diagnose({"container.log": log})
    assert (found.cause, found.certainty) == ("runtime_burst", LIKELY)
    assert "square of the longest input" in found.summary.en
    assert remedies(found) == ["gpu_memory_utilization:lower", "vllm_version:change", "max_model_len:lower"]
    assert "max_num_batched_tokens:lower" in remedies(diagnose({"container.log": log.replace("get_splitfuse_attn_mask", "forward")}))
