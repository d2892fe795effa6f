"""Steps of utilisation for logs that do not give the size of the card: 0.05, or less where less is proved to be enough. Each says why it is a step."""

import math

from bot.diagnosis.ledger import NOTHING_LEFT
from bot.diagnosis.ledger_sum import least_share, refuted
from bot.diagnosis.sizing_words import MARGIN, STEP, Impossible, Sized, join
from bot.model import Ledger, Text
from bot.units import GIB, show

REMEDY = "gpu_memory_utilization"
_LAST = 0.975  # what is left above it is needed beside the budget
_LARGEST = 288 * GIB  # no card is larger
DEEPEST = 0.3  # of the card: whoever needs more room than this beside the cache needs another change
_LIKELY = 0.9  # what is in force when neither argument nor version is known: 0.9, or 0.92 from 0.20 on


def step_up(ledger: Ledger | None, now: float | None, short: int | None, copies: int = 1, host: bool = False, card: int | None = None) -> Sized | Impossible:
    """Up by 0.05, or by what `short` bytes of cache need on a card of this size (None: how much is missing is not known). `host`: a share of the memory of
    a host, which may be of any size. `card`: bytes of the card, where they are known from elsewhere."""
    base = _base(ledger, now)
    aimed = short + GIB if short is not None and ledger is not None and is_open(ledger) else short  # a first cache, since what one request needs is not printed
    short = short if short is not None and short > 0 else None
    enough = None if ledger is None or short is None or aimed is None else _enough(ledger, base, aimed)
    to = round(min(base + (enough if enough is not None else STEP), 0.95) if now is None and enough is None else base + (enough or STEP), 4)
    if to * copies > _LAST and copies > 1:
        return Impossible(REMEDY, "raise", siblings(copies, _LAST / copies))
    if to > _LAST:
        return Impossible(
            REMEDY, "raise", Text(f"It is at {base:g} already: what is left of the card is needed beside the budget.", f"已经是 {base:g}：卡上余下的部分要留给预算之外。")
        )
    if short is not None and not host and short > (_LAST - base) * (card or _LARGEST):
        which, chinese = (f"on {show(card)}", f"{show(card)} 的卡") if card else ("on any card", "任何一张卡")
        return Impossible(
            REMEDY,
            "raise",
            Text(f"{show(short)} are missing: what is left above {base:g} is not that much {which}.", f"还缺 {show(short)}：{chinese}在 {base:g} 之上都没有这么多余量。"),
        )
    effect = Text("The cache grows by 5 % of the card.", "缓存增大，幅度为整卡的 5%。")
    if ledger is not None and is_open(ledger):
        effect = _first_cache(ledger, base, to, effect)
    elif enough is not None and short is not None:
        effect = Text(f"{show(short)} are missing; on a card of this size that is enough.", f"还缺 {show(short)}；对这么大的卡来说足够了。")
    elif short is not None:
        effect = join(effect, _how_far(short, base) if card is None and not host else _again(short))
    return Sized(REMEDY, "raise", effect, now, to, None, None if enough is not None else _why(ledger, now), cost=1)


def _again(short: int) -> Text:
    return Text(f"At least {show(short)} are missing: repeat it until they are there.", f"至少还缺 {show(short)}：可重复直到补足。")


def _how_far(short: int, base: float) -> Text:
    """Which cards have what is missing above the value in force, since the size of this one was not seen."""
    least = round(short / (_LAST - base))
    return Text(
        f"At least {show(short)} are missing: only a card of {show(least)} or more has that above {base:g}.",
        f"至少还缺 {show(short)}：只有 {show(least)} 以上的卡在 {base:g} 之上才有这么多。",
    )


def is_open(ledger: Ledger) -> bool:
    """Whether the start was refused before it could say what one request needs: where there is a cache, the next refusal may come."""
    return ledger.failed == NOTHING_LEFT and ledger.needed_kv_bytes is None


def may_refuse(ledger: Ledger) -> Text:
    """What a larger budget cannot promise."""
    length, chinese = (f"a request of {ledger.max_model_len:,} tokens", f"{ledger.max_model_len:,} 个 token 的请求") if ledger.max_model_len else ("one request", "一个请求")
    return Text(
        f"What {length} needs is not in the log: the next start may be refused for that, and then says how much.",
        f"{chinese}需要多少，日志里没有：下次启动仍可能因此被拒绝，届时会给出所缺的大小。",
    )


def _first_cache(ledger: Ledger, base: float, to: float, grows: Text) -> Text:
    """The least that the step leads to, by a card that holds at least the weights and the cache in its budget."""
    if ledger.available_kv_bytes is None:
        return join(grows, may_refuse(ledger))
    least = ledger.available_kv_bytes + round((to - base) * _least_card(ledger, base))
    if least <= 0:
        return join(grows, Text(f"{show(-ledger.available_kv_bytes)} are missing for a first block: repeat it until they are there.", f"第一个块还缺 {show(-ledger.available_kv_bytes)}：可重复直到补足。"))
    return join(Text(f"A cache of {show(least)} at least.", f"缓存至少 {show(least)}。"), may_refuse(ledger))


