"""Tracebacks of an engine's death, by where it dies: file, line, function, source. As vLLM 0.11 prints them."""

Frame = tuple[str, int, str, str]

ENGINE: tuple[Frame, ...] = (
    ("vllm/v1/engine/core.py", 699, "run_engine_core", "engine_core = EngineCoreProc(*args, **kwargs)"),
    ("vllm/v1/engine/core.py", 498, "__init__", "super().__init__(vllm_config, executor_class, log_stats,"),
)
EXECUTOR: tuple[Frame, ...] = (
    *ENGINE,
    ("vllm/v1/engine/core.py", 83, "__init__", "self.model_executor = executor_class(vllm_config)"),
    ("vllm/executor/executor_base.py", 54, "__init__", "self._init_executor()"),
)
DEVICE: tuple[Frame, ...] = (
    *EXECUTOR,
    ("vllm/executor/uniproc_executor.py", 54, "_init_executor", 'self.collective_rpc("init_device")'),
    ("vllm/v1/worker/gpu_worker.py", 187, "init_device", "raise ValueError("),
)
LOAD: tuple[Frame, ...] = (
    *EXECUTOR,
    ("vllm/executor/uniproc_executor.py", 55, "_init_executor", 'self.collective_rpc("load_model")'),
    ("vllm/v1/worker/gpu_worker.py", 213, "load_model", "self.model_runner.load_model(eep_scale_up=eep_scale_up)"),
    ("vllm/v1/worker/gpu_model_runner.py", 2635, "load_model", "self.model = model_loader.load_model("),
    ("vllm/model_executor/model_loader/base_loader.py", 45, "load_model", "model = initialize_model(vllm_config=vllm_config,"),
    ("vllm/model_executor/layers/linear.py", 195, "create_weights", "weight = Parameter(torch.empty(sum(output_partition_sizes),"),
)
CACHES: tuple[Frame, ...] = (
    *ENGINE,
    ("vllm/v1/engine/core.py", 92, "__init__", "self._initialize_kv_caches(vllm_config)"),
)
PROFILE: tuple[Frame, ...] = (
    *CACHES,
    ("vllm/v1/engine/core.py", 190, "_initialize_kv_caches", "self.model_executor.determine_available_memory())"),
    ("vllm/v1/worker/gpu_worker.py", 263, "determine_available_memory", "self.model_runner.profile_run()"),
    ("vllm/v1/worker/gpu_model_runner.py", 3361, "profile_run", "= self._dummy_run(self.max_num_tokens, is_profile=True)"),
    ("vllm/v1/worker/gpu_model_runner.py", 3142, "_dummy_run", "outputs = self.model("),
)
SIZING: tuple[Frame, ...] = (
    *CACHES,
    ("vllm/v1/engine/core.py", 199, "_initialize_kv_caches", "kv_cache_configs = get_kv_cache_configs(vllm_config, kv_cache_specs,"),
    ("vllm/v1/core/kv_cache_utils.py", 1243, "get_kv_cache_configs", "check_enough_kv_cache_memory(vllm_config, kv_cache_spec_one_worker,"),
    ("vllm/v1/core/kv_cache_utils.py", 716, "check_enough_kv_cache_memory", "raise ValueError("),
)
WARM: tuple[Frame, ...] = (
    *CACHES,
    ("vllm/v1/engine/core.py", 207, "_initialize_kv_caches", "self.model_executor.initialize_from_config(kv_cache_configs)"),
    ("vllm/v1/executor/abstract.py", 75, "initialize_from_config", 'self.collective_rpc("compile_or_warm_up_model")'),
)
CAPTURE: tuple[Frame, ...] = (
    *WARM,
    ("vllm/v1/worker/gpu_worker.py", 352, "compile_or_warm_up_model", "cuda_graph_memory_bytes = self.model_runner.capture_model()"),
    ("vllm/v1/worker/gpu_model_runner.py", 3474, "capture_model", "self._capture_cudagraphs("),
    ("vllm/compilation/cuda_graph.py", 169, "__call__", "output = self.runnable(*args, **kwargs)"),
)
SAMPLER: tuple[Frame, ...] = (
    *WARM,
    ("vllm/v1/worker/gpu_worker.py", 407, "compile_or_warm_up_model", "self.model_runner._dummy_sampler_run("),
    ("vllm/v1/worker/gpu_model_runner.py", 3247, "_dummy_sampler_run", "raise RuntimeError("),
)
SERVING: tuple[Frame, ...] = (
    ("vllm/v1/engine/core.py", 710, "run_engine_core", "engine_core.run_busy_loop()"),
    ("vllm/v1/engine/core.py", 737, "run_busy_loop", "self._process_engine_step()"),
    ("vllm/v1/engine/core.py", 762, "_process_engine_step", "outputs, model_executed = self.step_fn()"),
    ("vllm/v1/engine/core.py", 288, "step", "model_output = self.execute_model_with_error_logging("),
    ("vllm/v1/worker/gpu_worker.py", 447, "execute_model", "output = self.model_runner.execute_model(scheduler_output,"),
    ("vllm/v1/worker/gpu_model_runner.py", 2287, "execute_model", "sampler_output = self._sample(logits, spec_decode_metadata)"),
    ("vllm/v1/sample/sampler.py", 96, "forward", "raw_logprobs = self.compute_logprobs(logits)"),
)
FRONT: tuple[Frame, ...] = (
    ("vllm/entrypoints/openai/api_server.py", 1941, "run_server", "await run_server_worker(listen_address, sock, args, **uvicorn_kwargs)"),
    ("vllm/v1/engine/async_llm.py", 134, "__init__", "self.engine_core = EngineCoreClient.make_async_mp_client("),
    ("vllm/v1/engine/utils.py", 785, "wait_for_engine_startup", 'raise RuntimeError("Engine core initialization failed. "'),
)
