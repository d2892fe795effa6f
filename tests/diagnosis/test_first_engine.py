"""Advice for the first engine (V0) and for its profiling run: what bounds its batch, what its processes give away, and what a full card still shows as free."""

import pytest

from bot.model import Certainty, Diagnosis
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.test_pastes import frame, oom

LOADED = "INFO 06-20 07:48:15 model_runner.py:160] Loading model weights took 15.2075 GB\n"
PROFILING = frame("vllm/worker/worker.py", "determine_num_available_blocks", "self.model_runner.profile_run()")
DEAD = "CRITICAL 02-11 09:16:30 launcher.py:101] MQLLMEngine is already dead, terminating server process\n"
ASYNC = "ERROR 02-11 09:16:30 async_llm_engine.py:43] Engine background task failed\n"
WORKER = "(VllmWorkerProcess pid=614) "


def remedies(found: Diagnosis) -> list[str]:
    return [f"{each.remedy}:{each.direction}" if each.direction else each.remedy for each in found.recommendations]


def profiled(code: str, wanted: str, version: str = "0.4.0.post1", length: int = 1048576) -> Diagnosis:
    config = f"INFO 06-20 07:48:01 llm_engine.py:74] Initializing an LLM engine (v{version}) with config: model='/models/m', max_seq_len={length}, tensor_parallel_size=1\n"
    return diagnose({"container.log": config + LOADED + PROFILING + code + oom(wanted, "79.15 GiB", "1.20 GiB", "77.90 GiB", "77.10 GiB", "12.00 MiB")})


def test_a_batch_as_long_as_the_longest_request_is_cut_by_the_length() -> None:
    found = profiled(frame("vllm/model_executor/models/llama.py", "forward", "gate_up, _ = self.gate_up_proj(x)"), "48.00 GiB")
    assert (found.cause, remedies(found)[:2]) == ("profile_run_peak", ["max_model_len:lower", "scheduling:chunked_prefill"])
    assert not {"max_num_seqs:lower", "max_num_batched_tokens:lower", "attention_or_moe_backend:change"} & set(remedies(found))


@pytest.mark.parametrize("code", [frame("vllm/model_executor/layers/sampler.py", "forward"), "    logits_sort, logits_idx = logits.sort(dim=-1, descending=False)\n"])
def test_a_sampler_that_runs_out_in_the_profiling_run_wants_fewer_rows(code: str) -> None:
    assert remedies(profiled(code, "2.30 GiB"))[0] == "max_num_seqs:lower"


def test_a_long_context_is_chunked_by_itself_only_where_the_release_does_it() -> None:
    assert "max_num_batched_tokens:lower" in remedies(profiled("", "3.00 GiB", version="0.6.3", length=131072))
    assert "max_num_batched_tokens:lower" not in remedies(profiled("", "3.00 GiB", version="0.4.2", length=131072))


@pytest.mark.parametrize(("version", "half"), [("0.6.3", 256), ("0.7.1", 1024)])
def test_half_of_a_chunk_is_half_of_what_the_release_takes(version: str, half: int) -> None:
    found = next(each for each in profiled("", "3.00 GiB", version=version, length=131072).recommendations if each.remedy == "max_num_batched_tokens")
    assert found.to_value == half


def test_a_step_is_not_made_smaller_than_the_requests_it_serves() -> None:
    said = frame("vllm/v1/worker/gpu_worker.py", "determine_available_memory") + oom("1.20 GiB", "79.25 GiB", "130.00 MiB", "79.10 GiB", "77.00 GiB")
    found = diagnose({"args.txt": "vllm serve /models/m --max-num-seqs 2048\n", "container.log": said})
    assert all(int(str(each.to_value)) >= 2048 for each in found.recommendations if each.remedy == "max_num_batched_tokens")


@pytest.mark.parametrize("sign", [DEAD, ASYNC, WORKER])
def test_a_step_is_not_made_smaller_than_the_first_engine_allows(sign: str) -> None:
    args = {"args.txt": "vllm serve /models/m --max-model-len 16384 --tensor-parallel-size 2\n"}
    said = oom("1.20 GiB", "79.25 GiB", "130.00 MiB", "79.10 GiB", "77.00 GiB")
    log = sign + f"ERROR 02-11 09:16:30 engine.py:139] OutOfMemoryError('{said.removeprefix('torch.OutOfMemoryError: ')}')\n"
    served = 'INFO:     192.0.2.34:57224 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error\n'
    assert "max_num_batched_tokens:lower" not in remedies(diagnose({**args, "container.log": log + served}))


def test_crumbs_on_a_full_card_are_no_sign_of_a_layer_that_holds_memory_back() -> None:
    creating = frame("vllm/model_executor/layers/linear.py", "create_weights", "data=torch.empty(")
    full = diagnose({"container.log": creating + oom("84.00 MiB", "31.35 GiB", "97.00 MiB", "31.20 GiB", "30.90 GiB")})
    assert (full.cause, full.certainty) == ("weights_too_large", Certainty.CERTAIN)
    refused = diagnose({"container.log": creating + oom("84.00 MiB", "31.35 GiB", "9.10 GiB", "22.20 GiB", "21.90 GiB")})
    assert refused.cause == "reserved_memory"


