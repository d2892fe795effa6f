"""`oombot size`, the way a person calls it."""

import json
import re
from pathlib import Path

import pytest

from bot.__main__ import main
from bot.units import gib
from tests.diagnosis.real_ledgers import start

CASES = Path(__file__).parents[1] / "cases"
ARGUMENTS = {"gpu_memory_utilization": "--gpu-memory-utilization", "max_model_len": "--max-model-len", "tensor_parallel_size": "--tensor-parallel-size"}
LLAMA = {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}


def bundle(folder: Path, name: str, **more: str) -> str:
    """A bundle of one real start: its log, and the arguments of its server."""
    each = start(name)
    (folder / "container.log").write_text("\n".join(each.lines) + "\n", encoding="utf-8")
    stated = {"gpu_memory_utilization": each.printed.get("u"), "max_model_len": each.printed.get("max_model_len")}
    words = [f"{ARGUMENTS[key]} {value}" for key, value in stated.items() if value is not None]
    (folder / "args.txt").write_text(" ".join(["vllm serve", more.get("model", "/models/m"), *words]), encoding="utf-8")
    return str(folder)


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main(["size", *words, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["size", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1, "one line"
    assert "Traceback" not in printed.err
    return printed.err


def test_the_answer_has_the_keys_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, str(CASES / "gpu-022"), "--set", "gpu_memory_utilization=0.88")
    assert set(found) == {"before", "after", "fits", "margin_bytes", "notes"}
    assert found["fits"] is True
    before, after = found["before"], found["after"]
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert before.keys() == after.keys()
    assert before["failed"] == "available_kv_bytes <= 0"
    assert after["failed"] is None
    assert after["available_kv_bytes"] == pytest.approx(gib(-1.05 + 0.18 * 8.0), abs=gib(0.01))


@pytest.mark.parametrize(("first", "second"), [("011+", 0.95), ("053+", 0.97), ("056+", 0.92)])
def test_another_utilisation_is_answered_from_the_log_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str], first: str, second: float) -> None:
    expected = {"011+": 4.55, "053+": 36.42, "056+": 13.77}[first]
    found = asked(capsys, bundle(tmp_path, first), "--set", f"gpu-memory-utilization={second}")
    after = found["after"]
    assert isinstance(after, dict)
    assert after["available_kv_bytes"] == pytest.approx(gib(expected), abs=gib(0.16))


@pytest.mark.parametrize(("first", "second", "expected", "card"), [("050", 0.9, 9.1, "22.06GiB"), ("059", 0.85, 28.74, "121.69GiB"), ("056", 0.80, 11.06, "22.06GiB"), ("062", 0.70, -2.96, "15.5GiB")])
def test_a_card_that_the_log_does_not_name_can_be_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], first: str, second: float, expected: float, card: str
) -> None:
    path = bundle(tmp_path, first)
    assert "--card" in refused(capsys, path, "--set", f"gpu_memory_utilization={second}")
    after = asked(capsys, path, "--card", card, "--set", f"gpu_memory_utilization={second}")["after"]
    assert isinstance(after, dict)
    assert after["available_kv_bytes"] == pytest.approx(gib(expected), abs=gib(0.165))


def test_a_file_alone_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle(tmp_path, "020")
    found = asked(capsys, str(tmp_path / "container.log"), "--set", "max_model_len=100k", "gpu_memory_utilization=0.9")
    after = found["after"]
    assert isinstance(after, dict)
    assert (after["max_model_len"], after["utilization"]) == (100_000, 0.9)
    assert found["fits"] is True


def test_a_change_that_does_not_fit_is_an_answer_too(capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, str(CASES / "gpu-033"), "--set", "max-model-len=900000")
    assert found["fits"] is False
    assert isinstance(found["margin_bytes"], int)
    assert found["margin_bytes"] < 0
    after = found["after"]
    assert isinstance(after, dict)
    assert after["failed"] == "needed_kv_bytes > available_kv_bytes"


def test_the_text_shows_both_ledgers_and_every_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", str(CASES / "gpu-022"), "--set", "gpu_memory_utilization=0.75"]) == 0
    text = capsys.readouterr().out
    assert "Does not fit." in text
    assert "-1.05 GiB" in text
    assert "does not hold" in text


def test_notes_are_said_in_chinese_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", str(CASES / "gpu-022"), "--set", "gpu_memory_utilization=0.88", "--language", "zh"]) == 0
    text = capsys.readouterr().out
    assert "成立" in text
    assert re.findall(r"[a-z]{3,}", re.sub(r"\w+_\w+|token|graph", "", text)) == []


