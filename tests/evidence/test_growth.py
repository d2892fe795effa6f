"""A use that only grows over several looks is told from one that moves up and down."""

import pytest

from bot.evidence import node_readings, nvidia_smi

HEAD = "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n"


def looks(*used: int) -> dict[str, object]:
    text = HEAD + "".join(f"2025/01/01 0{hour}:00:00.000, 0, NVIDIA H100, {amount} MiB, 81559 MiB\n" for hour, amount in enumerate(used))
    return {fact.name: fact.value for fact in nvidia_smi.read(text.encode(), "nvidia-smi.txt").facts}


def test_a_card_that_fills_over_several_looks_grows() -> None:
    assert looks(60_000, 62_000, 65_000, 70_000)["gpus.use_growth_bytes"] == 10_000 * 2**20


@pytest.mark.parametrize("used", [(60_000,), (60_000, 70_000), (60_000, 70_000, 61_000, 70_000), (70_000, 70_000, 70_000)])
def test_one_look_two_looks_and_ups_and_downs_are_no_growth(used: tuple[int, ...]) -> None:
    assert "gpus.use_growth_bytes" not in looks(*used)


def test_a_node_that_empties_is_told_from_a_busy_one() -> None:
    def sar(*free: int) -> set[str]:
        rows = "".join(f"0{hour}:00:01  {amount}  {amount}  1000  50.0\n" for hour, amount in enumerate(free))
        text = f"$ sar -r\n00:00:01  kbmemfree  kbavail  kbmemused  %memused\n{rows}"
        return {fact.name for fact in node_readings.read(text.encode(), "node_readings.txt").facts}

    assert "node.memory_fall_bytes" in sar(9_000_000, 8_000_000, 7_000_000, 5_000_000, 2_000_000)
    assert "node.memory_fall_bytes" not in sar(9_000_000, 3_000_000, 8_000_000, 2_000_000, 6_000_000)
