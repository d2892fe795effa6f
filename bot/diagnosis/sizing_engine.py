"""Sizes of the engine's other knobs: sequences, batch, graphs and their estimate, ranks, offload."""

import math

from bot.diagnosis.ledger import BESIDE_BUDGET, LENGTH_OVER_TOKENS, NEEDED_OVER_AVAILABLE, REQUESTED_OVER_FREE
from bot.diagnosis.ledger_engine import EngineFacts
from bot.diagnosis.sizing_utilization import SHORT, wrong_estimate
from bot.diagnosis.sizing_whatif import what_if
from bot.diagnosis.sizing_words import MARGIN, Impossible, Sized, cache, predicted, refused
from bot.errors import BadInput
from bot.model import Ledger, Phase, Text
from bot.units import GIB, gib, show

_HALF = Text("Half: how much one of them takes is not in the log.", "减半：日志没有说每个占多少。")
_TOO_EARLY = Text("The server asked for more than was free before this knob mattered.", "在该参数起作用之前，要求的就已多于空闲。")


def lower_sequences(ledger: Ledger | None, engine: EngineFacts) -> Sized | Impossible:
    """Half of them; or as many as there are blocks for state-space layers, where the server says so."""
    remedy, now = "max_num_seqs", engine.max_num_seqs
    if engine.mamba_blocks:
        return Sized(remedy, "lower", Text(f"There are blocks for {engine.mamba_blocks} sequences.", f"块数只够 {engine.mamba_blocks} 个序列。"), now, engine.mamba_blocks, cost=2)
    if ledger is not None and ledger.failed in (NEEDED_OVER_AVAILABLE, LENGTH_OVER_TOKENS):
        return Impossible(remedy, "lower", Text("One request alone does not fit: fewer at once do not change that.", "单个请求就放不下：减少并发不能改变这一点。"))
    if ledger is not None and ledger.failed == REQUESTED_OVER_FREE:
        return Impossible(remedy, "lower", _TOO_EARLY)
    if now is not None and now <= 1:
        return Impossible(remedy, "lower", Text("It is at 1 already.", "已经是 1。"))
    ran = engine.running_requests or 0
    known = now if now is not None else max(_default_sequences(engine), ran)
    assumed = now is None and engine.release is None
    to = max(1, known // 2)
    effect = Text(f"At most {to} requests are computed at once, and warm-up uses {to} instead of {known}.", f"最多同时计算 {to} 个请求，预热用 {to} 个而不是 {known} 个。")
    if now is None and known == ran:
        why = Text(f"Half of the {ran} that ran at once: the value in force is not in the log.", f"当时有 {ran} 个请求同时运行，取其一半：日志里没有当前值。")
        return Sized(remedy, "lower", Text(f"At most {to} requests are computed at once.", f"最多同时计算 {to} 个请求。"), None, to, None, why, cost=2)
    if assumed:
        why = Text(f"Half of the default, {known}: the value in force is not in the log.", f"默认值 {known} 的一半：日志里没有当前值。")
        return Sized(remedy, "lower", effect, None, to, None, why, cost=2)
    return Sized(remedy, "lower", effect, known, to, None, _HALF, cost=2)


def _default_sequences(engine: EngineFacts) -> int:
    """256, except for the first V1 releases (1024) and V1 on large cards that are no A100 (1024 in every release, so that none need be known)."""
    if engine.v0 is False and engine.at_least(8) and engine.before(8, 5):
        return 1024
    return 1024 if _is_large(engine) and engine.v0 is False else 256


def _is_large(engine: EngineFacts) -> bool:
    """Whether it is a card for which V1 has larger defaults."""
    seen = engine.device_total_bytes or engine.listed_total_bytes or engine.card_bytes or 0
    return seen >= 70 * GIB and "a100" not in engine.card.lower()


def lower_batch(ledger: Ledger | None, engine: EngineFacts) -> Sized | Impossible:
    """Half the tokens of a step, in whole 256, not below what the other settings need."""
    remedy, now = "max_num_batched_tokens", engine.max_num_batched_tokens
    if ledger is not None and ledger.failed == REQUESTED_OVER_FREE:
        return Impossible(remedy, "lower", _TOO_EARLY)
    if engine.phase is Phase.WEIGHTS:
        return Impossible(remedy, "lower", Text("The weights are loaded before any batch is computed.", "加载权重时还没有任何批次。"))
    unchunked = engine.chunked_prefill is False or (engine.v0 and engine.chunked_prefill is None and ((engine.max_model_len or 0) <= 32768 or engine.before(5, 3)))
    if unchunked:
        why = Text("Without chunked prefill it may not be below max_model_len.", "未启用分块预填充时它不能小于 max_model_len。")
        return Impossible(remedy, "lower", why)
    effect = Text("The peak of activations falls; on V1 with graphs their pool does too.", "激活峰值降低；在 V1 上 graph 池也随之变小。")
    step = engine.scheduled_tokens or 0
    known = now if now is not None else max(_default_batch(engine), step)
    least = max(256, engine.max_num_seqs or 0)
    to = max(known // 2 // 256 * 256, math.ceil(least / 256) * 256)
    if to >= known:
        return Impossible(remedy, "lower", Text(f"It is at {known} already.", f"已经是 {known}。"))
    if now is None and known == step:
        why = Text(f"Half of the {step} tokens that the failed step computed: the value in force is not in the log.", f"出错的一步计算了 {step} 个 token，取其一半：日志里没有当前值。")
        return Sized(remedy, "lower", effect, None, to, None, why, cost=2)
    if now is None:
        why = Text(f"Half of the default, {known}: the value in force is not in the log.", f"默认值 {known} 的一半：日志里没有当前值。")
        return Sized(remedy, "lower", effect, None, to, None, why, cost=2)
    return Sized(remedy, "lower", effect, now, to, None, _HALF, cost=2)


def _default_batch(engine: EngineFacts) -> int:
    """2048 tokens, except for V1 servers on large cards that are no A100, and 512 for the chunks of V0 before 0.6.5."""
    if engine.v0 and engine.before(6, 5):
        return 512
    return 8192 if _is_large(engine) and engine.v0 is False else 2048


def eager(ledger: Ledger | None, engine: EngineFacts) -> Sized | Impossible | None:
    """No graphs: gives back their estimate where it is in the sum, or room beside the budget; costs speed."""
    remedy = "enforce_eager"
    if engine.enforce_eager:
        return Impossible(remedy, "enable", Text("Graphs are off already.", "graph 已经关闭。"))
    if ledger is None:
        return None
    if ledger.failed in SHORT and ledger.estimate_in_sum is False:
        return Impossible(remedy, "enable", Text("In this version graphs are not in the budget: the cache does not grow without them.", "该版本的预算不含 graph：去掉它缓存不会变大。"))
    if ledger.failed == REQUESTED_OVER_FREE:
        return Impossible(remedy, "enable", _TOO_EARLY)
    return _given_back(ledger, engine, remedy, "enable", True, Text("Decoding becomes slower.", "解码会变慢。"))


def estimate_off(ledger: Ledger | None, engine: EngineFacts) -> Sized | Impossible | None:
    """VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0: the estimate goes back to the cache and graphs must fit beside the budget."""
    remedy = "cudagraph_estimate"
    if engine.before(18):
        return Impossible(remedy, "disable", Text("This version has no such estimate.", "该版本没有这项预估。"))
    if ledger is None:
        return None
    if ledger.estimate_in_sum is False or engine.enforce_eager or engine.estimate_cudagraphs is False:
        return Impossible(remedy, "disable", Text("The estimate is not taken off the budget here.", "这里没有从预算中扣除该预估。"))
    found = _given_back(ledger, engine, remedy, "disable", False, Text("Graphs must then fit beside the budget.", "之后 graph 必须放在预算之外。"))
    if isinstance(found, Sized) and wrong_estimate(ledger) is None and ledger.failed in (None, *BESIDE_BUDGET):
        return Impossible(remedy, "disable", Text("The estimate protects the capture of graphs, which ran out or worked: nothing asks for its removal.", "该预估保护 graph 捕获：没有理由去掉它。"))
    return found


def _given_back(ledger: Ledger, engine: EngineFacts, remedy: str, direction: str, value: bool, price: Text) -> Sized | Impossible | None:
    if ledger.cudagraph_estimate_bytes is None or ledger.available_kv_bytes is None:
        return None
    if ledger.estimate_in_sum is None and ledger.available_kv_bytes + ledger.cudagraph_estimate_bytes > (ledger.needed_kv_bytes or 0):
        return None  # without the version nothing says that it is taken off, and nothing that it is not
    try:
        answer = what_if(ledger, engine, {remedy: value})
    except BadInput:
        return None
    after, estimate = answer.after, ledger.cudagraph_estimate_bytes
    short = ledger.failed in SHORT and (after.available_kv_bytes or 0) < (after.needed_kv_bytes or 1)
    if short:
        why = Text(f"It gives back {show(estimate)}; the cache is short of more.", f"只能拿回 {show(estimate)}；缓存缺的更多。")
        return Impossible(remedy, direction, why)
    gained = cache(after)
    if after.available_kv_bytes == ledger.available_kv_bytes:  # graphs stand beside the budget in this version
        gained = Text(f"About {show(estimate)} more beside the budget.", f"预算之外多出约 {show(estimate)}。")
    effect = Text(f"{gained.en} {price.en}", f"{gained.zh}{price.zh}")
    return Sized(remedy, direction, effect, "1" if remedy == "cudagraph_estimate" else False, "0" if remedy == "cudagraph_estimate" else True, predicted(after), cost=3)


def more_ranks(ledger: Ledger | None, engine: EngineFacts) -> Sized | Impossible | None:
    """Twice the ranks, or as many as the weights need."""
    remedy, now = "tensor_parallel_size", engine.tensor_parallel_size or 1
    if ledger is None:
        return None
    if ledger.failed == REQUESTED_OVER_FREE:
        return Impossible(remedy, "raise", _TOO_EARLY)
    for size in (now * 2, now * 4, now * 8):
        try:
            answer = what_if(ledger, engine, {remedy: size})
        except BadInput:
            return None
        after = answer.after
        if after.available_kv_bytes is None:
            return None
        if after.available_kv_bytes > (after.needed_kv_bytes or 0) + MARGIN:
            note = Text("Needs that many free cards, and heads that divide by them.", "需要这么多空闲的卡，且注意力头数可整除。")
            return Sized(remedy, "raise", Text(f"On each rank: {cache(after).en} {note.en}", f"每个 rank：{cache(after).zh}{note.zh}"), now, size, predicted(after), cost=4)
    return Impossible(remedy, "raise", Text("Not even eight times as many cards leave room for one request.", "即使卡数增加到八倍，也放不下一个请求。"))


def more_offload(ledger: Ledger | None, engine: EngineFacts) -> Sized | Impossible | None:
    """As many whole GiB of weights into host memory as the cache is short of."""
    remedy = "cpu_offload"
    if ledger is None or ledger.failed not in SHORT or ledger.available_kv_bytes is None:
        return None
    needed = ledger.needed_kv_bytes if ledger.needed_kv_bytes is not None else GIB
    short = needed - ledger.available_kv_bytes + MARGIN
    to = math.ceil((engine.cpu_offload_gb or 0) + short / GIB)
    try:
        after = what_if(ledger, engine, {"cpu_offload_gb": to}).after
    except BadInput as wrong:
        return Impossible(remedy, "raise", refused(wrong))
    price = Text(f"{gib(to) // GIB} GiB of host memory a card; every step becomes slower.", f"每张卡需要 {gib(to) // GIB} GiB 主机内存；每一步都会变慢。")
    return Sized(remedy, "raise", Text(f"{cache(after).en} {price.en}", f"{cache(after).zh}{price.zh}"), engine.cpu_offload_gb or 0, to, predicted(after), cost=4)
