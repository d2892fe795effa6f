"""What platforms, batch systems and parents of workers say of an end: what they did themselves counts, what they guess does not."""

import pytest

from bot.model import Certainty
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import killed, path, pod, status, terminated

LIMITS = (
    "OutOfMemoryError: Container killed due to memory usage",
    "Memory limit of 4096 MiB exceeded with 4211 MiB used. Consider increasing the memory limit",
    '2026-01-14T09:31:07Z  Terminated  Exit Code: 137, Exit Message: "OOM Killed"',
    "Container [pid=8811,containerID=container_1_01_000004] is running beyond physical memory limits. Current usage: 8.1 GB of 8 GB physical memory used",
    "Reason: Container killed by YARN for exceeding memory limits. 8.1 GB of 8 GB physical memory used.",
    "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
)
SIGKILLS = (
    "billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 9 (SIGKILL) Job: 0.",
    "Process 'ForkPoolWorker-2' pid:31 exited with 'signal 9 (SIGKILL)'",
    "TerminatedWorkerError: A worker process was unexpectedly terminated. The exit codes of the workers are {SIGKILL(-9)}",
    "mpirun noticed that process rank 3 with PID 812 on node n1 exited on signal 9 (Killed).",
    "Task exited with return code Negsignal.SIGKILL",
)


@pytest.mark.parametrize("line", LIMITS)
def test_platform_that_ended_it_at_its_limit_is_believed_but_never_certain(line: str) -> None:
    found = diagnose({"container.log": f"INFO starting\n{line}\n"})
    assert (found.cause, found.certainty) == ("container_memory_limit", Certainty.LIKELY)
    assert next(advice.id for advice in found.recommendations) == "host_memory_use:lower"


@pytest.mark.parametrize("line", SIGKILLS)
def test_parent_that_saw_sigkill_is_no_exception_of_the_program_and_names_no_memory(line: str) -> None:
    found = diagnose({"container.log": f"INFO starting\n{line}\n"})
    assert (found.cause, found.recommendations) == ("unknown", ())
    assert "SIGKILL" in found.summary.en
    beside = {"pod.json": pod(statuses=[status(last=terminated(137, "Error"))]), "kernel.log": killed(path(), path(), "python3"), "previous.log": f"{line}\n"}
    assert diagnose(beside).family == "host_memory"


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("Process 'ForkPoolWorker-2' pid:31 exited with 'signal 11 (SIGSEGV)'", "segfault"),
        ("memory allocation of 8589934592 bytes failed\nAborted (core dumped)", "abort"),
        ("fatal error: runtime: out of memory", "abort"),
        ("Error: model requires more system memory (18.3 GiB) than is available (11.2 GiB)", "node_out_of_memory"),
        ("-bash: fork: Cannot allocate memory", "node_out_of_memory"),
        ("Your session crashed after using all available RAM.", "node_out_of_memory"),
        ("distributed.nanny.memory - WARNING - Worker tcp://10.0.0.4:41 (pid=8) exceeded 95% memory budget. Restarting...", "container_memory_limit"),
        ("A process in the process pool was terminated abruptly while the future was running or pending.", "unknown"),
    ],
)
def test_other_words_of_an_end_have_their_cause(line: str, cause: str) -> None:
    found = diagnose({"container.log": f"INFO starting\n{line}\n"})
    assert found.cause == cause
    assert found.certainty is not Certainty.CERTAIN


@pytest.mark.parametrize(
    "line",
    [
        "The node with node id: 71ab and address: 10.0.0.9 has been marked dead because the detector has missed too many heartbeats from it.",
        "ray.exceptions.ObjectLostError: Failed to retrieve object 71ab. The object was lost due to node failure.",
        "[2026-01-14 09:31:07,1 E 88 88] gcs_rpc_client.h:179: Failed to connect to GCS at address 10.0.0.1:6379 within 5 seconds.",
    ],
)
def test_ray_that_lost_a_machine_or_its_head_says_so(line: str) -> None:
    found = diagnose({"container.log": f"INFO starting\n{line}\n"})
    assert (found.cause, [advice.id for advice in found.recommendations]) == ("node_lost", ["restart", "network:fix"])


def test_interface_that_gloo_does_not_find_is_a_matter_of_the_network() -> None:
    line = "RuntimeError: [enforce fail at gloo/transport/tcp/device.cc:83] ifa != nullptr. Unable to find address for: eth7"
    assert diagnose({"container.log": f"{line}\n"}).cause == "nccl_failure"


IMPLICIT = "node:__internal_implicit_resource_shop:ranker"
RAY_STATUS = """======== Autoscaler status: 2026-01-14 09:31:07.118204 ========
Node status
---------------------------------------------------------------
Active:
 2 gpu_worker
Pending:
 (no pending nodes)

Resources
---------------------------------------------------------------
Usage:
 3.0/24.0 CPU
 1.0/4.0 GPU

Demands:
 {{'GPU': 0.5, '{asked}': 0.5}}: 1+ pending tasks/actors
"""


@pytest.mark.parametrize(("asked", "advice"), [(IMPLICIT, "max_replicas_per_node"), ("node:10.0.0.9", "bring the node back")])
def test_resource_that_ray_made_itself_is_told_from_a_node_that_is_away(asked: str, advice: str) -> None:
    line = "WARNING 2026-01-14 09:31:07,133 controller 14 -- Deployment 'ranker' in application 'shop' has 1 replicas that have taken more than 30s to be scheduled."
    found = diagnose({"container.log": f"{line}\n", "ray_status.txt": RAY_STATUS.format(asked=asked)})
    assert (found.cause, asked in found.summary.en) == ("unschedulable", True)
    first = found.recommendations[0]
    assert first.id == "ray_resources:fix"
    assert first.why is not None
    assert advice in first.why.en
    assert ("network:fix" in [one.id for one in found.recommendations]) is (asked != IMPLICIT)


def test_engine_that_ray_built_on_a_node_without_cards_does_not_wait_for_them() -> None:
    line = "ValueError: Current node has no GPU available. current_node_resource={'node:10.0.0.7': 1.0, 'CPU': 7.0}. vLLM engine cannot start without GPU."
    found = diagnose({"container.log": f"{line}\n"})
    assert found.cause == "unschedulable"
    assert "waits" not in found.summary.en
    assert "network:fix" not in [advice.id for advice in found.recommendations]


@pytest.mark.parametrize(("before", "loads"), [("", False), ("INFO 01-14 09:31:07 [gpu_model_runner.py:5100] Starting to load model /models/m...\n", True)])
def test_way_of_loading_is_no_matter_for_a_driver_that_loaded_no_model(before: str, loads: bool) -> None:
    line = "com.databricks.backend.common.rpc.DriverStoppedException: Driver down cause: driver state change (exit code: 137)"
    found = diagnose({"container.log": f"{before}{line}\n"})
    assert (found.cause, found.certainty) == ("node_out_of_memory", Certainty.POSSIBLE)
    assert ("load_format:change" in [advice.id for advice in found.recommendations]) is loads
