"""What if: the ledger of the same server with other settings. Every effect is arithmetic on the ledger; what it does not determine is refused.

    cache(u')      = cache + (budget' - budget)            all versions, to 0.1 GiB on discrete cards
    need(L')       = blocks(L') x bytes a token            only where every layer keeps the whole context
    cache(TP')     = cache + weights x (1 - TP/TP') - NCCL buffers

It never extrapolates the length of a hybrid model and raises BadInput with one line for what cannot be known.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from bot.diagnosis.ledger import counts_all_layers
from bot.diagnosis.ledger_engine import EngineFacts
from bot.diagnosis.sizing_checks import AS_FAILED, Check, checks_of, margin_notes
from bot.errors import BadInput
from bot.model import Ledger, Text
from bot.units import GIB, gib, show

NCCL_BUFFERS = gib(0.4)  # what a rank of two needs more outside PyTorch than a single card, at least
CHUNKED_ABOVE = 32768  # tokens; V0 chunks prefill by itself above that length
KnobValue = int | float | str | bool


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The answer: `margin_bytes` is what the tightest check has to spare (negative: short); None when no check can be computed."""

    before: Ledger
    after: Ledger
    engine: EngineFacts
    checks: tuple[Check, ...]
    notes: tuple[Text, ...]

    @property
    def fits(self) -> bool:
        return bool(self.checks) and all(check.holds for check in self.checks)

    @property
    def margin_bytes(self) -> int | None:
        return min((check.slack for check in self.checks), default=None)


@dataclass(frozen=True, slots=True)
class _State:
    ledger: Ledger
    engine: EngineFacts
    notes: tuple[Text, ...] = field(default=())

    def noting(self, english: str, chinese: str) -> "_State":
        return replace(self, notes=(*self.notes, Text(english, chinese)))


def what_if(ledger: Ledger, engine: EngineFacts, changes: Mapping[str, KnobValue]) -> WhatIf:
    """The ledger after `changes` (knob -> value, in the given order). Raises BadInput for an unknown knob, a value out of range, and what cannot be known."""
    state = _State(ledger, engine)
    for knob, value in changes.items():
        change = KNOBS.get(knob)
        if change is None:
            raise BadInput(f"no setting {knob!r} that can be computed; one of: {', '.join(KNOBS)}")
        state = change(state, value)
    after = replace(state.ledger, derived=tuple(sorted({*state.ledger.derived, *_changed(ledger, state.ledger)})), failed=None, residual_bytes=None)
    checks = checks_of(ledger, after, engine, state.engine)
    first = next((check.name for check in checks if not check.holds), None)
    after = replace(after, failed=AS_FAILED.get(first, first) if first else None)
    return WhatIf(ledger, after, state.engine, checks, (*state.notes, *margin_notes(checks, state.engine)))


def each_token(ledger: Ledger, engine: EngineFacts) -> float | None:
    """Bytes of cache a token takes at the present length. From `needed` and the cache line, whichever has more digits."""
    block = engine.block_size or 16
    found = []
    if ledger.needed_kv_bytes and ledger.max_model_len:
        found.append((ledger.needed_kv_bytes, ledger.needed_kv_bytes / (math.ceil(ledger.max_model_len / block) * block)))
    if ledger.kv_tokens and ledger.available_kv_bytes and ledger.available_kv_bytes > 0 and ledger.plain_attention is not False:
        found.append((ledger.available_kv_bytes, ledger.available_kv_bytes / ledger.kv_tokens))
    return max(found)[1] if found else None


def length_is_linear(ledger: Ledger, engine: EngineFacts) -> bool:
    """Whether a new length may be computed: proved by the log, or the model's family is known to keep the whole context."""
    return ledger.plain_attention is True or (ledger.plain_attention is None and engine.known_plain)


