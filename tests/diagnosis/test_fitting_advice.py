"""Advice that fits the mechanism: nothing is offered that cannot change what failed, however near it lies."""

import pytest

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


def test_an_engine_that_wakes_up_is_not_told_to_end_an_engine_that_may_be_itself() -> None:
    log = frame("vllm/device_allocator/cumem.py", "wake_up") + "RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62\n"
    table = "pid, process_name, used_gpu_memory [MiB]\n7713, {}, 5184 MiB\n"
    assert "free_gpu_process" not in remedies(diagnose({"container.log": log, "nvidia-smi.txt": table.format("VLLM::EngineCore")}))
    assert remedies(diagnose({"container.log": log, "nvidia-smi.txt": table.format("/usr/bin/trainer")}))[0] == "free_gpu_process"


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


HUGE = oom(wanted="64.00 GiB", total="79.32 GiB", free="47.11 GiB", own="32.19 GiB", held="31.50 GiB", idle="220.00 MiB")


@pytest.mark.parametrize("frames", [frame("vllm/model_executor/models/moonvit.py", "attention_qkvpacked"), ""])
def test_one_tensor_of_most_of_the_card_is_not_met_by_a_smaller_model_or_more_cards(frames: str) -> None:
    found = diagnose({"container.log": frame("vllm/v1/worker/gpu_model_runner.py", "profile_run") + frames + HUGE})
    assert found.cause == "profile_run_peak"
    assert not SMALLER & set(remedies(found))


CARDS = """| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|   3  NVIDIA A100-SXM4-80GB          On  |   00000000:57:00.0 Off |                 ERR! |
| N/A   {temperature}  {level}            ERR!/ {cap} |       4MiB /  81920MiB |    {load}      Default |
"""


def test_a_card_that_answers_its_readings_with_errors_is_drained() -> None:
    log = "(Worker_TP3 pid=11) ERROR 10-23 14:20:09 [multiproc_executor.py:671] torch.AcceleratorError: CUDA error: unspecified launch failure\n"
    broken = diagnose({"container.log": log, "nvidia-smi.txt": CARDS.format(temperature="ERR!", level="ERR!", cap="ERR!", load="ERR!")})
    assert (broken.cause, remedies(broken)[0]) == ("gpu_fault", "drain_node")
    no_sensor = diagnose({"container.log": log, "nvidia-smi.txt": CARDS.format(temperature="36C", level="P0", cap="400W", load="0%")})
    assert remedies(no_sensor)[0] != "drain_node"


def test_a_refusal_on_an_empty_card_is_the_drivers() -> None:
    found = diagnose({"container.log": oom(wanted="2.00 MiB", total="11.33 GiB", free="11.33 GiB", own="0 bytes", held="0 bytes", idle="0 bytes")})
    assert (found.cause, remedies(found)[0]) == ("gpu_fault", "driver:change")
    assert not {"gpu_memory_utilization:lower", "quantization:enable"} & set(remedies(found))


def test_where_others_hold_most_of_the_card_a_smaller_share_is_no_way_out() -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.43 GiB. GPU 0 has a total capacity of 79.15 GiB of which 132.75 MiB is free. Process 31127 has {others} GiB memory in use. Process 40551 has {own} GiB memory in use. Of the allocated memory 2.41 GiB is allocated by PyTorch, and 38.15 MiB is reserved by PyTorch but unallocated."
    assert "gpu_memory_utilization:lower" not in remedies(diagnose({"container.log": text.format(others="76.02", own="2.98")}))
    assert "gpu_memory_utilization:lower" in remedies(diagnose({"container.log": text.format(others="20.02", own="2.98")}))


LOADED = "[2026-12-11 02:35:22] Load weight end. type=Model, dtype=torch.bfloat16, avail mem={free} GB, mem usage={weights} GB.\n"


@pytest.mark.parametrize(("free", "weights", "share", "smaller"), [("44.71", "15.66", "0.2", False), ("1.20", "22.40", "0.9", True)])
def test_another_servers_share_counts_as_utilisation(free: str, weights: str, share: str, smaller: bool) -> None:
    refusal = f"RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: self.server_args.mem_fraction_static={share}\n"
    found = diagnose({"container.log": LOADED.format(free=free, weights=weights) + refusal})
    assert found.cause == "kv_cache_too_small"
    assert bool(SMALLER & set(remedies(found))) is smaller


def start(share: str, end: str) -> str:
    arguments = f"server_args=ServerArgs(model_path='/models/m', speculative_algorithm='EAGLE', mem_fraction_static={share}, tp_size=1)"
    return f"[2026-03-12 10:02:11] {arguments}\n" + LOADED.format(free="6.91", weights="37.40") + end


