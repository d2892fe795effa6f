"""What the allocator's text proves: who held what on the card."""

from io import BytesIO

import pytest

from bot.diagnosis.allocation import facts_of
from bot.logs.events import events
from bot.model import Value
from bot.playbooks import load
from bot.units import GIB, MIB

KNOWLEDGE = load()
HEAD = "CUDA out of memory. Tried to allocate {wanted}. GPU 0 has a total capacity of 79.15 GiB of which {free} is free. "
TAIL = "Of the allocated memory {allocated} is allocated by PyTorch, and {idle} is reserved by PyTorch but unallocated."


def read(line: str) -> dict[str, Value]:
    found = [event for event in events(KNOWLEDGE.scanner.scan(BytesIO(line.encode())).hits, "log") if event.message.kind == "device_oom"]
    return {fact.name: fact.value for fact in facts_of(found[0])}


def text(middle: str, wanted: str = "1.00 GiB", free: str = "500.00 MiB", allocated: str = "40.00 GiB", idle: str = "100.00 MiB") -> str:
    return HEAD.format(wanted=wanted, free=free) + middle + TAIL.format(allocated=allocated, idle=idle)


def test_the_server_is_found_behind_the_numbers_of_another_pid_namespace() -> None:
    found = read(text("Process 35757 has 77.99 GiB memory in use. ", allocated="77.05 GiB"))
    assert found["alloc.own_bytes"] == round(77.99 * GIB)
    assert int(found["alloc.others_bytes"]) < GIB


def test_others_are_what_neither_the_server_nor_the_free_memory_is() -> None:
    found = read(text("Process 11 has 36.00 GiB memory in use. Process 12 has 41.50 GiB memory in use. "))
    assert found["alloc.own_bytes"] == round(41.5 * GIB)
    assert found["alloc.others_bytes"] == 36 * GIB
    assert round(float(found["alloc.others_share"]), 2) == 0.45


def test_own_memory_that_is_named_leaves_the_rest_to_others() -> None:
    found = read(text("Including non-PyTorch memory, this process has 42.00 GiB memory in use. "))
    assert round(int(found["alloc.others_bytes"]) / GIB, 1) == 36.7
    assert found["alloc.outside_torch_bytes"] == 42 * GIB - 40 * GIB - 100 * MIB


def test_a_wrong_number_of_windows_is_nobody() -> None:
    found = read(text("Process 0 has 17179869184.00 GiB memory in use. Including non-PyTorch memory, this process has 78.66 GiB memory in use. "))
    assert int(found["alloc.others_bytes"]) < GIB


@pytest.mark.parametrize(("idle", "covers"), [("402.27 MiB", True), ("41.20 MiB", False)])
def test_unused_reserve_that_covers_the_request_is_fragmentation(idle: str, covers: bool) -> None:
    found = read(text("Including non-PyTorch memory, this process has 78.66 GiB memory in use. ", wanted="384.00 MiB", free="329.87 MiB", idle=idle))
    assert found["alloc.slack_covers_request"] is covers


def test_the_oldest_text_gives_the_reserve_by_subtraction() -> None:
    found = read(
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.65 GiB total capacity; 20.00 GiB already allocated; 1.06 GiB free; 22.00 GiB reserved in total by PyTorch)"
    )
    assert found["alloc.unallocated_bytes"] == 2 * GIB


def test_more_free_than_asked_for_is_said() -> None:
    assert read(text("", wanted="3.20 GiB", free="51.84 GiB", allocated="28.10 GiB"))["alloc.free_exceeds_requested"] is True


@pytest.mark.parametrize(("large", "alike"), [("", True), ("Process 207 has 21.44 GiB memory in use. ", False)])
def test_a_large_process_beside_small_ones_is_one_of_the_others(large: str, alike: bool) -> None:
    ranks = "Process 71 has 412.00 MiB memory in use. Process 72 has 412.00 MiB memory in use. "
    found = read(text(large + ranks + "Including non-PyTorch memory, this process has 12.10 GiB memory in use. ", allocated="11.02 GiB"))
    assert found["alloc.others_alike"] is alike


def test_what_others_hold_is_a_range_where_the_text_does_not_say_what_this_process_holds_outside_pytorch() -> None:
    found = read("RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 14.76 GiB total capacity; 4.37 GiB already allocated; 14.75 MiB free; 4.43 GiB reserved in total by PyTorch)")
    least, most = found["alloc.others_bytes"], found["alloc.others_most_bytes"]
    assert isinstance(least, int)
    assert isinstance(most, int)
    assert round(least / GIB, 1) == 6.3
    assert round(most / GIB, 1) == 10.3
    assert "alloc.others_most_bytes" not in read(text("Process 1 has 41.00 GiB memory in use. Process 2 has 37.00 GiB memory in use. "))
