"""The size of each remedy: far enough, never farther than the card can give, and a reason where it cannot work."""

from dataclasses import replace

import pytest

from bot.diagnosis.ledger import LENGTH_OVER_TOKENS, NEEDED_OVER_AVAILABLE, NOTHING_LEFT, REQUESTED_OVER_FREE
from bot.diagnosis.ledger_engine import EngineFacts
from bot.diagnosis.sizing import Impossible, Sized, candidates, size_for
from bot.diagnosis.sizing_whatif import what_if
from bot.errors import BadInput
from bot.model import Ledger, Phase
from bot.units import GIB, gib
from tests.diagnosis.real_ledgers import start

L40S = Ledger(
    total_bytes=gib(44.40), free_at_start_bytes=gib(43.90), utilization=0.9, requested_bytes=gib(39.96), weights_bytes=gib(27.70), activation_peak_bytes=gib(1.41),
    non_torch_bytes=gib(0.27), available_kv_bytes=gib(10.58), needed_kv_bytes=gib(24.0), max_model_len=131072, estimated_max_len=57776, failed=NEEDED_OVER_AVAILABLE,
    plain_attention=True, estimate_in_sum=False,
)  # fmt: skip
V0_11 = EngineFacts(version="0.11.0", model="llama", utilization=0.9, max_model_len=131072, max_num_seqs=256)


def sized(remedy: str, direction: str, ledger: Ledger | None, engine: EngineFacts) -> Sized:
    found = size_for(remedy, direction, ledger, engine)
    assert isinstance(found, Sized), found
    return found


def impossible(remedy: str, direction: str, ledger: Ledger | None, engine: EngineFacts) -> str:
    found = size_for(remedy, direction, ledger, engine)
    assert isinstance(found, Impossible), found
    return found.why.en


def test_a_length_is_lowered_to_a_round_number_that_fits() -> None:
    found = sized("max_model_len", "lower", L40S, V0_11)
    assert (found.from_value, found.to_value) == (131072, 57344)
    assert "fits by" in found.effect.en
    assert found.effect.zh
    assert what_if(L40S, V0_11, {"max_model_len": 57344}).fits


def test_a_lower_length_promises_the_tokens_of_the_cache_where_the_need_is_linear() -> None:
    promised = sized("max_model_len", "lower", L40S, V0_11).predicted
    assert promised is not None
    assert promised.kv_tokens == 57776
    unknown = sized("max_model_len", "lower", replace(L40S, plain_attention=None), V0_11).predicted
    assert unknown is None or unknown.kv_tokens is None


def test_utilisation_that_cannot_give_enough_is_not_raised_and_the_reason_has_numbers() -> None:
    assert "24 GiB are needed" in impossible("gpu_memory_utilization", "raise", L40S, V0_11)


def test_utilisation_is_raised_until_the_request_fits_with_a_margin() -> None:
    short = replace(L40S, needed_kv_bytes=gib(11.5), max_model_len=62800)
    found = sized("gpu_memory_utilization", "raise", short, V0_11)
    assert found.to_value == 0.93
    assert found.predicted is not None
    assert found.predicted.available_kv_bytes is not None
    assert found.predicted.available_kv_bytes - gib(11.5) >= 0.1 * GIB


def test_utilisation_is_never_raised_above_what_was_free() -> None:
    crowded = replace(L40S, free_at_start_bytes=gib(40.2), needed_kv_bytes=gib(11.5))
    assert "all that the card can give" in impossible("gpu_memory_utilization", "raise", crowded, V0_11)


def test_a_raise_leaves_room_for_graphs_that_are_not_in_the_budget() -> None:
    short = replace(L40S, needed_kv_bytes=gib(11.5), cudagraph_bytes=gib(3.4))
    assert isinstance(size_for("gpu_memory_utilization", "raise", short, V0_11), Impossible)


@pytest.mark.parametrize("failed", [NEEDED_OVER_AVAILABLE, NOTHING_LEFT, LENGTH_OVER_TOKENS])
def test_utilisation_is_not_lowered_when_the_budget_is_short(failed: str) -> None:
    assert "smaller still" in impossible("gpu_memory_utilization", "lower", replace(L40S, failed=failed), V0_11)


