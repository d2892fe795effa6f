"""Which run is the incident, which line its root: order decides, not words."""

from io import BytesIO

import pytest

from bot.logs.events import events
from bot.logs.incidents import Incident, understand
from bot.model import Phase
from bot.playbooks import load

KNOWLEDGE = load()
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 136.00 MiB. GPU 0 has a total capacity of 22.36 GiB of which 120.88 MiB is free. "
    "Including non-PyTorch memory, this process has 22.24 GiB memory in use. Of the allocated memory 21.10 GiB is allocated by PyTorch, and 41.20 MiB is "
    "reserved by PyTorch but unallocated."
)
NO_BLOCKS = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
READY = "INFO:     Application startup complete."
START = "INFO 11-30 09:00:00 [api_server.py:1351] vLLM API server version 0.11.0"
DEAD = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."
SHUTDOWN = "(APIServer pid=1) INFO 11-30 09:12:00 [launcher.py:110] [shutdown] API server: shutdown triggered"


def incident(*lines: str) -> Incident:
    scan = KNOWLEDGE.scanner.scan(BytesIO("\n".join(lines).encode()))
    return understand(events(scan.hits, "container.log"), "container.log", scan)


def test_an_orderly_shutdown_that_prints_engine_dead_is_no_failure() -> None:
    found = incident(START, READY, SHUTDOWN, DEAD, "INFO:     Application shutdown complete.")
    assert found.root is None
    assert found.shutdown is not None


def test_a_failure_before_the_shutdown_stays_the_root() -> None:
    found = incident(START, READY, "  File a.py, line 3, in execute_model", OOM, DEAD, SHUTDOWN)
    assert found.root is not None
    assert found.root.id == "torch.oom"
    assert found.phase is Phase.SERVING


def test_the_last_of_several_attempts_is_the_incident() -> None:
    found = incident(
        START, NO_BLOCKS, "RuntimeError: Engine core initialization failed. See root cause above.", START, "OSError: [Errno 98] Address already in use"
    )
    assert found.attempts == 2
    assert found.root is not None
    assert found.root.message.kind == "port_in_use"
    assert [event.message.kind for event in found.earlier] == ["no_cache_blocks"]


def test_a_failed_attempt_before_a_healthy_one_is_history() -> None:
    found = incident(START, NO_BLOCKS, START, READY)
    assert found.root is None
    assert found.ready is not None


def test_an_engine_of_the_same_name_and_another_number_is_another_attempt() -> None:
    found = incident(
        f"(EngineCore_DP0 pid=22384) ERROR 09-14 12:11:43 [core.py:708] {NO_BLOCKS}",
        "(Worker pid=22632) ERROR 09-14 12:15:42 [m.py:671] RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please",
        "(EngineCore_DP0 pid=22614) ERROR 09-14 12:15:42 [core.py:708] EngineCore failed to start.",
    )
    assert found.root is not None
    assert found.root.message.kind == "sampler_warmup_oom"


@pytest.mark.parametrize("follower", [DEAD, "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)", "RuntimeError: cancelled"])
def test_followers_of_other_ranks_are_never_the_root(follower: str) -> None:
    found = incident(
        START,
        f"(Worker_TP1 pid=12) ERROR 11-30 09:01:00 [m.py:1] {follower}",
        f"(Worker_TP0 pid=11) ERROR 11-30 09:01:00 [m.py:1] {OOM}",
        f"(Worker_TP2 pid=13) ERROR 11-30 09:01:01 [m.py:1] {follower}",
    )
    assert found.root is not None
    assert (found.root.id, found.root.prefix.rank) == ("torch.oom", 0)


def test_the_first_failing_rank_is_named() -> None:
    found = incident(START, f"(Worker_TP3 pid=12) ERROR 11-30 09:01:00 [m.py:1] {OOM}", f"(Worker_TP0 pid=11) ERROR 11-30 09:01:02 [m.py:1] {OOM}")
    assert found.root is not None
    assert found.root.prefix.rank == 3


