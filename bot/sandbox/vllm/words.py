"""The lines that vLLM prints, in the form of each version (0.9 to 0.33). Formats are the server's own; numbers come from the Budget."""

from collections.abc import Sequence

from bot.sandbox.kubelet.play import CLOCK
from bot.sandbox.vllm.budget import Budget, at_least
from bot.units import GIB

DOCS = "https://docs.vllm.ai/en/latest/configuration/conserving_memory/"
PACKAGES = "/usr/local/lib/python3.12/dist-packages"


def gib(size: float) -> str:
    return f"{size / GIB:.2f}"


def frontend(version: str, text: str, place: str, level: str = "INFO") -> str:
    """A line of the API server."""
    prefix = "(APIServer pid=1) " if at_least(version, "0.10.1") else ""
    return f"{prefix}{level} {CLOCK} [{place}] {text}"


def engine(version: str, text: str, place: str, level: str = "INFO") -> str:
    return f"{engine_prefix(version)}{level} {CLOCK} [{place}] {text}"


def engine_prefix(version: str) -> str:
    if at_least(version, "0.18.0"):
        return "(EngineCore pid=270) "
    return "(EngineCore_DP0 pid=270) " if at_least(version, "0.10.2") else "(EngineCore_0 pid=270) "


def worker(version: str, rank: int, ranks: int, text: str, place: str, level: str = "INFO") -> str:
    """A line of the process that holds a card: the engine itself when there is one card."""
    if ranks == 1:
        return engine(version, text, place, level)
    name = f"(Worker_TP{rank} pid={300 + rank}) " if at_least(version, "0.10.2") else f"(VllmWorker rank={rank} pid={300 + rank}) "
    return f"{name}{level} {CLOCK} [{place}] {text}"


def engine_name(version: str) -> str:
    return engine_prefix(version).partition(" ")[0].lstrip("(")


# ---------------------------------------------------------------- a healthy start


def weights_loaded(version: str, budget: Budget, seconds: float) -> str:
    size = budget.weights / GIB
    if at_least(version, "0.14.0"):
        return f"Model loading took {size:.2f} GiB memory and {seconds:.6f} seconds"
    return f"Model loading took {size:.4f} GiB{' memory' if at_least(version, '0.11.1') else ''} and {seconds:.6f} seconds"


def graphs_estimated(budget: Budget) -> list[str]:
    if not budget.graph_estimate:
        return []
    share = budget.graph_estimate / budget.total
    without, with_more = budget.utilization - share, budget.utilization + share
    return [f"Estimated CUDA graph memory: {gib(budget.graph_estimate)} GiB total",
            f"CUDA graph memory profiling is enabled (default since v0.21.0). The current --gpu-memory-utilization={budget.utilization:.4f} is equivalent to "
            f"--gpu-memory-utilization={without:.4f} without CUDA graph memory profiling. To maintain the same effective KV cache size as before, increase "
            f"--gpu-memory-utilization to {with_more:.4f}. To disable, set VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0."]  # fmt: skip


def available(budget: Budget) -> str:
    return f"Available KV cache memory: {gib(budget.available)} GiB"


def cache_fixed(budget: Budget) -> str:
    return (f"Initial free memory {gib(budget.free_at_start)} GiB, reserved {gib(budget.available)} GiB memory for KV Cache as specified by kv_cache_memory_bytes config and skipped "
            "memory profiling. This does not respect the gpu_memory_utilization config. Only use kv_cache_memory_bytes config when you want manual control of KV cache memory "
            "size. If OOM'ed, check the difference of initial free memory between the current run and the previous run where kv_cache_memory_bytes is suggested and update it correspondingly.")  # fmt: skip


def cache_size(version: str, budget: Budget) -> list[str]:
    size, length = f"{budget.tokens:,}", f"{budget.max_model_len:,}"
    fits = f"Maximum concurrency for {length} tokens per request: {budget.concurrency:.2f}x"
    if at_least(version, "0.28.0"):
        return [f"GPU KV cache size: {size} tokens, {fits}"]
    return [f"GPU KV cache size: {size} tokens", fits]


def captured(budget: Budget, seconds: float) -> str:
    return f"Graph capturing finished in {seconds:.0f} secs, took {gib(budget.graphs)} GiB"


def stats(generated: float, running: int, usage: float) -> str:
    return (f"Engine 000: Avg prompt throughput: {generated * 3.1:.1f} tokens/s, Avg generation throughput: {generated:.1f} tokens/s, Running: {running} reqs, Waiting: 0 reqs, "
            f"GPU KV cache usage: {usage:.1f}%, Prefix cache hit rate: 12.4%")  # fmt: skip


# ---------------------------------------------------------------- how it fails


