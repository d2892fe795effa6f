"""A wrong setting ends the start at its phase; the right one makes it serve; the wrong fix does not."""

import pytest

from tests.sandbox.vllm.starts import L4, L40S, STRAY, log, start, starts

FREE = "on startup is less than desired GPU memory utilization"
CONTEXT = "the estimated maximum model length is"
CAPTURE = "CUDA out of memory. Tried to allocate"
SAMPLER = "when warming up sampler with 512 dummy requests"


@pytest.mark.parametrize(
    ("model", "card", "given", "message", "helps", "does_not_help"),
    [
        ("chat-32b-w6", L40S, ["--max-model-len=131072"], CONTEXT, ["--max-model-len=57344"], ["--gpu-memory-utilization=0.95"]),
        ("chat-9b", L4, ["--gpu-memory-utilization=0.86"], "No available memory for the cache blocks", ["--gpu-memory-utilization=0.92"], ["--gpu-memory-utilization=0.80"]),
        ("chat-9b", L4, ["--gpu-memory-utilization=0.86"], "No available memory for the cache blocks", ["--gpu-memory-utilization=0.92"], ["--max-model-len=1024"]),
        ("moe-30b", L40S, ["--gpu-memory-utilization=0.97"], CAPTURE, ["--gpu-memory-utilization=0.94"], ["--max-model-len=2048"]),
        ("moe-30b", L40S, ["--gpu-memory-utilization=0.97"], CAPTURE, ["--enforce-eager"], ["--kv-cache-dtype=fp8"]),
        ("code-14b", L40S, ["--gpu-memory-utilization=0.95"], CAPTURE, ["--gpu-memory-utilization=0.92"], ["--gpu-memory-utilization=0.96"]),
        ("code-14b", L40S, ["--gpu-memory-utilization=0.95"], CAPTURE, ["--max-num-seqs=64"], ["--max-model-len=16384"]),
        ("small-1b", L4, ["--gpu-memory-utilization=0.96", "--max-num-seqs=512"], SAMPLER, ["--max-num-seqs=256"], ["--max-model-len=1024"]),
        ("chat-70b", L40S, [], CAPTURE, ["--quantization=bitsandbytes", "--gpu-memory-utilization=0.98", "--max-model-len=2048", "--enforce-eager"], ["--gpu-memory-utilization=0.7"]),
    ],
)  # fmt: skip
def test_a_setting_fails_at_its_phase_and_only_the_right_change_helps(
    model: str, card: float, given: list[str], message: str, helps: list[str], does_not_help: list[str]
) -> None:
    failed = start(model, *given, card_gib=card)
    assert failed.end is not None
    assert message in log(failed)
    # The last one given wins, as on a real command line.
    assert starts(start(model, *given, *helps, card_gib=card)), log(start(model, *given, *helps, card_gib=card))[-400:]
    assert not starts(start(model, *given, *does_not_help, card_gib=card))


def test_somebody_else_on_the_card_refuses_the_start_until_less_is_asked_for() -> None:
    refused = start("small-1b", card_gib=L4, others=STRAY)
    assert FREE in log(refused)
    assert "(12.58/22.05 GiB)" in log(refused)
    assert "Starting to load model" not in log(refused), "the check comes before the weights"
    assert starts(start("small-1b", "--gpu-memory-utilization=0.55", card_gib=L4, others=STRAY))
    assert FREE in log(start("small-1b", "--max-num-seqs=8", card_gib=L4, others=STRAY))


def test_two_cards_hold_what_one_does_not() -> None:
    assert not starts(start("chat-32b-w6", "--max-model-len=131072"))
    assert starts(start("chat-32b-w6", "--max-model-len=131072", "-tp", "2", cards=2))
    assert "World size (2) is larger than the number of available GPUs (1)" in log(start("chat-32b-w6", "-tp", "2", cards=1))


def test_every_rank_prints_its_own_ledger() -> None:
    text = log(start("chat-32b-w6", "--tensor-parallel-size=2", cards=2))
    assert text.count("Available KV cache memory:") == 2
    assert "(Worker_TP0 pid=300)" in text
    assert "(Worker_TP1 pid=301)" in text


def test_the_smallest_rank_decides() -> None:
    polluted = start("small-1b", "-tp", "2", cards=2, others=((7, 30 << 30),))
    assert FREE in log(polluted)


def test_host_memory_is_another_matter() -> None:
    killed = start("embed-7b", limit_gib=24)
    assert killed.end is not None
    assert (killed.end.exit_code, killed.end.reason) == (137, "OOMKilled")
    assert killed.end.kill is not None
    assert killed.end.kill.limit == 24 << 30
    assert "Error" not in log(killed), "a killed process says nothing"
    assert starts(start("embed-7b", limit_gib=32))
    assert not starts(start("embed-7b", "--gpu-memory-utilization=0.5", limit_gib=24))


def test_a_start_that_fails_ends_with_one_and_names_the_engine() -> None:
    failed = start("chat-32b-w6")
    assert failed.end is not None
    assert failed.end.exit_code == 1
    assert log(failed).rstrip().endswith("Failed core proc(s): {'EngineCore_DP0': 1}")


def test_an_engine_that_dies_while_serving_ends_politely() -> None:
    died = start("code-14b", "--gpu-memory-utilization=0.95")
    assert died.end is not None
    assert died.ready_at is not None
    assert died.end.at > died.ready_at + 60
    assert died.end.exit_code == 0
    text = log(died)
    assert text.index("Application startup complete") < text.index("EngineCore encountered a fatal error") < text.index("EngineDeadError")


def test_phases_come_in_their_order() -> None:
    text = log(start("small-1b"))
    marks = ["vLLM API server version 0.11.0", "Initializing a V1 LLM engine", "Starting to load model", "Model loading took", "Available KV cache memory",
             "GPU KV cache size", "Capturing CUDA graphs", "Graph capturing finished", "init engine", "Application startup complete"]  # fmt: skip
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)


def test_the_same_start_prints_the_same() -> None:
    assert log(start("moe-30b")) == log(start("moe-30b"))


def test_memory_on_the_card_grows_with_the_phases() -> None:
    play = start("small-1b")
    assert play.ready_at is not None
    assert play.held(0.0) == 0
    assert 0 < play.held(20.0) < play.held(play.ready_at + 1)
    assert 0.9 * 44.4 - 1 < play.held(play.ready_at + 1) / (1 << 30) < 44.4


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--gpu-memory-utilization=high"], "argument --gpu-memory-utilization: invalid float value: 'high'"),
        (["--max-model-len=1.5X"], "invalid human_readable_int value: '1.5X'"),
        (["--no-such-thing=1"], "unrecognized arguments: --no-such-thing"),
        (["--max-num-seqs"], "argument --max-num-seqs: expected one argument"),
    ],
)
def test_a_wrong_command_line_ends_with_two(args: list[str], message: str) -> None:
    play = start("small-1b", *args)
    assert play.end is not None
    assert play.end.exit_code == 2
    assert message in log(play)


def test_a_utilisation_above_one_is_refused_in_the_words_of_the_version() -> None:
    assert "GPU memory utilization must be less than 1.0. Got 90.0." in log(start("small-1b", "--gpu-memory-utilization=90"))
    assert "Input should be less than or equal to 1" in log(start("small-1b", "--gpu-memory-utilization=90", version="0.13.0"))


def test_a_model_that_nobody_has_is_not_memory() -> None:
    play = start("nobody-has-this")
    assert play.end is not None
    assert "is not a valid model identifier" in log(play)
