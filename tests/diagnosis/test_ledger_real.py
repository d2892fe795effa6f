"""The ledger against what real servers printed."""

from functools import cache
from pathlib import Path

import pytest

from bot.diagnosis.ledger import LENGTH_OVER_TOKENS, NEEDED_OVER_AVAILABLE, NOTHING_LEFT
from bot.diagnosis.ledger_sum import CLOSES
from bot.evidence.bundle import open_path
from bot.incident import ledger_of
from bot.model import Ledger
from bot.playbooks import Knowledge, load
from bot.units import GIB
from tests.diagnosis.real_ledgers import Start, start, starts, with_lines

BYTES = {
    "total_gib": "total_bytes",
    "free_at_start_gib": "free_at_start_bytes",
    "requested_gib": "requested_bytes",
    "weights_gib": "weights_bytes",
    "activation_peak_gib": "activation_peak_bytes",
    "non_torch_gib": "non_torch_bytes",
    "cudagraph_est_gib": "cudagraph_estimate_bytes",
    "cudagraph_gib": "cudagraph_bytes",
    "available_kv_gib": "available_kv_bytes",
    "needed_kv_gib": "needed_kv_bytes",
}
OTHERS = {
    "u": "utilization",
    "gpu_blocks": "kv_blocks",
    "kv_tokens": "kv_tokens",
    "max_model_len": "max_model_len",
    "max_concurrency": "max_concurrency",
    "estimated_max_len": "estimated_max_len",
}
FAILED = {
    "max seq len larger than KV cache tokens": LENGTH_OVER_TOKENS,
    "no available memory for the cache blocks": NOTHING_LEFT,
    "N GiB KV cache is needed, larger than available": NEEDED_OVER_AVAILABLE,
}
NAMES = [each.name for each in with_lines()]


def ledger(name: str) -> Ledger:
    found = start(name).ledger()
    assert found is not None
    return found


def in_lines(each: Start, value: object) -> bool:
    """Whether a number really stands in the lines (a person may know it from elsewhere)."""
    text = " ".join(each.lines).replace(",", "")
    forms = {f"{value}", f"{float(str(value)):.2f}", f"{float(str(value)):.4f}"} if isinstance(value, (int, float)) else {str(value)}
    return any(form in text for form in forms)


@cache
def knowledge() -> Knowledge:
    return load()


def of_bundle(each: Start, folder: Path) -> Ledger | None:
    """The ledger of a bundle that holds nothing but the log: not even the arguments or the version."""
    (folder / "container.log").write_text("\n".join(each.lines) + "\n", encoding="utf-8")
    return ledger_of(open_path(str(folder)), knowledge())[0]


@pytest.mark.parametrize("name", NAMES)
def test_the_log_alone_gives_the_same_numbers_through_the_whole_product(name: str, tmp_path: Path) -> None:
    agrees(start(name), of_bundle(start(name), tmp_path))


@pytest.mark.parametrize("name", NAMES)
def test_every_printed_number_stands_in_the_ledger_within_its_rounding(name: str) -> None:
    agrees(start(name), start(name).ledger())


def agrees(each: Start, made: Ledger | None) -> None:
    """Every number that was printed stands in the ledger within its rounding."""
    for key, value in each.printed.items():
        if key not in BYTES | OTHERS or not isinstance(value, (int, float)) or not in_lines(each, value):
            continue
        if made is None and key == "u":
            continue  # an argument alone is no ledger
        assert made is not None, f"{key} = {value} was printed, yet there is no ledger"
        got = getattr(made, (BYTES | OTHERS)[key])
        assert got is not None, f"{key} = {value} was printed"
        if key in BYTES:
            decimals = len(str(value).partition(".")[2])
            assert abs(got / GIB - value) <= max(0.00501, 0.5 * 10**-decimals), key
        else:
            assert got == pytest.approx(value, abs=0.00501 if isinstance(value, float) else 0), key


@pytest.mark.parametrize("name", NAMES)
def test_a_sum_closes_or_the_ledger_says_what_is_odd(name: str) -> None:
    made = start(name).ledger()
    if made is not None and made.residual_bytes is not None and abs(made.residual_bytes) > CLOSES:
        assert made.notes, f"off by {made.residual_bytes / GIB:.2f} GiB without a word"


def test_nearly_all_sums_that_can_close_do() -> None:
    closable = {each.name for each in with_lines() if each.start.get("sum_rule") in ("v064", "v0", "v1", "v1_graph", "v1_consumed")}
    closed = {name for name in closable if (made := start(name).ledger()) is not None and made.residual_bytes is not None and abs(made.residual_bytes) <= CLOSES}
    assert len(closable) >= 18
    assert closable - closed <= {"010+", "054", "054+"}, "only excerpts without a budget line may be left open"


