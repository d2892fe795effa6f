"""Derived facts of the cards, the budget and the limits: everything a signature about device memory needs and no single line says.

Each is a named number or yes/no with a test of its own; what cannot be derived is left out and so stays unknown.
"""

import re
from collections.abc import Callable

from bot.diagnosis.left_behind import left_behind
from bot.diagnosis.shared_card import copies_on_card
from bot.facts import Facts
from bot.model import Fact, Ledger, Place, Value
from bot.units import GIB

OPTIONS = (
    "gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "kv_cache_memory_bytes", "kv_cache_dtype", "dtype", "quantization",
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "block_size", "enforce_eager", "cpu_offload_gb", "swap_space", "enable_lora",
    "limit_mm_per_prompt", "enable_sleep_mode", "distributed_executor_backend", "model", "load_format",
)  # fmt: skip
_USUAL = 0.9  # the share that servers take where nobody sets it
_HIGHEST = 0.97  # utilisation above it leaves nothing for peaks
_SMALLEST_CACHE = GIB // 2
_HOST_CACHE = ("vllm.host_cache_default", "vllm.host_below_request", "vllm.context_exceeds_blocks.host", "env.VLLM_CPU_KVCACHE_SPACE")
_NEARLY_NOTHING = 0.06  # of a machine whose memory is the card's too
_UNCHECKED = 2  # releases up to 0.2 start with a cache below one request, and print no version
_USELESS = 0.02  # of the length that was asked for: nobody serves with that
_MOST = 0.5  # of the budget: a peak above it is what leaves nothing
_FIRST_SAID = ("vllm.engine_fatal.first", "vllm.engine_dead.first", "vllm.loop_raised")  # words that only V0 has for the end of its engine
_FIRST_ENGINE = frozenset({"VllmWorkerProcess", "RayWorkerVllm", "RayWorker"})  # names that only V0 gives its processes
_ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_NPU_ALLOC_CONF")
_RENAMED = {"enable_chunked_prefill": "chunked_prefill", "enable_prefix_caching": "prefix_caching"}
# Names of images whose tag is a version of the server itself; a plugin for another chip counts its own.
_OWN_IMAGE = re.compile(r"(?:^|[/-])vllm(?:-(?:openai|server|serve|cpu|gpu|cuda\d{0,4}|rocm|xpu|tpu|runtime|ascend|base|dev|nightly|inference)){0,4}(?:[:@]|$)")


def from_arguments(facts: Facts) -> list[Fact]:
    """`engine.*` of the command line (`args.*`) where the log did not print it, and the switches that are environment variables."""
    found: list[Fact] = []
    for name in (*OPTIONS, *_RENAMED):
        fact = facts.fact(f"args.{name}")
        target = f"engine.{_RENAMED.get(name, name)}"
        if fact is not None and (target not in facts or name != "model"):
            found.append(Fact(target, fact.value, fact.place))
    estimate = facts.fact("env.VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS")
    if estimate is not None:
        found.append(Fact("engine.estimate_cudagraphs", str(estimate.value) not in ("0", "false"), estimate.place))
    allocator = next((fact for name in _ALLOCATOR if (fact := facts.fact(f"env.{name}")) is not None), None)
    if allocator is not None:
        found.append(Fact("engine.expandable_segments", "expandable_segments:true" in str(allocator.value).lower(), allocator.place))
    backend = next((fact for name in _HOST_CACHE if (fact := facts.fact(name))), None)
    if backend is not None or facts.get("args.device") == "cpu":
        found.append(Fact("engine.cpu_backend", True, backend.place if backend else None))
    engine = facts.fact("env.VLLM_USE_V1")
    if engine is not None and "engine.is_v1" not in facts and str(engine.value) in ("0", "1"):
        found.append(Fact("engine.is_v1", str(engine.value) == "1", engine.place))
    elif "engine.is_v1" not in facts and (sign := _sign_of_engine(facts)) is not None:
        found.append(Fact("engine.is_v1", sign[0], sign[1].place))
    return found


def _sign_of_engine(facts: Facts) -> tuple[bool, Fact] | None:
    """Whether it is V1, and what shows it where no line names the engine: the names of its processes, or what V0's front end says of its end."""
    names, said = facts.fact("log.processes"), next((fact for name in _FIRST_SAID if (fact := facts.fact(name))), None)
    own = set(names.value) if names is not None and isinstance(names.value, tuple) else set()
    if names is not None and any(name.startswith("EngineCore") for name in own):
        return True, names
    if said is not None:
        return False, said
    return (False, names) if names is not None and _FIRST_ENGINE & own else None


