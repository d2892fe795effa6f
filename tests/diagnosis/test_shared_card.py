"""Engines of one server on one card: their budgets add up, and none of them is a stranger to the others."""

from dataclasses import replace

import pytest

from bot.diagnosis.device_facts import derive
from bot.diagnosis.ledger import NEEDED_OVER_AVAILABLE
from bot.diagnosis.ledger_engine import EngineFacts
from bot.diagnosis.sizing import Impossible, Sized, size_for
from bot.diagnosis.sizing_whatif import what_if
from bot.facts import Facts
from bot.model import Fact, Ledger, Value
from bot.units import gib
from tests.diagnosis.bundles import diagnose

HALF = Ledger(
    total_bytes=gib(44.40), free_at_start_bytes=gib(43.90), utilization=0.4, requested_bytes=gib(17.76), weights_bytes=gib(14.90), activation_peak_bytes=gib(0.9),
    non_torch_bytes=gib(0.06), available_kv_bytes=gib(1.90), needed_kv_bytes=gib(2.30), max_model_len=65536, failed=NEEDED_OVER_AVAILABLE, plain_attention=True,
    estimate_in_sum=False,
)  # fmt: skip
ALONE = EngineFacts(version="0.12.0", model="llama-3", named_plain=True, utilization=0.4, max_model_len=65536)
TWO = replace(ALONE, copies_on_card=2)


def copies(**facts: Value) -> object:
    return derive(Facts([Fact(name.replace("__", "."), value) for name, value in facts.items()]), None).get("engine.copies_on_card")


@pytest.mark.parametrize(
    ("cards", "engines", "ranks", "shared"),
    [(1, 2, 1, 2), (2, 4, 1, 2), (2, 2, 2, 2), (4, 3, 2, 2)],
)
def test_engines_without_cards_of_their_own_share_them(cards: int, engines: int, ranks: int, shared: int) -> None:
    assert copies(gpus__count=cards, engine__data_parallel_size=engines, engine__ranks=ranks) == shared


def test_engines_with_cards_of_their_own_share_none() -> None:
    assert not isinstance(copies(gpus__count=8, engine__data_parallel_size=4, engine__ranks=2), int)


def test_engines_on_other_machines_are_not_counted_here() -> None:
    assert not isinstance(copies(gpus__count=8, engine__data_parallel_size=16, engine__ranks=1, args__data_parallel_address="192.0.2.7"), int)
    assert not isinstance(copies(gpus__count=8, engine__data_parallel_size=16, engine__ranks=1, args__data_parallel_size_local=8), int)


def test_engines_that_the_driver_lists_on_one_card_are_counted() -> None:
    facts: dict[str, Value] = {"gpus__process_bytes": 1}
    for number, gpu in enumerate((0, 0, 1)):
        facts |= {f"gpu__process.{number}.gpu": gpu, f"gpu__process.{number}.pid": 70 + number, f"gpu__process.{number}.name": f"VLLM::EngineCore_DP{number}"}
    assert copies(**facts) == 2


def test_utilisation_is_raised_to_the_engines_share_of_the_card_at_most() -> None:
    far = replace(HALF, needed_kv_bytes=gib(8.0))
    alone = size_for("gpu_memory_utilization", "raise", far, ALONE)
    assert isinstance(alone, Sized)
    assert isinstance(alone.to_value, float)
    assert alone.to_value > 0.5
    shared = size_for("gpu_memory_utilization", "raise", far, TWO)
    assert isinstance(shared, Impossible)
    assert "2 engines" in shared.why.en


def test_a_small_raise_is_possible_where_the_share_allows_it() -> None:
    shared = size_for("gpu_memory_utilization", "raise", HALF, TWO)
    assert isinstance(shared, Sized)
    assert isinstance(shared.to_value, float)
    assert 0.4 < shared.to_value <= 0.46


def test_a_budget_of_which_two_do_not_fit_is_lowered_to_a_half() -> None:
    most = replace(HALF, utilization=0.9, requested_bytes=gib(39.96), available_kv_bytes=gib(24.1), needed_kv_bytes=gib(1.0), failed=None)
    lowered = size_for("gpu_memory_utilization", "lower", most, replace(TWO, utilization=0.9))
    assert isinstance(lowered, Sized)
    assert isinstance(lowered.to_value, float)
    assert lowered.to_value <= 0.48


def test_what_if_says_when_the_budgets_of_all_engines_are_more_than_the_card() -> None:
    assert what_if(HALF, ALONE, {"gpu_memory_utilization": 0.6}).fits
    assert not what_if(HALF, TWO, {"gpu_memory_utilization": 0.6}).fits


def test_nobody_is_told_to_end_the_servers_own_engine() -> None:
    log = (
        "(EngineCore_DP0 pid=21) INFO 10-23 15:14:40 [gpu_model_runner.py:2684] Model loading took 14.99 GiB and 8.1 seconds\n"
        "(EngineCore_DP1 pid=22) ERROR 10-23 15:14:41 [core.py:845] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.25 GiB. GPU 0 has a total capacity of "
        "44.40 GiB of which 1.31 GiB is free. Process 21 has 20.02 GiB memory in use. Process 22 has 22.60 GiB memory in use. Of the allocated memory 21.90 GiB is "
        "allocated by PyTorch, and 90.00 MiB is reserved by PyTorch but unallocated.\n"
    )
    siblings = diagnose({"container.log": log})
    assert next(each.remedy for each in siblings.recommendations) == "isolate_gpu"
    assert "free_gpu_process" not in [each.remedy for each in siblings.recommendations]
    strangers = diagnose({"container.log": log.replace("Process 21 has", "Process 4021 has")})
    assert next(each.remedy for each in strangers.recommendations) == "free_gpu_process"
