"""Kinds beside memory that were taken for each other: the hub, files, builds, the network, helpers of the runtime. What is not memory must not be advised as if it were."""

import json

import pytest

from bot.model import Certainty, Diagnosis
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import container, pod, status
from tests.diagnosis.test_pastes import frame, oom

READY = "INFO:     Application startup complete.\n"
STEP = "INFO 06-02 11:20:31 [loggers.py:118] Engine 000: Avg prompt throughput: 12.0 tokens/s, Avg generation throughput: 9.2 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 2.1%, Prefix cache hit rate: 0.0%\n"


def remedies(found: Diagnosis) -> list[str]:
    return [f"{each.remedy}:{each.direction}" if each.direction else each.remedy for each in found.recommendations]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/org/m/resolve/main/config.json", "refused"),
        ("OSError: You are trying to access a gated repo.", "refused"),
        ("requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/api/models/org/m", "could not be reached"),
        ("OSError: We couldn't connect to 'https://huggingface.co' to load the files.", "could not be reached"),
        ("safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge", "cut short"),
        ("SafetensorError: Error while serializing: IoError(Os { code: 28, kind: StorageFull })", "disk is full"),
        ("RuntimeError: Error building extension 'sampling'", "compiled"),
        ("NotImplementedError: No compiled cutlass_scaled_mm for a compute capability less than CUDA device capability: 120", "no code for this card"),
        ("RuntimeError: FlashAttention only supports Ampere GPUs or newer.", "no code for this card"),
    ],
)
def test_what_a_start_could_not_get_is_called_by_its_own_name(line: str, words: str) -> None:
    found = diagnose({"container.log": line + "\n"})
    assert found.cause == "application_error"
    assert words in found.summary.en


@pytest.mark.parametrize("status_line", ["401 Client Error: Unauthorized", "403 Client Error: Forbidden", "429 Client Error: Too Many Requests"])
def test_an_image_that_its_site_refuses_is_no_refusal_of_the_model(status_line: str) -> None:
    log = f"{READY}{STEP}requests.exceptions.HTTPError: {status_line} for url: https://images.example.com/cat.jpg\n{STEP}"
    assert diagnose({"container.log": log}).cause == "healthy"


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 89. Current capability: 80.",
        "RuntimeError: ('Quantization scheme is not supported for ', 'the current GPU. Min capability: 89. ', 'Current capability: 80.')",
    ],
)
def test_another_type_does_not_help_a_quantisation_that_the_card_lacks(line: str) -> None:
    found = diagnose({"container.log": line + "\n"})
    assert "89" in found.summary.en
    assert "80" in found.summary.en
    assert "dtype:change" not in remedies(found)


def test_a_length_beyond_the_model_names_the_length_that_is_allowed() -> None:
    line = "ValueError: User-specified max_model_len (65536) is greater than the derived max_model_len (max_position_embeddings=32768 or model_max_length=None in model's config.json).\n"
    found = diagnose({"container.log": line})
    assert found.cause == "application_error"
    assert "32,768" in found.recommendations[0].why.en


def test_a_warning_of_the_length_does_not_hide_what_failed_later() -> None:
    warning = "WARNING 06-02 11:20:31 [model.py:1] User-specified max_model_len (65536) is greater than the derived max_model_len (max_position_embeddings=32768). Make sure the value is correct and within the model context size.\n"
    found = diagnose({"container.log": warning + frame("vllm/v1/worker/gpu_model_runner.py", "profile_run") + oom()})
    assert found.cause == "profile_run_peak"


@pytest.mark.parametrize(
    "said",
    [
        "socketPollConnect: Connect to 10.0.0.9<37405> returned 113(No route to host) errno 115(Operation now in progress)",
        "socketPollConnect: exceeded timeouts (20000)",
        "ncclOsSocketPollConnect: connect to 10.0.0.9<37405> returned Connection refused, exceeded error retry count after 35 attempts",
    ],
)
def test_a_refused_connection_of_nccl_is_a_matter_of_the_network(said: str) -> None:
    log = f"node-2:24:24 [1] misc/socket.cc:533 NCCL WARN {said}\nRuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n"
    found = diagnose({"container.log": log})
    assert (found.cause, remedies(found)[0]) == ("nccl_failure", "network:fix")
    assert "custom_all_reduce:disable" not in remedies(found)