class _Derived:
    """Adds derived facts, each with the place of the fact that it mainly rests on."""

    def __init__(self, facts: Facts) -> None:
        self.facts, self.found = facts, [Fact("engine.looked", True)][:0]

    def add(self, name: str, value: Value | None, near: str = "") -> None:
        if value is not None:
            base = self.facts.fact(near) if near else None
            self.found.append(Fact(name, value, base.place if base else None))

    def number(self, *names: str) -> float | None:
        for name in names:
            value = self.facts.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return float(value)
        return None

    def text(self, name: str) -> str:
        value = self.facts.get(name)
        return " ".join(value) if isinstance(value, tuple) else value if isinstance(value, str) else ""

    def flag(self, name: str) -> bool:
        return self.facts.get(name) is True

    def has(self, name: str) -> bool:
        return name in self.facts

    def place(self, name: str) -> Place | None:
        fact = self.facts.fact(name)
        return fact.place if fact else None


def derive(facts: Facts, ledger: Ledger | None) -> Facts:
    """All facts above, in steps that may use the ones before."""
    facts = facts.with_facts(from_arguments(facts))
    for step in _STEPS:
        derived = _Derived(facts)
        step(derived, ledger)
        facts = facts.with_facts(derived.found)
    return facts


def _engine(derived: _Derived, ledger: Ledger | None) -> None:
    image = re.search(r":v?(0\.\d{1,3}(?:\.\d{1,3})?(?:\.post\d)?)\b", derived.text("container.image"))
    if image and not derived.has("engine.version") and _OWN_IMAGE.search(derived.text("container.image")):
        derived.add("engine.version", image[1], "container.image")
    release = re.match(r"0\.(\d{1,3})", derived.text("engine.version") or (image[1] if image else ""))
    if release:
        derived.add("engine.version_minor", int(release[1]), "engine.version")
    tensor, pipeline = derived.number("engine.tensor_parallel_size"), derived.number("engine.pipeline_parallel_size")
    last = int(derived.number("failure.rank") or 0) if derived.has("failure.kind") else 0
    if tensor or last or derived.has("engine.version") or derived.has("engine.model"):
        derived.add("engine.ranks", int(tensor or last + 1) * int(pipeline or 1), "engine.tensor_parallel_size")
    derived.add("engine.utilization_is_set", True if derived.has("engine.gpu_memory_utilization") else None, "engine.gpu_memory_utilization")
    if not derived.has("engine.gpu_memory_utilization") and ledger is not None and ledger.utilization is not None:
        derived.add("engine.gpu_memory_utilization", ledger.utilization)
    now, earlier = derived.number("engine.gpu_memory_utilization"), derived.number("engine.earlier_utilization")
    if now is not None and earlier is not None:
        derived.add("engine.utilization_moved", round(abs(now - earlier), 4), "engine.gpu_memory_utilization")
    speculative = (
        derived.has("args.speculative_config")
        or derived.has("args.speculative_model")
        or derived.has("engine.speculative_config")
        or derived.has("vllm.spec_decode")
        or derived.has("vllm.loading_draft")
    )
    derived.add("engine.speculative", True if speculative else None, "vllm.spec_decode")
    model = derived.text("engine.model") + " " + derived.text("args.model")
    multimodal = any(
        derived.has(name)
        for name in (
            "vllm.encoder_profiled",
            "vllm.multimodal_profile",
            "vllm.multimodal_worst_case",
            "engine.limit_mm_per_prompt",
            "stack.multimodal_encoder",
            "stack.vision_attention",
        )
    )
    derived.add("engine.multimodal", True if multimodal or derived.flag("named.multimodal") else None, "vllm.encoder_profiled")
    _weights(derived, model, ledger)
    derived.add("engine.moe", True if derived.flag("named.experts") or derived.has("stack.moe") else None)


_BILLIONS = re.compile(r"(?i)(?:^|[-_/. ])(\d{1,4}(?:\.\d{1,2})?)b(?:$|[-_/. ])")
_EXPERTS = re.compile(r"(?i)(?:^|[-_/. ])(\d{1,3})x(\d{1,4}(?:\.\d{1,2})?)b(?:$|[-_/. ])")  # "8x7b": the experts share their attention, about a sixth
_BYTES = (  # bytes of one weight, by what names and options say
    (re.compile(r"(?i)awq|gptq|int4|w4a16|nf4|bnb|bitsandbytes|q4|fp4|mxfp4|4bit|4-bit"), 0.58),
    (re.compile(r"(?i)fp8|int8|w8a8|q8|8bit|8-bit"), 1.05),
)