@pytest.mark.parametrize(("peak", "left"), [("6.60", "-0.10"), ("0.60", "5.90")])
def test_a_peak_that_fills_the_budget_is_blamed_on_nobody_else(peak: str, left: str) -> None:
    log = (
        "INFO 01-12 11:06:43 model_runner.py:1102] Loading model weights took 0.0713 GB\n"
        "INFO 01-12 11:06:43 enc_dec_model_runner.py:278] Starting profile run for multi-modal models.\n"
        "INFO 01-12 11:06:48 worker.py:240] the current vLLM instance can use total_gpu_memory (7.40GiB) x gpu_memory_utilization (0.90) = 6.66GiB\n"
        f"INFO 01-12 11:06:48 worker.py:240] model weights take 0.07GiB; non_torch_memory takes 0.09GiB; PyTorch activation peak memory takes {peak}GiB; the rest of the memory reserved for KV Cache is {left}GiB.\n"
        "INFO 01-12 11:06:48 executor_base.py:95] # CUDA blocks: 0, # CPU blocks: 87381\n"
        "[rank0]: ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n"
    )
    found = remedies(diagnose({"container.log": log}))
    assert ("free_gpu_process" in found) is (peak == "0.60")
    assert ("max_num_seqs:lower" in found) is (peak == "6.60")


def test_a_cache_in_host_memory_is_not_told_to_take_more_of_a_card() -> None:
    line = "ValueError: The model's max seq len (40960) is larger than the maximum number of tokens that can be stored in KV cache (27312). Try increasing `VLLM_CPU_KVCACHE_SPACE` or decreasing `max_model_len` when initializing the engine.\n"
    found = diagnose({"container.log": line})
    assert (found.cause, remedies(found)) == ("context_exceeds_kv_cache", ["max_model_len:lower", "kv_cache_memory_bytes:set"])
    card = diagnose({"container.log": line.replace("VLLM_CPU_KVCACHE_SPACE", "gpu_memory_utilization")})
    assert "gpu_memory_utilization:raise" in remedies(card)


def test_a_log_that_does_not_tell_the_kinds_of_layers_is_not_said_to_show_them() -> None:
    line = "ValueError: The model's max seq len (40960) is larger than the maximum number of tokens that can be stored in KV cache (27312). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n"
    said = next(each for each in diagnose({"container.log": line}).recommendations if each.remedy == "kv_cache_dtype")
    assert "the log does not show" in said.why.en + said.effect.en


def test_a_card_of_which_much_is_free_may_be_shared() -> None:
    refused = "ValueError: Free memory on device cuda:0 ({free}/44.53 GiB) on startup is less than desired GPU memory utilization (0.9, 40.08 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
    shared, taken = (diagnose({"container.log": refused.format(free=free)}) for free in ("27.20", "2.20"))
    assert shared.cause == taken.cause == "other_process_on_gpu"
    assert remedies(shared)[0] == remedies(taken)[0] == "free_gpu_process"
    assert "gpu_memory_utilization:lower" in remedies(shared)
    assert "gpu_memory_utilization:lower" not in remedies(taken)


def test_an_error_in_the_kernel_of_the_custom_all_reduce_switches_it_off() -> None:
    line = "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:412 'an illegal memory access was encountered'\n"
    assert remedies(diagnose({"container.log": line}))[0] == "custom_all_reduce:disable"
    assert remedies(diagnose({"container.log": "RuntimeError: CUDA error: an illegal memory access was encountered\n"}))[0] == "vllm_version:change"


def test_what_the_loop_of_the_first_engine_raised_was_met_while_serving() -> None:
    said = oom("1.20 GiB", "79.25 GiB", "130.00 MiB", "79.10 GiB", "77.00 GiB").removeprefix("torch.OutOfMemoryError: ")
    found = diagnose({"container.log": f"ERROR 02-11 09:16:30 engine.py:139] OutOfMemoryError('{said}')\n"})
    assert found.cause == "runtime_burst"
    assert "max_num_batched_tokens:lower" not in remedies(found)
    told = f"ERROR 02-11 09:16:30 [x.py:1] the original error: OutOfMemoryError('{said}')\n"
    assert diagnose({"container.log": told}).cause != "runtime_burst"


def test_an_engine_is_known_by_its_processes() -> None:
    line = "({process} pid=262) ERROR 10-06 18:54:33 [core.py:710] " + oom("0.90 GiB", "79.25 GiB", "511.00 MiB", "78.74 GiB", "77.00 GiB") + "\n"
    last = frame("vllm/model_executor/models/qwen3.py", "execute_model")
    steps = {
        each.remedy: each.to_value for each in diagnose({"container.log": last + line.format(process="EngineCore_DP0")}).recommendations if each.remedy.startswith("max_num")
    }
    assert steps["max_num_batched_tokens"] == 4096


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_reason_rests_on_a_number_that_nobody_read(language: str) -> None:
    raw = frame("vllm/worker/cache_engine.py", "_allocate_kv_cache") + "RuntimeError: CUDA error: out of memory\n"
    found = diagnose({"container.log": raw})
    assert found.will_not_help
    assert not [each for each in found.will_not_help if "unknown amount" in each.why.say(language) or "未知" in each.why.say(language)]
