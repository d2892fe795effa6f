"""Buries a log under what a server and its neighbours print besides: earlier runs, serving, health checks, followers of other ranks."""

import random
import re

START = """INFO 11-30 07:00:00 [api_server.py:1351] vLLM API server version {version}
INFO 11-30 07:00:00 [utils.py:233] non-default args: {{'model': '/models/other', 'gpu_memory_utilization': 0.9}}
INFO 11-30 07:00:20 [core.py:76] Initializing a V1 LLM engine (v{version}) with config: model='/models/other', tensor_parallel_size=1
INFO 11-30 07:00:30 [gpu_model_runner.py:2602] Starting to load model /models/other...
Loading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]\rLoading safetensors checkpoint shards: 100% Completed | 4/4 [00:09<00:00,  2.30s/it]
INFO 11-30 07:01:00 [gpu_model_runner.py:2653] Model loading took 15.2683 GiB and 30.1 seconds
INFO 11-30 07:01:20 [gpu_worker.py:298] Available KV cache memory: 52.10 GiB
INFO 11-30 07:01:20 [kv_cache_utils.py:1087] GPU KV cache size: 426,784 tokens
INFO 11-30 07:01:20 [kv_cache_utils.py:1091] Maximum concurrency for 8,192 tokens per request: 52.10x
INFO 11-30 07:01:40 [gpu_model_runner.py:3480] Graph capturing finished in 10 secs, took 0.52 GiB
INFO 11-30 07:01:41 [core.py:210] init engine (profile, create kv cache, warmup model) took 40.12 seconds
INFO:     Started server process [1]
INFO:     Waiting for application startup.
INFO:     Application startup complete.
"""
REFUSED = """INFO 11-30 06:00:00 [api_server.py:1351] vLLM API server version {version}
(EngineCore_DP0 pid=5) ERROR 11-30 06:01:00 [core.py:708] EngineCore failed to start.
(EngineCore_DP0 pid=5) ERROR 11-30 06:01:00 [core.py:708] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{'EngineCore_DP0': 1}}
"""
FOLLOWERS = """(Worker_TP5 pid=9005) ERROR {clock} [multiproc_executor.py:671] WorkerProc hit an exception.
(Worker_TP5 pid=9005) ERROR {clock} [multiproc_executor.py:671] RuntimeError: cancelled
[rank5]:[W1130 07:00:01.000000000 ProcessGroupNCCL.cpp:1480] Warning: WARNING: destroy_process_group() was not called before program exit
/usr/lib/python3.12/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 1 leaked shared_memory objects to clean up at shutdown
"""
SERVING = (
    'INFO:     10.1.2.{n}:51022 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    'INFO:     10.1.2.{n}:40022 - "GET /health HTTP/1.1" 200 OK',
    'INFO:     10.1.2.{n}:40022 - "GET /metrics HTTP/1.1" 200 OK',
    "INFO 11-30 08:12:01 [loggers.py:127] Engine 000: Avg prompt throughput: 540.{n} tokens/s, Avg generation throughput: 51.0 tokens/s, Running: {n} reqs, "
    "Waiting: 0 reqs, GPU KV cache usage: {n}.8%, Prefix cache hit rate: 2.1%",
    "INFO 11-30 08:12:01 [logger.py:43] Received request chatcmpl-{n}: prompt: None, params: SamplingParams(n=1, temperature=1.0, prompt_logprobs=None)",
    "DEBUG 11-30 08:12:01 [core.py:1] EngineCore loop active.",
    "ERROR 11-30 08:12:01 [serving_chat.py:211] Error with model object='error' message='The model `x{n}` does not exist.' type='NotFoundError'",
)


def serving(lines: int, dice: random.Random) -> str:
    """So many lines of a server that answers."""
    return "".join(dice.choice(SERVING).format(n=dice.randrange(1, 90)) + "\n" for _ in range(lines))


def healthy_run(version: str, lines: int, dice: random.Random) -> str:
    return START.format(version=version) + serving(lines, dice)


def refused_run(version: str) -> str:
    return REFUSED.format(version=version)


def followers(log: str) -> str:
    """What other ranks print when the log's failure reaches them, by the log's own clock."""
    clocks = re.findall(r"\d\d-\d\d \d\d:\d\d:\d\d", log)
    return FOLLOWERS.format(clock=clocks[-1] if clocks else "11-30 07:00:01")


def between(log: str, dice: random.Random) -> str:
    """The log with lines of no meaning after every line that ends one."""
    noise = (
        "DEBUG 11-30 08:12:01 [core.py:1] EngineCore loop active.",
        "  warnings.warn(",
        "",
        "INFO 11-30 08:12:01 [selector.py:28] Using FlashAttention backend.",
    )
    return "".join(line + "".join(dice.choice(noise) + "\n" for _ in range(dice.randrange(3))) for line in log.splitlines(keepends=True))