def _whole(value: KnobValue, knob: str, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadInput(f"{knob} must be a whole number, {least} or more, not {value!r}")
    return value


def _with_cache(state: _State, available: int) -> Ledger:
    """Another cache at the same length: tokens and concurrency go with it."""
    ledger, old = state.ledger, state.ledger.available_kv_bytes
    block, each = state.engine.block_size or 16, each_token(ledger, state.engine)
    tokens, concurrency = None, None
    if available <= 0:
        tokens, concurrency = 0, 0.0
    elif old and old > 0 and ledger.kv_tokens:
        tokens = int(ledger.kv_tokens * available / old)
    elif each and ledger.plain_attention is not False:
        tokens = int(available / each) // block * block
    if available > 0:
        if ledger.max_concurrency and old and old > 0:
            concurrency = round(ledger.max_concurrency * available / old, 2)
        elif ledger.needed_kv_bytes:
            concurrency = round(available / ledger.needed_kv_bytes, 2)
    longest = int(available / each) // block * block if each and available > 0 and length_is_linear(ledger, state.engine) else None
    return replace(ledger, available_kv_bytes=available, kv_tokens=tokens, kv_blocks=None, max_concurrency=concurrency, estimated_max_len=longest)


def _cache_known(state: _State, knob: str) -> int:
    if state.ledger.available_kv_bytes is None:
        raise BadInput(f"the log does not say how much was left for the cache, so that the effect of {knob} cannot be computed")
    return state.ledger.available_kv_bytes


def _utilization(state: _State, value: KnobValue) -> _State:
    ledger = state.ledger
    if isinstance(value, (bool, str)) or not 0 < value <= 1:
        raise BadInput(f"gpu_memory_utilization must be above 0 and at most 1, not {value!r}")
    if state.engine.kv_cache_memory_bytes:
        raise BadInput("the cache is fixed by kv_cache_memory_bytes: utilisation has no say; set that instead")
    if ledger.total_bytes is None:
        raise BadInput("the log does not say how large the card is, so that the effect of another utilisation cannot be computed (`oombot size` takes it as --card 79.2GiB)")
    budget = round(value * ledger.total_bytes)
    refused = ledger.failed == "requested_bytes > free_at_start_bytes" and ledger.available_kv_bytes is None
    changed = replace(ledger, utilization=float(value), requested_bytes=budget)
    if refused:
        return replace(state, ledger=changed).noting(
            "The server died before it loaded anything: whether the model fits into the smaller budget is not in this log.",
            "服务在加载任何内容之前就退出了：模型能否放进更小的预算，日志里没有。",
        )
    old = ledger.requested_bytes if ledger.requested_bytes is not None else (None if ledger.utilization is None else round(ledger.utilization * ledger.total_bytes))
    if old is None:
        raise BadInput("neither the utilisation in force nor the budget is known, so that the effect of another one cannot be computed")
    available = _cache_known(state, "gpu_memory_utilization") + budget - old
    return replace(state, ledger=_with_cache(replace(state, ledger=changed), available))


def _max_model_len(state: _State, value: KnobValue) -> _State:
    ledger, engine = state.ledger, state.engine
    block = engine.block_size or 16
    length = _whole(value, "max_model_len", block)
    if counts_all_layers(engine):
        raise BadInput("under pipeline parallelism this version (0.14, 0.15) counts all layers on every stage: a length cannot be computed from its numbers")
    if not length_is_linear(ledger, engine):
        raise BadInput(_no_length(ledger))
    each = each_token(ledger, engine)
    if each is None:
        raise BadInput("the log does not say how much cache a token takes, so that another max_model_len cannot be computed")
    changed = replace(ledger, max_model_len=length, needed_kv_bytes=round(math.ceil(length / block) * block * each))
    changed = replace(changed, max_concurrency=round(ledger.kv_tokens / length, 2) if ledger.kv_tokens else _ratio(ledger.available_kv_bytes, changed.needed_kv_bytes))
    return _old_engine_length(replace(state, ledger=changed, engine=replace(engine, max_model_len=length)), ledger.max_model_len, length)


def _ratio(available: int | None, needed: int | None) -> float | None:
    return round(available / needed, 2) if available is not None and needed else None


def _no_length(ledger: Ledger) -> str:
    printed = f"; the server printed {ledger.estimated_max_len} as the longest that fits" if ledger.estimated_max_len and "estimated_max_len" not in ledger.derived else ""
    if ledger.plain_attention is False:
        return f"not every layer of this model keeps the whole context, so that bytes a token change with the length: another max_model_len cannot be computed{printed}"
    return f"the log does not show whether every layer keeps the whole context (hybrid models do not): another max_model_len cannot be computed{printed}"


def _old_engine_length(state: _State, old: int | None, new: int) -> _State:
    """V0 profiles with max_model_len tokens at once unless prefill is chunked, which it is by itself above 32768: the peak of activations moves."""
    if state.engine.v0 is not True or state.engine.chunked_prefill or old is None:
        return state
    if (old <= CHUNKED_ABOVE and new > old) or new <= CHUNKED_ABOVE < old:
        raise BadInput("in this version the peak of activations moves with max_model_len in a way the log does not tell (prefill is chunked only above 32768)")
    if old > CHUNKED_ABOVE:
        return state
    return state.noting("In this version a shorter length also lowers the peak of activations: the real cache is larger than this.", "该版本中更短的长度也会降低激活峰值：实际缓存会更大。")


def _kv_bytes(state: _State, value: KnobValue) -> _State:
    size = _whole(value, "kv_cache_memory_bytes")
    if state.engine.before(10, 2):
        raise BadInput("kv_cache_memory_bytes exists from 0.10.2 on")
    changed = _with_cache(state, size)
    return replace(state, ledger=changed, engine=replace(state.engine, kv_cache_memory_bytes=size)).noting(
        "With the cache fixed in bytes, utilisation has no say in its size; the check of free memory at start still uses it.",
        "缓存以字节固定后，利用率不再决定其大小；但启动时的空闲显存检查仍使用它。",
    )


def _cache_dtype(state: _State, value: KnobValue) -> _State:
    ledger, wanted = state.ledger, str(value)
    if wanted not in ("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2"):
        raise BadInput(f"kv_cache_dtype must be auto, bfloat16, float16, fp8, fp8_e4m3 or fp8_e5m2, not {wanted!r}")
    if not length_is_linear(ledger, state.engine):
        if ledger.plain_attention is None and not state.engine.known_hybrid:
            raise BadInput("the log does not show whether every layer keeps a cache of the same kind: the effect of another kv_cache_dtype cannot be computed")
        raise BadInput("not every layer of this model keeps a cache of the same kind: the effect of another kv_cache_dtype cannot be computed")
    before, after = (1 if state.engine.fp8_cache else 2), (1 if wanted.startswith("fp8") else 2)
    if (state.engine.kv_cache_dtype or "").startswith(("nvfp4", "int4", "turboquant")):
        raise BadInput(f"the cache is kept as {state.engine.kv_cache_dtype}, whose size a value this log does not tell")
    factor = after / before
    tokens = None if ledger.kv_tokens is None else int(ledger.kv_tokens / factor)
    needed = None if ledger.needed_kv_bytes is None else round(ledger.needed_kv_bytes * factor)
    concurrency = None if ledger.max_concurrency is None else round(ledger.max_concurrency / factor, 2)
    longest = None if ledger.estimated_max_len is None else int(ledger.estimated_max_len / factor)
    changed = replace(ledger, kv_tokens=tokens, needed_kv_bytes=needed, max_concurrency=concurrency, estimated_max_len=longest)
    return replace(state, ledger=changed, engine=replace(state.engine, kv_cache_dtype=wanted)).noting(
        "The attention backend may change with the type of the cache, and with it the memory of graphs; the quality of answers is yours to judge.",
        "注意力后端可能随缓存类型改变，graph 显存也随之变化；回答质量需由你判断。",
    )


def _eager(state: _State, value: KnobValue) -> _State:
    if value not in (True, False):
        raise BadInput(f"enforce_eager must be true or false, not {value!r}")
    if value == bool(state.engine.enforce_eager):
        return state.noting("That is what is in force already.", "当前已经是这个设置。")
    if not value:
        raise BadInput("how much CUDA graphs would take is not in the log of a start without them")
    return _without_estimate(replace(state, engine=replace(state.engine, enforce_eager=True)), "enforce_eager", graphs=0)


def _estimate(state: _State, value: KnobValue) -> _State:
    if value is not False:
        raise BadInput(f"cudagraph_estimate can be computed only for false (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0), not for {value!r}")
    if state.ledger.estimate_in_sum is False:
        return state.noting("The estimate of graphs is not taken off the budget here: nothing changes.", "这里没有扣除 graph 预估：不会有变化。")
    changed = _without_estimate(replace(state, engine=replace(state.engine, estimate_cudagraphs=False)), "cudagraph_estimate", graphs=None)
    return replace(changed, ledger=replace(changed.ledger, estimate_in_sum=False))


def _without_estimate(state: _State, knob: str, graphs: int | None) -> _State:
    ledger = state.ledger
    estimate = ledger.cudagraph_estimate_bytes
    if ledger.estimate_in_sum and estimate is None:
        raise BadInput(f"the estimate of graphs that {knob} would give back is not in the log")
    if ledger.estimate_in_sum and estimate is not None and ledger.available_kv_bytes is not None:
        ledger = _with_cache(state, ledger.available_kv_bytes + estimate)
    if graphs is not None:
        ledger = replace(ledger, cudagraph_bytes=graphs, cudagraph_estimate_bytes=graphs)
    return replace(state, ledger=ledger)


def _tensor_parallel(state: _State, value: KnobValue) -> _State:
    size, old = _whole(value, "tensor_parallel_size"), state.engine.tensor_parallel_size or 1
    ledger = state.ledger
    if ledger.weights_bytes is None:
        raise BadInput("the log does not say how much the weights take, so that another tensor_parallel_size cannot be computed")
    share = old / size
    freed = round(ledger.weights_bytes * (1 - share)) - (NCCL_BUFFERS if old == 1 and size > 1 else 0)
    changed = replace(ledger, weights_bytes=round(ledger.weights_bytes * share))
    if ledger.non_torch_bytes is not None and old == 1 and size > 1:
        changed = replace(changed, non_torch_bytes=ledger.non_torch_bytes + NCCL_BUFFERS)
    if ledger.needed_kv_bytes is not None:
        kept = 1 if state.engine.named_latent else share
        changed = replace(changed, needed_kv_bytes=round(ledger.needed_kv_bytes * kept), max_concurrency=None, kv_tokens=None)
    if ledger.available_kv_bytes is not None:
        changed = _with_cache(replace(state, ledger=replace(changed, kv_tokens=None, max_concurrency=None)), ledger.available_kv_bytes + freed)
    split = replace(state, ledger=changed, engine=replace(state.engine, tensor_parallel_size=size))
    if state.engine.named_latent:
        return split.noting(
            f"Weights divide by {size / old:g} a rank; this model's cache is compressed, and every rank keeps all of it; activations do not divide; NCCL takes 0.4 to 1.8 GiB more.",
            f"每个 rank 的权重除以 {size / old:g}；该模型的缓存是压缩的，每个 rank 都保留全部；激活不变；NCCL 还要多占 0.4 到 1.8 GiB。",
        )
    return split.noting(
        f"Weights and the cache of a token divide by {size / old:g} a rank if the heads do ({size} must divide them; key-value heads below it are copied), activations do not; "
        "NCCL takes 0.4 to 1.8 GiB more.",
        f"若注意力头数能整除 {size}，每个 rank 的权重和每 token 缓存除以 {size / old:g}，激活不变；NCCL 还要多占 0.4 到 1.8 GiB。",
    )


def _offload(state: _State, value: KnobValue) -> _State:
    if isinstance(value, (bool, str)) or not 0 <= value <= 4096:
        raise BadInput(f"cpu_offload_gb must be a number of GiB, 0 or more, not {value!r}")
    moved = round((value - (state.engine.cpu_offload_gb or 0)) * GIB)
    ledger = state.ledger
    if ledger.weights_bytes is not None and moved > ledger.weights_bytes:
        raise BadInput(f"the weights take only {show(ledger.weights_bytes)} on this card")
    available = _cache_known(state, "cpu_offload_gb") + moved
    changed = replace(ledger, weights_bytes=None if ledger.weights_bytes is None else ledger.weights_bytes - moved)
    return replace(state, ledger=_with_cache(replace(state, ledger=changed), available), engine=replace(state.engine, cpu_offload_gb=float(value))).noting(
        "Offloaded weights cross the bus for every step (much slower) and need as much host memory, pinned, on every rank.",
        "卸载的权重每一步都要经过总线（慢得多），并且每个 rank 需要同样多的锁页主机内存。",
    )


def _not_told(knob: str, what: str) -> Callable[[_State, KnobValue], _State]:
    def refuse(state: _State, value: KnobValue) -> _State:
        _whole(value, knob)
        raise BadInput(f"how much memory {what} takes is not in one start's ledger: {knob} cannot be computed (compare two starts)")

    return refuse


KNOBS: dict[str, Callable[[_State, KnobValue], _State]] = {
    "gpu_memory_utilization": _utilization,
    "max_model_len": _max_model_len,
    "kv_cache_memory_bytes": _kv_bytes,
    "kv_cache_dtype": _cache_dtype,
    "enforce_eager": _eager,
    "cudagraph_estimate": _estimate,
    "tensor_parallel_size": _tensor_parallel,
    "cpu_offload_gb": _offload,
    "max_num_seqs": _not_told("max_num_seqs", "one sequence"),
    "max_num_batched_tokens": _not_told("max_num_batched_tokens", "one token of a batch"),
}


def _changed(before: Ledger, after: Ledger) -> list[str]:
    names = [name for name in Ledger.__dataclass_fields__ if name.endswith("_bytes") or name in ("kv_tokens", "max_concurrency", "estimated_max_len")]
    return [name for name in names if getattr(after, name) is not None and getattr(before, name) != getattr(after, name)]
