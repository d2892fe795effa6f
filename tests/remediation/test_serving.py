"""A workload whose server is not the engine: its own options are written, or nothing is."""

from typing import Any

import pytest

from bot.errors import BadInput
from bot.model import ObjectRef
from bot.remediation import environment_variable
from bot.remediation.change import Change, Elsewhere
from bot.remediation.engine_argument import change
from bot.remediation.pointer import apply
from bot.remediation.workload import Workload
from tests.remediation.plans import handed_out, planned, recommendation
from tests.remediation.shelf import container, deployment_shelf, workload

SGLANG = ["python3", "-m", "sglang.launch_server", "--model-path", "/models/m"]


def at(**fields: Any) -> Workload:
    return Workload(ObjectRef("apps/v1", "Deployment", "llm", "chat", "u"), workload(containers=[container(**{"args": [], **fields})]), 0)


def after(here: Workload, argument: str, value: Any = None, **fields: Any) -> dict[str, Any]:
    done = change(here, argument, value, **fields)
    assert isinstance(done, Change), done
    found: dict[str, Any] = apply(here.body, [edit.operation() for edit in done.edits])["spec"]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize(
    ("argument", "value", "there", "expected"),
    [
        ("gpu-memory-utilization", 0.82, ["--mem-fraction-static", "0.87"], ["--mem-fraction-static", "0.82"]),
        ("gpu-memory-utilization", 0.82, ["--mem_fraction_static=0.87"], ["--mem_fraction_static=0.82"]),
        ("gpu-memory-utilization", 0.82, [], ["--mem-fraction-static=0.82"]),
        ("max-model-len", 32768, ["--context-length", "65536"], ["--context-length", "32768"]),
        ("max-num-seqs", 64, ["--max-running-requests=128"], ["--max-running-requests=64"]),
        ("max-num-batched-tokens", 4096, [], ["--chunked-prefill-size=4096"]),
        ("enforce-eager", None, [], ["--disable-cuda-graph"]),
        ("kv-cache-dtype", "fp8", ["--kv-cache-dtype", "auto"], ["--kv-cache-dtype", "fp8_e5m2"]),
        ("no-enable-prefix-caching", None, [], ["--disable-radix-cache"]),
    ],
)
def test_another_server_gets_its_own_option(argument: str, value: Any, there: list[str], expected: list[str]) -> None:
    assert after(at(command=SGLANG + there), argument, value)["command"] == SGLANG + expected


@pytest.mark.parametrize(
    ("fields", "argument"),
    [
        ({"command": SGLANG}, "swap-space"),
        ({"command": SGLANG}, "kv-cache-memory-bytes"),
        ({"command": SGLANG}, "max-logprobs"),
        ({"command": ["/app/llama-server", "-m", "/models/m.gguf"]}, "gpu-memory-utilization"),
        ({"image": "ghcr.io/huggingface/text-generation-inference:3.3", "args": ["--model-id", "org/m"]}, "cpu-offload-gb"),
    ],
)
def test_where_the_server_has_no_such_option_nothing_is_written_and_one_line_says_so(fields: dict[str, Any], argument: str) -> None:
    found = change(at(**fields), argument, 2**30 if "bytes" in argument else 0.5)
    assert isinstance(found, Elsewhere)
    assert "has no option like" in found.reason.en
    assert "\n" not in found.reason.en
    assert found.paste == ""


def test_a_value_for_one_servers_option_is_not_written_into_another_ones() -> None:
    asked = recommendation("gpu_memory_utilization", to=0.85, option="--gpu-memory-utilization")
    shelf = deployment_shelf(body=workload(containers=[container(args=[], command=[*SGLANG, "--mem-fraction-static", "0.88"], image="lmsysorg/sglang:v0.5.6")]))
    refused = handed_out(shelf, asked)
    assert "computed for --gpu-memory-utilization" in refused.reason.en
    assert "SGLang" in refused.reason.en
    assert refused.paste == ""
    backwards = change(at(command=["vllm", "serve", "m"]), "gpu-memory-utilization", 0.82, computed_for="--mem-fraction-static")
    assert isinstance(backwards, Elsewhere)
    assert "vLLM" in backwards.reason.en


def test_a_plan_for_another_server_shows_its_option() -> None:
    asked = recommendation("gpu_memory_utilization", to=0.83, option="--mem-fraction-static")
    shelf = deployment_shelf(body=workload(containers=[container(args=[], command=[*SGLANG, "--mem-fraction-static", "0.88"], image="lmsysorg/sglang:v0.5.6")]))
    made = planned(shelf, asked)
    assert "0.83" in str(made.steps)
    assert "gpu-memory-utilization" not in str(made.steps)


def test_what_stands_in_a_script_is_handed_out_with_the_servers_own_option() -> None:
    found = change(at(command=["bash", "/opt/start.sh"], image="lmsysorg/sglang:v0.5.6"), "gpu-memory-utilization", 0.82)
    assert isinstance(found, Elsewhere)
    assert found.paste == "--mem-fraction-static=0.82\n"


def test_in_a_shell_string_the_option_stands_behind_the_program() -> None:
    script = "export A=1 && exec python3 -m sglang.launch_server --model-path /m && sleep 9"
    found = change(at(command=["bash", "-c", script]), "gpu-memory-utilization", 0.82)
    assert isinstance(found, Elsewhere)
    assert "sglang.launch_server --mem-fraction-static=0.82 --model-path /m" in found.paste


def test_what_could_be_an_abbreviation_of_another_servers_option_is_left_to_people() -> None:
    found = change(at(command=[*SGLANG, "--mem-frac", "0.9"]), "gpu-memory-utilization", 0.82)
    assert isinstance(found, Elsewhere)
    assert "abbreviation" in found.reason.en


def test_another_servers_file_of_options_is_left_to_people() -> None:
    found = change(at(command=[*SGLANG, "--config", "/etc/server.yaml"]), "gpu-memory-utilization", 0.82)
    assert isinstance(found, Elsewhere)
    assert "/etc/server.yaml" in found.reason.en
    assert found.paste == "--mem-fraction-static=0.82\n"


def test_a_value_outside_the_other_servers_range_is_refused() -> None:
    with pytest.raises(BadInput):
        change(at(command=SGLANG), "gpu-memory-utilization", 0.99)


def test_an_image_that_starts_its_server_takes_arguments_alone() -> None:
    here = at(image="ghcr.io/huggingface/text-generation-inference:3.3", args=["--model-id", "org/m"])
    assert after(here, "max-num-batched-tokens", 2048)["args"] == ["--model-id", "org/m", "--max-batch-prefill-tokens=2048"]


def test_a_variable_that_only_one_server_reads_is_not_set_for_another() -> None:
    found = environment_variable.change(at(command=SGLANG), "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "0")
    assert isinstance(found, Elsewhere)
    assert "SGLang" in found.reason.en
    assert isinstance(environment_variable.change(at(command=SGLANG), "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"), Change)
