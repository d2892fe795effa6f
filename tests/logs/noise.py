"""What servers and their neighbours print besides the incident: starts, serving, health checks, statistics, requests that fail alone, followers of a
failure, notes of supervisors. Lines as real releases print them, in the manner of one log (`Manner`); seeded, so that a failing draw can be repeated.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

CLOCK = re.compile(r"\b(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")
_ISO = re.compile(r"\b20\d\d-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)")


@dataclass(frozen=True)
class Manner:
    """How a log's server prints: its generation, whether process names stand in front, its version, colour; and its first and last clock in seconds."""

    v1: bool
    names: bool
    version: str
    first: int
    last: int
    colour: bool = False

    @classmethod
    def of(cls, log: str) -> "Manner":
        clocks = [_seconds(found.groups()) for found in CLOCK.finditer(_ISO.sub("", log))] or [_seconds(found.groups()) for found in _ISO.finditer(log)]
        old = bool(re.search(r" (?:llm_engine|model_runner|worker|metrics|executor_base|distributed_gpu_executor|async_llm_engine|ray_utils)\.py:\d+\] ", log))
        version = re.search(r"vLLM API server version (\S+)|LLM engine \(v([\w.]+)\)", log)
        named = "(APIServer pid=" in log or "(EngineCore" in log
        fallback = "0.6.3" if old else "0.11.0"
        return cls(
            v1=not old,
            names=named,
            version=(version[1] or version[2]) if version else fallback,
            first=min(clocks, default=_seconds(("06", "15", "12", "00", "00"))),
            last=max(clocks, default=_seconds(("06", "15", "12", "05", "00"))),
            colour="\x1b[1;36m(" in log,
        )

    def info(self, place: str, seconds: float, text: str, process: str = "", level: str = "INFO") -> str:
        """One line of the server's own logging."""
        where = f"[{place}]" if self.v1 else f"{place}]"
        return f"{self.process(process)}{level} {clock(seconds)} {where} {text}"

    def process(self, name: str) -> str:
        if not name or not self.names:
            return ""
        return f"\x1b[1;36m({name})\x1b[0;0m " if self.colour else f"({name}) "


def _seconds(parts: tuple[str, ...]) -> int:
    month, day, hours, minutes, seconds = map(int, parts)
    first = datetime(2025, min(12, max(1, month)), 1, hours % 24, minutes % 60, seconds % 60, tzinfo=UTC)
    return int(first.timestamp()) + 86400 * (day - 1)