NO_TOKENS = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"


def test_a_share_that_fails_on_both_sides_is_moved_neither_way() -> None:
    found = diagnose({"container.log": start("0.84", NO_TOKENS) + start("0.85", oom(wanted="1.10 GiB", total="44.42 GiB", free="812.00 MiB", own="43.62 GiB", held="42.60 GiB"))})
    assert found.cause == "kv_cache_too_small"
    assert not {"gpu_memory_utilization:lower", "gpu_memory_utilization:raise"} & set(remedies(found))
    assert remedies(found)[0] == "speculative_decoding:change"


def test_a_share_that_was_moved_far_may_be_moved_back() -> None:
    found = diagnose({"container.log": start("0.50", NO_TOKENS) + start("0.95", oom(wanted="1.10 GiB", total="44.42 GiB", free="812.00 MiB", own="43.62 GiB", held="42.60 GiB"))})
    assert found.cause == "gpu_oom"
    assert "gpu_memory_utilization:lower" in remedies(found)


def test_the_warm_up_of_the_sampler_beside_a_cache_may_be_given_room_by_a_smaller_cache() -> None:
    sampler = frame("vllm/v1/worker/gpu/sample/sampler.py", "warmup_topk_topp") + oom()
    alone = diagnose({"container.log": sampler})
    assert (alone.cause, remedies(alone)[0]) == ("sampler_warmup", "max_num_seqs:lower")
    beside = diagnose({"container.log": "INFO 07-14 09:50:23 [model_runner.py:729] Graph capturing finished in 15 secs, took 2.04 GiB\n" + sampler})
    assert beside.cause == "sampler_warmup"
    assert "gpu_memory_utilization:lower" in remedies(beside)


def test_a_refused_registration_of_the_servers_own_all_reduce_is_no_lack_of_memory() -> None:
    registering = frame("sglang/srt/distributed/device_communicators/custom_all_reduce.py", "register_graph_buffers")
    found = diagnose({"container.log": registering + "RuntimeError: invalid argument\nException: Capture cuda graph failed: invalid argument\n"})
    assert (found.cause, remedies(found)[0]) == ("nccl_failure", "custom_all_reduce:disable")
    assert diagnose({"container.log": registering + oom()}).cause != "nccl_failure"


@pytest.mark.parametrize(
    "line",
    [
        "/srv/venv/bin/python: Error while finding module specification for 'vllm.entrypoints.openai.api_server' (ModuleNotFoundError: No module named 'vllm')",
        "bash: line 1: vllm: command not found",
        "exec /usr/local/bin/vllm: exec format error",
    ],
)
def test_a_server_that_is_not_installed_is_said_to_be_missing(line: str) -> None:
    found = diagnose({"container.log": line + "\n"})
    assert (found.cause, remedies(found)[0]) == ("application_error", "application:fix")


def test_another_command_that_an_entry_script_misses_is_no_failure_of_the_server() -> None:
    found = diagnose({"container.log": "/entrypoint.sh: line 3: nvidia-smi: command not found\nINFO:     Application startup complete.\n"})
    assert found.cause == "healthy"


@pytest.mark.parametrize(
    ("log", "first"),
    [
        ("/srv/train.sh: line 18:    36 Killed                  python3 train.py --epochs 3\n", "host_memory_use:lower"),
        ("INFO 09-01 14:10:27 [gpu_model_runner.py:5100] Starting to load model /models/m...\nKilled\n", "load_format:change"),
        ("INFO 09-01 14:10:02 [utils.py:326] non-default args: {'model': '/models/m', 'cpu_offload_gb': 60.0}\nINFO 09-01 14:10:27 [gpu_model_runner.py:5100] Starting to load model /models/m...\nKilled\n", "cpu_offload:lower"),
    ],
)
def test_a_program_that_a_shell_saw_killed_is_advised_by_what_it_did(log: str, first: str) -> None:
    found = diagnose({"container.log": log})
    assert (found.cause, remedies(found)[0]) == ("node_out_of_memory", first)


def test_a_web_server_that_answers_is_not_taken_for_vllm_by_that() -> None:
    answered = 'INFO:     Application startup complete.\nINFO:     192.0.2.4:51708 - "POST /generate HTTP/1.1" 200 OK\n'
    found = diagnose({"container.log": answered + frame("app/main.py", "generate") + "KeyError: 'prompt'\n"})
    assert (found.cause, remedies(found)[0]) == ("application_error", "application:fix")


