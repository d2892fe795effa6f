"""How far to raise or lower gpu_memory_utilization, or why it cannot help.

Raising enlarges the cache by (new - old) x card and takes that from what is left for graphs, warm-up and peaks; lowering does the opposite. It
bounds neither the loading of weights nor the profiling run.
"""

import math
from dataclasses import replace

from bot.diagnosis.ledger import LENGTH_OVER_TOKENS, NEEDED_OVER_AVAILABLE, NOTHING_LEFT, REQUESTED_OVER_FREE, counts_all_layers
from bot.diagnosis.ledger_engine import EngineFacts
from bot.diagnosis.ledger_sum import refuted
from bot.diagnosis.sizing_checks import outside_budget
from bot.diagnosis.sizing_steps import REMEDY, at_already, by_shortage, is_open, least_of, may_refuse, siblings, step_down, step_up, too_little
from bot.diagnosis.sizing_whatif import what_if
from bot.diagnosis.sizing_words import MARGIN, STEP, Impossible, Sized, cache, join, predicted, refused
from bot.errors import BadInput
from bot.model import Ledger, Phase, Text
from bot.units import GIB, MIB, gib, show

SHORT = (NEEDED_OVER_AVAILABLE, NOTHING_LEFT, LENGTH_OVER_TOKENS)
DRIVER = gib(0.6)  # what the driver holds of an empty card
_HIGHEST = 0.98  # above it nothing is left for peaks
_RESERVED = Text("What is left of the card is needed beside the budget: graphs, warm-up, peaks.", "卡上余下的部分要留给预算之外：graph、预热与峰值。")
_UNKNOWN_NEED = GIB  # cache to aim for when the log does not tell what a request needs
_LEAST_NEED = GIB // 4  # and with how little a start is still worth a try


def raise_it(ledger: Ledger | None, engine: EngineFacts) -> Sized | Impossible:
    """Up to where one request of max_model_len fits, 0.1 GiB to spare; never above what the card had free at the start."""
    why = _no_say(ledger, engine) or _not_upwards(ledger, engine)
    if why:
        return Impossible(REMEDY, "raise", why)
    if engine.unified_memory:
        return Sized(REMEDY, "raise", _unified(), from_value=in_force(ledger, engine))
    if ledger is None or ledger.total_bytes is None or ledger.available_kv_bytes is None or in_force(ledger, engine) is None:
        short = None
        if ledger is not None and ledger.available_kv_bytes is not None and ledger.failed in SHORT:
            short = (ledger.needed_kv_bytes or 0) - ledger.available_kv_bytes
        if ledger is not None and ledger.available_kv_bytes is None and (aimed := _above_weights(ledger, engine)) is not None:
            return aimed
        return step_up(ledger, in_force(ledger, engine), short, engine.copies_on_card, bool(engine.cpu_backend), _card(engine))
    return _computed_raise(ledger, engine)


def _card(engine: EngineFacts) -> int | None:
    return engine.device_total_bytes or engine.listed_total_bytes or engine.card_bytes


def _above_weights(ledger: Ledger, engine: EngineFacts) -> Sized | Impossible | None:
    """Where the cache is not printed but weights and card are: at least the weights, a usual peak beside them, and a cache. None where a step is enough."""
    total, weights, now = ledger.total_bytes, ledger.weights_bytes, in_force(ledger, engine)
    if not total or not weights or now is None or ledger.failed not in SHORT:
        return None
    least = (weights + max(ledger.activation_peak_bytes or 0, _UNKNOWN_NEED) + (ledger.needed_kv_bytes or _UNKNOWN_NEED)) / total
    if least <= now + STEP:
        return None
    if least > ceiling(ledger, engine):
        return Impossible(
            REMEDY,
            "raise",
            Text(f"Weights of {show(weights)} leave no cache on a card of {show(total)}.", f"{show(weights)} 的权重在 {show(total)} 的卡上没有给缓存留下空间。"),
        )
    to = math.ceil(least * 100) / 100
    effect = Text(f"Budget {show(round(to * total))}: weights of {show(weights)}, a usual peak and a cache.", f"预算 {show(round(to * total))}：权重 {show(weights)}、常见峰值与缓存。")
    effect = join(effect, may_refuse(ledger) if is_open(ledger) else None)
    return Sized(REMEDY, "raise", effect, now, to, cost=1)