HOOK = "container create failed: error running hook #0: error running hook: exit status 137, stderr: nvidia-container-cli: line 5: 71 Killed"
LDCONFIG = "error running hook: exit status 1, stderr: nvidia-container-cli: ldcache error: process /sbin/ldconfig terminated with signal 9"


@pytest.mark.parametrize("message", [HOOK, LDCONFIG])
@pytest.mark.parametrize(("limit", "cause"), [("24Mi", "container_memory_limit"), ("40Gi", "unknown"), (None, "unknown")])
def test_a_helper_that_was_killed_before_the_program_is_no_fault_of_the_card(message: str, limit: str | None, cause: str) -> None:
    waiting = status(state={"waiting": {"reason": "CreateContainerError", "message": message}})
    found = diagnose({"pod.json": json.dumps(pod([container(limit=limit)], [waiting]))})
    assert found.cause == cause
    assert not {"drain_node", "driver:change"} & set(remedies(found))


def test_a_helper_that_failed_by_itself_is_a_fault_of_card_or_driver() -> None:
    message = "error running hook: exit status 1, stderr: nvidia-container-cli: initialization error: nvml error: driver not loaded"
    waiting = status(state={"waiting": {"reason": "CreateContainerError", "message": message}})
    assert diagnose({"pod.json": json.dumps(pod([container(limit="24Mi")], [waiting]))}).cause == "gpu_fault"


def test_an_engine_that_ended_with_a_code_of_its_own_printed_why() -> None:
    line = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{'EngineCore_DP0': {}}}\n"
    raised, gone = (diagnose({"container.log": line.format(code)}) for code in ("1", "{}"))
    assert (raised.cause, gone.cause) == ("unknown", "unknown")
    assert "code 1" in raised.summary.en
    assert "signal" not in raised.summary.en
    assert "printed above" in gone.summary.en


def test_a_replica_that_serve_gave_up_is_not_healthy_for_what_others_print() -> None:
    line = "WARNING 2026-06-25 04:40:02 controller 17 -- Didn't receive health check response for replica Replica(id='r', deployment='vLLM', app='a') after 10.0s, marking it unhealthy.\n"
    found = diagnose({"container.log": STEP + line + STEP})
    assert (found.cause, remedies(found)[0]) == ("probe_kill", "probe:relax")
    assert diagnose({"container.log": STEP + STEP}).cause == "healthy"


def test_an_illegal_access_of_a_program_takes_no_node_out_of_service() -> None:
    line = "[1014.7] NVRM: Xid (PCI:0000:01:00): {}, pid=4711, name=VLLM::EngineCor, Ch 00000008\n"
    assert "drain_node" not in remedies(diagnose({"kernel.log": line.format(31)}))
    assert "drain_node" in remedies(diagnose({"kernel.log": line.format(48)}))


def test_a_kernel_too_large_for_the_chip_is_halved_only_where_the_type_is_wide() -> None:
    line = "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.\n"
    assert "dtype:change" not in remedies(diagnose({"container.log": line}))
    assert "dtype:change" in remedies(diagnose({"container.log": line, "args.txt": "vllm serve /models/m --dtype float32\n"}))


def test_too_few_state_blocks_ask_for_fewer_sequences() -> None:
    log = "ERROR 03-30 17:26:53 [core.py:1100]     assert num_cache_lines >= batch\nERROR 03-30 17:26:53 [core.py:1100] AssertionError\n"
    found = diagnose({"container.log": log})
    assert (found.cause, remedies(found)[0]) == ("kv_cache_too_small", "max_num_seqs:lower")


OOM = frame("vllm/v1/worker/gpu_model_runner.py", "profile_run") + oom()
RESET = "node-2:24:24 [1] misc/socket.cc:57 NCCL WARN socketProgressOpt: Call to recv from 10.0.0.9<37405> failed : Connection reset by peer\n"
REFUSED = "node-2:24:24 [1] NCCL INFO socketPollConnect: connect returned Connection refused, retrying ({}/34) after sleep for 300 msec\n"