def test_a_crash_behind_a_refused_segment_of_ucx_is_a_lack_of_shared_memory() -> None:
    log = "[1760000000.402118] [node-1:88   :0]        mm_iface.c:822  UCX  ERROR mm_iface failed to allocate receive FIFO\n[node-1:85   :0:85] Caught signal 11 (Segmentation fault: address not mapped to object at address (nil))\n"
    sized = "$ df -h /dev/shm\nFilesystem      Size  Used Avail Use% Mounted on\nshm             {size}     0  {size}   0% /dev/shm\n"
    assert diagnose({"container.log": log, "node_readings.txt": sized.format(size="64M")}).cause == "shm_too_small"
    assert diagnose({"container.log": log}).cause == "shm_too_small"
    assert diagnose({"container.log": log, "node_readings.txt": sized.format(size="32G")}).cause != "shm_too_small"


SERVING = "INFO 08-30 07:41:12 [loggers.py:116] Engine 000: Avg prompt throughput: 380.1 tokens/s, Avg generation throughput: 96.2 tokens/s, Running: 12 reqs, Waiting: 4 reqs, GPU KV cache usage: 47.2%, Prefix cache hit rate: 0.0%\n"


@pytest.mark.parametrize(
    ("error", "before", "first"),
    [
        ("AssertionError: expected running sequences", SERVING, "vllm_version:change"),
        ("KeyError: 'cmpl-0'", SERVING, "vllm_version:change"),
        ("AssertionError: expected running sequences", "", "application:fix"),
        ("ValueError: the temperature is out of range", SERVING, "application:fix"),
    ],
)
def test_a_programming_error_of_an_engine_that_served_is_answered_with_another_release(error: str, before: str, first: str) -> None:
    place = frame("vllm/v1/core/sched/scheduler.py", "schedule") if before else frame("vllm/config/model.py", "verify")
    found = diagnose({"container.log": f"{before}{place}{error}\n"})
    assert (found.cause, remedies(found)[0]) == ("application_error", first)


def attempt(share: str, wanted: str, held: str = "43.67 GiB") -> str:
    arguments = f"INFO 08-21 08:30:55 api_server.py:340] args: Namespace(host='0.0.0.0', model='/models/m', max_model_len=2048, gpu_memory_utilization={share})\n"
    return (
        "INFO 08-21 08:30:55 api_server.py:339] vLLM API server version 0.5.4\n"
        + arguments
        + oom(wanted=wanted, total="44.53 GiB", free="187.94 MiB", own="44.34 GiB", held=held, idle="335.07 MiB")
    )


@pytest.mark.parametrize(("wanted", "cause"), [("16.00 GiB", "profile_run_peak"), ("256.00 MiB", "gpu_oom")])
def test_utilisation_that_moved_nothing_is_moved_no_further(wanted: str, cause: str) -> None:
    found = diagnose({"container.log": attempt("0.8", wanted) + attempt("0.6", wanted)})
    assert found.cause == cause
    assert not {"gpu_memory_utilization:lower", "gpu_memory_utilization:raise"} & set(remedies(found))


def test_utilisation_that_changed_the_failure_may_be_moved_on() -> None:
    found = diagnose({"container.log": attempt("0.8", "256.00 MiB") + attempt("0.6", "256.00 MiB", held="38.10 GiB")})
    assert "gpu_memory_utilization:lower" in remedies(found)


def test_a_deficit_that_a_raise_covers_makes_the_weights_not_too_large() -> None:
    log = (
        "(EngineCore_DP0 pid=4) INFO 03-11 12:25:01 [gpu_model_runner.py:4820] Model loading took {weights} GiB memory and 61.2 seconds\n"
        "(EngineCore_DP0 pid=4) INFO 03-11 12:25:40 [gpu_worker.py:415] Available KV cache memory: {left} GiB\n"
        "(EngineCore_DP0 pid=4) ERROR 03-11 12:25:41 [core.py:1029] " + NO_BLOCKS
    )
    files = {"args.txt": "vllm serve /models/m --gpu-memory-utilization 0.90\n", "nvidia-smi.txt": "GPU 0: NVIDIA A10 (UUID: GPU-f8f8f0ba-6911-0639-5c79-54e69b405e4d)\n"}
    little = diagnose({**files, "container.log": log.format(weights="19.94", left="-0.31")})
    assert (little.cause, remedies(little)[0]) == ("kv_cache_too_small", "gpu_memory_utilization:raise")
    much = diagnose({**files, "container.log": log.format(weights="21.30", left="-2.90")})
    assert much.cause == "weights_too_large"