def test_a_refusal_by_a_hair_lowers_utilisation_to_what_was_free() -> None:
    refused = Ledger(total_bytes=gib(22.05), free_at_start_bytes=gib(19.77), utilization=0.9, requested_bytes=gib(19.84), failed=REQUESTED_OVER_FREE)
    found = sized("gpu_memory_utilization", "lower", refused, EngineFacts())
    assert found.to_value == 0.89
    assert "more still" in impossible("gpu_memory_utilization", "raise", refused, EngineFacts())


@pytest.mark.parametrize(("free", "total", "asked", "to"), [(13.58, 15.99, 0.85, 0.84), (30.12, 31.84, 0.95, 0.94), (38.74, 121.63, 0.35, 0.31)])
def test_the_lowered_utilisation_would_have_passed_the_check(free: float, total: float, asked: float, to: float) -> None:
    refused = Ledger(total_bytes=gib(total), free_at_start_bytes=gib(free), utilization=asked, requested_bytes=gib(total * asked), failed=REQUESTED_OVER_FREE)
    found = sized("gpu_memory_utilization", "lower", refused, EngineFacts())
    assert found.to_value == to
    assert to * total < free


def test_a_card_that_somebody_else_fills_is_not_shared_by_a_tiny_budget() -> None:
    refused = Ledger(total_bytes=gib(79.18), free_at_start_bytes=gib(0.41), utilization=0.85, requested_bytes=gib(67.3), failed=REQUESTED_OVER_FREE)
    assert "must go" in impossible("gpu_memory_utilization", "lower", refused, EngineFacts())


def test_an_estimate_that_no_pool_reaches_is_removed_and_utilisation_stays() -> None:
    each = start("064")
    ledger = each.ledger()
    assert "empties the budget" in impossible("gpu_memory_utilization", "raise", ledger, each.engine)
    assert size_for("cudagraph_estimate", "disable", ledger, each.engine) is None, "how much is left then is not in that log: the remedy stands without a number"


def test_a_neighbour_that_the_version_charges_is_no_reason_to_raise() -> None:
    each = start("009")
    assert "not this server's" in impossible("gpu_memory_utilization", "raise", each.ledger(), each.engine)


def test_nothing_left_is_cured_by_a_raise_where_the_card_has_room() -> None:
    each = start("012")
    found = sized("gpu_memory_utilization", "raise", each.ledger(), each.engine)
    assert 0.87 <= float(str(found.to_value)) <= 0.89, "0.86 is the arithmetic, 0.1 GiB the margin"


def test_weights_above_the_whole_card_are_not_cured_by_a_raise() -> None:
    each = start("013")
    assert "-0.94 GiB" in impossible("gpu_memory_utilization", "raise", each.ledger(), each.engine)


@pytest.mark.parametrize("direction", ["raise", "lower"])
@pytest.mark.parametrize("phase", [Phase.WEIGHTS, Phase.PROFILING])
def test_utilisation_bounds_neither_loading_nor_profiling(phase: Phase, direction: str) -> None:
    impossible("gpu_memory_utilization", direction, None, replace(V0_11, phase=phase))


def test_capture_out_of_memory_lowers_utilisation_by_what_graphs_took() -> None:
    each = start("065")
    engine = replace(each.engine, phase=Phase.GRAPH_CAPTURE, alloc_requested_bytes=gib(0.133), alloc_free_bytes=gib(0.118))
    found = sized("gpu_memory_utilization", "lower", each.ledger(), engine)
    assert found.to_value == 0.97, "what the reporter found to work; one hundredth more and a request would no longer fit"
    assert "less for the rest" in impossible("gpu_memory_utilization", "raise", each.ledger(), engine)


def test_without_a_ledger_the_step_is_five_hundredths_and_says_why() -> None:
    down = sized("gpu_memory_utilization", "lower", None, EngineFacts(version="0.21.0"))
    assert (down.from_value, down.to_value) == (0.92, 0.87)
    up = sized("gpu_memory_utilization", "raise", None, EngineFacts(utilization=0.8))
    assert (up.from_value, up.to_value) == (0.8, 0.85)
    assert up.why is not None
    assert "no memory ledger" in up.why.en
    impossible("gpu_memory_utilization", "raise", None, EngineFacts(utilization=0.95))


