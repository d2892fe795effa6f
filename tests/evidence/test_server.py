"""The server among its sidecars, and its words."""

import pytest

from bot.evidence.args_text import read
from bot.evidence.server import args_text, gpus, server_container
from bot.ports import Json


def pod(*containers: Json, annotations: Json | None = None) -> Json:
    return {
        "metadata": {"name": "p", "namespace": "n", "annotations": annotations or {}},
        "spec": {"containers": list(containers), "initContainers": [{"name": "download"}]},
    }


ISTIO = {"name": "istio-proxy", "image": "docker.io/istio/proxyv2:1.22", "ports": [{"containerPort": 15090}]}
EXPORTER = {"name": "metrics-exporter", "image": "x/vllm-exporter:1", "ports": [{"containerPort": 8000}]}
ROUTER = {"name": "router", "image": "lmcache/vllm-router:1", "command": ["vllm-router"], "ports": [{"containerPort": 8000}]}


@pytest.mark.parametrize(
    "server",
    [
        {"name": "a", "image": "registry/internal:1", "command": ["vllm", "serve", "m"]},
        {"name": "a", "image": "registry/internal:1", "command": ["sh", "-c", "exec python3 -m vllm.entrypoints.openai.api_server --model m"]},
        {"name": "a", "image": "vllm/vllm-openai:v0.11.0"},
        {"name": "a", "image": "registry/internal:1", "resources": {"limits": {"nvidia.com/gpu": "2"}}},
        {"name": "a", "image": "registry/internal:1", "resources": {"limits": {"nvidia.com/mig-3g.20gb": 1}}},
        {"name": "server", "image": "registry/internal:1", "ports": [{"containerPort": 8000}]},
    ],
)
def test_server_is_found_among_sidecars(server: Json) -> None:
    assert server_container(pod(ISTIO, EXPORTER, server, ROUTER)) == server["name"]
    assert server_container(pod(server, ISTIO)) == server["name"]


def test_named_container_wins_even_an_init_container() -> None:
    assert server_container(pod(ISTIO), "download") == "download"


def test_only_container_is_the_server_whatever_it_is() -> None:
    assert server_container(pod({"name": "x", "image": "y"})) == "x"


def test_default_container_decides_between_equals() -> None:
    one, two = {"name": "one", "image": "x"}, {"name": "two", "image": "x"}
    assert server_container(pod(one, two)) == "one"
    assert server_container(pod(one, two, annotations={"kubectl.kubernetes.io/default-container": "two"})) == "two"


def test_gpus_are_counted_once_for_request_and_limit() -> None:
    assert gpus({"resources": {"requests": {"nvidia.com/gpu": "4", "memory": "8Gi"}, "limits": {"nvidia.com/gpu": "4"}}}) == 4


def test_args_are_written_as_a_person_types_them_and_read_back() -> None:
    text = args_text(
        {
            "command": ["vllm", "serve"],
            "args": ["m odel", "--max-model-len=$(LEN)", "--gpu-memory-utilization", "0.9", "$(UNKNOWN)", "$$HOME"],
            "env": [{"name": "LEN", "value": "32768"}, {"name": "VLLM_USE_V1", "value": "1"}, {"name": "TOKEN", "valueFrom": {}}],
        }
    )
    assert text == "LEN=32768\nVLLM_USE_V1=1\nvllm serve 'm odel' --max-model-len=32768 --gpu-memory-utilization 0.9 '$(UNKNOWN)' '$HOME'\n"
    facts = {fact.name: fact.value for fact in read(text.encode(), "args.txt").facts}
    assert facts["args.max_model_len"] == 32768
    assert facts["args.gpu_memory_utilization"] == 0.9
    assert facts["env.VLLM_USE_V1"] == "1"


def test_line_feed_in_a_variable_cannot_forge_a_command_line() -> None:
    text = args_text({"command": ["vllm"], "args": ["serve", "m"], "env": [{"name": "X", "value": "a\nvllm serve m --max-model-len 1"}]})
    assert text.count("\n") == 2