def test_a_pool_of_sleep_mode_that_cannot_grow_while_loading_is_no_matter_of_requests() -> None:
    log = "CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:139\n" + frame("vllm/model_executor/model_loader/utils.py", "process_weights_after_loading")
    found = diagnose({"container.log": log})
    assert (found.cause, remedies(found)[0]) == ("weights_too_large", "sleep_mode:change")


def test_a_second_engine_in_the_log_that_finds_nothing_left_is_kept_apart_from_the_first() -> None:
    first = "(EngineCore_DP0 pid=3052) INFO 01-15 06:46:16 [kv_cache_utils.py:1286] GPU KV cache size: 1,880,320 tokens\n"
    second = "(EngineCore_DP0 pid=4146) ERROR 01-15 06:47:41 [core.py:843] " + NO_BLOCKS
    assert remedies(diagnose({"container.log": first + second}))[0] == "isolate_gpu"
    assert remedies(diagnose({"container.log": first.replace("3052", "4146") + second}))[0] == "gpu_memory_utilization:raise"


def serving(load: str = "") -> str:
    return "(EngineCore pid=22) ERROR 04-19 12:21:04 [core.py:1110] EngineCore encountered a fatal error.\n" + load


@pytest.mark.parametrize(("running", "offered"), [(1, False), (40, True)])
def test_fewer_requests_at_once_are_no_remedy_for_a_single_one(running: int, offered: bool) -> None:
    load = f"(EngineCore pid=22) ERROR 04-19 12:21:04 [dump_input.py:81] Dumping scheduler stats: SchedulerStats(num_running_reqs={running}, num_waiting_reqs=0, kv_cache_usage=0.11)\n"
    found = diagnose({"container.log": serving(load) + oom()})
    assert found.cause == "runtime_burst"
    assert ("max_num_seqs:lower" in remedies(found)) is offered


@pytest.mark.parametrize(("idle", "cause"), [("236.10 MiB", "runtime_burst"), ("3.10 GiB", "fragmentation")])
def test_scraps_that_happen_to_cover_a_small_request_are_no_fragmentation(idle: str, cause: str) -> None:
    text = oom(wanted="136.00 MiB", total="23.56 GiB", free="70.94 MiB", own="23.49 GiB", held="20.10 GiB", idle=idle)
    assert diagnose({"container.log": serving() + text}).cause == cause


@pytest.mark.parametrize(("idle", "cause", "first"), [("9.31 GiB", "fragmentation", "expandable_segments:enable"), ("0.31 GiB", "weights_too_large", "quantization:enable")])
def test_pieces_that_the_conversion_of_weights_leaves_are_fragmentation(idle: str, cause: str, first: str) -> None:
    text = oom(wanted="530.00 MiB", total="79.19 GiB", free="402.25 MiB", own="78.80 GiB", held="68.42 GiB", idle=idle)
    found = diagnose({"container.log": frame("vllm/model_executor/layers/quantization/mxfp4.py", "process_weights_after_loading") + text})
    assert (found.cause, remedies(found)[0]) == (cause, first)


EXCEEDS = (
    "ValueError: To serve at least one request with the models's max seq len (40960), (4.38 GiB KV cache is needed, which is larger than the available KV cache "
    "memory (4.00 GiB). Based on the available memory, the estimated maximum model length is 37376. Try increasing `gpu_memory_utilization`.\n"
)
ON_CPU = "WARNING 11-18 13:43:31 [cpu.py:151] Environment variable VLLM_CPU_KVCACHE_SPACE (GiB) for CPU backend is not set, using 4 by default.\n"


def test_a_context_on_the_cpu_is_not_spread_over_cards() -> None:
    on_cpu, on_card = diagnose({"container.log": ON_CPU + EXCEEDS}), diagnose({"container.log": EXCEEDS})
    assert on_cpu.cause == on_card.cause == "context_exceeds_kv_cache"
    assert remedies(on_cpu)[:2] == ["max_model_len:lower", "kv_cache_memory_bytes:set"]
    assert "tensor_parallel_size:raise" not in remedies(on_cpu)
    assert "tensor_parallel_size:raise" in remedies(on_card)


def test_a_share_of_the_hosts_memory_that_is_not_free_is_lowered() -> None:
    found = diagnose({"container.log": "ValueError: Available memory on node 0 (20.1/62.8 GiB) on startup is less than desired CPU memory utilization (0.92, 57.8 GiB).\n"})
    assert (found.cause, remedies(found)[0]) == ("free_memory_below_request", "gpu_memory_utilization:lower")


