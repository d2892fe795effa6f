"""Kinds that public reports showed and no scene had: a trial that runs out, a negative budget and silence, killed compilers, signals that gunicorn names, a network card that may not lock memory."""

import pytest

from bot.model import Certainty, Diagnosis
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.test_pastes import frame, oom


def remedies(found: Diagnosis) -> list[str]:
    return [f"{each.remedy}:{each.direction}" if each.direction else each.remedy for each in found.recommendations]


@pytest.mark.parametrize(
    "frames",
    [
        frame("vllm/v1/worker/gpu_worker.py", "determine_available_memory", "estimate = self.model_runner.profile_cudagraph_memory()"),
        frame("vllm/v1/worker/gpu_worker.py", "determine_available_memory") + frame("vllm/v1/worker/gpu_model_runner.py", "profile_cudagraph_memory"),
    ],
)
def test_a_trial_of_graphs_that_runs_out_is_told_to_be_smaller_or_left_out(frames: str) -> None:
    found = diagnose({"container.log": frames + oom()})
    assert found.cause == "cuda_graph_capture"
    assert {"cudagraph_sizes:lower", "cudagraph_estimate:disable"} <= set(remedies(found))
    assert "gpu_memory_utilization:lower" not in remedies(found)


def test_a_capture_that_runs_out_keeps_the_estimate() -> None:
    found = diagnose({"container.log": frame("vllm/v1/worker/gpu_model_runner.py", "capture_model") + oom()})
    assert found.cause == "cuda_graph_capture"
    assert "cudagraph_estimate:disable" not in remedies(found)


def test_a_negative_budget_counts_even_where_the_log_ends_with_it() -> None:
    found = diagnose({"container.log": "INFO 06-02 11:20:31 [gpu_worker.py:298] Available KV cache memory: -1.44 GiB\n"})
    assert (found.cause, found.certainty) == ("kv_cache_too_small", Certainty.LIKELY)
    assert remedies(found)[0] == "gpu_memory_utilization:raise"


def test_a_budget_that_is_left_says_nothing_where_the_log_ends_with_it() -> None:
    assert diagnose({"container.log": "INFO 06-02 11:20:31 [gpu_worker.py:298] Available KV cache memory: 1.44 GiB\n"}).cause == "unknown"


def test_a_step_that_dumped_its_input_with_graphs_captured_was_serving() -> None:
    said = oom().replace("allocated by PyTorch,", "allocated by PyTorch, with 88.00 MiB allocated in private pools (e.g., CUDA Graphs),")
    said = said.removeprefix("torch.OutOfMemoryError: ")
    line = f"torch.OutOfMemoryError: Error in model execution (input dumped to /tmp/err_execute_model_input_1.pkl): {said}\n"
    assert diagnose({"container.log": line}).cause == "runtime_burst"
    without = line.replace(", with 88.00 MiB allocated in private pools (e.g., CUDA Graphs)", "")
    assert diagnose({"container.log": without}).cause == "gpu_oom"


@pytest.mark.parametrize(
    ("sent", "cause"), [("code 139", "segfault"), ("SIGSEGV", "segfault"), ("code 134", "abort"), ("SIGBUS", "shm_too_small"), ("SIGTERM", "unknown")]
)
def test_gunicorn_names_the_signal_of_its_worker(sent: str, cause: str) -> None:
    assert diagnose({"container.log": f"[2026-02-03 11:00:02 +0000] [9] [ERROR] Worker (pid:31) was sent {sent}!\n"}).cause == cause


def test_a_killed_compiler_is_no_proof_of_memory_and_asks_for_fewer_of_them() -> None:
    found = diagnose({"container.log": "ninja: job failed: c++ -O2 gemm.cu\nc++: fatal error: Killed signal terminated program cc1plus\n"})
    assert (found.cause, found.certainty) == ("node_out_of_memory", Certainty.POSSIBLE)
    assert remedies(found)[0] == "host_memory_use:lower"


def test_a_network_card_that_may_not_lock_memory_is_neither_the_cards_memory_nor_shm() -> None:
    found = diagnose(
        {
            "container.log": "n4:71:88 [2] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\nRuntimeError: NCCL error: unhandled system error\n"
        }
    )
    assert (found.cause, remedies(found)[0]) == ("nccl_failure", "network:fix")
    assert "shm_size:raise" in {f"{each.remedy}:{each.direction}" for each in found.will_not_help}


def test_an_assertion_in_a_kernel_is_not_called_an_illegal_access() -> None:
    found = diagnose({"container.log": "RuntimeError: CUDA error: device-side assert triggered\n"})
    assert found.cause == "gpu_fault"
    assert "illegal" not in found.summary.en