def out_of_range(version: str, budget: Budget) -> str:
    if at_least(version, "0.11.1"):
        rule = "less than or equal to 1 [type=less_than_equal" if budget.utilization > 1 else "greater than 0 [type=greater_than"
        return f"pydantic_core._pydantic_core.ValidationError: 1 validation error for CacheConfig\ngpu_memory_utilization\n  Input should be {rule}, input_value={budget.utilization}, input_type=float]"
    return f"ValueError: GPU memory utilization must be less than 1.0. Got {budget.utilization}."


def free_below_request(version: str, rank: int, budget: Budget) -> str:
    device = f" cuda:{rank}" if at_least(version, "0.14.0") else ""
    return (f"ValueError: Free memory on device{device} ({gib(budget.free_at_start)}/{gib(budget.total)} GiB) on startup is less than desired GPU memory utilization "
            f"({budget.utilization}, {gib(budget.requested)} GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.")  # fmt: skip


def no_blocks(version: str) -> str:
    text = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
    if at_least(version, "0.22.0"):
        text = text[:-1] + " (this flag also controls CPU memory reservation on the CPU backend, despite its name)."
    return text + (f" See {DOCS} for more details." if at_least(version, "0.13.0") else "")


def context_exceeds(version: str, budget: Budget) -> str:
    whose = "model's" if at_least(version, "0.22.0") else "models's"
    blank = " " if at_least(version, "0.9.1") else ""
    also = " (which also controls CPU memory on the CPU backend)" if at_least(version, "0.22.0") else ""
    gap = " " if at_least(version, "0.11.0") else "  "
    longest = f"Based on the available memory,{gap}the estimated maximum model length is {budget.longest}. " if budget.longest else ""
    return (f"ValueError: To serve at least one request with the {whose} max seq len ({budget.max_model_len}), ({gib(budget.needed)} GiB KV cache is needed, which is larger than the "
            f"available KV cache memory ({gib(budget.available)} GiB).{blank}{longest}Try increasing `gpu_memory_utilization`{also} or decreasing `max_model_len` when initializing "
            f"the engine.{f' See {DOCS} for more details.' if at_least(version, '0.13.0') else ''}")  # fmt: skip


def sampler(budget: Budget) -> str:
    return (f"RuntimeError: CUDA out of memory occurred when warming up sampler with {budget.max_num_seqs} dummy requests. Please try lowering `max_num_seqs` or "
            "`gpu_memory_utilization` when initializing the engine.")  # fmt: skip


def load_wrapper(original: str) -> str:
    return ("Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free memory for weights, increasing --tensor-parallel-size, or using "
            f"--quantization. See {DOCS} for more tips. (original error: {original})")  # fmt: skip


def torch_oom(
    version: str, rank: int, asked: int, free: int, budget: Budget, allocated: int, slack: int, tenants: Sequence[tuple[int, int]], pid: int, private: int = 0
) -> str:
    """PyTorch's own message, in the form of the PyTorch that this vLLM is pinned to. Processes go by their pids on the host, as NVML gives them."""
    mine = budget.total - free - sum(size for _, size in tenants)
    who = "".join(f"Process {owner} has {_size(size)} memory in use. " for owner, size in [*tenants, (pid, mine)])
    pools = f"with {_size(private)} allocated in private pools (e.g., CUDA Graphs), " if private else ""
    setting = "PYTORCH_ALLOC_CONF" if at_least(version, "0.18.0") and not at_least(version, "0.20.0") else "PYTORCH_CUDA_ALLOC_CONF"
    page = "environment-variables"
    site = "https://pytorch.org/docs/stable/notes/cuda.html"
    if at_least(version, "0.20.0"):
        site, page = "https://docs.pytorch.org/docs/stable/notes/cuda.html", "optimizing-memory-usage-with-pytorch-cuda-alloc-conf"
    return (f"CUDA out of memory. Tried to allocate {_size(asked)}. GPU {rank} has a total capacity of {gib(budget.total)} GiB of which {_size(free)} is free. {who}"
            f"Of the allocated memory {_size(allocated)} is allocated by PyTorch, {pools}and {_size(slack)} is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
            f"large try setting {setting}=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  ({site}#{page})")  # fmt: skip


def _size(size: int) -> str:
    return f"{size / GIB:.2f} GiB" if size >= GIB else f"{size / 2**20:.2f} MiB"


def traceback(frames: Sequence[tuple[str, int, str, str]], error: str) -> list[str]:
    """(file below site-packages, line, function, source) rows, and the last line."""
    rows = ["Traceback (most recent call last):"]
    for file, line, function, source in frames:
        rows += [f'  File "{PACKAGES}/{file}", line {line}, in {function}', f"    {source}"]
    return [*rows, *error.split("\n")]
