"""What the ledger and the sizing need to know of the engine besides its ledger lines: version, knobs in force, the card.

Defaults by version are those of the releases. It guesses nothing: what is not known stays None.
"""

import re
from dataclasses import dataclass
from typing import TypeVar

from bot.facts import Facts
from bot.model import Phase, Value

Version = tuple[int, int, int]
_T = TypeVar("_T", int, float, str, bool)
_VERSION = re.compile(r"v?(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?")


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The engine of one incident. Sizes are bytes. `utilization`, `max_model_len` and the others are what the person set (None: not set, or not seen)."""

    version: str = ""
    model: str = ""
    utilization: float | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    scheduled_tokens: int | None = None  # of the step that failed, as the server dumped it
    running_requests: int | None = None  # at once, as the server printed it near the failure
    kv_cache_memory_bytes: int | None = None
    kv_cache_dtype: str | None = None
    dtype: str | None = None
    quantization: str | None = None
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    block_size: int | None = None
    enforce_eager: bool | None = None
    chunked_prefill: bool | None = None
    estimate_cudagraphs: bool | None = None
    hybrid: bool | None = None
    cpu_offload_gb: float | None = None
    mamba_blocks: int | None = None
    phase: Phase | None = None
    own_pool_used_up: bool = False  # it ran out of blocks of its own cache, not of memory of the card
    alloc_requested_bytes: int | None = None
    alloc_free_bytes: int | None = None
    alloc_others_bytes: int | None = None  # what other processes hold on the card, where that is what the request lacks
    device_total_bytes: int | None = None  # as the allocator sees it
    v1: bool | None = None  # the V1 engine, by what it printed
    named_hybrid: bool = False  # by the model's name not every layer keeps the whole context
    named_plain: bool = False  # by the model's name every layer does
    named_latent: bool = False  # by the model's name the cache holds compressed keys, which every rank keeps whole
    card: str = ""  # name of the cards, where all are of one kind
    card_bytes: int | None = None  # by the cards' name, where all are of one kind and none is a slice
    listed_total_bytes: int | None = None  # as nvidia-smi lists the smallest card: 0.4 to 0.8 GiB more than a server sees
    unified_memory: bool | None = None
    cpu_backend: bool | None = None  # its device is the host's memory, and a variable of its own sizes the cache
    copies_on_card: int = 1  # engines of this server that share the card; each is given the whole utilisation

    @property
    def release(self) -> Version | None:
        """The version as numbers; suffixes (.dev0, .post1, rc1) do not count."""
        found = _VERSION.match(self.version.strip())
        return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None

    def at_least(self, minor: int, patch: int = 0) -> bool | None:
        """Whether it is 0.`minor`.`patch` or later; None when the version is not known."""
        return None if self.release is None else self.release >= (0, minor, patch)

    def before(self, minor: int, patch: int = 0) -> bool | None:
        known = self.at_least(minor, patch)
        return None if known is None else not known

    @property
    def v0(self) -> bool | None:
        """Whether this is the V0 engine: as printed, else by version (V1 is the default from 0.8.0 on); None when neither is known."""
        return not self.v1 if self.v1 is not None else self.before(8)

    @property
    def default_utilization(self) -> float | None:
        """0.9 up to 0.19, 0.92 from 0.20.0 on."""
        newer = self.at_least(20)
        return None if newer is None else (0.92 if newer else 0.9)

    @property
    def known_hybrid(self) -> bool | None:
        """True where the engine or the model's family says so, False where the configuration denies it; None otherwise."""
        if self.hybrid is not None:
            return self.hybrid
        return True if self.named_hybrid else None

    @property
    def known_plain(self) -> bool:
        """Whether the model's name is of a family that keeps the whole context in every layer."""
        return self.hybrid is False or (self.known_hybrid is None and self.named_plain)

    @property
    def alloc_short_bytes(self) -> int:
        """Bytes that the request which failed was short of; 0 where that is not known, or a gap was the trouble."""
        if self.alloc_requested_bytes is None or self.alloc_free_bytes is None:
            return 0
        return max(0, self.alloc_requested_bytes - self.alloc_free_bytes)

    @property
    def fp8_cache(self) -> bool:
        """Whether the cache already keeps one byte (or less) a value."""
        return bool(self.kv_cache_dtype) and self.kv_cache_dtype not in ("auto", "bfloat16", "float16", "half", "float", "float32")