def test_a_name_that_is_not_known_is_not_an_amount() -> None:
    said = "kernel: oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/init.scope,task=python3,pid=811,uid=0\n"
    kill = "kernel: Out of memory: Killed process 811 (python3) total-vm:9000000kB, anon-rss:8000000kB, file-rss:4kB, shmem-rss:0kB, UID:0 pgtables:13660kB oom_score_adj:0\n"
    found = diagnose({"kernel.log": "".join(f"Feb 20 19:15:36 n1 {line}" for line in (said, kill))})
    assert found.cause == "node_out_of_memory"
    assert "amount" not in found.summary.en


@pytest.mark.parametrize("file", ["vllm/model_executor/warmup/deep_gemm_warmup.py", "vllm/v1/worker/gpu/warmup.py"])
def test_a_warm_up_of_kernels_that_runs_out_is_not_a_cache_that_vanished(file: str) -> None:
    sized = "INFO 06-02 11:20:31 [gpu_worker.py:298] Available KV cache memory: 9.10 GiB\nINFO 06-02 11:20:32 [kv_cache_utils.py:1229] GPU KV cache size: 99,072 tokens\n"
    function = "deep_gemm_warmup" if "gemm" in file else "warmup_kernels"
    found = diagnose({"container.log": sized + frame(file, function) + oom("6.00 GiB", free="4.10 GiB")})
    assert found.cause == "profile_run_peak"
    assert {"gpu_memory_utilization:lower", "max_num_batched_tokens:lower"} <= set(remedies(found))
    assert "isolate_gpu" not in remedies(found)


@pytest.mark.parametrize(
    "line",
    [
        "[171.20] [n3:81:0]  ib_md.c:340  UCX  ERROR ibv_reg_mr(address=0x7f00, length=4096, access=0xf) failed: Cannot allocate memory",
        "E0201 10:00:01.1 71 rdma_context.cpp:180] Failed to register memory 0x7e1a4: Cannot allocate memory [12]",
    ],
)
def test_a_transfer_library_that_may_not_lock_memory_is_told_so(line: str) -> None:
    assert diagnose({"container.log": line + "\n"}).cause == "nccl_failure"


def test_a_limit_on_threads_is_no_limit_on_memory() -> None:
    log = (
        "OpenBLAS blas_thread_init: pthread_create failed for thread 7 of 96: Resource temporarily unavailable\n"
        "terminate called after throwing an instance of 'std::system_error'\nAborted\n"
    )
    found = diagnose({"container.log": log})
    assert (found.cause, remedies(found)) == ("application_error", ["application:fix"])


def test_a_full_tpu_shows_no_numbers_that_it_does_not_have() -> None:
    line = "XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 17.02G of 15.75G hbm.\n"
    found = diagnose({"container.log": line})
    assert (found.cause, found.certainty) == ("gpu_oom", Certainty.POSSIBLE)
    assert "unknown" not in found.summary.en


def test_more_ranks_than_cards_here_counts_only_where_nothing_came_after_it() -> None:
    warned = "WARNING 04-02 09:10:11 [ray_utils.py:352] Tensor parallel size (8) exceeds available GPUs (4). This may result in Ray placement group allocation failures.\n"
    alone = diagnose({"container.log": warned})
    assert (alone.cause, remedies(alone)[:2]) == ("unschedulable", ["ray_resources:fix", "tensor_parallel_size:lower"])
    assert "8 ranks" in alone.summary.en
    loaded = "(RayWorkerWrapper pid=7) INFO 04-02 09:12:40 [gpu_model_runner.py:2602] Starting to load model /m...\n"
    assert diagnose({"container.log": warned + loaded + frame("vllm/v1/worker/gpu_model_runner.py", "capture_model") + oom()}).cause == "cuda_graph_capture"


def test_an_evaluation_by_likelihood_asks_for_log_probabilities_of_its_prompts() -> None:
    log = """Running loglikelihood requests:   0%|          | 0/4100 [00:00<?, ?it/s]
[rank0]:   File "/opt/env/lib/python3.10/site-packages/vllm/model_executor/layers/sampler.py", line 287, in forward
[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB. GPU 0 has a total capacity of 23.64 GiB of which 2.20 GiB is free.
"""
    found = diagnose({"container.log": log})
    assert (found.cause, found.recommendations[0].remedy) == ("runtime_burst", "logprobs")
    assert diagnose({"container.log": log.replace("loglikelihood", "generate_until")}).recommendations[0].remedy != "logprobs"


