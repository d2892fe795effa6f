"""The memory ledger of one run, rebuilt from the lines it printed: what the card has, what went where, what is left, which check failed.

Only arithmetic on readings: it reads no file, knows no wording, and computes a term only where the others determine it (`derived` names it).
"""

import math
from collections.abc import Callable, Mapping, Sequence

from bot.diagnosis import ledger_sum, ledger_tokens
from bot.diagnosis.ledger_engine import EngineFacts
from bot.diagnosis.ledger_lines import CUT_REFUSALS, NO_CACHE_BLOCKS, LedgerReading
from bot.diagnosis.ledger_ranks import Values, choose
from bot.model import Ledger, Phase, Text
from bot.units import GIB, show

REQUESTED_OVER_FREE = "requested_bytes > free_at_start_bytes"
NOTHING_LEFT = "available_kv_bytes <= 0"
NEEDED_OVER_AVAILABLE = "needed_kv_bytes > available_kv_bytes"
LENGTH_OVER_TOKENS = "max_model_len > kv_tokens"
GRAPHS_OVER_FREE = "requested_bytes + cudagraph_bytes > free_at_start_bytes"
WARMUP_OVER_FREE = "requested_bytes + warm-up > free_at_start_bytes"
BESIDE_BUDGET = (GRAPHS_OVER_FREE, WARMUP_OVER_FREE)  # the budget held; what comes beside it did not fit any more

_OWN = "vllm.ledger."
_SETTINGS = {"max_model_len", "block_size", "utilization", "total"}  # printed with other things too: alone they are no ledger
_ROUGH = 0.02  # what rounding may take from a card's size before it is worth nothing
_SLOTS = {  # field of a reading -> field of the ledger
    "total": "total_bytes",
    "free_at_start": "free_at_start_bytes",
    "utilization": "utilization",
    "requested": "requested_bytes",
    "weights": "weights_bytes",
    "activation": "activation_peak_bytes",
    "non_torch": "non_torch_bytes",
    "cudagraph_estimate": "cudagraph_estimate_bytes",
    "cudagraph": "cudagraph_bytes",
    "available": "available_kv_bytes",
    "blocks": "kv_blocks",
    "kv_tokens": "kv_tokens",
    "max_model_len": "max_model_len",
    "max_concurrency": "max_concurrency",
    "needed": "needed_kv_bytes",
    "estimated_max_len": "estimated_max_len",
    "others": "others_bytes",
}
_CONTRACT = tuple(name for name in Ledger.__dataclass_fields__ if name not in ("notes", "estimate_in_sum", "plain_attention", "others_bytes"))


def build(readings: Sequence[LedgerReading], engine: EngineFacts) -> Ledger | None:
    """The ledger of the rank with the least room; None when no line of a ledger was printed, or what it says was not measured. `readings`: all of
    one run, in order of the file."""
    relevant = [reading for reading in readings if reading.values or reading.key in NO_CACHE_BLOCKS]
    if all(reading.values.keys() <= _SETTINGS and reading.key not in NO_CACHE_BLOCKS for reading in relevant):
        return None
    chosen = choose(relevant)
    if _unmeasured(chosen.values):
        return None
    draft = _Draft(dict(chosen.values))
    if ledger_tokens.is_v0(draft.values, engine) and (engine.tensor_parallel_size or 1) > chosen.ranks_seen:
        draft.values["tokens_of_other_rank"] = 1  # V0: the driver carries the sampler and has less room than its workers
    _settings(draft, engine)
    for step in _STEPS:
        step(draft, engine)
    closure = ledger_sum.close({} if draft.rough else draft.values, engine)
    notes = [*draft.notes, *closure.notes, *_rank_notes(chosen.ranks_seen, engine)]
    fields = {slot: draft.values[name] for name, slot in _SLOTS.items() if name in draft.values}
    return Ledger(
        rank=chosen.rank,
        ranks_seen=chosen.ranks_seen,
        **fields,  # type: ignore[arg-type]
        derived=tuple(dict.fromkeys(_SLOTS[name] for name in draft.derived if name in _SLOTS)),
        residual_bytes=closure.residual,
        failed=_failed(relevant, draft.values) or _beside_budget(engine, draft.values),
        estimate_in_sum=closure.estimate_in_sum,
        plain_attention=ledger_tokens.plain_attention(draft.values, engine),
        notes=tuple(notes),
    )


