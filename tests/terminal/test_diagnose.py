"""`oombot diagnose`, `lint` and `explain` as a person calls them: what is printed, and the exit status."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.__main__ import main

CASES = Path(__file__).parent.parent / "cases"
CONTEXT = "gpu-035"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(list(words))
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def answers(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_each_path_gets_one_line_of_json_in_the_order_given(capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(CASES / name) for name in ("gpu-022", CONTEXT, "gpu-001")]
    status, out, _ = run(capsys, "diagnose", "--json", *paths)
    assert status == 0
    assert [answer["path"] for answer in answers(out)] == paths
    assert [answer["cause"] for answer in answers(out)] == ["kv_cache_too_small", "context_exceeds_kv_cache", "weights_too_large"]


def test_the_note_says_mechanism_proof_sum_change_and_what_will_not_help(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "diagnose", str(CASES / CONTEXT))
    for part in (
        "One request of 131,072 tokens needs 2.25 GiB of cache",
        "Certain.",
        "container.log:6",
        "left for the cache",
        "Fix: --max-model-len 131072 -> 99328.",
        "Will not help:",
    ):
        assert part in " ".join(out.split())


def test_the_note_speaks_chinese_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "diagnose", "--language", "zh", str(CASES / CONTEXT))
    assert "确定" in out
    assert "无济于事" in out


def test_an_undecided_case_says_what_would_decide(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "diagnose", str(CASES / "gpu-092"))
    assert "Cannot tell." in out
    assert out.index("What decides it:") < out.index("Nothing to change yet.") < out.index("Proof:")
    assert "kernel.log: whether the kernel killed a process for memory (not in the evidence)" in out


def test_a_missing_path_is_exit_2_with_one_line_and_the_others_are_answered(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out, err = run(capsys, "diagnose", "--json", str(tmp_path / "nope"), str(CASES / "gpu-001"), str(tmp_path / "gone"))
    assert status == 2
    assert len(answers(out)) == 1
    assert err.splitlines() == [f"oombot: {tmp_path / name}: no such file or folder" for name in ("nope", "gone")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_exit_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x")
    (tmp_path / "a.log").chmod(0)
    status, _, err = run(capsys, "diagnose", str(tmp_path / "a.log"))
    assert status == 2
    assert "permission denied" in err


def test_bad_usage_is_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "diagnose")[0] == 2
    assert run(capsys, "diagnose", "--colour", "x")[0] == 2


@pytest.mark.parametrize("name", ["server.log", "container.log", "odd.txt"])
def test_a_single_log_file_is_enough(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes((CASES / CONTEXT / "container.log").read_bytes())
    _, out, _ = run(capsys, "diagnose", "--json", str(tmp_path / name))
    found = answers(out)[0]
    assert found["cause"] == "context_exceeds_kv_cache"
    assert {quote["source"] for quote in found["evidence"]} == {name}  # type: ignore[attr-defined]


def test_a_compressed_log_is_read_whatever_its_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "old.log").write_bytes(gzip.compress((CASES / CONTEXT / "container.log").read_bytes()))
    _, out, _ = run(capsys, "diagnose", "--json", str(tmp_path / "old.log"))
    assert answers(out)[0]["cause"] == "context_exceeds_kv_cache"


def test_a_compressed_log_that_is_cut_is_a_gap_and_no_traceback(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    whole = gzip.compress(os.urandom(200_000))
    (tmp_path / "container.log").write_bytes(whole[:1000])
    status, out, _ = run(capsys, "diagnose", "--json", str(tmp_path))
    assert status == 0
    assert next(gap["source"] for gap in answers(out)[0]["gaps"]) == "container.log"  # type: ignore[attr-defined]


def test_standard_input_is_a_log() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bot", "diagnose", "--json", "-"], input=(CASES / CONTEXT / "container.log").read_bytes(), capture_output=True, check=False
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["cause"] == "context_exceeds_kv_cache"


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"\xff\xfe\x00\x01", b'{"kind": "Pod", "status": {"containerStatuses": [', b"[" * 100_000, b'{"status": 3, "spec": []}', b"\x00" * 1000],
)
@pytest.mark.parametrize("name", ["pod.json", "events.json", "kernel.log", "nvidia-smi.txt", "node_readings.txt", "args.txt", "ray_status.txt", "bundle.json"])
def test_a_damaged_file_is_a_gap_at_most_and_the_rest_is_still_read(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, damage: bytes) -> None:
    (tmp_path / "container.log").write_bytes((CASES / CONTEXT / "container.log").read_bytes())
    (tmp_path / name).write_bytes(damage)
    status, out, err = run(capsys, "diagnose", "--json", str(tmp_path))
    assert status == 0
    assert err == ""
    assert answers(out)[0]["cause"] == "context_exceeds_kv_cache"


def test_an_empty_folder_is_answered_honestly(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out, _ = run(capsys, "diagnose", "--json", str(tmp_path))
    assert status == 0
    assert answers(out)[0]["cause"] == "unknown"
    assert answers(out)[0]["recommendations"] == []


def test_a_folder_of_other_names_says_how_to_name_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "vllm-out.txt").write_text("x")
    _, out, _ = run(capsys, "diagnose", str(tmp_path))
    assert "vllm-out.txt" in out
    assert "container.log" in out


def test_what_a_log_says_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    evil = "ValueError: \x1b]0;owned\x07\x1b[2J No available memory for the cache blocks. Try increasing `gpu_memory_utilization` \u202e when\n"
    (tmp_path / "container.log").write_text(evil)
    _, out, _ = run(capsys, "diagnose", str(tmp_path))
    assert not [letter for letter in out if not letter.isprintable() and letter != "\n"]


def test_a_secret_in_a_quoted_line_is_not_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    secret = "hf_" + "a1B2" * 9
    (tmp_path / "container.log").write_text(f"OSError: token={secret} Cannot access gated repo for url https://huggingface.co/x\n")
    _, out, _ = run(capsys, "diagnose", "--json", str(tmp_path))
    assert secret not in out


def test_lint_finds_nothing_wrong_with_our_own_playbooks(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "lint")
    assert status == 0, out


def test_explain_knows_a_cause_and_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "explain", "sampler_warmup")
    assert status == 0
    assert "max_num_seqs:lower" in out
    status, out, _ = run(capsys, "explain", "--message", "INFO [gpu_worker.py:1] Available KV cache memory: 10.58 GiB")
    assert status == 0
    assert "10.58 GiB" in out


def test_explain_refuses_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "explain", "gremlins")[0] == 2
    assert run(capsys, "explain")[0] == 2
    assert run(capsys, "explain", "--message", "all is well")[0] == 1
