"""What people paste: the last frames, a line of a client, one file too few, readings beside a log. Each kind keeps its cause and its advice."""

import json

import pytest

from bot.model import Certainty
from tests.diagnosis.bundles import diagnose

PATH = "/usr/local/lib/python3.12/dist-packages/"
MIDDLE = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {wanted}. GPU {gpu} has a total capacity of {total} of which {free} is free. "
END = "Including non-PyTorch memory, this process has {own} memory in use. Of the allocated memory {held} is allocated by PyTorch, and {idle} is reserved by PyTorch but unallocated."


def oom(
    wanted: str = "212.00 MiB",
    total: str = "23.64 GiB",
    free: str = "120.10 MiB",
    own: str = "23.52 GiB",
    held: str = "22.80 GiB",
    idle: str = "31.00 MiB",
    gpu: int = 0,
) -> str:
    return (MIDDLE + END).format(wanted=wanted, total=total, free=free, own=own, held=held, idle=idle, gpu=gpu)


def frame(file: str, function: str, code: str = "return call()") -> str:
    return f'  File "{PATH}{file}", line 81, in {function}\n    {code}\n'


@pytest.mark.parametrize(
    ("frames", "cause"),
    [
        (frame("vllm/model_executor/models/qwen2.py", "__init__", "self.gate_up_proj = MergedColumnParallelLinear("), "weights_too_large"),
        (frame("vllm/model_executor/models/glm4_moe.py", "<lambda>", "lambda prefix: Glm4MoeDecoderLayer("), "weights_too_large"),
        (frame("vllm/model_executor/layers/quantization/gguf.py", "materialize"), "weights_too_large"),
        (frame("vllm/model_executor/model_loader/bitsandbytes_loader.py", "_dequantize_dq"), "weights_too_large"),
        (frame("vllm/model_executor/layers/quantization/utils/flashinfer_utils.py", "swap_w13_to_w31"), "weights_too_large"),
        (frame("vllm/v1/worker/gpu/cudagraph_utils.py", "capture", "with torch.cuda.graph(graph, self.pool):"), "cuda_graph_capture"),
        (frame("vllm/model_executor/layers/utils.py", "get_token_bin_counts_and_mask"), "runtime_burst"),
        (frame("vllm/lora/worker_manager.py", "set_active_adapters"), "runtime_burst"),
        (frame("vllm/v1/worker/gpu_model_runner.py", "_gather_mm_embeddings"), "runtime_burst"),
        (
            frame("vllm/v1/engine/core.py", "run_busy_loop", "self.execute_dummy_batch()") + frame("vllm/v1/worker/gpu_model_runner.py", "_dummy_run"),
            "runtime_burst",
        ),
        (frame("vllm/model_executor/layers/activation.py", "forward_cuda"), "gpu_oom"),
    ],
)
def test_the_last_frames_say_the_stage_where_only_one_stage_has_them(frames: str, cause: str) -> None:
    assert diagnose({"container.log": frames + oom()}).cause == cause


def test_a_stack_that_stands_behind_the_error_counts_where_none_stands_before_it() -> None:
    behind = "ray.exceptions.RayTaskError(OutOfMemoryError): ray::RayWorkerVllm.execute_method() (pid=902, ip=10.4.4.1)\n" + frame(
        "vllm/worker/worker.py", "load_model"
    )
    found = diagnose({"container.log": f"(RayWorkerVllm pid=902) {oom()}\n{behind}"})
    assert found.cause == "weights_too_large"


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("self.cpu_cache = self._allocate_kv_cache(self.num_cpu_blocks, 'cpu')", "node_out_of_memory"),
        ("self.gpu_cache = self._allocate_kv_cache(self.num_gpu_blocks)", "gpu_oom"),
    ],
)
def test_memory_pinned_on_the_host_is_told_from_the_cards(code: str, cause: str) -> None:
    log = frame("vllm/worker/cache_engine.py", "__init__", code) + "RuntimeError: CUDA error: out of memory\n"
    found = diagnose({"container.log": log, "args.txt": "vllm serve /m --swap-space 40\n"})
    assert found.cause == cause
    if cause == "node_out_of_memory":
        assert (found.recommendations[0].remedy, found.recommendations[0].direction) == ("swap_space", "lower")


