"""The inequalities of a start on a ledger, in the order in which the server meets them, and what each has to spare. Pure arithmetic."""

from dataclasses import dataclass

from bot.diagnosis.ledger_engine import EngineFacts
from bot.diagnosis.sizing_words import MARGIN, UNIFIED_MARGIN
from bot.model import Ledger, Text
from bot.units import show

_ROOM = "requested_bytes <= free_at_start_bytes"
_CARD = "requested_bytes <= total_bytes"
_SIBLINGS = "requested_bytes of all engines on the card <= total_bytes"
_LEFT = "available_kv_bytes > 0"
_NEED = "needed_kv_bytes <= available_kv_bytes"
_GRAPHS = "requested_bytes + graphs beyond the budget <= free_at_start_bytes"
_FIXED = "what is not cache + available_kv_bytes <= free_at_start_bytes"
_WORDS = {
    _ROOM: Text("The budget fits what was free at the start", "预算不超过启动时的空闲显存"),
    _CARD: Text("The budget fits the card", "预算不超过显卡大小"),
    _SIBLINGS: Text("The budgets of all engines on the card fit it", "同一张卡上所有引擎的预算合计不超过显卡大小"),
    _LEFT: Text("Something is left for the cache", "给 KV 缓存留下了空间"),
    _NEED: Text("One request of max_model_len fits the cache", "缓存放得下一个 max_model_len 长度的请求"),
    _GRAPHS: Text("Graphs, which come on top of the budget, fit beside it", "预算之外的 graph 也放得下"),
    _FIXED: Text("The fixed cache fits beside everything else", "固定大小的缓存与其余部分一起放得下"),
}
AS_FAILED: dict[str | None, str] = {
    _ROOM: "requested_bytes > free_at_start_bytes",
    _CARD: "requested_bytes > total_bytes",
    _SIBLINGS: "requested_bytes of all engines on the card > total_bytes",
    _LEFT: "available_kv_bytes <= 0",
    _NEED: "needed_kv_bytes > available_kv_bytes",
    _GRAPHS: "requested_bytes + cudagraph_bytes > free_at_start_bytes",
    _FIXED: "available_kv_bytes > free_at_start_bytes - what is not cache",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One inequality, `left <= right`, and what is to spare. `name` says it in the fields of the ledger."""

    name: str
    slack: int

    @property
    def holds(self) -> bool:
        return self.slack >= 0


def outside_budget(ledger: Ledger, engine: EngineFacts) -> int | None:
    """Bytes that graphs take beyond the budget: 0 where there are none or their estimate is in the sum; None when not known."""
    if engine.enforce_eager:
        return 0
    actual, estimate = ledger.cudagraph_bytes, ledger.cudagraph_estimate_bytes
    if ledger.estimate_in_sum and estimate is not None:
        return max(0, (actual or 0) - estimate)
    if actual is not None:
        return max(0, actual)
    return estimate if ledger.estimate_in_sum is False else None


def checks_of(before: Ledger, after: Ledger, engine: EngineFacts, changed: EngineFacts) -> tuple[Check, ...]:
    """Every inequality of a start that can be computed, in the order in which the server meets them."""
    found: list[Check] = []
    free, budget, left = after.free_at_start_bytes, after.requested_bytes, after.available_kv_bytes
    if free is not None and budget is not None:
        found.append(Check(_ROOM, free - budget))
    elif after.total_bytes is not None and budget is not None:
        found.append(Check(_CARD, after.total_bytes - budget))
    if changed.copies_on_card > 1 and after.total_bytes is not None and budget is not None:
        found.append(Check(_SIBLINGS, after.total_bytes - changed.copies_on_card * budget))
    if left is not None:
        found.append(Check(_NEED, left - after.needed_kv_bytes) if after.needed_kv_bytes is not None and left > 0 else Check(_LEFT, left - 1))
    room, graphs = free if free is not None else after.total_bytes, outside_budget(after, changed)
    if room is None or left is None:
        return tuple(found)
    if changed.kv_cache_memory_bytes:
        other = _not_cache(before, engine)
        if other is not None:
            found.append(Check(_FIXED, room - other - left - (graphs or 0)))
    elif budget is not None and graphs:
        found.append(Check(_GRAPHS, room - budget - graphs))
    return tuple(found)


def _not_cache(ledger: Ledger, engine: EngineFacts) -> int | None:
    """Bytes that the server uses beside its cache: budget less cache, where the profiling run measured it."""
    if ledger.requested_bytes is None or ledger.available_kv_bytes is None or engine.kv_cache_memory_bytes:
        return None
    return ledger.requested_bytes - ledger.available_kv_bytes


def margin_notes(checks: tuple[Check, ...], engine: EngineFacts) -> list[Text]:
    notes = [
        Text(f"{_WORDS[check.name].en}: holds with {show(check.slack)} to spare.", f"{_WORDS[check.name].zh}：成立，余 {show(check.slack)}。")
        if check.holds
        else Text(f"{_WORDS[check.name].en}: does not hold, {show(-check.slack)} short.", f"{_WORDS[check.name].zh}：不成立，差 {show(-check.slack)}。")
        for check in checks
    ]
    noise = UNIFIED_MARGIN if engine.unified_memory else MARGIN
    if any(0 <= check.slack < noise for check in checks):
        notes.append(
            Text(f"Two starts of one server differ by up to {show(noise)}: this is closer than that.", f"同一服务两次启动可相差 {show(noise)}：这里的余量比它还小。")
        )
    return notes
