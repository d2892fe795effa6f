"""Lengths where the log tells little: what is proposed could hold, and says under which condition it does."""

import pytest

from bot.diagnosis.ledger import LENGTH_OVER_TOKENS, NEEDED_OVER_AVAILABLE
from bot.diagnosis.ledger_engine import EngineFacts
from bot.diagnosis.sizing import Impossible, Sized, size_for
from bot.diagnosis.sizing_whatif import what_if
from bot.model import Ledger
from bot.units import GIB, MIB, gib
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.real_ledgers import ledger_of


def lowered(ledger: Ledger, engine: EngineFacts) -> Sized:
    found = size_for("max_model_len", "lower", ledger, engine)
    assert isinstance(found, Sized), found
    return found


@pytest.mark.parametrize("plain", [True, False, None])
def test_a_length_over_the_tokens_goes_down_to_the_tokens_whatever_the_model(plain: bool | None) -> None:
    refused = Ledger(max_model_len=131_072, kv_tokens=41_152, failed=LENGTH_OVER_TOKENS, plain_attention=plain)
    found = lowered(refused, EngineFacts())
    assert isinstance(found.to_value, int)
    assert 39_000 < found.to_value <= 41_152
    assert "41,152" in found.effect.en
    assert "chunk" not in found.effect.en


@pytest.mark.parametrize(("engine", "said"), [
    (EngineFacts(), True), (EngineFacts(version="0.6.2"), True), (EngineFacts(version="0.5.0"), False), (EngineFacts(version="0.8.5"), False), (EngineFacts(version="0.6.2", chunked_prefill=True), False),
])  # fmt: skip
def test_a_length_at_which_an_old_engine_stops_to_chunk_says_what_to_set_with_it(engine: EngineFacts, said: bool) -> None:
    refused = Ledger(max_model_len=131_072, kv_tokens=24_400, failed=LENGTH_OVER_TOKENS)
    assert ("--enable-chunked-prefill" in lowered(refused, engine).effect.en) is said


@pytest.mark.parametrize(("left", "to"), [(9.97, 262_144), (12.0, 524_288), (11.99, 262_144), (0.5, 16_384)])
def test_where_nothing_tells_whether_need_is_linear_the_length_is_halved_until_it_could_fit(left: float, to: int) -> None:
    refused = Ledger(max_model_len=1_048_576, needed_kv_bytes=gib(24.0), available_kv_bytes=gib(left), failed=NEEDED_OVER_AVAILABLE)
    found = lowered(refused, EngineFacts(version="0.8.3"))
    assert found.to_value == to
    assert found.why is not None
    assert "no numbers" not in found.why.en
    assert "where every layer keeps the whole context" in found.effect.en
    assert found.predicted is None


def test_no_length_is_proposed_where_not_even_a_block_could_fit() -> None:
    refused = Ledger(max_model_len=8_192, needed_kv_bytes=gib(24.0), available_kv_bytes=gib(0.1), failed=NEEDED_OVER_AVAILABLE)
    found = size_for("max_model_len", "lower", refused, EngineFacts(version="0.8.3"))
    assert isinstance(found, Impossible)
    assert "no useful length" in found.why.en


def test_a_smaller_budget_does_not_fit_where_a_hybrids_request_would_not() -> None:
    engine = EngineFacts(version="0.28.0", named_hybrid=True)
    line = (
        "(EngineCore pid=42) INFO 09-18 22:31:20 [gpu_worker.py:298] Free memory on device (94.40/95.00 GiB) on startup. Desired GPU memory utilization is (0.98, 93.1 GiB). "
        "Actual usage is 81.7 GiB for consumed memory (weights + non-torch), 1.8 GiB for peak activation, and 0.6 GiB for CUDAGraph memory. Current kv cache memory in use is 9.6 GiB."
    )
    tokens = "(EngineCore pid=42) INFO 09-18 22:31:21 [kv_cache_utils.py:1229] GPU KV cache size: 350,000 tokens, Maximum concurrency for 262,144 tokens per request: 1.34x"
    started = ledger_of([line, tokens], engine)
    assert started is not None
    smaller = what_if(started, engine, {"gpu_memory_utilization": 0.95})
    assert not smaller.fits
    assert smaller.after.failed == NEEDED_OVER_AVAILABLE
    assert what_if(started, engine, {"gpu_memory_utilization": 0.97}).fits