def _computed_raise(ledger: Ledger, engine: EngineFacts) -> Sized | Impossible:
    total, available = ledger.total_bytes or 0, ledger.available_kv_bytes or 0
    now = (ledger.requested_bytes or 0) / total if ledger.requested_bytes else in_force(ledger, engine) or 0.9
    highest = ceiling(ledger, engine)
    if ledger.failed not in SHORT:
        to = math.floor(min(now + STEP, highest) * 100) / 100
        return _sized("raise", ledger, engine, to) if to > now else Impossible(REMEDY, "raise", _RESERVED)
    needed = ledger.needed_kv_bytes if ledger.needed_kv_bytes is not None else min(_UNKNOWN_NEED, max(_LEAST_NEED, available + round((highest - now) * total) - MARGIN))
    enough = now + (needed - available) / total
    to = math.ceil(round((enough + MARGIN / total) * 100, 6)) / 100
    if to > highest:  # the last hundredth does not fit; a smaller step may
        to = math.floor(highest * 1000) / 1000
    if to < enough + MARGIN / total / 4 or to <= now:
        return Impossible(REMEDY, "raise", _beyond(ledger, engine, highest, now))
    return _sized("raise", ledger, engine, to)


def lower_it(ledger: Ledger | None, engine: EngineFacts) -> Sized | Impossible:
    """Down to what was free at the start, or by what graphs and warm-up were short of; never so far that one request no longer fits."""
    why = _no_say(ledger, engine)
    if why is None and ledger is not None and ledger.failed in SHORT:
        why = Text("The budget itself is too small: lowering utilisation makes the cache smaller still.", "预算本身就不够：降低利用率只会让缓存更小。")
    if why:
        return Impossible(REMEDY, "lower", why)
    if ledger is not None and ledger.failed == REQUESTED_OVER_FREE:
        return _below_free(ledger, engine)
    if ledger is None or ledger.total_bytes is None or in_force(ledger, engine) is None:
        return _refused_on_any_card(ledger, engine) or step_down(
            ledger, in_force(ledger, engine), _beside_others(engine), engine.alloc_short_bytes, engine.device_total_bytes
        )
    return _computed_lower(ledger, engine)


def _refused_on_any_card(ledger: Ledger | None, engine: EngineFacts) -> Impossible | None:
    """Why one step down cannot be given although the size of the card is not known: the budget held at least the weights and the cache."""
    now, needed = in_force(ledger, engine), _needed(ledger) if ledger is not None else None
    if ledger is None or ledger.available_kv_bytes is None or needed is None or not now or engine.kv_cache_memory_bytes:
        return None
    least = ((ledger.weights_bytes or 0) + ledger.available_kv_bytes) / now
    return _cache_is_needed(needed, ledger.available_kv_bytes) if ledger.available_kv_bytes - needed < STEP * least else None


def _cache_is_needed(needed: int, available: int) -> Impossible:
    return Impossible(
        REMEDY,
        "lower",
        Text(
            f"One request needs {show(needed)} of the {show(available)} of cache: a lower utilisation would refuse the start.",
            f"一个请求需要 {show(needed)}，缓存只有 {show(available)}：再降利用率服务将无法启动。",
        ),
    )


def _below_free(ledger: Ledger, engine: EngineFacts) -> Sized | Impossible:
    free, total, now = ledger.free_at_start_bytes or 0, ledger.total_bytes or 0, in_force(ledger, engine) or 0.9
    if total <= 0 or free < max(now * total / 2, 2 * GIB):
        return Impossible(
            REMEDY,
            "lower",
            Text(
                f"Only {show(free)} of {show(total)} are free: what holds the rest must go; a budget that small is another server than this one.",
                f"{show(total)} 中只有 {show(free)} 空闲：必须先释放占用者；这么小的预算已不是同一个服务。",
            ),
        )
    to = math.floor((free - 50 * MIB) / total * 100) / 100
    if engine.copies_on_card > 1:
        to = min(to, math.floor(ceiling(ledger, engine) * 100) / 100)
    if not 0 < to < now:  # a refusal whose numbers contradict it
        return Impossible(REMEDY, "lower", Text(f"{now:g} is below what was free: the numbers of the refusal do not fit together.", f"{now:g} 低于空闲比例：拒绝信息中的数字互相矛盾。"))
    return _sized("lower", ledger, engine, to)


