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
        ("Additional executor resources", "profile_run_peak", "max_num_batched_tokens:lower"),
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