@pytest.mark.parametrize(("left", "helps"), [(9.97, False), (11.9, False), (12.5, True)])
def test_an_fp8_cache_is_ruled_out_where_not_even_half_the_need_fits_whatever_the_model(left: float, helps: bool) -> None:
    refused = Ledger(max_model_len=1_048_576, needed_kv_bytes=gib(24.0), available_kv_bytes=gib(left), failed=NEEDED_OVER_AVAILABLE)
    found = size_for("kv_cache_dtype", "fp8", refused, EngineFacts(version="0.8.3"))
    assert isinstance(found, Sized) is helps
    if isinstance(found, Impossible):
        assert "12 GiB at best" in found.why.en


def test_a_fixed_cache_below_the_need_goes_up_to_it_in_whole_steps_and_says_what_is_not_known() -> None:
    refused = Ledger(max_model_len=262_144, needed_kv_bytes=gib(2.52), available_kv_bytes=gib(2.0), estimated_max_len=165_888, failed=NEEDED_OVER_AVAILABLE)
    found = size_for("kv_cache_memory_bytes", "set", refused, EngineFacts(version="0.29.0", kv_cache_memory_bytes=2 * GIB))
    assert isinstance(found, Sized)
    assert isinstance(found.to_value, int)
    assert gib(2.52) < found.to_value < gib(2.8)
    assert found.to_value % (64 * MIB) == 0
    assert "whether the card has room" in found.effect.en
    assert "Not computed" not in found.effect.en
    free = size_for("kv_cache_memory_bytes", "set", refused, EngineFacts(version="0.29.0"))
    assert isinstance(free, Sized)
    assert free.to_value is None


def refusal(needed: float, left: float, length: int, longest: int) -> str:
    return (
        f"ValueError: To serve at least one request with the model's max seq len ({length}), ({needed} GiB KV cache is needed, which is larger than the available KV cache memory "
        f"({left} GiB). Based on the available memory, the estimated maximum model length is {longest}. Try increasing `gpu_memory_utilization` or decreasing `max_model_len`.\n"
    )


def test_a_cache_that_was_fixed_too_small_is_offered_to_be_larger_and_no_share_of_the_card() -> None:
    found = diagnose({"container.log": refusal(2.52, 2.0, 262_144, 165_888), "args.txt": "vllm serve m --kv-cache-memory-bytes 2147483648 --max-model-len 262144\n"})
    offered = [(each.remedy, each.to_value) for each in found.recommendations]
    assert offered[0] == ("max_model_len", 164_864)
    assert offered[1][0] == "kv_cache_memory_bytes"
    assert "gpu_memory_utilization" not in dict(offered)


def test_a_short_context_of_a_plain_model_is_still_the_first_thing_to_set() -> None:
    plain = diagnose({"container.log": refusal(16.0, 0.71, 131_072, 5_632)}).recommendations[0]
    assert (plain.remedy, plain.to_value) == ("max_model_len", 5_376)
    fixed_part = diagnose({"container.log": refusal(16.0, 3.0, 131_072, 848)}).recommendations[0]
    assert fixed_part.remedy == "gpu_memory_utilization"


def test_the_checks_of_an_answer_are_said_in_words_in_both_languages() -> None:
    started = Ledger(
        total_bytes=80 * GIB, free_at_start_bytes=79 * GIB, utilization=0.9, requested_bytes=72 * GIB, available_kv_bytes=20 * GIB, needed_kv_bytes=6 * GIB,
        cudagraph_bytes=GIB, max_model_len=8192, estimate_in_sum=False,
    )  # fmt: skip
    notes = what_if(started, EngineFacts(version="0.11.0"), {"gpu_memory_utilization": 0.7}).notes
    assert len(notes) == 3
    for note in notes:
        assert "_bytes" not in note.en + note.zh
    assert "does not hold, 2 GiB short" in notes[1].en


def test_compressed_keys_do_not_divide_by_the_ranks_as_heads_do() -> None:
    started = Ledger(weights_bytes=gib(30.0), available_kv_bytes=gib(40.0), needed_kv_bytes=gib(5.0), kv_tokens=1_310_720, max_model_len=163_840, max_concurrency=8.0, plain_attention=True)
    heads = what_if(started, EngineFacts(version="0.13.0"), {"tensor_parallel_size": 2}).after
    compressed = what_if(started, EngineFacts(version="0.13.0", named_latent=True), {"tensor_parallel_size": 2}).after
    assert (heads.needed_kv_bytes, compressed.needed_kv_bytes) == (gib(2.5), gib(5.0))
    assert heads.kv_tokens is not None
    assert compressed.kv_tokens is not None
    assert abs(heads.kv_tokens - 2 * compressed.kv_tokens) <= 32
