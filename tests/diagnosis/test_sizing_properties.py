"""Whatever the ledger: no size breaks, and none is beyond what the card can give."""

from hypothesis import given
from hypothesis import strategies as st

from bot.diagnosis.ledger import LENGTH_OVER_TOKENS, NEEDED_OVER_AVAILABLE, NOTHING_LEFT, REQUESTED_OVER_FREE
from bot.diagnosis.ledger_engine import EngineFacts
from bot.diagnosis.sizing import _SIZERS, Sized, candidates, size_for
from bot.diagnosis.sizing_whatif import KNOBS, what_if
from bot.errors import BadInput
from bot.model import Ledger, Phase
from bot.units import GIB

size = st.none() | st.integers(min_value=-20 * GIB, max_value=200 * GIB)
positive = st.none() | st.integers(min_value=1, max_value=200 * GIB)
count = st.none() | st.integers(min_value=0, max_value=2_000_000)
ledgers = st.builds(
    Ledger,
    total_bytes=positive,
    free_at_start_bytes=positive,
    utilization=st.none() | st.floats(min_value=0.01, max_value=1.0),
    requested_bytes=positive,
    weights_bytes=positive,
    activation_peak_bytes=size,
    non_torch_bytes=size,
    cudagraph_estimate_bytes=size,
    cudagraph_bytes=size,
    available_kv_bytes=size,
    kv_blocks=count,
    kv_tokens=count,
    max_model_len=st.none() | st.integers(min_value=1, max_value=2_000_000),
    max_concurrency=st.none() | st.floats(min_value=0, max_value=1000),
    needed_kv_bytes=positive,
    estimated_max_len=count,
    failed=st.sampled_from([None, NEEDED_OVER_AVAILABLE, NOTHING_LEFT, LENGTH_OVER_TOKENS, REQUESTED_OVER_FREE]),
    estimate_in_sum=st.sampled_from([None, True, False]),
    plain_attention=st.sampled_from([None, True, False]),
)
engines = st.builds(
    EngineFacts,
    version=st.sampled_from(["", "0.6.4", "0.7.3", "0.10.2", "0.15.0", "0.22.0", "0.30.0"]),
    model=st.sampled_from(["", "meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it"]),
    utilization=st.none() | st.floats(min_value=0.01, max_value=1.0),
    max_model_len=st.none() | st.integers(min_value=1, max_value=2_000_000),
    max_num_seqs=st.none() | st.integers(min_value=1, max_value=4096),
    max_num_batched_tokens=st.none() | st.integers(min_value=1, max_value=65536),
    kv_cache_memory_bytes=positive,
    kv_cache_dtype=st.sampled_from([None, "auto", "fp8", "nvfp4"]),
    tensor_parallel_size=st.sampled_from([None, 1, 8]),
    pipeline_parallel_size=st.sampled_from([None, 1, 2]),
    phase=st.sampled_from([None, *Phase]),
    unified_memory=st.sampled_from([None, True, False]),
)


@given(ledgers, engines)
def test_a_raise_is_never_above_what_the_card_has_and_always_enough(ledger: Ledger, engine: EngineFacts) -> None:
    found = size_for("gpu_memory_utilization", "raise", ledger, engine)
    if not isinstance(found, Sized) or found.to_value is None:
        return
    assert isinstance(found.to_value, float)
    assert 0 < found.to_value <= 0.98
    if found.predicted is not None and ledger.total_bytes:
        room = ledger.free_at_start_bytes if ledger.free_at_start_bytes is not None else ledger.total_bytes
        assert found.to_value * ledger.total_bytes <= room
        if ledger.failed in (NEEDED_OVER_AVAILABLE, NOTHING_LEFT, LENGTH_OVER_TOKENS):
            assert found.predicted.available_kv_bytes is not None
            assert found.predicted.available_kv_bytes >= (ledger.needed_kv_bytes or 0)


@given(ledgers, engines)
def test_a_lowered_value_is_lower_and_a_length_is_whole_blocks(ledger: Ledger, engine: EngineFacts) -> None:
    for remedy in ("gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens"):
        found = size_for(remedy, "lower", ledger, engine)
        if isinstance(found, Sized) and isinstance(found.to_value, (int, float)):
            assert found.to_value > 0
            if isinstance(found.from_value, (int, float)) and not engine.mamba_blocks:
                assert found.to_value < found.from_value, remedy
            if remedy == "max_model_len":
                assert found.to_value % 16 == 0


@given(ledgers | st.none(), engines)
def test_every_sizer_answers_and_says_why(ledger: Ledger | None, engine: EngineFacts) -> None:
    for remedy, direction in _SIZERS:
        found = size_for(remedy, direction, ledger, engine)
        if found is not None:
            said = found.effect if isinstance(found, Sized) else found.why
            assert said.en
            assert said.zh
    candidates(ledger, engine)


@given(ledgers, engines, st.sampled_from(sorted(KNOBS)), st.sampled_from([0.5, 0.9, 1.0, 1, 2, 16, 4096, 10**9, "fp8", "auto", True, False]))
def test_what_if_answers_or_refuses_in_one_line(ledger: Ledger, engine: EngineFacts, knob: str, value: float | str) -> None:
    said = "answered"
    try:
        answer = what_if(ledger, engine, {knob: value})
        assert answer.fits == (bool(answer.checks) and all(check.holds for check in answer.checks))
    except BadInput as wrong:
        said = str(wrong)
    assert said
    assert "\n" not in said
