"""Kinds that hardly any report shows: early releases, old kubelets, boards, programs that count the page cache as used, helpers that outlive the work."""

import pytest

from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import container, event, pod, status, terminated
from tests.diagnosis.test_fitting_advice import remedies
from tests.diagnosis.test_pastes import frame, oom

ENGINE = "INFO 12-15 10:41:09 llm_engine.py:73] Initializing an LLM engine {version}with config: model='/models/m', dtype=torch.float16, max_seq_len=16384, seed=0)\n"
BLOCKS = "INFO 12-15 10:41:41 llm_engine.py:223] # GPU blocks: {blocks}, # CPU blocks: 1310\nINFO:     Application startup complete.\n"


@pytest.mark.parametrize(
    ("version", "blocks", "cause"), [("", 112, "context_exceeds_kv_cache"), ("", 2112, "healthy"), ("(v0.6.6) ", 112, "healthy")], ids=["short", "enough", "a release that looks at it"]
)
def test_an_early_release_that_starts_with_a_cache_below_one_request_is_not_called_healthy(version: str, blocks: int, cause: str) -> None:
    found = diagnose({"container.log": ENGINE.format(version=version) + BLOCKS.format(blocks=blocks)})
    assert found.cause == cause
    if cause != "healthy":
        assert remedies(found)[0] == "max_model_len:lower"


