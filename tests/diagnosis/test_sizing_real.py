"""Sizing against pairs of real starts between which somebody changed a setting."""

from dataclasses import replace

import pytest

from bot.diagnosis.ledger_engine import EngineFacts
from bot.diagnosis.sizing_whatif import what_if
from bot.errors import BadInput
from bot.model import Ledger
from bot.units import GIB, gib
from tests.diagnosis.real_ledgers import Start, start, starts


def printed_cache(each: Start) -> float | None:
    value = each.printed.get("available_kv_gib", each.printed.get("available_kv_from_tokens_gib"))
    return float(value) if value is not None else None


def as_printed(each: Start) -> Ledger:
    """The ledger of the numbers that were printed, where the lines themselves were not kept. The card is the one of the report."""
    printed = each.printed
    total = each.file.get("total_for_slope_gib") or printed.get("total_gib")
    made = each.ledger() if each.lines else None
    made = made or Ledger(utilization=printed["u"], available_kv_bytes=gib(printed_cache(each) or 0.0), kv_tokens=printed.get("kv_tokens"), max_model_len=printed.get("max_model_len"))
    made = replace(made, total_bytes=made.total_bytes or gib(total or 0), utilization=made.utilization or printed["u"])
    if made.available_kv_bytes is None and printed_cache(each) is not None:
        made = replace(made, available_kv_bytes=gib(printed_cache(each) or 0.0))
    return made


def pairs() -> list[tuple[str, str]]:
    """Neighbouring starts of one server at two utilisations."""
    found = []
    for first, second in zip(starts(), starts()[1:], strict=False):
        same = first.name.rstrip("+") == second.name.rstrip("+")
        known = [printed_cache(each) is not None and isinstance(each.printed.get("u"), float) for each in (first, second)]
        if same and all(known) and first.file.get("total_for_slope_gib") and first.printed["u"] != second.printed["u"] and not second.start.get("no_slope"):
            found.append((first.name, second.name))
    return found


@pytest.mark.parametrize(("first", "second"), pairs())
def test_another_utilisation_gives_the_cache_that_the_server_printed(first: str, second: str) -> None:
    before, after = start(first), start(second)
    answer = what_if(as_printed(before), before.engine, {"gpu_memory_utilization": after.printed["u"]})
    assert answer.after.available_kv_bytes is not None
    assert answer.after.available_kv_bytes / GIB == pytest.approx(printed_cache(after), abs=0.165)


def test_there_are_pairs() -> None:
    assert len(pairs()) >= 7


def test_tokens_at_another_utilisation_are_predicted_for_hybrids_too() -> None:
    first = start("053+")
    ledger = first.ledger()
    assert ledger is not None
    answer = what_if(replace(ledger, kv_tokens=10_877_194), first.engine, {"gpu_memory_utilization": 0.97})
    assert answer.after.kv_tokens == pytest.approx(11_396_895, rel=0.001)


def test_the_length_that_the_server_would_estimate_is_ours_too() -> None:
    ledger = start("070").ledger()
    assert ledger is not None
    answer = what_if(ledger, start("070").engine, {"max_model_len": 810_208})
    assert answer.fits
    assert answer.margin_bytes is not None
    assert answer.margin_bytes < 0.02 * GIB
    assert not what_if(ledger, start("070").engine, {"max_model_len": 820_000}).fits


def test_two_cards_leave_the_cache_that_the_server_printed() -> None:
    one = start("030")
    ledger = Ledger(
        total_bytes=gib(79.18), utilization=0.9, requested_bytes=gib(71.26), weights_bytes=gib(67.72), activation_peak_bytes=gib(4.84),
        non_torch_bytes=gib(0.14), available_kv_bytes=gib(-1.44), estimate_in_sum=False, max_model_len=16000,
    )  # fmt: skip
    answer = what_if(ledger, one.engine, {"tensor_parallel_size": 2})
    assert (answer.after.available_kv_bytes or 0) / GIB == pytest.approx(32.0, abs=0.05)
    assert (answer.after.weights_bytes or 0) / GIB == pytest.approx(33.88, abs=0.03)


@pytest.mark.parametrize("name", ["034", "056", "058", "062++", "073", "087", "082"])
def test_the_length_of_a_hybrid_is_never_computed(name: str) -> None:
    each = start(name)
    ledger = each.ledger()
    assert ledger is not None
    with pytest.raises(BadInput, match="cannot be computed"):
        what_if(ledger, each.engine, {"max_model_len": 4096})


def test_a_log_that_names_no_model_and_proves_nothing_gets_no_length() -> None:
    each = start("074")
    ledger = each.ledger()
    assert ledger is not None
    with pytest.raises(BadInput, match="does not show"):
        what_if(ledger, EngineFacts(version="0.27.0"), {"max_model_len": 4096})
