"""What sizing answers with: a size that works, or why a knob cannot work here; and the sentences that say sizes to people in two languages."""

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


def refused(wrong: BadInput) -> Text:
    """Why something cannot be computed, as a sentence."""
    said = str(wrong)
    return Text(f"{said[0].upper()}{said[1:]}.", f"无法计算：{said}。")


def join(*texts: Text | None) -> Text:
    kept = [text for text in texts if text is not None]
    return Text(" ".join(text.en for text in kept), "".join(text.zh or text.en for text in kept))