def to_json(ledger: Ledger | None) -> dict[str, object] | None:
    """The ledger as the JSON contract lists it: bytes, one key a field; and `notes`, what is odd about it, in English."""
    if ledger is None:
        return None
    found = {name: getattr(ledger, name) for name in _CONTRACT}
    return {**found, "derived": list(ledger.derived), "notes": [note.en for note in ledger.notes]}


class _Draft:
    """Values by field name while they are worked out, and which of them were computed."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.derived: list[str] = []
        self.notes: list[Text] = []
        self.rough = False  # the card's size is known to 3 % only: too rough for a sum

    def get(self, *names: str) -> tuple[int | float, ...] | None:
        """All of them, or None when one is missing."""
        return tuple(self.values[name] for name in names) if all(name in self.values for name in names) else None

    def derive(self, name: str, value: float) -> None:
        if name not in self.values and math.isfinite(value):
            self.values[name] = value if name in ("utilization", "max_concurrency") else round(value)
            self.derived.append(name)


def _unmeasured(values: Mapping[str, int | float]) -> bool:
    """An engine that a program built on another device than the current one reads zeros: its weights are somewhere, and a sum without them says nothing."""
    return values.get("weights") == 0 and values.get("activation") == 0 and not values.get("external_weights")


def _settings(draft: _Draft, engine: EngineFacts) -> None:
    """What was not printed but set: arguments, the card's size; then the version's default, which counts as derived."""
    values = draft.values
    if "cudagraph" not in values and "cudagraph_pool" in values:
        values["cudagraph"] = values["cudagraph_pool"]
    if engine.device_total_bytes and "total" not in values:
        values["total"] = engine.device_total_bytes
    if engine.max_model_len and "max_model_len" not in values:
        values["max_model_len"] = engine.max_model_len
    stated, printed = engine.utilization, values.get("utilization")
    if stated is not None and (printed is None or abs(stated - printed) < 0.00501):
        values["utilization"] = stated
    fixed = engine.kv_cache_memory_bytes or values.get("kv_fixed")
    if "utilization" not in values and (share := engine.default_utilization if fixed else ledger_sum.share_in_force(values, engine)) is not None:
        draft.derive("utilization", share)
    if fixed:
        values.setdefault("available", fixed)
        draft.notes.append(Text(f"The cache is fixed at {show(fixed)}: utilisation has no say.", f"缓存被固定为 {show(fixed)}：利用率不起作用。"))
    if "blocks_override" in values:
        values["blocks"] = values["blocks_override"]
        draft.notes.append(Text("The number of blocks is fixed by num_gpu_blocks_override: utilisation has no say.", "块数由 num_gpu_blocks_override 固定：利用率不起作用。"))


def _old_peak(draft: _Draft, engine: EngineFacts) -> None:
    """0.6.4 prints weights inside the peak of PyTorch."""
    if found := draft.get("peak_torch", "weights"):
        draft.derive("activation", found[0] - found[1])
    if used := draft.values.get("used_at_start"):  # of the whole card, after loading
        own = draft.values.get("weights", draft.values.get("peak_torch", 0))
        if used - own > 2 * GIB:
            draft.derive("others", used - own)
            draft.notes.append(
                Text(
                    f"About {show(used - own)} on the card are not this server's, and this version charges them to its budget.",
                    f"卡上约有 {show(used - own)} 不属于本服务，而该版本把它们也算进预算。",
                )
            )


def _listed_card(draft: _Draft, engine: EngineFacts) -> None:
    """The card as nvidia-smi lists it, less what the driver keeps for itself, or as its name tells: good for a slope, too rough for a sum. A name that
    promises less than is on the card (boards rebuilt with more memory keep their name) tells nothing."""
    if "total" in draft.values or "requested" in draft.values or engine.unified_memory:
        return
    listed = engine.listed_total_bytes
    size = max(listed - GIB // 2, listed * 0.97) if listed else engine.card_bytes
    if size is not None and size >= draft.values.get("weights", 0) + max(0, draft.values.get("available", 0)):
        draft.rough = True
        draft.derive("total", size)


def _split_consumed(draft: _Draft, engine: EngineFacts) -> None:
    if found := draft.get("consumed", "weights"):
        draft.derive("non_torch", found[0] - found[1])
    if found := draft.get("peak_used", "weights", "non_torch"):
        draft.derive("activation", found[0] - found[1] - found[2])


def _estimate_of_utilizations(draft: _Draft, engine: EngineFacts) -> None:
    """The share of the card that the estimate takes is printed with four decimals: it gives the card's size, or the estimate."""
    values = draft.values
    low, high = values.get("utilization_without_estimate"), values.get("utilization_to_keep")
    middle = values.get("utilization")
    if high is not None and high >= 1:
        high = None  # the server prints no more than 1, so that the true share may be larger
    if middle is None or (low is None and high is None):
        return
    share = (high - low) / 2 if low is not None and high is not None else (middle - low if low is not None else (high or middle) - middle)
    if share <= 0.0005:
        return
    estimate = values.get("cudagraph_estimate")
    if estimate and estimate > 0 and "requested" not in values and 0.00005 / share + 0.005 * GIB / estimate <= _ROUGH:
        draft.rough = "total" not in values
        draft.derive("total", estimate / share)
    elif "total" in values:
        draft.derive("cudagraph_estimate", values["total"] * share)