def test_a_prefill_of_sglang_shows_that_it_serves() -> None:
    log = """[2024-11-30 06:08:40 TP0] Prefill batch. #new-seq: 4, #new-token: 8192, #cached-token: 0, token usage: 0.11, #running-req: 0, #queue-req: 41
[2024-11-30 06:08:41 TP0] Traceback (most recent call last):
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.64 GiB. GPU 0 has a total capacity of 79.15 GiB of which 3.40 GiB is free.
"""
    assert diagnose({"container.log": log}).cause == "runtime_burst"


DF = "$ df -h /dev/shm\nFilesystem      Size  Used Avail Use% Mounted on\n{row}\n"
BUS = "INFO: worker 3 starts\n*** SIGBUS received at time=1768382920 on cpu 11 ***\n"


def test_a_bus_error_while_a_large_shared_memory_is_full_is_that() -> None:
    full = diagnose({"container.log": BUS, "node_readings.txt": DF.format(row="tmpfs           120G  120G     0 100% /dev/shm")})
    room = diagnose({"container.log": BUS, "node_readings.txt": DF.format(row="tmpfs           120G  2.0G  118G   2% /dev/shm")})
    assert (full.cause, full.recommendations[0].remedy, room.cause) == ("shm_too_small", "shm_size", "unknown")


def test_a_small_and_full_shared_memory_is_named_where_nothing_else_is_known() -> None:
    log = "E1213 09:14:02.334105 1 python.cc:1109] Stub process is unhealthy and it will be restarted.\n"
    found = diagnose({"container.log": log, "node_readings.txt": DF.format(row="shm              64M   64M     0 100% /dev/shm")})
    assert (found.cause, found.certainty.value) == ("shm_too_small", "possible")


STATS = "INFO 06-02 11:20:{at} [loggers.py:257] Engine 000: Avg prompt throughput: {prompt} tokens/s, Avg generation throughput: {rate} tokens/s, Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: 4.2%, Prefix cache hit rate: 0.0%\n"


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (STATS.format(at=10, prompt=812.5, rate=0.0, running=1) + STATS.format(at=20, prompt=0.0, rate=0.0, running=1), "unknown"),
        (STATS.format(at=10, prompt=0.0, rate=0.0, running=1) + STATS.format(at=20, prompt=0.0, rate=31.5, running=1), "healthy"),
        (STATS.format(at=20, prompt=0.0, rate=0.0, running=0), "healthy"),
        (STATS.format(at=20, prompt=0.0, rate=0.0, running=1) + 'INFO:     10.0.0.7:50112 - "POST /v1/completions HTTP/1.1" 200 OK\n', "healthy"),
    ],
)
def test_a_server_whose_last_record_shows_requests_and_no_token_is_not_called_healthy(log: str, cause: str) -> None:
    assert diagnose({"container.log": "INFO:     Application startup complete.\n" + log}).cause == cause


def test_a_region_in_shared_memory_whose_pages_cannot_be_filled_lacks_room_there() -> None:
    log = '  File "/opt/vllm/v1/kv_offload/cpu/shared_offload_region.py", line 71, in __init__\nOSError: [Errno 14] Bad address\n'
    found = diagnose({"container.log": "Traceback (most recent call last):\n" + log})
    assert (found.cause, found.recommendations[0].remedy) == ("shm_too_small", "shm_size")


RAY_KILL = """ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.
Memory on the node (IP: 10.0.0.7, ID: 9c2f) where the task (actor ID: 1f0a, name=Worker.run, pid=4712, memory used=3.10GB) was running was 488.1GB / 512.0GB (0.953320), which exceeds the memory usage threshold of 0.95.
PID\tMEM(GB)\tCOMMAND
"""


@pytest.mark.parametrize(("largest", "first"), [("430.12", "restart"), ("3.40", "host_memory_use:lower")])
def test_one_of_equal_ray_workers_that_holds_most_of_it_is_named(largest: str, first: str) -> None:
    found = diagnose({"container.log": RAY_KILL + f"4711\t{largest}\tray::Worker.run\n4712\t3.10\tray::Worker.run\n88\t1.02\tpython serve.py\n"})
    assert (found.cause, remedies(found)[0]) == ("ray_memory_monitor", first)


@pytest.mark.parametrize(
    "line",
    [
        "ray.exceptions.LocalRayletDiedError: The task's local raylet died. Check raylet.out for more information.",
        "ray.exceptions.ActorUnavailableError: The actor 4a2 is unavailable: RpcError: Socket closed",
        "ray.exceptions.RayChannelTimeoutError: System error: Timed out waiting for object available to read. ObjectID: 41b2",
        "(raylet) agent_manager.cc:84: The raylet exited immediately because one Ray agent failed, agent_name = dashboard_agent.\n- The agent is killed by the OS (e.g., out of memory).",
        "Fatal error: The Python kernel is unresponsive.",
    ],
)
def test_what_only_tells_that_somebody_else_is_gone_is_no_cause_and_says_what_would_decide(line: str) -> None:
    found = diagnose({"container.log": line + "\n"})
    assert found.cause == "unknown"
    assert "evidence does not say" not in found.summary.en
    assert found.gaps