def engine_facts(facts: Facts) -> EngineFacts:
    """Reads the facts named `engine.*`, `alloc.*`, `device.*`, `failure.phase` and `failure.kind`; a fact of another type than expected counts as not known."""
    phase = _read(facts, "failure.phase", str)
    return EngineFacts(
        version=_read(facts, "engine.version", str) or "",
        model=_read(facts, "engine.model", str) or "",
        utilization=_share(_number(facts, "engine.gpu_memory_utilization")),
        max_model_len=_positive(facts, "engine.max_model_len") or _positive(facts, "vllm.using_max_model_len.max_model_len"),
        max_num_seqs=_positive(facts, "engine.max_num_seqs"),
        max_num_batched_tokens=_positive(facts, "engine.max_num_batched_tokens"),
        scheduled_tokens=_positive(facts, "vllm.step_dumped.scheduled"),
        running_requests=_positive(facts, "requests.running"),
        kv_cache_memory_bytes=_positive(facts, "engine.kv_cache_memory_bytes"),
        kv_cache_dtype=_read(facts, "engine.kv_cache_dtype", str),
        dtype=_read(facts, "engine.dtype", str),
        quantization=_read(facts, "engine.quantization", str),
        tensor_parallel_size=_positive(facts, "engine.tensor_parallel_size"),
        pipeline_parallel_size=_positive(facts, "engine.pipeline_parallel_size"),
        block_size=_positive(facts, "engine.block_size"),
        enforce_eager=_flag(facts, "engine.enforce_eager"),
        chunked_prefill=_flag(facts, "engine.chunked_prefill"),
        estimate_cudagraphs=_flag(facts, "engine.estimate_cudagraphs"),
        hybrid=_flag(facts, "engine.hybrid"),
        cpu_offload_gb=_number(facts, "engine.cpu_offload_gb"),
        mamba_blocks=_positive(facts, "engine.mamba_blocks") or _positive(facts, "vllm.mamba_blocks.mamba_blocks"),
        phase=Phase(phase) if phase in set(Phase) else None,
        own_pool_used_up=facts.get("failure.kind") == "blocks_used_up",
        alloc_requested_bytes=_positive(facts, "alloc.requested_bytes"),
        alloc_free_bytes=_read(facts, "alloc.free_bytes", int),
        alloc_others_bytes=(_positive(facts, "alloc.others_most_bytes") or _positive(facts, "alloc.others_bytes")) if _flag(facts, "alloc.others_matter") else None,
        device_total_bytes=_positive(facts, "alloc.total_bytes") or _positive(facts, "device.total_bytes"),
        v1=_flag(facts, "engine.is_v1"),
        named_hybrid=_flag(facts, "named.hybrid") is True,
        named_plain=_flag(facts, "named.plain") is True,
        named_latent=_flag(facts, "named.latent") is True,
        card=_card(facts),
        card_bytes=_positive(facts, "named.card_bytes") if _card(facts) else None,
        listed_total_bytes=_positive(facts, "gpus.least_total_bytes"),
        unified_memory=_flag(facts, "device.unified_memory"),
        cpu_backend=_flag(facts, "engine.cpu_backend"),
        copies_on_card=_positive(facts, "engine.copies_on_card") or 1,
    )


def _read(facts: Facts, name: str, kind: type[_T]) -> _T | None:
    value: Value | object = facts.get(name)
    return value if isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool) else None


def _card(facts: Facts) -> str:
    if facts.get("gpus.differ") is True or facts.get("gpus.mig") is True:
        return ""
    names = facts.get("gpus.names")
    return (names[0] if isinstance(names, tuple) and names else names if isinstance(names, str) else "")[:200]


def _number(facts: Facts, name: str) -> float | None:
    whole = _read(facts, name, int)
    return float(whole) if whole is not None else _read(facts, name, float)


def _positive(facts: Facts, name: str) -> int | None:
    """Sizes and counts: zero, a negative number and -1 ("auto") all mean that nobody fixed it."""
    value = _read(facts, name, int)
    return value if value is not None and value > 0 else None


def _flag(facts: Facts, name: str) -> bool | None:
    return _read(facts, name, bool)


def _share(value: float | None) -> float | None:
    return value if value is not None and 0 < value <= 1 else None