def clock(seconds: float) -> str:
    """MM-DD HH:MM:SS."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%m-%d %H:%M:%S")


def start(manner: Manner, at: float, engine_pid: int) -> Iterator[str]:
    """A start that works, of about four minutes."""
    api, core = "APIServer pid=1", f"EngineCore_DP0 pid={engine_pid}"
    yield manner.info("__init__.py:216", at, "Automatically detected platform cuda.")
    yield manner.info("api_server.py:1351", at + 4, f"vLLM API server version {manner.version}", api)
    yield manner.info("utils.py:233", at + 4, "non-default args: {'model': '/models/other', 'host': '0.0.0.0'}", api)
    if not manner.v1:
        yield manner.info(
            "llm_engine.py:237",
            at + 9,
            f"Initializing an LLM engine (v{manner.version}) with config: model='/models/other', dtype=torch.float16, max_seq_len=4096",
        )
        yield manner.info("model_runner.py:1056", at + 12, "Starting to load model /models/other...")
        yield manner.info("model_runner.py:1067", at + 30, "Loading model weights took 12.5500 GB")
        yield manner.info("gpu_executor.py:122", at + 36, "# GPU blocks: 7451, # CPU blocks: 2048")
        yield manner.info(
            "model_runner.py:1395", at + 37, "Capturing the model for CUDA graphs. This may lead to unexpected consequences if the model is not static."
        )
        yield manner.info("model_runner.py:1523", at + 52, "Graph capturing finished in 15 secs, took 0.33 GiB")
    else:
        yield manner.info(
            "core.py:76", at + 12, f"Initializing a V1 LLM engine (v{manner.version}) with config: model='/models/other', tensor_parallel_size=1", core
        )
        yield manner.info("gpu_model_runner.py:2602", at + 20, "Starting to load model /models/other...", core)
        bars = "\r".join(f"Loading safetensors checkpoint shards: {25 * n:3d}% Completed | {n}/4 [00:0{2 * n}<00:0{8 - 2 * n},  2.30s/it]" for n in range(5))
        yield manner.process(core) + bars
        yield manner.info("gpu_model_runner.py:2653", at + 33, "Model loading took 15.2683 GiB and 12.114002 seconds", core)
        yield manner.info("backends.py:559", at + 40, "Dynamo bytecode transform time: 5.61 s", core)
        yield manner.info("monitor.py:34", at + 61, "torch.compile takes 25.90 s in total", core)
        yield manner.info("gpu_worker.py:298", at + 64, "Available KV cache memory: 52.10 GiB", core)
        yield manner.info("kv_cache_utils.py:1087", at + 64, "GPU KV cache size: 426,784 tokens", core)
        yield manner.info("kv_cache_utils.py:1091", at + 64, "Maximum concurrency for 8,192 tokens per request: 52.10x", core)
        yield manner.process(core) + "\r".join(
            f"Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): {n:3d}%|{'#' * (n // 10)}| {n}/100 [00:05<00:00, 14.1it/s]" for n in range(0, 101, 20)
        )
        yield manner.info("gpu_model_runner.py:3480", at + 75, "Graph capturing finished in 10 secs, took 0.52 GiB", core)
        yield manner.info("core.py:210", at + 75, "init engine (profile, create kv cache, warmup model) took 40.12 seconds", core)
    yield from (
        manner.process(api) + line
        for line in ("INFO:     Started server process [1]", "INFO:     Waiting for application startup.", "INFO:     Application startup complete.")
    )


def serving(manner: Manner, count: int, begin: float, end: float, dice: random.Random) -> Iterator[str]:
    """`count` lines of a server that answers, their clocks spread from `begin` to `end`."""
    api = "APIServer pid=1"
    done = 0
    while done < count:
        now = begin + (end - begin) * done / max(1, count)
        for line in _moment(manner, api, now, dice):
            if done < count:
                yield line
                done += 1


def _moment(manner: Manner, api: str, now: float, dice: random.Random) -> Iterator[str]:
    n, port, shape = dice.randrange(1, 97), dice.randrange(30000, 60000), dice.random()
    if shape < 0.35:
        yield manner.process(api) + f'INFO:     10.1.{n}.7:{port} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
    elif shape < 0.60:
        yield manner.process(api) + f'INFO:     10.1.{n}.1:{port} - "GET {dice.choice(("/health", "/metrics", "/v1/models"))} HTTP/1.1" 200 OK'
    elif shape < 0.75:
        yield _statistics(manner, api, now, n)
    elif shape < 0.90:
        ask = f"Received request chatcmpl-{dice.getrandbits(64):016x}: prompt: None, params: SamplingParams(n=1, temperature=0.7, max_tokens=512, logprobs=None, prompt_logprobs=None), lora_request: None."
        yield manner.info("logger.py:43" if manner.v1 else "logger.py:37", now, ask, api)
        yield manner.info("async_llm.py:270" if manner.v1 else "engine.py:273", now, f"Added request chatcmpl-{dice.getrandbits(64):016x}.", api)
    elif shape < 0.96:
        yield (
            manner.process(api)
            + f'INFO:     10.1.{n}.7:{port} - "POST /v1/chat/completions HTTP/1.1" {dice.choice(("400 Bad Request", "404 Not Found", "401 Unauthorized"))}'
        )
    else:
        yield from _own_fault(manner, api, now, dice)


def _statistics(manner: Manner, api: str, now: float, n: int) -> str:
    if manner.v1:
        text = f"Engine 000: Avg prompt throughput: {37 * n}.4 tokens/s, Avg generation throughput: 512.{n} tokens/s, Running: {n % 7} reqs, Waiting: 0 reqs, GPU KV cache usage: {n % 9}.{n}%, Prefix cache hit rate: 41.{n}%"
        return manner.info("loggers.py:127", now, text, api)
    text = f"Avg prompt throughput: {37 * n}.4 tokens/s, Avg generation throughput: 44.{n} tokens/s, Running: {n % 7} reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: {n % 9}.3%, CPU KV cache usage: 0.0%."
    return manner.info("metrics.py:295", now, text)


def _own_fault(manner: Manner, api: str, now: float, dice: random.Random) -> Iterator[str]:
    """A request that failed by its own fault: the server goes on."""
    shape = dice.randrange(4)
    if shape == 0:
        yield manner.info(
            "serving_chat.py:211",
            now,
            f"Error with model object='error' message='The model `m{dice.randrange(99)}` does not exist.' type='NotFoundError' param=None code=404",
            api,
            "ERROR",
        )
    elif shape == 1:
        yield manner.info("serving_chat.py:257", now, "Error in preprocessing prompt inputs", api, "ERROR")
        yield manner.info("serving_chat.py:257", now, "Traceback (most recent call last):", api, "ERROR")
        yield manner.info(
            "serving_chat.py:257", now, '  File "/opt/vllm/entrypoints/openai/serving_chat.py", line 231, in create_chat_completion', api, "ERROR"
        )
        yield manner.info(
            "serving_chat.py:257", now, "jinja2.exceptions.TemplateError: Conversation roles must alternate user/assistant/user/assistant/...", api, "ERROR"
        )
    elif shape == 2:
        yield manner.info(
            "serving_engine.py:575",
            now,
            "ValueError: This model's maximum context length is 8192 tokens. However, you requested 9100 tokens in the messages",
            api,
            "ERROR",
        )
    else:
        yield manner.process(api) + "WARNING:  Invalid HTTP request received."


def stopped(manner: Manner, at: float) -> Iterator[str]:
    """Somebody stopped the server in order."""
    api = "APIServer pid=1"
    yield manner.info("launcher.py:110", at, "Shutting down FastAPI HTTP server.", api)
    for line in (
        "INFO:     Shutting down",
        "INFO:     Waiting for application shutdown.",
        "INFO:     Application shutdown complete.",
        "INFO:     Finished server process [1]",
    ):
        yield manner.process(api) + line


def _error(manner: Manner, at: float, engine_pid: int, *lines: str) -> Iterator[str]:
    core = f"EngineCore_DP0 pid={engine_pid}"
    for line in ("EngineCore failed to start.", "Traceback (most recent call last):", *lines):
        yield manner.info("core.py:708", at, line, core, "ERROR")
    yield (
        manner.process("APIServer pid=1") + "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': 1}"
    )


EARLIER = ("no cache", "weights", "in use", "gated", "port", "killed", "argument")


def failed(manner: Manner, kind: str, at: float, engine_pid: int) -> Iterator[str]:
    """A run that failed, in one of the ways of EARLIER."""
    yield manner.info("api_server.py:1351", at, f"vLLM API server version {manner.version}", "APIServer pid=1")
    if kind == "argument":
        yield "vllm: error: unrecognized arguments: --gpu-memory-utilisation 0.9"
        return
    if kind == "port":
        yield "OSError: [Errno 98] Address already in use"
        return
    name = "LLM engine" if not manner.v1 else "V1 LLM engine"
    yield manner.info(
        "core.py:76",
        at + 9,
        f"Initializing a{'' if manner.v1 else 'n'} {name} (v{manner.version}) with config: model='/models/other', tensor_parallel_size=1",
        f"EngineCore_DP0 pid={engine_pid}",
    )
    if kind == "in use":
        yield from _error(
            manner,
            at + 11,
            engine_pid,
            "ValueError: Free memory on device (30.10/79.10 GiB) on startup is less than desired GPU memory utilization (0.9, 71.19 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        )
        return
    if kind == "gated":
        yield from _error(
            manner,
            at + 12,
            engine_pid,
            "OSError: You are trying to access a gated repo.",
            "Cannot access gated repo for url https://huggingface.co/org/m/resolve/main/config.json.",
        )
        return
    yield manner.info("gpu_model_runner.py:2602", at + 15, "Starting to load model /models/other...", f"EngineCore_DP0 pid={engine_pid}")
    if kind == "killed":
        yield "/app/start.sh: line 12:    37 Killed                  vllm serve /models/other"
    elif kind == "weights":
        frame = '  File "/opt/vllm/model_executor/layers/linear.py", line 81, in create_weights'
        oom = (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 0 has a total capacity of 22.07 GiB of which 130.00 MiB is free. Including non-PyTorch memory, "
            "this process has 21.94 GiB memory in use. Of the allocated memory 21.61 GiB is allocated by PyTorch, and 28.10 MiB is reserved by PyTorch but unallocated."
        )
        yield from _error(manner, at + 30, engine_pid, frame, oom)
    else:
        yield manner.info("gpu_worker.py:298", at + 60, "Available KV cache memory: -2.10 GiB", f"EngineCore_DP0 pid={engine_pid}")
        yield from _error(
            manner,
            at + 60,
            engine_pid,
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
        )


_CANCELLED = (
    "WorkerProc hit an exception.",
    "Traceback (most recent call last):",
    '  File "/opt/vllm/v1/executor/multiproc_executor.py", line 666, in worker_busy_loop',
    "    method, args, kwargs, output_rank = self.rpc_broadcast_mq.dequeue(",
    '  File "/opt/vllm/distributed/device_communicators/shm_broadcast.py", line 511, in acquire_read',
    '    raise RuntimeError("cancelled")',
    "RuntimeError: cancelled",
)


def followers(manner: Manner, at: float, ranks: int, pid: int, dice: random.Random, served: bool = False) -> Iterator[str]:
    """What others print when a failure reaches them: tracebacks of `ranks` ranks mixed into one another, requests that were being answered, and, ten
    minutes later, ranks that waited for the lost one."""
    for line in _CANCELLED:
        for rank in range(1, ranks):
            yield f"(Worker_TP{rank} pid={pid + rank}) " + manner.info("multiproc_executor.py:671", at + 1, line, level="ERROR")
    if served:
        yield from _dead_requests(manner, at + 1, dice)
    for rank in range(1, ranks):
        yield f"[rank{rank}]:[W ProcessGroupNCCL.cpp:1538] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources."
    if ranks > 2 and dice.random() < 0.5:
        yield from _watchdogs(at + 600, ranks)
    yield "/usr/lib/python3.12/multiprocessing/resource_tracker.py:279: UserWarning: resource_tracker: There appear to be 1 leaked shared_memory objects to clean up at shutdown"
    yield "  warnings.warn('resource_tracker: There appear to be %d '"


def _dead_requests(manner: Manner, at: float, dice: random.Random) -> Iterator[str]:
    api = "APIServer pid=1"
    for _ in range(dice.randrange(2, 40)):
        yield manner.info("async_llm.py:480", at, "AsyncLLM output_handler failed.", api, "ERROR")
        yield manner.info("async_llm.py:480", at, "Traceback (most recent call last):", api, "ERROR")
        yield manner.info("async_llm.py:480", at, '  File "/opt/vllm/v1/engine/async_llm.py", line 439, in output_handler', api, "ERROR")
        yield manner.info("async_llm.py:480", at, "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.", api, "ERROR")
        yield manner.process(api) + f'INFO:     10.1.{dice.randrange(90)}.7:{dice.randrange(30000, 60000)} - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error'


def _watchdogs(at: float, ranks: int) -> Iterator[str]:
    for rank in range(1, ranks):
        begin = f"[rank{rank}]:[E{clock(at).replace('-', '', 1)}.000000000 ProcessGroupNCCL.cpp:632] [Rank {rank}] "
        yield begin + "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4711, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600028 milliseconds before timing out."
        yield begin + "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data."
        yield begin + "To avoid data inconsistency, we are taking the entire process down."


def restarted(at: float, dice: random.Random) -> str:
    """A supervisor's note between two runs."""
    return dice.choice(
        (
            f"supervisord: INFO exited: vllm (exit status 1; not expected) at {clock(at)}",
            f"[entrypoint] server ended, next attempt in 10 s ({clock(at)})",
            f"systemd[1]: vllm.service: Scheduled restart job, restart counter is at {dice.randrange(1, 9)}.",
        )
    )