def _weights(derived: _Derived, model: str, ledger: Ledger | None) -> None:
    """Bytes of the weights on one rank, from the number of billions in the model's name and its type: within a tenth or so."""
    found = [float(number) for number in _BILLIONS.findall(model)]
    found += [0.84 * int(experts) * float(size) for experts, size in _EXPERTS.findall(model)]
    if not found:
        return
    kind = f"{model} {derived.text('engine.quantization')} {derived.text('engine.dtype')}"
    each = next((size for pattern, size in _BYTES if pattern.search(kind)), 4.0 if "float32" in kind else 2.0)
    ranks = int(derived.number("engine.tensor_parallel_size") or 1) * int(derived.number("engine.pipeline_parallel_size") or 1)
    estimate = round(max(found) * 1e9 * each / max(1, ranks))
    derived.add("engine.weights_estimate_bytes", estimate, "engine.model")
    total = derived.number("alloc.total_bytes") or (ledger.total_bytes if ledger else None)
    if total:
        derived.add("budget.weights_estimate_share", estimate / total, "engine.model")
    if (held := derived.number("alloc.allocated_bytes")) is not None:
        derived.add("budget.more_than_weights", held >= 2.5 * estimate + 4 * GIB, "engine.model")


def _failure(derived: _Derived, ledger: Ledger | None) -> None:
    """What the failure was about, from stack, requests and process names together."""
    purpose = derived.text("failure.purpose")
    dummies = derived.number("vllm.sampler_warmup_oom.requests", "vllm.pooler_warmup_oom.requests")
    if dummies is not None:
        derived.add("failure.dummy_requests", int(dummies), "failure.kind")
    told = dummies or derived.number("vllm.mamba_blocks.max_num_seqs")
    if told is not None and not derived.has("engine.max_num_seqs"):
        derived.add("engine.max_num_seqs", int(told), "failure.kind")
    if derived.has("failure.kind"):
        asked = purpose in ("prompt_logprobs", "logprobs") or derived.flag("requests.prompt_logprobs")
        derived.add("failure.logprobs", asked, "requests.prompt_logprobs")
        trainer = derived.has("stack.training") or re.search(r"Actor|WorkerDict|Rollout|Trainer|TaskRunner", derived.text("failure.process"))
        derived.add("failure.colocated", bool(trainer), "stack.training")


def _pool(derived: _Derived, ledger: Ledger | None) -> None:
    """Whether a server's pool refused tokens although by its own words far more were free or could be dropped: then its bookkeeping is what failed."""
    asked, room = derived.number("sglang.pool_asked.asked"), derived.number("sglang.pool_room.room")
    window = derived.number("sglang.pool_window_room.room")
    if asked and room is not None:
        derived.add("failure.pool_had_room", room >= 2 * asked and (window is None or window >= 2 * asked), "sglang.pool_room")


def _limits(derived: _Derived, ledger: Ledger | None) -> None:
    seqs, batch, length = (derived.number(f"engine.{name}") for name in ("max_num_seqs", "max_num_batched_tokens", "max_model_len"))
    if seqs is not None:
        derived.add("limits.seqs_minimal", seqs <= 2, "engine.max_num_seqs")
    if seqs is not None and batch is not None:
        derived.add("limits.already_minimal", seqs <= 2 and batch <= 4096 and (length or 0) <= 4096, "engine.max_num_batched_tokens")


def _devices(derived: _Derived, ledger: Ledger | None) -> None:
    names = derived.text("gpus.names")
    if derived.flag("named.unified_memory"):
        derived.add("device.unified_memory", True, "named.unified_memory")
        left = derived.number("node.available_share")
        derived.add("device.unified_nearly_full", left <= _NEARLY_NOTHING if left is not None else None, "node.available_share")
    elif names:
        derived.add("device.unified_memory", False, "gpus.names")
    if not derived.has("gpus.differ") and derived.has("vllm.unequal_devices"):
        derived.add("gpus.differ", True, "vllm.unequal_devices")
    count, ranks = derived.number("gpus.count"), derived.number("engine.ranks")
    copies = derived.number("engine.data_parallel_size") or 1
    if count is not None and not derived.has("gpus.idle_count"):
        derived.add("gpus.spare_count", max(0, int(count - (ranks or 1) * copies)), "gpus.count")
    elif count is not None:
        # A server that waits for its next start leaves its own cards idle: they are no spare ones.
        own = int((ranks or derived.number("container.gpus") or 1) * copies)
        derived.add("gpus.spare_count", max(0, min(int(derived.number("gpus.idle_count") or 0), int(count) - own)), "gpus.count")
    total, sizes = derived.number("alloc.total_bytes"), _sizes(derived)
    if total and sizes and derived.flag("gpus.differ"):
        derived.add("gpus.failing_is_smallest", total < 0.9 * max(sizes) and total <= 1.05 * min(sizes), "alloc.total_bytes")
    shared = copies_on_card(derived.facts)
    derived.add("engine.copies_on_card", shared.value if shared else None, "engine.data_parallel_size")
    derived.add("gpus.used_by_server", int(ranks * copies) if ranks else None, "engine.tensor_parallel_size")