@pytest.mark.parametrize("log", [OOM + RESET, RESET + OOM, REFUSED.format(3) + OOM])
def test_a_rank_that_ran_out_is_not_blamed_on_the_network_that_lost_it(log: str) -> None:
    assert diagnose({"container.log": log}).cause == "profile_run_peak"


def test_a_broken_connection_alone_leaves_open_whether_the_peer_died() -> None:
    found = diagnose({"container.log": RESET})
    assert (found.cause, found.certainty, remedies(found)[0]) == ("nccl_failure", Certainty.LIKELY, "network:fix")
    assert diagnose({"container.log": REFUSED.format(34)}).cause == "nccl_failure"
    assert diagnose({"container.log": REFUSED.format(3)}).cause == "unknown"


@pytest.mark.parametrize(
    "line",
    [
        "ERROR 06-02 11:20:13 [repo_utils.py:45] Error retrieving safetensors: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/m'. Use `repo_type` argument if needed.\n",
        "ERROR 06-02 11:20:13 [repo_utils.py:47] Error retrieving file list: 429 Client Error: Too Many Requests for url: https://huggingface.co/api/models/org/m/tree/main, retrying 1 of 2\n",
        "WARNING 06-02 11:20:13 [layer.py:1] The hidden size 2880 is not divisible by 128; it is padded.\n",
        "Could not cache non-existence of file. Will ignore error and continue. Error: [Errno 28] No space left on device: '/root/.cache/m'\n",
    ],
)
@pytest.mark.parametrize("after", ["", "Loading safetensors checkpoint shards:  10% Completed | 1/10 [00:02<00:18,  2.00s/it]\n"])
def test_an_error_that_the_server_goes_on_from_is_not_the_cause_where_the_log_just_stops(line: str, after: str) -> None:
    assert diagnose({"container.log": line + after}).cause == "unknown"


@pytest.mark.parametrize(
    ("line", "cause", "words"),
    [
        ("Subprocess scheduler_0 (pid=118) crashed with exit code -9. Triggering SIGQUIT for cleanup...", "unknown", "SIGKILL"),
        ("Child process unexpectedly failed with exitcode=9. pid=118", "unknown", "SIGKILL"),
        ("Subprocess scheduler_0 (pid=118) crashed with exit code -11. Triggering SIGQUIT for cleanup...", "segfault", "SIGSEGV"),
        ("Child process unexpectedly failed with exitcode=256. pid=118", "unknown", "an error that it prints"),
        ("Received sigquit from a child process. It usually means the child failed.", "unknown", "an error that it prints"),
    ],
)
def test_how_a_child_of_sglang_ended_is_read_from_the_code_that_its_parent_saw(line: str, cause: str, words: str) -> None:
    found = diagnose({"container.log": f"[2026-03-01 02:01:26] {line}\n"})
    assert found.cause == cause
    assert words in found.summary.en
    error = "[2026-03-01 02:01:25 TP0] Scheduler hit an exception: Traceback (most recent call last):\nValueError: unknown backend\n\n"
    assert diagnose({"container.log": f"{error}[2026-03-01 02:01:26] {line}\n"}).cause == "application_error"


def test_a_crash_during_capture_is_no_lack_of_memory_and_is_avoided_without_graphs() -> None:
    hint = "INFO 02-27 16:08:51 model_runner.py:760] CUDA graphs can take additional 1~3 GiB memory per GPU. If you are running out of memory, consider decreasing `gpu_memory_utilization` or enforcing eager mode.\n"
    crash = "Fatal Python error: Segmentation fault\n\nStack (most recent call first):\n"
    capture = '  File "/opt/venv/lib/python3.9/site-packages/vllm/worker/model_runner.py", line 725 in capture_model\n'
    found = diagnose({"container.log": hint + crash + capture})
    assert found.cause == "segfault"
    assert "enforce_eager:enable" in remedies(found)
    assert "enforce_eager:enable" not in remedies(diagnose({"container.log": crash}))
