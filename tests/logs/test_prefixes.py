"""What wraps a line is taken off by one mechanism and never a reason to miss."""

import pytest

from bot.logs.prefixes import strip

MESSAGE = "Available KV cache memory: 10.58 GiB"


@pytest.mark.parametrize(
    ("line", "process", "pid", "rank"),
    [
        (f"INFO 04-09 08:52:40 llm_engine.py:98] {MESSAGE}", "", None, None),
        (f"INFO 04-09 08:52:40 [gpu_worker.py:298] {MESSAGE}", "", None, None),
        (f"(EngineCore_DP0 pid=270) INFO 10-26 09:22:34 [v1/worker/gpu_worker.py:4244] {MESSAGE}", "EngineCore_DP0", 270, None),
        (f"(VllmWorker rank=1 pid=771) INFO 04-21 02:30:02 [gpu_worker.py:1395] {MESSAGE}", "VllmWorker", 771, 1),
        (f"(Worker_DP0_PP0_TP3_EP3 pid=9) INFO 04-21 02:30:02 [gpu_worker.py:1395] {MESSAGE}", "Worker_DP0_PP0_TP3_EP3", 9, 3),
        (f"\x1b[1;36m(EngineCore_DP0 pid=12)\x1b[0;0m INFO 04-21 02:30:02 [gpu_worker.py:1] {MESSAGE}", "EngineCore_DP0", 12, None),
        (f"(RayWorkerWrapper pid=55, ip=192.0.2.4) INFO 04-21 02:30:02 gpu_worker.py:1] {MESSAGE}", "RayWorkerWrapper", 55, None),
        (f"[Stage-1] INFO 04-09 08:52:40 [a.py:98] {MESSAGE}", "Stage-1", None, None),
        (f"(Worker pid=9) [Stage-0] INFO 04-09 08:52:40 [a.py:98] {MESSAGE}", "Worker/Stage-0", 9, None),
        (f"[rank2]: {MESSAGE}", "", None, 2),
        (f"2025-07-29T12:19:19.333973773+07:00 stdout F INFO 04-09 08:52:40 [a.py:98] {MESSAGE}", "", None, None),
        (f"2026-04-19 12:18:36.268 | INFO 04-09 08:52:40 [a.py:98] {MESSAGE}", "", None, None),
        (f"vllm-1  | (EngineCore pid=3) INFO 04-09 08:52:40 [a.py:98] {MESSAGE}", "EngineCore", 3, None),
        (f"[pod/chat-0/server] 2025-07-29T12:19:19Z INFO 04-09 08:52:40 [a.py:98] {MESSAGE}", "", None, None),
        (f"Nov 30 11:22:33 gpu-node-7 vllm[811]: INFO 04-09 08:52:40 [a.py:98] {MESSAGE}", "", None, None),
        (f"    (EngineCore pid=3) INFO 04-09 08:52:40 [a.py:98] {MESSAGE}", "EngineCore", 3, None),
        (f"> > (EngineCore pid=3) INFO 04-09 08:52:40 [a.py:98] {MESSAGE}", "EngineCore", 3, None),
        (f"3: [rank7]: {MESSAGE}", "", None, 7),
        (f"2026-03-14 08:12:05,123 - INFO - [server] (EngineCore pid=3) INFO 04-09 08:52:40 [a.py:98] {MESSAGE}", "EngineCore", 3, None),
        (f"2026-03-14 08:12:05,123 - __main__ - INFO - vLLM: {MESSAGE}", "", None, None),
        (f"INFO:vllm_launcher:{MESSAGE}", "", None, None),
        (f"[vllm] {MESSAGE}", "", None, None),
        (f"[08:12:05] {MESSAGE}", "", None, None),
        (f"0|vllm     | (EngineCore pid=3) {MESSAGE}", "EngineCore", 3, None),
        (f"   812\t(EngineCore pid=3) {MESSAGE}", "EngineCore", 3, None),
        (f"│ {MESSAGE}", "", None, None),
        (f"    | {MESSAGE}", "", None, None),
        (
            '{"log":"(EngineCore pid=3) INFO 04-09 08:52:40 [a.py:98] ' + MESSAGE + '\\n","stream":"stderr","time":"2025-07-29T12:19:19.33Z"}',
            "EngineCore",
            3,
            None,
        ),
        (
            '{"asctime": "2026-11-30 10:00:00", "levelname": "INFO", "processName": "EngineCore_DP0", "message": "' + MESSAGE + '"}',
            "EngineCore_DP0",
            None,
            None,
        ),
    ],
)
def test_every_prefix_is_taken_off_and_kept_as_fact(line: str, process: str, pid: int | None, rank: int | None) -> None:
    prefix, text = strip(line)
    assert text == MESSAGE
    assert (prefix.process, prefix.pid, prefix.rank) == (process, pid, rank)


def test_the_time_of_a_line_is_kept_whatever_its_form() -> None:
    forms = ["INFO 03-02 00:00:10 [a.py:1] x", "2026-03-02T00:00:10Z x", "I0302 00:00:10.000000   1 a.go:12] x", "Mar  2 00:00:10 host app: x"]
    assert {strip(form)[0].seconds for form in forms} == {(31 + 28 + 2) * 86400 + 10}


def test_the_outer_clock_counts_since_only_it_stands_on_every_line() -> None:
    outer = strip("2026-03-02T05:00:10Z INFO 03-02 12:00:10 [a.py:1] x")[0].seconds
    assert outer == strip("2026-03-02T05:00:10Z Traceback (most recent call last):")[0].seconds


@pytest.mark.parametrize("word", ["stderr", "stdout", "ERROR", "INFO"])
def test_the_name_of_a_stream_or_of_a_level_is_no_server(word: str) -> None:
    prefix, text = strip(f"llm-7d9c8b5f6d-x7k2p vllm 2024-04-27 10:13:05 | ERROR | {word} | {MESSAGE}")
    assert (prefix.service, prefix.level, text) == ("llm-7d9c8b5f6d-x7k2p/vllm", word if word.isupper() else "ERROR", MESSAGE)


def test_compose_names_the_server_and_a_table_is_no_prefix() -> None:
    assert strip("chat-1  | INFO:     Application startup complete.")[0].service == "chat-1"
    assert strip("| 0   N/A  N/A   811   C   python |")[0].service == ""


@pytest.mark.parametrize("line", ["", "\x00\x01", "(" * 5000, '{"log":"' + "[" * 4000, "2026-13-45T99:99:99Z x", "[rank99999999999]: x", '{"message": 3}'])
def test_odd_lines_are_left_as_they_are(line: str) -> None:
    _, text = strip(line)
    assert len(text) <= len(line)
