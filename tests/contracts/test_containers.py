"""Logs and exec, through the API server to the kubelet."""

import pytest
from kubernetes import client
from kubernetes.stream import stream

from tests.contracts.lane import CRASHES, SERVES, Lane, refused, wait_for, waits_for_gpu


def _log(lane: Lane, pod: str, **how: object) -> str:
    answer = lane.core().read_namespaced_pod_log(pod, lane.namespace, _preload_content=False, **how)
    text = answer.data.decode()
    answer.release_conn()
    return str(text)


def _exec(lane: Lane, pod: str, *argv: str) -> tuple[str, str, int]:
    call = client.CoreV1Api(client.ApiClient(lane.api().configuration)).connect_get_namespaced_pod_exec
    session = stream(call, pod, lane.namespace, command=list(argv), stdout=True, stderr=True, stdin=False, tty=False, _preload_content=False)
    session.run_forever(timeout=10)
    return session.read_stdout(), session.read_stderr(), session.returncode


@pytest.fixture
def crashed(lane: Lane) -> tuple[Lane, str]:
    lane.deploy(CRASHES)
    return lane, lane.crashed_pod(2)["metadata"]["name"]


def test_the_log_is_what_the_container_printed(lane: Lane) -> None:
    lane.deploy()
    name = lane.ready_pod()["metadata"]["name"]
    assert _log(lane, name) == "loading\nserving\n"
    assert _log(lane, name, tail_lines=1) == "serving\n"
    assert _log(lane, name, limit_bytes=4) == "load"
    assert _log(lane, name, tail_lines=0) == ""
    assert _log(lane, name, container="server", since_seconds=3600) == "loading\nserving\n"


def test_timestamps_stand_before_each_line(lane: Lane) -> None:
    lane.deploy()
    name = lane.ready_pod()["metadata"]["name"]
    first, second = _log(lane, name, timestamps=True).splitlines()
    assert first.startswith("20")
    assert first.split(" ")[0].endswith("Z")
    assert second.endswith(" serving")


def test_the_previous_log_is_that_of_the_run_before(crashed: tuple[Lane, str]) -> None:
    lane, name = crashed
    assert _log(lane, name, previous=True) == "first line\nsecond line\nValueError: no room\n"


def test_there_is_no_previous_log_of_a_first_run(lane: Lane) -> None:
    lane.deploy()
    name = lane.ready_pod()["metadata"]["name"]
    code, status = refused(lambda: lane.core().read_namespaced_pod_log(name, lane.namespace, previous=True))
    assert code == 400
    assert status["message"] == f'previous terminated container "server" in pod "{name}" not found'


def test_the_log_of_a_pod_that_found_no_node_is_empty(lane: Lane) -> None:
    lane.deploy(gpus=2)
    pod = wait_for("a pod that waits", lambda: next((pod for pod in lane.pods() if waits_for_gpu(pod)), None))
    assert _log(lane, pod["metadata"]["name"]) == ""


def test_a_container_that_is_not_there_is_a_bad_request(lane: Lane) -> None:
    lane.deploy()
    name = lane.ready_pod()["metadata"]["name"]
    code, status = refused(lambda: lane.core().read_namespaced_pod_log(name, lane.namespace, container="other"))
    assert (code, status["message"]) == (400, f"container other is not valid for pod {name}")


def test_with_two_containers_one_must_be_named(lane: Lane) -> None:
    manifest = lane.workload("Deployment")
    manifest["spec"]["template"]["spec"]["containers"].append({"name": "proxy", "image": "registry.example/proxy:1"})
    lane.cluster.apply(manifest)
    name = lane.ready_pod()["metadata"]["name"]
    code, status = refused(lambda: lane.core().read_namespaced_pod_log(name, lane.namespace))
    assert (code, status["message"]) == (400, f"a container name must be specified for pod {name}, choose one of: [server proxy]")
    assert _log(lane, name, container="proxy") == "loading\nserving\n"


def test_exec_brings_output_and_exit_status(lane: Lane) -> None:
    lane.deploy(SERVES)
    name = lane.ready_pod()["metadata"]["name"]
    stdout, stderr, status = _exec(lane, name, "nvidia-smi", "-L")
    assert (stdout.startswith("GPU 0: NVIDIA L40S (UUID: GPU-"), stderr, status) == (True, "", 0)
    assert _exec(lane, name, "false")[2] == 1
    stdout, stderr, status = _exec(lane, name, "no-such-program", "; rm -rf /")
    assert (stdout, status) == ("", 127)
    assert "command not found" in stderr


def test_exec_passes_words_as_they_are(lane: Lane) -> None:
    lane.deploy(SERVES)
    name = lane.ready_pod()["metadata"]["name"]
    assert _exec(lane, name, "echo", "a  b", "$(id)", "&& c")[0] == "a  b $(id) && c\n"


def test_an_init_container_has_a_log_too(lane: Lane) -> None:
    manifest = lane.workload("Deployment")
    manifest["spec"]["template"]["spec"]["initContainers"] = [{"name": "fetch", "image": "registry.example/fetch:1"}]
    template = manifest["spec"]["template"]["metadata"]["annotations"]
    template["sandbox.oombot.io/script.fetch"] = '{"log": ["fetched"], "exit_code": 0, "exit_after": 1, "reason": "Completed"}'
    lane.cluster.apply(manifest)
    pod = lane.ready_pod()
    assert _log(lane, pod["metadata"]["name"], container="fetch") == "fetched\n"
    (row,) = pod["status"]["initContainerStatuses"]
    assert (row["ready"], row["state"]["terminated"]["exitCode"], row["state"]["terminated"]["reason"]) == (True, 0, "Completed")