def test_columns_stand_under_each_other_in_chinese_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", str(CASES / "gpu-022"), "--set", "gpu_memory_utilization=0.88", "--language", "zh"]) == 0
    table = [line.removesuffix("  *") for line in capsys.readouterr().out.partition("放")[0].splitlines()]
    assert {len(line) + sum(ord(letter) > 0x2E80 for letter in line) for line in table if line} == {54}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "gpu_memory_utilization=90"], "above 0 and at most 1"),
        (["--set", "gpu_memory_utilization=much"], "a number like 0.9"),
        (["--set", "swap_space=4"], "no setting 'swap_space'"),
        (["--set", "max_model_len"], "KNOB=VALUE"),
        (["--set", "max_model_len=1.5K"], "a fraction goes with"),
        (["--set", "max_model_len=" + "9" * 400], "a whole number"),
        (["--set", "max_num_seqs=64"], "cannot be computed"),
        (["--set", "enforce_eager=maybe"], "true or false"),
        ([], "nothing to change"),
    ],
)
def test_bad_input_gets_one_line_that_says_what_would_be_right(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert said in refused(capsys, str(CASES / "gpu-022"), *words)


def test_the_length_of_a_hybrid_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, bundle(tmp_path, "087"), "--set", "max_model_len=65536")
    assert "not every layer" in said


def test_a_log_without_a_ledger_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no memory ledger" in refused(capsys, str(CASES / "gpu-001"), "--set", "max_model_len=4096")


def test_a_path_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such file" in refused(capsys, "/nowhere/at/all", "--set", "max_model_len=4096")


def test_a_damaged_log_is_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "container.log").write_bytes(b"\xff\xfe\x00Available KV cache memory: " + b"9" * 500 + b" GiB\nAvailable KV cache memory: -- GiB\n\x80\x81")
    refused(capsys, str(tmp_path), "--set", "gpu_memory_utilization=0.9")


def test_a_model_is_put_on_as_many_cards_as_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    found = asked(capsys, str(tmp_path / "config.json"), "--card", "14.5GiB", "--set", "max_model_len=8192")
    assert (found["fits"], found["cards"]) == (True, 2)
    assert main(["size", str(tmp_path / "config.json"), "--card", "79.2GiB"]) == 0
    assert "Fits on one card" in capsys.readouterr().out
    assert main(["size", str(tmp_path / "config.json"), "--card", "79.2GiB", "--language", "zh"]) == 0
    assert capsys.readouterr().out.startswith("权重需要")
    assert "how large a card" in refused(capsys, str(tmp_path / "config.json"))


def test_a_card_may_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    by_name = asked(capsys, str(tmp_path / "config.json"), "--card", "A100 80GB", "--set", "max_model_len=8192")
    assert by_name == asked(capsys, str(tmp_path / "config.json"), "--card", "79.2GiB", "--set", "max_model_len=8192")
    assert by_name["notes"] == []


def test_what_was_assumed_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "max_position_embeddings": 131072}))
    assert main(["size", str(tmp_path / "config.json"), "--card", "80GB"]) == 0
    said = capsys.readouterr().out
    assert "8,192 is assumed, the model's own is 131,072" in said
    assert "80GB was read as 74.51 GiB" in said


def test_a_request_that_is_too_long_is_not_blamed_on_the_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "max_position_embeddings": 131072}))
    assert main(["size", str(tmp_path / "config.json"), "--card", "79.2GiB", "--set", "max_model_len=999999999"]) == 0
    said = capsys.readouterr().out
    assert "would fit, but one request of 999,999,999 tokens fits on no number of cards" in said
    assert "The model's own longest length is 131,072." in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--card", "80"], "with its unit, like 79.2GiB"),
        (["--card", "x"], "with its unit, like 79.2GiB"),
        (["--card", "0GiB"], "with its unit, like 79.2GiB"),
        (["--card", "H100"], "its full name"),  # comes in more than one size
        (["--card", "80GiB", "--set", "max_model_len=0"], "at least 1"),
        (["--card", "80GiB", "--set", "kv_cache_dtype=fp7"], "must be one of auto, bfloat16"),
        (["--card", "80GiB", "--set", "quantization=mystery"], "must be one of fp8"),
        (["--card", "80GiB", "--set", "dtype=float"], ""),
        (["--card", "80GiB", "--set", "dtype=int3"], "must be one of auto, float32"),
    ],
)
def test_bad_input_for_a_model_gets_one_line_too(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    if said:
        assert said in refused(capsys, str(tmp_path / "config.json"), *words)
    else:
        assert asked(capsys, str(tmp_path / "config.json"), *words)["fits"] is True


@pytest.mark.parametrize("content", ["", "[]", "{", "nonsense", "[" * 100_000, '{"hidden_size": "many"}'])
def test_a_damaged_configuration_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    refused(capsys, str(tmp_path / "config.json"), "--card", "80GiB")