@pytest.mark.parametrize(
    ("error", "xid", "first"),
    [
        ("torch.AcceleratorError: CUDA error: unspecified launch failure", "79, pid=9, name=VLLM::Worker, GPU has fallen off the bus.", "drain_node"),
        ("TimeoutError: RPC call to sample_tokens timed out.", "119, pid=9, name=VLLM::Worker, Timeout after 45s of waiting for RPC response", "drain_node"),
        (
            "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
            "31, pid=9, name=VLLM::Worker, Ch 00000018, intr 00000000. MMU Fault",
            "vllm_version",
        ),
    ],
)
def test_what_the_driver_recorded_decides_whose_fault_a_cuda_error_is(error: str, xid: str, first: str) -> None:
    found = diagnose({"container.log": error + "\n", "kernel.log": f"[7211.3] NVRM: Xid (PCI:0000:4e:00): {xid}\n"})
    assert found.cause == "gpu_fault"
    assert found.recommendations[0].remedy == first


def test_a_full_card_is_no_fault_because_a_cleanup_record_stands_beside_it() -> None:
    log = frame("vllm/v1/worker/gpu_model_runner.py", "load_model") + oom()
    assert (
        diagnose({"container.log": log, "kernel.log": "[91.2] NVRM: Xid (PCI:0000:00:1e): 45, pid=2231, name=VLLM::EngineCor, Ch 00000010\n"}).cause
        == "weights_too_large"
    )


def test_a_card_that_lost_memory_is_not_cured_by_a_smaller_share() -> None:
    log = "(Worker_TP5 pid=13) ValueError: Free memory on device cuda:5 (68.33/71.1 GiB) on startup is less than desired GPU memory utilization (0.97, 68.97 GiB)."
    found = diagnose({"container.log": log, "kernel.log": "[8.4] NVRM: Xid (PCI:0000:b4:00): 168, Reduced GPU memory capacity\n"})
    assert (found.cause, found.recommendations[0].remedy) == ("gpu_fault", "drain_node")


def cards(*rows: tuple[str, int, int]) -> str:
    return "index, name, memory.total [MiB], memory.used [MiB], memory.free [MiB]\n" + "".join(
        f"{index}, {name}, {total} MiB, {used} MiB, {total - used} MiB\n" for index, (name, total, used) in enumerate(rows)
    )


@pytest.mark.parametrize(("used", "cause"), [(45_900, "nccl_oom"), (2_000, "nccl_failure")])
def test_an_unnamed_cuda_error_of_nccl_is_memory_where_the_cards_are_full(used: int, cause: str) -> None:
    log = "(Worker_TP1 pid=31) RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)\n"
    assert diagnose({"container.log": log, "nvidia-smi.txt": cards(("NVIDIA L40S", 46_068, used), ("NVIDIA L40S", 46_068, used))}).cause == cause


SMALL = frame("vllm/v1/worker/gpu_model_runner.py", "load_model") + oom("148.00 MiB", "7.61 GiB", "102.00 MiB", "7.51 GiB", "7.10 GiB", "8.00 MiB")


@pytest.mark.parametrize(
    "readings",
    [
        "GPU 0: NVIDIA T1000 8GB (UUID: GPU-1b6f3d1e-0d2b-5a53-9a71-0f2f1a0b77aa)\nGPU 1: NVIDIA RTX A6000 (UUID: GPU-2b6f3d1e-0d2b-5a53-9a71-0f2f1a0b77aa)\n",
        cards(("NVIDIA RTX A6000", 49_140, 10), ("NVIDIA T1000 8GB", 8_192, 10)),
    ],
)
def test_a_server_on_the_small_one_of_two_cards_is_not_spread_over_both(readings: str) -> None:
    found = diagnose({"container.log": SMALL, "nvidia-smi.txt": readings, "args.txt": "vllm serve /m/7b\n"})
    assert found.cause == "heterogeneous_gpus"
    assert found.recommendations[0].remedy == "order_devices"
    assert "tensor_parallel_size" not in [advice.remedy for advice in found.recommendations]


