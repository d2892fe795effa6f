"""What repeated allocation errors of one process say about growth."""

from io import BytesIO

import pytest

from bot.diagnosis.growth import facts_of
from bot.logs.events import events
from bot.model import Value
from bot.playbooks import load
from bot.units import GIB
from tests.diagnosis.bundles import diagnose

KNOWLEDGE = load()
STATS = "INFO 02-11 04:{minute:02d}:00 [loggers.py:257] Engine 000: Avg prompt throughput: 540.8 tokens/s, Avg generation throughput: 512.0 tokens/s, Running: 6 reqs, Waiting: 0 reqs, GPU KV cache usage: 38.8%"
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {wanted:.2f} GiB. GPU 0 has a total capacity of 79.10 GiB of which 5.20 GiB is free. "
    "Process 4711 has {own:.2f} GiB memory in use. Of the allocated memory {held:.2f} GiB is allocated by PyTorch, and 180.00 MiB is reserved by PyTorch but unallocated."
)


def read(*pairs: tuple[float, float], clock: bool = True, process: str = "") -> dict[str, Value]:
    """The facts of errors given as (GiB asked for, GiB in use), two minutes apart."""
    lines = []
    for number, (wanted, held) in enumerate(pairs):
        lines += [STATS.format(minute=2 * number)] if clock else []
        lines.append((process.format(number) if process else "") + OOM.format(wanted=wanted, own=held + 1.2, held=held))
    found = events(KNOWLEDGE.scanner.scan(BytesIO("\n".join(lines).encode())).hits, "container.log")
    return {fact.name: fact.value for fact in facts_of([event for event in found if event.message.kind == "device_oom"], found)}


def test_use_that_only_rises_under_equal_requests_grows() -> None:
    assert read((10, 68), (10, 68.5), (10, 69.25)) == {
        "alloc.grows": True,
        "alloc.growth_bytes": 5 * GIB // 4,
        "alloc.growth_errors": 3,
        "alloc.growth_s": 240.0,
    }


def test_without_a_clock_the_time_of_the_growth_stays_unknown() -> None:
    assert "alloc.growth_s" not in read((10, 68), (10, 68.5), clock=False)


@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param([(10, 68)], id="one error"),
        pytest.param([(10, 68), (10, 68)], id="level use"),
        pytest.param([(10, 68), (10, 70), (10, 69)], id="use that falls again"),
        pytest.param([(10, 68), (4, 74)], id="a smaller request, which fails with more in use"),
    ],
)
def test_anything_else_is_no_growth(pairs: list[tuple[float, float]]) -> None:
    assert read(*pairs) == {"alloc.grows": False}


def test_errors_of_several_processes_are_not_compared() -> None:
    assert read((10, 68), (10, 70), process="(Worker_TP{0} pid=1{0}) ") == {"alloc.grows": False}


def diagnosed(minutes: int, count: int) -> tuple[str, list[str]]:
    """The cause of `count` errors that grow, `minutes` apart, and the rivals that stay open."""
    lines = ["INFO:     Application startup complete."]
    for number in range(count):
        lines += [STATS.format(minute=minutes * number), OOM.format(wanted=10, own=69.2 + number / 2, held=68 + number / 2)]
    found = diagnose({"container.log": "\n".join(lines) + '\nINFO:     192.0.2.5:51022 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error\n'})
    return found.cause, [rival.cause for rival in found.runners_up]


def test_growth_over_several_errors_and_some_time_is_a_leak() -> None:
    assert diagnosed(minutes=2, count=4) == ("memory_leak", [])


@pytest.mark.parametrize(("minutes", "count"), [(2, 2), (0, 4)])
def test_growth_that_is_no_proof_yet_stays_open_beside_the_peak(minutes: int, count: int) -> None:
    assert diagnosed(minutes, count) == ("runtime_burst", ["memory_leak"])


def test_a_server_that_answers_is_not_called_healthy_while_the_memory_of_its_node_runs_out() -> None:
    stats = STATS.format(minute=5) + ", Prefix cache hit rate: 3.4%\n"
    head = "00:00:01    kbmemfree   kbavail kbmemused  %memused kbbuffers  kbcached\n"
    rows = "".join(f"{4 * step:02d}:00:01    {380_000_000 - 70_000_000 * step} {460_000_000 - 80_000_000 * step} {54_525_952 + 100_000_000 * step}     10.26    212992  81788928\n" for step in range(1, 6))
    assert diagnose({"container.log": stats}).cause == "healthy"
    assert diagnose({"container.log": stats, "node_readings.txt": "$ sar -r\n" + head + rows}).cause == "memory_leak"
