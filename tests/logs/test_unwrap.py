"""Lines that a terminal or a mail broke are read as one; what is whole stays as it is."""

import textwrap

import pytest

from bot.logs.unwrap import joined
from tests.diagnosis.bundles import diagnose

REFUSAL = (
    "ValueError: Free memory on device (20.33/23.69 GiB) on startup is less than desired GPU memory utilization (0.9, 21.32 GiB). "
    "Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
LOAD = (
    "(EngineCore_DP0 pid=77) ERROR 02-03 10:10:10 [gpu_model_runner.py:3905] Failed to load model - not enough GPU memory. Try lowering "
    "--gpu-memory-utilization to free memory for weights, increasing --tensor-parallel-size, or using --quantization. (original error: CUDA out of "
    "memory. Tried to allocate 1.45 GiB. GPU 0 has a total capacity of 31.36 GiB of which 1.02 GiB is free. Including non-PyTorch memory, this process "
    "has 30.33 GiB memory in use. Of the allocated memory 29.70 GiB is allocated by PyTorch, and 14.20 MiB is reserved by PyTorch but unallocated.)"
)


def broken(text: str, width: int, mark: str = "") -> str:
    return "\n".join(mark + line for line in textwrap.wrap(text, width)) + "\n"


@pytest.mark.parametrize("width", [60, 72, 80, 100, 132])
@pytest.mark.parametrize("mark", ["", "> ", "    "])
@pytest.mark.parametrize(("text", "cause"), [(REFUSAL, "free_memory_below_request"), (LOAD, "weights_too_large")])
def test_a_message_broken_between_words_is_understood(text: str, cause: str, width: int, mark: str) -> None:
    assert diagnose({"container.log": broken(text, width, mark)}).cause == cause


@pytest.mark.parametrize("width", [61, 80, 120])
def test_a_message_broken_at_the_edge_of_a_terminal_is_understood(width: int) -> None:
    text = "\n".join(LOAD[begin : begin + width] for begin in range(0, len(LOAD), width))
    found = diagnose({"container.log": text})
    assert found.cause == "weights_too_large"


def test_each_joined_line_is_quoted_by_the_first_line_that_it_was_made_of() -> None:
    text = "starting\n" + broken(REFUSAL, 72)
    quote = diagnose({"container.log": text}).evidence[0]
    assert quote.line == 2
    assert quote.quote == text.split("\n")[1]


def test_lines_that_begin_as_lines_of_their_own_are_not_joined() -> None:
    text = (
        b"INFO 02-03 10:10:10 [a.py:1] a line of a server that is long enough\n"
        b'  File "/opt/vllm/engine.py", line 3, in step that is long enough too\n'
        b"ValueError: and an exception behind it, no less long than the others\n"
        b"(Worker_TP0 pid=3) INFO 02-03 10:10:10 [a.py:1] one of another process\n"
    )
    assert joined(text) is None


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("position", ["before", "behind"])
def test_a_terminal_broke_lines_also_where_another_line_is_long(width: int, position: str) -> None:
    long = "INFO 02-03 10:10:01 [api.py:1] routes: {" + ", ".join(f"'option_{number}': {number}" for number in range(30)) + "}\n"
    text = "\n".join(LOAD[begin : begin + width] for begin in range(0, len(LOAD), width)) + "\n"
    found = diagnose({"container.log": long + text if position == "before" else text + long})
    assert found.cause == "weights_too_large"


def test_lines_of_many_lengths_are_not_joined_where_another_line_is_long() -> None:
    lines = [b"a line of a server that is " + b"x" * number for number in range(20, 60, 3)]
    assert joined(b"\n".join([*lines, b"y" * 300])) is None


def test_a_text_with_one_long_line_is_no_broken_text() -> None:
    assert joined(REFUSAL.encode() * 3 + b"\n" + broken(REFUSAL, 72).encode()) is None


def test_what_stands_whole_counts_before_what_is_joined() -> None:
    whole = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 1.0 GiB is free."
    found = diagnose(
        {
            "container.log": '  File "/opt/vllm/worker.py", line 9, in load_model\n'
            + whole
            + "\nand some words of the reporter behind it, that are long enough to be joined\n"
        }
    )
    assert found.phase is not None
    assert found.phase.value == "weights"


@pytest.mark.parametrize("width", [72, 80, 100, 132])
@pytest.mark.parametrize("indent", ["  ", "    ", "        "])
@pytest.mark.parametrize(("text", "cause"), [(REFUSAL, "free_memory_below_request"), (LOAD, "weights_too_large")])
def test_a_message_whose_broken_lines_hang_by_an_indent_is_understood(text: str, cause: str, indent: str, width: int) -> None:
    before = "(EngineCore_DP0 pid=77) INFO 02-03 10:10:01 [gpu_worker.py:298] Loading weights took 3.2 seconds\n"
    assert diagnose({"container.log": before + "\n".join(textwrap.wrap(text, width, subsequent_indent=indent)) + "\n"}).cause == cause


def test_frames_of_a_stack_do_not_hang_under_what_was_logged_before_them() -> None:
    text = (
        b"ERROR 02-03 10:10:10 [core.py:1] Traceback (most recent call last):\n"
        b'  File "/opt/vllm/engine.py", line 3, in step that is long enough too\n'
        b"    value = step(that, is, long, enough, to, be, taken, for, a, part)\n"
        b"           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
    )
    assert joined(text) is None


def test_the_ledger_of_a_healthy_start_is_read_from_broken_lines_too() -> None:
    lines = [
        "(EngineCore pid=81) INFO 04-19 10:50:03 [gpu_model_runner.py:4820] Model loading took 9.4 GiB memory and 141.5 seconds",
        "(EngineCore pid=81) INFO 04-19 10:50:43 [gpu_worker.py:436] Available KV cache memory: 9.1 GiB",
        "(EngineCore pid=81) INFO 04-19 10:50:43 [kv_cache_utils.py:1319] GPU KV cache size: 49,696 tokens",
        "(EngineCore pid=81) INFO 04-19 10:50:43 [kv_cache_utils.py:1324] Maximum concurrency for 4,096 tokens per request: 12.13x",
    ]
    whole = diagnose({"container.log": "\n".join(lines) + "\n"}).ledger
    assert whole is not None
    broken_lines = [part for line in lines for part in textwrap.wrap(line, 72, subsequent_indent="  ")]
    assert len(broken_lines) > len(lines)
    assert diagnose({"container.log": "\n".join(broken_lines) + "\n"}).ledger == whole