def _budget(draft: _Draft, engine: EngineFacts) -> None:
    if (found := draft.get("total", "utilization")) and not engine.kv_cache_memory_bytes and "kv_fixed" not in draft.values:
        draft.derive("requested", found[0] * found[1])


def _total(draft: _Draft, engine: EngineFacts) -> None:
    if (found := draft.get("requested", "utilization")) and found[1] > 0:
        draft.derive("total", found[0] / found[1])


def _last_term(draft: _Draft, engine: EngineFacts) -> None:
    """The one term that is missing, when the sum of the version determines it."""
    values = draft.values
    if draft.rough or ("consumed" in values and "weights" not in values):
        return
    in_sum = ledger_sum.expected_in_sum(values, engine)
    if "cudagraph_estimate" not in values and in_sum is not False:
        return  # what is missing might as well be the estimate
    estimate = values.get("cudagraph_estimate", 0) if in_sum else 0
    terms = ("requested", "weights", "activation", "non_torch", "available")
    missing = [name for name in terms if name not in values]
    if len(missing) != 1:
        return
    spent = sum(values[name] for name in terms[1:] if name in values) + estimate + values.get("mm_reserve", 0)
    draft.derive(missing[0], spent if missing[0] == "requested" else values["requested"] - spent)


def _hidden_estimate(draft: _Draft, engine: EngineFacts) -> None:
    """From 0.20 on what is missing in an otherwise complete sum is the estimate, also where it was not printed."""
    before, available = ledger_sum.rest_before_estimate(draft.values), draft.values.get("available")
    if draft.rough or before is None or available is None or "cudagraph_estimate" in draft.values or ledger_sum.expected_in_sum(draft.values, engine) is not True:
        return
    missing = before - available
    if missing > ledger_sum.CLOSES:
        draft.notes.append(
            Text(
                f"{show(missing)} of the budget go to something that was not printed: the estimate of CUDA graphs, by the rule of this version.",
                f"预算中有 {show(missing)} 没有打印去向：按该版本的规则，这是 CUDA graph 预估。",
            )
        )
        draft.derive("cudagraph_estimate", missing)


