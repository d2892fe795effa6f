"""Scenes of every kind of failure on the card, as servers of several releases print them: the cause, and the advice that may stand first."""

import pytest

from tests.diagnosis.bundles import diagnose

SCENES: list[tuple[str, dict[str, str], str, list[str] | None]] = []


def oom(wanted: str, total: str, free: str, own: str | None, allocated: str, idle: str, device: str = "CUDA") -> str:
    """The allocator's text."""
    who = f"Including non-PyTorch memory, this process has {own} memory in use. " if own else ""
    return (
        f"{device} out of memory. Tried to allocate {wanted}. GPU 0 has a total capacity of {total} of which {free} is free. {who}Of the allocated memory "
        f"{allocated} is allocated by PyTorch, and {idle} is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
    )


def scene(name: str, log: str, causes: str, first: list[str] | None = None, **files: str) -> None:
    named = {key.replace("__", ".").replace("_smi", "-smi"): text for key, text in files.items()}
    SCENES.append((name, {"container.log": log, **named}, causes, first))


TORCH = "torch.OutOfMemoryError: "
P = "(EngineCore_DP0 pid=51) ERROR 10-01 10:00:00 [core.py:790] "
scene(
    "repack moe",
    P
    + '  File "vllm/model_executor/layers/quantization/mxfp4.py", line 3, in process_weights_after_loading\n'
    + P
    + TORCH
    + oom("2.11 GiB", "79.11 GiB", "1.02 GiB", "78.08 GiB", "76.9 GiB", "310.11 MiB"),
    "weights_too_large",
    ["quantization:enable", "tensor_parallel_size:raise", "vllm_version:change", "bigger_gpu"],
)
scene(
    "load wrapper",
    "(EngineCore pid=1) INFO 10-01 10:00:00 [gpu_model_runner.py:1] Starting to load model /m...\n(EngineCore pid=1) ERROR 10-01 10:00:09 [gpu_model_runner.py:5500] Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free memory for weights, increasing --tensor-parallel-size, or using --quantization. See x for more tips. (original error: "
    + oom("192.00 MiB", "23.5 GiB", "100.0 MiB", "23.4 GiB", "22.9 GiB", "9 MiB")
    + ")\n(EngineCore pid=1) ERROR 10-01 10:00:09 [core.py:1] EngineCore failed to start.\n(EngineCore pid=1) ERROR 10-01 10:00:09 [core.py:1] "
    + TORCH
    + oom("192.00 MiB", "23.5 GiB", "100.0 MiB", "23.4 GiB", "22.9 GiB", "9 MiB"),
    "weights_too_large",
    ["quantization:enable", "tensor_parallel_size:raise"],
)
scene(
    "load with neighbour",
    '  File "x.py", line 3, in load_model\n  File "x.py", line 4, in create_weights\n'
    + TORCH
    + oom("448.00 MiB", "79.1 GiB", "300.0 MiB", "38.2 GiB", "37.5 GiB", "9 MiB"),
    "other_process_on_gpu",
    ["free_gpu_process", "isolate_gpu"],
)
scene(
    "wsl desktop small",
    "(EngineCore pid=1) ERROR 10-01 10:00:09 [core.py:1] ValueError: Free memory on device cuda:0 (6.92/8.0 GiB) on startup is less than desired GPU memory utilization (0.92, 7.36 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
    "free_memory_below_request",
    ["gpu_memory_utilization:lower"],
)
scene(
    "free mid",
    "ValueError: Free memory on device (52.0/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB). Decrease GPU",
    "free_memory_below_request|other_process_on_gpu",
    ["free_gpu_process", "gpu_memory_utilization:lower", "isolate_gpu"],
)
scene(
    "gb10 free",
    "ValueError: Free memory on device cuda:0 (20.1/121.6 GiB) on startup is less than desired GPU memory utilization (0.8, 97.3 GiB). Decrease GPU",
    "free_memory_below_request|reserved_memory|other_process_on_gpu",
    None,
    nvidia_smi__txt="GPU 0: NVIDIA GB10 (UUID: GPU-2076c8a7-2430-5eb2-aef5-18b7ceb41015)\n",
)
scene(
    "kv util low",
    "(EngineCore pid=1) INFO 10-01 10:00:00 [gpu_model_runner.py:1] Model loading took 14.99 GiB memory and 3.1 seconds\n(EngineCore pid=1) INFO 10-01 10:00:00 [gpu_worker.py:1] Available KV cache memory: -1.30 GiB\n(EngineCore pid=1) ERROR 10-01 10:00:09 [core.py:1] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
    "kv_cache_too_small",
    ["gpu_memory_utilization:raise"],
    args__txt="vllm serve /m/Llama-8B --gpu-memory-utilization 0.6\n",
)
scene(
    "kv weights fill",
    "INFO 10-01 10:00:00 [gpu_model_runner.py:1] Model loading took 22.1 GiB and 3.1 seconds\nINFO 10-01 10:00:00 [gpu_worker.py:1] Available KV cache memory: -1.90 GiB\nERROR 10-01 10:00:09 [core.py:1] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when",
    "kv_cache_too_small|weights_too_large",
    ["quantization:enable", "tensor_parallel_size:raise", "max_num_batched_tokens:lower", "gpu_memory_utilization:raise"],
    args__txt="vllm serve /m/x --gpu-memory-utilization 0.95\n",
)
scene(
    "context v0",
    "INFO 10-01 10:00:00 llm_engine.py:1] # GPU blocks: 1100, # CPU blocks: 512\nValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (17600). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`",
    "context_exceeds_kv_cache",
    ["max_model_len:lower"],
)
scene(
    "profile text",
    "INFO 10-01 10:00:00 [gpu_model_runner.py:1] Model loading took 20.1 GiB and 3.1 seconds\n"
    + P
    + '  File "vllm/v1/worker/gpu_worker.py", line 3, in determine_available_memory\n'
    + P
    + '  File "x", line 4, in profile_run\n'
    + P
    + '  File "vllm/model_executor/models/llama.py", line 4, in forward\n'
    + P
    + TORCH
    + oom("1.96 GiB", "23.6 GiB", "1.1 GiB", "22.4 GiB", "21.9 GiB", "109 MiB"),
    "profile_run_peak|weights_too_large",
    ["max_num_batched_tokens:lower", "max_num_seqs:lower", "max_model_len:lower", "quantization:enable"],
)
scene(
    "inductor oom",
    "INFO 10-01 10:00:00 [gpu_model_runner.py:1] Model loading took 15.2 GiB and 3.1 seconds\n"
    + P
    + '  File "torch/_inductor/compile_fx.py", line 3, in compile\n'
    + P
    + "torch._inductor.exc.InductorError: OutOfMemoryError: "
    + oom("1.17 GiB", "15.98 GiB", "200 MiB", None, "15.3 GiB", "20 MiB", device="HIP"),
    "weights_too_large|profile_run_peak",
    ["quantization:enable", "tensor_parallel_size:raise", "bigger_gpu", "max_num_batched_tokens:lower"],
)
scene(
    "capture raw",
    P
    + '  File "x", line 1, in capture_model\n'
    + P
    + '  File "torch/cuda/graphs.py", line 3, in capture_end\n'
    + P
    + "torch.AcceleratorError: CUDA error: out of memory\n"
    + P
    + "Search for `cudaErrorMemoryAllocation' in https://docs.nvidia.com/cuda\n",
    "cuda_graph_capture",
    ["gpu_memory_utilization:lower", "cudagraph_sizes:lower", "enforce_eager:enable"],
)
scene(
    "capture tqdm",
    "INFO 10-01 10:00:00 [gpu_worker.py:1] Available KV cache memory: 10.2 GiB\n(EngineCore_DP0 pid=5) \rCapturing CUDA graphs (mixed prefill-decode, PIECEWISE):  40%|xx| 20/51\rCapturing CUDA graphs (mixed prefill-decode, PIECEWISE):  43%|xx| 22/51\nRuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
    "cuda_graph_capture",
    ["gpu_memory_utilization:lower", "cudagraph_sizes:lower", "enforce_eager:enable"],
)
scene(
    "sampler runtime",
    "INFO:     Application startup complete.\n(EngineCore_DP0 pid=5) ERROR 10-01 10:00:00 [core.py:790] EngineCore encountered a fatal error.\n"
    + P
    + '  File "vllm/v1/sample/ops/topk_topp_sampler.py", line 3, in apply_top_k_top_p\n'
    + P
    + TORCH
    + oom("1.90 GiB", "23.6 GiB", "1.1 GiB", "22.4 GiB", "21.9 GiB", "109 MiB"),
    "runtime_burst",
    ["gpu_memory_utilization:lower", "max_num_seqs:lower", "max_num_batched_tokens:lower"],
)
scene(
    "frag big",
    "INFO:     Application startup complete.\n"
    + P
    + '  File "x", line 3, in execute_model\n'
    + P
    + TORCH
    + oom("2.00 GiB", "79.1 GiB", "700 MiB", "78.4 GiB", "62.0 GiB", "14.2 GiB"),
    "fragmentation",
    ["expandable_segments:enable", "gpu_memory_utilization:lower"],
)
scene(
    "lora runtime",
    "INFO:     Application startup complete.\n"
    + P
    + '  File "vllm/lora/worker_manager.py", line 3, in _load_adapter\n'
    + P
    + TORCH
    + oom("200 MiB", "23.6 GiB", "110 MiB", "23.4 GiB", "22.9 GiB", "10 MiB"),
    "runtime_burst",
    ["lora_limits:lower", "gpu_memory_utilization:lower"],
)
scene(
    "v0 swap abort",
    "INFO:     Application startup complete.\nRuntimeError: Aborted due to the lack of CPU swap space. Please increase the swap space to avoid this error.",
    "kv_cache_too_small|runtime_burst|application_error",
    ["swap_space:raise", "max_num_seqs:lower"],
)
scene(
    "preempt only",
    "INFO:     Application startup complete.\nWARNING 01-07 04:23:12 scheduler.py:1057] Sequence group cmpl-1 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. This can affect the end-to-end performance. Increase gpu_memory_utilization or tensor_parallel_size to provide more KV cache memory. total_num_cumulative_preemption=51",
    "healthy|kv_cache_too_small",
)
scene(
    "cublas",
    "INFO 10-01 10:00:00 [gpu_model_runner.py:1] Model loading took 20.1 GiB and 3.1 seconds\nRuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "gpu_oom|profile_run_peak",
    ["gpu_memory_utilization:lower", "max_num_batched_tokens:lower", "free_gpu_process"],
)
scene(
    "cublas serving",
    'INFO:     Application startup complete.\nRuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\nINFO:     1.1.1.1:1 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error',
    "runtime_burst|gpu_oom",
    ["gpu_memory_utilization:lower"],
)
scene("illegal", "INFO:     Application startup complete.\nRuntimeError: CUDA error: an illegal memory access was encountered\n", "gpu_fault")
scene(
    "flashinfer",
    "RuntimeError: Buffer overflow when allocating memory for batch_prefill_tmp_v with size 530841600 and alignment 16, but only 413138944 bytes available in AlignedAllocator. Increase the workspace buffer size.",
    "kernel_resource_limit",
    ["attention_or_moe_backend:change", "vllm_version:change"],
)
scene("bad util", "ValueError: GPU memory utilization must be less than 1.0. Got 90.0.", "application_error")
scene(
    "pydantic",
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\ngpu_memory_utilization\n  Input should be less than or equal to 1 [type=less_than_equal, input_value=90]",
    "application_error",
)
scene(
    "mm limits serving",
    "INFO:     Application startup complete.\n"
    + P
    + '  File "vllm/model_executor/models/qwen2_5_vl.py", line 3, in _process_image_input\n'
    + P
    + TORCH
    + oom("3.00 GiB", "79.1 GiB", "1.7 GiB", "77.4 GiB", "75.0 GiB", "500 MiB"),
    "runtime_burst",
    ["multimodal_limits:lower", "gpu_memory_utilization:lower"],
)
scene(
    "vlm profile",
    "INFO 10-01 10:00:00 [gpu_model_runner.py:1] Encoder cache will be initialized with a budget of 16384 tokens, and profiled with 1 image items of the maximum feature size.\n"
    + P
    + '  File "x", line 4, in profile_run\n'
    + P
    + TORCH
    + oom("3.00 GiB", "23.6 GiB", "1.1 GiB", "22.4 GiB", "21.9 GiB", "109 MiB"),
    "profile_run_peak",
    ["multimodal_limits:lower", "max_num_batched_tokens:lower"],
)
scene(
    "kv transfer",
    "INFO:     Application startup complete.\n"
    + P
    + '  File "vllm/distributed/kv_transfer/kv_connector/v1/nixl_connector.py", line 4, in register_kv_caches\n'
    + P
    + TORCH
    + oom("3.00 GiB", "23.6 GiB", "1.1 GiB", "22.4 GiB", "21.9 GiB", "109 MiB"),
    "runtime_burst|gpu_oom",
)
scene(
    "sglang cap",
    "[2025-07-22 02:18:10] server_args=ServerArgs(model_path='/m', mem_fraction_static=0.9)\n[2025-07-22 02:20:10 TP0] Capture cuda graph begin. This can take up to several minutes.\n[2025-07-22 02:20:20 TP0] Scheduler hit an exception: Traceback (most recent call last):\n  File \"cuda_graph_runner.py\", line 3, in capture\nException: Capture cuda graph failed: "
    + oom("1.00 GiB", "79.1 GiB", "700 MiB", "78.4 GiB", "76.0 GiB", "200 MiB"),
    "cuda_graph_capture",
    ["gpu_memory_utilization:lower", "cudagraph_sizes:lower", "enforce_eager:enable", "max_num_seqs:lower"],
)
scene(
    "sglang nomem",
    "[2025-07-22 02:20:20 TP0] Scheduler hit an exception: Traceback (most recent call last):\nRuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    "kv_cache_too_small",
    ["gpu_memory_utilization:raise"],
)
scene("hip fault", "Memory access fault by GPU node-1 (Agent handle: 0x1234) on address 0x7f. Reason: Unknown.", "gpu_fault")
scene(
    "healthy stats",
    'INFO 11-30 09:12:01 [loggers.py:257] Engine 000: Avg prompt throughput: 5400.8 tokens/s, Avg generation throughput: 512.0 tokens/s, Running: 96 reqs, Waiting: 10 reqs, GPU KV cache usage: 38.8%, Prefix cache hit rate: 2.1%\nINFO:     10.1.2.3:51022 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "healthy",
)
scene(
    "client 400",
    'INFO:     Application startup complete.\nERROR 11-30 08:12:01 [serving_chat.py:211] ValueError: This model\'s maximum context length is 4096 tokens. However, you requested 5000 tokens.\nINFO:     10.1.2.3:51022 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request\nINFO:     10.1.2.3:51022 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "healthy",
)
scene(
    "client 400 last",
    'INFO:     Application startup complete.\nERROR 11-30 08:12:01 [serving_chat.py:211] ValueError: This model\'s maximum context length is 4096 tokens. However, you requested 5000 tokens.\nINFO:     10.1.2.3:51022 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request\n',
    "healthy|application_error",
)
scene(
    "exit -9",
    "(APIServer pid=1) INFO 10-01 10:00:00 [api_server.py:1] vLLM API server version 0.12.0\n(EngineCore_DP0 pid=55) INFO 10-01 10:00:00 [gpu_model_runner.py:1] Starting to load model /m...\n(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': -9}",
    "node_out_of_memory|child_killed_in_container|unknown",
    ["host_memory_use:lower", "load_format:change", "bigger_node", "memory_limit:raise"],
)
scene(
    "worker died",
    "INFO:     Application startup complete.\n(EngineCore_DP0 pid=55) ERROR 10-01 10:00:00 [multiproc_executor.py:230] Worker proc VllmWorker-1 died unexpectedly, shutting down executor.\n(APIServer pid=1) ERROR 10-01 10:00:00 [async_llm.py:480] AsyncLLM output_handler failed.\nvllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
    "unknown|node_out_of_memory|child_killed_in_container",
)
scene(
    "est",
    "(EngineCore pid=1) INFO 10-01 10:00:00 [gpu_model_runner.py:1] Model loading took 14.2 GiB memory and 3.1 seconds\n(EngineCore pid=1) INFO 10-01 10:00:00 [gpu_model_runner.py:1] Estimated CUDA graph memory: 5.21 GiB total\n(EngineCore pid=1) INFO 10-01 10:00:00 [gpu_worker.py:1] Available KV cache memory: -1.10 GiB\n(EngineCore pid=1) ERROR 10-01 10:00:09 [core.py:1] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when",
    "cuda_graph_capture|kv_cache_too_small",
    ["cudagraph_estimate:disable", "cudagraph_sizes:lower", "enforce_eager:enable", "max_num_seqs:lower", "gpu_memory_utilization:raise"],
)
scene(
    "est in context",
    "(EngineCore pid=1) INFO 10-01 10:00:00 [gpu_model_runner.py:1] Estimated CUDA graph memory: 2.21 GiB total\n(EngineCore pid=1) INFO 10-01 10:00:00 [gpu_worker.py:1] Available KV cache memory: 1.10 GiB\n(EngineCore pid=1) ERROR 10-01 10:00:09 [core.py:1] ValueError: To serve at least one request with the model's max seq len (32768), (2.00 GiB KV cache is needed, which is larger than the available KV cache memory (1.10 GiB). Based on the available memory, the estimated maximum model length is 18016. Try",
    "context_exceeds_kv_cache",
    ["max_model_len:lower", "gpu_memory_utilization:raise", "cudagraph_estimate:disable"],
)
scene(
    "tp hetero",
    'WARNING 01-07 04:23:12 cuda.py:81] Detected different devices in the system: NVIDIA GeForce RTX 3090, NVIDIA GeForce RTX 3080. Please make sure to set `CUDA_DEVICE_ORDER=PCI_BUS_ID` to avoid unexpected behavior.\nINFO 10-29 16:03:27 api_server.py:842] args: Namespace(tensor_parallel_size=2)\n  File "x", line 2, in load_model\n'
    + TORCH
    + oom("100 MiB", "9.77 GiB", "50 MiB", "9.6 GiB", "9.4 GiB", "10 MiB"),
    "heterogeneous_gpus|weights_too_large",
)
scene(
    "bf16 mixed",
    "WARNING 01-07 04:23:12 cuda.py:81] Detected different devices in the system: NVIDIA GeForce RTX 4070 Ti, NVIDIA GeForce RTX 2060. Please make sure to set `CUDA_DEVICE_ORDER=PCI_BUS_ID` to avoid\nValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your NVIDIA GeForce RTX 2060 GPU has compute capability 7.5.",
    "heterogeneous_gpus|application_error",
    ["order_devices", "isolate_gpu", "dtype:change"],
)
scene(
    "cumem load",
    P
    + '  File "x", line 2, in load_model\n'
    + P
    + '  File "vllm/device_allocator/cumem.py", line 75, in create_and_map\n'
    + P
    + "RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
    "weights_too_large|gpu_oom|other_process_on_gpu",
)
scene(
    "kv alloc neighbor",
    P.replace("ERROR", "INFO")
    + "Available KV cache memory: 50.1 GiB\n"
    + P
    + '  File "x", line 2, in initialize_from_config\n'
    + P
    + '  File "x", line 2, in _allocate_kv_cache_tensors\n'
    + P
    + TORCH
    + oom("1.60 GiB", "79.1 GiB", "600 MiB", "50.2 GiB", "49.0 GiB", "10 MiB"),
    "other_process_on_gpu",
    ["free_gpu_process", "isolate_gpu"],
)
scene(
    "dup gpu",
    "[rank0]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:317, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.21.5\n[rank0]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n[rank0]: Last error:\n[rank0]: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000",
    "nccl_failure|application_error|unschedulable",
)
scene(
    "old torch",
    'INFO 10-01 10:00:00 model_runner.py:1] Loading model weights took 13.0 GB\n  File "x", line 2, in profile_num_available_blocks\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.53 GiB (GPU 0; 14.61 GiB total capacity; 13.61 GiB already allocated; 500.12 MiB free; 13.70 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb',
    "profile_run_peak|weights_too_large",
    ["max_model_len:lower", "max_num_batched_tokens:lower", "max_num_seqs:lower", "quantization:enable"],
)
scene(
    "Transformers",
    'Traceback (most recent call last):\n  File "/opt/transformers/modeling_utils.py", line 4, in from_pretrained\n  File "/opt/transformers/modeling_utils.py", line 4, in _load_state_dict_into_meta_model\ntorch.OutOfMemoryError: '
    + oom("100 MiB", "23.6 GiB", "50 MiB", "23.5 GiB", "23.1 GiB", "10 MiB"),
    "weights_too_large",
)
scene(
    "kv bytes",
    "INFO 10-01 10:00:00 [gpu_worker.py:1] Initial free memory 78.01 GiB, reserved 60.00 GiB memory for KV Cache as specified by kv_cache_memory_bytes config and skipped memory profiling. This does not respect the gpu_memory_utilization config.\n"
    + P
    + '  File "x", line 2, in _allocate_kv_cache_tensors\n'
    + P
    + TORCH
    + oom("1.60 GiB", "79.1 GiB", "600 MiB", "78.2 GiB", "77.0 GiB", "10 MiB"),
    "gpu_oom|kv_cache_too_small",
    ["kv_cache_memory_bytes:set"],
    args__txt="vllm serve /m --kv-cache-memory-bytes 60G\n",
)
scene(
    "offline healthy",
    'INFO 10-01 10:00:00 llm_engine.py:1] Initializing an LLM engine (v0.4.0) with config: model="/m/x"\nINFO 10-01 10:00:00 model_runner.py:1] Loading model weights took 0.92 GB\nINFO 10-01 10:00:00 gpu_executor.py:1] # GPU blocks: 11952, # CPU blocks: 2730\nINFO 10-01 10:00:00 model_runner.py:1] Graph capturing finished in 5 secs.\n',
    "healthy",
    ["none"],
)
scene(
    "offline healthy2",
    "INFO 10-01 10:00:00 gpu_executor.py:1] # GPU blocks: 11952, # CPU blocks: 2730\nProcessed prompts: 100%|xx| 4/4 [00:00<00:00, 14.81it/s]\n",
    "healthy",
    ["none"],
)
scene(
    "gb10 oom load",
    P + '  File "x", line 3, in load_model\n' + P + TORCH + oom("1.50 GiB", "119.64 GiB", "20.1 GiB", "88.0 GiB", "87.0 GiB", "10 MiB"),
    "reserved_memory|weights_too_large|node_out_of_memory",
    ["drop_page_cache", "gpu_memory_utilization:lower"],
    nvidia_smi__txt="GPU 0: NVIDIA GB10 (UUID: GPU-2076c8a7-2430-5eb2-aef5-18b7ceb41015)\n",
)
scene(
    "v0 profile long",
    'INFO 10-01 10:00:00 llm_engine.py:72] Initializing an LLM engine with config: model="/m", max_seq_len=32768\n  File "x", line 3, in profile_num_available_blocks\n  File "x", line 3, in execute_model\ntorch.cuda.OutOfMemoryError: '
    + oom("4.00 GiB", "39.4 GiB", "2.1 GiB", "37.2 GiB", "34.0 GiB", "109 MiB"),
    "profile_run_peak",
    ["max_model_len:lower", "max_num_batched_tokens:lower", "max_num_seqs:lower"],
)
scene(
    "two engines",
    'INFO 10-01 10:00:00 [core.py:58] Initializing a V1 LLM engine (v0.9.2) with config: model="/a"\nINFO 10-01 10:00:30 [gpu_model_runner.py:1] Model loading took 15.2 GiB and 3.1 seconds\nINFO 10-01 10:00:40 [gpu_worker.py:1] Available KV cache memory: 52.1 GiB\nINFO 10-01 10:01:00 [core.py:210] init engine (profile, create kv cache, warmup model) took 40.12 seconds\nINFO 10-01 10:02:00 [core.py:58] Initializing a V1 LLM engine (v0.9.2) with config: model="/b"\nERROR 10-01 10:02:10 [core.py:586] ValueError: Free memory on device (7.8/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB). Decrease GPU memory utilization',
    "free_memory_below_request",
    ["application:fix", "gpu_memory_utilization:lower"],
)
scene(
    "smi neighbour",
    "ValueError: Free memory on device cuda:0 (30.1/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB). Decrease",
    "other_process_on_gpu",
    ["free_gpu_process", "isolate_gpu"],
    nvidia_smi__txt="""+---------------------------------------------------------------------------------------+
| Processes:                                                                            |
|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |
|=======================================================================================|
|    0   N/A  N/A     12345      C   python3                                    47812MiB |
+---------------------------------------------------------------------------------------+
""",
)
scene(
    "kv v1 old neighbour",
    "INFO 05-11 07:46:31 [gpu_model_runner.py:1549] Model loading took 0.9277 GiB and 1.104220 seconds\nERROR 05-11 07:46:49 [core.py:500] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
    "other_process_on_gpu|kv_cache_too_small",
    ["free_gpu_process", "isolate_gpu", "gpu_memory_utilization:raise"],
    nvidia_smi__txt="""| 30%   41C    P2    70W / 165W |  14021MiB / 16380MiB |      0%      Default |
|    0   N/A  N/A     12345      C   /opt/env/bin/python3                       13812MiB |
""",
    args__txt="vllm serve /m --gpu-memory-utilization 0.4\n",
)
scene(
    "frag with sleep",
    "INFO:     Application startup complete.\n"
    + P
    + '  File "x", line 3, in execute_model\n'
    + P
    + TORCH
    + oom("2.00 GiB", "79.1 GiB", "700 MiB", "78.4 GiB", "62.0 GiB", "14.2 GiB"),
    "fragmentation",
    ["gpu_memory_utilization:lower", "max_num_batched_tokens:lower"],
    args__txt="vllm serve /m --enable-sleep-mode\n",
)
scene(
    "eager capture n/a",
    'INFO:     Application startup complete.\nWARNING 10-01 10:00:00 [x.py:1] Exception in thread: x\nINFO:     1.2.3.4:1 - "POST /v1/completions HTTP/1.1" 200 OK',
    "healthy",
)
scene(
    "hf gated",
    "OSError: You are trying to access a gated repo.\nMake sure to have access to it at https://huggingface.co/x",
    "application_error",
    ["application:fix"],
)
scene(
    "int4 moe res",
    "ERROR 10-01 10:00:00 [core.py:1] torch._inductor.exc.InductorError: RuntimeError: No valid triton configs. OutOfMemoryError: out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.",
    "kernel_resource_limit",
)
scene(
    "xpu",
    "RuntimeError: XPU out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 11.60 GiB of which 1.10 GiB is free. Of the allocated memory 9.90 GiB is allocated by PyTorch, and 200.00 MiB is reserved by PyTorch but unallocated. Please use `empty_cache` to release all unoccupied cached memory.",
    "gpu_oom",
)


@pytest.mark.parametrize(("files", "causes", "first"), [entry[1:] for entry in SCENES], ids=[entry[0] for entry in SCENES])
def test_the_scene_is_understood(files: dict[str, str], causes: str, first: list[str] | None) -> None:
    found = diagnose(files)
    assert found.cause in causes.split("|"), [quote.quote for quote in found.evidence]
    if first is not None:
        assert found.recommendations
        assert found.recommendations[0].id in first


@pytest.mark.parametrize("files", [entry[1] for entry in SCENES], ids=[entry[0] for entry in SCENES])
def test_no_advice_is_given_that_is_also_called_useless(files: dict[str, str]) -> None:
    found = diagnose(files)
    useless = {(item.remedy, item.direction) for item in found.will_not_help}
    assert not [advice.id for advice in found.recommendations if (advice.remedy, advice.direction) in useless]