@pytest.mark.parametrize(
    ("frames", "phase", "purpose"),
    [
        (["line 3, in load_model", "line 81, in create_weights"], Phase.WEIGHTS, "weights_creation"),
        (["line 3, in load_model", "line 9, in process_weights_after_loading"], Phase.WEIGHTS, "repacking"),
        (["line 3, in determine_available_memory", "line 3, in profile_run", "line 9, in execute_model"], Phase.PROFILING, ""),
        (["line 3, in profile_run", "line 9, in get_multimodal_embeddings"], Phase.PROFILING, "multimodal_encoder"),
        (["line 3, in profile_run", "line 9, in _dummy_sampler_run"], Phase.WARMUP, "sampler"),
        (["line 3, in compile_or_warm_up_model", "line 9, in capture_model", "line 9, in _dummy_run"], Phase.GRAPH_CAPTURE, "graph_capture"),
        (["line 3, in initialize_from_config", "line 9, in _allocate_kv_cache_tensors"], Phase.CACHE_ALLOCATION, "cache"),
        (["line 3, in execute_model", "line 9, in _get_prompt_logprobs_dict"], Phase.SERVING, "prompt_logprobs"),
        (["line 3, in wake_up"], Phase.SERVING, "wake_up"),
    ],
)
def test_the_stack_says_where_it_failed_and_for_what(frames: list[str], phase: Phase, purpose: str) -> None:
    found = incident(START, "Traceback (most recent call last):", *(f'  File "/opt/vllm/x.py", {frame}' for frame in frames), OOM)
    assert (found.phase, found.purpose, found.basis) == (phase, purpose, "stack")


def test_a_stack_of_another_process_says_nothing_of_this_one() -> None:
    found = incident(
        START,
        '(Worker_TP1 pid=12) ERROR 11-30 09:01:00 [m.py:1]   File "x.py", line 3, in load_model',
        "(Worker_TP0 pid=11) INFO 11-30 09:01:00 [m.py:1] Capturing CUDA graphs (decode, FULL):   0%",
        f"(Worker_TP0 pid=11) ERROR 11-30 09:01:00 [m.py:1] {OOM}",
    )
    assert (found.phase, found.basis) == (Phase.GRAPH_CAPTURE, "marker")


def test_two_servers_in_one_file_are_kept_apart() -> None:
    found = incident(f"chat  | {START}", f"embed  | {START}", f"chat  | {READY}", f"embed  | {NO_BLOCKS}", "embed exited with code 1")
    assert found.root is not None
    assert found.root.prefix.service == "embed"
    assert "chat" in found.neighbours


def test_an_error_that_the_start_survived_is_no_root() -> None:
    found = incident(START, "ImportError: libcudart.so.12: cannot open shared object file", READY)
    assert found.root is None


def test_a_silent_death_shows_only_its_wrapper() -> None:
    found = incident(
        START, "INFO 11-30 09:00:10 [g.py:1] Starting to load model /models/m...", "RuntimeError: Engine core initialization failed. See root cause above."
    )
    assert found.root is None
    assert found.wrapped is not None
    assert found.reached is Phase.WEIGHTS


BAD_REQUEST = "ERROR 11-30 09:{m:02d}:00 [serving_engine.py:575] ValueError: This model's maximum context length is 8192 tokens. However, you requested 9100"


@pytest.mark.parametrize(
    "behind",
    [
        [],
        ["(EngineCore pid=7) ERROR 11-30 10:00:09 [core.py:1] Traceback (most recent call last):"],
        ["(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"],
    ],
)
def test_an_exception_that_was_announced_and_cut_off_is_no_silent_death(behind: list[str]) -> None:
    found = incident(START, "(EngineCore pid=7) ERROR 11-30 10:00:09 [core.py:1] EngineCore failed to start.", *behind)
    assert found.root is None
    assert found.announced is not None


def test_an_engine_that_only_passes_on_the_end_of_its_worker_has_announced_nothing() -> None:
    words = "(EngineCore pid=7) ERROR 11-30 10:00:09 [core.py:1] "
    found = incident(START, words + "EngineCore failed to start.", words + "RuntimeError: cancelled")
    assert found.wrapped is not None
    assert found.announced is None


