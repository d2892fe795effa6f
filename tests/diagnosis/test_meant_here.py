"""What a remedy means here: the card, the release and the limits in force change its words and its place, and take it away where nothing is left of it."""

import json

import pytest

from bot.model import Diagnosis
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.test_fitting_advice import remedies
from tests.diagnosis.test_other_servers import advised
from tests.diagnosis.test_pastes import frame, oom

CARD = "GPU 0: {} (UUID: GPU-f8f8f0ba-6911-0639-5c79-54e69b405e4d)\n"
TOO_LONG = (
    "INFO 03-01 10:00:00 [core.py:58] Initializing a V1 LLM engine (v0.9.1) with config: model='/models/m', dtype=torch.bfloat16, max_seq_len=131072\n"
    "INFO 03-01 10:00:31 [gpu_worker.py:227] Available KV cache memory: {0} GiB\n"
    "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV "
    "cache memory ({0} GiB). Based on the available memory, the estimated maximum model length is {1}. Try increasing `gpu_memory_utilization` or decreasing "
    "`max_model_len` when initializing the engine.\n"
)
CAPTURE = frame("vllm/{}model_runner.py", "capture_model", "with torch.cuda.graph(graph):") + oom()
ENCODER = frame("vllm/v1/worker/gpu_model_runner.py", "profile_run") + frame("vllm/model_executor/models/qwen2_5_vl.py", "get_multimodal_embeddings") + oom()
LANGUAGE = frame("vllm/v1/worker/gpu_model_runner.py", "profile_run") + frame("vllm/v1/worker/gpu_model_runner.py", "_dummy_run") + oom()
POOLS = "by PyTorch, with 6.20 GiB allocated in private pools (e.g., CUDA Graphs), and"


def too_long(card: str, share: str = "0.9", available: str = "12.00", estimated: str = "98304") -> Diagnosis:
    args = f"vllm serve /models/m --gpu-memory-utilization {share}\n"
    return diagnose({"container.log": TOO_LONG.format(available, estimated), "args.txt": args, "nvidia-smi.txt": CARD.format(card)})


@pytest.mark.parametrize("card", ["NVIDIA A100-SXM4-80GB", "Tesla T4"])
def test_an_fp8_cache_comes_last_on_a_card_without_fp8_and_says_what_it_needs(card: str) -> None:
    found = too_long(card)
    assert remedies(found)[-1] == "kv_cache_dtype:fp8"
    assert "8.9" in advised(found, "kv_cache_dtype:fp8").why.en
    assert "8.9" in advised(found, "kv_cache_dtype:fp8").why.zh


def test_an_fp8_cache_keeps_its_place_on_a_card_that_computes_fp8() -> None:
    found = too_long("NVIDIA H100 80GB HBM3")
    assert remedies(found)[-1] != "kv_cache_dtype:fp8"
    assert "8.9" not in advised(found, "kv_cache_dtype:fp8").why.en


def test_a_share_that_was_set_low_is_raised_before_requests_are_cut_shorter() -> None:
    assert remedies(too_long("NVIDIA H100 80GB HBM3", "0.6"))[:2] == ["gpu_memory_utilization:raise", "max_model_len:lower"]


@pytest.mark.parametrize(("share", "available"), [("0.9", "12.00"), ("0.85", "2.00")])
def test_requests_are_cut_shorter_first_where_the_usual_share_would_not_do(share: str, available: str) -> None:
    assert remedies(too_long("NVIDIA L4", share, available, "16384"))[0] == "max_model_len:lower"


@pytest.mark.parametrize(("version", "named"), [("0.9.2", "--compilation-config"), ("0.11.0", "--compilation-config"), ("0.11.2", "--max-cudagraph-capture-size")])
def test_sizes_of_graphs_are_set_with_the_options_of_the_release(version: str, named: str) -> None:
    log = f"INFO 03-01 10:00:00 [core.py:58] Initializing a V1 LLM engine (v{version}) with config: model='/models/m', max_seq_len=4096\n"
    why = advised(diagnose({"container.log": log + CAPTURE.format("v1/worker/gpu_")}), "cudagraph_sizes:lower").why
    assert named in why.en
    assert named in why.zh


