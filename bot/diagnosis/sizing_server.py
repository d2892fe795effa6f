"""Sizes for a server whose memory ledger is not known here: a step from the value in force or from the server's own default, in its own option and range.

Computes no cache and promises none. Where the server makes its default up at the start and nobody printed it, there is no number.
"""

import math

from bot.diagnosis import sizing
from bot.diagnosis.ledger_engine import EngineFacts
from bot.diagnosis.sizing_steps import by_shortage, from_shortage, too_little
from bot.diagnosis.sizing_words import STEP, Impossible, Sized
from bot.facts import Facts
from bot.model import Text
from bot.servers import Server, ServerOption
from bot.units import GIB, show

_NOTHING = Text("")  # the effect that the remedy has anyway
_HALF = Text("Half: how much one of them takes is not in the log.", "减半：日志没有说每个占多少。")


def size_for(remedy: str, direction: str, server: Server, engine: EngineFacts, facts: Facts) -> Sized | Impossible | None:
    """None: the server has no option of the kind, or the remedy has no size."""
    option = server.options.get(remedy)
    if option is None:
        return None
    impossible = sizing.size_for(remedy, direction, None, engine)  # what is wrong in this phase is wrong for every server
    if isinstance(impossible, Impossible):
        return impossible
    if option.kind == "switch":
        return _switched(remedy, direction, option, facts)
    if option.kind == "word":
        return Sized(remedy, direction, _NOTHING, _word(facts.get(f"engine.{remedy}")), option.to, cost=3)
    if option.kind == "gib":
        return None  # how many are enough is known of no server whose ledger is not
    set_to = facts.get(f"engine.{remedy}")
    seen = set_to if isinstance(set_to, int | float) and not isinstance(set_to, bool) and set_to > 0 else None
    now = seen if seen is not None else option.default
    if now is None:
        return _unseen(remedy, direction, server, option)
    if option.kind == "fraction":
        if direction == "raise":
            return _raised(remedy, option, (seen, now), facts)
        return _lowered(remedy, option, (seen, now), engine)
    return _half(remedy, option, (seen, now)) if direction == "lower" else None


def _word(value: object) -> str:
    return value if isinstance(value, str) else "auto"


def _switched(remedy: str, direction: str, option: ServerOption, facts: Facts) -> Sized | Impossible:
    if any(facts.get(f"args.{name}") is True for name in option.names):
        return Impossible(remedy, direction, Text(f"{option.option} is set already.", f"已经设置了 {option.option}。"))
    return Sized(remedy, direction, _NOTHING, False, True, cost=3)


def _unseen(remedy: str, direction: str, server: Server, option: ServerOption) -> Sized:
    why = Text(
        f"No number: the value in force was not seen ({server.name} sets it by itself where {option.option} is not given).",
        f"没有给出数值：没有看到当前值（未给出 {option.option} 时由 {server.name} 自行决定）。",
    )
    return Sized(remedy, direction, _NOTHING, None, None, None, why)


def _lowered(remedy: str, option: ServerOption, value: tuple[float | None, float], engine: EngineFacts) -> Sized | Impossible:
    """A step, or what the failed request was short of where the share is one of the whole card."""
    seen, now = value
    short, card = (engine.alloc_short_bytes, engine.device_total_bytes) if option.holds_weights else (0, None)
    step = by_shortage(short, card)
    to = round(now - step, 4)
    if to < option.low:
        return Impossible(remedy, "lower", _already(option, now))
    effect = too_little(short) if card and short > step * card else _NOTHING
    return Sized(remedy, "lower", effect, seen, to, None, _stepped(seen, now) if step == STEP else from_shortage(now, short, card))


def _raised(remedy: str, option: ServerOption, value: tuple[float | None, float], facts: Facts) -> Sized | Impossible:
    seen, now = value
    weights, total = (facts.get(f"budget.loaded_{name}_bytes") for name in ("weights", "total"))
    to = round(min(now + STEP, option.high), 4)
    why = _stepped(seen, now)
    if option.holds_weights and _size(weights) and _size(total):
        least = math.ceil((_size(weights) + GIB) / _size(total) * 100) / 100
        if least > option.high:
            return Impossible(remedy, "raise", Text(f"Weights of {show(_size(weights))} leave no cache on {show(_size(total))}.", f"{show(_size(weights))} 的权重在 {show(_size(total))} 上没有给缓存留下空间。"))
        if least > to:
            to = least
            why = Text(f"Weights of {show(_size(weights))} and 1 GiB of cache take that share of {show(_size(total))}.", f"{show(_size(weights))} 的权重加 1 GiB 缓存占 {show(_size(total))} 的这个比例。")
    if to <= now:
        return Impossible(remedy, "raise", _already(option, now))
    return Sized(remedy, "raise", _NOTHING, seen, to, None, why)


def _size(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _half(remedy: str, option: ServerOption, value: tuple[float | None, float]) -> Sized | Impossible:
    seen, now = value
    to = max(int(option.low), int(now) // 2)
    if to >= now:
        return Impossible(remedy, "lower", _already(option, now))
    why = _HALF if seen is not None else Text(f"Half of the default, {now:g}: the value in force was not seen.", f"默认值 {now:g} 的一半：没有看到当前值。")
    return Sized(remedy, "lower", _NOTHING, _whole(seen), to, None, why, cost=2)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _stepped(seen: float | None, now: float) -> Text:
    if seen is None:
        return Text(f"A step of {STEP:g} from the default {now:g}; repeat it if it is not enough.", f"从默认值 {now:g} 起按 {STEP:g} 的步长；不够可再来一次。")
    return Text(f"A step of {STEP:g}; repeat it if it is not enough.", f"按 {STEP:g} 的步长；不够可再来一次。")


def _already(option: ServerOption, now: float) -> Text:
    return Text(f"{option.option} is at {now:g} already.", f"{option.option} 已经是 {now:g}。")