def test_errors_of_requests_do_not_split_the_run_of_a_server_that_serves_on() -> None:
    found = incident(
        START,
        "INFO 11-30 09:00:30 [gpu_worker.py:298] Available KV cache memory: 52.10 GiB",
        READY,
        *(BAD_REQUEST.format(m=m) for m in range(5, 40)),
        OOM,
        DEAD,
    )
    assert found.attempts == 1
    assert found.last("vllm.ledger.available") is not None
    assert found.root is not None
    assert found.root.id == "torch.oom"


def test_a_start_behind_serving_is_another_run_even_by_another_process() -> None:
    found = incident(
        READY,
        "INFO 11-30 09:00:10 [loggers.py:127] Engine 000: Avg prompt throughput: 1.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%",
        START,
        NO_BLOCKS,
    )
    assert found.attempts == 2
    assert found.root is not None
    assert found.ready is None


def test_what_an_api_server_prints_beside_a_dead_engine_is_no_sign_of_life() -> None:
    stats = "INFO 11-30 09:10:00 [loggers.py:127] Engine 000: Avg prompt throughput: 1.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%"
    found = incident(
        START,
        READY,
        "ERROR 11-30 09:10:00 [core.py:702] EngineCore encountered a fatal error.",
        stats,
        f"ERROR 11-30 09:10:00 [core.py:702] {OOM}",
        stats,
        DEAD,
    )
    assert found.root is not None
    assert found.phase is Phase.SERVING


def test_the_stack_of_a_follower_says_nothing_of_a_root_without_a_name() -> None:
    follower = "(Worker_TP1 pid=9001) ERROR 11-30 09:10:00 [multiproc_executor.py:671] "
    found = incident(
        START,
        READY,
        DEAD,
        f'{follower}  File "/opt/vllm/distributed/device_communicators/shm_broadcast.py", line 511, in acquire_read',
        OOM,
        f"{follower}RuntimeError: cancelled",
    )
    assert found.frames == ()
    assert found.phase is Phase.SERVING


def test_a_server_that_served_and_was_started_again_has_left_the_card() -> None:
    found = incident(
        START,
        READY,
        START,
        "ValueError: Free memory on device cuda:0 (0.41/79.18 GiB) on startup is less than desired GPU memory utilization (0.85, 67.3 GiB).",
    )
    assert found.attempts == 2
    assert found.earlier_alive is None


ARGS = "INFO 11-30 09:00:01 [utils.py:233] non-default args: {'model': '/models/m', 'gpu_memory_utilization': 0.6}"
LOADING = "INFO 11-30 09:00:20 [gpu_model_runner.py:2392] Starting to load model /models/m..."


def test_a_crash_loop_that_is_cut_while_it_loads_again_is_known_by_its_last_round() -> None:
    found = incident(START, ARGS, LOADING, NO_BLOCKS, START, ARGS, LOADING, NO_BLOCKS, START, ARGS, LOADING)
    assert found.attempts == 3
    assert found.root is not None
    assert found.root.message.kind == "no_cache_blocks"


def test_a_new_try_with_other_arguments_that_still_loads_is_not_judged_by_the_old_one() -> None:
    found = incident(START, ARGS, LOADING, NO_BLOCKS, START, ARGS.replace("0.6", "0.9"), LOADING)
    assert found.root is None


def test_a_round_that_came_beyond_the_old_failure_is_not_judged_by_it() -> None:
    refused = "ValueError: Free memory on device (13.58/15.99 GiB) on startup is less than desired GPU memory utilization (0.85, 13.59 GiB)."
    found = incident(
        START, ARGS, refused, START, ARGS, LOADING, "INFO 11-30 09:01:00 [gpu_model_runner.py:1] Model loading took 8.1000 GiB and 9.100000 seconds"
    )
    assert found.root is None


STATS = "INFO 11-30 09:03:00 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 2.0%"


def test_a_failed_call_to_an_engine_that_lives_on_is_the_incident() -> None:
    call = "ERROR 11-30 09:02:00 [core.py:900] Invocation of add_lora method failed"
    found = incident(START, READY, STATS, call, "  File a.py, line 3, in _load_adapter", OOM, STATS, STATS)
    assert found.root is not None
    assert found.purpose == "lora"