def test_the_older_engine_captures_as_many_graphs_as_requests_may_run() -> None:
    log = "INFO 03-01 10:00:00 llm_engine.py:161] Initializing an LLM engine (v0.4.2) with config: model='/models/m', max_seq_len=4096\n"
    assert "--max-num-seqs" in advised(diagnose({"container.log": log + CAPTURE.format("worker/")}), "cudagraph_sizes:lower").why.en


def multimodal(limit: str, stack: str, model: str = "org/some-vl-7b") -> Diagnosis:
    return diagnose({"container.log": stack, "args.txt": f"vllm serve {model} --limit-mm-per-prompt {limit}\n"})


def test_media_of_which_none_are_accepted_cannot_be_limited_further() -> None:
    found = multimodal('\'{"image":0,"video":0}\'', LANGUAGE)
    assert "multimodal_limits:lower" not in remedies(found)
    assert any(each.remedy == "multimodal_limits" for each in found.will_not_help)


def test_where_one_image_is_the_limit_its_size_is_what_can_be_limited() -> None:
    assert "pixel" in advised(multimodal("image=1", ENCODER), "multimodal_limits:lower").why.en
    found = multimodal("image=1", LANGUAGE)
    assert remedies(found)[-1] == "multimodal_limits:lower"


def test_a_limit_of_many_images_is_lowered_first() -> None:
    found = multimodal("image=16", LANGUAGE)
    assert remedies(found)[0] == "multimodal_limits:lower"
    assert "already" not in found.recommendations[0].why.en


def test_a_model_that_hears_is_not_told_of_images() -> None:
    found = diagnose({"container.log": LANGUAGE, "args.txt": "vllm serve openai/whisper-large-v3\n"})
    assert not any("image" in each.why.en for each in found.recommendations)


def test_graphs_that_hold_much_of_the_card_may_be_fewer_where_serving_ran_out() -> None:
    fatal = "(EngineCore pid=41) ERROR 03-01 10:00:02 [core.py:1110] EngineCore encountered a fatal error.\n"
    step = frame("vllm/v1/worker/gpu_model_runner.py", "execute_model")
    assert "cudagraph_sizes:lower" in remedies(diagnose({"container.log": fatal + step + oom().replace("by PyTorch, and", POOLS)}))
    assert "cudagraph_sizes:lower" not in remedies(diagnose({"container.log": fatal + step + oom()}))


@pytest.mark.parametrize(("maker", "tool"), [("NPU", "npu-smi"), ("HIP", "rocm-smi"), ("CUDA", "nvidia-smi.txt")])
def test_what_is_to_be_read_is_asked_of_the_tool_of_those_cards(maker: str, tool: str) -> None:
    found = diagnose({"container.log": oom().replace("CUDA out of memory", f"{maker} out of memory")})
    assert [gap.source for gap in found.gaps if "smi" in gap.source] == [tool]


def test_cards_of_unequal_memory_are_nobody_elses_use_of_them() -> None:
    cards = CARD.format("NVIDIA GeForce RTX 3090") + "GPU 1: NVIDIA RTX A4000 (UUID: GPU-41f8f0ba-6911-0639-5c79-54e69b405e4d)\n"
    log = "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.\n"
    args = "python -m sglang.launch_server --model-path /models/m --tp-size 2\n"
    assert diagnose({"container.log": log, "nvidia-smi.txt": cards, "args.txt": args}).cause == "heterogeneous_gpus"
    assert diagnose({"container.log": log, "args.txt": args}).cause == "other_process_on_gpu"


