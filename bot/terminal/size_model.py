"""`oombot size config.json --card SIZE`: on how many cards a model fits, from its configuration alone. An estimate: no server has measured anything yet."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.diagnosis.sizing_geometry import text_config, whole_number
from bot.diagnosis.sizing_input import card_bytes, human_number
from bot.diagnosis.sizing_weights import DTYPES, QUANTIZED, Cards, cards_needed, weight_bytes
from bot.errors import BadInput
from bot.model import Text
from bot.units import show

_KNOBS = ("max_model_len", "gpu_memory_utilization", "kv_cache_dtype", "quantization", "dtype")
_MOST = 2**20  # bytes of a config.json
_USUAL_LENGTH = 8192  # tokens; where nobody says how long requests are
_CACHE_TYPES = ("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked of one model: the card in bytes, and the settings that count."""

    card: int
    length: int
    share: float
    value_bytes: float
    dtype: str | None
    quantization: str | None

    def plan(self, config: Mapping[str, Any], length: int) -> Cards | None:
        return cards_needed(
            config, self.card, max_model_len=length, utilization=self.share, dtype=self.dtype, quantization=self.quantization, value_bytes=self.value_bytes
        )


def answer_for_model(path: str, card: str | None, words: list[str], *, as_json: bool, language: str = "en") -> str:
    """The answer as text or as one JSON object. Raises BadInput."""
    if card is None:
        raise BadInput(f"{path} looks like a model's configuration: say how large a card is, like --card 79.2GiB")
    from bot.playbooks import load

    config, settings = _config(path), _settings(words)
    asked = _asked(card_bytes(card, load().names), settings)
    weights = weight_bytes(config, dtype=asked.dtype, quantization=asked.quantization)
    if weights is None:
        raise BadInput(f"{path}: its weights cannot be counted: sizes are missing, or its quantisation is none of {', '.join(QUANTIZED)}")
    plan = asked.plan(config, asked.length)
    notes = _notes(config, settings, card, asked)
    if as_json:
        return json.dumps(_object(plan, weights, [note.say(language) for note in notes]), ensure_ascii=False)
    answer = _text(plan, weights, asked) if plan or not asked.plan(config, 1) else _too_long(weights, asked)
    return " ".join(text.say(language) for text in (answer, *notes))


def _asked(card: int, settings: Mapping[str, str]) -> _Asked:
    """Raises BadInput for a setting that means nothing here."""
    length = human_number("max_model_len", settings.get("max_model_len", str(_USUAL_LENGTH)))
    if length < 1:
        raise BadInput("max_model_len must be at least 1")
    cache = _one_of("kv_cache_dtype", settings.get("kv_cache_dtype", "auto"), _CACHE_TYPES)
    dtype = _one_of("dtype", settings["dtype"], ("auto", *DTYPES)) if "dtype" in settings else "auto"
    method = _one_of("quantization", settings["quantization"], tuple(QUANTIZED)) if "quantization" in settings else None
    share = _share(settings.get("gpu_memory_utilization", "0.9"))
    return _Asked(card, length, share, 1 if cache.startswith("fp8") else 2, None if dtype == "auto" else dtype, method)


def _one_of(knob: str, text: str, known: tuple[str, ...]) -> str:
    plain = text.strip().lower()
    if plain not in known:
        raise BadInput(f"{knob} must be one of {', '.join(known)}, not {text[:40]!r}")
    return plain


def _notes(config: Mapping[str, Any], settings: Mapping[str, str], card: str, asked: _Asked) -> list[Text]:
    """What was assumed, and what the person may have meant otherwise."""
    notes = []
    own = whole_number(text_config(config), "max_position_embeddings")
    if "max_model_len" not in settings:
        notes.append(
            Text(
                f"max_model_len was not given: {asked.length:,} is assumed" + (f", the model's own is {own:,}, which a server takes unless told otherwise." if own else "."),
                f"未给出 max_model_len：按 {asked.length:,} 计算" + (f"；模型自身的长度是 {own:,}，不另行设置时服务会采用它。" if own else "。"),
            )
        )
    elif own and asked.length > own:
        notes.append(Text(f"The model's own longest length is {own:,}.", f"模型自身的最大长度是 {own:,}。"))
    if card.strip().lower().endswith("gb") and card.strip()[0].isdigit():
        notes.append(
            Text(
                f"{card.strip()} was read as {show(asked.card)}: a card that is sold as {card.strip()} may show a server more; its name (like 'A100 80GB') or a size in GiB is exact.",
                f"{card.strip()} 按 {show(asked.card)} 计算：以此容量出售的显卡实际可见显存可能更多；给出显卡名称（如 'A100 80GB'）或以 GiB 为单位的大小更准确。",
            )
        )
    return notes


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


def _object(plan: Cards | None, weights: int, notes: list[str]) -> dict[str, object]:
    return {
        "fits": plan is not None,
        "cards": plan.count if plan else None,
        "weights_bytes": weights,
        "weights_bytes_a_card": plan.weights if plan else None,
        "available_kv_bytes": plan.available if plan else None,
        "needed_kv_bytes": plan.needed if plan else None,
        "notes": notes,
    }


def _too_long(weights: int, asked: _Asked) -> Text:
    return Text(
        f"Weights take {show(weights)} and would fit, but one request of {asked.length:,} tokens fits on no number of cards of {show(asked.card)} up to 64: lower max_model_len.",
        f"权重需要 {show(weights)}，放得下；但一个 {asked.length:,} token 的请求即使用到 64 张 {show(asked.card)} 的显卡也放不下：请降低 max_model_len。",
    )


def _text(plan: Cards | None, weights: int, asked: _Asked) -> Text:
    card, length, share = asked.card, asked.length, asked.share
    if plan is None:
        return Text(
            f"Weights take {show(weights)}: they do not fit on cards of {show(card)} at utilisation {share:g}, whatever their number up to 64.",
            f"权重需要 {show(weights)}：在利用率 {share:g} 下，{show(card)} 的显卡即使用到 64 张也放不下。",
        )
    cards = Text("one card", "一张 ") if plan.count == 1 else Text(f"{plan.count} cards (tensor parallel)", f" {plan.count} 张（张量并行）")
    needed = (
        Text("what a request needs is not computed for this model: not every layer keeps the whole context", "此模型并非每层都保留全部上下文，因此不计算一个请求所需的缓存")
        if plan.needed is None
        else Text(f"one request of {length:,} tokens needs {show(plan.needed)}", f"一个 {length:,} token 的请求需要 {show(plan.needed)}")
    )
    return Text(
        f"Weights take {show(weights)}. Fits on {cards.en} of {show(card)}: {show(plan.weights)} of weights and about {show(plan.available)} of cache on each; {needed.en}.",
        f"权重需要 {show(weights)}。需要{cards.zh}{show(card)} 的显卡：每张放 {show(plan.weights)} 权重，约剩 {show(plan.available)} 缓存；{needed.zh}。",
    )
