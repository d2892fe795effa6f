"""Hostile files by the command line: bounded in time and in memory, one answer, no traceback."""

import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

MIB = 2**20
MOST = 260 * MIB  # peak memory of the whole process
OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.21 GiB is free.\n"


# On Linux a process begins with the peak of whoever started it, and a test process can be large: a small one stands in between and measures.
STAND_IN = """import json, os, sys
pid = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-m", "bot", "diagnose", "--json", sys.argv[2]])
_, status, usage = os.wait4(pid, 0)
with open(sys.argv[1], "w") as said:
    json.dump([status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * (1024 if sys.platform != "darwin" else 1)], said)
"""


def diagnosed(path: Path) -> tuple[dict[str, object], float, int]:
    """The answer to one path, seconds of processor time, and peak memory in bytes."""
    with tempfile.NamedTemporaryFile("r") as said:
        done = subprocess.run([sys.executable, "-c", STAND_IN, said.name, str(path)], capture_output=True, check=True)
        status, seconds, peak = json.load(said)
    assert (status, done.stderr) == (0, b"")
    return json.loads(done.stdout), seconds, peak


LOGS: dict[str, Callable[[], bytes]] = {
    "one line of 100 MB": lambda: b"x" * 50_000_000 + OOM[:-1] + b"y" * 50_000_000,
    "one line of 100 MB that is one anchor": lambda: b"CUDA out of memory. " * 5_000_000,
    "a million matches": lambda: OOM * 1_000_000,
    "a million matches of many messages": lambda: b"RuntimeError: NCCL error\nKilled\nEngineDeadError\nMemoryError: \n" * 250_000,
    "nothing but line feeds": lambda: b"\n" * 100_000_000,
    "zeros": lambda: bytes(100_000_000),
    "control characters": lambda: bytes(range(256)) * 200_000 + OOM,
    "digits": lambda: b"Available KV cache memory: " + b"9" * 10_000_000 + b" GiB\n",
}


@pytest.mark.parametrize("name", LOGS)
def test_a_hostile_log_is_answered_in_bounded_time_and_memory(tmp_path: Path, name: str) -> None:
    (tmp_path / "container.log").write_bytes(LOGS[name]())
    _, seconds, peak = diagnosed(tmp_path / "container.log")
    assert seconds < 20
    assert peak < MOST


def zstd_bomb(path: Path, piece: bytes, times: int) -> None:
    with path.open("wb") as file, zstandard.ZstdCompressor().stream_writer(file) as writer:
        for _ in range(times):
            writer.write(piece)


def gzip_bomb(path: Path, piece: bytes, times: int) -> None:
    with gzip.open(path, "wb", compresslevel=1) as writer:
        for _ in range(times):
            writer.write(piece)


@pytest.mark.parametrize("bomb", [gzip_bomb, zstd_bomb])
@pytest.mark.parametrize("name", ["container.log", "kernel.log", "pod.json", "nvidia-smi.txt"])
def test_a_file_that_bursts_is_bounded_whatever_it_is_called(tmp_path: Path, bomb: Callable[[Path, bytes, int], None], name: str) -> None:
    bomb(tmp_path / name, b"\n" * MIB, 300)
    _, seconds, peak = diagnosed(tmp_path)
    assert seconds < 20
    assert peak < (MOST if name != "kernel.log" else 2 * MOST)  # of a kernel log the last 64 MiB are kept as they are


@pytest.mark.parametrize("name", ["pod.json", "events.json", "node.json", "bundle.json"])
def test_a_document_of_a_million_small_parts_is_bounded(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b'{"items": [' + b"[]," * 10_000_000 + b"0]}")
    begin = time.perf_counter()
    _, seconds, peak = diagnosed(tmp_path)
    assert seconds < 20, time.perf_counter() - begin
    assert peak < MOST
