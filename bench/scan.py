"""How long a 1 GiB log takes, against one grep over it, and how much memory: with one failure at its end, on one processor, with a million lines that
match, compressed. The two alternate, and the best of each is compared: others may be at work on the machine."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SIZE = int(os.environ.get("BENCH_LOG_BYTES", 1 << 30))
ROUNDS = 5
GREP = ["grep", "-ciE", "oom|out of memory|nccl|killed"]

_HEALTHY = (
    "INFO 11-30 09:{m:02d}:{s:02d} [loggers.py:127] Engine 000: Avg prompt throughput: {n}.4 tokens/s, Avg generation throughput: 512.{s} tokens/s, Running: {r} reqs, "
    "Waiting: 0 reqs, GPU KV cache usage: {r}.{m}%, Prefix cache hit rate: 41.{s}%\n"
    'INFO:     10.0.{m}.{s}:41{n} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    'INFO:     10.0.{m}.{s}:40{n} - "GET /health HTTP/1.1" 200 OK\n'
    "INFO 11-30 09:{m:02d}:{s:02d} [async_llm.py:269] Added request chatcmpl-{n}{s}{m}a91f.\n"
)
_END = (
    "ERROR 11-30 11:59:58 [core.py:702] EngineCore encountered a fatal error.\n"
    "ERROR 11-30 11:59:58 [core.py:702] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.21 GiB is free. "
    "Including non-PyTorch memory, this process has 77.87 GiB memory in use. Of the allocated memory 74.10 GiB is allocated by PyTorch, and 1.90 GiB is reserved by PyTorch but unallocated.\n"
)


_ALIKE = "ERROR 11-30 09:{m:02d}:01 [serving_chat.py:211] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {r}.00 MiB.\n"


def write_log(path: Path, size: int, frequent: bool = False) -> None:
    """A log of a server that answers and fails at the end; `frequent`: every ninth line says "out of memory" all the time."""
    block = "".join(
        (_HEALTHY + (_ALIKE if frequent and i % 2 else "")).format(m=i % 60, s=(i * 7) % 60, n=1000 + i % 8999, r=1 + i % 96) for i in range(2000)
    ).encode()
    with path.open("wb") as out:
        while out.tell() < size - len(block):
            out.write(block)
        out.write(_END.encode())


def timed(command: list[str]) -> tuple[float, float, int]:
    """Seconds of wall time and of processor time, and the peak resident set in bytes, of a child. Its output goes to a file: grep stops at the first
    match when nobody reads it."""
    start = time.perf_counter()
    with tempfile.NamedTemporaryFile() as out:
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1)])
        _, _, usage = os.wait4(pid, 0)
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * (1024 if sys.platform != "darwin" else 1)


def compared(what: str, searching: list[str], log: Path, before: tuple[str, ...] = ()) -> str:
    """One line: the best of some rounds of each, one after the other. `before`: words that run a command in a certain way."""
    subprocess.run(["cat", str(log)], stdout=subprocess.DEVNULL, check=True)  # both read it from the page cache
    diagnosing = [sys.executable, "-m", "bot", "diagnose", "--json", str(log)]
    rounds = [(timed([*before, *searching]), timed([*before, *diagnosing])) for _ in range(ROUNDS)]
    theirs, ours = min(g[0] for g, _ in rounds), min(d[0] for _, d in rounds)
    work, own = min(g[1] for g, _ in rounds), min(d[1] for _, d in rounds)
    return (
        f"{what}: grep {theirs:.2f} s, oombot diagnose {ours:.2f} s: {ours / theirs:.2f} times (aim: at most 1); processor {work:.2f} s and {own:.2f} s; "
        f"peak memory {max(d[2] for _, d in rounds) / 2**20:.0f} MiB"
    )


def measure() -> Iterator[str]:
    grep, shell = shutil.which("grep"), shutil.which("sh")
    if grep is None or shell is None:
        yield "no grep here: not measured"
        return
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "server.log")
        write_log(log, SIZE)
        size = f"{SIZE / 2**30:.2f} GiB"
        yield compared(f"{size}, one failure", [grep, *GREP[1:], str(log)], log)
        if pinning := shutil.which("taskset"):
            yield compared(f"{size}, on one processor", [grep, *GREP[1:], str(log)], log, (pinning, "-c", str(min(os.sched_getaffinity(0)))))
        for tool, ending, reads in (("gzip", "gz", "zcat"), ("zstd", "zst", "zstdcat")):
            if shutil.which(tool) and shutil.which(reads):
                packed = log.with_suffix(f".log.1.{ending}")
                with packed.open("wb") as out:
                    subprocess.run([tool, "-c", "-1", str(log)], stdout=out, check=True)
                yield compared(f"{size} as {ending}, {reads} and", [shell, "-c", f"{reads} {packed} | {grep} -ciE '{GREP[2]}'"], packed)
                packed.unlink()
        write_log(log, SIZE, frequent=True)
        yield compared(f"{size}, {'a million' if SIZE > 2**29 else 'many'} lines that match", [grep, *GREP[1:], str(log)], log)