def test_a_damaged_heap_is_told_from_an_abort_that_nothing_explains() -> None:
    found = diagnose({"container.log": "malloc(): unsorted double linked list corrupted\n"})
    assert (found.cause, remedies(found)[:2]) == ("abort", ["vllm_version:change", "application:fix"])
    assert "heap" in found.summary.en
    other = diagnose({"container.log": "Fatal Python error: Aborted\n"})
    assert "heap" not in other.summary.en
    assert all("repaired" not in each.why.en for each in other.recommendations)


def test_the_allocators_text_alone_says_for_which_stage_each_advice_is() -> None:
    found = diagnose({"container.log": oom()})
    assert "while it loads" in advised(found, "gpu_memory_utilization:lower").why.en
    assert "still loading" in advised(found, "quantization:enable").why.en


@pytest.mark.parametrize(("share", "smaller"), [("0.38", False), ("0.9", True)])
def test_a_model_is_left_as_it_is_where_a_share_was_set_low_on_a_card_of_unknown_size(share: str, smaller: bool) -> None:
    log = (
        "INFO 06-18 14:02:21 [gpu_model_runner.py:1624] Model loading took 14.9889 GiB and 3.918855 seconds\n"
        "INFO 06-18 14:02:40 [gpu_worker.py:227] Available KV cache memory: 0.00 GiB\n"
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n"
    )
    found = diagnose({"container.log": log, "args.txt": f"vllm serve /models/m --gpu-memory-utilization {share}\n"})
    assert remedies(found)[0] == "gpu_memory_utilization:raise"
    assert ("quantization:enable" in remedies(found)) is smaller


@pytest.mark.parametrize(("free", "told"), [("17.73 GiB", False), ("2.73 GiB", True)])
def test_unused_memory_is_not_called_too_little_where_with_what_was_free_it_covers_the_request(free: str, told: bool) -> None:
    found = diagnose({"container.log": LANGUAGE.replace(oom(), oom("19.63 GiB", "79.15 GiB", free, "61.42 GiB", "57.10 GiB", "4.07 GiB"))})
    assert any(each.remedy == "expandable_segments" for each in found.will_not_help) is told


@pytest.mark.parametrize(("model", "others"), [("org/some-3b-instruct", True), ("org/some-34b-instruct", False)])
def test_a_small_model_is_made_no_smaller_on_a_large_card_that_leaves_it_no_cache(model: str, others: bool) -> None:
    log = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n"
    found = diagnose({"container.log": log, "args.txt": f"vllm serve {model} --gpu-memory-utilization 0.97\n", "nvidia-smi.txt": CARD.format("NVIDIA H100 80GB HBM3")})
    assert ("free_gpu_process" in remedies(found)) is others
    assert ("quantization:enable" in remedies(found)) is not others


@pytest.mark.parametrize(
    ("thrown", "cause"),
    [
        ("std::bad_alloc: cudaErrorMemoryAllocation: out of memory", "gpu_oom"),
        ("MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /opt/rmm/cuda_memory_resource.hpp:70: cudaErrorMemoryAllocation out of memory", "gpu_oom"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "abort"),
    ],
)
def test_an_allocation_that_the_card_refused_is_no_host_memory_although_it_is_thrown_alike(thrown: str, cause: str) -> None:
    found = diagnose({"container.log": f"[21:43:12] src/device_vector.cu:23: Memory allocation error on worker 0: {thrown}\n"})
    assert found.cause == cause
    assert "bigger_node" not in remedies(found) or cause == "abort"


@pytest.mark.parametrize(("log", "first"), [({}, "application:fix"), ({"args.txt": "vllm serve m\n"}, "vllm_version:change")])
def test_of_an_abort_without_its_output_the_output_is_read_first_unless_a_server_of_models_is_known(log: dict[str, str], first: str) -> None:
    state = {"terminated": {"exitCode": 134, "reason": "Error"}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}, "status": {"containerStatuses": [{"name": "c", "restartCount": 4, "state": state}]}}
    found = diagnose({"pod.json": json.dumps(pod), **log})
    assert (found.cause, remedies(found)[0]) == ("abort", first)
