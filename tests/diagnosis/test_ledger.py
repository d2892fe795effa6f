"""The rules of the ledger on small, made-up starts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.diagnosis.ledger import GRAPHS_OVER_FREE, NEEDED_OVER_AVAILABLE, NOTHING_LEFT, REQUESTED_OVER_FREE, WARMUP_OVER_FREE, build, to_json
from bot.diagnosis.ledger_engine import EngineFacts, engine_facts
from bot.diagnosis.ledger_events import readings
from bot.diagnosis.ledger_lines import FIELDS, LedgerReading
from bot.diagnosis.ledger_sum import CLOSES
from bot.facts import Facts
from bot.model import Fact, Ledger, Phase
from bot.units import GIB, gib
from tests.diagnosis.real_ledgers import ledger_of


def reading(process: str = "", rank: int | None = None, key: str = "vllm.ledger.any", /, **values: float) -> LedgerReading:
    """Sizes in GiB, counts and shares as they are."""
    counts = {"blocks", "cpu_blocks", "kv_tokens", "max_model_len", "estimated_max_len", "block_size"}
    shares = {"utilization", "utilization_without_estimate", "utilization_to_keep", "max_concurrency"}
    typed = {name: int(value) if name in counts else value if name in shares else gib(value) for name, value in values.items()}
    return LedgerReading(key, typed, process, rank)


def made(*given_readings: LedgerReading, engine: EngineFacts | None = None) -> Ledger:
    found = build(given_readings, engine or EngineFacts(version="0.11.0"))
    assert found is not None
    return found


WHOLE = {"total": 80.0, "free_at_start": 79.4, "utilization": 0.9, "requested": 72.0, "weights": 16.0, "activation": 4.0, "non_torch": 0.5}


def test_a_log_without_ledger_lines_has_no_ledger() -> None:
    assert build((), EngineFacts()) is None
    assert build((reading(max_model_len=4096),), EngineFacts()) is None
    assert to_json(None) is None


def test_zeros_that_an_engine_read_from_another_device_are_no_ledger() -> None:
    zeros = {**WHOLE, "weights": 0.0, "activation": 0.0, "non_torch": 0.0, "available": 72.0}
    assert build((reading(**zeros),), EngineFacts(version="0.7.1")) is None
    assert made(reading(**{**zeros, "weights": 0.2})).available_kv_bytes == gib(72.0)
    assert made(reading(**zeros, external_weights=14.0)).available_kv_bytes == gib(72.0)


def test_a_whole_sum_closes_and_nothing_is_said_to_be_odd() -> None:
    found = made(reading(**WHOLE, available=51.5))
    assert found.residual_bytes == 0
    assert found.notes == ()
    assert found.derived == ()


@pytest.mark.parametrize("missing", ["weights", "activation", "non_torch"])
def test_the_one_missing_term_is_computed_and_named(missing: str) -> None:
    terms = {**WHOLE, "available": 51.5}
    del terms[missing]
    found = made(reading(**terms))
    names = {"weights": "weights_bytes", "activation": "activation_peak_bytes", "non_torch": "non_torch_bytes"}
    assert getattr(found, names[missing]) == gib(WHOLE[missing])
    assert names[missing] in found.derived


def test_two_missing_terms_are_not_invented() -> None:
    found = made(reading(total=80, utilization=0.9, requested=72, weights=16, available=51.5))
    assert found.activation_peak_bytes is None
    assert found.non_torch_bytes is None
    assert found.residual_bytes is None


def test_from_0_20_the_estimate_is_taken_off() -> None:
    found = made(reading(**WHOLE, cudagraph_estimate=1.5, available=50.0), engine=EngineFacts(version="0.22.0"))
    assert found.estimate_in_sum is True
    assert found.residual_bytes == 0
    assert found.notes == ()


def test_a_build_that_leaves_the_estimate_out_is_recognised_by_its_sum() -> None:
    found = made(reading(**WHOLE, cudagraph_estimate=1.5, available=51.5), engine=EngineFacts(version="0.26.1"))
    assert found.estimate_in_sum is False
    assert found.residual_bytes == 0
    assert "without the estimate" in found.notes[0].en


def test_before_0_20_a_printed_estimate_is_not_taken_off() -> None:
    found = made(reading(**WHOLE, cudagraph_estimate=1.5, available=51.5), engine=EngineFacts(version="0.19.1"))
    assert found.estimate_in_sum is False
    assert found.notes == ()


def test_a_residual_of_whole_hundredths_tells_the_utilisation_in_force() -> None:
    found = made(reading(total=79.18, utilization=0.9, requested=71.26, weights=64.38, activation=7.38, non_torch=0.13, available=3.33))
    assert found.residual_bytes is not None
    assert abs(found.residual_bytes) > CLOSES
    assert "0.95 was really in force" in found.notes[0].en


def test_terms_that_do_not_add_up_are_said_to() -> None:
    found = made(reading(**WHOLE, available=50.3))
    assert "do not add up" in found.notes[0].en


def test_a_utilisation_that_was_cut_at_one_does_not_tell_the_size_of_the_card() -> None:
    engine = EngineFacts(version="0.19.1")
    whole = made(reading(utilization=0.8, utilization_to_keep=0.9, cudagraph_estimate=4.8, weights=7.68, available=0.85), engine=engine)
    cut = made(reading(utilization=0.8, utilization_to_keep=1.0, cudagraph_estimate=4.8, weights=7.68, available=0.85), engine=engine)
    assert whole.total_bytes == pytest.approx(gib(48.0), rel=0.01)
    assert cut.total_bytes is None


def test_a_wrong_graph_estimate_may_be_larger_than_the_card() -> None:
    found = made(reading(cudagraph_estimate=118.65), LedgerReading("vllm.no_cache_blocks", {}), engine=EngineFacts(version="0.28.0"))
    assert found.failed == NOTHING_LEFT
    assert found.cudagraph_estimate_bytes == gib(118.65)


def test_the_smallest_cache_rules_among_ranks() -> None:
    found = made(
        reading("EngineCore_DP0", kv_tokens=100_000),
        reading("Worker_TP0", 0, available=10.0, weights=20.0),
        reading("Worker_TP1", 1, available=8.0, weights=21.0),
        reading("Worker_TP2", 2, available=9.0, weights=20.0),
        engine=EngineFacts(version="0.11.0", tensor_parallel_size=3),
    )
    assert (found.rank, found.ranks_seen) == (1, 3)
    assert found.available_kv_bytes == gib(8)
    assert found.weights_bytes == gib(21)
    assert found.notes == ()


@pytest.mark.parametrize(("in_use", "rules"), [(9.5, 1), (9.99, 0), (10.4, 0)])
def test_a_rank_of_which_only_the_line_after_the_start_was_kept_may_rule(in_use: float, rules: int) -> None:
    found = made(reading("Worker_TP0", 0, available=10.0, free_at_start=78.0), reading("Worker_TP1", 1, in_use=in_use, free_at_start=77.5))
    assert found.rank == rules
    assert found.available_kv_bytes == gib(in_use if rules else 10.0)
    assert found.free_at_start_bytes == gib(77.5 if rules else 78.0)


def test_a_front_that_repeats_the_arguments_is_no_second_rank() -> None:
    found = made(reading("APIServer", utilization=0.5), reading("EngineCore_DP0", weights=7.5, available=20.0))
    assert (found.ranks_seen, found.utilization, found.weights_bytes) == (1, 0.5, gib(7.5))


def test_the_smallest_of_several_token_lines_is_real() -> None:
    found = made(reading("EngineCore", kv_tokens=238_208), reading("EngineCore", kv_tokens=237_000), reading("Worker_TP0", 0, available=10.65))
    assert found.kv_tokens == 237_000


def test_terms_are_not_borrowed_from_a_card_of_another_size() -> None:
    found = made(reading("Worker_TP0", 0, available=2.0, total=16.0), reading("Worker_TP1", 1, available=20.0, total=32.0, weights=9.0, requested=28.8))
    assert found.available_kv_bytes == gib(2)
    assert found.weights_bytes is None
    assert found.requested_bytes != gib(28.8)


def test_the_finer_of_two_readings_of_one_number_is_kept() -> None:
    found = made(reading(weights=5.2032), reading(weights=5.20, available=1.0))
    assert found.weights_bytes == gib(5.2032)


def test_a_later_reading_that_differs_replaces_the_earlier() -> None:
    found = made(reading(available=10.0), reading(available=8.5, mm_reserve=1.5))
    assert found.available_kv_bytes == gib(8.5)


def test_what_the_engine_compared_is_the_cache_that_counts() -> None:
    found = made(
        reading("Worker_TP0", 0, available=11.0),
        reading("Worker_TP1", 1, available=10.58),
        reading("EngineCore_DP0", None, "vllm.context_exceeds_cache", needed=24.0, available=10.58, max_model_len=131072, estimated_max_len=57776),
    )
    assert found.rank == 1
    assert found.available_kv_bytes == gib(10.58)
    assert found.failed == NEEDED_OVER_AVAILABLE


def test_a_refusal_by_a_hair_is_a_refusal_even_when_both_numbers_print_alike() -> None:
    found = made(reading("EngineCore", None, "vllm.free_below_request", free_at_start=13.59, total=15.99, utilization=0.85, requested=13.59))
    assert found.failed == REQUESTED_OVER_FREE


def test_the_hint_after_a_whole_start_is_no_refusal() -> None:
    found = made(reading("", None, "vllm.ledger.hint_budget", free_at_start=78.57, total=79.18, utilization=0.9, requested=71.26))
    assert found.failed is None


def test_a_default_utilisation_counts_as_derived() -> None:
    for version, share in (("0.11.0", 0.9), ("0.19.1", 0.9), ("0.20.0", 0.92), ("0.33.0", 0.92)):
        found = made(reading(total=80.0, available=10.0), engine=EngineFacts(version=version))
        assert found.utilization == share
        assert {"utilization", "requested_bytes"} <= set(found.derived)


def test_a_sum_that_closes_elsewhere_tells_the_utilisation_that_nobody_stated() -> None:
    terms = {"total": 40.0, "weights": 3.1, "activation": 0.7, "non_torch": 0.2, "available": 24.0}
    for version in ("0.11.0", ""):
        found = made(reading(**terms), engine=EngineFacts(version=version))
        assert (found.utilization, found.requested_bytes) == (0.7, gib(28.0)), version
        assert "utilization" in found.derived
    assert made(reading(**{**terms, "available": 25.3}), engine=EngineFacts(version="0.11.0")).utilization == 0.9, "it closes nowhere"
    assert made(reading(**terms), engine=EngineFacts(version="0.11.0", kv_cache_memory_bytes=gib(24))).utilization == 0.9, "the cache is no rest of a budget"


def test_a_default_that_weights_and_cache_exceed_is_not_taken_for_the_value_in_force() -> None:
    found = made(reading(total=80.0, weights=3.0, available=71.5), engine=EngineFacts(version="0.11.0"))
    assert (found.utilization, found.requested_bytes) == (None, None)
    assert made(reading(total=80.0, weights=3.0, available=68.5), engine=EngineFacts(version="0.11.0")).utilization == 0.9
    assert made(reading(total=80.0, utilization=0.9, weights=3.0, available=71.5)).utilization == 0.9, "what is printed stands"


def test_an_argument_is_finer_than_two_printed_decimals() -> None:
    found = made(reading(total=47.5, utilization=0.78, requested=37.18, available=34.81), engine=EngineFacts(version="0.10.0", utilization=0.7827))
    assert found.utilization == 0.7827


def test_a_cache_fixed_in_bytes_is_the_cache() -> None:
    found = made(reading(free_at_start=78.57, kv_fixed=40.0), engine=EngineFacts(version="0.11.0"))
    assert found.available_kv_bytes == gib(40)
    assert "no say" in found.notes[0].en


def test_a_length_that_fits_is_computed_where_the_release_printed_none() -> None:
    found = made(
        reading(kv_tokens=16_384, available=2.0, max_concurrency=0.5, max_model_len=32_768),
        reading("", None, "vllm.context_exceeds_cache", needed=4.0, available=2.0, max_model_len=32_768),
        engine=EngineFacts(version="0.8.3"),
    )
    assert found.estimated_max_len == 16_384
    assert "estimated_max_len" in found.derived


def test_a_wider_block_is_read_from_the_arguments() -> None:
    found = made(reading(blocks=100, cpu_blocks=50, available=1.0), engine=EngineFacts(version="0.7.3", block_size=32))
    assert found.kv_tokens == 3200


@pytest.mark.parametrize(("device", "blocks", "length", "concurrency", "tokens"), [
    ("npu", 512, 32_768, "2.00", 65_536),
    ("hpu", 6_000, 4_096, "187.50", 768_000),
    ("neuron", 8, 1_024, "8.00", 8_192),
    ("cpu", 8_192, 32_768, "4.00", 131_072),
    ("cuda", 2_000, 2_048, "15.63", 32_000),
])  # fmt: skip
def test_blocks_of_any_platform_count_with_the_size_that_the_concurrency_tells(device: str, blocks: int, length: int, concurrency: str, tokens: int) -> None:
    lines = [
        f"INFO 06-20 09:12:31 [executor_base.py:113] # {device} blocks: {blocks}, # CPU blocks: 1024",
        f"INFO 06-20 09:12:31 [executor_base.py:118] Maximum concurrency for {length} tokens per request: {concurrency}x",
    ]
    found = ledger_of(lines, EngineFacts(version="0.9.1"))
    assert found is not None
    assert (found.kv_blocks, found.kv_tokens) == (blocks, tokens)


def test_a_concurrency_that_fits_no_block_leaves_the_usual_one() -> None:
    assert made(reading(blocks=1000, cpu_blocks=50, max_model_len=1000, max_concurrency=11.0), engine=EngineFacts(version="0.7.3")).kv_tokens == 16_000


def test_the_peak_of_an_intel_card_gives_its_activations() -> None:
    lines = [
        "(EngineCore_0 pid=207) INFO 11-06 10:11:09 [xpu_worker.py:104] Before memory profiling run, total GPU memory: 65536.00 MB, model load takes 15360.00 MB, free gpu memory is 49900.25 MB.",
        "(EngineCore_0 pid=207) INFO 11-06 10:11:10 [xpu_worker.py:139] After memory profiling run, peak memory usage is 16896.00 MB,torch mem is 15360.00 MB, non-torch mem is 512.00 MB, free gpu memory is 49300.00 MB.",
    ]
    found = ledger_of(lines, EngineFacts(version="0.10.1"))
    assert found is not None
    assert (found.total_bytes, found.weights_bytes, found.non_torch_bytes, found.activation_peak_bytes) == (gib(64), gib(15), gib(0.5), gib(1))


def test_the_line_after_a_whole_start_closes_on_another_vendors_card() -> None:
    line = (
        "(Worker_TP1 pid=2610) INFO 07-06 10:11:12 [worker.py:852] Free memory on device (60.6/60.96 GiB) on startup. Desired GPU memory utilization is (0.9, 54.86 GiB). "
        "Actual usage: 30.5 GiB for weights, 1.52 GiB for peak activation, 3.1 GiB for non-torch memory, 0.4 GiB for NPU graph memory. Current KV cache memory: 19.74 GiB."
    )
    found = ledger_of([line], EngineFacts(version="0.19.0"))
    assert found is not None
    assert found.residual_bytes is not None
    assert abs(found.residual_bytes) <= CLOSES
    assert (found.cudagraph_bytes, found.available_kv_bytes) == (gib(0.4), gib(19.74))


def test_what_one_request_needs_is_told_by_the_concurrency_for_any_kind_of_model() -> None:
    hybrid = {"available": 9.0, "kv_tokens": 340_000, "max_model_len": 262_144, "max_concurrency": 1.25}
    found = made(reading(**hybrid), engine=EngineFacts(version="0.28.0", named_hybrid=True))
    assert found.needed_kv_bytes == gib(7.2)
    assert "needed_kv_bytes" in found.derived
    for fixed in (EngineFacts(version="0.28.0", kv_cache_memory_bytes=gib(9.0)), EngineFacts(version="0.28.0")):
        other = {} if fixed.kv_cache_memory_bytes else {"blocks_override": 512.0}
        assert made(reading(**hybrid), LedgerReading("vllm.ledger.any", {name: int(value) for name, value in other.items()}), engine=fixed).needed_kv_bytes is None
    assert made(reading(**{**hybrid, "max_concurrency": 0.04}), engine=EngineFacts(version="0.28.0", named_hybrid=True)).needed_kv_bytes is None


HINT = (
    "Free memory on device (139.20/139.80 GiB) on startup. Desired GPU memory utilization is (0.9, 125.82 GiB). Actual usage is 74.28 GiB for weight, "
    "15.58 GiB for peak activation, 1.38 GiB for non-torch memory, and 2.37 GiB for CUDAGraph memory. Current kv cache memory in use is 34.58 GiB."
)


def test_a_line_that_was_broken_between_its_clauses_is_read_all_the_same() -> None:
    whole = ledger_of([HINT], EngineFacts(version="0.11.0"))
    assert whole is not None
    assert whole.residual_bytes is not None
    assert abs(whole.residual_bytes) <= CLOSES
    broken = HINT.replace(". ", ".\n").replace("for weight, ", "for weight,\nand ").split("\n")
    assert len(broken) > 3
    assert ledger_of(broken, EngineFacts(version="0.11.0")) == whole


@pytest.mark.parametrize("at", range(20, len(HINT) - 1))
def test_a_line_that_was_broken_anywhere_loses_numbers_and_makes_none_up(at: int) -> None:
    whole, half = (ledger_of(lines, EngineFacts(version="0.11.0")) for lines in ([HINT], [HINT[:at], HINT[at:]]))
    assert whole is not None
    for name in ("total_bytes", "free_at_start_bytes", "requested_bytes", "weights_bytes", "activation_peak_bytes", "non_torch_bytes", "cudagraph_bytes", "available_kv_bytes"):
        if half is not None and getattr(half, name) is not None and name not in half.derived:
            assert getattr(half, name) == getattr(whole, name), name


def test_large_blocks_leave_tokens_over_and_are_no_sign_of_a_fixed_part() -> None:
    refused = {"needed": 16.0, "available": 0.71, "max_model_len": 131_072}
    assert made(reading(**refused, estimated_max_len=5_632), engine=EngineFacts()).plain_attention is True
    assert made(reading(**refused, estimated_max_len=5_616), engine=EngineFacts()).plain_attention is False  # blocks of 16 leave no 200 over
    assert made(reading(**refused, estimated_max_len=6_144), engine=EngineFacts()).plain_attention is False  # nor do they give any


def test_cards_of_one_size_are_known_by_name_for_slopes_only() -> None:
    found = made(reading(available=-3.21, weights=1.17), engine=EngineFacts(version="0.11.0", utilization=0.2, card_bytes=gib(31.4)))
    assert "total_bytes" in found.derived
    assert found.residual_bytes is None


def test_facts_of_a_wrong_type_count_as_not_known() -> None:
    facts = Facts(
        [
            Fact("engine.gpu_memory_utilization", 90.0),
            Fact("engine.max_model_len", -1),
            Fact("engine.max_num_seqs", True),
            Fact("engine.version", "v0.22.1rc1.dev3+gabc"),
            Fact("failure.phase", "nowhere"),
            Fact("engine.cpu_offload_gb", 4),
        ]
    )
    found = engine_facts(facts)
    assert (found.utilization, found.max_model_len, found.max_num_seqs, found.phase) == (None, None, None, None)
    assert found.release == (0, 22, 1)
    assert found.cpu_offload_gb == 4.0
    assert engine_facts(Facts([Fact("failure.phase", "weights")])).phase is Phase.WEIGHTS


def test_the_json_names_every_field_of_the_contract_and_what_is_odd() -> None:
    found = to_json(made(reading(**WHOLE, available=51.5)))
    assert found is not None
    assert set(found) == {
        "rank", "ranks_seen", "total_bytes", "free_at_start_bytes", "utilization", "requested_bytes", "weights_bytes", "activation_peak_bytes", "non_torch_bytes",
        "cudagraph_estimate_bytes", "cudagraph_bytes", "available_kv_bytes", "kv_blocks", "kv_tokens", "max_model_len", "max_concurrency", "needed_kv_bytes",
        "estimated_max_len", "derived", "residual_bytes", "failed", "notes",
    }  # fmt: skip


def test_workers_of_one_name_are_told_apart_by_their_number() -> None:
    found = ledger_of(
        [
            "(VllmWorkerProcess pid=11) INFO 04-23 14:48:44 [worker.py:287] model weights take 10.30GiB; non_torch_memory takes 0.33GiB; "
            "PyTorch activation peak memory takes 1.77GiB; the rest of the memory reserved for KV Cache is 14.26GiB.",
            "(VllmWorkerProcess pid=12) INFO 04-23 14:48:44 [worker.py:287] model weights take 10.30GiB; non_torch_memory takes 0.33GiB; "
            "PyTorch activation peak memory takes 1.90GiB; the rest of the memory reserved for KV Cache is 14.13GiB.",
        ],
        EngineFacts(version="0.8.5"),
    )
    assert found is not None
    assert found.ranks_seen == 2
    assert found.available_kv_bytes == gib(14.13)


def test_a_forged_number_of_a_thousand_digits_gives_no_reading() -> None:
    assert ledger_of(["INFO 04-23 14:48:44 [gpu_worker.py:1] Available KV cache memory: " + "9" * 1000 + " GiB"], EngineFacts()) is None
    assert readings(()) == ()


sizes = st.integers(min_value=-(2**62), max_value=2**62)
values = st.dictionaries(st.sampled_from(sorted(FIELDS)), sizes | st.floats(allow_nan=False, min_value=-1e6, max_value=1e6), max_size=12)


@given(st.lists(st.builds(LedgerReading, st.sampled_from(["vllm.ledger.any", "vllm.no_cache_blocks", "vllm.context_exceeds_cache"]), values, st.sampled_from(["", "Worker_TP0", "EngineCore", "VllmWorkerProcess 3"])), max_size=6))
def test_no_numbers_whatever_break_it(given_readings: list[LedgerReading]) -> None:
    for version in ("", "0.6.4", "0.9.1", "0.22.0"):
        found = build(given_readings, EngineFacts(version=version, max_model_len=4096, listed_total_bytes=24 * GIB))
        assert found is None or to_json(found) is not None


@pytest.mark.parametrize(
    ("phase", "failed"),
    [(Phase.GRAPH_CAPTURE, GRAPHS_OVER_FREE), (Phase.WARMUP, WARMUP_OVER_FREE), (Phase.SERVING, None), (Phase.WEIGHTS, None)],
)
def test_what_runs_out_beside_the_budget_is_named_by_its_stage(phase: Phase, failed: str | None) -> None:
    engine = EngineFacts(version="0.11.0", phase=phase, alloc_requested_bytes=gib(1.0), alloc_free_bytes=gib(0.4))
    assert made(reading(**WHOLE, available=51.5), engine=engine).failed == failed


def test_a_trial_of_graphs_before_there_is_a_cache_is_no_failed_budget() -> None:
    engine = EngineFacts(version="0.20.0", phase=Phase.GRAPH_CAPTURE, alloc_requested_bytes=gib(1.0), alloc_free_bytes=gib(0.4))
    assert made(reading(**WHOLE), engine=engine).failed is None


def test_an_allocation_that_would_have_fitted_names_no_failed_budget() -> None:
    engine = EngineFacts(version="0.11.0", phase=Phase.WARMUP, alloc_requested_bytes=gib(1.0), alloc_free_bytes=gib(4))
    assert made(reading(**WHOLE, available=51.5), engine=engine).failed is None
