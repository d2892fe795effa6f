"""What the memory ledger is built from: the typed readings of one run's log lines, by the names of their fields.

The ledger does not know how a line is worded. Any message under `playbooks/log_messages/` whose fields have these names
feeds it, so that a release with new wording costs a data file and no Python. It reads nothing itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.model import Place

# Sizes are bytes (int; what vLLM prints as "GB" is GiB and is converted where the line is read), counts are int, shares float.
FIELDS: Mapping[str, str] = {
    "total": "bytes of the card as the driver gives them",
    "free_at_start": "bytes free before this process loaded anything",
    "utilization": "gpu_memory_utilization in force, 0 to 1 (in refusals and profiling lines)",
    "utilization_without_estimate": "the utilisation that would give the same cache without the graph estimate",
    "utilization_to_keep": "the utilisation that would keep the cache with the graph estimate in the sum",
    "requested": "bytes of the budget, utilisation x total",
    "weights": "bytes of the weights on this rank",
    "activation": "bytes of the peak of activations in the profiling run",
    "non_torch": "bytes outside PyTorch (driver context, NCCL); may be negative",
    "consumed": "bytes of weights and non-torch together (0.27 and later)",
    "peak_torch": "bytes of PyTorch at the peak, weights included (0.6.4)",
    "peak_used": "bytes of everything but the cache at the peak of the profiling run: weights, activations, what is outside PyTorch (XPU)",
    "used_at_start": "bytes in use on the card after loading, by every process (0.6.4)",
    "cudagraph_estimate": "bytes of graphs estimated before the cache is sized",
    "cudagraph": "bytes that graph capture took; may be negative",
    "cudagraph_pool": "bytes in the pool of graphs after capture",
    "available": "bytes left for the cache; may be negative",
    "in_use": "bytes of the cache in use after the start (hint line)",
    "needed": "bytes of cache that one request of max_model_len needs (refusal)",
    "blocks": "cache blocks on the device",
    "cpu_blocks": "cache blocks in host memory (V0: 4 GiB of swap space unless set)",
    "kv_tokens": "tokens that the cache holds, as printed",
    "max_model_len": "tokens of the longest request",
    "max_concurrency": "requests of max_model_len that fit at once",
    "estimated_max_len": "longest max_model_len that would fit, as printed",
    "hint_requested": "bytes of --kv-cache-memory that fit the budget (hint line)",
    "hint_full": "bytes of --kv-cache-memory that fill the card (hint line; too many in practice)",
    "kv_fixed": "bytes of cache fixed by kv_cache_memory_bytes or a persisted plan: utilisation has no say",
    "blocks_override": "blocks fixed by num_gpu_blocks_override",
    "mm_reserve": "bytes reserved for multimodal decoding in the front end",
    "external_weights": "bytes of weights held outside this process",
    "block_size": "tokens in a block",
}

ENGINE_WIDE = frozenset({"needed", "kv_tokens", "blocks", "cpu_blocks", "max_model_len", "max_concurrency", "estimated_max_len", "block_size"})
"""Fields that speak of the whole engine, whichever process prints them; all others belong to the rank that prints them."""

NO_CACHE_BLOCKS = frozenset({"vllm.no_cache_blocks", "vllm.autofit_failed"})
"""Ids of the refusals without numbers ("No available memory for the cache blocks"): the ledger needs to know that one was printed."""

CUT_REFUSALS = frozenset({"vllm.ledger.refusal_available", "vllm.ledger.refusal_estimate"})
"""Ids of clauses that stand only in the refusal of a context that does not fit: kept pieces of it prove it."""


@dataclass(frozen=True, slots=True)
class LedgerReading:
    """One matched line. `key` is the message id; `values` holds its fields of FIELDS (others are ignored); `process` is what tells one process
    from another in this run ("Worker_TP1", "EngineCore_DP0", "VllmWorkerProcess 1786", "" where lines carry no prefix);
    `rank` its number when the prefix says it (the device index of a `cuda:N` will do)."""

    key: str
    values: Mapping[str, int | float]
    process: str = ""
    rank: int | None = None
    place: Place | None = field(default=None, compare=False)