def test_an_error_on_stderr_takes_its_purpose_from_the_call_that_failed_behind_it() -> None:
    raw, call = "CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:139", "ERROR 11-30 09:02:00 [core.py:900] Invocation of wake_up method failed"
    assert incident(START, READY, STATS, raw, call, STATS).purpose == "wake_up"


def test_a_line_that_sums_an_error_up_has_its_stack_behind_it() -> None:
    summary = "ERROR 11-30 09:02:00 [gpu_model_runner.py:1] Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free memory"
    found = incident(START, LOADING, summary, '  File "/opt/vllm/v1/spec_decode/eagle.py", line 300, in load_model', OOM)
    assert "frame.draft_model" in {frame.id for frame in found.frames}


def test_an_error_line_of_an_old_engine_has_its_stack_behind_it() -> None:
    line = "ERROR 11-30 09:02:00 engine.py:141] OutOfMemoryError('" + OOM.split(": ", 1)[1] + "')"
    found = incident(START, READY, line, '  File "/opt/vllm/worker/model_runner.py", line 1, in execute_model', "  File a.py, line 5, in _process_image_input")
    assert found.purpose == "multimodal_encoder"


def test_a_stop_behind_a_lost_engine_is_no_orderly_end() -> None:
    lost = "ERROR 10-02 11:20:31 client.py:250] TimeoutError('No heartbeat received from MQLLMEngine')"
    found = incident(START, READY, lost, "INFO 10-02 11:20:32 launcher.py:57] Shutting down FastAPI HTTP server.")
    assert found.wrapped is not None
    assert found.root is None


def test_a_start_behind_an_asked_stop_is_a_new_attempt() -> None:
    found = incident(START, LOADING, "KeyboardInterrupt: terminated", START, READY)
    assert found.attempts == 2
    assert found.shutdown is None
    assert found.ready is not None


def test_refused_options_behind_a_failure_while_loading_belong_to_a_new_attempt() -> None:
    found = incident(START, LOADING, "  File a.py, line 3, in create_weights", OOM, "vllm serve: error: unrecognized arguments: --swap-spice 16")
    assert found.root is not None
    assert found.root.message.kind == "bad_arguments"


def test_a_follower_without_the_servers_prefix_does_not_hide_its_error() -> None:
    found = incident(
        f"1|vllm-api | {READY}",
        f"1|vllm-api | (EngineCore pid=3) {OOM}",
        "terminate called after throwing an instance of 'c10::Error'",
        "Aborted (core dumped)",
    )
    assert found.root is not None
    assert found.root.id == "torch.oom"


def test_words_of_an_end_that_the_server_went_on_serving_behind_are_somebodys_text() -> None:
    asked = "(APIServer pid=1) ERROR 11-30 09:02:00 [serving.py:1] The model `EngineCore encountered a fatal error.` does not exist."
    load = "(APIServer pid=1) " + STATS.replace("09:03:00", "09:07:00")
    assert incident(START, READY, asked, load).wrapped is None


def test_one_more_report_of_load_shows_no_life_of_an_engine_that_has_died() -> None:
    died = "(EngineCore pid=2) ERROR 11-30 09:02:50 [core.py:1] EngineCore encountered a fatal error."
    assert incident(START, READY, died, "(APIServer pid=1) " + STATS).wrapped is not None


def test_refused_requests_behind_an_end_prove_it() -> None:
    died, load = (
        "(EngineCore pid=2) ERROR 11-30 09:02:50 [core.py:1] EngineCore encountered a fatal error.",
        "(APIServer pid=1) " + STATS.replace("09:03:00", "09:07:00"),
    )
    refused = '(APIServer pid=1) INFO:     10.0.0.1:51000 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error'
    first = "(APIServer pid=1) " + STATS
    assert incident(START, READY, first, died, refused, load).wrapped is not None