def test_a_trainer_that_holds_the_rest_of_the_card_is_not_ended() -> None:
    line = "(TaskRunner pid=16351) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 768.00 MiB. GPU 0 has a total capacity of 79.11 GiB of which 402.50 MiB is free. Including non-PyTorch memory, this process has 50.02 GiB memory in use. Of the allocated memory 49.30 GiB is allocated by PyTorch, and 31.90 MiB is reserved by PyTorch but unallocated.\n"
    assert remedies(diagnose({"container.log": line}))[0] == "isolate_gpu"
    assert remedies(diagnose({"container.log": line.replace("TaskRunner", "Worker_TP0")}))[0] == "free_gpu_process"


def test_a_library_that_fails_inside_is_no_fault_of_the_application() -> None:
    found = diagnose({"container.log": frame("vllm/v1/worker/gpu_model_runner.py", "profile_run") + "RuntimeError: CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasCreate(handle)`\n"})
    assert (found.cause, remedies(found)[0]) == ("gpu_fault", "driver:change")


def test_host_memory_that_was_lent_to_the_card_is_taken_back_where_it_ended_the_container() -> None:
    kill = "Memory cgroup out of memory: Killed process 4711 (VLLM::EngineCor) total-vm:90000000kB, anon-rss:64000000kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:9000kB oom_score_adj:-997\n"
    kernel = "[ 100.000000] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/kubepods/pod1/c1,task_memcg=/kubepods/pod1/c1,task=VLLM::EngineCor,pid=4711,uid=0\n[ 100.000001] "
    found = diagnose({"kernel.log": kernel + kill, "args.txt": "vllm serve /m --cpu-offload-gb 40\n"})
    without = diagnose({"kernel.log": kernel + kill, "args.txt": "vllm serve /m\n"})
    assert "cpu_offload:lower" in remedies(found)
    assert "cpu_offload:lower" not in remedies(without)


@pytest.mark.parametrize(("model", "first"), [("/models/m-35b", "bigger_gpu"), ("/models/m-3b", "gpu_memory_utilization:lower")])
def test_a_refused_start_of_a_model_that_never_fits_is_not_led_to_the_next_failure(model: str, first: str) -> None:
    log = (
        f"INFO 05-07 09:07:17 [utils.py:233] non-default args: {{'model': '{model}', 'max_model_len': 32768}}\n"
        "(EngineCore pid=17) ERROR 05-07 09:07:41 [core.py:1136] ValueError: Free memory on device cuda:0 (9.91/11.49 GiB) on startup is less than desired GPU memory "
        "utilization (0.92, 10.57 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
    )
    found = diagnose({"container.log": log})
    assert (found.cause, remedies(found)[0]) == ("free_memory_below_request", first)


@pytest.mark.parametrize("left", ["-0.42", ""])
def test_a_raise_that_may_only_reach_the_next_refusal_says_so(left: str) -> None:
    log = (
        "INFO 11-30 09:00:00 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='/models/m', dtype=torch.bfloat16, max_seq_len=32768\n"
        "INFO 11-30 09:00:40 [gpu_model_runner.py:2653] Model loading took 18.2000 GiB and 12.1 seconds\n"
        + (f"INFO 11-30 09:00:50 [gpu_worker.py:298] Available KV cache memory: {left} GiB\n" if left else "")
        + NO_BLOCKS
    )
    raised = next(each for each in diagnose({"container.log": log}).recommendations if each.id == "gpu_memory_utilization:raise")
    assert raised.to_value == 0.95
    assert "enough" not in raised.effect.en
    assert "a request of 32,768 tokens" in raised.effect.en
    assert "next start may be refused" in raised.effect.en
    assert not left or "A cache of 0.59 GiB at least." in raised.effect.en  # 5 % of a card that holds at least 18.2 GiB in 0.9 of it


@pytest.mark.parametrize(("idle", "said"), [("640.10 MiB", False), ("88.20 MiB", True)])
@pytest.mark.parametrize("frames", ["", frame("vllm/v1/worker/gpu_model_runner.py", "_execute_mm_encoder")])
def test_unused_memory_that_covers_the_request_is_not_called_too_little(idle: str, said: bool, frames: str) -> None:
    found = diagnose({"container.log": serving() + frames + oom(wanted="144.00 MiB", total="79.15 GiB", free="96.00 MiB", own="79.05 GiB", held="77.30 GiB", idle=idle)})
    assert found.cause == "runtime_burst"
    assert any("88.20 MiB" in each.why.en for each in found.will_not_help) is said
    assert not any("640.10 MiB" in each.why.en for each in found.will_not_help)