def test_the_large_one_of_two_cards_that_fills_is_simply_full() -> None:
    log = SMALL.replace("7.61 GiB", "47.40 GiB").replace("7.51 GiB", "47.30 GiB").replace("7.10 GiB", "46.90 GiB")
    assert (
        diagnose({"container.log": log, "nvidia-smi.txt": cards(("NVIDIA RTX A6000", 49_140, 10), ("NVIDIA T1000 8GB", 8_192, 10))}).cause
        == "weights_too_large"
    )


def ranks(*rooms: str) -> str:
    lines = [
        f"(Worker_TP{rank} pid={80 + rank}) INFO 02-20 01:02:00 [gpu_worker.py:375] Available KV cache memory: {room} GiB" for rank, room in enumerate(rooms)
    ]
    return "\n".join([*lines, "(EngineCore_DP0 pid=77) ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`."])


def test_one_rank_that_is_far_behind_is_quoted_and_not_blamed_on_the_budget() -> None:
    found = diagnose({"container.log": ranks("27.31", "27.26", "-3.42", "27.3")})
    assert found.cause == "other_process_on_gpu"
    assert [quote.line for quote in found.evidence if "Available KV" in quote.quote] == [3]


def test_ranks_that_are_all_short_have_a_budget_that_is_too_small() -> None:
    assert diagnose({"container.log": ranks("-3.31", "-3.26", "-3.42", "-3.3")}).cause == "kv_cache_too_small"


def test_what_graphs_are_estimated_to_take_is_offered_back_where_it_would_be_enough() -> None:
    log = (
        "(EngineCore pid=2) INFO 06-16 16:00:00 [gpu_model_runner.py:6020] Estimated CUDA graph memory: 9.42 GiB total\n"
        "(EngineCore pid=2) INFO 06-16 16:00:01 [gpu_worker.py:500] Available KV cache memory: -4.8 GiB\n"
        "(EngineCore pid=2) ERROR 06-16 16:00:01 [core.py:1142] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.\n"
    )
    found = diagnose({"container.log": log})
    assert "enforce_eager" not in [useless.remedy for useless in found.will_not_help]
    smaller = diagnose({"container.log": log.replace("9.42", "5.42")})
    assert "cudagraph_sizes" in [advice.remedy for advice in smaller.recommendations]


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ('{"object":"error","message":"CUDA out of memory.","type":"InternalServerError","param":null,"code":500}', "gpu_oom"),
        (
            'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "/pytorch/c10/cuda/CUDACachingAllocator.cpp":1016, please report a bug to PyTorch.',
            "gpu_oom",
        ),
        ("XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 17.91G of 15.75G hbm.", "gpu_oom"),
        (
            "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mPool->getPool(), mCudaStream->get()): out of memory (tllmBuffers.h:118)",
            "gpu_oom",
        ),
        ("torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the execution", "gpu_fault"),
        ("RuntimeError: Failed: CUDA error /deepep/csrc/deep_ep.cpp:86 'out of memory'", "nccl_oom"),
        ("ValueError: Out of memory! No free blocks are available.", "kv_cache_too_small"),
        ("(EngineCore_DP0 pid=1) ERROR 11-08 23:41:09 [core.py:845] TimeoutError: RPC call to execute_model timed out.", "unknown"),
        ("RuntimeError: No CUDA GPUs are available", "application_error"),
        ("(Worker_TP1 pid=12) torch.AcceleratorError: CUDA error: invalid device ordinal", "application_error"),
        ("(APIServer pid=1) TimeoutError: Timed out waiting for engine core processes to start. Waited 600s", "unknown"),
        (
            "RuntimeError: vLLM cannot currently support max_model_len=16384 with block_size=16 on GPU with compute capability (7, 0) (required shared memory 66100 > available shared memory 49152).",
            "kernel_resource_limit",
        ),
    ],
)
def test_words_of_other_layers_for_a_lack_of_memory_and_for_none(line: str, cause: str) -> None:
    assert diagnose({"container.log": line + "\n"}).cause == cause


