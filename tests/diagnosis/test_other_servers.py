"""Advice for a server that is not vLLM: its own options, its own defaults, and no number that nobody saw."""

import re

import pytest

from bot import knobs
from bot.model import Diagnosis, Recommendation
from bot.terminal.text import change
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import container, pod, status, terminated
from tests.diagnosis.test_fitting_advice import remedies
from tests.diagnosis.test_pastes import frame, oom

VLLM_ONLY = re.compile(r"--gpu-memory-utilization|--max-model-len|--max-num-seqs|--max-num-batched-tokens|--enforce-eager|--swap-space|--limit-mm-per-prompt|VLLM_")
STATS = "[2026-03-01 10:00:00] Decode batch. #running-req: 4, #token: 5210, token usage: 0.02, cuda graph: True, gen throughput (token/s): 410.22, #queue-req: 0\n"
NO_CACHE = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."


def advised(found: Diagnosis, remedy: str) -> Recommendation:
    return next(each for each in found.recommendations if each.id == remedy)


def everything(found: Diagnosis) -> str:
    said = [change(each, language) for each in found.recommendations for language in ("en", "zh")]
    return "\n".join([*said, *(item.why.say(language) for item in found.will_not_help for language in ("en", "zh"))])


def test_a_burst_in_sglang_is_answered_with_its_options_and_the_values_that_it_printed() -> None:
    log = "[2026-03-01 09:00:00] server_args=ServerArgs(model_path='/m', mem_fraction_static=0.88, chunked_prefill_size=8192, max_running_requests=None)\n"
    found = diagnose({"container.log": log + STATS + frame("sglang/srt/managers/scheduler.py", "event_loop_overlap") + oom()})
    assert found.cause == "runtime_burst"
    lowered = advised(found, "gpu_memory_utilization:lower")
    assert (lowered.option, lowered.from_value, lowered.to_value) == ("--mem-fraction-static", 0.88, 0.83)
    large = diagnose({"container.log": log + STATS + frame("sglang/srt/managers/scheduler.py", "event_loop_overlap") + oom(wanted="3.00 GiB")})
    assert advised(large, "gpu_memory_utilization:lower").to_value == 0.75, "2.9 GiB of 23.6 were missing"
    assert knobs.typed(advised(found, "max_num_batched_tokens:lower")) == "--chunked-prefill-size 8192 -> 4096"
    assert advised(found, "max_num_seqs:lower").to_value is None  # computed from the pool at the start: nobody printed it
    assert not VLLM_ONLY.search(everything(found))


@pytest.mark.parametrize(
    ("args", "printed", "sizes"),
    [
        ("--mem-fraction-static 0.6", "", (0.6, 0.65)),
        ("", " Current value: self.server_args.mem_fraction_static=0.25", (0.25, 0.3)),
        ("", "", (None, None)),
    ],
)
def test_a_cache_that_does_not_fit_raises_the_share_of_weights_and_cache(args: str, printed: str, sizes: tuple[float | None, float | None]) -> None:
    found = diagnose({"args.txt": f"python3 -m sglang.launch_server --model-path /m {args}\n", "container.log": f"{NO_CACHE}{printed}\n"})
    raised = advised(found, "gpu_memory_utilization:raise")
    assert (found.cause, raised.option, raised.from_value, raised.to_value) == ("kv_cache_too_small", "--mem-fraction-static", *sizes)
    assert not VLLM_ONLY.search(everything(found))


def test_weights_that_were_printed_say_how_far_the_share_must_go() -> None:
    loaded = "[2026-03-01 10:00:00 TP0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=10.00 GB, mem usage=30.00 GB.\n"
    found = diagnose({"args.txt": "python3 -m sglang.launch_server --model-path /m --mem-fraction-static 0.5\n", "container.log": loaded + NO_CACHE + "\n"})
    assert advised(found, "gpu_memory_utilization:raise").to_value == 0.78  # (30 + 1) of 40 GiB


def test_a_server_without_the_option_is_not_told_to_use_it() -> None:
    found = diagnose({"args.txt": "llama-server -m /m.gguf -c 32768\n", "container.log": oom()})
    assert not [each for each in remedies(found) if each.startswith("gpu_memory_utilization")]
    assert not VLLM_ONLY.search(everything(found))


@pytest.mark.parametrize(("args", "name"), [("python3 -m sglang.launch_server --model-path /m\n", "SGLang"), ("vllm serve m\n", "vLLM"), ("", "the server")])
def test_another_release_is_one_of_the_server_that_runs(args: str, name: str) -> None:
    found = diagnose({"container.log": "terminate called after throwing an instance of 'std::runtime_error'\nFatal Python error: Aborted\n", **({"args.txt": args} if args else {})})
    assert (found.cause, f" release of {name} " in advised(found, "vllm_version:change").why.en) == ("abort", True)


