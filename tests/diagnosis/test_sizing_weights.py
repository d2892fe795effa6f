"""Weights and cache of a model from its configuration, against what servers printed after loading it."""

import pytest

from bot.diagnosis.sizing_geometry import Geometry, geometry
from bot.diagnosis.sizing_weights import cards_needed, parameters, quantization_of, weight_bytes
from bot.units import GIB, gib
from tests.diagnosis.real_ledgers import starts

LLAMA_8B = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}
LLAMA_70B = {"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256}
PHI_1_5 = {"model_type": "phi", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24, "num_attention_heads": 32, "vocab_size": 51200, "torch_dtype": "float16"}
QWEN25_1_5B = {"model_type": "qwen2", "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True}
QWEN25_7B = {"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064}
QWEN25_14B = {"model_type": "qwen2", "hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8, "vocab_size": 152064}
QWEN3_32B = {"model_type": "qwen3", "hidden_size": 5120, "intermediate_size": 25600, "num_hidden_layers": 64, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936}
QWEN3_30B_MOE = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128, "num_hidden_layers": 48,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936,
}  # fmt: skip
DEEPSEEK_R1 = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
    "first_k_dense_replace": 3, "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512, "q_lora_rank": 1536,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "quantization", "ranks", "printed"),
    [
        (PHI_1_5, None, 1, 2.6419),
        (LLAMA_8B, None, 1, 14.96),
        (LLAMA_8B, None, 2, 7.48),
        (LLAMA_70B, "fp8", 1, 67.72),
        (LLAMA_70B, "fp8", 2, 33.88),
        (QWEN25_1_5B, None, 1, 2.8875),
        (QWEN25_7B, None, 1, 14.25),
        (QWEN25_14B, None, 2, 13.9476),
        (QWEN25_14B, "awq", 1, 9.38),
        (QWEN3_32B, None, 1, 61.03),
        (QWEN3_32B, None, 2, 30.59),
        (QWEN3_30B_MOE, "fp8", 1, 29.09),
    ],
)
def test_weights_are_within_two_percent_of_what_the_server_printed(config: dict[str, object], quantization: str | None, ranks: int, printed: float) -> None:
    counted = weight_bytes(config, quantization=quantization, tensor_parallel=ranks)
    assert counted is not None
    assert counted / GIB == pytest.approx(printed, rel=0.02)


def test_a_mixture_with_compressed_keys_counts_its_671_billion_parameters() -> None:
    counted = parameters(DEEPSEEK_R1)
    assert counted is not None
    assert counted.total == pytest.approx(671e9, rel=0.01)


def test_the_type_of_weights_is_read_from_the_configuration() -> None:
    eight = LLAMA_8B | {"quantization_config": {"quant_method": "fp8"}}
    four = LLAMA_8B | {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int"}}}}}
    assert quantization_of(eight) == "fp8"
    assert quantization_of(four) == "int4"
    assert (weight_bytes(four) or 0) < (weight_bytes(eight) or 0) < (weight_bytes(LLAMA_8B) or 0)


def test_an_unknown_quantisation_is_not_guessed() -> None:
    assert weight_bytes(LLAMA_8B, quantization="quip") is None


def test_a_configuration_without_sizes_is_not_guessed() -> None:
    assert weight_bytes({"model_type": "llama"}) is None
    assert geometry({"hidden_size": "many"}) is None


def test_a_model_that_needs_two_cards_gets_two() -> None:
    plan = cards_needed(LLAMA_70B, gib(79.18), max_model_len=16000, quantization="fp8")
    assert plan is not None
    assert plan.count == 2
    assert plan.available / GIB == pytest.approx(32.0, abs=3.5), "the server left 32.0 GiB on each of two cards"


def test_a_model_that_no_number_of_small_cards_holds_gets_none() -> None:
    assert cards_needed(DEEPSEEK_R1, gib(4), max_model_len=4096) is None


def _geometries() -> list[tuple[str, Geometry, int, int, int]]:
    found = []
    for each in starts():
        shape, printed = each.geometry, each.printed
        if not shape or "layers" not in shape or shape.get("hybrid") or shape.get("mla") or each.start.get("kv_of_other_rank"):
            continue
        available, blocks = printed.get("available_kv_gib"), printed.get("gpu_blocks")
        tokens = blocks * printed["block_size"] if blocks and "block_size" in printed else printed.get("kv_tokens")
        if available and available > 0 and tokens:
            made = Geometry(shape["layers"], shape["kv_heads"], shape["head_dim"], shape.get("kv_bytes", 2))
            found.append((each.name, made, gib(available), shape.get("tp", 1), tokens))
    return found


@pytest.mark.parametrize(("name", "shape", "available", "ranks", "tokens"), _geometries())
def test_tokens_of_a_cache_are_within_half_a_percent_of_what_was_printed(name: str, shape: Geometry, available: int, ranks: int, tokens: int) -> None:
    assert shape.tokens(available, ranks) == pytest.approx(tokens, rel=0.005), name


def test_there_are_enough_ledgers_with_a_geometry() -> None:
    assert len(_geometries()) >= 14


def test_a_rank_keeps_one_head_when_there_are_more_ranks_than_heads() -> None:
    assert Geometry(94, 4, 128).token_bytes(8) == 48128


def test_compressed_keys_are_kept_whole_on_every_rank() -> None:
    shape = geometry(DEEPSEEK_R1, value_bytes=1)
    assert shape is not None
    assert shape.token_bytes(8) == 61 * 576


def test_need_of_a_request_is_what_the_server_printed() -> None:
    assert Geometry(48, 8, 128).needed(16384) == gib(3.0)
    assert Geometry(62, 8, 128).needed(196608, 2) / GIB == pytest.approx(23.25, abs=0.005)


def test_hybrids_have_no_bytes_a_token() -> None:
    assert geometry(LLAMA_8B | {"sliding_window": 4096}) is None
    assert geometry(LLAMA_8B | {"layer_types": ["full_attention", "linear_attention"]}) is None
    assert geometry(LLAMA_8B | {"sliding_window": 4096, "use_sliding_window": False}) is not None