def test_a_request_that_is_refused_among_answered_ones_is_no_failure_of_the_server() -> None:
    log = (
        "ERROR 11-04 08:02:55 [serving_chat.py:257] ValueError: This model's maximum context length is 8192 tokens. However, you requested 9104 tokens\n"
        'INFO:     10.3.3.3:55121 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request\n'
        'INFO:     10.3.3.3:55122 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    )
    assert diagnose({"container.log": log}).cause == "healthy"


def test_the_front_end_sees_its_own_engine_on_the_card_and_no_stranger() -> None:
    text = oom("712.00 MiB", "22.03 GiB", "340.00 MiB", "2.20 GiB", "1.02 GiB", "90.00 MiB").replace(
        "Including", "Process 204 has 19.44 GiB memory in use. Including"
    )
    request = "ERROR 07-15 08:20:41 [serving_chat.py:310] Error in preprocessing prompt inputs\n"
    assert diagnose({"container.log": f"(APIServer pid=1) {request}(APIServer pid=1) {text}\n"}).cause == "runtime_burst"
    assert diagnose({"container.log": f"(EngineCore pid=7) {text}\n"}).cause == "other_process_on_gpu"


def test_a_supervisor_that_starts_the_server_again_begins_another_attempt() -> None:
    log = (
        "2026-03-01 10:00:00,101 INFO spawned: 'vllm' with pid 31\n"
        "(EngineCore pid=60) ERROR 03-01 10:00:31 [core.py:1099] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.\n"
        "2026-03-01 10:00:34,101 INFO spawned: 'vllm' with pid 99\n"
        "(EngineCore pid=120) INFO 03-01 10:00:59 [gpu_worker.py:456] Available KV cache memory: 2.06 GiB\n"
        f"(EngineCore pid=120) {frame('vllm/v1/worker/gpu_model_runner.py', 'capture_model').splitlines()[0]}\n(EngineCore pid=120) {oom()}\n"
    )
    found = diagnose({"container.log": log})
    assert (found.cause, found.certainty) == ("cuda_graph_capture", Certainty.CERTAIN)


def test_the_model_is_read_where_it_is_the_first_thing_that_the_configuration_names() -> None:
    log = (
        "INFO 09-28 10:10:10 llm_engine.py:72] Initializing an LLM engine with config: model='meta-llama/Llama-2-7b-chat-hf', dtype=torch.float16, max_seq_len=4096, "
        "tensor_parallel_size=1, quantization=None, seed=0)\n"
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 86.00 MiB (GPU 0; 14.56 GiB total capacity; 14.30 GiB already allocated; 25.60 MiB free; "
        "14.32 GiB reserved in total by PyTorch)\n"
    )
    assert diagnose({"container.log": log}).cause == "weights_too_large"
    assert diagnose({"container.log": log.replace("Llama-2-7b", "Llama-2-1b")}).cause == "gpu_oom"


def test_a_version_that_charges_others_to_itself_is_told_from_a_small_budget() -> None:
    line = (
        "INFO 11-18 11:18:00 worker.py:232] Memory profiling results: total_gpu_memory=79.11GiB initial_memory_usage=60.22GiB peak_torch_memory=9.80GiB "
        "memory_usage_post_profile=60.31GiB non_torch_memory={other}GiB kv_cache_size={left}GiB gpu_memory_utilization=0.40\n"
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n"
    )
    assert diagnose({"container.log": line.format(other="51.61", left="-29.77")}).cause == "other_process_on_gpu"
    alone = line.replace("60.22", "30.10").replace("60.31", "30.20").replace("9.80", "31.10").format(other="0.60", left="-0.06")
    assert diagnose({"container.log": alone}).cause == "kv_cache_too_small"


def test_the_exception_of_a_json_record_is_read_with_its_message() -> None:
    record = {
        "level": "ERROR", "time": "08-20 08:20:00.101", "message": "EngineCore failed to start.",
        "exc_info": "Traceback (most recent call last):\nValueError: Free memory on device (60.11/79.19 GiB) on startup is less than desired GPU memory utilization (0.9, 71.27 GiB).",
    }  # fmt: skip
    assert diagnose({"container.log": json.dumps(record) + "\n"}).cause == "free_memory_below_request"


@pytest.mark.parametrize("set_already", [True, False])
def test_what_the_container_has_set_already_is_not_advised_again(set_already: bool) -> None:
    log = "(EngineCore pid=9) ERROR 01-02 01:02:00 [core.py:935] EngineCore encountered a fatal error.\n" + oom(
        "1.80 GiB", "47.40 GiB", "716.80 MiB", "46.70 GiB", "39.20 GiB", "6.00 GiB"
    )
    env = [{"name": "PYTORCH_CUDA_ALLOC_CONF", "value": "expandable_segments:True"}] if set_already else []
    state = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-03-03T10:20:44Z"}}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "chat-0", "namespace": "llm"},
        "spec": {"containers": [{"name": "server", "image": "vllm/vllm-openai:v0.13.0", "args": ["--model", "/m"], "env": env}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": "server", "restartCount": 1, "ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": state}
            ],
        },
    }
    found = diagnose({"container.log": log, "pod.json": pod})
    assert found.cause == "fragmentation"
    assert ("expandable_segments" in [advice.remedy for advice in found.recommendations]) is not set_already


@pytest.mark.parametrize(("what", "requests"), [("sampler", 1024), ("pooler (task='embed')", 512)])
def test_half_of_the_dummy_requests_that_the_log_names_is_advised(what: str, requests: int) -> None:
    found = diagnose(
        {
            "container.log": f"RuntimeError: CUDA out of memory occurred when warming up {what} with {requests} dummy requests. Please try lowering `max_num_seqs`.\n"
        }
    )
    first = found.recommendations[0]
    assert (first.remedy, first.from_value, first.to_value) == ("max_num_seqs", requests, requests // 2)
    assert f"{requests:,}" in found.summary.en


@pytest.mark.parametrize(("fits", "first"), [(912, "gpu_memory_utilization"), (120_000, "max_model_len")])
def test_a_context_too_short_to_serve_with_is_not_the_first_advice(fits: int, first: str) -> None:
    log = (
        "(EngineCore pid=45) ERROR 08-18 21:21:00 [core.py:1346] ValueError: To serve at least one request with the model's max seq len (200000), (1.9 GiB KV cache is "
        f"needed, which is larger than the available KV cache memory (0.41 GiB). Based on the available memory, the estimated maximum model length is {fits}. Try increasing\n"
    )
    assert diagnose({"container.log": log, "args.txt": "vllm serve /m --gpu-memory-utilization 0.9\n"}).recommendations[0].remedy == first


@pytest.mark.parametrize(("estimate", "offered"), [("1.61", True), ("0.61", False)])
def test_room_kept_for_graphs_is_offered_back_where_one_request_would_fit_then(estimate: str, offered: bool) -> None:
    log = (
        f"(EngineCore pid=79) INFO 07-11 01:00:20 [gpu_model_runner.py:6936] Estimated CUDA graph memory: {estimate} GiB total\n"
        "(EngineCore pid=79) ERROR 07-11 01:00:21 [core.py:1338] ValueError: To serve at least one request with the model's max seq len (32768), (4.0 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (2.8 GiB). Based on the available memory, the estimated maximum model length is 22928. Try increasing\n"
    )
    assert ("cudagraph_sizes" in [advice.remedy for advice in diagnose({"container.log": log}).recommendations]) is offered


@pytest.mark.parametrize(
    ("rows", "cause"),
    [
        ("80, VLLM::Worker_TP0, 21802 MiB\n81, VLLM::Worker_TP1, 21810 MiB\n", "kv_cache_too_small"),
        ("9080, VLLM::Worker_TP0, 21802 MiB\n9081, VLLM::Worker_TP1, 21810 MiB\n", "kv_cache_too_small"),
        ("80, VLLM::Worker_TP0, 21802 MiB\n771, /opt/ComfyUI/venv/bin/python, 9120 MiB\n", "other_process_on_gpu"),
    ],
)
def test_the_servers_own_processes_on_the_card_are_no_strangers(rows: str, cause: str) -> None:
    readings = "pid, process_name, used_gpu_memory [MiB]\n" + rows
    assert diagnose({"container.log": ranks("-1.40", "-1.44"), "nvidia-smi.txt": readings}).cause == cause


def test_a_card_that_counts_memory_errors_is_drained_and_not_upgraded() -> None:
    counters = "GPU 00000000:4E:00.0\n    ECC Errors\n        Volatile\n            DRAM Correctable              : 0\n            DRAM Uncorrectable            : {errors}\n"
    log = "(EngineCore_DP0 pid=9) torch.AcceleratorError: CUDA error: unspecified launch failure\n"
    assert diagnose({"container.log": log, "nvidia-smi.txt": counters.format(errors=4)}).recommendations[0].remedy == "drain_node"
    assert diagnose({"container.log": log, "nvidia-smi.txt": counters.format(errors=0)}).recommendations[0].remedy == "vllm_version"


def test_a_worker_that_names_the_method_it_failed_in_says_the_stage() -> None:
    log = "(RayWorkerWrapper pid=901, ip=10.0.0.5) ERROR 06-06 06:36:00 [worker_base.py:620] Error executing method 'load_model'. This might cause deadlock in distributed execution.\n"
    assert diagnose({"container.log": f"{log}(RayWorkerWrapper pid=901, ip=10.0.0.5) {oom()}\n"}).cause == "weights_too_large"


@pytest.mark.parametrize(
    "late",
    [
        "(EngineCore_DP0 pid=60) ERROR 11-11 11:40:04 [core.py:845] TimeoutError: RPC call to execute_model timed out.",
        "[rank1]:[E1111 11:40:04.100 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE)",
        "(EngineCore_DP0 pid=60) ERROR 11-11 11:40:04 [core.py:842] Exception: WorkerProc initialization failed due to an exception in a background process.",
    ],
)
def test_ranks_that_notice_ten_minutes_later_begin_no_other_run(late: str) -> None:
    before = "(Worker_TP2 pid=72) ERROR 11-11 11:30:01 [multiproc_executor.py:671] "
    stack = frame("vllm/v1/worker/gpu_worker.py", "execute_model").splitlines()[0]
    found = diagnose(
        {"container.log": f"{before}{stack}\n{before}{oom('1.30 GiB', '79.19 GiB', '921.60 MiB', '78.29 GiB', '76.60 GiB', '512.00 MiB', 2)}\n{late}\n"}
    )
    assert found.cause == "runtime_burst"


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit the quantized model.", "weights_too_large"),
        ("RuntimeError: CUDA error at /workspace/csrc/machete_mainloop.cuh:77: out of memory", "gpu_oom"),
        ("RuntimeError: MPS backend out of memory (MPS allocated: 15.20 GB, other allocations: 2.10 GB, max allowed: 18.13 GB).", "gpu_oom"),
    ],
)
def test_loaders_and_libraries_say_it_in_words_of_their_own(line: str, cause: str) -> None:
    assert diagnose({"container.log": line + "\n"}).cause == cause


