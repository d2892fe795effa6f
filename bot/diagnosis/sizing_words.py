"""What sizing answers with: a size that works, or why a knob cannot work here; and the sentences that say sizes to people in two languages."""

import re
from dataclasses import dataclass

from bot.errors import BadInput
from bot.model import Ledger, Predicted, Text
from bot.units import GIB, show

MARGIN = GIB // 10  # two starts of one server differ by this much on a discrete card
UNIFIED_MARGIN = round(1.2 * GIB)  # and by this much where the card shares its memory with the host
STEP = 0.05


@dataclass(frozen=True, slots=True)
class Sized:
    """One change. `to_value` is None where the remedy is right and its number cannot be known; `effect` then says why. `why` explains a step that
    was not computed. `cost` orders candidates by what they cost the user (0 nothing, 5 another machine)."""

    remedy: str
    direction: str
    effect: Text
    from_value: str | int | float | None = None
    to_value: str | int | float | None = None
    predicted: Predicted | None = None
    why: Text | None = None
    cost: int = 1


@dataclass(frozen=True, slots=True)
class Impossible:
    """This knob cannot work here, and why."""

    remedy: str
    direction: str
    why: Text


def predicted(ledger: Ledger) -> Predicted:
    """What a changed ledger promises."""
    free = None
    if ledger.free_at_start_bytes is not None and ledger.requested_bytes is not None:
        free = ledger.free_at_start_bytes - ledger.requested_bytes
    return Predicted(ledger.available_kv_bytes, ledger.kv_tokens, ledger.max_concurrency, free)


def cache(ledger: Ledger) -> Text:
    """The cache of a changed ledger: its size, tokens and requests, as far as known."""
    if ledger.available_kv_bytes is None:
        return Text("How large the cache becomes is not known.", "缓存会变成多大未知。")
    english, chinese = f"cache {show(ledger.available_kv_bytes)}", f"缓存 {show(ledger.available_kv_bytes)}"
    if ledger.kv_tokens:
        english, chinese = f"{english}, {ledger.kv_tokens:,} tokens", f"{chinese}，{ledger.kv_tokens:,} 个 token"
    if ledger.max_concurrency and ledger.max_model_len:
        english = f"{english}, {ledger.max_concurrency:.2f} requests of {ledger.max_model_len:,} tokens at once"
        chinese = f"{chinese}，可同时容纳 {ledger.max_concurrency:.2f} 个 {ledger.max_model_len:,} token 的请求"
    return Text(english[0].upper() + english[1:] + ".", chinese + "。")


# What a what-if refuses, in Chinese: how the English begins (with what stands in it), and the sentence.
_REFUSALS = (
    (r"the log does not say how much was left for the cache, so that the effect of (.+) cannot", "日志没有给出留给缓存的大小，无法计算 {} 的影响"),
    (r"the log does not say how large the card is", "日志没有给出显卡大小，无法计算另一利用率的影响"),
    (r"the log does not say how much cache a token takes", "日志没有给出每个 token 占多少缓存，无法计算另一 max_model_len"),
    (r"the log does not say how much the weights take", "日志没有给出权重大小，无法计算另一 tensor_parallel_size"),
    (r"the cache is fixed by kv_cache_memory_bytes", "缓存由 kv_cache_memory_bytes 固定，利用率不起作用；应改设前者"),
    (r"neither the utilisation in force nor the budget is known", "既不知道生效的利用率，也不知道预算，无法计算另一个值"),
    (r"under pipeline parallelism this version", "流水线并行下该版本（0.14、0.15）在每个 stage 上都计算所有层：无法由其数字算出长度"),
    (r"in this version the peak of activations moves", "该版本的激活峰值随 max_model_len 变化，而日志没有说明如何变化"),
    (r"kv_cache_memory_bytes exists from (\S+) on", "kv_cache_memory_bytes 从 {} 起才有"),
    (r"not every layer of this model keeps a cache of the same kind", "该模型并非各层都保留同样的缓存：无法计算另一 kv_cache_dtype 的影响"),
    (r"the log does not show whether every layer keeps a cache of the same kind", "日志看不出各层的缓存是否同样：无法计算另一 kv_cache_dtype 的影响"),
    (r"not every layer of this model keeps the whole context", "该模型并非每层都保留完整上下文，需求不随长度线性增长，无法计算另一 max_model_len"),
    (r"the log does not show whether every layer keeps the whole context", "日志看不出是否每层都保留完整上下文（混合模型并非如此），无法计算另一 max_model_len"),
    (r"the cache is kept as (.+), whose size", "缓存以 {} 保存，日志没有给出其大小"),
    (r"how much CUDA graphs would take", "没有 graph 的启动日志里看不出 graph 会占多少"),
    (r"the estimate of graphs that (.+) would give back", "日志里没有 {} 能拿回的 graph 估计"),
    (r"the weights take only (.+) on this card", "权重在这张卡上只占 {}"),
    (r"how much memory (.+) takes is not in one start's ledger", "一次启动的账目看不出 {} 占多少显存"),
)


def in_chinese(wrong: BadInput) -> str:
    """A refusal of the what-if in Chinese; one that is about what somebody typed stays as it is."""
    for begin, chinese in _REFUSALS:
        found = re.match(begin, str(wrong))
        if found:
            return chinese.format(*found.groups())
    return str(wrong)


def refused(wrong: BadInput) -> Text:
    """Why something cannot be computed, as a sentence."""
    said = str(wrong)
    return Text(f"{said[0].upper()}{said[1:]}.", f"无法计算：{in_chinese(wrong)}。")


def join(*texts: Text | None) -> Text:
    kept = [text for text in texts if text is not None]
    return Text(" ".join(text.en for text in kept), "".join(text.zh or text.en for text in kept))