@pytest.mark.parametrize(
    ("asked", "first"),
    [("'node:10.2.0.9': 0.001, 'GPU': 1.0", ["network:fix", "ray_resources:fix"]), ("'accelerator_type:L4': 0.01, 'GPU': 1.0", ["ray_resources:fix"])],
)
def test_an_address_is_blamed_only_where_a_node_is_asked_for_by_its_address(asked: str, first: list[str]) -> None:
    log = f"(autoscaler +9s) Error: No available node types can fulfill resource request {{{asked}}}. Add suitable node types to this cluster to resolve this issue.\n"
    found = diagnose({"container.log": log})
    assert (found.cause, remedies(found)) == ("unschedulable", first)


@pytest.mark.parametrize(("left", "cause"), [("0; capacity: 134217728", "application_error"), ("1.5 GB; capacity: 120.2 GB", "unknown")])
def test_a_ray_session_on_a_full_disk_is_told_from_one_on_a_nearly_full_disk(left: str, cause: str) -> None:
    line = f"(raylet) file_system_monitor.cc:111: /tmp/ray/session_x is over 95% full, available space: {left}. Object creation will fail if spilling is required.\n"
    assert diagnose({"container.log": line}).cause == cause


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("subprocess.CalledProcessError: Command '['python3', '-m', 'torch.distributed.run', 'train.py']' died with <Signals.SIGKILL: 9>.", "unknown"),
        ("subprocess.CalledProcessError: Command 'vllm serve m' returned non-zero exit status 137.", "unknown"),
        ("subprocess.CalledProcessError: Command 'vllm serve m' returned non-zero exit status 1.", "application_error"),
        ("torch.multiprocessing.spawn.ProcessExitedException: process 3 terminated with signal SIGKILL", "unknown"),
        ("torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGSEGV", "segfault"),
        ("RuntimeError: DataLoader worker (pid(s) 612, 613) exited unexpectedly", "unknown"),
        ("[2026-02-03 11:00:02,112] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py'] exits with return code = -9", "unknown"),
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n=====\ntrain.py FAILED\n-----\n  exitcode  : -9 (pid: 4711)", "unknown"),
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n=====\ntrain.py FAILED\n-----\n  exitcode  : -11 (pid: 4711)", "segfault"),
        ("srun: error: gpu-17: task 3: Killed", "unknown"),
        ("srun: error: gpu-17: task 0: Out Of Memory", "container_memory_limit"),
    ],
)
def test_the_word_of_a_launcher_is_no_error_of_its_own(line: str, cause: str) -> None:
    found = diagnose({"container.log": line + "\n"})
    assert found.cause == cause
    assert "Nothing points to memory" not in found.summary.en


@pytest.mark.parametrize(
    ("frames", "cause", "certainty"),
    [("    torch.zeros(shape, dtype=dtype, pin_memory=pin_memory)\n", "node_out_of_memory", "likely"), ("", "gpu_fault", "possible")],
)
def test_a_call_that_the_system_refused_is_host_memory_only_where_it_was_being_pinned(frames: str, cause: str, certainty: str) -> None:
    log = f"Traceback (most recent call last):\n{frames}RuntimeError: CUDA error: OS call failed or operation not supported on this OS\n"
    found = diagnose({"container.log": log})
    assert (found.cause, found.certainty.value) == (cause, certainty)


@pytest.mark.parametrize(("total", "cause"), [("119.63", "gpu_oom"), ("139.80", "other_process_on_gpu")])
def test_what_the_host_uses_of_a_shared_memory_is_no_other_process_on_the_card(total: str, cause: str) -> None:
    log = f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 958.00 MiB. GPU 0 has a total capacity of {total} GiB of which 650.45 MiB is free. Including non-PyTorch memory, this process has 43.85 GiB memory in use. Of the allocated memory 41.46 GiB is allocated by PyTorch, and 2.07 GiB is reserved by PyTorch but unallocated.\n"
    assert diagnose({"container.log": log}).cause == cause


@pytest.mark.parametrize(("before", "advised"), [("", True), ("ERROR 01-14 09:00:44 [core.py:632] EngineCore failed to start.\n", False)])
def test_engine_that_failed_to_start_is_not_told_to_take_fewer_requests(before: str, advised: bool) -> None:
    found = diagnose({"container.log": before + "ERROR 01-14 09:00:44 [core.py:632] " + oom()})
    assert found.cause == "gpu_oom"
    assert ("limit_concurrency" in {advice.remedy for advice in found.recommendations}) is advised