@pytest.mark.parametrize("now", [None, 0.9])
def test_beside_processes_that_stay_utilisation_is_lowered_to_what_they_leave(now: float | None) -> None:
    engine = EngineFacts(utilization=now, device_total_bytes=gib(40), alloc_others_bytes=gib(10), alloc_requested_bytes=gib(0.1), alloc_free_bytes=0)
    for ledger in (None, Ledger(total_bytes=gib(40), utilization=now)):
        found = sized("gpu_memory_utilization", "lower", ledger, engine)
        assert isinstance(found.to_value, float)
        assert found.to_value <= 0.74, "a step of 0.05 would still ask for what others hold"
    assert "next to nothing" in impossible("gpu_memory_utilization", "lower", None, replace(engine, alloc_others_bytes=gib(39)))


def test_a_step_down_starts_at_what_weights_and_cache_prove_and_not_at_a_default_below_it() -> None:
    full = Ledger(total_bytes=gib(80), weights_bytes=gib(3), available_kv_bytes=gib(72.2), needed_kv_bytes=gib(0.2), max_model_len=4096)
    warm = EngineFacts(version="0.11.0", phase=Phase.WARMUP, alloc_requested_bytes=gib(0.6), alloc_free_bytes=gib(0.5), device_total_bytes=gib(80))
    found = sized("gpu_memory_utilization", "lower", full, warm)
    assert (found.from_value, found.to_value) == (None, 0.89)
    assert found.why is not None
    assert "the least that weights and cache prove" in found.why.en
    assert sized("gpu_memory_utilization", "lower", replace(full, available_kv_bytes=gib(60), utilization=0.9), warm).from_value == 0.9


def test_utilisation_goes_down_by_what_the_request_was_short_of_and_says_where_that_is_too_much() -> None:
    engine = EngineFacts(utilization=0.95, phase=Phase.SERVING, device_total_bytes=gib(60), alloc_requested_bytes=gib(10), alloc_free_bytes=gib(4))
    for ledger in (None, Ledger(total_bytes=gib(60), utilization=0.95, weights_bytes=gib(28), available_kv_bytes=gib(25), needed_kv_bytes=gib(1))):
        found = sized("gpu_memory_utilization", "lower", ledger, engine)
        assert isinstance(found.to_value, float)
        assert 0.8 <= found.to_value <= 0.85, "6 GiB of 60 and what comes beside them"
        assert "not enough" not in found.effect.en
    tight = Ledger(total_bytes=gib(60), utilization=0.95, weights_bytes=gib(48), available_kv_bytes=gib(5), needed_kv_bytes=gib(1))
    assert "6 GiB: that alone is not enough" in sized("gpu_memory_utilization", "lower", tight, engine).effect.en
    far = sized("gpu_memory_utilization", "lower", None, replace(engine, alloc_requested_bytes=gib(40)))
    assert (far.to_value, "36 GiB: that alone is not enough" in far.effect.en) == (0.9, True)
    assert sized("gpu_memory_utilization", "lower", None, replace(engine, alloc_requested_bytes=gib(4.5))).to_value == 0.9


def test_no_step_down_where_the_cache_could_not_lose_it_on_a_card_of_any_size() -> None:
    tight = Ledger(utilization=0.8, weights_bytes=gib(7.6), available_kv_bytes=gib(0.84), needed_kv_bytes=gib(0.56), max_model_len=4096)
    capture = EngineFacts(version="0.19.1", phase=Phase.GRAPH_CAPTURE)
    assert "would refuse the start" in impossible("gpu_memory_utilization", "lower", tight, capture)
    assert sized("gpu_memory_utilization", "lower", replace(tight, available_kv_bytes=gib(6)), capture).to_value == 0.75


def test_a_step_is_as_small_as_is_certainly_enough() -> None:
    hair = Ledger(utilization=0.92, available_kv_bytes=gib(4.25), needed_kv_bytes=gib(4.26), max_model_len=100_000, failed=NEEDED_OVER_AVAILABLE)
    assert sized("gpu_memory_utilization", "raise", hair, EngineFacts(version="0.24.0")).to_value == 0.95
    heavy = replace(hair, utilization=0.9, weights_bytes=gib(68.7))
    assert sized("gpu_memory_utilization", "raise", heavy, EngineFacts(version="0.11.0")).to_value == 0.91
    far = replace(hair, needed_kv_bytes=gib(9))
    assert "At least 4.75 GiB are missing" in sized("gpu_memory_utilization", "raise", far, EngineFacts(version="0.24.0")).effect.en


