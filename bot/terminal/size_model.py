"""`oombot size config.json --card SIZE`: on how many cards a model fits, from its configuration alone. An estimate: no server has measured anything yet."""

import json
from collections.abc import Mapping
from typing import Any

from bot.diagnosis.sizing_input import human_number, number_of_bytes
from bot.diagnosis.sizing_weights import Cards, cards_needed, weight_bytes
from bot.errors import BadInput
from bot.model import Text
from bot.units import show

_KNOBS = ("max_model_len", "gpu_memory_utilization", "kv_cache_dtype", "quantization", "dtype")
_MOST = 2**20  # bytes of a config.json


def answer_for_model(path: str, card: str | None, words: list[str], *, as_json: bool, language: str = "en") -> str:
    """The answer as text or as one JSON object. Raises BadInput."""
    if card is None:
        raise BadInput(f"{path} looks like a model's configuration: say how large a card is, like --card 79.2GiB")
    config, settings = _config(path), _settings(words)
    size = number_of_bytes("--card", card)
    length = human_number("max_model_len", settings.get("max_model_len", "8192"))
    share = _share(settings.get("gpu_memory_utilization", "0.9"))
    fp8 = settings.get("kv_cache_dtype", "auto").startswith("fp8")
    dtype, method = settings.get("dtype"), settings.get("quantization")
    weights = weight_bytes(config, dtype=dtype, quantization=method)
    if weights is None:
        raise BadInput(f"{path}: its weights cannot be counted: sizes are missing, or the quantisation is not known")
    plan = cards_needed(config, size, max_model_len=length, utilization=share, dtype=dtype, quantization=method, value_bytes=1 if fp8 else 2)
    if as_json:
        return json.dumps(_object(plan, weights))
    return _text(plan, weights, length, size, share).say(language)


def _config(path: str) -> Mapping[str, Any]:
    try:
        with open(path, "rb") as stream:
            found = json.loads(stream.read(_MOST))
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file") from None
    except (OSError, ValueError, RecursionError):
        raise BadInput(f"{path}: not a readable JSON file; --card goes with a model's config.json") from None
    if not isinstance(found, dict):
        raise BadInput(f"{path}: not a model's config.json")
    return found


def _settings(words: list[str]) -> dict[str, str]:
    found = {}
    for word in words:
        name, sign, text = word.partition("=")
        knob = name.lstrip("-").replace("-", "_")
        if not sign or knob not in _KNOBS:
            raise BadInput(f"with a config.json, --set takes one of {', '.join(_KNOBS)} as KNOB=VALUE, not {word[:80]!r}")
        found[knob] = text
    return found


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise BadInput(f"gpu_memory_utilization must be above 0 and at most 1, not {text[:20]!r}")
    return share


def _object(plan: Cards | None, weights: int) -> dict[str, object]:
    return {
        "fits": plan is not None,
        "cards": plan.count if plan else None,
        "weights_bytes": weights,
        "weights_bytes_a_card": plan.weights if plan else None,
        "available_kv_bytes": plan.available if plan else None,
        "needed_kv_bytes": plan.needed if plan else None,
    }


def _text(plan: Cards | None, weights: int, length: int, card: int, share: float) -> Text:
    if plan is None:
        return Text(
            f"Weights take {show(weights)}: they do not fit on cards of {show(card)} at utilisation {share:g}, whatever their number up to 64.",
            f"权重需要 {show(weights)}：在利用率 {share:g} 下，{show(card)} 的显卡即使用到 64 张也放不下。",
        )
    cards = Text("one card", "一张") if plan.count == 1 else Text(f"{plan.count} cards (tensor parallel)", f"{plan.count} 张（张量并行）")
    needed = (
        Text("what a request needs is not computed for this model: not every layer keeps the whole context", "此模型并非每层都保留全部上下文，因此不计算一个请求所需的缓存")
        if plan.needed is None
        else Text(f"one request of {length:,} tokens needs {show(plan.needed)}", f"一个 {length:,} token 的请求需要 {show(plan.needed)}")
    )
    return Text(
        f"Weights take {show(weights)}. Fits on {cards.en} of {show(card)}: {show(plan.weights)} of weights and about {show(plan.available)} of cache on each; {needed.en}.",
        f"权重需要 {show(weights)}。需要 {show(card)} 的显卡{cards.zh}：每张放 {show(plan.weights)} 权重，约剩 {show(plan.available)} 缓存；{needed.zh}。",
    )
