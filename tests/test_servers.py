"""Which server runs is told by its program, its image, by what only it prints and the frames of its traceback; and each has its own options."""

import pytest

from bot import servers
from bot.facts import Facts
from bot.model import Fact
from tests.diagnosis.bundles import diagnose, knowledge

KNOWN = knowledge().servers


def named(server: servers.Server | None) -> str:
    return server.name if server else ""


@pytest.mark.parametrize(
    ("words", "image", "name"),
    [
        (["python3", "-m", "sglang.launch_server", "--model-path", "/models/vllm"], "", "SGLang"),
        (["sglang", "serve", "--model-path", "/m"], "registry/vllm/base:1", "SGLang"),
        (["vllm", "serve", "org/sglang-tuned"], "", "vLLM"),
        (["bash", "-c", "exec python3 -m vllm.entrypoints.openai.api_server --model m"], "", "vLLM"),
        (["text-generation-launcher", "--model-id", "m"], "", "Text Generation Inference"),
        (["lmdeploy", "serve", "api_server", "m"], "", "LMDeploy"),
        (["trtllm-serve", "m"], "", "TensorRT-LLM"),
        (["/app/llama-server", "-m", "m.gguf"], "", "llama.cpp"),
        ([], "registry.example.com/vllm/sglang-runtime:v3", "SGLang"),
        ([], "vllm/vllm-openai:v0.11.0", "vLLM"),
        (["/start.sh"], "registry.example.com/llm:7", ""),
        (["sh", "-c", "vllm serve a || python3 -m sglang.launch_server --model-path b"], "", ""),
    ],
)
def test_a_container_tells_its_server_by_program_then_by_image(words: list[str], image: str, name: str) -> None:
    assert named(servers.of_container(words, image, KNOWN)) == name


def test_lines_of_another_server_count_more_than_those_of_the_assumed_one_whose_code_it_uses() -> None:
    facts = Facts([Fact("log.printed_by", ("sglang", "torch", "vllm"))])
    assert named(servers.of_facts(facts, KNOWN)) == "SGLang"
    assert named(servers.of_facts(Facts([Fact("log.printed_by", ("torch", "vllm"))]), KNOWN)) == "vLLM"
    assert servers.of_facts(Facts([Fact("log.printed_by", ("torch",))]), KNOWN) is None


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('  File "/opt/sglang/python/sglang/srt/models/m.py", line 5, in forward', "SGLang"),
        ('  File "/x/dist-packages/tensorrt_llm/executor/worker.py", line 5, in main', "TensorRT-LLM"),
        ('  File "/x/site-packages/lmdeploy/turbomind/turbomind.py", line 5, in main', "LMDeploy"),
        ("INFO 03-01 10:00:00 [core.py:7] model='/models/lmdeploy/turbomind/m'", "the server"),
    ],
)
def test_a_frame_of_the_traceback_tells_the_server(line: str, name: str) -> None:
    found = diagnose({"container.log": f"{line}\nFatal Python error: Aborted\n"})
    assert any(f"release of {name}" in each.why.en for each in found.recommendations)


def test_the_command_line_counts_more_than_the_log() -> None:
    facts = Facts([Fact("log.printed_by", ("in_sglang",)), Fact("args.command", "vllm serve m")])
    assert named(servers.of_facts(facts, KNOWN)) == "vLLM"


def test_the_values_in_force_are_read_under_the_servers_own_names() -> None:
    sglang = next(server for server in KNOWN if server.name == "SGLang")
    facts = Facts([Fact("args.mem_fraction_static", "0.87"), Fact("args.context_length", 4096), Fact("args.disable_radix_cache", True)])
    assert {fact.name: fact.value for fact in servers.in_force(facts, sglang)} == {"engine.gpu_memory_utilization": 0.87, "engine.max_model_len": 4096}


def test_one_server_is_assumed_and_every_other_says_what_each_remedy_means_there() -> None:
    assert [server.name for server in KNOWN if server.assumed] == ["vLLM"]
    assert all(server.command if server.options else server.lacks for server in KNOWN)  # a program without options has no command of its own either
