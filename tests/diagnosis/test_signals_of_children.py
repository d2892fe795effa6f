"""Ends by a signal that a parent process or a launcher tells of: which signal, of what kind of process, and what is advised."""

import pytest

from tests.diagnosis.bundles import diagnose

LOADER = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    main()\nRuntimeError: DataLoader worker (pid 402) is killed by signal: {}. \n'


def _advice(log: str) -> list[str]:
    return [one.id for one in diagnose({"container.log": log}).recommendations]


def test_crash_of_a_data_loader_is_no_matter_of_the_servers_release() -> None:
    assert diagnose({"container.log": LOADER.format("Segmentation fault")}).cause == "segfault"
    assert _advice(LOADER.format("Segmentation fault"))[0] == "application:fix"
    assert "vllm_version:change" not in _advice(LOADER.format("Aborted"))


@pytest.mark.parametrize(
    "line",
    [
        LOADER.format("Terminated"),
        "[2026-01-14 09:31:07,001: ERROR/MainProcess] Task handler raised error: WorkerLostError('Worker exited prematurely: signal 15 (SIGTERM) Job: 4.')\n",
        "billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 15 (SIGTERM) Job: 4.\n",
        "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGTERM\n",
    ],
)
def test_child_that_was_told_to_stop_is_laid_to_nobody(line: str) -> None:
    found = diagnose({"container.log": line})
    assert found.cause == "unknown"
    assert not found.recommendations
    assert "memory_limit:raise" in [f"{one.remedy}:{one.direction}" for one in found.will_not_help]


def test_worker_that_aborted_is_an_abort_whoever_tells_of_it() -> None:
    for line in ("billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 6 (SIGABRT) Job: 4.\n", LOADER.format("Aborted")):
        assert diagnose({"container.log": line}).cause == "abort"


def test_ranks_stopped_after_a_killed_one_do_not_hide_it() -> None:
    log = "[ERROR] failed (exitcode: -15) local_rank: 3 (pid: 405) of binary: /usr/bin/python3\n[ERROR] failed (exitcode: -9) local_rank: 0 (pid: 402) of binary: /usr/bin/python3\n"
    assert "SIGKILL" in diagnose({"container.log": log}).summary.en


@pytest.mark.parametrize("number", ["1", "Signals.SIGHUP"])
def test_launcher_that_lost_its_terminal_is_told_to_leave_it(number: str) -> None:
    log = (
        f"WARNING:torch.distributed.elastic.agent.server.api:Received {number} death signal, shutting down workers\n"
        "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 8505 closing signal SIGHUP\n"
        f"torch.distributed.elastic.multiprocessing.api.SignalException: Process 8493 got signal: {number}\n"
    )
    found = diagnose({"container.log": log})
    assert (found.cause, [one.id for one in found.recommendations]) == ("normal_termination", ["application:fix"])
    assert "terminal" in found.summary.en
    other = diagnose({"container.log": log.replace(number, "15").replace("SIGHUP", "SIGTERM")})
    assert other.cause == "normal_termination"
    assert "terminal" not in other.summary.en


def test_thread_that_a_rule_refuses_is_no_limit_of_numbers() -> None:
    log = "OpenBLAS blas_thread_init: pthread_create failed for thread 7 of 96: {}\nOpenBLAS blas_thread_init: RLIMIT_NPROC -1 current, -1 max\nRuntimeError: can't start new thread\n"
    refused, limited = (diagnose({"container.log": log.format(why)}) for why in ("Operation not permitted", "Resource temporarily unavailable"))
    assert refused.cause == limited.cause == "application_error"
    assert "seccomp" in refused.summary.en
    assert "seccomp" not in limited.summary.en


def test_program_of_no_known_server_is_not_told_to_change_a_servers_release() -> None:
    assert "vllm_version:change" not in _advice(
        "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\nAborted (core dumped)\n"
    )


def test_crash_in_a_cards_library_asks_for_its_driver() -> None:
    for library in ("libamdhip64.so.6", "libcuda.so.1"):
        line = f"kernel: python3[409]: segfault at 100 ip 00007f2711b2d282 sp 00007fffa29a1530 error 4 in {library}[7f2711a00000+3f3000]\n"
        assert diagnose({"kernel.log": line}).recommendations[0].id == "driver:change"