def test_more_than_any_card_has_above_the_share_in_force_is_not_reached_by_steps() -> None:
    far = Ledger(available_kv_bytes=gib(16.2), needed_kv_bytes=gib(16.2) + gib(140), max_model_len=131_072, failed=NEEDED_OVER_AVAILABLE)
    assert "140 GiB are missing" in impossible("gpu_memory_utilization", "raise", far, EngineFacts())
    assert sized("gpu_memory_utilization", "raise", far, EngineFacts(cpu_backend=True)).to_value == 0.95
    assert sized("gpu_memory_utilization", "raise", replace(far, needed_kv_bytes=gib(30)), EngineFacts()).to_value == 0.95


def test_on_unified_memory_no_utilisation_is_computed() -> None:
    found = sized("gpu_memory_utilization", "raise", replace(L40S, needed_kv_bytes=gib(11)), replace(V0_11, unified_memory=True))
    assert found.to_value is None
    assert "unified" in found.effect.en


def test_a_cache_fixed_in_bytes_leaves_utilisation_no_say() -> None:
    fixed = replace(V0_11, kv_cache_memory_bytes=gib(8))
    assert "no say" in impossible("gpu_memory_utilization", "raise", L40S, fixed)
    assert "no say" in impossible("gpu_memory_utilization", "lower", replace(L40S, failed=None), fixed)


def test_a_cache_in_bytes_covers_one_request_and_stays_within_the_card() -> None:
    short = replace(L40S, needed_kv_bytes=gib(11.5))
    found = sized("kv_cache_memory_bytes", "set", short, V0_11)
    assert isinstance(found.to_value, int)
    assert gib(11.5) < found.to_value < gib(43.9 - 29.38)
    assert found.to_value % (64 * 2**20) == 0
    assert "room" in impossible("kv_cache_memory_bytes", "set", L40S, V0_11)
    assert "from 0.10.2" in impossible("kv_cache_memory_bytes", "set", short, EngineFacts(version="0.9.2"))


def test_a_cache_in_bytes_is_not_computed_when_the_card_is_not_known() -> None:
    found = sized("kv_cache_memory_bytes", "set", replace(L40S, total_bytes=None, free_at_start_bytes=None), V0_11)
    assert found.to_value is None


def test_an_fp8_cache_is_proposed_only_where_half_the_need_fits() -> None:
    assert "12 GiB" in impossible("kv_cache_dtype", "fp8", L40S, V0_11)
    assert sized("kv_cache_dtype", "fp8", replace(L40S, needed_kv_bytes=gib(20)), V0_11).to_value == "fp8"
    assert "already" in impossible("kv_cache_dtype", "fp8", L40S, replace(V0_11, kv_cache_dtype="fp8_e4m3"))


def test_fewer_sequences_do_not_help_one_request_that_does_not_fit() -> None:
    assert "One request alone" in impossible("max_num_seqs", "lower", L40S, V0_11)
    assert sized("max_num_seqs", "lower", None, V0_11).to_value == 128
    impossible("max_num_seqs", "lower", None, replace(V0_11, max_num_seqs=1))
    assert sized("max_num_seqs", "lower", None, replace(V0_11, mamba_blocks=37)).to_value == 37


def test_a_batch_is_halved_but_not_below_the_sequences() -> None:
    assert sized("max_num_batched_tokens", "lower", None, replace(V0_11, max_num_batched_tokens=8192)).to_value == 4096
    impossible("max_num_batched_tokens", "lower", None, replace(V0_11, max_num_batched_tokens=512, max_num_seqs=512))
    assert "max_model_len" in impossible("max_num_batched_tokens", "lower", None, EngineFacts(version="0.6.3", max_model_len=8192))


def test_graphs_are_worth_nothing_to_a_cache_whose_version_does_not_count_them() -> None:
    assert "not in the budget" in impossible("enforce_eager", "enable", L40S, V0_11)
    counted = replace(L40S, needed_kv_bytes=gib(11.0), cudagraph_estimate_bytes=gib(0.8), estimate_in_sum=True)
    found = sized("enforce_eager", "enable", counted, replace(V0_11, version="0.22.0"))
    assert found.predicted is not None
    assert found.predicted.available_kv_bytes == gib(10.58) + gib(0.8)