def _strangers(derived: _Derived, ledger: Ledger | None) -> None:
    """Listed processes that are not this server's own: neither by number nor by the title that vLLM gives its processes."""
    if not derived.has("gpus.process_bytes"):
        return
    pids, names = derived.facts.get("log.pids"), derived.facts.get("log.processes")
    own = {*(pids if isinstance(pids, tuple) else ()), *(f"VLLM::{name}" for name in (names if isinstance(names, tuple) else ()))}
    held, titles = 0, []
    for fact in derived.facts:
        if not (fact.name.startswith("gpu.process.") and fact.name.endswith(".pid")):
            continue
        record = fact.name.removesuffix("pid")
        title, size = derived.text(record + "name"), derived.number(record + "used_bytes")
        if str(fact.value) not in own and title not in own and "C" in derived.text(record + "type"):
            held += int(size or 0)
            titles.append(title)
    derived.add("gpus.strangers_bytes", held, "gpus.process_bytes")
    derived.add("gpus.stranger_names", tuple(dict.fromkeys(title for title in titles if title)) or None, "gpus.process_names")
    derived.found += left_behind(derived.facts)


def _sizes(derived: _Derived) -> list[float]:
    """Bytes of the machine's cards: as nvidia-smi lists them, else the smallest and the largest by their names."""
    listed = [float(fact.value) for fact in derived.facts if re.fullmatch(r"gpu\.\d{1,3}\.total_bytes", fact.name) and isinstance(fact.value, int)]
    named = (derived.number("named.least_card_bytes"), derived.number("named.most_card_bytes"))
    return listed or [size for size in named if size]