@pytest.mark.parametrize(
    ("behind", "phase"),
    [
        ("Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:31<00:30,  7.50s/it]", Phase.WEIGHTS),
        ("INFO 02-11 04:25:22 [monitor.py:34] torch.compile takes 40.21 s in total", Phase.PROFILING),
        ("Capturing CUDA graph shapes:  40%|####      | 14/35 [00:11<00:16,  1.30it/s]", Phase.GRAPH_CAPTURE),
    ],
)
def test_a_word_of_progress_on_the_other_stream_right_behind_an_error_tells_its_stage(behind: str, phase: Phase) -> None:
    found = incident("INFO 02-11 04:25:02 [gpu_model_runner.py:1] Starting to load model /models/m...", OOM, behind)
    assert (found.phase, found.basis) == (phase, "marker" if phase is Phase.WEIGHTS else "behind")
    assert incident(OOM, behind).phase is phase


def test_progress_of_another_process_behind_an_error_says_nothing_of_its_stage() -> None:
    found = incident(
        "(Worker_TP0 pid=11) ERROR 02-11 04:25:02 [worker.py:1] " + OOM,
        "(Worker_TP1 pid=12) INFO 02-11 04:25:22 [monitor.py:34] torch.compile takes 40.21 s in total",
    )
    assert found.phase is None


def test_progress_long_behind_an_error_says_nothing_of_its_stage() -> None:
    assert incident(OOM, *["a line"] * 60, "INFO 02-11 04:25:22 [monitor.py:34] torch.compile takes 40.21 s in total").phase is None


@pytest.mark.parametrize(
    ("behind", "reached"),
    [
        ((), Phase.CACHE_SIZING),
        (("Capturing CUDA graphs (PIECEWISE):  20%|██        | 10/51 [00:01<00:05,  7.70it/s]",), Phase.GRAPH_CAPTURE),
        (("INFO 10-02 10:00:49 [model_runner.py:1066] Graph capturing finished in 9 secs, took 0.31 GiB",), Phase.WARMUP),
    ],
)
def test_graphs_that_were_captured_for_a_trial_before_the_cache_was_sized_are_no_later_stage(behind: tuple[str, ...], reached: Phase) -> None:
    trial = "INFO 10-02 10:00:33 [model_runner.py:1066] Graph capturing finished in 10 secs, took 0.28 GiB"
    sized = "INFO 10-02 10:00:34 [gpu_worker.py:640] Available KV cache memory: 8.67 GiB"
    found = incident(*(f"(EngineCore pid=7) {line}" for line in (trial, sized, *behind)))
    assert found.reached is reached


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        ("(EngineCore_DP0 pid=7) [Stage-0]", "(EngineCore_DP0 pid=8) [Stage-1]"),
        ("(StageEngineCoreProc pid=7)", "(StageEngineCoreProc pid=8)"),
        ("(Worker pid=7) [Stage-0]", "[Stage-1]"),
    ],
)
def test_another_stage_of_one_server_is_no_earlier_engine_and_its_numbers_are_not_the_failing_ones(mine: str, other: str) -> None:
    loaded = f"{other} INFO 03-12 08:22:28 [diffusion_model_runner.py:133] Model loading took 26.4738 GiB and 13.178609 seconds"
    found = incident(loaded, f"{mine} ERROR 03-12 08:22:30 [core.py:1] {OOM}", f"{other} INFO 03-12 08:22:31 [gpu_worker.py:640] Available KV cache memory: 8.67 GiB")
    assert [event.id for event in found.other_stages] == ["vllm.ledger.weights", "vllm.ledger.available"]
    assert not {event.id for event in found.own} & {"vllm.ledger.weights", "vllm.ledger.available"}
    assert found.attempts == 1


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        ("Capturing CUDA graphs (decode, FULL):  40%|████      | 14/35 [00:03<00:04,  4.51it/s]" + OOM, Phase.GRAPH_CAPTURE),
        (OOM + " Capturing CUDA graphs (decode, FULL):  40%|████      | 14/35", None),
    ],
)
def test_a_bar_that_never_ended_its_line_stands_before_the_error_behind_it(line: str, phase: Phase | None) -> None:
    assert incident(START, line).phase is phase