@pytest.mark.parametrize("name", [each.name for each in with_lines() if each.start["outcome"] in FAILED])
def test_the_failed_check_is_named_as_the_server_named_it(name: str) -> None:
    each = start(name)
    made = each.ledger()
    said = " ".join(each.lines)
    if made is not None and ("ValueError" in said or "max seq len" in said or "No available memory" in said):
        assert made.failed == FAILED[each.start["outcome"]]


@pytest.mark.parametrize("name", [each.name for each in with_lines() if each.start["outcome"] == "started fine"])
def test_a_start_that_worked_has_no_failed_check(name: str) -> None:
    made = start(name).ledger()
    assert made is None or made.failed is None


def test_the_rank_with_the_least_room_rules() -> None:
    made = ledger("020")
    assert made.ranks_seen == 2
    assert made.available_kv_bytes == round(14.26 * GIB)
    assert made.weights_bytes == round(10.30 * GIB)
    assert made.activation_peak_bytes == round(1.77 * GIB)


def test_a_rank_that_printed_no_terms_borrows_them_from_an_equal_card() -> None:
    made = ledger("035")
    assert (made.rank, made.ranks_seen) == (3, 2)
    assert made.available_kv_bytes == round(10.65 * GIB)
    assert made.weights_bytes == round(27.72 * GIB)


def test_unseen_ranks_are_said() -> None:
    assert any("1 of 2 ranks" in note.en for note in ledger("034").notes)


def test_the_printed_budget_counts_and_not_utilisation_times_card() -> None:
    made = ledger("023")
    assert made.requested_bytes == round(37.18 * GIB)
    assert made.residual_bytes is not None
    assert abs(made.residual_bytes) < 0.01 * GIB


def test_weights_inside_the_peak_are_taken_out_of_activations_in_0_6_4() -> None:
    made = ledger("005")
    assert made.activation_peak_bytes == round(3.12 * GIB) - round(2.6419 * GIB)
    assert {"activation_peak_bytes", "requested_bytes", "kv_tokens"} <= set(made.derived)


def test_terms_may_be_negative() -> None:
    made = ledger("013")
    assert made.non_torch_bytes == round(-0.51 * GIB)
    assert made.available_kv_bytes == round(-0.94 * GIB)
    assert made.residual_bytes is not None
    assert abs(made.residual_bytes) <= CLOSES


def test_the_card_is_known_from_the_share_of_its_graph_estimate() -> None:
    made = ledger("057")
    assert made.total_bytes is not None
    assert made.total_bytes / GIB == pytest.approx(79.1, rel=0.03)
    assert "total_bytes" in made.derived
    assert made.residual_bytes is None, "a card known to 3 % is too rough for a sum"


def test_an_estimate_that_was_not_printed_is_what_the_sum_misses() -> None:
    made = ledger("056+")
    assert made.cudagraph_estimate_bytes == pytest.approx(0.87 * GIB, abs=0.011 * GIB)
    assert "cudagraph_estimate_bytes" in made.derived
    assert made.notes


def test_weights_and_non_torch_in_one_number_close_the_sum_of_0_27() -> None:
    made = ledger("053+")
    assert made.residual_bytes is not None
    assert abs(made.residual_bytes) <= CLOSES
    assert made.weights_bytes is None, "consumed memory is not the weights alone"


@pytest.mark.parametrize("name", ["034", "058", "062++", "073", "087", "053+", "051+", "056"])
def test_hybrids_are_known_as_such(name: str) -> None:
    assert ledger(name).plain_attention is False


@pytest.mark.parametrize("name", ["005", "007", "026", "042", "045", "050", "059", "070"])
def test_plain_attention_is_proved_by_the_lines(name: str) -> None:
    assert ledger(name).plain_attention is True


def test_host_blocks_give_bytes_a_token_where_the_cache_is_empty() -> None:
    made = ledger("012")
    assert made.needed_kv_bytes == pytest.approx(4096 * 57344, rel=0.001)
    assert "needed_kv_bytes" in made.derived


def test_a_version_that_counts_all_layers_on_every_stage_says_so() -> None:
    for name in ("067", "068"):
        assert any("every stage" in note.en for note in ledger(name).notes), name


def test_all_data_files_were_read() -> None:
    assert len({each.name.rstrip("+") for each in starts()}) >= 55