def _computed_lower(ledger: Ledger, engine: EngineFacts) -> Sized | Impossible:
    total, now = ledger.total_bytes or 0, in_force(ledger, engine) or 0.9
    graphs = outside_budget(ledger, engine)
    short = engine.alloc_short_bytes
    wanted = (graphs if graphs is not None else _graphs(total)) + short + round(0.15 * GIB)
    step = min(max(math.ceil(wanted / total * 100) / 100, 0.02), max(0.1, by_shortage(short, total)))
    needed = _needed(ledger)
    if ledger.available_kv_bytes is not None and needed is not None:
        spare = ledger.available_kv_bytes - needed - MARGIN
        step = min(step, math.floor(spare / total * 100) / 100)
        if step < 0.01:
            return _cache_is_needed(needed, ledger.available_kv_bytes)
    to = round(min(now - step, _beside_others(engine) or 1), 4)
    if engine.copies_on_card > 1:
        to = min(to, math.floor(ceiling(ledger, engine) * 100) / 100)
    found = _sized("lower", ledger, engine, to) if to >= STEP else Impossible(REMEDY, "lower", at_already(now))
    if isinstance(found, Sized) and short > (now - to) * total:
        return replace(found, effect=join(found.effect, too_little(short)))
    return found


def _beside_others(engine: EngineFacts) -> float | None:
    """The highest share that the card has for this server while the other processes stay; None where they are not what is in the way."""
    total, others = engine.device_total_bytes, engine.alloc_others_bytes
    return math.floor((total - others - _graphs(total) - MARGIN) / total * 100) / 100 if total and others else None


def _needed(ledger: Ledger) -> int | None:
    """Bytes of one request: as printed, else by the printed concurrency, else by tokens (which at most overstates it for a hybrid)."""
    if ledger.needed_kv_bytes is not None or ledger.available_kv_bytes is None:
        return ledger.needed_kv_bytes
    if ledger.max_concurrency and ledger.max_concurrency >= 1:
        return round(ledger.available_kv_bytes / ledger.max_concurrency)
    if ledger.kv_tokens and ledger.max_model_len and ledger.kv_tokens >= ledger.max_model_len:
        return round(ledger.available_kv_bytes * ledger.max_model_len / ledger.kv_tokens)
    return None


def in_force(ledger: Ledger | None, engine: EngineFacts) -> float | None:
    """The utilisation of this start: as printed, set, or the version's default where weights and cache do not refute it."""
    if ledger is not None and ledger.utilization is not None:
        return ledger.utilization
    if engine.utilization is not None or engine.default_utilization is None or ledger is None:
        return engine.utilization if engine.utilization is not None else engine.default_utilization
    return None if refuted(engine.default_utilization, least_of(ledger)) else engine.default_utilization


def ceiling(ledger: Ledger, engine: EngineFacts) -> float:
    """The highest utilisation that the card can give: what was free at the start less graphs outside the budget and 0.1 GiB."""
    total = ledger.total_bytes or 1
    free = ledger.free_at_start_bytes if ledger.free_at_start_bytes is not None else total - DRIVER
    graphs = outside_budget(ledger, engine)
    if graphs is None:
        graphs = 0 if ledger.estimate_in_sum else _graphs(total)
    copies = engine.copies_on_card
    each = (total - copies * DRIVER) / copies if copies > 1 else free  # the siblings take as much, whatever this engine found free
    return min(_HIGHEST, (min(free, each) - graphs - MARGIN) / total)