def test_options_that_are_set_by_variables_count_as_arguments_do() -> None:
    log = "(EngineCore pid=9) ERROR 01-02 01:02:00 [core.py:935] EngineCore encountered a fatal error.\n" + oom()
    spec = {"name": "server", "image": "vllm/vllm-openai:v0.13.0", "args": ["--model", "/m", "--max-num-seqs", "$(SEQS)"]}
    env = [{"name": "GPU_MEMORY_UTILIZATION", "value": "0.87"}, {"name": "VLLM_MAX_NUM_BATCHED_TOKENS", "value": "8192"}, {"name": "SEQS", "value": "96"}]
    state = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-03-03T10:20:44Z"}}
    status = {"phase": "Running", "containerStatuses": [{"name": "server", "restartCount": 1, "ready": False, "state": state}]}
    pod = {"kind": "Pod", "metadata": {"name": "chat-0", "namespace": "llm"}, "spec": {"containers": [{**spec, "env": env}]}, "status": status}
    found = diagnose({"container.log": log, "pod.json": pod})
    from_values = {advice.remedy: advice.from_value for advice in found.recommendations}
    assert from_values["gpu_memory_utilization"] == 0.87
    assert from_values["max_num_batched_tokens"] == 8192
    assert from_values["max_num_seqs"] == 96


def test_an_argument_is_stronger_than_a_variable_of_its_name() -> None:
    log = "(EngineCore pid=9) ERROR 01-02 01:02:00 [core.py:935] EngineCore encountered a fatal error.\n" + oom()
    found = diagnose({"container.log": log, "args.txt": "VLLM_GPU_MEMORY_UTILIZATION=0.70\nvllm serve /m --gpu-memory-utilization 0.91\n"})
    assert {advice.remedy: advice.from_value for advice in found.recommendations}["gpu_memory_utilization"] == 0.91