NEIGHBOURS = (
    'time="2026-11-30T09:12:{s:02d}Z" level=info msg="scrape done" component=exporter samples={n}',
    "[otel-agent] exported {n} spans",
    "fluent-bit: [ info] [input:tail:tail.0] inotify_fs_add(): inode={n} watch_fd=1",
    "envoy[17]: [2026-11-30 09:12:{s:02d}.001][17][info][main] drain manager: {n} connections",
    "",
)
CHATTER = (  # of the same start, without meaning for it
    ("DEBUG", "core.py:633", "EngineCore waiting for work."),
    ("INFO", "selector.py:28", "Using FlashAttention backend."),
    ("INFO", "parallel_state.py:1208", "rank {r} in world size 8 is assigned as DP rank 0, PP rank 0, TP rank {r}, EP rank {r}"),
    ("WARNING", "custom_all_reduce.py:144", "Custom allreduce is disabled because your platform lacks GPU P2P capability or P2P test failed."),
    ("INFO", "shm_broadcast.py:289", "vLLM message queue communication handle: Handle(local_reader_ranks=[1], buffer_handle=(1, 4194304, 6, 'psm_{n:x}'))"),
    ("INFO", "topk_topp_sampler.py:55", "Using FlashInfer for top-p & top-k sampling."),
    ("DEBUG", "backends.py:131", "store the {r}-th graph for shape None from inductor"),
)


def neighbours(count: int, dice: random.Random) -> Iterator[str]:
    """Other processes of the container or the same stream."""
    return (dice.choice(NEIGHBOURS).format(n=dice.randrange(1, 9999), s=dice.randrange(60)) for _ in range(count))


def chatter(manner: Manner, count: int, at: float, dice: random.Random) -> Iterator[str]:
    """Other ranks and libraries while something else goes on, NCCL's own debugging among them."""
    for _ in range(count):
        rank, shape = dice.randrange(1, 8), dice.random()
        if shape < 0.4:
            level, place, text = dice.choice(CHATTER)
            yield (f"(Worker_TP{rank} pid={9000 + rank}) " if manner.names else "") + manner.info(
                place, at, text.format(r=rank, n=dice.randrange(1 << 24)), level=level
            )
        elif shape < 0.8:
            yield f"node-7:{9000 + rank}:{9100 + rank} [{rank}] NCCL INFO Channel {dice.randrange(16):02d}/0 : {rank}[{rank}] -> 0[0] via P2P/CUMEM"
        else:
            yield dice.choice(
                ("  warnings.warn(", "", "Downloading shards: 100%|##########| 4/4 [00:00<00:00, 51.2it/s]", "    x = self.norm(x)  # compiler's dump")
            )