@pytest.mark.parametrize(
    "words",
    [
        "Killing container with id docker://server:Container failed liveness probe.. Container will be killed and recreated.",
        'Killing container with id docker://2f1c:pod "chat-0_llm(3f)" container "server" is unhealthy, it will be killed and re-created.',
    ],
)
def test_a_liveness_kill_in_the_words_of_old_kubelets_is_one(words: str) -> None:
    ended = pod([container(livenessProbe={"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10})], [status(last=terminated(137))])
    found = diagnose({"pod.json": ended, "events.json": {"items": [event("Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 500"), event("Killing", words)]}})
    assert found.cause == "probe_kill"


def free(cache: int, available: int) -> str:
    return f"$ free -m\n               total        used        free      shared  buff/cache   available\nMem:           32768        208       10240           1       {cache}       {available}\n"


@pytest.mark.parametrize(
    ("cache", "available", "cause"), [(21504, 31744, "application_error"), (500, 10740, "node_out_of_memory")], ids=["page cache", "really in use"]
)
def test_a_refusal_that_counts_page_cache_as_used_asks_for_no_bigger_machine(cache: int, available: int, cause: str) -> None:
    refused = 'level=INFO source=sched.go:561 msg="Load failed" error="model requires more system memory (18.3 GiB) than is available (10.6 GiB)"\n'
    found = diagnose({"container.log": refused, "node_readings.txt": free(cache, available)})
    assert (found.cause, "bigger_node" in remedies(found)) == (cause, cause == "node_out_of_memory")


@pytest.mark.parametrize(
    ("code", "ended", "cause"),
    [(143, "2026-01-14T09:31:09Z", "normal_termination"), (143, "2026-01-14T09:20:00Z", "unknown")],
    ids=["after the work", "before the work was done"],
)
def test_a_helper_that_is_stopped_after_the_work_is_done_has_not_failed(code: int, ended: str, cause: str) -> None:
    work = status("migrate", state={"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": "2026-01-14T09:00:00Z", "finishedAt": "2026-01-14T09:31:07Z"}})
    proxy = status("proxy", state={"terminated": {"exitCode": code, "reason": "Error", "startedAt": "2026-01-14T09:00:00Z", "finishedAt": ended}})
    found = diagnose({"pod.json": pod([container("migrate", "example.com/migrate:1"), container("proxy", "example.com/sql-proxy:1")], [work, proxy], status={"phase": "Failed"})})
    assert found.cause == cause


def test_a_compiler_without_host_memory_and_a_shell_that_saw_a_kill_speak_of_host_memory() -> None:
    compiler = diagnose({"container.log": "LLVM ERROR: out of memory\nFatal Python error: Aborted\n"})
    assert (compiler.cause, remedies(compiler)[0]) == ("abort", "host_memory_use:lower")
    for line in ("bash: line 1:    31 Killed                  python3 serve.py /models/m", "zsh: killed     python3 serve.py"):
        assert diagnose({"container.log": line + "\n"}).cause == "node_out_of_memory"


def test_an_object_store_on_disk_is_told_as_slow_and_not_as_a_failure() -> None:
    warned = "2025-10-06 17:20:31,118 WARNING services.py:2155 -- WARNING: The object store is using /tmp instead of /dev/shm because /dev/shm has only 5368709120 bytes available. This will harm performance!\n"
    found = diagnose({"container.log": warned + "2025-10-06 17:20:33,004 INFO worker.py:1951 -- Started a local Ray instance.\n"})
    assert (found.cause, remedies(found)) == ("shm_too_small", ["shm_size:raise", "none"])


NEEDED = (
    "(EngineCore pid=440) INFO 08-02 12:33:18 [gpu_worker.py:563] Available KV cache memory: {left} GiB\n"
    "(EngineCore pid=440) ERROR 08-02 12:33:18 [core.py:1291] ValueError: To serve at least one request with the model's max seq len (250000), 3.19 GiB KV cache is needed, "
    "which is larger than the available KV cache memory ({left} GiB). Based on the available memory, the estimated maximum model length is {length}. "
    "Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n"
)


@pytest.mark.parametrize(("left", "length", "drafts", "first"), [("0.01", 256, True, "speculative_decoding:disable"), ("0.01", 256, False, "gpu_memory_utilization:raise"), ("2.90", 227000, True, "max_model_len:lower")])
def test_a_length_that_nobody_could_serve_with_is_not_advised_first(left: str, length: int, drafts: bool, first: str) -> None:
    draft = """ --speculative-config '{"method":"mtp","num_speculative_tokens":3}'""" if drafts else ""
    found = diagnose({"container.log": NEEDED.format(left=left, length=length), "args.txt": "vllm serve /models/m --max-model-len 250000" + draft})
    assert (found.cause, remedies(found)[0]) == ("context_exceeds_kv_cache", first)


@pytest.mark.parametrize(("still", "first"), [(("4.11", "11.57", "25.02"), "vllm_version:change"), (("4.11", "4.20"), "free_gpu_process")])
def test_a_sleeping_engine_that_keeps_more_each_time_is_nobody_elses_process(still: tuple[str, ...], first: str) -> None:
    slept = "".join(f"(Engine pid=88213) INFO 05-31 04:10:1{n} [gpu_worker.py:158] Sleep mode freed 43.82 GiB memory, {size} GiB memory is still in use.\n" for n, size in enumerate(still))
    shortage = "(Policy pid=88540) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.64 GiB. GPU 3 has a total capacity of 79.11 GiB of which 2.90 GiB is free. Including non-PyTorch memory, this process has 51.08 GiB memory in use. Of the allocated memory 46.70 GiB is allocated by PyTorch, and 1.21 GiB is reserved by PyTorch but unallocated.\n"
    found = diagnose({"container.log": slept + shortage})
    assert (found.cause, remedies(found)[0]) == ("other_process_on_gpu", first)


def test_engines_of_other_stages_are_not_to_be_ended() -> None:
    summary = "(APIServer pid=1) INFO:vllm_omni.entrypoints.async_omni:[Summary] {'e2e_requests': 1, 'stages': []}\n"
    shortage = "(EngineCore_DP0 pid=56874) ERROR 12-17 03:40:12 [core.py:844] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB. GPU 0 has a total capacity of 79.25 GiB of which 705.44 MiB is free. Process 55120 has 50.11 GiB memory in use. Including non-PyTorch memory, this process has 19.06 GiB memory in use. Of the allocated memory 17.92 GiB is allocated by PyTorch, and 266.10 MiB is reserved by PyTorch but unallocated.\n"
    assert "free_gpu_process" not in remedies(diagnose({"container.log": summary + shortage}))
    assert "free_gpu_process" in remedies(diagnose({"container.log": shortage}))


RAY = """======== Autoscaler status: 2026-01-14 01:17:18.277326 ========
Node status
---------------------------------------------------------------
Active:
 1 ray.head.default
{more}Pending:
 (no pending nodes)
Recent failures:
 (no failures)

Resources
---------------------------------------------------------------
Usage:
 0.0/2.0 CPU
 0B/2.33GiB memory
 1.99KiB/1013.52MiB object_store_memory

Demands:
 {{'CPU': 2.0}} * 1 (SPREAD): 1+ pending placement groups
"""


@pytest.mark.parametrize(("more", "cause"), [(" 1 ray.worker.default\n", "unschedulable"), ("", "unknown")], ids=["two nodes", "one node"])
def test_a_bundle_that_no_node_alone_has_waits_for_ever(more: str, cause: str) -> None:
    assert diagnose({"ray_status.txt": RAY.format(more=more)}).cause == cause


def test_a_warning_that_a_program_caught_is_not_what_it_died_of() -> None:
    caught = "Warning: caught exception 'Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU', memory monitor disabled\n"
    assert diagnose({"container.log": caught + "Loading weights from /models/m.ckpt\nKilled\n"}).cause == "node_out_of_memory"
    assert diagnose({"container.log": "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU\n"}).cause == "gpu_fault"


def test_a_workflows_own_container_is_the_helper_and_not_the_work() -> None:
    work = status("main", state=terminated(137, "OOMKilled"))
    specs = [container("wait", "quay.io/argoproj/argoexec:v3.3.9", limit=None, request=None), container("main", "example.com/build:1", limit="512Mi")]
    found = diagnose({"pod.json": pod(specs, [status("wait"), work])})
    assert (found.cause, remedies(found)[0]) == ("container_memory_limit", "memory_limit:raise")


@pytest.mark.parametrize("place", ["text_generation_server/models/custom_modeling/flash_mixtral_modeling.py", "sglang/srt/models/llama.py", "lmdeploy/pytorch/models/llama.py"])
def test_a_model_that_is_being_built_by_any_server_is_too_large(place: str) -> None:
    assert diagnose({"container.log": frame(place, "__init__") + oom()}).cause == "weights_too_large"


def test_log_probabilities_of_the_prompt_are_known_in_the_newest_runner_too() -> None:
    frames = frame("vllm/v1/worker/gpu/sample/prompt_logprob.py", "compute_prompt_logprobs_with_chunking") + frame("vllm/distributed/device_communicators/cuda_communicator.py", "all_gather")
    found = diagnose({"container.log": frames + oom()})
    assert (found.cause, remedies(found)[0]) == ("runtime_burst", "logprobs:limit")


def test_an_older_engine_that_captures_within_the_call_that_makes_the_cache_ran_out_in_the_capture() -> None:
    blocks = "INFO 06-25 02:14:36 distributed_gpu_executor.py:56] # GPU blocks: 40211, # CPU blocks: 13107\n"
    capture = "(VllmWorkerProcess pid=2207) INFO 06-25 02:14:41 model_runner.py:889] Capturing the model for CUDA graphs. This may lead to unexpected consequences if the model is not static.\n"
    failed = "(VllmWorkerProcess pid=2207) ERROR 06-25 02:15:03 multiproc_worker_utils.py:226] Exception in worker VllmWorkerProcess while processing method initialize_cache: " + oom().splitlines()[-1].partition(": ")[2] + "\n"
    assert diagnose({"container.log": blocks + capture + failed}).cause == "cuda_graph_capture"
    assert diagnose({"container.log": blocks + failed}).cause == "gpu_oom"


def test_the_samplers_dummy_run_is_known_by_the_call_where_its_own_frame_was_cut() -> None:
    called = frame("vllm/v1/worker/gpu_model_runner.py", "profile_run") + "    sampler_output = self._dummy_sampler_run(hidden_states)\n" + frame("vllm/v1/sample/ops/topk_topp_sampler.py", "apply_top_k_top_p")
    found = diagnose({"container.log": called + oom()})
    assert (found.cause, remedies(found)[0]) == ("sampler_warmup", "max_num_seqs:lower")
