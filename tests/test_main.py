"""Whatever stands behind the output (a pipe that closes, a full disk, a terminal without Chinese), no traceback reaches a person."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CASE = str(Path(__file__).parent / "cases" / "gpu-001")
EXPLAIN = ("explain", "kv_cache_too_small")


def run(*words: str, output: int | None = subprocess.PIPE, **environment: str) -> "subprocess.CompletedProcess[bytes]":
    variables = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run([sys.executable, "-W", "error", "-m", "bot", *words], stdout=output, stderr=subprocess.PIPE, env=variables, check=False)


@pytest.mark.parametrize("words", [("--help",), ("diagnose", CASE), EXPLAIN, ("explain", "--table"), ("diagnose", "--help")], ids=str)
def test_a_reader_that_went_away_is_no_mistake_to_tell_of(words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run(*words, output=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
@pytest.mark.parametrize("words", [("--help",), ("diagnose", CASE), EXPLAIN], ids=str)
def test_an_output_that_is_full_is_one_line(words: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = run(*words, output=full.fileno())
    assert (done.returncode, done.stderr) == (2, b"oombot: output: No space left on device\n")


@pytest.mark.parametrize(
    "words", [("diagnose", "--language", "zh", CASE), (*EXPLAIN, "--language", "zh"), ("explain", "--message", "█ CUDA out of memory. 🔥")], ids=str
)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_terminal_without_the_letters_gets_their_numbers(words: tuple[str, ...], encoding: str) -> None:
    done = run(*words, PYTHONIOENCODING=encoding, PYTHONUTF8="0", LC_ALL="C", PYTHONCOERCECLOCALE="0")
    assert b"Traceback" not in done.stderr
    done.stdout.decode(encoding)


def test_json_says_the_same_in_any_encoding() -> None:
    known = [json.loads(run("diagnose", "--json", "--language", "zh", CASE, PYTHONIOENCODING=encoding).stdout) for encoding in ("utf-8", "ascii", "latin-1")]
    assert known[0] == known[1] == known[2]


def test_letters_beyond_two_bytes_are_right_json_too(tmp_path: Path) -> None:
    log = tmp_path / "🔥.log"
    log.write_text("RuntimeError: 🔥 CUDA out of memory. Tried to allocate 2.00 GiB\n")
    done = run("diagnose", "--json", str(log), PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout)["path"] == str(log)


def test_a_name_that_is_no_text_is_named_as_far_as_it_is(tmp_path: Path) -> None:
    done = run("diagnose", os.fsdecode(bytes(tmp_path) + b"/\xff.log"))
    assert done.returncode == 2
    assert done.stderr.endswith(b"\\udcff.log: no such file or folder\n")


@pytest.mark.parametrize(
    "words",
    [(), ("bogus",), ("diagnose",), ("diagnose", "--nope", CASE), ("size",), ("explain",), ("audit",), ("check",), ("collect",), ("lint", "/nowhere")],
    ids=str,
)
def test_wrong_usage_is_exit_2_and_says_what_is_right(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"oombot" in done.stderr + done.stdout


@pytest.mark.parametrize("word", ["verify", "show", "export"])
def test_the_folder_of_the_trail_may_be_named_before_the_word_and_behind_it(word: str, tmp_path: Path) -> None:
    folder = ("--data-dir", str(tmp_path / "none"))
    wanted = f"oombot: {tmp_path / 'none'}: no such folder; --data-dir or the setting data_dir names it\n".encode()
    assert [run("audit", *words).stderr for words in ((*folder, word), (word, *folder))] == [wanted, wanted]


@pytest.mark.parametrize("port", ["99999", "-1", "http", "8765.5"])
def test_a_port_that_is_none_is_said_before_anything_starts(port: str) -> None:
    done = run("demo", f"--port={port}")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"a port is a number from 0 to 65535" in done.stderr


def test_no_home_and_no_variables_are_enough(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "bot", "diagnose", CASE], cwd=Path(__file__).parent.parent, env={}, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
