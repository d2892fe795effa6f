"""What servers other than vLLM say of their end: told to stop, one of Ray's own processes gone, an assertion of ggml, memory that WSL holds back."""

import pytest

from tests.diagnosis.bundles import diagnose

SERVING = "[2026-05-02 10:05:00 TP0] Decode batch. #running-req: 1, #token: 911, token usage: 0.00, gen throughput (token/s): 61.22, #queue-req: 0\n"
STOPS = (
    "[2026-05-02 10:06:00] SIGTERM received. signum=15 frame=None. Draining requests and shutting down...\n[2026-05-02 10:06:00] Gracefully exiting... Remaining number of requests 0.",
    "2026-05-02T10:06:00.706418Z  INFO text_generation_router::server: router/src/server.rs:2500: signal received, starting graceful shutdown",
    "Signal (15) received.\nTimeout 30: Found 1 live models and 0 in-flight non-inference requests",
)
FAILED = "[2026-05-02 10:05:30 TP0] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.57 GiB of which 1.10 GiB is free.\n"
UP = "2026-05-02 10:00:00,204\tSUCC scripts.py:861 -- Ray runtime started.\n"
GONE = "2026-05-02 10:09:00,204\tERR scripts.py:1009 -- Some Ray subprocesses exited unexpectedly:\n2026-05-02 10:09:00,204\tERR scripts.py:1013 -- {}\n"


@pytest.mark.parametrize("stop", STOPS)
def test_a_stop_that_was_asked_for_is_no_failure(stop: str) -> None:
    assert diagnose({"container.log": SERVING + stop + "\n"}).cause == "normal_termination"


@pytest.mark.parametrize("stop", STOPS)
def test_a_failure_before_the_stop_stays_the_cause(stop: str) -> None:
    assert diagnose({"container.log": SERVING + FAILED + stop + "\n"}).cause not in ("normal_termination", "healthy", "unknown")


def test_a_stop_while_the_server_still_started_leaves_open_whether_a_probe_asked_for_it() -> None:
    loading = "Loading safetensors checkpoint shards:   0% Completed | 0/2 [00:00<?, ?it/s]\n"
    for end in ("KeyboardInterrupt: terminated\n", "(APIServer pid=1) KeyboardInterrupt: terminated\n"):
        found = diagnose({"container.log": loading + end})
        assert (found.cause, [rival.cause for rival in found.runners_up]) == ("normal_termination", ["probe_kill"])
        assert [advice.remedy for advice in found.recommendations] == ["none", "probe"]
        assert found.gaps[0].source == "events.json"
    interrupted = diagnose({"container.log": loading + "KeyboardInterrupt\n"})
    assert (interrupted.cause, interrupted.runners_up) == ("normal_termination", ()), "a person at the terminal is no probe"
    assert diagnose({"container.log": loading + FAILED + "KeyboardInterrupt: terminated\n"}).cause not in ("normal_termination", "probe_kill", "unknown")


@pytest.mark.parametrize(("end", "cause"), [("raylet [exit code=-11]", "segfault"), ("gcs_server [exit code=-6]", "abort"), ("raylet [exit code=1]", "unknown")])
def test_rays_own_process_that_ended_is_named(end: str, cause: str) -> None:
    assert diagnose({"container.log": UP}).cause == "healthy"
    found = diagnose({"container.log": UP + GONE.format(end)})
    assert found.cause == cause
    assert end in " ".join(quote.quote for quote in found.evidence)


def test_a_kill_of_rays_own_process_is_not_laid_on_anybody() -> None:
    found = diagnose({"container.log": UP + GONE.format("raylet [exit code=-9]")})
    assert found.cause == "unknown"
    assert not found.recommendations


def test_a_ray_process_that_was_told_to_end_had_not_failed() -> None:
    told = "[2026-05-02 10:09:00,341 E 700 700] logging.cc:460: *** SIGTERM received at time=1777716540 on cpu 3 ***\n"
    assert diagnose({"container.log": told}).cause == "normal_termination"
    assert diagnose({"container.log": told + "ray.exceptions.ObjectStoreFullError: Failed to put object aa in object store because it is full.\n"}).cause == "ray_object_store"


def test_a_device_that_is_not_ready_under_wsl_lacks_memory_that_windows_holds() -> None:
    log = "RuntimeError: CUDA driver error: device not ready\n"
    refused = "[ 5129.4] misc dxg: dxgk: dxgkio_make_resident: Ioctl failed: -12\n"
    at_boot = "[    1.2] misc dxg: dxgk: dxgkio_query_adapter_info: Ioctl failed: -22\n"
    assert diagnose({"container.log": log, "kernel.log": refused}).cause == "reserved_memory"
    assert diagnose({"container.log": log, "kernel.log": at_boot}).cause == "unknown"
    assert diagnose({"container.log": log}).cause == "unknown"


TRACE = "libggml-base.so(ggml_print_backtrace+0x21f)[0x72edb99cd82f]\nlibggml-base.so(ggml_abort+0x152)[0x72edb99cda02]\n"


@pytest.mark.parametrize(
    ("above", "cause", "certainty"),
    [
        ("", "abort", "possible"),
        ("/app/src/llama-context.cpp:919: GGML_ASSERT(n_tokens_all <= cparams.n_batch) failed\n", "abort", "likely"),
        ("/app/ggml/src/ggml.c:1470: GGML_ASSERT(ctx->mem_buffer != NULL) failed\n", "node_out_of_memory", "likely"),
        ("ROCm error: invalid device function\n", "application_error", "likely"),
    ],
)
def test_the_stack_of_ggml_says_less_than_what_stands_above_it(above: str, cause: str, certainty: str) -> None:
    found = diagnose({"container.log": above + TRACE})
    assert (found.cause, found.certainty.value) == (cause, certainty)


def test_a_card_that_was_full_stays_the_cause_above_the_stack_of_ggml() -> None:
    assert diagnose({"container.log": "CUDA error: out of memory\n/app/ggml/src/ggml-cuda/ggml-cuda.cu:97: CUDA error\n" + TRACE}).cause == "gpu_oom"


UNIT = "$ journalctl -u chat\nFeb 03 04:05:06 gpu-7 systemd[1]: chat.service: Main process exited, code={}\n"


@pytest.mark.parametrize(
    ("code", "cause"),
    [("killed, status=11/SEGV", "segfault"), ("dumped, status=11/SEGV", "segfault"), ("dumped, status=6/ABRT", "abort"), ("killed, status=9/KILL", "unknown"), ("exited, status=0/SUCCESS", "unknown")],
)
def test_a_unit_that_crashed_is_told_from_one_that_was_killed(code: str, cause: str) -> None:
    assert diagnose({"node_readings.txt": UNIT.format(code)}).cause == cause


@pytest.mark.parametrize(("code", "cause"), [(139, "segfault"), (134, "abort"), (135, "shm_too_small"), (137, "unknown")])
def test_what_compose_prints_behind_a_service_names_its_end(code: int, cause: str) -> None:
    assert diagnose({"container.log": f"chat-1  | INFO 02-03 04:05:06 [gpu_model_runner.py:1] Starting to load model m...\nchat-1 exited with code {code}\n"}).cause == cause
