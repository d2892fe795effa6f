"""How much memory a model's weights take, from its config.json, and on how many cards it fits.

Counts matrices of the usual decoder (dense, mixture of experts, compressed keys). Within about 2 % of what servers print; vision towers are not counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.diagnosis.sizing_geometry import geometry, text_config, whole_number
from bot.units import gib

DTYPES = {"float32": 4.0, "float": 4.0, "bfloat16": 2.0, "float16": 2.0, "half": 2.0}
QUANTIZED = {  # bytes a weight of a quantised matrix, scales included
    "fp8": 1.0,
    "fbgemm_fp8": 1.0,
    "int8": 1.0,
    "w8a8": 1.0,
    "awq": 0.52,
    "gptq": 0.52,
    "gptq_marlin": 0.52,
    "awq_marlin": 0.52,
    "int4": 0.52,
    "w4a16": 0.52,
    "bitsandbytes": 0.516,
    "mxfp4": 0.532,
    "nvfp4": 0.563,
    "modelopt_fp4": 0.563,
}
_UNGATED = ("phi", "gpt2", "gpt_neox", "gptj", "opt", "bloom", "falcon", "starcoder2", "mpt")
_BESIDE = gib(2.5)  # activations, driver context and NCCL of an ordinary text model at the default batch


@dataclass(frozen=True, slots=True)
class Parameters:
    """Counts of weights: `matrices` are those that quantisation packs, `embeddings` and `others` stay in the model's own type."""

    matrices: int
    embeddings: int
    others: int

    @property
    def total(self) -> int:
        return self.matrices + self.embeddings + self.others


def parameters(config: Mapping[str, Any]) -> Parameters | None:
    """Of a config.json; None when it lacks sizes."""
    text = text_config(config)
    hidden, layers, vocab = whole_number(text, "hidden_size", "n_embd"), whole_number(text, "num_hidden_layers", "n_layer"), whole_number(text, "vocab_size")
    heads = whole_number(text, "num_attention_heads", "n_head")
    if hidden is None or layers is None or vocab is None or heads is None:
        return None
    dense_layers = min(layers, whole_number(text, "first_k_dense_replace") or 0) if _experts(text) else layers
    matrices = layers * _attention(text, hidden, heads)
    matrices += dense_layers * _gated(text, hidden, whole_number(text, "intermediate_size", "n_inner") or 4 * hidden)
    matrices += (layers - dense_layers) * _mixture(text, hidden)
    tied = text.get("tie_word_embeddings", config.get("tie_word_embeddings", False)) is True
    router = (layers - dense_layers) * hidden * (_experts(text) or 0)
    biases = layers * _biases(text, hidden, heads)
    return Parameters(matrices, vocab * hidden * (1 if tied else 2), router + biases + 2 * layers * hidden + hidden)


def _experts(text: Mapping[str, Any]) -> int | None:
    return whole_number(text, "num_experts", "num_local_experts", "n_routed_experts")


def _attention(text: Mapping[str, Any], hidden: int, heads: int) -> int:
    rank = whole_number(text, "kv_lora_rank")
    if rank is not None:
        nope, rope, value = (whole_number(text, name) or 128 for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
        query_rank = whole_number(text, "q_lora_rank")
        query = hidden * query_rank + query_rank * heads * (nope + rope) if query_rank else hidden * heads * (nope + rope)
        return query + hidden * (rank + rope) + rank * heads * (nope + value) + heads * value * hidden
    head = whole_number(text, "head_dim") or hidden // heads
    kv_heads = whole_number(text, "num_key_value_heads", "n_head_kv") or heads
    return 2 * hidden * heads * head + 2 * hidden * kv_heads * head


def _biases(text: Mapping[str, Any], hidden: int, heads: int) -> int:
    if not (text.get("attention_bias") or text.get("model_type") in ("qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", *_UNGATED)):
        return 0
    head = whole_number(text, "head_dim") or hidden // heads
    return (heads + 2 * (whole_number(text, "num_key_value_heads") or heads)) * head


def _gated(text: Mapping[str, Any], hidden: int, inner: int) -> int:
    return (2 if text.get("model_type") in _UNGATED else 3) * hidden * inner


def _mixture(text: Mapping[str, Any], hidden: int) -> int:
    inner = whole_number(text, "moe_intermediate_size", "intermediate_size") or 4 * hidden
    shared = whole_number(text, "shared_expert_intermediate_size") or inner * (whole_number(text, "n_shared_experts") or 0)
    return 3 * hidden * (inner * (_experts(text) or 0) + shared)


def quantization_of(config: Mapping[str, Any]) -> str | None:
    """The method that config.json names; compressed-tensors is read for its bits."""
    found = config.get("quantization_config")
    if not isinstance(found, Mapping):
        return None
    method = str(found.get("quant_method", "")).lower()
    if method != "compressed-tensors":
        return method or None
    text = str(found).lower()
    bits = "4" if "'num_bits': 4" in text else "8"
    return "int4" if bits == "4" and "float" not in text else "nvfp4" if bits == "4" else "fp8"


def weight_bytes(config: Mapping[str, Any], *, dtype: str | None = None, quantization: str | None = None, tensor_parallel: int = 1) -> int | None:
    """Bytes of weights on one rank. None for shapes and quantisations that are not known."""
    counted = parameters(config)
    method = quantization or quantization_of(config)
    kind = dtype or str(text_config(config).get("torch_dtype") or text_config(config).get("dtype") or config.get("torch_dtype") or "bfloat16")
    plain = DTYPES.get(kind.removeprefix("torch."), 2.0)
    packed = plain if method is None else QUANTIZED.get(method)
    if counted is None or packed is None:
        return None
    return round((counted.matrices * packed + (counted.embeddings + counted.others) * plain) / tensor_parallel)


@dataclass(frozen=True, slots=True)
class Cards:
    """The fewest cards that hold a model with one request of `max_model_len`. `available` and `needed`: bytes of cache a rank (None: hybrid, not computed)."""

    count: int
    weights: int
    available: int
    needed: int | None


def cards_needed(
    config: Mapping[str, Any],
    card: int,
    *,
    max_model_len: int,
    utilization: float = 0.9,
    dtype: str | None = None,
    quantization: str | None = None,
    value_bytes: float = 2,
) -> Cards | None:
    """Tries 1 to 64 ranks of tensor parallelism that divide the heads. None when it fits on none of them or the weights cannot be counted."""
    heads = whole_number(text_config(config), "num_attention_heads", "n_head") or 1
    shape = geometry(config, value_bytes)
    for count in (1, 2, 4, 8, 16, 32, 64):
        weights = weight_bytes(config, dtype=dtype, quantization=quantization, tensor_parallel=count)
        if weights is None or heads % count:
            continue
        available = round(card * utilization) - weights - _BESIDE - (gib(0.5) if count > 1 else 0)
        needed = None if shape is None else shape.needed(max_model_len, count)
        if available > max(needed or 0, gib(0.5)):
            return Cards(count, weights, available, needed)
    return None
