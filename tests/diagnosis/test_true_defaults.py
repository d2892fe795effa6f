"""Numbers start from what is in force: the defaults of the release and the card, what the failed step computed, and no step where the unit is GiB."""

import pytest

from bot.model import Diagnosis
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.test_fitting_advice import remedies
from tests.diagnosis.test_other_servers import advised
from tests.diagnosis.test_pastes import frame, oom

H100 = "79.11 GiB"
WARM_UP = frame("vllm/v1/worker/gpu_worker.py", "compile_or_warm_up_model") + frame("vllm/v1/worker/gpu_model_runner.py", "_dummy_sampler_run")
FATAL = "(EngineCore pid=41) ERROR 03-01 10:00:02 [core.py:1110] EngineCore encountered a fatal error.\n"
STEP = frame("vllm/v1/worker/gpu_model_runner.py", "execute_model")
DUMP = "(EngineCore pid=41) ERROR 03-01 10:00:01 [dump_input.py:79] Dumping scheduler output for model execution: SchedulerOutput(scheduled_new_reqs=[], num_scheduled_tokens={{cmpl-1: {0}}}, total_num_scheduled_tokens={0}, scheduled_spec_decode_tokens={{}})\n"
DRAFT = "(EngineCore pid=41) INFO 03-01 10:00:01 [gpu_model_runner.py:5210] Loading drafter model...\n"
LOADING = frame("vllm/model_executor/layers/linear.py", "create_weights", "torch.empty(")


@pytest.mark.parametrize(("total", "own", "to"), [(H100, "78.99 GiB", 512), ("23.64 GiB", "23.52 GiB", 128)])
def test_sequences_are_halved_from_what_v1_takes_on_such_a_card_whatever_the_release(total: str, own: str, to: int) -> None:
    found = diagnose({"container.log": WARM_UP + oom(wanted="970.00 MiB", total=total, own=own, held=own)})
    assert advised(found, "max_num_seqs:lower").to_value == to


@pytest.mark.parametrize(("scheduled", "to"), [(6000, 2816), (64, 1024)])
def test_a_batch_is_halved_from_what_the_failed_step_computed_where_that_is_more_than_the_default(scheduled: int, to: int) -> None:
    found = diagnose({"container.log": DUMP.format(scheduled) + FATAL + STEP + oom()})
    advice = advised(found, "max_num_batched_tokens:lower")
    assert advice.to_value == to
    assert ("6000" in advice.why.en) == (scheduled == 6000)
    assert ("6000" in advice.why.zh) == (scheduled == 6000)


@pytest.mark.parametrize(("running", "to"), [(700, 350), (12, 128)])
def test_sequences_are_halved_from_those_that_ran_at_once_where_they_are_more_than_the_default(running: int, to: int) -> None:
    stats = (
        f"(EngineCore pid=41) ERROR 03-01 10:00:01 [dump_input.py:81] Dumping scheduler stats: SchedulerStats(num_running_reqs={running}, num_waiting_reqs=0)\n"
    )
    found = diagnose({"container.log": stats + FATAL + STEP + oom()})
    assert advised(found, "max_num_seqs:lower").to_value == to


@pytest.mark.parametrize(
    "words", ["vllm.engine.async_llm_engine.AsyncEngineDeadError: Background loop has errored already.\n", "RuntimeError: Background loop is stopped.\n"]
)
def test_the_first_engine_known_by_its_end_is_given_no_batch_that_it_would_refuse(words: str) -> None:
    """Without chunked prefill it does not start with a batch below max_model_len."""
    step = frame("vllm/model_executor/models/llama.py", "forward")
    found = diagnose({"container.log": step + oom() + "\n" + words, "args.txt": "vllm serve /models/m --max-model-len 16384\n"})
    assert found.cause == "runtime_burst"
    assert "max_num_batched_tokens:lower" not in remedies(found)


def test_weights_are_moved_to_the_host_by_no_step_of_a_share() -> None:
    log = "[2026-03-01 10:00:00 TP0] Load weight begin. avail mem=78.58 GB\n" + frame("sglang/srt/layers/quantization/fp8.py", "process_weights_after_loading")
    found = diagnose(
        {
            "container.log": log + oom(wanted="2.10 GiB", total=H100, own="78.90 GiB", held="77.80 GiB"),
            "args.txt": "python -m sglang.launch_server --model-path /models/m\n",
        }
    )
    assert found.cause == "weights_too_large"
    assert advised(found, "cpu_offload:raise").to_value is None


def drafted(before: str, message: str) -> Diagnosis:
    return diagnose({"container.log": before + LOADING + message})


@pytest.mark.parametrize("message", [oom(), "torch.OutOfMemoryError: CUDA out of memory.\n"])
def test_where_the_draft_is_what_does_not_fit_it_is_the_first_to_go(message: str) -> None:
    assert remedies(drafted(DRAFT, message))[0] == "speculative_decoding:disable"
    assert "speculative_decoding:disable" not in remedies(drafted("", message))


@pytest.mark.parametrize(("stages", "named"), [("4", True), ("1", False)])
def test_stages_of_unequal_size_are_named_where_there_are_stages(stages: str, named: bool) -> None:
    found = diagnose({"container.log": LOADING + oom(), "args.txt": f"vllm serve /models/m --pipeline-parallel-size {stages}\n"})
    assert ("pipeline_partition:change" in remedies(found)) == named