def _cache(draft: _Draft, engine: EngineFacts) -> None:
    """Tokens of blocks, bytes of tokens, need of a length: as far as bytes a token are known."""
    values, block = draft.values, ledger_tokens.block_size(draft.values, engine)
    if ledger_tokens.is_v0(values, engine) and "blocks" in values:
        draft.derive("kv_tokens", values["blocks"] * block)
    if ledger_tokens.is_v0(values, engine) and "kv_tokens" in values:
        draft.derive("blocks", values["kv_tokens"] // block)
    each = ledger_tokens.bytes_per_token(values, engine)
    length, tokens = values.get("max_model_len"), values.get("kv_tokens")
    if each and tokens:
        draft.derive("available", tokens * each)
    if each and length:
        draft.derive("needed", math.ceil(length / block) * block * each)
    if length and tokens is not None and ledger_tokens.plain_attention(values, engine):
        draft.derive("max_concurrency", round(tokens / length, 2))
    if (share := ledger_tokens.of_one_request(values, engine)) is not None:
        draft.derive("needed", share)
    needed, available = values.get("needed"), values.get("available")
    if tokens and length and tokens < length and ledger_tokens.is_v0(values, engine):
        draft.derive("estimated_max_len", tokens)
    if each and needed and available is not None and 0 < available < needed:
        draft.derive("estimated_max_len", tokens if tokens else int(available / each) // block * block)


_STEPS: tuple[Callable[[_Draft, EngineFacts], None], ...] = (_old_peak, _split_consumed, _estimate_of_utilizations, _listed_card, _budget, _last_term, _total, _hidden_estimate, _cache)


def _failed(readings: Sequence[LedgerReading], values: Values) -> str | None:
    """The check that refused the start, as printed by a refusal; a ledger alone shows at most that nothing is left."""
    for reading in readings:
        if "needed" in reading.values or reading.key in CUT_REFUSALS:
            return NEEDED_OVER_AVAILABLE
        if reading.key.startswith(_OWN):
            continue
        if {"free_at_start", "requested"} <= reading.values.keys():
            return REQUESTED_OVER_FREE
        if {"kv_tokens", "max_model_len"} <= reading.values.keys():
            return LENGTH_OVER_TOKENS
    if any(reading.key in NO_CACHE_BLOCKS for reading in readings) or values.get("available", 1) <= 0:
        return NOTHING_LEFT
    return None


def _beside_budget(engine: EngineFacts, values: Values) -> str | None:
    """What ran out behind the cache: graphs or the warm-up, where an allocation that was larger than what was free says so."""
    if not values.keys() & {"available", "blocks", "kv_tokens"}:
        return None  # graphs are also tried out before there is a cache
    if not engine.alloc_requested_bytes or engine.alloc_free_bytes is None or engine.alloc_requested_bytes <= engine.alloc_free_bytes:
        return None
    return {Phase.GRAPH_CAPTURE: GRAPHS_OVER_FREE, Phase.WARMUP: WARMUP_OVER_FREE}.get(engine.phase) if engine.phase else None


def _rank_notes(ranks_seen: int, engine: EngineFacts) -> list[Text]:
    notes = []
    ranks = (engine.tensor_parallel_size or 1) * (engine.pipeline_parallel_size or 1)
    if ranks > ranks_seen:
        notes.append(
            Text(
                f"{ranks_seen} of {ranks} ranks printed a ledger here: another one may have less room.",
                f"{ranks} 个 rank 中只有 {ranks_seen} 个打印了账目：其他 rank 的余量可能更小。",
            )
        )
    if counts_all_layers(engine):
        notes.append(
            Text(
                "Under pipeline parallelism this version counts all layers on every stage: the printed need and longest length are too pessimistic.",
                "在流水线并行下，该版本把所有层都算在每个 stage 上：打印的需求与最大长度过于悲观。",
            )
        )
    return notes


def counts_all_layers(engine: EngineFacts) -> bool:
    """Whether the check of this version is wrong under pipeline parallelism (0.14 and 0.15): it may refuse what would fit."""
    return (engine.pipeline_parallel_size or 1) > 1 and engine.at_least(14) is True and engine.before(16) is True
