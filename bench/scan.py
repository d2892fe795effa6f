"""How long a 1 GiB log takes, against one grep over it, and how much memory."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SIZE = int(os.environ.get("BENCH_LOG_BYTES", 1 << 30))
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


def write_log(path: Path, size: int) -> None:
    block = "".join(_HEALTHY.format(m=i % 60, s=(i * 7) % 60, n=1000 + i % 8999, r=1 + i % 96) for i in range(2000)).encode()
    with path.open("wb") as out:
        while out.tell() < size - len(block):
            out.write(block)
        out.write(_END.encode())


def timed(command: list[str]) -> tuple[float, int]:
    """Seconds of wall time and the peak resident set in bytes of a child."""
    start = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    _, _, usage = os.wait4(pid, 0)
    return time.perf_counter() - start, usage.ru_maxrss * (1024 if sys.platform != "darwin" else 1)


def measure() -> Iterator[str]:
    grep = shutil.which("grep")
    if grep is None or not hasattr(resource, "getrusage"):
        yield "no grep here: not measured"
        return
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "server.log")
        write_log(log, SIZE)
        subprocess.run(["cat", str(log)], stdout=subprocess.DEVNULL, check=True)  # both read it from the page cache
        rounds = [(timed([grep, *GREP[1:], str(log)]), timed([sys.executable, "-m", "bot", "diagnose", "--json", str(log)])) for _ in range(3)]
    by_grep = min(g for (g, _), _ in rounds)
    ours, peak = min(d for _, (d, _) in rounds), max(m for _, (_, m) in rounds)
    yield f"{SIZE / 2**30:.2f} GiB: grep {by_grep:.2f} s, oombot diagnose {ours:.2f} s: {ours / by_grep:.2f} times (aim: at most 1); peak memory {peak / 2**20:.0f} MiB"
