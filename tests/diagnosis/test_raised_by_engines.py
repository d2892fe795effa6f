"""What vLLM, its loaders, its connectors and its ports raise themselves, word for word as their sources have it; each has to be taken for what it is, not for "an exception"."""

import pytest

from bot.model import Certainty
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.test_fitting_advice import remedies
from tests.diagnosis.test_pastes import oom

CERTAIN, LIKELY, POSSIBLE = Certainty.CERTAIN, Certainty.LIKELY, Certainty.POSSIBLE


@pytest.mark.parametrize(
    ("line", "cause", "certainty", "first"),
    [
        ("RuntimeError: Insufficient space in /dev/shm for the broadcast ring: 192 MiB required, 63 MiB free. Increase /dev/shm (e.g. --shm-size or --ipc=host).", "shm_too_small", LIKELY, "shm_size:raise"),
        ("RuntimeError: Engine core process EngineCore_DP0 died unexpectedly.", "unknown", POSSIBLE, ""),
        ("RuntimeError: Input socket thread died during startup", "unknown", POSSIBLE, ""),
        ("TimeoutError: Timed out waiting for engines to sendinitial message on input socket.", "unknown", POSSIBLE, ""),
        ("TimeoutError: Timed out waiting for mmap file to reach 17179869184 bytes", "unknown", POSSIBLE, ""),
        ("RuntimeError: Barrier timed out after 30 seconds", "nccl_failure", LIKELY, "nccl:change"),
        ("RuntimeError: Fault detected in EP all2all communication: one or more ranks timed out during dispatch/combine. Mask: [1, 0]", "nccl_failure", LIKELY, "nccl:change"),
        ("ValueError: Not enough resources to allocate 4 DP ranks on DP master node 10.0.0.1, possible to fit 2 DP ranks.", "unschedulable", LIKELY, "ray_resources:fix"),
        ("AssertionError: Workspace is locked but MoE permute scratch requires 8192 rows, current capacity is 4096 rows.", "kernel_resource_limit", CERTAIN, "vllm_version:change"),
        ("RuntimeError: Failed to initialize q/k/v range constants. This may be caused by insufficient memory to allocate kv cache.", "weights_too_large", LIKELY, "quantization:enable"),
        ("RuntimeError: Unable to load model, a likely reason is the model is too large for the current device's HBM memory.", "weights_too_large", LIKELY, "quantization:enable"),
        ("BudgetInfeasibleError: Model does not fit device_memory_budget: loading '/models/m' needs >= 70000000000 bytes, budget is 40000000000.", "weights_too_large", LIKELY, "quantization:enable"),
        ("ValueError: HiSparse residency resolution needs 300000 B of shared memory per block for device_buffer_size=4096 and 4 rows per request, but the device allows 232448 B.", "kernel_resource_limit", CERTAIN, "attention_or_moe_backend:change"),
        ("RuntimeError: cudaHostRegister failed: cudaError.???", "node_out_of_memory", LIKELY, "host_memory_use:lower"),
        ("RuntimeError: Mooncake batch memory registration failed.", "nccl_failure", LIKELY, "network:fix"),
        ("AssertionError: Failed to allocate GPU buffer in GPUConnector", "application_error", CERTAIN, "application:fix"),
        ("ValueError: Cannot fit both KV pools under gpu_memory_utilization=0.90: the mamba pool needs 900 blocks", "kv_cache_too_small", CERTAIN, "gpu_memory_utilization:raise"),
        ("MemoryError: Insufficient DRAM during block calculation. Try reducing gpu_memory_utilization.", "kv_cache_too_small", CERTAIN, "gpu_memory_utilization:raise"),
        ("RuntimeError: No memory remains for Diffusion KV cache after profiling: requested_memory=70000000000 bytes, non_kv_cache_memory=71000000000 bytes.", "kv_cache_too_small", CERTAIN, "gpu_memory_utilization:raise"),
        ("ValueError: fp8_paged_mqa_logits: head_dim=256 with num_heads=64, next_n=4 needs 300000 B of shared memory per CTA but this device allows 232448 B.", "kernel_resource_limit", CERTAIN, "attention_or_moe_backend:change"),
        ("WARNING 11-30 10:00:00 [parallel.py:750] Address already in use. Retrying with a new port.", "unknown", POSSIBLE, ""),
    ],
)  # fmt: skip
def test_what_an_engine_raises_is_taken_for_what_it_is(line: str, cause: str, certainty: Certainty, first: str) -> None:
    found = diagnose({"container.log": f"(EngineCore pid=312) {line}\n"})
    assert (found.cause, found.certainty) == (cause, certainty)
    assert ([*remedies(found), ""])[0] == first


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("AssertionError: 28 is not divisible by 8", "tensor_parallel_size:lower"),
        ("ValueError: Weight input_size_per_partition = 1100 is not divisible by min_thread_k = 128.", "tensor_parallel_size:lower"),
        ("ValueError: grid_thw has 7 elements after filtering, which is not divisible by 3.", "application:fix"),
        ("AssertionError: Video frame count 7 is not divisible by patch_temporal 2.", "application:fix"),
    ],
)
def test_only_what_the_number_of_cards_divides_is_told_to_use_fewer(line: str, first: str) -> None:
    assert remedies(diagnose({"container.log": line + "\n"}))[0] == first


def stack(*frames: tuple[str, str], code: str = "") -> str:
    lines = "".join(f'  File "/opt/vllm/{path}", line 77, in {name}\n' for path, name in frames)
    return f"(EngineCore pid=312) ERROR 11-30 10:00:00 [core.py:1200] The engine failed.\nTraceback (most recent call last):\n{lines}{code}"


V2 = "v1/worker/gpu/model_runner.py"
GRAPHS = "v1/worker/gpu/cudagraph_utils.py"


@pytest.mark.parametrize(
    ("frames", "cause"),
    [
        ([(V2, "execute_model"), (GRAPHS, "run_pw_graph"), ("models/deepseek_v4/nvidia/model.py", "forward")], "runtime_burst"),
        ([(V2, "sample_tokens"), ("v1/worker/gpu/sample/sampler.py", "sample")], "runtime_burst"),
        ([(V2, "capture_model"), (GRAPHS, "capture")], "cuda_graph_capture"),
        ([(V2, "profile_cudagraph_memory"), (GRAPHS, "profile_cudagraph_memory")], "cuda_graph_capture"),
        ([("models/deepseek_v4/nvidia/model.py", "__init__")], "weights_too_large"),
        ([(V2, "profile_run"), ("v1/worker/gpu/mm/encoder_runner.py", "profile_encoder_cache")], "profile_run_peak"),
    ],
)
def test_the_second_model_runner_is_known_by_its_own_names(frames: list[tuple[str, str]], cause: str) -> None:
    assert diagnose({"container.log": stack(*frames) + oom()}).cause == cause


@pytest.mark.parametrize("path", ["v1/kv_offload/cpu/gpu_worker.py", "v1/kv_offload/worker/cpu_gpu.py"])
def test_memory_for_offloaded_cache_is_the_machines(path: str) -> None:
    made = stack(("v1/worker/gpu_worker.py", "initialize_from_config"), (path, "__init__"), code="    cpu_tensor = torch.zeros(\n")
    found = diagnose({"container.log": made + "torch.AcceleratorError: CUDA error: out of memory\n"})
    assert (found.cause, remedies(found)[0]) == ("node_out_of_memory", "host_memory_use:lower")