def test_where_nothing_tells_the_server_vllms_options_are_meant() -> None:
    found = diagnose({"container.log": oom()})
    assert {each.option for each in found.recommendations if each.remedy == "gpu_memory_utilization"} <= {"--gpu-memory-utilization"}


def test_a_program_that_runs_the_model_by_itself_is_told_of_its_batch_and_no_servers_option() -> None:
    served = 'INFO:     10.0.0.1:40212 - "POST /generate HTTP/1.1" 200 OK\n'
    found = diagnose({"container.log": served + frame("transformers/generation/utils.py", "_sample") + oom()})
    assert (found.cause, remedies(found)[:2]) == ("gpu_oom", ["max_num_seqs:lower", "max_model_len:lower"])
    assert not VLLM_ONLY.search(everything(found))
    loading = diagnose({"container.log": frame("transformers/modeling_utils.py", "from_pretrained") + frame("vllm/model_executor/models/transformers.py", "load_weights") + oom()})
    assert loading.cause == "weights_too_large"


TRT = "[03/02/2026-11:20:52] [TRT-LLM] [E] Failed to initialize executor on rank 0: "


@pytest.mark.parametrize(
    ("before", "cause"),
    [
        ("Loading weights concurrently:  88%|████████▊ | 28/32", "weights_too_large"),
        ("Loading weights concurrently: 100%|██████████| 32/32\nModel init total -- 21.07s", "profile_run_peak"),
    ],
)
def test_what_tensorrt_llm_prints_while_it_loads_says_where_it_ran_out(before: str, cause: str) -> None:
    found = diagnose({"container.log": f"{before}\n{TRT}{oom()}\n"})
    assert found.cause == cause
    assert ("max_num_batched_tokens:lower" in remedies(found)) is (cause == "profile_run_peak")


def test_weights_that_are_laid_out_anew_are_still_being_loaded() -> None:
    found = diagnose({"container.log": frame("tensorrt_llm/_torch/modules/fused_moe/fused_moe_triton.py", "swizzle_weight_and_scale") + oom()})
    assert found.cause == "weights_too_large"
    assert "gpu_memory_utilization:lower" not in remedies(found)


def test_options_of_a_server_that_nobody_saw_are_said_to_be_assumed() -> None:
    def asked(files: dict[str, str]) -> list[str]:
        return [gap.would_tell for gap in diagnose(files).gaps if gap.source == "args.txt" and gap.matters]

    unseen = 'ERROR:    Exception in ASGI application\n  File "/app/main.py", line 44, in generate\n' + oom()
    assert ["vLLM" in words for words in asked({"container.log": unseen})] == [True]
    assert asked({"container.log": unseen, "args.txt": "vllm serve /models/m\n"}) == []
    assert asked({"container.log": "INFO 03-01 10:00:00 [api_server.py:1] vLLM API server version 0.11.0\n" + unseen}) == []


def test_a_program_on_jax_is_told_of_xlas_share_and_no_servers_option() -> None:
    failed = "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: NCCL operation ncclCommInitRank(&comm, nranks, id, rank) failed: unhandled cuda error. Last NCCL warning(error) log entry (may be unrelated) 'Cuda failure 2 'out of memory''.\n"
    found = diagnose({"container.log": failed})
    assert (found.cause, remedies(found)[0]) == ("nccl_oom", "gpu_memory_utilization:lower")
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" in found.recommendations[0].why.en
    assert not VLLM_ONLY.search(everything(found))


def test_triton_is_told_of_its_models_own_files_and_no_kernels_of_another_server() -> None:
    failed = "E0301 10:00:00.291671 1 cuda_driver.cc:981] failed to synchronize the stop event: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered\n"
    found = diagnose({"container.log": failed, "args.txt": "tritonserver --model-repository=/models\n"})
    assert (found.cause, remedies(found)[:2]) == ("gpu_fault", ["vllm_version:change", "attention_or_moe_backend:change"])
    assert not VLLM_ONLY.search(everything(found))


def test_a_frame_of_vllms_code_names_the_server_where_pytorch_alone_does_not() -> None:
    alone = diagnose({"container.log": oom()})
    framed = diagnose({"container.log": frame("vllm/v1/worker/gpu_worker.py", "execute_model") + oom()})
    assert [any("which program serves" in gap.would_tell for gap in found.gaps) for found in (alone, framed)] == [True, False]


@pytest.mark.parametrize(
    ("image", "version"),
    [("vllm/vllm-openai:v0.9.1", "0.9.1"), ("registry.example.com/team/vllm:0.9", "0.9"), ("registry.example.com/vllm-rbln:0.9", ""), ("registry.example.com/vllm/gateway:0.2", "")],
)
def test_the_tag_of_a_plugins_or_a_neighbours_image_is_no_version_of_the_server(image: str, version: str) -> None:
    found = diagnose({"container.log": oom(), "pod.json": pod([container(image=image)], [status(last=terminated(1))])})
    assert found.engine_version == version
