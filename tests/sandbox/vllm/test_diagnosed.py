"""The simulated server and the bot's own reasoning, back to back: the cause is found in every version's words, and the computed change makes it start."""

import io

import pytest

from bot import incident, playbooks
from bot.model import Bundle, BundleFile, Diagnosis
from bot.sandbox.kubelet.play import Play
from tests.sandbox.vllm.starts import L4, L40S, STRAY, log, start, starts

VERSIONS = ("0.9.1", "0.10.2", "0.11.0", "0.14.0", "0.20.0", "0.33.0")
KNOWLEDGE = playbooks.load()
FLAGS = {"gpu_memory_utilization": "--gpu-memory-utilization", "max_model_len": "--max-model-len", "max_num_seqs": "--max-num-seqs"}


def _examine(play: Play, *args: str) -> Diagnosis:
    def file(name: str, text: str) -> BundleFile:
        return BundleFile(name, lambda: io.BytesIO(text.encode()))

    files = {"container.log": file("container.log", log(play)), "args.txt": file("args.txt", " ".join(["vllm serve", *args]))}
    return incident.examine(Bundle("simulated", files), KNOWLEDGE)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("cause", "model", "card", "args"),
    [
        ("context_exceeds_kv_cache", "chat-32b-w6", L40S, ["--max-model-len=131072"]),
        ("kv_cache_too_small", "chat-9b", L4, ["--gpu-memory-utilization=0.86"]),
        ("weights_too_large", "chat-70b", L40S, []),
        ("runtime_burst", "code-14b", L40S, ["--gpu-memory-utilization=0.95"]),
        ("sampler_warmup", "small-1b", L4, ["--gpu-memory-utilization=0.96", "--max-num-seqs=512"]),
    ],
)
def test_the_cause_is_found_and_the_computed_change_makes_it_start(version: str, cause: str, model: str, card: float, args: list[str]) -> None:
    found = _examine(start(model, *args, version=version, card_gib=card), f"--model=/models/{model}", *args)
    assert found.cause == cause
    computed = [f"{FLAGS[each.remedy]}={each.to_value}" for each in found.recommendations if each.remedy in FLAGS and each.to_value is not None]
    if cause == "kv_cache_too_small":
        # How much one request needs is not in such a log: the step is proved to end this failure, not every one after it.
        assert "No available memory for the cache blocks" not in log(start(model, *args, computed[0], version=version, card_gib=card)), computed[0]
    elif cause != "weights_too_large":
        assert starts(start(model, *args, computed[0], version=version, card_gib=card)), computed[0]


@pytest.mark.parametrize("version", ["0.11.0", "0.14.0"])
def test_graph_capture_is_found_and_its_change_helps(version: str) -> None:
    args = ["--gpu-memory-utilization=0.97"]
    found = _examine(start("moe-30b", *args, version=version), "--model=/models/moe-30b", *args)
    assert found.cause == "cuda_graph_capture"
    first = found.recommendations[0]
    assert starts(start("moe-30b", *args, f"{FLAGS[first.remedy]}={first.to_value}", version=version))


def test_a_stray_process_is_found() -> None:
    found = _examine(start("small-1b", card_gib=L4, others=STRAY), "--model=/models/small-1b")
    assert found.family == "device_memory"
    assert found.cause in ("other_process_on_gpu", "free_memory_below_request")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_healthy_server_is_called_healthy(version: str) -> None:
    assert _examine(start("small-1b", version=version), "--model=/models/small-1b").cause == "healthy"