def _budget(derived: _Derived, ledger: Ledger | None) -> None:
    if ledger is None:
        return
    total, free, asked, utilization = ledger.total_bytes, ledger.free_at_start_bytes, ledger.requested_bytes, ledger.utilization
    total = total or (int(number) if (number := derived.number("alloc.total_bytes", "gpus.least_total_bytes")) else None)
    refused = "vllm.free_below_request"
    if total and free is not None:
        derived.add("budget.free_share", free / total, refused)
        derived.add("budget.held_bytes", total - free, refused)
        if asked is not None:
            derived.add("budget.missing_share", (asked - free) / total, refused)
            derived.add("budget.missing_bytes", asked - free, refused)
    if utilization is not None:
        derived.add("budget.utilization_at_end", utilization >= 0.95, "engine.gpu_memory_utilization")
    available, weights, estimate = ledger.available_kv_bytes, ledger.weights_bytes, ledger.cudagraph_estimate_bytes
    if available is not None:
        derived.add("budget.available_bytes", available, "vllm.ledger.available")
        derived.add("budget.available_negative", available < 0)
    if ledger.kv_tokens and ledger.max_model_len and derived.has("vllm.ledger.blocks"):
        derived.add("budget.cache_tokens", ledger.kv_tokens, "vllm.ledger.blocks")
        derived.add("budget.cache_tokens_missing", max(0, ledger.max_model_len - ledger.kv_tokens), "vllm.ledger.blocks")
        unchecked = (derived.number("engine.version_minor") or 0) <= _UNCHECKED
        derived.add("budget.unchecked_length", unchecked and ledger.kv_tokens < ledger.max_model_len, "vllm.ledger.blocks")
    reached = available is not None and total is not None and utilization is not None and available + (_HIGHEST - utilization) * total > _SMALLEST_CACHE
    derived.add("budget.raise_reaches", reached, "vllm.ledger.available")
    if asked is None and total and utilization:
        asked = round(total * utilization)
    need = ledger.needed_kv_bytes
    if not need and available and ledger.kv_tokens and ledger.max_model_len:
        need = available * ledger.max_model_len // ledger.kv_tokens
    if need and available is not None and total and utilization is not None:
        usual = min(_USUAL * total, total if free is None else free)
        derived.add("budget.usual_share_covers", available + usual - utilization * total > need, "engine.gpu_memory_utilization")
    if weights is not None and asked:
        derived.add("budget.weights_share", weights / asked)
    if weights is not None and total:
        derived.add("budget.weights_of_card_share", weights / total, "vllm.ledger.weights")
    if weights is not None:
        derived.add("budget.weights_small", weights <= max(2 * GIB, (total or 0) // 10), "vllm.ledger.weights")
    peak = ledger.activation_peak_bytes
    if peak is not None and asked and "activation_peak_bytes" not in ledger.derived:
        derived.add("budget.peak_fills", peak >= _MOST * asked, "vllm.ledger.profile_v0_available")
    if estimate is not None:
        derived.add("budget.estimate_bytes", estimate, "vllm.ledger.graph_estimate")
        if available is not None and ledger.estimate_in_sum is not False:
            derived.add("budget.fits_without_estimate", available + estimate > (ledger.needed_kv_bytes or 0), "vllm.ledger.graph_estimate")
    if estimate is not None and total:
        derived.add("budget.estimate_share", estimate / total, "vllm.ledger.graph_estimate")
    if estimate is not None and weights is not None:
        derived.add("budget.estimate_over_weights", estimate / max(1, weights), "vllm.ledger.graph_estimate")
    if ledger.others_bytes:
        derived.add("budget.others_bytes", ledger.others_bytes, "vllm.ledger.profile_064")
    if ledger.needed_kv_bytes and available is not None:
        derived.add("budget.missing_cache_share", (ledger.needed_kv_bytes - available) / ledger.needed_kv_bytes)
    if ledger.estimated_max_len and ledger.max_model_len and "estimated_max_len" not in ledger.derived and ledger.plain_attention is not True:
        derived.add("budget.length_kept_share", ledger.estimated_max_len / ledger.max_model_len, "vllm.context_exceeds_cache")
    if ledger.estimated_max_len and ledger.max_model_len:
        derived.add("budget.length_useless", ledger.estimated_max_len <= _USELESS * ledger.max_model_len, "vllm.context_exceeds_cache")
    if free is not None and total and asked is not None:
        derived.add("budget.room_above_share", (free - asked) / total)


def _room_above(derived: _Derived, ledger: Ledger | None) -> None:
    """Whether the budget alone is what was set too small: at the usual 0.9 the card has room for weights, a usual peak and what a request needs."""
    weights = ledger.weights_bytes if ledger else derived.number("sglang.weights.weights_bytes")
    rest = derived.number("sglang.weights.free_bytes")
    total = (ledger.total_bytes if ledger else None) or derived.number("alloc.total_bytes") or (weights + rest if weights and rest else None)
    if weights and rest:
        derived.add("budget.loaded_weights_bytes", int(weights), "sglang.weights")
        derived.add("budget.loaded_total_bytes", int(weights + rest), "sglang.weights")
    now = derived.number("engine.gpu_memory_utilization", "sglang.no_cache.mem_fraction")
    if weights and now and not total and ledger and ledger.available_kv_bytes is not None:
        total = (weights + ledger.available_kv_bytes) / now  # at least: the budget held these two and the peak
    if not weights or not total or now is None:
        return
    free = ledger.free_at_start_bytes if ledger else None
    peak, need = (max(size or 0, GIB) for size in ((ledger.activation_peak_bytes, ledger.needed_kv_bytes) if ledger else (0, 0)))
    room = min(_USUAL * total, total if free is None else free) - weights - peak
    derived.add("budget.raise_is_enough", now <= 0.7 and room >= need, "engine.gpu_memory_utilization")


def _unexplained(derived: _Derived, ledger: Ledger | None) -> None:
    """Weights take a small part of the budget and the rest is gone all the same: somebody else was charged to this server, or the peak is huge."""
    share = derived.number("budget.weights_share")
    peak = ledger.activation_peak_bytes if ledger else None
    if share is not None and peak is None:
        derived.add("budget.unexplained", share < 0.5, "vllm.ledger.weights")


_STEPS: tuple[Callable[[_Derived, Ledger | None], None], ...] = (_engine, _failure, _pool, _limits, _devices, _strangers, _budget, _room_above, _unexplained)
