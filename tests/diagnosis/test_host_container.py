"""Which container is the incident."""

import pytest

from bot.facts import ABSENT, UNKNOWN
from tests.diagnosis.scenes import ID, container, derived, killed, path, pod, status, terminated

SIDECAR = container("istio-proxy", "docker.io/istio/proxyv2:1.20", limit="128Mi")


def test_server_that_was_killed_comes_before_a_helper_that_ended_in_order() -> None:
    facts = derived(pod([container(), SIDECAR], [status(last=terminated(137, "OOMKilled")), status("istio-proxy", last=terminated(0, "Completed"))]))
    assert (facts.get("container.name"), facts.get("container.role")) == ("server", "server")


def test_helper_that_alone_was_killed_is_the_incident() -> None:
    facts = derived(pod([container(), SIDECAR], [status(), status("istio-proxy", last=terminated(137, "OOMKilled"))]))
    assert (facts.get("container.name"), facts.get("container.role")) == ("istio-proxy", "sidecar")


def test_server_that_crashed_comes_before_a_helper_that_was_killed_for_memory() -> None:
    facts = derived(pod([container(), SIDECAR], [status(last=terminated(1)), status("istio-proxy", last=terminated(137, "OOMKilled"))]))
    assert facts.get("container.name") == "server"


def test_kernel_record_decides_even_when_the_container_still_runs() -> None:
    facts = derived(pod([container(), SIDECAR], [status(container_id="c" * 64), status("istio-proxy")]), kernel=killed(path(ID), path(ID), "envoy"))
    assert facts.get("container.name") == "istio-proxy"


def test_init_container_that_fails_is_the_incident_while_the_server_waits() -> None:
    spec = {"initContainers": [container("storage-initializer", "kserve/storage-initializer:v0.17", "1Gi")]}
    waiting = status(state={"waiting": {"reason": "PodInitializing"}})
    failing = {"initContainerStatuses": [status("storage-initializer", {"waiting": {"reason": "CrashLoopBackOff"}}, terminated(137, "OOMKilled"))]}
    facts = derived(pod([container()], [waiting], spec=spec, status=failing))
    assert (facts.get("container.role"), facts.get("container.memory_limit_bytes")) == ("init", 2**30)


def test_init_container_with_restart_policy_always_is_a_helper() -> None:
    spec = {"initContainers": [container("router", "routing:1", "1Gi", restartPolicy="Always")]}
    facts = derived(pod([container()], [status()], spec=spec, status={"initContainerStatuses": [status("router", last=terminated(137, "OOMKilled"))]}))
    assert facts.get("container.role") == "sidecar"


def test_server_is_found_by_its_command_among_containers_without_names_that_tell() -> None:
    specs = [container("a", "registry.example.com/x:1"), container("b", "registry.example.com/y:1", command=["vllm", "serve", "m"])]
    facts = derived(pod(specs, [status("a"), status("b")]))
    assert facts.get("container.name") == "b"


def test_server_is_found_by_its_gpu_when_nothing_else_tells() -> None:
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    specs = [container("a", "registry.example.com/x:1"), {"name": "b", "image": "registry.example.com/y:1", **gpu}]
    assert derived(pod(specs, [status("a"), status("b")])).get("container.name") == "b"


def test_a_router_named_after_vllm_is_no_model_server() -> None:
    facts = derived(pod([container("router-container", "lmcache/lmstack-router:latest", "16Gi")], [status("router-container", last=terminated(137, "OOMKilled"))]))
    assert (facts.get("container.looks"), facts.get("container.role"), facts.get("container.large_for_its_kind")) == ("light", "server", True)


def test_a_small_limit_of_a_router_is_no_sign_of_growth() -> None:
    facts = derived(pod([container("router-container", "lmcache/lmstack-router:latest", "500Mi")], [status("router-container", last=terminated(137, "OOMKilled"))]))
    assert facts.get("container.large_for_its_kind") is False


def test_limit_that_was_resized_in_place_counts_as_it_is_now() -> None:
    facts = derived(pod([container(limit="32Gi")], [status(resources={"limits": {"memory": "48Gi"}})]))
    assert facts.get("container.memory_limit_bytes") == 48 * 2**30


def test_no_limit_is_known_to_be_absent_and_no_pod_leaves_it_unknown() -> None:
    assert derived(pod([container(limit=None)])).get("container.memory_limit_bytes") is ABSENT
    assert derived(kernel=killed(None, "/x")).get("container.memory_limit_bytes") is UNKNOWN