def _graphs(total: int) -> int:
    """What graphs are likely to take in a start that did not get as far as to print it: 3 % of the card, 1 GiB at most."""
    return min(GIB, total * 3 // 100)


def _sized(direction: str, ledger: Ledger, engine: EngineFacts, to: float) -> Sized | Impossible:
    try:
        answer = what_if(ledger, engine, {REMEDY: to})
    except BadInput as wrong:
        if ledger.available_kv_bytes is None and direction == "lower":
            effect = Text(f"{show(round(((in_force(ledger, engine) or to) - to) * (ledger.total_bytes or 0)))} more beside the budget.", "预算之外多出相应的显存。")
            return Sized(REMEDY, direction, effect, in_force(ledger, engine), to, cost=1)
        return Impossible(REMEDY, direction, refused(wrong))
    after = answer.after
    asked = after.requested_bytes or 0
    free = "" if ledger.free_at_start_bytes is None else f" of {show(ledger.free_at_start_bytes)} that were free"
    budget = Text(f"Budget {show(asked)}{free}.", f"预算 {show(asked)}" + (f"，启动时空闲 {show(ledger.free_at_start_bytes)}。" if ledger.free_at_start_bytes is not None else "。"))
    caveat = may_refuse(ledger) if direction == "raise" and is_open(ledger) else None
    effect = join(budget, cache(after) if after.available_kv_bytes is not None else None, caveat)
    return Sized(REMEDY, direction, effect, in_force(ledger, engine), to, predicted(after), cost=1)


def _no_say(ledger: Ledger | None, engine: EngineFacts) -> Text | None:
    """Where utilisation has no influence at all."""
    if engine.kv_cache_memory_bytes and (ledger is None or ledger.failed != REQUESTED_OVER_FREE):
        return Text("The cache is fixed by kv_cache_memory_bytes: utilisation has no say in it.", "缓存由 kv_cache_memory_bytes 固定：利用率不起作用。")
    if engine.phase is Phase.WEIGHTS:
        return Text("Utilisation does not bound the loading of weights: the cache is sized only afterwards.", "利用率不限制权重加载：缓存大小在其后才确定。")
    if engine.phase is Phase.PROFILING and (ledger is None or ledger.failed is None):
        return Text("The profiling run is not bounded by utilisation: it uses the whole card.", "试运行（profiling）不受利用率限制：它使用整张卡。")
    if ledger is not None and ledger.failed in SHORT and counts_all_layers(engine):
        return Text(
            "This version counts the cache of all layers on every pipeline stage: the refusal may be false, and no utilisation can be computed from its numbers.",
            "该版本在每个流水线 stage 上都计算所有层的缓存：拒绝可能是误判，不能据此计算利用率。",
        )
    return None


def _not_upwards(ledger: Ledger | None, engine: EngineFacts) -> Text | None:
    """Where raising is wrong whatever the numbers."""
    if engine.own_pool_used_up:
        return None
    if engine.phase in (Phase.GRAPH_CAPTURE, Phase.WARMUP, Phase.SERVING, Phase.CACHE_ALLOCATION) and (ledger is None or ledger.failed not in SHORT):
        return Text("It ran out beside the cache: a larger cache leaves less for the rest.", "缓存之外的显存不足：缓存再大，余下的更少。")
    if ledger is None:
        return None
    if ledger.failed == REQUESTED_OVER_FREE:
        return Text("More was asked for than was free already; raising asks for more still.", "要求的已多于空闲；再提高只会要求更多。")
    return wrong_estimate(ledger) or _neighbour(ledger, engine)


def wrong_estimate(ledger: Ledger) -> Text | None:
    """An estimate of graphs that no real pool reaches (0.2 to 5 GiB are usual) and that alone empties the budget."""
    estimate = ledger.cudagraph_estimate_bytes
    if not estimate or ledger.estimate_in_sum is False or ledger.failed not in SHORT:
        return None
    if estimate > 12 * GIB or (estimate > 6 * GIB and ledger.total_bytes is not None and estimate > ledger.total_bytes // 5):
        return Text(
            f"The estimate of CUDA graphs, {show(estimate)}, empties the budget, not the model: it must go, not the utilisation up.",
            f"耗尽预算的是 CUDA graph 预估（{show(estimate)}），不是模型：应去掉预估，而不是提高利用率。",
        )
    return None


def _neighbour(ledger: Ledger, engine: EngineFacts) -> Text | None:
    """0.6.4 and V1 up to 0.9.0 charge every process on the card to this one."""
    release = engine.release
    charged = release is not None and release[:2] == (0, 6) and release[2] == 4
    others = ledger.others_bytes or (ledger.non_torch_bytes if charged else None)
    if others is not None and others > max(4 * GIB, (ledger.total_bytes or 0) // 10):
        return Text(
            f"This version charges every process on the card to the budget: {show(others)} are not this server's.",
            f"该版本把卡上所有进程都算进预算：其中 {show(others)} 不属于本服务。",
        )
    return None


def _beyond(ledger: Ledger, engine: EngineFacts, highest: float, now: float) -> Text:
    total = ledger.total_bytes or 0
    most = (ledger.available_kv_bytes or 0) + round(max(highest, now) * total) - round(now * total)
    needed = ledger.needed_kv_bytes
    if engine.copies_on_card > 1:
        return siblings(engine.copies_on_card, highest)
    if needed is None:
        return Text(
            f"Even {max(highest, now):.2f}, all that the card can give, leaves {show(most)} for the cache.",
            f"即使用到卡能给的上限 {max(highest, now):.2f}，缓存也只有 {show(most)}。",
        )
    return Text(
        f"Even {max(highest, now):.2f}, all that the card can give, leaves {show(most)} for the cache; {show(needed)} are needed.",
        f"即使用到卡能给的上限 {max(highest, now):.2f}，缓存也只有 {show(most)}，而需要 {show(needed)}。",
    )


def _unified() -> Text:
    return Text(
        "Not computed: on unified memory what the host uses is charged to the card and two equal starts differ by gigabytes; fix kv_cache_memory_bytes or free host memory instead.",
        "不计算：统一内存上主机占用也算在卡上，两次相同的启动可相差数 GiB；请改用 kv_cache_memory_bytes 固定缓存，或释放主机内存。",
    )


