"""Sizes of what the cache is made of: max_model_len, kv_cache_memory_bytes, kv_cache_dtype."""

import math
from dataclasses import replace

from bot.diagnosis.ledger import BESIDE_BUDGET, LENGTH_OVER_TOKENS, NOTHING_LEFT, REQUESTED_OVER_FREE, counts_all_layers
from bot.diagnosis.ledger_engine import EngineFacts
from bot.diagnosis.sizing_checks import outside_budget
from bot.diagnosis.sizing_utilization import DRIVER, SHORT
from bot.diagnosis.sizing_whatif import CHUNKED_ABOVE, each_token, length_is_linear, what_if
from bot.diagnosis.sizing_words import MARGIN, UNIFIED_MARGIN, Impossible, Sized, cache, in_chinese, join, predicted, refused
from bot.errors import BadInput
from bot.model import Ledger, Phase, Predicted, Text
from bot.units import GIB, MIB, beside, show

LENGTH, BYTES, DTYPE = "max_model_len", "kv_cache_memory_bytes", "kv_cache_dtype"
_NO_ROOM = 64  # tokens; no server is of use with less


def lower_length(ledger: Ledger | None, engine: EngineFacts) -> Sized | Impossible:
    """To the longest length that fits: the printed one, or need per token times what is left; rounded down to whole kilotokens where there are many."""
    now = (ledger.max_model_len if ledger else None) or engine.max_model_len
    why = _length_has_no_say(ledger, engine)
    if why:
        return Impossible(LENGTH, "lower", why)
    longest = _longest(ledger, engine) if ledger is not None else None
    if longest is None:
        return _halved_length(ledger, engine, now)
    each = each_token(ledger, engine) if ledger is not None else None
    margin = min(longest // 200, int(MARGIN / 2 / each) if each else longest)  # two starts differ: half a percent, 0.05 GiB at most
    to = _rounded(longest - margin, engine.block_size or 16)
    if to < _NO_ROOM:
        return Impossible(LENGTH, "lower", Text(f"Only {longest} tokens fit: no useful length does.", f"只放得下 {longest} 个 token：没有可用的长度。"))
    if now is not None and to >= now:
        return Impossible(LENGTH, "lower", Text(f"The present length of {now:,} tokens fits already.", f"当前长度 {now:,} 个 token 已放得下。"))
    sized = _sized_length(ledger, engine, now, to, longest)
    return replace(sized, effect=join(sized.effect, _unchunked(engine))) if _loses_chunks(ledger, engine, now, to) else sized


def _loses_chunks(ledger: Ledger | None, engine: EngineFacts, now: int | None, to: int) -> bool:
    """Old engines cut prefill into chunks by themselves only above a length: below it they profile it whole, and the cache is smaller than it was."""
    refused = ledger is not None and ledger.failed == LENGTH_OVER_TOKENS
    return refused and engine.v0 is not False and not engine.chunked_prefill and not engine.before(5, 3) and to <= CHUNKED_ABOVE < (now or 0)


def _unchunked(engine: EngineFacts) -> Text:
    return Text(
        f"Set --enable-chunked-prefill with it: this engine cuts prefill into chunks by itself only above {CHUNKED_ABOVE:,} tokens, and without them activations take some of the cache.",
        f"请同时设置 --enable-chunked-prefill：该引擎只在长度超过 {CHUNKED_ABOVE:,} 个 token 时才自动分块预填充，不分块时激活会占去部分缓存。",
    )


def _sized_length(ledger: Ledger | None, engine: EngineFacts, now: int | None, to: int, longest: int) -> Sized:
    assumed = Text(f"{longest:,} tokens are the most that fits.", f"最多放得下 {longest:,} 个 token。")
    if ledger is not None:
        try:
            after = what_if(ledger, engine, {LENGTH: to}).after
        except BadInput:
            after = None
        if after is not None and after.needed_kv_bytes is not None and ledger.available_kv_bytes is not None:
            spare = ledger.available_kv_bytes - after.needed_kv_bytes
            fits = Text(f"One request needs {show(after.needed_kv_bytes)} and fits by {beside(spare)}.", f"一个请求需要 {show(after.needed_kv_bytes)}，还余 {beside(spare)}。")
            return Sized(LENGTH, "lower", fits, now, to, _with_tokens(predicted(after), after, longest), cost=2)
    return Sized(LENGTH, "lower", assumed, now, to, Predicted(ledger.available_kv_bytes if ledger else None), cost=2)


def _with_tokens(promised: Predicted, after: Ledger, longest: int) -> Predicted:
    """Where each token needs the same, the longest request that fits is all that the cache holds."""
    return replace(promised, kv_tokens=longest) if promised.kv_tokens is None and after.plain_attention else promised


def _length_has_no_say(ledger: Ledger | None, engine: EngineFacts) -> Text | None:
    if engine.phase is Phase.WEIGHTS:
        return Text("The weights are loaded before any length matters.", "加载权重时长度还不起作用。")
    if ledger is None:
        return None
    if ledger.failed == REQUESTED_OVER_FREE:
        return Text("The server asked for more than was free before any length mattered.", "在长度起作用之前，要求的就已多于空闲。")
    if ledger.failed in SHORT and counts_all_layers(engine):
        return Text("This version counts all layers on every pipeline stage: its longest length is too pessimistic.", "该版本在每个 stage 上都计算所有层：它给出的最大长度过于悲观。")
    if ledger.failed == NOTHING_LEFT and engine.v0 is not True and ledger.kv_blocks is None:  # V0 prints blocks before it refuses
        return Text("Nothing is left for the cache, and in this engine the length does not change that.", "没有给缓存留下任何空间，而该引擎中长度不改变这一点。")
    return None


def _longest(ledger: Ledger, engine: EngineFacts) -> int | None:
    """Tokens of the longest request that fits, by the server's word or by arithmetic; None when neither is to be had."""
    if ledger.estimated_max_len and (ledger.failed in SHORT or "estimated_max_len" not in ledger.derived):
        return ledger.estimated_max_len
    if ledger.failed == LENGTH_OVER_TOKENS and ledger.kv_tokens:
        return ledger.kv_tokens  # the check compares these two, whatever kind of model it is
    if ledger.failed is None and ledger.kv_blocks and "kv_blocks" not in ledger.derived and (ledger.kv_tokens or 0) < (ledger.max_model_len or 0):
        return ledger.kv_tokens  # an old engine counted its blocks; its refusal itself is cut off
    each = each_token(ledger, engine)
    if each and length_is_linear(ledger, engine) and ledger.available_kv_bytes and ledger.available_kv_bytes > 0 and ledger.failed in SHORT:
        return int((ledger.available_kv_bytes - 0.005 * GIB) / each)
    return None


def _rounded(tokens: int, block: int) -> int:
    """Down to whole kilotokens of many, to 256 of some, to whole blocks of few: a number that a person would write."""
    unit = 1024 if tokens >= 8192 else 256 if tokens >= 2048 else block
    unit = math.lcm(unit, block) if math.lcm(unit, block) <= tokens else block
    return tokens // unit * unit


def _halved_length(ledger: Ledger | None, engine: EngineFacts, now: int | None) -> Sized | Impossible:
    hybrid = (ledger is not None and ledger.plain_attention is False) or engine.known_hybrid is True
    if hybrid:
        effect = Text(
            "Not computed: in this model not every layer keeps the whole context, so that need does not grow in line with the length. Lower it until the server prints that it fits.",
            "不计算：该模型并非每层都保留完整上下文，需求不随长度线性增长。请逐步降低，直到服务提示放得下。",
        )
        return Sized(LENGTH, "lower", effect, now, None, cost=2)
    if now is None or now < 1024:
        return Sized(LENGTH, "lower", Text("Not computed: the log gives no length to start from.", "不计算：日志里没有可作起点的长度。"), now, None, cost=2)
    if ledger is not None and ledger.failed in SHORT and ledger.needed_kv_bytes and (ledger.available_kv_bytes or 0) > 0:
        return _below_bound(ledger, engine, now)
    why = Text("Half the length: the log has no numbers to compute it from.", "长度减半：日志里没有可供计算的数字。")
    return Sized(LENGTH, "lower", Text("One request needs half as much cache.", "一个请求所需的缓存减半。"), now, _rounded(now // 2, engine.block_size or 16), None, why, cost=2)


def _below_bound(ledger: Ledger, engine: EngineFacts, now: int) -> Sized | Impossible:
    """Need never grows faster than the length: more than this share of it cannot fit, and less fits wherever each token needs the same."""
    needed, left = ledger.needed_kv_bytes or 1, ledger.available_kv_bytes or 0
    bound = int(now * left / needed)
    to = now
    while to > bound:
        to //= 2
    to = _rounded(to, engine.block_size or 16)
    if to < _NO_ROOM:
        return Impossible(LENGTH, "lower", Text(f"At most {bound} tokens could fit: no useful length does.", f"最多放得下 {bound} 个 token：没有可用的长度。"))
    why = Text(
        f"More than {bound:,} tokens cannot fit into {show(left)}; whether every layer keeps the whole context, so that so many do, is not in the log. This is the next half below.",
        f"{show(left)} 不可能放下超过 {bound:,} 个 token；是否每层都保留完整上下文（从而恰好放得下这么多），日志里没有。这里取其下的下一个减半值。",
    )
    each = show(round(needed * to / now))
    effect = Text(f"One request needs {each} where every layer keeps the whole context, and more elsewhere.", f"若每层都保留完整上下文，一个请求需要 {each}；否则需要更多。")
    return Sized(LENGTH, "lower", effect, now, to, None, why, cost=2)


def set_bytes(ledger: Ledger | None, engine: EngineFacts) -> Sized | Impossible | None:
    """A cache of exactly so many bytes: what one request needs, or what fits the budget with graphs; never more than the card has beside the rest.
    The CPU backend has had its own variable all along, and no card to compute with."""
    if engine.cpu_backend:
        return None
    if engine.before(10, 2):
        return Impossible(BYTES, "set", Text("The option exists from 0.10.2 on.", "该选项从 0.10.2 起才有。"))
    if ledger is None:
        return None
    if ledger.failed == REQUESTED_OVER_FREE:
        return Impossible(BYTES, "set", Text("The check of free memory at start uses utilisation all the same.", "启动时的空闲显存检查仍按利用率进行。"))
    now = engine.kv_cache_memory_bytes
    room = _room_for_cache(ledger, engine)
    margin = UNIFIED_MARGIN if engine.unified_memory else MARGIN
    wanted = _wanted_bytes(ledger, engine, now)
    if wanted is None:
        return None
    if room is None and ledger.failed in SHORT:
        open_end, begin = ("One", "") if now else ("Not computed: one", "不计算：")
        unknown = Text(
            f"{open_end} request needs {show(ledger.needed_kv_bytes or 0)}; whether the card has room for it is not in the log.",
            f"{begin}一个请求需要 {show(ledger.needed_kv_bytes or 0)}；卡上是否放得下，日志里没有。",
        )
        return Sized(BYTES, "set", unknown, now, math.ceil(wanted / (64 * MIB)) * 64 * MIB if now else None, cost=1)
    if room is not None and wanted > room - margin:
        if ledger.needed_kv_bytes is not None and ledger.needed_kv_bytes > room - margin:
            return Impossible(BYTES, "set", Text(f"The card has room for {show(room)} of cache; {show(ledger.needed_kv_bytes)} are needed.", f"卡上只放得下 {show(room)} 缓存，而需要 {show(ledger.needed_kv_bytes)}。"))
        wanted = room - margin
    to = wanted // (64 * MIB) * 64 * MIB if now or ledger.failed in (None, *BESIDE_BUDGET) else math.ceil(wanted / (64 * MIB)) * 64 * MIB
    if to <= 0:
        return Impossible(BYTES, "set", Text("Nothing is left for a cache beside weights and activations.", "除去权重与激活，没有空间留给缓存。"))
    try:
        after = what_if(ledger, engine, {BYTES: to}).after
    except BadInput as wrong:
        return Impossible(BYTES, "set", refused(wrong))
    room_words = None if room is None else Text(f"The card has room for {show(room)}.", f"卡上放得下 {show(room)}。")
    return Sized(BYTES, "set", join(cache(after), room_words), now, to, predicted(after), cost=1)


def _wanted_bytes(ledger: Ledger, engine: EngineFacts, now: int | None) -> int | None:
    if ledger.failed in SHORT:
        return None if ledger.needed_kv_bytes is None else ledger.needed_kv_bytes + (UNIFIED_MARGIN // 2 if engine.unified_memory else MARGIN)
    if now:  # it is in force and memory ran out: give back what was short, and half a GiB
        return now - max(0, (engine.alloc_requested_bytes or 0) - (engine.alloc_free_bytes or 0)) - GIB // 2
    if ledger.available_kv_bytes is None or ledger.available_kv_bytes <= 0:
        return None
    graphs = outside_budget(ledger, engine)
    return ledger.available_kv_bytes - (graphs if graphs is not None else GIB) - 150 * MIB


def _room_for_cache(ledger: Ledger, engine: EngineFacts) -> int | None:
    """Bytes of cache that the card can hold: free at start less what the profiling run measured beside the cache, less graphs outside the budget."""
    if ledger.total_bytes is None or ledger.requested_bytes is None or ledger.available_kv_bytes is None or engine.kv_cache_memory_bytes:
        return None
    free = ledger.free_at_start_bytes if ledger.free_at_start_bytes is not None else ledger.total_bytes - DRIVER
    graphs = outside_budget(ledger, engine)
    return free - (ledger.requested_bytes - ledger.available_kv_bytes) - (graphs if graphs is not None else GIB)


def fp8(ledger: Ledger | None, engine: EngineFacts) -> Sized | Impossible | None:
    """Half the bytes a token; helps only where a cache is left at all and half the need fits into it."""
    if engine.fp8_cache:
        return Impossible(DTYPE, "fp8", Text(f"The cache is kept as {engine.kv_cache_dtype} already.", f"缓存已经是 {engine.kv_cache_dtype}。"))
    if ledger is None:
        return None
    if ledger.failed == NOTHING_LEFT or (ledger.available_kv_bytes is not None and ledger.available_kv_bytes <= 0):
        return Impossible(DTYPE, "fp8", Text("Nothing is left for a cache of any type.", "任何类型的缓存都没有空间。"))
    if ledger.failed == REQUESTED_OVER_FREE:
        return Impossible(DTYPE, "fp8", Text("The server asked for more than was free before any cache was sized.", "在确定缓存大小之前，要求的就已多于空闲。"))
    if ledger.needed_kv_bytes and ledger.available_kv_bytes is not None and ledger.needed_kv_bytes / 2 > ledger.available_kv_bytes:
        return _half_is_too_much(ledger.needed_kv_bytes // 2, ledger.available_kv_bytes)
    try:
        after = what_if(ledger, engine, {DTYPE: "fp8"}).after
    except BadInput as wrong:
        return Sized(DTYPE, "fp8", Text(f"Not computed: {wrong}.", f"不计算：{in_chinese(wrong)}。"), engine.kv_cache_dtype or "auto", "fp8", cost=3)
    if ledger.failed == LENGTH_OVER_TOKENS and (after.kv_tokens or 0) < (after.max_model_len or 0):
        why = Text(
            f"It doubles the cache to {after.kv_tokens or 0:,} tokens; {after.max_model_len or 0:,} are asked for.",
            f"缓存加倍到 {after.kv_tokens or 0:,} 个 token，但要求 {after.max_model_len or 0:,} 个。",
        )
        return Impossible(DTYPE, "fp8", why)
    if after.needed_kv_bytes is not None and after.available_kv_bytes is not None and after.needed_kv_bytes > after.available_kv_bytes:
        return _half_is_too_much(after.needed_kv_bytes, after.available_kv_bytes)
    quality = Text("Quality of an fp8 cache is yours to judge.", "fp8 缓存的质量需由你判断。")
    return Sized(DTYPE, "fp8", join(_halves(after), quality), engine.kv_cache_dtype or "auto", "fp8", predicted(after), cost=3)


def _half_is_too_much(need: int, left: int) -> Impossible:
    return Impossible(DTYPE, "fp8", Text(f"It halves the need to {show(need)} at best; {show(left)} are left.", f"需求最多减半为 {show(need)}，但只剩 {show(left)}。"))


def _halves(after: Ledger) -> Text:
    if after.needed_kv_bytes is None:
        return Text("A token takes half the cache.", "每个 token 占用的缓存减半。")
    return Text(f"One request needs {show(after.needed_kv_bytes)}, half as much as before.", f"一个请求需要 {show(after.needed_kv_bytes)}，是原来的一半。")