def test_shell_that_does_not_exec_keeps_the_signal() -> None:
    kept = container(command=["/bin/bash", "-c"], args=['eval "vllm serve m"; echo done'])
    handed = container(command=["/bin/bash", "-c"], args=["exec vllm serve m"])
    single = container(command=["sh", "-c"], args=["vllm serve m --port 8000"])
    plain = container(command=["vllm", "serve", "m"])
    assert [derived(pod([spec])).get("container.shell") for spec in (kept, handed, single, plain)] == ["no-exec", "exec", "exec", ABSENT]


def test_an_exporter_beside_a_server_is_a_helper_though_it_bears_the_servers_name() -> None:
    specs = [container("vllm-exporter", "registry.example.com/vllm-exporter:1", "100Mi"), container("main", "vllm/vllm-openai:v0.11.0")]
    facts = derived(pod(specs, [status("vllm-exporter", last=terminated(137, "OOMKilled")), status("main")]))
    assert (facts.get("container.name"), facts.get("container.role")) == ("vllm-exporter", "sidecar")


def test_second_engine_of_a_pod_is_a_server_too() -> None:
    second = container("decode", "vllm/vllm-openai:v0.11.0", args=["vllm", "serve", "m"])
    facts = derived(pod([container("prefill"), second], [status("prefill"), status("decode", last=terminated(137, "OOMKilled"))]))
    assert (facts.get("container.name"), facts.get("container.role")) == ("decode", "server")


def test_limit_larger_than_the_machine_is_seen() -> None:
    free = "$ free -g\n               total        used        free      shared  buff/cache   available\nMem:             125          10         100           0          15         110\n"
    found = [derived(pod([container(limit=limit)]), node=free).get("container.limit_above_node") for limit in ("256Gi", "64Gi")]
    assert found == [True, False]


def waits(name: str, reason: str, message: str = "") -> dict[str, object]:
    """A container that has not run."""
    return status(name, {"waiting": {"reason": reason, "message": message}}, ready=False, restartCount=0)


@pytest.mark.parametrize(
    "words",
    [
        "set memory limit 8388608 too low; should be at least 12582912 bytes",
        "container create failed: unable to set memory limit to 4194304 (current usage: 5242880, peak usage: 6291456)",
        'OCI runtime create failed: setting cgroup config for procHooks process caused "failed to write 8388608 to memory.limit_in_bytes: write /sys/fs/cgroup/memory/kubepods/pod1/c1/memory.limit_in_bytes: device or resource busy": unknown',
        "runc create failed: unable to start container process: container init was OOM-killed (memory limit too low?)",
        'OCI runtime create failed: starting container process caused "process_linux.go:449: container init caused \\"read init-p: connection reset by peer\\"": unknown',
        'OCI runtime create failed: starting container process caused "process_linux.go:303: getting the final child\'s pid from pipe caused \\"EOF\\"": unknown',
        "OCI runtime create failed: process_linux.go:105: possibly OOM-killed caused: read init-p: connection reset by peer",
    ],
)
def test_limit_that_the_runtime_finds_too_small_to_start_with_is_known_in_each_runtimes_words(words: str) -> None:
    facts = derived(pod([container(limit="8Mi")], [waits("server", "CreateContainerError", words)]))
    assert facts.get("container.start_oom") is True


def test_error_that_only_speaks_of_a_cgroup_is_no_limit_that_is_too_small() -> None:
    words = "OCI runtime create failed: mkdir /sys/fs/cgroup/memory/kubepods/pod1: device or resource busy"
    assert derived(pod([container(limit="8Mi")], [waits("server", "CreateContainerError", words)])).get("container.start_oom") is ABSENT


def test_broken_pipe_to_the_first_process_is_no_matter_of_a_roomy_limit() -> None:
    words = "OCI runtime create failed: container init caused: read init-p: connection reset by peer: unknown"
    assert derived(pod([container(limit="2Gi")], [waits("server", "RunContainerError", words)])).get("container.start_oom") is ABSENT


@pytest.mark.parametrize("reason", ["CreateContainerError", "ImagePullBackOff", "CreateContainerConfigError", "RunContainerError"])
def test_init_container_that_cannot_be_made_is_the_incident_while_the_server_waits_for_it(reason: str) -> None:
    spec = {"initContainers": [container("fetch", "registry.example.com/fetch:1", "8Mi")]}
    facts = derived(pod([container()], [waits("server", "PodInitializing")], spec=spec, status={"initContainerStatuses": [waits("fetch", reason)]}))
    assert (facts.get("container.name"), facts.get("container.role"), facts.get("container.waiting_reason")) == ("fetch", "init", reason)
