"""What an earlier start in the same log proves about the one that failed."""

import pytest

from tests.diagnosis.bundles import diagnose
from tests.diagnosis.test_fitting_advice import remedies

CONFIG = "INFO 05-02 10:0{}:04 llm_engine.py:100] Initializing an LLM engine (v0.4.2) with config: model='/models/m', max_seq_len={}, tensor_parallel_size=1, seed=0)\n"
LOADED = "INFO 05-02 10:0{}:09 model_runner.py:175] Loading model weights took 3.5000 GB\n"
COUNTED = "INFO 05-02 10:00:12 gpu_executor.py:114] # GPU blocks: 2100, # CPU blocks: 512\n"
PROFILING = '  File "/opt/vllm/worker/worker.py", line 139, in determine_num_available_blocks\n    self.model_runner.profile_run()\n'
OOM = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacty of 7.79 GiB of which 20.69 MiB is free. "
    "Including non-PyTorch memory, this process has 7.70 GiB memory in use. Of the allocated memory 7.40 GiB is allocated by PyTorch, and 9.00 MiB is reserved by PyTorch but unallocated.\n"
)


def log(second_length: int, counted: str = COUNTED) -> dict[str, str]:
    first = CONFIG.format(0, 2048) + LOADED.format(0) + counted
    return {"container.log": first + CONFIG.format(5, second_length) + LOADED.format(5) + PROFILING + OOM}


def test_a_step_that_the_same_settings_came_past_before_fails_for_what_is_left_on_the_card() -> None:
    found = diagnose(log(2048))
    assert found.cause == "other_process_on_gpu"
    assert remedies(found)[0] == "application:fix"  # nothing tells of the first engine's end
    assert not {"max_model_len:lower", "quantization:enable", "bigger_gpu"} & set(remedies(found))


@pytest.mark.parametrize("files", [log(32768), log(2048, counted="")], ids=["other settings", "never came past it"])
def test_without_such_a_start_the_step_itself_is_too_large(files: dict[str, str]) -> None:
    assert diagnose(files).cause == "profile_run_peak"


@pytest.mark.parametrize(
    "refusal",
    [
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
        "ValueError: Free memory on device cuda:0 (111.99/139.8 GiB) on startup is less than desired GPU memory utilization (0.95, 132.81 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
    ],
)
def test_what_another_stage_of_the_server_holds_is_not_to_be_ended(refusal: str) -> None:
    log = (
        "(EngineCore_DP0 pid=8) [Stage-1] INFO 03-12 08:22:10 [gpu_model_runner.py:1] Model loading took 26.4738 GiB and 13.178609 seconds\n"
        "(EngineCore_DP0 pid=7) [Stage-0] INFO 03-12 08:22:20 [gpu_worker.py:1] Available KV cache memory: -3.40 GiB\n"
        f"(EngineCore_DP0 pid=7) [Stage-0] ERROR 03-12 08:22:28 [core.py:1] {refusal}\n"
    )
    told = remedies(diagnose({"container.log": log}))
    assert "isolate_gpu" in told
    assert not {"free_gpu_process", "application:fix"} & set(told)