def test_more_cards_are_counted_until_a_request_fits() -> None:
    found = sized("tensor_parallel_size", "raise", L40S, V0_11)
    assert (found.from_value, found.to_value) == (1, 2)
    assert found.predicted is not None
    assert (found.predicted.available_kv_bytes or 0) > gib(12)


def test_offload_covers_the_shortage_in_whole_gib() -> None:
    assert sized("cpu_offload", "raise", L40S, V0_11).to_value == 14
    assert "only 3 GiB" in impossible("cpu_offload", "raise", replace(L40S, weights_bytes=gib(3)), V0_11)


def test_a_length_below_one_block_is_not_proposed() -> None:
    assert "no useful length" in impossible("max_model_len", "lower", replace(L40S, estimated_max_len=8), V0_11)
    assert "does not change that" in impossible("max_model_len", "lower", replace(L40S, failed=NOTHING_LEFT, available_kv_bytes=gib(-1)), V0_11)


def test_the_printed_length_serves_a_hybrid_and_nothing_else_does() -> None:
    printed = start("073")
    assert sized("max_model_len", "lower", printed.ledger(), printed.engine).to_value == 848
    silent = start("058")
    assert sized("max_model_len", "lower", silent.ledger(), silent.engine).to_value is None


def test_a_false_refusal_under_pipeline_parallelism_sizes_nothing() -> None:
    each = start("067")
    impossible("gpu_memory_utilization", "raise", each.ledger(), each.engine)
    impossible("max_model_len", "lower", each.ledger(), each.engine)


def test_remedies_that_are_no_sizes_get_no_answer() -> None:
    assert size_for("restart", "", L40S, V0_11) is None
    assert size_for("bigger_gpu", "", L40S, V0_11) is None


def test_candidates_come_cheapest_first_and_all_of_them_work() -> None:
    found = candidates(L40S, V0_11)
    computed = [each.cost for each in found if each.predicted is not None]
    assert computed == sorted(computed)
    assert ("max_model_len", "lower") in {(each.remedy, each.direction) for each in found}
    assert all(each.remedy != "gpu_memory_utilization" for each in found)


def test_every_size_says_its_effect_in_both_languages() -> None:
    for found in candidates(replace(L40S, needed_kv_bytes=gib(11.5)), V0_11):
        assert found.effect.en, found.remedy
        assert found.effect.zh, found.remedy


@pytest.mark.parametrize(
    ("knob", "value", "said"),
    [
        ("gpu_memory_utilization", 90, "above 0 and at most 1"),
        ("gpu_memory_utilization", True, "above 0"),
        ("max_model_len", 8, "16 or more"),
        ("max_num_seqs", 64, "not in one start's ledger"),
        ("kv_cache_dtype", "int3", "must be"),
        ("swap_space", 4, "no setting"),
        ("enforce_eager", "perhaps", "true or false"),
        ("tensor_parallel_size", 0, "1 or more"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_what_would_be_right(knob: str, value: float | str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        what_if(L40S, V0_11, {knob: value})


def test_several_changes_add_up() -> None:
    answer = what_if(L40S, V0_11, {"kv_cache_dtype": "fp8", "gpu_memory_utilization": 0.94})
    assert answer.after.needed_kv_bytes == gib(12.0)
    assert answer.after.available_kv_bytes == gib(10.58) + round(0.94 * gib(44.40)) - gib(39.96)
    assert answer.fits
    assert answer.margin_bytes is not None
    assert 0 < answer.margin_bytes < GIB


def test_what_does_not_hold_is_named() -> None:
    answer = what_if(L40S, V0_11, {"gpu_memory_utilization": 1.0})
    assert not answer.fits
    assert answer.after.failed == REQUESTED_OVER_FREE
    assert any("does not hold" in note.en for note in answer.notes)


def test_raising_the_length_of_an_old_engine_is_refused() -> None:
    old = EngineFacts(version="0.7.3", model="llama", utilization=0.9)
    with pytest.raises(BadInput, match="moves with max_model_len"):
        what_if(replace(L40S, max_model_len=4096, needed_kv_bytes=gib(0.75)), old, {"max_model_len": 8192})