def useless(found: Diagnosis) -> set[str]:
    return {f"{item.remedy}:{item.direction}" for item in found.will_not_help}


@pytest.mark.parametrize(("card", "said"), [("NVIDIA GB10", False), ("NVIDIA L4", True)])
def test_a_share_of_the_memory_of_the_host_is_not_called_useless_where_the_log_just_stops(card: str, said: bool) -> None:
    log = "(EngineCore pid=41) INFO 03-01 10:00:01 [gpu_model_runner.py:6271] Encoder cache will be initialized with a budget of 8192 tokens, and profiled with 4 image items of the maximum feature size.\n"
    found = diagnose({"container.log": log, "nvidia-smi.txt": f"GPU 0: {card} (UUID: GPU-f8f8f0ba-6911-0639-5c79-54e69b405e4d)\n"})
    assert found.cause == "unknown"
    assert ("gpu_memory_utilization:lower" in useless(found)) == said


@pytest.mark.parametrize(
    ("printed", "said"),
    [("(EngineCore pid=41) INFO 03-01 10:00:01 [gpu_model_runner.py:6936] Estimated CUDA graph memory: 0.31 GiB total\n", True), ("", False)],
)
def test_an_estimate_is_argued_with_only_where_there_is_one(printed: str, said: bool) -> None:
    found = diagnose({"container.log": printed + frame("vllm/v1/worker/gpu_model_runner.py", "capture_model") + oom()})
    assert found.cause == "cuda_graph_capture"
    assert ("cudagraph_estimate:disable" in useless(found)) == said


@pytest.mark.parametrize(("budget", "first"), [(153600, "multimodal_limits:lower"), (8192, "max_num_batched_tokens:lower")])
def test_a_peak_that_one_video_decides_is_lowered_by_its_limit_and_not_by_the_batch(budget: int, first: str) -> None:
    log = (
        "(EngineCore pid=41) INFO 03-01 10:00:01 [gpu_model_runner.py:2653] Model loading took 16.7000 GiB and 6.4 seconds\n"
        f"(EngineCore pid=41) INFO 03-01 10:00:01 [gpu_model_runner.py:3344] Encoder cache will be initialized with a budget of {budget} tokens, and profiled with 1 video items of the maximum feature size.\n"
        "(EngineCore pid=41) INFO 03-01 10:00:09 [gpu_worker.py:298] Available KV cache memory: -1.60 GiB\n"
        "(EngineCore pid=41) ERROR 03-01 10:00:09 [core.py:708] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n"
    )
    found = diagnose(
        {
            "container.log": log,
            "args.txt": "vllm serve /models/m --gpu-memory-utilization 0.95\n",
            "nvidia-smi.txt": "GPU 0: NVIDIA L4 (UUID: GPU-f8f8f0ba-6911-0639-5c79-54e69b405e4d)\n",
        }
    )
    advice = [each for each in remedies(found) if each in ("multimodal_limits:lower", "max_num_batched_tokens:lower")]
    assert advice[0] == first


@pytest.mark.parametrize(("flag", "first"), [("--no-enable-chunked-prefill", "scheduling:chunked_prefill"), ("", "max_num_batched_tokens:lower")])
def test_a_profiling_run_as_long_as_the_longest_request_is_cut_by_chunks_and_not_by_fewer_requests(flag: str, first: str) -> None:
    log = frame("vllm/v1/worker/gpu_worker.py", "determine_available_memory") + frame("vllm/v1/worker/gpu_model_runner.py", "profile_run")
    found = diagnose({"container.log": log + oom(wanted="2.00 GiB"), "args.txt": f"vllm serve /models/m --max-model-len 131072 {flag}\n"})
    assert found.cause == "profile_run_peak"
    assert remedies(found)[0] == first
    assert ("max_num_seqs:lower" in remedies(found)) == (not flag)


def missing(short: str, card: str = "") -> Diagnosis:
    log = (
        f"(EngineCore pid=41) ERROR 03-01 10:00:01 [core.py:708] ValueError: To serve at least one request with the models's max seq len (131072), ({short} GiB KV cache is needed, "
        "which is larger than the available KV cache memory (4.00 GiB). Based on the available memory, the estimated maximum model length is 30000.\n"
    )
    readings = {"nvidia-smi.txt": f"GPU 0: {card} (UUID: GPU-f8f8f0ba-6911-0639-5c79-54e69b405e4d)\n"} if card else {}
    return diagnose({"container.log": log, "args.txt": "vllm serve /models/m --gpu-memory-utilization 0.9\n", **readings})


@pytest.mark.parametrize(("short", "card", "offered"), [("14.00", "NVIDIA L4", False), ("14.00", "", True), ("30.00", "", False)])
def test_a_share_is_not_raised_for_what_the_card_has_not_above_it(short: str, card: str, offered: bool) -> None:
    found = missing(short, card)
    assert ("gpu_memory_utilization:raise" in remedies(found)) == offered
    assert ("gpu_memory_utilization:raise" in useless(found)) == (not offered)


def test_where_the_card_is_not_known_a_raise_says_which_cards_have_what_is_missing() -> None:
    advice = advised(missing("14.00"), "gpu_memory_utilization:raise")
    assert "133.33 GiB" in advice.effect.en  # 10 GiB of a card are its share between 0.9 and 0.975
    assert "133.33 GiB" in advice.effect.zh
