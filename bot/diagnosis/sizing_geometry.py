"""Bytes of cache a token takes, from the shape of a model.

Exact for plain attention and for compressed keys (MLA); None for models in which not every layer keeps the whole context.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_HYBRID_KEYS = ("layer_types", "layers_block_type", "hybrid_override_pattern", "mamba_d_state", "ssm_state_size", "linear_num_value_heads", "full_attention_interval")


@dataclass(frozen=True, slots=True)
class Geometry:
    """The part of a model that its cache depends on. `latent`: width of the compressed key (MLA: kv_lora_rank + rope), else None. `value_bytes`: 2, or 1 for fp8."""

    layers: int
    kv_heads: int
    head_dim: int
    value_bytes: float = 2
    latent: int | None = None

    def token_bytes(self, tensor_parallel: int = 1) -> int:
        """Bytes a token on one rank. Heads divide by the ranks, but each rank keeps one at least; a compressed key is kept whole on every rank."""
        if self.latent is not None:
            return round(self.layers * self.latent * self.value_bytes)
        heads = max(1, self.kv_heads // tensor_parallel)
        return round(2 * self.layers * heads * self.head_dim * self.value_bytes)

    def tokens(self, cache: int, tensor_parallel: int = 1, block: int = 16) -> int:
        """Whole blocks of tokens that a cache of so many bytes holds."""
        return max(0, int(cache // (self.token_bytes(tensor_parallel) * block)) * block)

    def needed(self, length: int, tensor_parallel: int = 1, block: int = 16) -> int:
        """Bytes of cache for one request of `length` tokens."""
        return math.ceil(length / block) * block * self.token_bytes(tensor_parallel)


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a Hugging Face config.json (multimodal ones nest it)."""
    for name in ("text_config", "llm_config", "language_config", "thinker_config"):
        inner = config.get(name)
        if isinstance(inner, Mapping):
            return text_config(inner)
    return config


def whole_number(config: Mapping[str, Any], *names: str) -> int | None:
    """The first of `names` that is a positive whole number below a billion."""
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9:
            return value
    return None


def geometry(config: Mapping[str, Any], value_bytes: float = 2) -> Geometry | None:
    """Of a config.json. None when it is a hybrid or lacks what is needed."""
    text = text_config(config)
    layers, heads, hidden = whole_number(text, "num_hidden_layers", "n_layer"), whole_number(text, "num_attention_heads", "n_head"), whole_number(text, "hidden_size", "n_embd")
    if layers is None or heads is None or hidden is None or is_hybrid(text):
        return None
    rank = whole_number(text, "kv_lora_rank")
    if rank is not None:
        return Geometry(layers, 1, rank, value_bytes, rank + (whole_number(text, "qk_rope_head_dim") or 64))
    kv_heads = whole_number(text, "num_key_value_heads", "n_head_kv") or heads
    return Geometry(layers, kv_heads, whole_number(text, "head_dim") or hidden // heads, value_bytes)


def is_hybrid(text: Mapping[str, Any]) -> bool:
    """Whether some layers keep less than the whole context: sliding windows in use, state-space or linear-attention layers, sparse or compressed context."""
    kinds = text.get("layer_types")
    if isinstance(kinds, list):
        return any(kind != "full_attention" for kind in kinds)
    if any(text.get(name) for name in _HYBRID_KEYS):
        return True
    return bool(text.get("sliding_window")) and text.get("use_sliding_window", True) is not False
