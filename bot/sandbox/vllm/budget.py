"""The arithmetic of a start: how the engine (V1, vLLM 0.9 and later) divides a card, and the first inequality that fails. Bytes everywhere."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from bot.sandbox.kubelet.play import Card
from bot.sandbox.vllm.arguments import Arguments
from bot.sandbox.vllm.model import Model
from bot.units import GIB

BLOCK = 16
LARGE_CARD = 70 * GIB


class Failure(StrEnum):
    """What ends a start (or, for the last, a service); in the order in which it is found."""

    RANGE = "range"
    FREE_BELOW_REQUEST = "free_below_request"
    LOAD = "load"
    PROFILE = "profile"
    NO_BLOCKS = "no_blocks"
    CONTEXT = "context"
    CAPTURE = "capture"
    SAMPLER = "sampler"
    BURST = "burst"


@dataclass(frozen=True, slots=True)
class Budget:
    """One rank's ledger. `failure` None: it starts and serves."""

    total: int
    free_at_start: int
    utilization: float
    requested: int
    weights: int
    peak: int
    non_torch: int
    graphs: int
    graph_estimate: int
    available: int
    blocks: int
    tokens: int
    max_model_len: int
    needed: int
    longest: int
    max_num_seqs: int
    max_num_batched_tokens: int
    sampler: int
    burst: int
    failure: Failure | None

    @property
    def concurrency(self) -> float:
        return self.tokens / self.max_model_len

    @property
    def free_after_cache(self) -> int:
        """Free on the card once the cache is allocated; the peak is given back."""
        return self.free_at_start - self.weights - self.non_torch - max(0, self.available)


def at_least(version: str, wanted: str) -> bool:
    """Whether a version is `wanted` or later."""
    return tuple(map(int, version.split("."))) >= tuple(map(int, wanted.split(".")))


def divide(given: Arguments, model: Model, card: Card) -> Budget:
    """The ledger of one of `given.tensor_parallel` equal cards."""
    total, split, modern = card.total_bytes, given.tensor_parallel, at_least(given.version, "0.20.0")
    utilization = given.utilization if given.utilization is not None else (0.92 if modern else 0.9)
    large = total >= LARGE_CARD
    batched = given.max_num_batched_tokens or (8192 if large else 2048)
    seqs = min(given.max_num_seqs or (1024 if large and "A100" not in card.name else 256), batched)
    length = given.max_model_len or model.context
    free = total - card.others_bytes - _bytes(model.context_gib)
    weights = _bytes(model.weights_gib * _shrink(given) / split) - _bytes(given.cpu_offload_gib)
    peak = _bytes(model.peak_floor_gib) + int(_bytes(model.peak_gib - model.peak_floor_gib) * batched / 8192 / split)
    non_torch = _bytes(model.non_torch_gib + (0.9 if split > 1 else 0))
    graphs = 0 if given.eager else int(_bytes(model.graph_gib) * min(given.capture_size or 512, 2 * seqs, 512) / 512)
    estimated = given.estimate_graphs if given.estimate_graphs is not None else modern
    estimate = int(graphs * 0.94) if estimated and at_least(given.version, "0.18.0") else 0
    requested = math.ceil(total * utilization)
    available = given.kv_cache_bytes if given.kv_cache_bytes is not None else requested - weights - peak - non_torch - estimate
    a_token = model.kv_bytes_per_token // split // (2 if given.kv_cache_dtype.startswith("fp8") else 1)
    blocks = max(0, available) // (a_token * BLOCK)
    budget = Budget(
        total=total, free_at_start=free, utilization=utilization, requested=requested, weights=weights, peak=peak, non_torch=non_torch, graphs=graphs,
        graph_estimate=estimate, available=available, blocks=blocks, tokens=blocks * BLOCK, max_model_len=length, needed=a_token * length,
        longest=blocks * BLOCK, max_num_seqs=seqs, max_num_batched_tokens=batched, sampler=seqs * model.vocabulary * 4 * 3,
        burst=int(_bytes(model.burst_gib) * min(seqs, 256) / 256), failure=None,
    )  # fmt: skip
    failure = _failure(budget)
    return replace(budget, failure=failure)


def _failure(budget: Budget) -> Failure | None:
    if not 0 < budget.utilization <= 1:
        return Failure.RANGE
    if budget.free_at_start < budget.requested:
        return Failure.FREE_BELOW_REQUEST
    if budget.weights > budget.free_at_start:
        return Failure.LOAD
    if budget.weights + budget.non_torch + budget.peak > budget.free_at_start:
        return Failure.PROFILE
    if budget.available <= 0:
        return Failure.NO_BLOCKS
    if budget.needed > budget.available:
        return Failure.CONTEXT
    return _late_failure(budget)


def _late_failure(budget: Budget) -> Failure | None:
    # What the profile took as its peak is still in PyTorch's hands while graphs are captured; the rest of the card is what they get.
    room = budget.free_after_cache - budget.peak
    if budget.graphs > room:
        return Failure.CAPTURE
    room -= budget.graphs
    if budget.sampler > room + budget.peak:
        return Failure.SAMPLER
    return Failure.BURST if budget.burst and budget.burst > room else None


def _shrink(given: Arguments) -> float:
    """What an on-the-fly quantisation leaves of the weights."""
    return {"fp8": 0.53, "bitsandbytes": 0.32}.get(given.quantization, 1.0)


def _bytes(gib: float) -> int:
    return round(gib * GIB)
