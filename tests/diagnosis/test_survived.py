"""A server that goes on answering long after a fatal word has survived it, or a client's text says that word: such an answer is never sure."""

import pytest

from bot.model import Certainty
from tests.diagnosis.bundles import diagnose

START = """INFO 05-02 10:00:01 api_server.py:283] vLLM API server version 0.6.3
INFO 05-02 10:00:20 model_runner.py:1067] Loading model weights took 14.2500 GB
INFO 05-02 10:00:25 gpu_executor.py:122] # GPU blocks: 3745, # CPU blocks: 4681
INFO 05-02 10:00:40 launcher.py:28] Available routes are:
INFO:     Application startup complete.
INFO 05-02 10:01:00 metrics.py:349] Avg prompt throughput: 100.0 tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 3.0%.
"""
PROMPT = "INFO 05-02 10:02:00 logger.py:37] Received request chat-7: prompt: 'what does this mean:\n"
WORDS = """EngineCore encountered a fatal error.
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.57 GiB of which 1.10 GiB is free. Including \
non-PyTorch memory, this process has 22.45 GiB memory in use. Of the allocated memory 21.90 GiB is allocated by PyTorch, and 112.00 MiB is reserved.
"""
END = "', params: SamplingParams(n=1), prompt_token_ids: [1], lora_request: None.\n"


def later(minute: int) -> str:
    return (
        'INFO:     10.0.0.9:4711 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
        f"INFO 05-02 10:{minute:02}:00 metrics.py:349] Avg prompt throughput: 90.0 tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, "
        "GPU KV cache usage: 2.0%.\n"
    )


def test_a_failure_that_a_client_wrote_is_never_sure() -> None:
    found = diagnose({"container.log": START + PROMPT + WORDS + END + "".join(map(later, range(4, 34)))})
    assert found.certainty is Certainty.POSSIBLE
    assert ["200 OK" in quote.quote for quote in found.against] == [True]


def test_the_same_words_at_the_end_of_a_server_are_as_sure_as_before() -> None:
    found = diagnose({"container.log": START + WORDS})
    assert found.cause == "runtime_burst"
    assert found.certainty is not Certainty.POSSIBLE
    assert found.against == ()


def test_answers_that_were_on_their_way_are_no_life() -> None:
    found = diagnose({"container.log": START + later(2) + WORDS + later(2)})
    assert found.cause == "runtime_burst"
    assert found.certainty is not Certainty.POSSIBLE


FAILURES = {
    "runtime_burst": WORDS.splitlines()[1],
    "gpu_fault": "ERROR 05-02 10:05:00 core.py:574] RuntimeError: CUDA error: an illegal memory access was encountered",
    "nccl_failure": "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error (run with NCCL_DEBUG=INFO for details)",
}
PROBE = 'INFO:     10.0.0.9:4711 - "GET /health HTTP/1.1" 200 OK\n'


@pytest.mark.parametrize("cause", FAILURES)
@pytest.mark.parametrize("behind", [later(5).splitlines()[1], PROBE, later(7)], ids=["load", "probe", "late"])
def test_signs_of_life_behind_a_failure_of_a_serving_server_make_it_no_healthy_one(cause: str, behind: str) -> None:
    assert diagnose({"container.log": START + FAILURES[cause] + "\n" + behind}).cause == cause


DEATHS = {
    "a worker": ("ERROR 05-02 10:05:00 [multiproc_executor.py:230] Worker proc VllmWorker-1 died unexpectedly, shutting down executor.", "unknown"),
    "the engine": ("ERROR 05-02 10:05:00 [core_client.py:600] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.", "unknown"),
    "no answer": ("ERROR 05-02 10:05:00 [core.py:710] TimeoutError: RPC call to execute_model timed out.", "unknown"),
    "a collective": ("[rank1]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600071 ms", "nccl_failure"),
    "a child of SGLang": ("[2026-05-02 10:05:00] Subprocess scheduler_0 (pid=77) crashed with exit code -11", "segfault"),
}


@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("behind", [PROBE, later(5), later(5) + PROBE], ids=["probe", "load", "both"])
def test_a_front_that_still_answers_makes_no_dead_worker_healthy(death: str, behind: str) -> None:
    line, cause = DEATHS[death]
    assert diagnose({"container.log": START + line + "\n" + behind}).cause == cause


@pytest.mark.parametrize("death", DEATHS)
def test_a_new_start_does_away_with_the_death_before_it(death: str) -> None:
    assert diagnose({"container.log": START + DEATHS[death][0] + "\n" + START + later(9)}).cause == "healthy"


def test_a_load_report_behind_a_failure_shows_no_start_that_survived_it() -> None:
    assert diagnose({"container.log": FAILURES["gpu_fault"] + "\n" + later(7).splitlines()[1]}).cause == "gpu_fault"


ECHOES = (
    "INFO 05-02 10:02:00 logger.py:37] Received request chat-7: prompt: '{}', params: SamplingParams(n=1), lora_request: None.",
    "DEBUG 05-02 10:02:00 [logger.py:61] Request chat-7 details: prompt: '{}', prompt_token_ids: [1], prompt_embeds shape: None.",
    "INFO 05-02 10:02:00 [logger.py:98] Generated response chat-7 (streaming complete): output: '{}', output_token_ids: [3], finish_reason: stop",
    "(APIServer pid=1) ERROR 05-02 10:02:00 [serving.py:12] Error with model error=ErrorInfo(message='The model `{}` does not exist.', type='NotFoundError')",
    "WARNING 05-02 10:02:00 [protocol.py:51] The following fields were present in the request but ignored: {{'{}'}}",
    "[2026-05-02 10:02:00] Receive: obj=GenerateReqInput(rid='a', text='{}', sampling_params={{}})",
    "2026-05-02T10:02:00.123456789Z stdout F INFO 05-02 10:02:00 logger.py:37] Received request chat-7: prompt: '" + "x" * 6000 + " {}', params: None",
)


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("word", [*FAILURES.values(), "Out of memory: Killed process 77 (vllm)", "[shutdown] API server: shutdown triggered", "EngineDeadError"])
def test_a_record_that_repeats_what_a_client_sent_is_no_failure(echo: str, word: str) -> None:
    found = diagnose({"container.log": START + echo.format(word) + "\n" + later(3)})
    assert (found.cause, [advice.id for advice in found.recommendations]) == ("healthy", ["none"])


@pytest.mark.parametrize("behind", ["2026-05-02T10:02:00.706418Z ERROR shard-manager: text_generation_launcher: Shard terminated rank=1", ECHOES[0].format("hello")])
def test_lines_that_a_server_prints_in_any_stage_are_no_sign_of_life(behind: str) -> None:
    failure = "[E ProcessGroupNCCL.cpp:474] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=60000)"
    assert diagnose({"container.log": failure + "\n" + behind + "\n"}).cause == "nccl_failure"


def test_a_failure_beside_a_record_of_what_a_client_sent_is_found() -> None:
    found = diagnose({"container.log": START + ECHOES[0].format("EngineDeadError") + "\n" + WORDS})
    assert found.cause == "runtime_burst"
    assert found.certainty is not Certainty.POSSIBLE