def _least_card(ledger: Ledger, base: float) -> float:
    return ledger.total_bytes or ((ledger.weights_bytes or 0) + max(ledger.available_kv_bytes or 0, 0)) / base


def _enough(ledger: Ledger, base: float, short: int) -> float | None:
    """The step that covers `short` for certain: the card holds at least the weights and the cache in its budget. None when it is more than 0.05."""
    least = _least_card(ledger, base)
    if least <= 0:
        return None
    step = math.ceil((short + MARGIN) / least * 100) / 100
    return step if step <= (STEP if ledger.total_bytes is None else 1) else None


def step_down(ledger: Ledger | None, now: float | None, beside_others: float | None = None, short: int = 0, card: int | None = None) -> Sized | Impossible:
    """Down by 0.05, by the bytes that a request was `short` of on a card of this size where that is more, or to what other processes leave of the card
    (`beside_others`) where that is less."""
    base = _base(ledger, now)
    step = by_shortage(short, card)
    to = round(base - step, 4)
    if beside_others is not None and beside_others < to:
        if beside_others < STEP:
            return Impossible(REMEDY, "lower", Text("Other processes leave next to nothing of the card.", "其他进程几乎占满了这张卡。"))
        left = Text(f"While the other processes stay, {beside_others:g} of the card is left for this server.", f"其他进程仍在时，这张卡只剩 {beside_others:g} 可供本服务使用。")
        return Sized(REMEDY, "lower", left, now, beside_others, cost=1)
    if to < STEP:
        return Impossible(REMEDY, "lower", at_already(base))
    effect = join(
        Text(f"{step * 100:.0f} % of the card move from the cache to everything beside it.", f"整卡的 {step * 100:.0f}% 从缓存让给其他部分。"),
        too_little(short) if card and short > step * card else None,
    )
    return Sized(REMEDY, "lower", effect, now, to, None, _why(ledger, now) if step == STEP else from_shortage(base, short, card), cost=1)


def by_shortage(short: int, card: int | None) -> float:
    """How far down: 0.05, or what `short` bytes are of the card where that is more and still a step."""
    deep = math.ceil((short + MARGIN) / card * 100) / 100 if card and short else STEP
    return deep if STEP < deep <= DEEPEST else STEP


def too_little(short: int) -> Text:
    return Text(f"The request was short of {show(short)}: that alone is not enough.", f"这次申请还缺 {show(short)}：仅此一项不够。")


def from_shortage(base: float, short: int, card: int | None) -> Text:
    return Text(f"From {base:g} by what the request was short of: {show(short)} of {show(card or 0)}.", f"从 {base:g} 起，按这次申请所缺的量：{show(card or 0)} 中的 {show(short)}。")


def siblings(copies: int, highest: float) -> Text:
    return Text(
        f"{copies} engines of this server share the card and each takes the whole utilisation: more than {highest:.2f} is not there for each.",
        f"本服务的 {copies} 个引擎共用这张卡，每个都按完整的利用率占用：每个最多只能有 {highest:.2f}。",
    )


def at_already(now: float) -> Text:
    return Text(f"It is at {now:g} already.", f"已经是 {now:g}。")


def least_of(ledger: Ledger) -> float | None:
    """The share of the card that its budget had at least, by weights and cache."""
    return least_share(ledger.total_bytes, ledger.weights_bytes, ledger.available_kv_bytes)


def _base(ledger: Ledger | None, now: float | None) -> float:
    """From where to step: the value in force, else the usual default, else the least that weights and cache prove where that is more."""
    if now is not None:
        return now
    least = least_of(ledger) if ledger is not None else None
    return math.ceil(round(least * 100, 6)) / 100 if least is not None and refuted(_LIKELY, least) else _LIKELY


def _why(ledger: Ledger | None, now: float | None) -> Text:
    """Why it is a step, and from where when the value in force was not seen."""
    english, chinese, base = f"A step of {STEP:g}", f"按 {STEP:g} 的步长", _base(ledger, now)
    if ledger is not None and now is None and base != _LIKELY:
        return Text(
            f"{english} from {base:g}, the least that weights and cache prove: the value in force is not in the log.",
            f"从权重与缓存所能证明的最低值 {base:g} 起，{chinese}：日志里没有实际生效的值。",
        )
    if now is None:
        english, chinese = f"{english} from the default {base:g}", f"从默认值 {base:g} 起{chinese}"
    if ledger is None:
        return Text(f"{english}: the log has no memory ledger to compute it from.", f"{chinese}：日志里没有显存账目可供计算。")
    return Text(f"{english}: the log does not give the size of the card and of the cache.", f"{chinese}：日志没有给出显卡与缓存的大小。")
